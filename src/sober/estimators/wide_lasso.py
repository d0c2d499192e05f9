"""Lassos on wide tables, sparse or dense: coordinate descent over the few columns that can matter at each strength.

    min over w of  ‖y − Zw‖² / 2N + strength · ‖w‖₁        Z: the columns, standardised

From strong to weak, each strength starts from the solution before it. A column whose covariance with what is left to
explain is below 2 · strength − (the strength before) is set aside (the strong rule, Tibshirani et al. 2012). That can
err, so the covariances of all columns are looked at afterwards, and what was wrongly set aside is taken in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from sober.estimators.columns import Standardised, is_sparse, taken
from sober.estimators.machine_code import machine_code
from sober.machine import in_order

NEAR = 1e-6  # of a coefficient, in units of the target's spread: sweeps that move none by more are over
SWEEPS = 1_000
WORSE = 2  # strengths in a row that do not help, after which weaker ones are not tried


class WideLasso(NamedTuple):
    """For each target the coefficients at its best strength, and that strength."""

    coefficients: Float[np.ndarray, "T D"]
    strength: Float[np.ndarray, " T"]


def wide_lasso(
    x: Standardised,
    y: Sequence[Float[np.ndarray, "N m"]],
    x_valid: Standardised,
    y_valid: Sequence[Float[np.ndarray, "V m"]],
    strengths: Sequence[float],
) -> list[WideLasso]:
    """For each factor, whose points have m coordinates, the strength with the least error on validation rows.

    `strengths` are tried from the largest down, until the error of a factor no longer falls. Targets have mean 0.
    """
    owner = np.repeat(np.arange(len(y)), [part.shape[1] for part in y])
    target, of_valid = (np.concatenate(part, axis=1).T.copy() for part in (y, y_valid))  # (T, N)
    paths = _Paths(x, target)
    best = np.zeros((len(target), x.shape[1]))
    least, worse, chosen = np.full(len(y), np.inf), np.zeros(len(y), np.int64), np.full(len(y), max(strengths))
    going = np.arange(len(y))
    for strength in sorted(strengths, reverse=True):
        lanes = np.flatnonzero(np.isin(owner, going))
        paths.lead(lanes, strength)
        error = np.square(x_valid.times(paths.coefficients[lanes]) - of_valid[lanes]).mean(axis=1)
        for factor in going:
            mine = owner[lanes] == factor
            now = float(error[mine].mean())
            if now < least[factor]:
                least[factor], worse[factor], chosen[factor] = now, 0, strength
                best[owner == factor] = paths.coefficients[owner == factor]
            else:
                worse[factor] += bool(paths.coefficients[owner == factor].any())
        going = going[worse[going] < WORSE]
        if not len(going):
            break
    return [WideLasso(best[owner == k], np.full(int((owner == k).sum()), chosen[k])) for k in range(len(y))]


class _Paths:
    """Solutions of all targets at the strength last asked for, and what they leave to explain."""

    def __init__(self, x: Standardised, target: Float[np.ndarray, "T N"]) -> None:
        self.x, self.left = x, target - target.mean(axis=1, keepdims=True)
        self.coefficients = np.zeros((len(target), x.shape[1]))
        self.before = np.full(len(target), np.inf)
        self.covariance = x.against(self.left) / x.shape[0]
        self.columns = x.table.tocsc() if is_sparse(x.table) else x.table

    def lead(self, lanes: Int[np.ndarray, " t"], strength: float) -> None:
        """To a weaker strength, for some targets."""
        self.before[lanes] = np.minimum(self.before[lanes], np.abs(self.covariance[lanes]).max(axis=1))
        aside = np.abs(self.covariance[lanes]) < (2 * strength - self.before[lanes])[:, None]
        kept = ~aside | (self.coefficients[lanes] != 0)
        open_ = np.arange(len(lanes))
        while len(open_):
            which = [(lanes[at], np.flatnonzero(kept[at])) for at in open_]
            list(in_order(lambda one: self._descend(*one, strength), which))
            self.covariance[lanes[open_]] = self.x.against(self.left[lanes[open_]]) / self.x.shape[0]
            wrong = (np.abs(self.covariance[lanes[open_]]) > strength * (1 + 1e-6) + NEAR) & ~kept[open_]
            kept[open_] |= wrong
            open_ = open_[wrong.any(axis=1)]
        self.before[lanes] = strength

    def _descend(self, lane: int, kept: Int[np.ndarray, " w"], strength: float) -> None:
        """Coordinate descent of one target over some columns."""
        if not len(kept):
            return
        centre, scale, rows = self.x.by.mean[kept], self.x.scale[kept], self.x.shape[0]
        if is_sparse(self.columns):
            part = self.columns[:, kept]
            start, row, value = part.indptr.astype(np.int64), part.indices.astype(np.int32), part.data
        else:
            dense = np.asarray(taken(self.columns, kept), np.float64)
            start, value = np.arange(len(kept) + 1, dtype=np.int64) * rows, dense.T.ravel()
            row = np.tile(np.arange(rows, dtype=np.int32), len(kept))
        weight = self.coefficients[lane, kept]
        machine_code(_sweeps, _step)(start, row, value, centre, scale, self.left[lane], weight, strength, SWEEPS, NEAR)
        self.coefficients[lane, kept] = weight


def _sweeps(
    start: np.ndarray,
    row: np.ndarray,
    value: np.ndarray,
    centre: np.ndarray,
    scale: np.ndarray,
    left: np.ndarray,
    weight: np.ndarray,
    strength: float,
    most: int,
    near: float,
) -> None:
    """Sweeps over all columns and, between them, over those in use, until nothing moves. Changes `left` and `weight`.

    What is left has mean 0, whatever the weights. While listed rows are changed alone, `shift` is what all have lost.
    """
    shift = 0.0
    for _ in range(most):
        moved = 0.0
        for j in range(len(weight)):
            step, shift = _step(start, row, value, centre, scale, left, weight, strength, j, shift)
            moved = max(moved, step)
        if moved <= near:
            break
        for _ in range(most):
            moved = 0.0
            for j in range(len(weight)):
                if weight[j] != 0:
                    step, shift = _step(start, row, value, centre, scale, left, weight, strength, j, shift)
                    moved = max(moved, step)
            if moved <= near:
                break
    for n in range(len(left)):
        left[n] += shift


def _step(
    start: np.ndarray,
    row: np.ndarray,
    value: np.ndarray,
    centre: np.ndarray,
    scale: np.ndarray,
    left: np.ndarray,
    weight: np.ndarray,
    strength: float,
    j: int,
    shift: float,
) -> tuple[float, float]:
    """One coefficient to its minimum: by how much it moved, and the shift of all rows after that."""
    if scale[j] == 0:
        return 0.0, shift
    total = 0.0
    for n in range(start[j], start[j + 1]):
        total += value[n] * (left[row[n]] + shift)
    aim = weight[j] + total * scale[j] / len(left)
    new = max(abs(aim) - strength, 0.0) * (1.0 if aim > 0 else -1.0)
    change = new - weight[j]
    if change == 0:
        return 0.0, shift
    weight[j] = new
    for n in range(start[j], start[j + 1]):
        left[row[n]] -= change * scale[j] * value[n]
    return abs(change), shift + change * scale[j] * centre[j]
