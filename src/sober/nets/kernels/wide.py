"""Kernels between two grids of many channels: 4 x 4 (transposed) convolutions of stride 2, forward and back.

Weights lie as in `layers.py`: (4a, 4b) between *blocks* of the fine grid and *corners* of the coarse one, or (4b, 4a)
in a transposed convolution. Each kernel is written for one model and one tile of its batch; `vmap` gives
it more.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jaxtyping import Array, Float

from sober.nets.kernels.launch import Launch
from sober.nets.kernels.layout import Grids
from sober.nets.kernels.tiles import (
    F32,
    activated,
    block,
    call,
    div,
    dot,
    iota,
    load,
    matrix,
    passed,
    rem,
    store,
    store_some,
    touching,
    within,
)


def down(
    x: Float[Array, " fine"],
    weight: Float[Array, "blocks corners"],
    bias: Float[Array, " b"],
    grids: Grids,
    launch: Launch,
    interpret: bool,
) -> Float[Array, " coarse"]:
    """Convolution: relu(collect(blocks(x) @ weight) + bias)."""
    _, _, rows, _, b = grids
    tile = launch.pixels * rows

    def program(x_ref: Any, w_ref: Any, b_ref: Any, y_ref: Any) -> None:
        shift = load(b_ref, iota((1, b), 1)).astype(F32)
        y = activated(_summed(x_ref, w_ref, grids, launch, True), shift, y_ref.dtype)
        store(y_ref, pl.program_id(0) * (tile * b) + matrix(tile, b), y)

    count = grids.h * grids.w // launch.pixels
    inputs = [x, weight.reshape(-1), bias]
    return call(f"down_{grids.h}", program, (count,), inputs, [(grids.coarse, x.dtype)], launch, interpret)[0]


def down_back(
    g: Float[Array, " fine"],
    weight: Float[Array, "corners blocks"],
    activation: Float[Array, " coarse"],
    grids: Grids,
    launch: Launch,
    interpret: bool,
) -> tuple[Float[Array, " coarse"], Float[Array, " b"]]:
    """Back through a transposed convolution and the ReLU before it, which made `activation`; and the sums of the result
    over all but channels, the gradient of the bias before that."""
    _, _, rows, _, b = grids
    tile = launch.pixels * rows

    def program(g_ref: Any, w_ref: Any, a_ref: Any, y_ref: Any, s_ref: Any) -> None:
        place = pl.program_id(0) * (tile * b) + matrix(tile, b)
        relu_output = load(a_ref, place)  # early, so that it is there when the products are
        y = passed(_summed(g_ref, w_ref, grids, launch, False), relu_output, y_ref.dtype)
        store(y_ref, place, y)
        store(s_ref, pl.program_id(0) * b + iota((b,), 0), jnp.sum(y.astype(F32), axis=0))

    count = grids.h * grids.w // launch.pixels
    inputs, outputs = [g, weight.reshape(-1), activation], [(grids.coarse, g.dtype), (count * b, F32)]
    y, sums = call(f"down_back_{grids.h}", program, (count,), inputs, outputs, launch, interpret)
    return y, sums.reshape(count, b).sum(0)


def _summed(x_ref: Any, w_ref: Any, grids: Grids, launch: Launch, blocks_first: bool) -> Float[Array, "tile b"]:
    """The convolution at the coarse pixels of this program, for all rows, tap by tap."""
    h, w, rows, a, b = grids
    tile = launch.pixels * rows
    q = iota((tile, 1), 0)
    first = pl.program_id(0) * launch.pixels
    i, j0 = div(first, w), rem(first, w)
    j = j0 + div(q, rows)
    local_offsets = div(q, rows) * (2 * rows * a) + rem(q, rows) * a + iota((1, a), 1)

    def tap(s: Any, total: Array) -> Array:
        corner, place = div(s, 4), rem(s, 4)
        y, x = 2 * (i + div(corner, 2)) - 1 + div(place, 2), 2 * rem(corner, 2) - 1 + rem(place, 2)
        exists = within(y, 2 * h) & within(x + 2 * j, 2 * w)
        pixel = load(x_ref, (y * (2 * w) + x + 2 * j0) * (rows * a) + local_offsets, exists)
        return total + dot(pixel, weights(w_ref, grids, (a, b), (place * a, corner * b), blocks_first, x_ref.dtype))

    return jax.lax.fori_loop(0, 16, tap, jnp.zeros((tile, b), F32))


def weights(
    ref: Any, grids: Grids, shape: tuple[int, int], first: tuple[Any, Any], blocks_first: bool, dtype: Any
) -> Array:
    """A part of the (blocks, corners) matrix, which is kept so or transposed."""
    r, c = first[0] + iota(shape, 0), first[1] + iota(shape, 1)
    offsets = r * (4 * grids.b) + c if blocks_first else c * (4 * grids.a) + r
    return load(ref, offsets).astype(dtype)


def up(
    x: Float[Array, " coarse"],
    weight: Float[Array, "corners blocks"],
    bias: Float[Array, " a"],
    grids: Grids,
    launch: Launch,
    interpret: bool,
) -> Float[Array, " fine"]:
    """Transposed convolution: relu(unblocks(spread(x) @ weight) + bias). A program makes consecutive blocks, one
    product each, and holds its part of the weight all along."""
    _, w, _, a, b = grids
    columns, steps = min(launch.columns, 4 * a), -(-grids.blocks // launch.parts)

    def program(x_ref: Any, w_ref: Any, b_ref: Any, y_ref: Any) -> None:
        start, first_column = pl.program_id(0) * steps, pl.program_id(1) * columns
        weight_part = weights(w_ref, grids, (columns, 4 * b), (first_column, 0), False, x_ref.dtype)
        shift = load(b_ref, rem(first_column + iota((1, columns), 1), a)).astype(F32)

        def step(s: Any, _: Any) -> Any:
            i, j = div(start + s, w + 1), rem(start + s, w + 1)
            y = dot(load(x_ref, *touching(grids, i, j, 4 * b)), weight_part, (1, 1))
            offsets, exists = block(grids, i, j, columns, first_column)  # past the last block there is none to write
            store_some(y_ref, offsets, activated(y, shift, y_ref.dtype), exists, interpret)
            return 0

        jax.lax.fori_loop(0, steps, step, 0)

    grid, inputs = (launch.parts, 4 * a // columns), [x, weight.reshape(-1), bias]
    return call(f"up_{grids.h}", program, grid, inputs, [(grids.fine, x.dtype)], launch, interpret)[0]


def up_back(
    g: Float[Array, " coarse"],
    weight: Float[Array, "blocks corners"],
    activation: Float[Array, " fine"],
    grids: Grids,
    launch: Launch,
    interpret: bool,
) -> tuple[Float[Array, " fine"], Float[Array, " a"]]:
    """Back through a convolution and the ReLU before it, which made `activation`; and the sums of the result over all
    but channels, the gradient of the bias before that."""
    _, w, rows, a, b = grids
    columns, steps = min(launch.columns, 4 * a), -(-grids.blocks // launch.parts)

    def program(g_ref: Any, w_ref: Any, a_ref: Any, y_ref: Any, s_ref: Any) -> None:
        start, first_column = pl.program_id(0) * steps, pl.program_id(1) * columns
        weight_part = weights(w_ref, grids, (columns, 4 * b), (first_column, 0), True, g_ref.dtype)

        def where(s: Any) -> Any:
            return block(grids, div(start + s, w + 1), rem(start + s, w + 1), columns, first_column)

        def step(s: Any, carry: tuple[Array, Array]) -> tuple[Array, Array]:
            relu_output, sums = carry
            later = load(a_ref, *where(s + 1))  # one ahead: the compiler hurries only what products load
            i, j = div(start + s, w + 1), rem(start + s, w + 1)
            y = dot(load(g_ref, *touching(grids, i, j, 4 * b)), weight_part, (1, 1))
            offsets, exists = where(s)
            y = passed(y, relu_output, y_ref.dtype)
            store_some(y_ref, offsets, y, exists, interpret)
            return later, sums + y.astype(F32)

        begin = load(a_ref, *where(0)), jnp.zeros((rows, columns), F32)
        _, sums = jax.lax.fori_loop(0, steps, step, begin)
        store(s_ref, pl.program_id(0) * (4 * a) + first_column + iota((columns,), 0), jnp.sum(sums, axis=0))

    grid, inputs = (launch.parts, 4 * a // columns), [g, weight.reshape(-1), activation]
    outputs = [(grids.fine, g.dtype), (launch.parts * 4 * a, F32)]
    y, sums = call(f"up_back_{grids.h}", program, grid, inputs, outputs, launch, interpret)
    return y, sums.reshape(-1, a).sum(0)


def weight_gradient(
    fine: Float[Array, " fine"],
    coarse: Float[Array, " coarse"],
    grids: Grids,
    launch: Launch,
    interpret: bool,
    blocks_first: bool,
) -> Float[Array, "i o"]:
    """The sum over blocks of blocks(fine)^T @ spread(coarse), in float32: (4a, 4b), or (4b, 4a) if not blocks_first.

    One product in the loop and nothing else: with a second one on the same tile (ones @ corners, for the bias) and
    three stages or more, results were wrong by up to 1.6e-2 (jaxlib 0.11.2), as if the next load met a product still
    running.
    """
    _, w, _, a, b = grids
    p, q, steps = min(launch.columns, 4 * a), min(launch.columns, 4 * b), -(-grids.blocks // launch.parts)
    shape, row_length = ((p, q), 4 * b) if blocks_first else ((q, p), 4 * a)

    def program(f_ref: Any, c_ref: Any, o_ref: Any) -> None:
        program_index, first, second = pl.program_id(0), pl.program_id(1) * p, pl.program_id(2) * q

        def step(s: Any, total: Array) -> Array:
            i, j = div(program_index * steps + s, w + 1), rem(program_index * steps + s, w + 1)
            left = load(f_ref, *block(grids, i, j, p, first))  # past the last block there is none to load
            right = load(c_ref, *touching(grids, i, j, q, second))
            return total + (dot(left, right, (0, 0)) if blocks_first else dot(right, left, (0, 0)))

        total = jax.lax.fori_loop(0, steps, step, jnp.zeros(shape, F32))
        row, column = (first, second) if blocks_first else (second, first)
        store(
            o_ref, program_index * (16 * a * b) + (row + iota(shape, 0)) * row_length + column + iota(shape, 1), total
        )

    grid, outputs = (launch.parts, 4 * a // p, 4 * b // q), [(launch.parts * 16 * a * b, F32)]
    (out,) = call(f"weight_gradient_{grids.h}", program, grid, [fine, coarse], outputs, launch, interpret)
    return out.reshape(launch.parts, -1, row_length).sum(0)
