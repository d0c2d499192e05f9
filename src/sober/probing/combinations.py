"""Do readouts hold for combinations of factors that they never saw?

For each pair of factors the combinations in which both are in their upper halves are held out. Readouts learn from the
other rows, and are tested on held-out rows and on other rows of the kind they learned from.

Chance is the same for readouts whose labels were shuffled among the rows that they learn from.

A readout has the strength that is best with all rows. Along the axes of all rows, the rows without the held-out ones
need only a smaller square: that of all rows less that of the held-out ones.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import scipy.linalg
from jaxtyping import Bool, Float

from sober.estimators.predictors import points
from sober.probing.knowledge import SHUFFLES, Knowledge, Number, Rows, chance_of, unbounded, within
from sober.types import Factor

FEWEST = 30  # test rows on each side


def unseen_combinations(rows: Rows, result: Knowledge) -> Iterator[Number]:
    """For each factor the mean over partners of its readout's number on unseen combinations, and on seen ones."""
    learn, test = result.learn, result.test
    coordinates = _Coordinates(rows, result)
    upper = [_upper_half(column) for column in rows.factors.T]
    pairs_of: dict[int, list[Float[np.ndarray, "S+1 2"]]] = {k: [] for k in range(len(rows.about))}
    for pair in itertools.combinations(range(len(rows.about)), 2):
        held_out = upper[pair[0]] & upper[pair[1]]
        is_unseen = held_out[test]
        if min(is_unseen.sum(), (~is_unseen).sum()) < FEWEST or held_out[learn].all():
            continue
        for k in pair:
            guesses, mean = coordinates.without(held_out[learn], k)
            factor, truth = rows.about[k], points(rows.about[k], rows.factors[test, k])
            sides = (is_unseen, ~is_unseen)
            pairs_of[k].append(
                np.array(
                    [[unbounded(factor, guess[side], truth[side], mean)[0] for side in sides] for guess in guesses]
                )
            )
    for k, pairs in pairs_of.items():
        if pairs:
            for name, values in zip(("unseen", "seen"), np.moveaxis(np.array(pairs), 2, 0), strict=True):
                yield _number(rows.about[k], name, values, len(learn))


def _number(factor: Factor, name: str, values: Float[np.ndarray, "P S+1"], labels: int) -> Number:
    """The mean over partners, with their range; the first column is of the true labels, the others of shuffled ones."""
    true = np.maximum(values[:, 0], 0)
    low, high = (float(true.min()), float(true.max())) if len(true) > 1 else (math.nan, math.nan)
    chance, chance_high = chance_of(values[:, 1:].mean(axis=0))
    unit = "accuracy" if factor.kind == "categorical" else "R²"
    return Number(factor.name, name, float(true.mean()), low, high, chance, chance_high, labels, unit)


class _Coordinates:
    """The rows along the axes of the features of all rows to learn from: no more axes than rows."""

    def __init__(self, rows: Rows, result: Knowledge) -> None:
        readout, self.rows = result.readout, rows
        self.strengths = readout.strengths[: len(rows.about)]  # those of factors that are not shuffled
        self.learn = readout.axes.left * readout.axes.size  # (n, r)
        self.test = readout.scaling(rows.features[result.test]) @ readout.axes.right.T
        self.factors = rows.factors[result.learn]
        self.squares = np.diag(readout.axes.size**2).astype(self.learn.dtype)
        self.sums = self.learn.sum(axis=0)
        self.keys = np.random.default_rng([len(self.learn), 39]).random((SHUFFLES, len(self.learn)))
        self._last: tuple[bytes, np.ndarray] = b"", np.zeros(0)

    def without(
        self, held_out: Bool[np.ndarray, " n"], k: int
    ) -> tuple[list[Float[np.ndarray, "T m"]], Float[np.ndarray, " m"]]:
        """Factor k's guesses for the test rows after learning without some rows, and its mean over the others.

        The first guesses are of the true labels, the others of labels that were shuffled.
        """
        others = np.flatnonzero(~held_out)
        centre = (self.sums - self.learn[held_out].sum(axis=0)) / len(others)
        square = self._square(held_out) - len(others) * np.outer(centre, centre)
        target = points(self.rows.about[k], self.factors[others, k])
        mean = target.mean(axis=0)
        orders = [np.arange(len(others)), *(np.argsort(keys[others], kind="stable") for keys in self.keys)]
        along = self.learn[others].T @ np.concatenate([(target - mean)[order] for order in orders], axis=1)
        square[np.diag_indices_from(square)] += self.strengths[k] * len(others)
        weight = scipy.linalg.solve(square, along, assume_a="pos", overwrite_a=True, check_finite=False)
        guesses = np.split((self.test - centre) @ weight, len(orders), axis=1)
        return [within(target, guess + mean) for guess in guesses], mean

    def _square(self, held_out: Bool[np.ndarray, " n"]) -> Float[np.ndarray, "r r"]:
        """The square of the other rows: both factors of a pair ask for it."""
        if self._last[0] != held_out.tobytes():
            rows = self.learn[held_out]
            self._last = held_out.tobytes(), self.squares - rows.T @ rows
        return self._last[1].copy()


def _upper_half(column: np.ndarray) -> Bool[np.ndarray, " N"]:
    values = np.unique(column)
    return np.asarray(column > values[(len(values) - 1) // 2])
