"""Logistic regressions on wide tables, sparse or dense, from products with the table alone.

Columns count as standardised, but are never copied: a product with a standardised column is the product with the
column itself minus its mean, divided by its spread. All problems are fitted side by side, so that one product serves
them all.

With more columns than rows, results depend mostly on the penalty. Each problem chooses its penalty on every fifth row,
from strong to weak, until a weaker penalty no longer helps.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int

from sober.estimators.discrete import classes
from sober.estimators.linear import conjugate, minimised
from sober.estimators.wide.wide_tables import Standardised, Table
from sober.parallel import map_in_order, one_thread

TOGETHER = 2**22  # most unknowns that are fitted side by side: some arrays of 32 MiB
NEAR = 1e-2  # a step that moves logits by less is the last, since the error after it is far smaller
PENALTIES = (1.0, 0.1, 0.01, 0.001)  # per row
FOLD = 5  # every fifth row validates penalties


def wide_logits(
    x: Table, members: Bool[np.ndarray, "G N"], x_test: Table, groups: Int[np.ndarray, " N"] | None = None
) -> Float[np.ndarray, "G n"]:
    """Logits of test rows by G logistic regressions. Each tells the rows in one row of `members` from the other rows.

        min over w and c of  penalty · ½‖w‖² + Σ log-loss      w: weights of standardised columns

    at the best of `PENALTIES` times the number of rows. Four rows of five are fitted, and every fifth row chooses the
    penalty; with groups, every fifth group does.
    """
    held_out = (np.arange(x.shape[0]) if groups is None else classes(groups)) % FOLD == FOLD - 1
    if not 0 < held_out.sum() < len(held_out):
        held_out = np.zeros(len(held_out), bool)  # too few rows or groups to hold any out
    fit = Standardised(x[~held_out])
    valid, test = (Standardised(table, fit.by) for table in (x[held_out] if held_out.any() else x, x_test))
    block_size = max(1, min(-(-len(members) // 2), TOGETHER // (x.shape[1] + x.shape[0])))

    def logits_of_block(first: int) -> Float[np.ndarray, "g n"]:
        member_block = members[first : first + block_size]
        valid_members = member_block[:, held_out] if held_out.any() else member_block
        best = _chosen(fit, member_block[:, ~held_out], valid, valid_members)
        return test.times(best[:, :-1]) + best[:, -1:]

    with one_thread():
        return np.concatenate(list(map_in_order(logits_of_block, range(0, len(members), block_size))))


def _chosen(
    x: Standardised, members: Bool[np.ndarray, "G N"], x_valid: Standardised, valid_members: Bool[np.ndarray, "G V"]
) -> Float[np.ndarray, "G U"]:
    """The unknowns of each problem at its best penalty."""
    share = np.clip(members.mean(axis=1), 0.5 / members.shape[1], 1 - 0.5 / members.shape[1])
    unknowns = np.hstack([np.zeros((len(members), x.shape[1])), np.log(share / (1 - share))[:, None]])
    best, least = unknowns.copy(), np.full(len(members), np.inf)
    going = np.flatnonzero(members.any(axis=1) & ~members.all(axis=1))
    for penalty in PENALTIES:
        if not len(going):
            break
        problems = _Memberships(x, members[going], penalty * members.shape[1], unknowns[going])
        unknowns[going] = minimised(problems, NEAR).unknowns  # held-out rows choose among penalties, converged or not
        logits = x_valid.times(unknowns[going, :-1]) + unknowns[going, -1:]
        loss = np.logaddexp(0, np.where(valid_members[going], -logits, logits)).mean(axis=1)
        better = loss < least[going]
        best[going[better]], least[going[better]] = unknowns[going[better]], loss[better]
        going = going[better]
    return best


class _Memberships:
    """A problem for each set of rows: does a row belong to it? Unknowns are the weights and, last, the intercept."""

    def __init__(
        self, x: Standardised, members: Bool[np.ndarray, "G N"], penalty: float, start: Float[np.ndarray, "G U"]
    ) -> None:
        self.x, self.members, self.penalty, self.first = x, members, penalty, start

    def start(self) -> Float[np.ndarray, "G U"]:
        return self.first.copy()

    def reach(self, step: Float[np.ndarray, "g U"]) -> Float[np.ndarray, " g"]:
        return np.abs(self._logits(step)).max(axis=1)

    def newton(
        self, unknowns: Float[np.ndarray, "g U"], problems: Int[np.ndarray, " g"]
    ) -> tuple[np.ndarray, np.ndarray]:
        residual, curvature = _derivatives(self._logits(unknowns), self.members[problems])
        gradient = self._back(residual) + self._penalised(unknowns)
        # A standardised column has mean square 1. With the curvature as weights, its squares sum to about their sum.
        diagonal = np.repeat(curvature.sum(axis=1)[:, None], unknowns.shape[1], axis=1) + self._penalised(
            np.ones_like(unknowns)
        )

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
    logits: Float[np.ndarray, "g N"], members: Bool[np.ndarray, "g N"]
) -> tuple[Float[np.ndarray, "g N"], Float[np.ndarray, "g N"]]:
    """First and second derivatives of the log-loss by the logits, with small relative errors."""
    unlikely = np.exp(-np.abs(logits))
    likely = 1 / (1 + unlikely)
    unlikely *= likely
    high = logits > 0
    residual = np.where(members, np.where(high, -unlikely, -likely), np.where(high, likely, unlikely))
    return residual, np.multiply(unlikely, likely, out=unlikely)
