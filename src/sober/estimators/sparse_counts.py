"""The information of sparse columns about classes, in nats: the same as of dense ones, from the non-zeros alone.

Rows that are not listed in a column have 0 there, and so share one bin. How many of them are of each class is what the
listed rows leave of the class.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, Num

from sober.estimators.columns import Listed, ends, listed
from sober.estimators.discrete import BINS, binned

ODD = 300  # exponents of two beyond which numbers are scaled before they are cut
CELLS = 2**22  # of the counts of bins and classes that are held at once


Weights = Float[np.ndarray, " N"] | None


class SparseBins(NamedTuple):
    """Columns cut into bins of equal width, as lists of rows; rows that are not listed are in the column's `zero`."""

    start: Int[np.ndarray, " D+1"]
    row: Int[np.ndarray, " n"]
    bin: Int[np.ndarray, " n"]
    zero: Int[np.ndarray, " D"]
    rows: int
    bins: int

    @staticmethod
    def of(x: Any, bins: int = BINS) -> SparseBins:
        """`binned` of a sparse table."""
        low, high = (np.asarray(end, np.float64) for end in ends(x))
        parts = [(_cut(part, low[which], high[which], bins), part) for which, part in listed(x)]
        lengths = np.concatenate([np.diff(part.start) for _, part in parts])
        return SparseBins(
            np.concatenate([[0], np.cumsum(lengths)]),
            np.concatenate([part.row for _, part in parts]),
            np.concatenate([cut[0] for cut, _ in parts]),
            np.concatenate([cut[1] for cut, _ in parts]),
            x.shape[0],
            bins,
        )

    def counts(self, weights: Weights = None) -> Num[np.ndarray, "D B"]:
        """Rows in each bin of each column, or their weight."""
        label = np.zeros(self.rows, np.int64)
        return self._joint(slice(0, len(self.zero)), label, np.bincount(label, weights), weights)[:, :, 0]

    def entropy(self, weights: Weights = None) -> Float[np.ndarray, " D"]:
        return _entropy(self.counts(weights))

    def information(self, y: Int[np.ndarray, "N K"], weights: Weights = None) -> Float[np.ndarray, "D K"]:
        """The mutual information of each column with each of y: H(x) + H(y) - H(x, y)."""
        of_x, out = self.entropy(weights), np.empty((len(self.zero), y.shape[1]))
        for k in range(y.shape[1]):
            total = np.bincount(y[:, k], weights)
            of_y = _entropy(total[None])[0]
            width = max(1, CELLS // (self.bins * len(total)))
            for first in range(0, len(out), width):
                which = slice(first, min(first + width, len(out)))
                joint = self._joint(which, y[:, k], total, weights)
                out[which, k] = of_x[which] + of_y - _entropy(joint.reshape(len(joint), -1))
        return np.where(out > 1e-12, out, 0.0)  # the sum of three entropies that cancel: what is left is rounding

    def _joint(
        self, which: slice, label: Int[np.ndarray, " N"], total: Num[np.ndarray, " C"], weights: Weights
    ) -> Num[np.ndarray, "w B C"]:
        """Rows in each bin of some columns, of each class, or their weight."""
        start = self.start[which.start : which.stop + 1]
        width, inside, classes = len(start) - 1, slice(start[0], start[-1]), len(total)
        cell = np.repeat(np.arange(width) * self.bins, np.diff(start)) + self.bin[inside]
        cell = cell * classes + label[self.row[inside]]
        weight = None if weights is None else weights[self.row[inside]]
        joint = np.bincount(cell, weight, minlength=width * self.bins * classes).reshape(width, self.bins, classes)
        left = total - joint.sum(axis=1)
        if weights is not None:
            left[left < 1e-12 * total] = 0.0  # what weights that cancel leave is rounding
        joint[np.arange(width), self.zero[which]] += left
        return joint


def _entropy(count: Num[np.ndarray, "w C"]) -> Float[np.ndarray, " w"]:
    total = count.sum(axis=1)
    return np.log(total) - np.sum(count * np.log(np.where(count > 0, count, 1)), axis=1) / total


def _cut(
    part: Listed, low: Float[np.ndarray, " w"], high: Float[np.ndarray, " w"], bins: int
) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " w"]]:
    """The bin of each listed value, and that of 0 in each column: the same as `binned` finds, edge by edge."""
    width = len(low)
    column = np.repeat(np.arange(width), np.diff(part.start))
    bin_, zero = np.zeros(len(part.value), np.int64), np.zeros(width, np.int64)
    largest = np.maximum(np.abs(low), np.abs(high))
    usual = (high - low >= 4 * bins * np.spacing(largest)) & (np.abs(np.frexp(largest)[1]) < ODD)
    if usual.any():
        edges = np.zeros((width, bins + 1))
        edges[usual] = np.linspace(low[usual], high[usual], bins + 1, axis=1)
        listed_ = usual[column]
        bin_[listed_] = _place(edges, column[listed_], part.value[listed_])
        zero[usual] = _place(edges, np.flatnonzero(usual), np.zeros(usual.sum()))
    for j in np.flatnonzero(~usual & (high > low)):  # so narrow, large or small that their edges need care
        own = slice(part.start[j], part.start[j + 1])
        whole = np.zeros((part.rows, 1))
        whole[part.row[own], 0] = part.value[own]
        place = binned(whole, bins)[:, 0]
        bin_[own] = place[part.row[own]]
        unlisted = np.ones(part.rows, bool)
        unlisted[part.row[own]] = False
        zero[j] = place[unlisted][0] if unlisted.any() else 0
    return bin_, zero


def _place(
    edges: Float[np.ndarray, "w B+1"], column: Int[np.ndarray, " n"], value: Float[np.ndarray, " n"]
) -> Int[np.ndarray, " n"]:
    """The last bin whose lower edge is no higher than the value."""
    bins = edges.shape[1] - 1
    low, high = edges[column, 0], edges[column, -1]
    guess = np.clip(((value - low) / (high - low) * bins).astype(np.int64), 0, bins - 1)
    guess -= (value < edges[column, guess]) & (guess > 0)  # a guess is off by one at most, by rounding
    above = np.minimum(guess + 1, bins - 1)
    return np.where((guess < bins - 1) & (value >= edges[column, above]), above, guess)
