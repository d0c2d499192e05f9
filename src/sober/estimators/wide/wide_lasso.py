"""Lassos on wide tables, sparse or dense: coordinate descent over the few columns that can matter at each strength.

    min over w of  ‖y − Zw‖² / 2N + strength · ‖w‖₁        Z: the columns, standardised

From strong to weak, each strength starts from the solution before it. A column is set aside if its covariance with the
residual is below 2 · strength − (the strength before) (the strong rule, Tibshirani et al. 2012). That can err, so the
covariances of all columns are checked afterwards, and columns that were wrongly set aside come back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from sober.estimators.compiled import compiled
from sober.estimators.wide.wide_tables import Standardised, is_sparse, taken
from sober.parallel import map_in_order

NEAR = 1e-6  # of a target's spread: sweeps end when no coefficient moves by more
SWEEPS = 1_000  # most sweeps over the columns of one target
WORSE = 2  # after this many strengths in a row that do not lower the error, no weaker one is tried


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
    """For each factor, whose points have m coordinates, the lassos with the least error on validation rows.

    `strengths` are tried from the largest down, until the error of a factor no longer falls. Targets have mean 0.
    """
    factor_of_target = np.repeat(np.arange(len(y)), [points.shape[1] for points in y])
    target, valid_target = (np.concatenate(points, axis=1).T.copy() for points in (y, y_valid))  # (T, N)
    paths = _Paths(x, target)
    best = np.zeros((len(target), x.shape[1]))
    least, worse, chosen = np.full(len(y), np.inf), np.zeros(len(y), np.int64), np.full(len(y), max(strengths))
    going = np.arange(len(y))
    for strength in sorted(strengths, reverse=True):
        targets = np.flatnonzero(np.isin(factor_of_target, going))
        paths.lead(targets, strength)
        error = np.square(x_valid.times(paths.coefficients[targets]) - valid_target[targets]).mean(axis=1)
        for factor in going:
            mean_error = float(error[factor_of_target[targets] == factor].mean())
            if mean_error < least[factor]:
                least[factor], worse[factor], chosen[factor] = mean_error, 0, strength
                best[factor_of_target == factor] = paths.coefficients[factor_of_target == factor]
            else:
                worse[factor] += bool(paths.coefficients[factor_of_target == factor].any())
        going = going[worse[going] < WORSE]
        if not len(going):
            break
    counts = np.bincount(factor_of_target, minlength=len(y))
    return [WideLasso(best[factor_of_target == k], np.full(counts[k], chosen[k])) for k in range(len(y))]


class _Paths:
    """Solutions of all targets at the last strength, and their residuals."""

    def __init__(self, x: Standardised, target: Float[np.ndarray, "T N"]) -> None:
        self.x, self.residual = x, target - target.mean(axis=1, keepdims=True)
        self.coefficients = np.zeros((len(target), x.shape[1]))
        self.before = np.full(len(target), np.inf)
        self.covariance = x.against(self.residual) / x.shape[0]
        self.columns = x.table.tocsc() if is_sparse(x.table) else x.table
        self.sweep = compiled(_sweeps, _step)

    def lead(self, targets: Int[np.ndarray, " t"], strength: float) -> None:
        """Solves some targets at a weaker strength."""
        self.before[targets] = np.minimum(self.before[targets], np.abs(self.covariance[targets]).max(axis=1))
        aside = np.abs(self.covariance[targets]) < (2 * strength - self.before[targets])[:, None]
        candidates = ~aside | (self.coefficients[targets] != 0)
        open_places = np.arange(len(targets))
        while len(open_places):
            tasks = [(targets[place], np.flatnonzero(candidates[place])) for place in open_places]
            list(map_in_order(lambda task: self._descend(*task, strength), tasks))
            open_targets = targets[open_places]
            self.covariance[open_targets] = self.x.against(self.residual[open_targets]) / self.x.shape[0]
            beyond = np.abs(self.covariance[open_targets]) > strength * (1 + 1e-6) + NEAR
            violated = beyond & ~candidates[open_places]
            candidates[open_places] |= violated
            open_places = open_places[violated.any(axis=1)]
        self.before[targets] = strength

    def _descend(self, target: int, candidates: Int[np.ndarray, " w"], strength: float) -> None:
        """Coordinate descent of one target over some columns."""
        if not len(candidates):
            return
        centre, scale, rows = self.x.by.mean[candidates], self.x.scale[candidates], self.x.shape[0]
        if is_sparse(self.columns):
            columns = self.columns[:, candidates]
            start, row, value = columns.indptr.astype(np.int64), columns.indices.astype(np.int32), columns.data
        else:
            dense = np.asarray(taken(self.columns, candidates), np.float64)
            start, value = np.arange(len(candidates) + 1, dtype=np.int64) * rows, dense.T.ravel()
            row = np.tile(np.arange(rows, dtype=np.int32), len(candidates))
        weight = self.coefficients[target, candidates]
        self.sweep(start, row, value, centre, scale, self.residual[target], weight, strength, SWEEPS, NEAR)
        self.coefficients[target, candidates] = weight


def _sweeps(
    start: np.ndarray,
    row: np.ndarray,
    value: np.ndarray,
    centre: np.ndarray,
    scale: np.ndarray,
    residual: np.ndarray,
    weight: np.ndarray,
    strength: float,
    most: int,
    near: float,
) -> None:
    """Sweeps over all columns and, in between, over the columns in use, until nothing moves.

    Changes `residual` and `weight`. Residuals have mean 0, whatever the weights. A step changes the residuals of listed
    rows alone, and adds to `shift` the change that all rows have in common.
    """
    shift = 0.0
    for _ in range(most):
        moved = 0.0
        for j in range(len(weight)):
            step, shift = _step(start, row, value, centre, scale, residual, weight, strength, j, shift)
            moved = max(moved, step)
        if moved <= near:
            break
        for _ in range(most):
            moved = 0.0
            for j in range(len(weight)):
                if weight[j] != 0:
                    step, shift = _step(start, row, value, centre, scale, residual, weight, strength, j, shift)
                    moved = max(moved, step)
            if moved <= near:
                break
    for n in range(len(residual)):
        residual[n] += shift


def _step(
    start: np.ndarray,
    row: np.ndarray,
    value: np.ndarray,
    centre: np.ndarray,
    scale: np.ndarray,
    residual: np.ndarray,
    weight: np.ndarray,
    strength: float,
    j: int,
    shift: float,
) -> tuple[float, float]:
    """Moves one coefficient to its minimum; returns how far it moved, and the new shift of all rows."""
    if scale[j] == 0:
        return 0.0, shift
    total = 0.0
    for n in range(start[j], start[j + 1]):
        total += value[n] * (residual[row[n]] + shift)
    unpenalised = weight[j] + total * scale[j] / len(residual)
    new = max(abs(unpenalised) - strength, 0.0) * (1.0 if unpenalised > 0 else -1.0)
    change = new - weight[j]
    if change == 0:
        return 0.0, shift
    weight[j] = new
    for n in range(start[j], start[j + 1]):
        residual[row[n]] -= change * scale[j] * value[n]
    return abs(change), shift + change * scale[j] * centre[j]
