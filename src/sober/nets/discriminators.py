"""Nets that tell two kinds of samples apart: kinds of codes (FactorVAE), kinds of pictures (DAVA).

Their outputs are logits in float32, whatever they compute in.
"""

from __future__ import annotations

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from sober.nets.dense import Stack
from sober.nets.nets import Nets, Shape, at_least_float32
from sober.nets.norms import InstanceNorm

leaky_relu = functools.partial(jax.nn.leaky_relu, negative_slope=0.2)


class CodeDiscriminator(eqx.Module):
    """Six layers of `units` with leaky ReLU, then two logits (Kim & Mnih 2018)."""

    stack: Stack

    def __init__(self, key: Key[Array, ""], latents: int, units: int = 1000) -> None:
        self.stack = Stack(key, (latents, *[units] * 6, 2), leaky_relu)

    def __call__(self, codes: Float[Array, "B D"], dtype: Any = jnp.float32) -> Float[Array, "B 2"]:
        return at_least_float32(self.stack(codes.astype(dtype)))


class PictureDiscriminator(eqx.Module):
    """The layers of the run's own encoder, with instance norm, then one logit (Estermann & Wattenhofer 2023)."""

    net: Any

    def __init__(self, key: Key[Array, ""], nets: Nets, shape: Shape) -> None:
        self.net = nets.judge(key, shape, 1, InstanceNorm)

    def __call__(self, pictures: Float[Array, "B H W C"], dtype: Any = jnp.float32) -> Float[Array, " B"]:
        return at_least_float32(self.net(pictures.astype(dtype))[:, 0])
