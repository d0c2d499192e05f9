"""Columns of numbers as classes, and the information between classes, in nats."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int, Num

from sober.estimators.scaling import in_range

BINS = 20  # of the Sober Look study


def binned(x: Float[np.ndarray, "N D"], bins: int = BINS) -> Int[np.ndarray, "N D"]:
    """Each column cut into so many bins of equal width between its smallest and largest value."""
    out = np.empty(x.shape, np.int64)
    for j in range(x.shape[1]):
        column = in_range(x[:, j])
        if len(column) and np.ptp(column) < 4 * bins * np.spacing(np.abs(column).max()):
            column = in_range(column - column.min())  # so that edges do not round to the same number
        edges = np.histogram_bin_edges(column, bins)
        out[:, j] = np.searchsorted(edges[:-1], column, side="right") - 1
    return out


def classes(column: np.ndarray) -> Int[np.ndarray, " N"]:
    """The values of a column as 0 to C - 1, in order of value."""
    if np.issubdtype(column.dtype, np.integer) and len(column):
        low, high = int(column.min()), int(column.max())
        if high - low < 4 * len(column) + 1024:  # counting is faster than sorting where there is room to count in
            present = np.bincount(column - low if low else column) > 0
            if low == 0 and present.all():
                return column.astype(np.int64, copy=False)
            return (np.cumsum(present) - 1)[column - low]
    return np.unique(column, return_inverse=True)[1]


def entropy(x: Int[np.ndarray, "N K"], weights: Float[np.ndarray, " N"] | None = None) -> Float[np.ndarray, " K"]:
    """The entropy of each column of classes."""
    return np.array([_entropy(np.bincount(x[:, k], weights)) for k in range(x.shape[1])])


def information(
    x: Int[np.ndarray, "N D"], y: Int[np.ndarray, "N K"], weights: Float[np.ndarray, " N"] | None = None
) -> Float[np.ndarray, "D K"]:
    """The mutual information of each column of x with each of y: H(x) + H(y) - H(x, y)."""
    return information_and_entropies(x, y, weights)[0]


def information_and_entropies(
    x: Int[np.ndarray, "N D"], y: Int[np.ndarray, "N K"], weights: Float[np.ndarray, " N"] | None = None
) -> tuple[Float[np.ndarray, "D K"], Float[np.ndarray, " D"], Float[np.ndarray, " K"]]:
    """The same, and the entropies of the columns of x and of y."""
    sizes = y.max(axis=0, initial=0) + 1
    of_x, of_y, out = entropy(x, weights), entropy(y, weights), np.empty((x.shape[1], y.shape[1]))
    for j in range(x.shape[1]):
        for k in range(y.shape[1]):
            joint = np.bincount(x[:, j] * sizes[k] + y[:, k], weights)
            out[j, k] = of_x[j] + of_y[k] - _entropy(joint)
    # The sum of three entropies that cancel: what is left is rounding.
    return np.where(out > 1e-12, out, 0.0), of_x, of_y


def _entropy(count: Num[np.ndarray, " C"]) -> float:
    count = count[count > 0]
    total = count.sum()
    if len(count) < 2:
        return 0.0
    return float(np.log(total) - np.sum(count * np.log(count)) / total)
