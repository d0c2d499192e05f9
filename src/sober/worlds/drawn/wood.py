"""Four woods of a desk top: colours at points of a plane, made by formula."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float32

Numbers = Float32[np.ndarray, " n"]
Colours = Float32[np.ndarray, "3 n"]

WOODS = ("pine", "oak", "walnut", "parquet")
LATTICE = np.random.default_rng(20).random((64, 64)).astype(np.float32)


def wood(name: str, x: Numbers, y: Numbers) -> Colours:
    """The colours of a wood at points of the desk, as a screen shows them, 0 to 1."""
    return {"pine": _pine, "oak": _oak, "walnut": _walnut, "parquet": _parquet}[name](x, y)


def _pine(x: Numbers, y: Numbers) -> Colours:
    """Pale boards with wide rings."""
    board, seam, shift = _boards(y, 0.92)
    figure = _rings(x * 0.35 + shift, (y - 0.92 * board) * 1.1 + 0.2 * shift, 5.0)
    return _mixed((0.93, 0.77, 0.52), (0.8, 0.56, 0.3), 0.75 * figure**2 + 0.25 * _fibres(x, y)) * (1 - 0.5 * seam)


def _oak(x: Numbers, y: Numbers) -> Colours:
    """Narrow boards, each of another tone, with short dark pores."""
    _, seam, shift = _boards(y, 0.42)
    pores = np.clip(3 * noise(x * 2.2 + 7 * shift, y * 38) - 1.9, 0, 1)
    tone = 0.5 * (shift % 1) + 0.3 * _rings(x * 0.5 + shift, y * 1.3, 4.0) + 0.35 * pores + 0.1 * _fibres(x, y)
    return _mixed((0.78, 0.6, 0.4), (0.5, 0.34, 0.2), tone) * (1 - 0.6 * seam)


def _walnut(x: Numbers, y: Numbers) -> Colours:
    """One dark slab with a flowing figure."""
    flow = y * 1.2 + 1.3 * noise(x * 0.6 + 3, y * 0.8) + 0.3 * noise(x * 1.9, y * 2.5)
    figure = 0.5 + 0.5 * np.sin(2 * np.pi * (flow * 1.9))
    return _mixed((0.47, 0.32, 0.22), (0.3, 0.19, 0.125), 0.55 * figure + 0.45 * _fibres(x * 0.7, y))


def _parquet(x: Numbers, y: Numbers) -> Colours:
    """Squares of three strips each, by turns along and across."""
    side = 0.6
    column, row = np.floor(x / side), np.floor(y / side)
    across = (column + row) % 2 == 1
    u, v = np.where(across, y, x), np.where(across, x, y)
    strip, seam, shift = _boards(v, side / 3)
    shift = _hashed(strip + 17 * column, row)
    edge = np.abs((u / side + 0.5) % 1 - 0.5) * side
    seam = np.maximum(seam, np.clip(1 - edge / 0.012, 0, 1))
    tone = 0.75 * shift + 0.3 * _fibres(u + 5 * shift, v) + 0.15 * across
    return _mixed((0.8, 0.47, 0.27), (0.5, 0.235, 0.13), tone) * (1 - 0.6 * seam)


def _boards(y: Numbers, width: float) -> tuple[Numbers, Numbers, Numbers]:
    """The number of the board that a point is on, the share of it that is seam, and a number of the board's own."""
    board = np.floor(y / width)
    edge = np.abs((y / width + 0.5) % 1 - 0.5) * width
    return board, np.clip(1 - edge / np.float32(0.014), 0, 1), 9 * _hashed(board, 0 * board)


def _rings(x: Numbers, y: Numbers, density: float) -> Numbers:
    """Dark lines of growth, 0 to 1, that run along x."""
    bent = y + 0.5 * noise(x * 1.7, y * 0.9) + 0.06 * noise(x * 6, y * 7)
    return np.float32(1) - np.abs((bent * density) % 1)


def _fibres(x: Numbers, y: Numbers) -> Numbers:
    return noise(x * 3, y * 45)


def _mixed(light: tuple[float, float, float], dark: tuple[float, float, float], share: Numbers) -> Colours:
    share = np.clip(share, 0, 1)
    return np.stack([a + (b - a) * share for a, b in zip(light, dark, strict=True)]).astype(np.float32)


def noise(x: Numbers, y: Numbers) -> Numbers:
    """Smooth noise, 0 to 1, with one hill or hollow for each unit of length."""
    column, row = np.floor(x), np.floor(y)
    u, v = x - column, y - row
    u, v = u * u * (3 - 2 * u), v * v * (3 - 2 * v)
    low = _hashed(column, row) * (1 - u) + _hashed(column + 1, row) * u
    high = _hashed(column, row + 1) * (1 - u) + _hashed(column + 1, row + 1) * u
    return low * (1 - v) + high * v


def _hashed(column: Numbers, row: Numbers) -> Numbers:
    """A fixed random number, 0 to 1, for each square of a lattice."""
    return LATTICE[column.astype(np.int32) % 64, row.astype(np.int32) % 64]
