"""How a representation moves when one factor changes and all others stay.

    same direction   the mean cosine between the moves of two pictures whose factor changes in the same way; 0 by chance
    own direction    1 minus the largest |cosine| between the mean move of this factor and that of another
    additive         how much of the move of two factors together is the sum of their own moves, as R²

Every factor moves from a quarter to three quarters of its values. Features are scaled to standard deviation 1 first.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Num

from sober.probing.knowledge import Number
from sober.probing.readout import Scaling
from sober.types import Factor

SINGLE, DOUBLE = 48, 24  # pictures in which one factor moves, and in which two do
Pair = tuple[int, int]


class Moves(NamedTuple):
    """Factors of pictures: for each factor that moves a block before and one after; for each pair of these four
    blocks, with neither, the first, the second and both moved. Rows of one block follow those of the one before."""

    factors: Num[np.ndarray, "R K"]
    moving: tuple[int, ...]  # the factors that have two values to move between

    @property
    def pairs(self) -> list[Pair]:
        return list(itertools.combinations(self.moving, 2))

    def blocks(self, features: Float[np.ndarray, "R D"]) -> tuple[Float[np.ndarray, "k 2 n D"], np.ndarray]:
        """Features by factor (before, after), and by pair (neither, first, second, both)."""
        width = features.shape[1]
        singles = len(self.moving) * 2 * SINGLE
        return (
            features[:singles].reshape(len(self.moving), 2, SINGLE, width),
            features[singles:].reshape(len(self.pairs), 4, DOUBLE, width),
        )


def planned(factors: Num[np.ndarray, "N K"], seed: int = 0, columns: Collection[int] | None = None) -> Moves:
    """Which pictures to look at: rows drawn from `factors`, with one or two factors set to two of their values.

    Only factors of `columns` move, by default all.
    """
    rng = np.random.default_rng([seed, 39])
    values = [np.unique(column) for column in factors.T]
    ends = [(levels[(len(levels) - 1) // 4], levels[-1 - (len(levels) - 1) // 4]) for levels in values]
    moving = tuple(k for k, (start, end) in enumerate(ends) if start < end and (columns is None or k in columns))
    blocks = []
    for k in moving:
        rows = factors[rng.integers(0, len(factors), SINGLE)]
        blocks += [_with(rows, {k: ends[k][side]}) for side in (0, 1)]
    for k, other in itertools.combinations(moving, 2):
        rows = factors[rng.integers(0, len(factors), DOUBLE)]
        sides = (0, 0), (1, 0), (0, 1), (1, 1)
        blocks += [_with(rows, {k: ends[k][first], other: ends[other][second]}) for first, second in sides]
    return Moves(np.concatenate(blocks) if blocks else factors[:0], moving)


def _with(rows: Num[np.ndarray, "n K"], changes: dict[int, float]) -> Num[np.ndarray, "n K"]:
    changed = rows.copy()
    for k, value in changes.items():
        changed[:, k] = value
    return changed


def movement(
    moves: Moves, features: Float[np.ndarray, "R D"], scaling: Scaling, all_factors: tuple[Factor, ...]
) -> Iterator[Number]:
    """Numbers for each moving factor, from the features of the planned pictures."""
    singles, doubles = moves.blocks(scaling(features).astype(np.float64))
    steps = singles[:, 1] - singles[:, 0]  # (k, n, D)
    unit_steps = steps / np.maximum(np.linalg.norm(steps, axis=2, keepdims=True), 1e-12)
    mean_steps = steps.mean(axis=1)
    directions = mean_steps / np.maximum(np.linalg.norm(mean_steps, axis=1, keepdims=True), 1e-12)
    cosines = np.abs(directions @ directions.T)
    np.fill_diagonal(cosines, 0)
    additive = _additive(moves, doubles)
    for place, k in enumerate(moves.moving):
        yield Number(all_factors[k].name, "same direction", *_mean_cosine(unit_steps[place]), chance=0.0)
        if len(moves.moving) > 1:
            yield Number(all_factors[k].name, "own direction", 1 - float(cosines[place].max()))
            shares = additive[k]
            spread = (min(shares), max(shares)) if len(shares) > 1 else (math.nan, math.nan)
            yield Number(all_factors[k].name, "additive", float(np.mean(shares)), *spread, chance=0.0)


def _mean_cosine(unit_steps: Float[np.ndarray, "n D"]) -> tuple[float, float, float]:
    """The mean over pairs of different rows, and its 95% interval by the jackknife over rows."""
    count, total = len(unit_steps), unit_steps.sum(axis=0)
    lengths = np.sum(unit_steps**2, axis=1)  # 1, or 0 where nothing moved
    among_all = float(total @ total)
    value = (among_all - float(lengths.sum())) / (count * (count - 1))
    without_row = among_all - 2 * unit_steps @ total + lengths - (lengths.sum() - lengths)
    jackknife = without_row / ((count - 1) * (count - 2))
    error = 1.96 * math.sqrt((count - 1) * float(jackknife.var()))
    return value, max(-1.0, value - error), min(1.0, value + error)


def _additive(moves: Moves, doubles: Float[np.ndarray, "p 4 n D"]) -> dict[int, list[float]]:
    """For each factor, R² of both moves by the sum of single moves, for each pair that it is in; 0 at the least."""
    shares: dict[int, list[float]] = {k: [] for k in moves.moving}
    for pair, (neither, first, second, moved_twice) in zip(moves.pairs, doubles, strict=True):
        together = moved_twice - neither
        missed = together - ((first - neither) + (second - neither))
        total = float(np.sum(together**2))
        share = max(0.0, 1 - float(np.sum(missed**2)) / total) if total > 0 else 0.0
        for k in pair:
            shares[k].append(share)
    return shares
