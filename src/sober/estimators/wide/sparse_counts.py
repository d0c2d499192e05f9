"""The information of sparse columns about classes, in nats: the same numbers as for dense columns, from the non-zeros.

Rows that are not listed in a column have 0 there, so they share one bin. Their number in each class is the number of
all rows minus the number of listed rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, Num

from sober.estimators.discrete import BINS, binned
from sober.estimators.wide.wide_tables import ColumnLists, column_lists, ends

ODD = 300  # exponent of two: numbers beyond it are scaled before they are binned
CELLS = 2**22  # most counts of bins and classes in one array


Weights = Float[np.ndarray, " N"] | None


class SparseBins(NamedTuple):
    """Columns cut into bins of equal width, as lists of rows. Rows that are not listed are in bin `zero`."""

    start: Int[np.ndarray, " D+1"]
    row: Int[np.ndarray, " n"]
    bin: Int[np.ndarray, " n"]
    zero: Int[np.ndarray, " D"]
    rows: int
    bins: int

    @staticmethod
    def of(x: Any, bins: int = BINS) -> SparseBins:
        """The bins of a sparse table, the same as by `binned`."""
        low, high = (np.asarray(end, np.float64) for end in ends(x))
        blocks = [(_cut(lists, low[stretch], high[stretch], bins), lists) for stretch, lists in column_lists(x)]
        lengths = np.concatenate([np.diff(lists.start) for _, lists in blocks])
        return SparseBins(
            np.concatenate([[0], np.cumsum(lengths)]),
            np.concatenate([lists.row for _, lists in blocks]),
            np.concatenate([bins_and_zero[0] for bins_and_zero, _ in blocks]),
            np.concatenate([bins_and_zero[1] for bins_and_zero, _ in blocks]),
            x.shape[0],
            bins,
        )

    def counts(self, weights: Weights = None) -> Num[np.ndarray, "D B"]:
        """The number of rows in each bin of each column, or their weight."""
        label = np.zeros(self.rows, np.int64)
        return self._joint(slice(0, len(self.zero)), label, np.bincount(label, weights), weights)[:, :, 0]

    def entropy(self, weights: Weights = None) -> Float[np.ndarray, " D"]:
        return _entropy(self.counts(weights))

    def information(self, y: Int[np.ndarray, "N K"], weights: Weights = None) -> Float[np.ndarray, "D K"]:
        """The mutual information of each column with each of y: H(x) + H(y) - H(x, y)."""
        x_entropy, out = self.entropy(weights), np.empty((len(self.zero), y.shape[1]))
        for k in range(y.shape[1]):
            total = np.bincount(y[:, k], weights)
            y_entropy = _entropy(total[None])[0]
            width = max(1, CELLS // (self.bins * len(total)))
            for first in range(0, len(out), width):
                columns = slice(first, min(first + width, len(out)))
                joint = self._joint(columns, y[:, k], total, weights)
                out[columns, k] = x_entropy[columns] + y_entropy - _entropy(joint.reshape(len(joint), -1))
        return np.where(out > 1e-12, out, 0.0)  # three entropies that cancel leave rounding errors

    def _joint(
        self, columns: slice, label: Int[np.ndarray, " N"], total: Num[np.ndarray, " C"], weights: Weights
    ) -> Num[np.ndarray, "w B C"]:
        """The number of rows in each bin of some columns and of each class, or their weight."""
        start = self.start[columns.start : columns.stop + 1]
        width, inside, classes = len(start) - 1, slice(start[0], start[-1]), len(total)
        cell = np.repeat(np.arange(width) * self.bins, np.diff(start)) + self.bin[inside]
        cell = cell * classes + label[self.row[inside]]
        weight = None if weights is None else weights[self.row[inside]]
        joint = np.bincount(cell, weight, minlength=width * self.bins * classes).reshape(width, self.bins, classes)
        unlisted = total - joint.sum(axis=1)
        if weights is not None:
            unlisted[unlisted < 1e-12 * total] = 0.0  # weights that cancel leave rounding errors
        joint[np.arange(width), self.zero[columns]] += unlisted
        return joint


def _entropy(count: Num[np.ndarray, "w C"]) -> Float[np.ndarray, " w"]:
    total = count.sum(axis=1)
    return np.log(total) - np.sum(count * np.log(np.where(count > 0, count, 1)), axis=1) / total


def _cut(
    lists: ColumnLists, low: Float[np.ndarray, " w"], high: Float[np.ndarray, " w"], bins: int
) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " w"]]:
    """The bin of each listed value, and the bin of 0 in each column, the same as by `binned`."""
    width = len(low)
    column = np.repeat(np.arange(width), np.diff(lists.start))
    bin_, zero = np.zeros(len(lists.value), np.int64), np.zeros(width, np.int64)
    largest = np.maximum(np.abs(low), np.abs(high))
    usual = (high - low >= 4 * bins * np.spacing(largest)) & (np.abs(np.frexp(largest)[1]) < ODD)
    if usual.any():
        edges = np.zeros((width, bins + 1))
        edges[usual] = np.linspace(low[usual], high[usual], bins + 1, axis=1)
        is_usual = usual[column]
        bin_[is_usual] = _place(edges, column[is_usual], lists.value[is_usual])
        zero[usual] = _place(edges, np.flatnonzero(usual), np.zeros(usual.sum()))
    for j in np.flatnonzero(~usual & (high > low)):  # too narrow, large or small for these edges
        listed = slice(lists.start[j], lists.start[j + 1])
        dense = np.zeros((lists.rows, 1))
        dense[lists.row[listed], 0] = lists.value[listed]
        bin_of_row = binned(dense, bins)[:, 0]
        bin_[listed] = bin_of_row[lists.row[listed]]
        unlisted = np.ones(lists.rows, bool)
        unlisted[lists.row[listed]] = False
        zero[j] = bin_of_row[unlisted][0] if unlisted.any() else 0
    return bin_, zero


def _place(
    edges: Float[np.ndarray, "w B+1"], column: Int[np.ndarray, " n"], value: Float[np.ndarray, " n"]
) -> Int[np.ndarray, " n"]:
    """The last bin whose lower edge is no higher than the value."""
    bins = edges.shape[1] - 1
    low, high = edges[column, 0], edges[column, -1]
    guess = np.clip(((value - low) / (high - low) * bins).astype(np.int64), 0, bins - 1)
    guess -= (value < edges[column, guess]) & (guess > 0)  # rounding can put a guess off by one
    above = np.minimum(guess + 1, bins - 1)
    return np.where((guess < bins - 1) & (value >= edges[column, above]), above, guess)
