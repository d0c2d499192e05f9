"""The runs of layers that kernels replace, in plain operations: what is right, at every order of derivative."""

from __future__ import annotations

from jaxtyping import Array, Float

from sober.nets.kernels.plan import Kind, Layers
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
