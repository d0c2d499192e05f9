"""Logistic regressions on wide tables, sparse or dense, from products with the table alone.

Columns count as standardised, but are never made so: a product with a standardised column is one with the column
itself, less its mean, over its spread. All problems are fitted side by side, so that one product serves them all.

Where there are more columns than rows, how strong the penalty is decides everything. It is chosen, for each problem, on
every fifth row, from strong to weak until that no longer helps.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int

from sober.estimators.columns import Standardised, Table
from sober.estimators.discrete import classes
from sober.estimators.linear import conjugate, minimised, one_thread
from sober.machine import in_order

TOGETHER = 2**22  # unknowns of the problems that are fitted side by side: some arrays of 32 MiB
NEAR = 1e-2  # of logits: a step that moves them less is the last, and what is left is far smaller
PENALTIES = (1.0, 0.1, 0.01, 0.001)  # for each row
FOLD = 5  # every so many-th row is one to choose a penalty by


def wide_logits(
    x: Table, own: Bool[np.ndarray, "G N"], x_test: Table, groups: Int[np.ndarray, " N"] | None = None
) -> Float[np.ndarray, "G n"]:
    """Logits of test rows by G logistic regressions, each of which is asked: which rows are its `own`?

        min over w and c of  penalty · ½‖w‖² + Σ log-loss      w: of standardised columns

    at the best of `PENALTIES` times the number of rows. Fitted to four rows of five, chosen by the others; of rows in
    groups, to four groups of five.
    """
    held = (np.arange(x.shape[0]) if groups is None else classes(groups)) % FOLD == FOLD - 1
    if not 0 < held.sum() < len(held):
        held = np.zeros(len(held), bool)  # too few to choose by
    fit = Standardised(x[~held])
    valid, test = (Standardised(table, fit.by) for table in (x[held] if held.any() else x, x_test))
    several = max(1, min(-(-len(own) // 2), TOGETHER // (x.shape[1] + x.shape[0])))

    def some(first: int) -> Float[np.ndarray, "g n"]:
        which = own[first : first + several]
        best = _chosen(fit, which[:, ~held], valid, which[:, held] if held.any() else which)
        return test.times(best[:, :-1]) + best[:, -1:]

    with one_thread():
        return np.concatenate(list(in_order(some, range(0, len(own), several))))


def _chosen(
    x: Standardised, own: Bool[np.ndarray, "G N"], x_valid: Standardised, own_valid: Bool[np.ndarray, "G V"]
) -> Float[np.ndarray, "G U"]:
    """The unknowns of each problem at its best penalty."""
    share = np.clip(own.mean(axis=1), 0.5 / own.shape[1], 1 - 0.5 / own.shape[1])
    at = np.hstack([np.zeros((len(own), x.shape[1])), np.log(share / (1 - share))[:, None]])
    best, least, going = at.copy(), np.full(len(own), np.inf), np.flatnonzero(own.any(axis=1) & ~own.all(axis=1))
    for penalty in PENALTIES:
        if not len(going):
            break
        at[going] = minimised(_Own(x, own[going], penalty * own.shape[1], at[going]), NEAR)
        logits = x_valid.times(at[going, :-1]) + at[going, -1:]
        loss = np.logaddexp(0, np.where(own_valid[going], -logits, logits)).mean(axis=1)
        better = loss < least[going]
        best[going[better]], least[going[better]] = at[going[better]], loss[better]
        going = going[better]
    return best


class _Own:
    """A problem for each set of rows: is a row of it, or not? The unknowns are the weights and, last, the intercept."""

    def __init__(
        self, x: Standardised, own: Bool[np.ndarray, "G N"], penalty: float, start: Float[np.ndarray, "G U"]
    ) -> None:
        self.x, self.own, self.penalty, self.first = x, own, penalty, start

    def start(self) -> Float[np.ndarray, "G U"]:
        return self.first.copy()

    def reach(self, step: Float[np.ndarray, "g U"]) -> Float[np.ndarray, " g"]:
        return np.abs(self._logits(step)).max(axis=1)

    def newton(self, at: Float[np.ndarray, "g U"], which: Int[np.ndarray, " g"]) -> tuple[np.ndarray, np.ndarray]:
        residual, curvature = _derivatives(self._logits(at), self.own[which])
        gradient = self._back(residual) + self._penalised(at)
        # The mean square of a standardised column is 1: that of its rows, weighted by the curvature, is near its mean.
        diagonal = np.repeat(curvature.sum(axis=1)[:, None], at.shape[1], axis=1) + self._penalised(np.ones_like(at))

        def curved(step: np.ndarray) -> np.ndarray:
            return self._back(curvature * self._logits(step)) + self._penalised(step)

        return gradient, -conjugate(curved, diagonal, gradient)

    def _logits(self, unknowns: Float[np.ndarray, "g U"]) -> Float[np.ndarray, "g N"]:
        return self.x.times(unknowns[:, :-1]) + unknowns[:, -1:]

    def _back(self, rows: Float[np.ndarray, "g N"]) -> Float[np.ndarray, "g U"]:
        return np.hstack([self.x.against(rows), rows.sum(axis=1, keepdims=True)])

    def _penalised(self, unknowns: Float[np.ndarray, "g U"]) -> Float[np.ndarray, "g U"]:
        return np.hstack([self.penalty * unknowns[:, :-1], np.zeros((len(unknowns), 1))])


def _derivatives(
    logits: Float[np.ndarray, "g N"], own: Bool[np.ndarray, "g N"]
) -> tuple[Float[np.ndarray, "g N"], Float[np.ndarray, "g N"]]:
    """First and second derivatives of the log-loss by the logits, exact relative to their own size."""
    unlikely = np.exp(-np.abs(logits))
    likely = 1 / (1 + unlikely)
    unlikely *= likely
    high = logits > 0
    residual = np.where(own, np.where(high, -unlikely, -likely), np.where(high, likely, unlikely))
    return residual, np.multiply(unlikely, likely, out=unlikely)
