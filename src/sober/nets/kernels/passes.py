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
from sober.nets.kernels.plan import ROWS, Grids, Layers, Plan

Tiles = Float[Array, "tiles flat"]
Tile = Float[Array, " flat"]
Use = Callable[..., Any]


def down(plan: Plan, models: int, x: Tiles, layers: Layers) -> tuple[Tiles, ...]:
    """What each ReLU makes."""
    return jax.vmap(functools.partial(_down, _use(plan, models), plan.grids, layers))(x)


def up(plan: Plan, models: int, x: Tiles, layers: Layers) -> tuple[Tiles, ...]:
    """What each ReLU makes but the first, and then the logits."""
    return jax.vmap(functools.partial(_up, _use(plan, models), plan.grids, layers))(x)


def down_back(
    plan: Plan, wanted: bool, models: int, layers: Layers, kept: tuple[Tiles, ...], slope: Tiles
) -> tuple[Tiles | None, Any]:
    """Gradients of the pictures, if they are wanted, and of all weights and biases, tile by tile."""
    return jax.vmap(functools.partial(_down_back, _use(plan, models), plan.grids, wanted, layers))(kept, slope)


def up_back(
    plan: Plan, wanted: bool, models: int, layers: Layers, kept: tuple[Tiles, ...], slope: Tiles
) -> tuple[Tiles | None, Any]:
    """Gradients of the input before its ReLU, if they are wanted, and of all weights and biases, tile by tile."""
    back, gradients = jax.vmap(functools.partial(_up_back, _use(plan, models), plan.grids, layers))(kept, slope)
    return back if wanted else None, gradients


def _use(plan: Plan, models: int) -> Use:
    """Runs a kernel on these grids with the settings for them."""

    def use(kernel: Callable[..., Any], grids: Grids, *arrays: Array, **how: Any) -> Any:
        launch = settings(kernel.__name__, grids, models, plan.tiles)
        return kernel(*arrays, grids, launch, plan.interpret, **how)

    return use


def _down(use: Use, grids: list[Grids], layers: Layers, x: Tile) -> tuple[Tile, ...]:
    (weight, bias), *rest = layers
    made = [use(thin.thin_down, grids[0], x, weight.astype(x.dtype), bias)]
    for joined, (weight, bias) in zip(grids[1:], rest, strict=True):
        made.append(use(wide.down, joined, made[-1], weight.astype(x.dtype), bias))
    return tuple(made)


def _up(use: Use, grids: list[Grids], layers: Layers, x: Tile) -> tuple[Tile, ...]:
    *rest, (weight, bias) = layers
    made = [x]
    for joined, (inner, shift) in zip(grids[:0:-1], rest, strict=True):
        made.append(use(wide.up, joined, made[-1], inner.astype(x.dtype), shift))
    return (*made[1:], use(thin.thin_up, grids[0], made[-1], weight, bias))


def _down_back(
    use: Use, grids: list[Grids], wanted: bool, layers: Layers, kept: tuple[Tile, ...], slope: Tile
) -> tuple[Tile | None, Any]:
    x, *made = kept
    g = jnp.where(made[-1] > 0, slope, 0)
    sums = jnp.sum(g.reshape(-1, grids[-1].b).astype(jnp.float32), axis=0)
    gradients = []
    fused = not wanted and checked(grids[0]) and grids[1].b == grids[0].b
    for k in range(len(layers) - 1, 0, -1):
        gradients.append((use(wide.weight_gradient, grids[k], made[k - 1], g, blocks_first=True), sums))
        weight = layers[k][0].astype(x.dtype)
        if k == 1 and fused:
            gradients.append(use(thin.first_layers_back, grids[1], x, g, weight, made[0]))
            return None, tuple(gradients[::-1])
        g, sums = use(wide.up_back, grids[k], g, weight, made[k - 1])
    gradients.append((use(thin.thin_weight_gradient, grids[0], x, g), sums))
    if not wanted:
        return None, tuple(gradients[::-1])
    back = use(thin.thin_up, grids[0], g, layers[0][0].T, jnp.zeros(grids[0].a))
    return back, tuple(gradients[::-1])


def _up_back(use: Use, grids: list[Grids], layers: Layers, kept: tuple[Tile, ...], slope: Tile) -> tuple[Tile, Any]:
    weight, dtype = layers[-1][0], slope.dtype
    if checked(grids[0]):
        g, gradient, sums = use(thin.thin_back, grids[0], slope, kept[-1], weight.astype(dtype))
    else:
        g, sums = use(thin.thin_input_gradient, grids[0], slope, kept[-1], weight.astype(dtype))
        gradient = use(thin.thin_weight_gradient, grids[0], slope, kept[-1]).T
    channels = slope.reshape(-1, grids[0].a, grids[0].rows)  # a picture lies (pixels, channels, rows)
    gradients = [(gradient, jnp.sum(channels.astype(jnp.float32), axis=(0, 2)))]
    for joined, (weight, _), made in zip(grids[1:], layers[-2::-1], kept[-2::-1], strict=True):
        gradients.append((use(wide.weight_gradient, joined, g, made, blocks_first=False), sums))
        g, sums = use(wide.down_back, joined, g, weight.astype(dtype), made)
    return g, tuple(gradients[::-1])


def checked(grids: Grids) -> bool:
    """Whether the kernels with two products in a loop were checked on a GPU at these grids, which are those at the
    pictures. Others take two kernels, each with one product: a second one on a tile can be silently wrong."""
    return (grids.a, grids.b, grids.rows) == (1, 32, ROWS)
