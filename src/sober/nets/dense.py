"""Fully connected nets: those of Higgins et al. and Chen et al. for dSprites, and a small pair for small pictures."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from sober.nets.autoencoder import Cost, Nets, Shape
from sober.nets.layers import Activation, Flatten, Grid, Linear
from sober.nets.net import Net, net
from sober.nets.norms import Norm, normed

Function = Callable[[Array], Array]


def stack(key: Key[Array, ""], widths: Sequence[int], activation: Function, norm: Norm = None) -> list[Any]:
    """Linear layers with a norm and an activation between them, as a list for `net`."""
    keys, last = jax.random.split(key, len(widths) - 1), len(widths) - 2
    parts: list[Any] = []
    for n, (i, o) in enumerate(itertools.pairwise(widths)):
        parts.append((f"stack.layers.{n}", Linear(keys[n], i, o)))
        if n < last:
            parts += [*normed(f"stack.norms.{n}", norm, o), Activation(activation)]
    return parts


def dense_encoder(
    key: Key[Array, ""],
    shape: Shape,
    outputs: int,
    norm: Norm = None,
    *,
    widths: Sequence[int],
    activation: Function = jax.nn.relu,
) -> Net:
    return net(Flatten(), *stack(key, (math.prod(shape), *widths, outputs), activation, norm))


def dense_decoder(
    key: Key[Array, ""], shape: Shape, latents: int, *, widths: Sequence[int], activation: Function
) -> Net:
    return net(*stack(key, (latents, *widths, math.prod(shape)), activation), Grid(shape))


dense = Nets(
    name="dense",
    summary="fully connected: encoder 1200-1200 ReLU, decoder 1200-1200-1200 tanh; any picture size",
    reference="Chen et al. (2018): Isolating Sources of Disentanglement in VAEs, appendix H.1",
    encoder=functools.partial(dense_encoder, widths=(1200, 1200)),
    decoder=functools.partial(dense_decoder, widths=(1200, 1200, 1200), activation=jnp.tanh),
    judge=functools.partial(dense_encoder, widths=(1200, 1200)),
    cost=Cost(cpu=1.5, gpu=2.1),
    least=32,
)

small = Nets(
    name="small",
    summary="fully connected with 64 units each way, for small pictures on a CPU; any picture size",
    reference="Sober",
    encoder=functools.partial(dense_encoder, widths=(64, 64)),
    decoder=functools.partial(dense_decoder, widths=(64, 64), activation=jax.nn.relu),
    judge=functools.partial(dense_encoder, widths=(64, 64)),
    cost=Cost(cpu=0.058, gpu=0.12),
    least=1,
    code_units=64,
)
