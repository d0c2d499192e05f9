"""Discriminators of two kinds of codes (FactorVAE) or two kinds of pictures (DAVA, PIPE)."""

from __future__ import annotations

from jaxtyping import Array, Key

from sober.nets.autoencoder import Nets, Shape
from sober.nets.dense import stack
from sober.nets.layers import leaky_relu
from sober.nets.net import Net, net
from sober.nets.norms import InstanceNorm


def code_discriminator(key: Key[Array, ""], latents: int, units: int = 1000) -> Net:
    """Six layers of `units` with leaky ReLU, then two logits (Kim & Mnih 2018)."""
    return net(*stack(key, (latents, *[units] * 6, 2), leaky_relu))


def picture_discriminator(key: Key[Array, ""], nets: Nets, shape: Shape) -> Net:
    """The layers of the run's own encoder, with instance norm, then one logit (Estermann & Wattenhofer 2023)."""
    return nets.judge(key, shape, 1, InstanceNorm)
