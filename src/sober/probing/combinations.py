"""Do readouts hold for combinations of factors that they never saw?

For each pair of factors the combinations in which both are in their upper halves are held out. Readouts learn from the
other rows, and are tested on held-out rows and on other rows of the kind they learned from.

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
from sober.probing.knowledge import Knowledge, Number, Rows, scored, within

FEWEST = 30  # test rows on each side


def unseen_combinations(rows: Rows, result: Knowledge) -> Iterator[Number]:
    """For each factor the mean over partners of its readout's number on unseen combinations, and on seen ones."""
    learn, test = result.learn, result.test
    coordinates = _Coordinates(rows, result)
    upper = [_upper_half(column) for column in rows.factors.T]
    numbers: dict[int, list[tuple[float, float]]] = {k: [] for k in range(len(rows.about))}
    for pair in itertools.combinations(range(len(rows.about)), 2):
        held_out = upper[pair[0]] & upper[pair[1]]
        is_unseen = held_out[test]
        if min(is_unseen.sum(), (~is_unseen).sum()) < FEWEST or held_out[learn].all():
            continue
        for k in pair:
            guess, mean = coordinates.without(held_out[learn], k)
            truth = points(rows.about[k], rows.factors[test, k])
            inside, outside = (
                scored(rows.about[k], guess[side], truth[side], mean)[0] for side in (is_unseen, ~is_unseen)
            )
            numbers[k].append((inside, outside))
    for k, pairs in numbers.items():
        if pairs:
            factor, (unseen_values, seen_values) = rows.about[k], np.array(pairs).T
            unit = "accuracy" if factor.kind == "categorical" else "R²"
            for name, values in (("unseen", unseen_values), ("seen", seen_values)):
                yield Number(factor.name, name, float(values.mean()), *_spread(values), labels=len(learn), unit=unit)


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
        self._last: tuple[bytes, np.ndarray] = b"", np.zeros(0)

    def without(
        self, held_out: Bool[np.ndarray, " n"], k: int
    ) -> tuple[Float[np.ndarray, "T m"], Float[np.ndarray, " m"]]:
        """Factor k's guesses for the test rows after learning without some rows, and its mean over the others."""
        others = ~held_out
        count = int(others.sum())
        centre = (self.sums - self.learn[held_out].sum(axis=0)) / count
        square = self._square(held_out) - count * np.outer(centre, centre)
        target = points(self.rows.about[k], self.factors[:, k])
        mean = target[others].mean(axis=0)
        along = self.learn[others].T @ (target[others] - mean)
        square[np.diag_indices_from(square)] += self.strengths[k] * count
        weight = scipy.linalg.solve(square, along, assume_a="pos", overwrite_a=True, check_finite=False)
        return within(target, (self.test - centre) @ weight + mean), mean

    def _square(self, held_out: Bool[np.ndarray, " n"]) -> Float[np.ndarray, "r r"]:
        """The square of the other rows: both factors of a pair ask for it."""
        if self._last[0] != held_out.tobytes():
            rows = self.learn[held_out]
            self._last = held_out.tobytes(), self.squares - rows.T @ rows
        return self._last[1].copy()


def _upper_half(column: np.ndarray) -> Bool[np.ndarray, " N"]:
    values = np.unique(column)
    return np.asarray(column > values[(len(values) - 1) // 2])


def _spread(values: Float[np.ndarray, " P"]) -> tuple[float, float]:
    """The lowest and the highest over partners."""
    return (float(values.min()), float(values.max())) if len(values) > 1 else (math.nan, math.nan)
