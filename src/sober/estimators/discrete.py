"""Columns of numbers as classes, and the information between classes, in nats."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int, Num

from sober.estimators.scaling import in_range

BINS = 20  # as in the Sober Look study
EXACT = 2_000  # most pairs of columns for the exact expected information: they take a second or two
SMALL = 0.03  # nats, below which the first term of the expected information is close enough


def binned(x: Float[np.ndarray, "N D"], bins: int = BINS) -> Int[np.ndarray, "N D"]:
    """Each column cut into bins of equal width between its smallest and largest value."""
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
    if column.dtype.kind in "iu" and len(column):
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
    """The mutual information, and the entropies of the columns of x and of y."""
    sizes = y.max(axis=0, initial=0) + 1
    x_entropy, y_entropy, out = entropy(x, weights), entropy(y, weights), np.empty((x.shape[1], y.shape[1]))
    for j in range(x.shape[1]):
        for k in range(y.shape[1]):
            joint = np.bincount(x[:, j] * sizes[k] + y[:, k], weights)
            out[j, k] = x_entropy[j] + y_entropy[k] - _entropy(joint)
    # Three entropies that cancel leave rounding errors.
    return np.where(out > 1e-12, out, 0.0), x_entropy, y_entropy


def _entropy(count: Num[np.ndarray, " C"]) -> float:
    count = count[count > 0]
    total = count.sum()
    if len(count) < 2:
        return 0.0
    return float(np.log(total) - np.sum(count * np.log(count)) / total)


def expected_table(
    first: Sequence[Int[np.ndarray, " A"]], second: Sequence[Int[np.ndarray, " B"]], rows: float | None = None
) -> Float[np.ndarray, "D K"]:
    """`expected_information` of each of the first columns and each of the second, from the row counts of their classes.

    Below SMALL nats this is the first term of its series, (classes - 1) (classes - 1) / 2N, which is off by some
    thousandths; above, it is exact. More than EXACT pairs keep the first term, and so do rows with weights, where
    `rows` is their effective number.
    """
    class_counts = [np.array([np.count_nonzero(count) for count in counts]) for counts in (first, second)]
    out = (class_counts[0][:, None] - 1) * (class_counts[1][None, :] - 1) / (2 * (rows or max(first[0].sum(), 1)))
    if rows is None and out.size <= EXACT:
        for j, k in np.argwhere(out >= SMALL):
            out[j, k] = expected_information(first[j], second[k])
    return out


def expected_information(first: Int[np.ndarray, " A"], second: Int[np.ndarray, " B"]) -> float:
    """The mean mutual information of two columns of classes over all orders of one of them (Vinh et al. 2010, eq. 24a).

        E[I] = Σ_ab Σ_n  n/N log(N n / (a b)) · P(n),   P hypergeometric: n rows of both, of a, b and N

    The arguments are the row counts of the classes. Cells beyond ten standard deviations of their mean add nothing that
    a float64 would show.
    """
    total = int(first.sum())
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, total + 1)))])  # log n!
    pairs, times = np.unique([(a, b) for a in first if a for b in second if b], axis=0, return_counts=True)
    a, b = pairs.T
    middle = a * b / total
    reach = 10 * np.sqrt(middle * (1 - a / total) * (1 - b / total)) + 20
    least = np.maximum(np.maximum(1, a + b - total), (middle - reach).astype(np.int64))
    most = np.minimum(np.minimum(a, b), (middle + reach).astype(np.int64) + 1)
    lengths = np.maximum(most - least + 1, 0)
    cell = np.repeat(
        np.arange(len(a)), lengths
    )  # all cells of all n in one array, since loops over short sums are slow
    n = np.arange(len(cell)) - np.repeat(np.cumsum(lengths) - lengths, lengths) + least[cell]
    margins = logs[a] + logs[b] + logs[total - a] + logs[total - b] - logs[total]
    a, b = a[cell], b[cell]
    log_p = margins[cell] - logs[n] - logs[a - n] - logs[b - n] - logs[total - a - b + n]
    return float(np.sum(times[cell] * np.exp(log_p) * n / total * np.log(total * n / (a * b))))
