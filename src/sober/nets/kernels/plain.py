"""The runs of layers that kernels replace, in plain operations: the reference, for derivatives of every order."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from sober.nets.kernels.layout import Kind, Layers
from sober.nets.layers import add_bias, blocks, collect, corners, matmul, overlap, relu, spread, unblocks


def plain(kind: Kind, x: Float[Array, "B H W C"], layers: Layers) -> Float[Array, "B h w c"]:
    return {"down": down, "up": up}[kind](x, layers)


def down(x: Float[Array, "B H W C"], layers: Layers) -> Float[Array, "B h w c"]:
    """Convolutions, a ReLU after each."""
    for weight, bias in layers:
        thin = weight.shape[1] == len(bias)
        x = matmul(corners(blocks(x)), weight) if thin else collect(matmul(blocks(x), weight))
        x = relu(add_bias(x, bias))
    return x


def up(x: Float[Array, "B h w c"], layers: Layers) -> Float[Array, "B H W C"]:
    """Transposed convolutions, a ReLU before each."""
    for weight, bias in layers:
        x = relu(x)
        thin = weight.shape[0] == x.shape[-1]
        x = add_bias(unblocks(overlap(matmul(x, weight)) if thin else matmul(spread(x), weight)), bias)
    return x


def rounded(kind: Kind, x: Float[Array, "B H W C"], layers: Layers, dtype: Any) -> Float[Array, "B h w c"]:
    """The run in float32, rounded to another type where kernels round: weights, activations and gradients.

    Kernels differ from this only by the order of their sums.
    """
    bits = jnp.finfo(dtype)

    def narrow(x: Array) -> Array:
        return jax.lax.reduce_precision(x, bits.nexp, bits.nmant)  # and gradients too, on their way back

    for weight, bias in layers:
        near = weight + jax.lax.stop_gradient(narrow(weight) - weight)
        x = plain(kind, narrow(x), [(near, bias)])
    return narrow(x)
