"""Columns of numbers as classes, and the information between classes, in nats."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int, Num

from sober.estimators.scaling import in_range

BINS = 20  # of the Sober Look study
EXACT = 2_000  # pairs of columns for which what chance gives takes a second or two
SMALL = 0.03  # nats


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


def expected_table(
    first: Sequence[Int[np.ndarray, " A"]], second: Sequence[Int[np.ndarray, " B"]], rows: float | None = None
) -> Float[np.ndarray, "D K"]:
    """`expected_information` of each of the first columns and each of the second, from how many rows classes have.

    The first term of its series, (classes - 1) (classes - 1) / 2N, where that is below SMALL nats, and then off by
    some thousandths; where it is not, exact. More than EXACT pairs, and rows with weights, of which `rows`
    says how many they count as, are left with the first term.
    """
    used = [np.array([np.count_nonzero(count) for count in counts]) for counts in (first, second)]
    out = (used[0][:, None] - 1) * (used[1][None, :] - 1) / (2 * (rows or max(first[0].sum(), 1)))
    if rows is None and out.size <= EXACT:
        for j, k in np.argwhere(out >= SMALL):
            out[j, k] = expected_information(first[j], second[k])
    return out


def expected_information(first: Int[np.ndarray, " A"], second: Int[np.ndarray, " B"]) -> float:
    """The mean mutual information of two columns of classes over all orders of one of them (Vinh et al. 2010, eq. 24a).

        E[I] = Σ_ab Σ_n  n/N log(N n / (a b)) · P(n),   P hypergeometric: n rows of both, of a, b and N

    for columns in which classes have these numbers of rows. Cells beyond ten standard deviations of their mean add
    nothing that a float64 would show.
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
    cell = np.repeat(np.arange(len(a)), lengths)  # all cells of all n in one row: loops of so short sums are slow
    n = np.arange(len(cell)) - np.repeat(np.cumsum(lengths) - lengths, lengths) + least[cell]
    margins = logs[a] + logs[b] + logs[total - a] + logs[total - b] - logs[total]
    a, b = a[cell], b[cell]
    log_p = margins[cell] - logs[n] - logs[a - n] - logs[b - n] - logs[total - a - b + n]
    return float(np.sum(times[cell] * np.exp(log_p) * n / total * np.log(total * n / (a * b))))
