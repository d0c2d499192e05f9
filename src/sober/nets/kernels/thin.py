"""Kernels at the pictures, whose few channels would leave a product of blocks and corners idle: the first convolution
and the last transposed one, forward and back. Pictures lie (height, width, channels, rows), flat, and weights are
(16 * channels, b) or, as a transposed convolution has them, (b, 16 * channels)."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jaxtyping import Array, Float

from sober.nets.kernels.launch import Launch
from sober.nets.kernels.layout import Grids, power_of_two
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
    tap_weight,
    taps,
    touching,
    within,
)
from sober.nets.kernels.wide import weights

WINDOW = 64  # numbers of a picture under a block of the second layer, 6 x 6 in rows of 8, and ones in the last place


def thin_down(
    x: Float[Array, " picture"],
    weight: Float[Array, "16c b"],
    bias: Float[Array, " b"],
    grids: Grids,
    launch: Launch,
    interpret: bool,
) -> Float[Array, " coarse"]:
    """First convolution: relu(taps^T @ weight + bias). A program makes a row of coarse pixels."""
    h, w, rows, _, b = grids
    tile = launch.pixels * rows

    def program(x_ref: Any, w_ref: Any, b_ref: Any, y_ref: Any) -> None:
        i = pl.program_id(0)
        taps_weight, shift = tap_weight(w_ref, grids, True, x_ref.dtype), load(b_ref, iota((1, b), 1)).astype(F32)

        def step(s: Any, _: Any) -> Any:
            y = dot(load(x_ref, *taps(grids, launch.pixels, i, s * launch.pixels)), taps_weight, (0, 0))
            place = (i * w + s * launch.pixels) * (rows * b) + matrix(tile, b)
            store(y_ref, place, activated(y, shift, y_ref.dtype))
            return 0

        jax.lax.fori_loop(0, w // launch.pixels, step, 0)

    inputs, outputs = [x, weight.reshape(-1), bias], [(grids.coarse, x.dtype)]
    return call(f"thin_down_{h}", program, (h,), inputs, outputs, launch, interpret)[0]


def thin_up(
    x: Float[Array, " coarse"],
    weight: Float[Array, "b 16c"],
    bias: Float[Array, " c"],
    grids: Grids,
    launch: Launch,
    interpret: bool,
) -> Float[Array, " picture"]:
    """Last transposed convolution, without a ReLU; also the way back through the first convolution. A program makes one
    or two rows of blocks, three columns at a time, of 4 coarse pixels in each of two or three rows, with the weight
    laid out for them: a product of one block would have four columns for each channel."""
    h, w, rows, a, b = grids
    bands, real = launch.bands, 16 * launch.bands * a
    k, n = 4 * b, power_of_two(real)
    laid = _laid_out(weight.astype(x.dtype), bands, n)

    def program(x_ref: Any, w_ref: Any, b_ref: Any, y_ref: Any) -> None:
        i0 = pl.program_id(0) * bands
        band_weights = [load(w_ref, r * k * n + matrix(k, n)) for r in range(bands + 1)]
        near, row, column = iota((1, k), 1), iota((rows, 1), 0), iota((1, n), 1)
        dj, local_offsets = div(near, b), div(near, b) * (rows * b) + row * b + rem(near, b)
        pixel, channel = div(column, a), rem(column, a)
        cut, place = div(pixel, 4), rem(pixel, 4)
        oi, oj = 2 * div(cut, 4) + div(place, 2), 2 * rem(cut, 4) + rem(place, 2)
        out = ((oi * (2 * w) + oj) * a + channel) * rows + row
        exists = (rem(cut, 4) < 3) & within(2 * i0 - 1 + oi, 2 * h)
        if real < n:
            exists = exists & (column < real)
        shift = load(b_ref, channel + 0 * column, column < real).astype(F32)

        def step(s: Any, _: Any) -> Any:
            j0, y = 3 * s, shift
            for r in range(bands + 1):
                inside = within(j0 - 1 + dj, w) & within(i0 - 1 + r, h)
                y = y + dot(
                    load(x_ref, ((i0 - 1 + r) * w + j0 - 1) * (rows * b) + local_offsets, inside), band_weights[r]
                )
            offsets = ((2 * i0 - 1) * (2 * w) + 2 * j0 - 1) * (a * rows) + out
            store_some(y_ref, offsets, y, exists & within(2 * j0 - 1 + oj, 2 * w), interpret)
            return 0

        jax.lax.fori_loop(0, (w + 3) // 3, step, 0)

    grid, inputs, outputs = (-(-(h + 1) // bands),), [x, laid.reshape(-1), bias], [(grids.fine, x.dtype)]
    return call(f"thin_up_{h}", program, grid, inputs, outputs, launch, interpret)[0]


def _laid_out(weight: Float[Array, "b 16c"], bands: int, columns: int) -> Float[Array, "bands+1 4b columns"]:
    """The weight between 4 coarse pixels of each row and `bands` rows of 4 blocks; the last block of a row is empty."""
    b = len(weight)
    corner = np.full((bands + 1, 4, bands, 4), -1)  # which of its corners a block has at a coarse pixel, if any
    for r, c, y, x in np.ndindex(bands + 1, 4, bands, 3):
        if y + 1 - r in (0, 1) and x + 1 - c in (0, 1):
            corner[r, c, y, x] = 2 * (y + 1 - r) + x + 1 - c
    parts = weight.reshape(b, 4, -1).transpose(1, 0, 2)[np.maximum(corner, 0)]  # (…, b, place and channel)
    parts = jnp.where(corner[..., None, None] >= 0, parts, 0).transpose(0, 1, 4, 2, 3, 5)
    parts = parts.reshape(bands + 1, 4 * b, -1)
    return jnp.pad(parts, ((0, 0), (0, 0), (0, columns - parts.shape[-1])))


def thin_back(
    g: Float[Array, " picture"],
    activation: Float[Array, " coarse"],
    weight: Float[Array, "b 16"],
    grids: Grids,
    launch: Launch,
    interpret: bool,
) -> tuple[Float[Array, " coarse"], Float[Array, "b 16"], Float[Array, " b"]]:
    """Back through the last transposed convolution to one channel and the ReLU before it: the results of
    `thin_input_gradient` and `thin_weight_gradient`, each array read once. Only where checked: `passes.checked`."""
    h, _, rows, _, b = grids
    tile, parts = launch.pixels * rows, launch.parts

    def program(g_ref: Any, a_ref: Any, w_ref: Any, y_ref: Any, o_ref: Any, s_ref: Any) -> None:
        start, taps_weight = pl.program_id(0) * _steps(grids, launch), tap_weight(w_ref, grids, False, g_ref.dtype)

        def step(s: Any, carry: tuple[Array, Array]) -> tuple[Array, Array]:
            total, sums = carry
            slope, place = _at(g_ref, grids, launch, start + s)
            relu_output = load(a_ref, place)
            y = passed(dot(slope, taps_weight, (0, 0)), relu_output, y_ref.dtype)
            store(y_ref, place, y)
            return total + dot(slope, relu_output), sums + y.astype(F32)

        begin = jnp.zeros((16, b), F32), jnp.zeros((tile, b), F32)
        total, sums = jax.lax.fori_loop(0, _steps(grids, launch), step, begin)
        store(o_ref, pl.program_id(0) * (16 * b) + matrix(16, b), total)
        store(s_ref, pl.program_id(0) * b + iota((b,), 0), jnp.sum(sums, axis=0))

    outputs = [(grids.coarse, g.dtype), (parts * 16 * b, F32), (parts * b, F32)]
    inputs = [g, activation, weight.reshape(-1)]
    y, total, sums = call(f"thin_back_{h}", program, (parts,), inputs, outputs, launch, interpret)
    return y, total.reshape(parts, 16, b).sum(0).T, sums.reshape(parts, b).sum(0)


def thin_input_gradient(
    g: Float[Array, " picture"],
    activation: Float[Array, " coarse"],
    weight: Float[Array, "b 16c"],
    grids: Grids,
    launch: Launch,
    interpret: bool,
) -> tuple[Float[Array, " coarse"], Float[Array, " b"]]:
    """Back through the last transposed convolution and the ReLU before it, which made `activation`; and the sums of the
    result over all but channels, the gradient of the bias before that."""
    h, _, rows, _, b = grids
    tile, parts = launch.pixels * rows, launch.parts

    def program(g_ref: Any, a_ref: Any, w_ref: Any, y_ref: Any, s_ref: Any) -> None:
        start, taps_weight = pl.program_id(0) * _steps(grids, launch), tap_weight(w_ref, grids, False, g_ref.dtype)

        def step(s: Any, sums: Array) -> Array:
            slope, place = _at(g_ref, grids, launch, start + s)
            y = passed(dot(slope, taps_weight, (0, 0)), load(a_ref, place), y_ref.dtype)
            store(y_ref, place, y)
            return sums + y.astype(F32)

        sums = jax.lax.fori_loop(0, _steps(grids, launch), step, jnp.zeros((tile, b), F32))
        store(s_ref, pl.program_id(0) * b + iota((b,), 0), jnp.sum(sums, axis=0))

    inputs, outputs = [g, activation, weight.reshape(-1)], [(grids.coarse, g.dtype), (parts * b, F32)]
    y, sums = call(f"thin_input_gradient_{h}", program, (parts,), inputs, outputs, launch, interpret)
    return y, sums.reshape(parts, b).sum(0)


def thin_weight_gradient(
    picture: Float[Array, " picture"], coarse: Float[Array, " coarse"], grids: Grids, launch: Launch, interpret: bool
) -> Float[Array, "16c b"]:
    """The sum over coarse pixels of taps(picture) @ coarse, in float32. One product in the loop and nothing else."""
    h, _, _, _, b = grids
    rows, parts = grids.taps, launch.parts

    def program(p_ref: Any, c_ref: Any, o_ref: Any) -> None:
        start = pl.program_id(0) * _steps(grids, launch)

        def step(s: Any, total: Array) -> Array:
            tapped, place = _at(p_ref, grids, launch, start + s)
            return total + dot(tapped, load(c_ref, place))

        total = jax.lax.fori_loop(0, _steps(grids, launch), step, jnp.zeros((rows, b), F32))
        store(o_ref, pl.program_id(0) * (rows * b) + matrix(rows, b), total)

    outputs = [(parts * rows * b, F32)]
    (out,) = call(f"thin_weight_gradient_{h}", program, (parts,), [picture, coarse], outputs, launch, interpret)
    return out.reshape(parts, rows, b).sum(0)[: 16 * grids.a]


def _steps(grids: Grids, launch: Launch) -> int:
    return grids.h * grids.w // launch.pixels // launch.parts


def _at(ref: Any, grids: Grids, launch: Launch, step: Any) -> tuple[Array, Array]:
    """The picture's numbers under the coarse pixels of a step, and where those pixels are."""
    first = step * launch.pixels
    place = first * (grids.rows * grids.b) + matrix(launch.pixels * grids.rows, grids.b)
    return load(ref, *taps(grids, launch.pixels, div(first, grids.w), rem(first, grids.w))), place


def first_layers_back(
    x: Float[Array, " picture"],
    g: Float[Array, " coarse"],
    weight: Float[Array, "blocks corners"],
    activation: Float[Array, " fine"],
    grids: Grids,
    launch: Launch,
    interpret: bool,
) -> tuple[Float[Array, "16 a"], Float[Array, " a"]]:
    """Back through the second convolution to weight and bias of the first, on pictures of one channel. The gradient
    between them is never written. Only where it was checked: `passes.checked`.

    A block of that gradient meets the 6 x 6 pixels under it at once: window @ block holds all products of a tap and a
    channel, and sums of the block in a row to spare. `grids` describes the second layer.
    """
    h, w, rows, a, b = grids
    n, steps, parts = 4 * a, -(-grids.blocks // launch.parts), launch.parts

    def program(x_ref: Any, g_ref: Any, w_ref: Any, a_ref: Any, o_ref: Any) -> None:
        start = pl.program_id(0) * steps
        weight_part = weights(w_ref, grids, (n, 4 * b), (0, 0), True, g_ref.dtype)
        u = iota((WINDOW, 1), 0)
        down, right = div(u, 8), rem(u, 8)
        local_offsets = (down * (4 * w) + right) * rows + iota((1, rows), 1)

        def load_activation(s: Any) -> Array:
            return load(a_ref, *block(grids, div(start + s, w + 1), rem(start + s, w + 1), n))

        def step(s: Any, carry: tuple[Array, Array]) -> tuple[Array, Array]:
            total, relu_output = carry
            later = load_activation(s + 1)  # one ahead: the compiler hurries only what products load
            i, j = div(start + s, w + 1), rem(start + s, w + 1)
            slope = passed(
                dot(load(g_ref, *touching(grids, i, j, 4 * b)), weight_part, (1, 1)), relu_output, g_ref.dtype
            )
            exists = within(4 * i - 3 + down, 4 * h) & within(4 * j - 3 + right, 4 * w) & (down < 6) & (right < 6)
            window = load(x_ref, ((4 * i - 3) * (4 * w) + 4 * j - 3) * rows + local_offsets, exists)
            window = jnp.where(u == WINDOW - 1, jnp.ones((), window.dtype), window)
            return total + dot(window, slope), later

        total, _ = jax.lax.fori_loop(0, steps, step, (jnp.zeros((WINDOW, n), F32), load_activation(0)))
        store(o_ref, pl.program_id(0) * (WINDOW * n) + matrix(WINDOW, n), total)

    inputs, outputs = [x, g, weight.reshape(-1), activation], [(parts * WINDOW * n, F32)]
    (out,) = call(f"first_layers_back_{h}", program, (parts,), inputs, outputs, launch, interpret)
    out = out.reshape(parts, WINDOW, 4, a).sum(0)
    return jnp.einsum("upc,upt->tc", out, _taps_of_window(), precision="highest"), out[WINDOW - 1].sum(0)


def _taps_of_window() -> Float[np.ndarray, "window 4 16"]:
    """The tap of the first layer at each place in the window, for each place in the block, as a one-hot."""
    tap_of_place = np.zeros((WINDOW, 4, 16), np.float32)
    for place, tap in np.ndindex(4, 16):
        y, x = 2 * (tap // 8) + tap // 2 % 2, 2 * (tap // 4 % 2) + tap % 2
        tap_of_place[8 * (2 * (place // 2) + y) + 2 * (place % 2) + x, place, tap] = 1
    return tap_of_place
