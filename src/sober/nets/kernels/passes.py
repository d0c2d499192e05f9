"""The forward and backward passes of a run of layers, kernel by kernel, over the tiles of a batch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from sober.nets.kernels import thin, wide
from sober.nets.kernels.launch import settings
from sober.nets.kernels.layout import ROWS, Grids, KernelLayout, Layers

Tiles = Float[Array, "tiles flat"]
Tile = Float[Array, " flat"]
Use = Callable[..., Any]


def down(layout: KernelLayout, models: int, x: Tiles, layers: Layers) -> tuple[Tiles, ...]:
    """The output of each ReLU."""
    return jax.vmap(functools.partial(_down, _use(layout, models), layout.grids, layers))(x)


def up(layout: KernelLayout, models: int, x: Tiles, layers: Layers) -> tuple[Tiles, ...]:
    """The output of each ReLU but the first, then the logits."""
    return jax.vmap(functools.partial(_up, _use(layout, models), layout.grids, layers))(x)


def down_back(
    layout: KernelLayout, wanted: bool, models: int, layers: Layers, activations: tuple[Tiles, ...], slope: Tiles
) -> tuple[Tiles | None, Any]:
    """Gradients of the pictures (if wanted) and of all weights and biases, tile by tile."""
    return jax.vmap(functools.partial(_down_back, _use(layout, models), layout.grids, wanted, layers))(
        activations, slope
    )


def up_back(
    layout: KernelLayout, wanted: bool, models: int, layers: Layers, activations: tuple[Tiles, ...], slope: Tiles
) -> tuple[Tiles | None, Any]:
    """Gradients of the input before its ReLU (if wanted) and of all weights and biases, tile by tile."""
    back, gradients = jax.vmap(functools.partial(_up_back, _use(layout, models), layout.grids, layers))(
        activations, slope
    )
    return back if wanted else None, gradients


def _use(layout: KernelLayout, models: int) -> Use:
    """A function that runs a kernel on given grids with the settings for them."""

    def use(kernel: Callable[..., Any], grids: Grids, *arrays: Array, **options: Any) -> Any:
        launch = settings(kernel.__name__, grids, models, layout.tiles)
        return kernel(*arrays, grids, launch, layout.interpret, **options)

    return use


def _down(use: Use, grids: list[Grids], layers: Layers, x: Tile) -> tuple[Tile, ...]:
    (weight, bias), *deeper_layers = layers
    outputs = [use(thin.thin_down, grids[0], x, weight.astype(x.dtype), bias)]
    for joined, (weight, bias) in zip(grids[1:], deeper_layers, strict=True):
        outputs.append(use(wide.down, joined, outputs[-1], weight.astype(x.dtype), bias))
    return tuple(outputs)


def _up(use: Use, grids: list[Grids], layers: Layers, x: Tile) -> tuple[Tile, ...]:
    *inner_layers, (weight, bias) = layers
    outputs = [x]
    for joined, (inner, shift) in zip(grids[:0:-1], inner_layers, strict=True):
        outputs.append(use(wide.up, joined, outputs[-1], inner.astype(x.dtype), shift))
    return (*outputs[1:], use(thin.thin_up, grids[0], outputs[-1], weight, bias))


def _down_back(
    use: Use, grids: list[Grids], wanted: bool, layers: Layers, activations: tuple[Tile, ...], slope: Tile
) -> tuple[Tile | None, Any]:
    x, *outputs = activations
    g = jnp.where(outputs[-1] > 0, slope, 0)
    sums = jnp.sum(g.reshape(-1, grids[-1].b).astype(jnp.float32), axis=0)
    gradients = []
    fused = not wanted and checked(grids[0]) and grids[1].b == grids[0].b
    for k in range(len(layers) - 1, 0, -1):
        gradients.append((use(wide.weight_gradient, grids[k], outputs[k - 1], g, blocks_first=True), sums))
        weight = layers[k][0].astype(x.dtype)
        if k == 1 and fused:
            gradients.append(use(thin.first_layers_back, grids[1], x, g, weight, outputs[0]))
            return None, tuple(gradients[::-1])
        g, sums = use(wide.up_back, grids[k], g, weight, outputs[k - 1])
    gradients.append((use(thin.thin_weight_gradient, grids[0], x, g), sums))
    if not wanted:
        return None, tuple(gradients[::-1])
    back = use(thin.thin_up, grids[0], g, layers[0][0].T, jnp.zeros(grids[0].a))
    return back, tuple(gradients[::-1])


def _up_back(
    use: Use, grids: list[Grids], layers: Layers, activations: tuple[Tile, ...], slope: Tile
) -> tuple[Tile, Any]:
    weight, dtype = layers[-1][0], slope.dtype
    if checked(grids[0]):
        g, gradient, sums = use(thin.thin_back, grids[0], slope, activations[-1], weight.astype(dtype))
    else:
        g, sums = use(thin.thin_input_gradient, grids[0], slope, activations[-1], weight.astype(dtype))
        gradient = use(thin.thin_weight_gradient, grids[0], slope, activations[-1]).T
    channels = slope.reshape(-1, grids[0].a, grids[0].rows)  # a picture lies (pixels, channels, rows)
    gradients = [(gradient, jnp.sum(channels.astype(jnp.float32), axis=(0, 2)))]
    for joined, (weight, _), activation in zip(grids[1:], layers[-2::-1], activations[-2::-1], strict=True):
        gradients.append((use(wide.weight_gradient, joined, g, activation, blocks_first=False), sums))
        g, sums = use(wide.down_back, joined, g, weight.astype(dtype), activation)
    return g, tuple(gradients[::-1])


def checked(grids: Grids) -> bool:
    """Whether the kernels with two products in a loop were checked on a GPU for these grids, those at the pictures.

    Other grids use two kernels with one product each: a second product on a tile can be silently wrong.
    """
    return (grids.a, grids.b, grids.rows) == (1, 32, ROWS)
