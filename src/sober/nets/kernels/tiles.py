"""Building blocks of kernels: offsets of tiles in flat arrays, loads, stores, products, and the launch of a program.

Arrays lie pixels first and batch inside, (height, width, rows, channels), flat, and pictures (height, width, channels,
rows). A pixel of all rows is then one contiguous tile, with 64 rows just what a matrix instruction of a Hopper GPU
takes. A tap is the tile of another pixel, padding is a tile that is not loaded, and all products are of plain tiles
read in place: no copy, no pad, no transpose, and no mask that differs between the rows of a tile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Bool, Float, Int

from sober.nets.kernels.launch import Launch
from sober.nets.kernels.layout import Grids

F32 = jnp.float32
NOWHERE = 2**30  # past the end of every array

Offsets = Int[Array, "..."]
Mask = Bool[Array, "..."]
Program = Callable[..., None]


def iota(shape: tuple[int, ...], axis: int) -> Int[Array, "..."]:
    return jax.lax.broadcasted_iota(jnp.int32, shape, axis)


def div(x: Any, n: int) -> Any:
    return x if n == 1 else jax.lax.div(x, jnp.int32(n))


def rem(x: Any, n: int) -> Any:
    return 0 if n == 1 else jax.lax.rem(x, jnp.int32(n))


def within(x: Any, n: int) -> Mask:
    return (x >= 0) & (x < n)


def matrix(rows: int, columns: int) -> Offsets:
    """Offsets of a matrix that lies row by row."""
    return iota((rows, columns), 0) * columns + iota((rows, columns), 1)


def load(ref: Any, offsets: Offsets, mask: Mask | None = None) -> Array:
    if mask is None:
        return triton.load(ref.at[offsets])
    return triton.load(ref.at[offsets], mask=jnp.broadcast_to(mask, offsets.shape), other=0)


def store(ref: Any, offsets: Offsets, value: Array) -> None:
    triton.store(ref.at[offsets], value.astype(ref.dtype))


def store_some(ref: Any, offsets: Offsets, value: Array, mask: Mask, interpret: bool) -> None:
    """Where the mask holds. Interpreted, a number that is masked is written as it was, and must not meet another."""
    mask = jnp.broadcast_to(mask, offsets.shape)
    if interpret:
        offsets = jnp.where(mask, offsets, NOWHERE)
    triton.store(ref.at[offsets], value.astype(ref.dtype), mask=mask)


def dot(x: Array, y: Array, contract: tuple[int, int] = (1, 0)) -> Float[Array, "m n"]:
    """The product of two tiles over one axis of each, summed in float32."""
    precision = jax.lax.Precision.HIGHEST if x.dtype == F32 else None
    axes = (((contract[0],), (contract[1],)), ((), ()))
    return jax.lax.dot_general(x, y, axes, preferred_element_type=F32, precision=precision)


def activated(y: Float[Array, "m n"], bias: Float[Array, "1 n"], dtype: Any) -> Array:
    """relu(y + bias)."""
    return jnp.maximum(y + bias, 0).astype(dtype)


def passed(y: Float[Array, "m n"], activation: Array, dtype: Any) -> Array:
    """y where the activation is positive, else 0: back through a ReLU. Rounded first, so that what moves between
    threads is small."""
    return jnp.where(activation > 0, y.astype(dtype), jnp.zeros((), dtype))


def block(grids: Grids, i: Any, j: Any, columns: int, first: Any = 0) -> tuple[Offsets, Mask]:
    """Where block (i, j) of the fine grid is, and which of it exists: (rows, columns), from column `first` on. Columns
    are (place y, place x, channel)."""
    _, w, rows, a, _ = grids
    k = iota((1, columns), 1) + first
    y, x = div(div(k, a), 2), rem(div(k, a), 2)
    # A loop changes only the first summand of the offsets, so little is left to compute inside.
    local_offsets = (y * (2 * w) + x) * (rows * a) + rem(k, a) + iota((rows, 1), 0) * a
    exists = within(2 * i - 1 + y, 2 * grids.h) & within(2 * j - 1 + x, 2 * w)
    return ((2 * i - 1) * (2 * w) + 2 * j - 1) * (rows * a) + local_offsets, exists


def touching(grids: Grids, i: Any, j: Any, columns: int, first: Any = 0) -> tuple[Offsets, Mask]:
    """Where the four coarse pixels are that touch block (i, j): (rows, columns). Columns are (corner y, corner x,
    channel)."""
    h, w, rows, _, b = grids
    k = iota((1, columns), 1) + first
    y, x = div(div(k, b), 2), rem(div(k, b), 2)
    local_offsets = iota((rows, 1), 0) * b + rem(k, b) - (y * w + x) * (rows * b)
    return (i * w + j) * (rows * b) + local_offsets, within(i - y, h) & within(j - x, w)


def taps(grids: Grids, pixels: int, i: Any, j: Any) -> tuple[Offsets, Mask]:
    """Where the picture's numbers are under the coarse pixels (i, j), …, (i, j + pixels - 1): (taps, pixels * rows).
    Taps are (corner y, corner x, place y, place x, channel), and none from 16 * channels on."""
    h, w, rows, a, _ = grids
    t, q = iota((grids.taps, 1), 0), iota((1, pixels * rows), 1)
    tap, channel = div(t, a), rem(t, a)
    y, x = 2 * div(tap, 8) + rem(div(tap, 2), 2), 2 * rem(div(tap, 4), 2) + rem(tap, 2)
    local_offsets = ((y * (2 * w) + x + 2 * div(q, rows)) * a + channel) * rows + rem(q, rows)
    exists = within(2 * i - 1 + y, 2 * h) & within(2 * j - 1 + x + 2 * div(q, rows), 2 * w)
    if 16 * a < grids.taps:
        exists = exists & (t < 16 * a)
    return ((2 * i - 1) * (2 * w) + 2 * j - 1) * (a * rows) + local_offsets, exists


def tap_weight(ref: Any, grids: Grids, taps_first: bool, dtype: Any) -> Array:
    """The weight of the layer at the pictures, (taps, b), from (16 * channels, b) or its transpose."""
    real, t, k = 16 * grids.a, iota((grids.taps, grids.b), 0), iota((grids.taps, grids.b), 1)
    offsets = t * grids.b + k if taps_first else k * real + t
    return load(ref, offsets, t < real if real < grids.taps else None).astype(dtype)


def call(
    name: str,
    program: Program,
    grid: tuple[int, ...],
    inputs: Sequence[Array],
    outputs: Sequence[tuple[int, Any]],
    launch: Launch,
    interpret: bool,
) -> Sequence[Array]:
    """Runs a program at every point of a grid; outputs are flat, given by their sizes and types."""
    program.__name__ = name  # as profilers show it
    shapes = [jax.ShapeDtypeStruct((size,), dtype) for size, dtype in outputs]
    return pl.pallas_call(
        program,
        grid=grid,
        in_specs=[pl.BlockSpec(x.shape, lambda *_: (0,)) for x in inputs],
        out_specs=[pl.BlockSpec(x.shape, lambda *_: (0,)) for x in shapes],
        out_shape=shapes,
        compiler_params=triton.CompilerParams(num_warps=launch.warps, num_stages=launch.stages),
        interpret=interpret,
    )(*inputs)
