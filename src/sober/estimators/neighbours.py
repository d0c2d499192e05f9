"""Mutual information of numbers, estimated from the distances of nearest neighbours, in nats.

Of a number and a class (Ross 2014), as scikit-learn's `mutual_info_classif` has it, and of two numbers (Kraskov et al.
2004). With a single number per row neighbours are found by sorting, which takes a hundredth of the time of a tree.
Distances mean nothing between equal numbers: break ties first, with `jittered`.
"""

from __future__ import annotations

import numpy as np
import scipy
from jaxtyping import Float, Int

from sober.estimators.scaling import standardised

JITTER = 1e-10  # of numbers with variance 1


def jittered(x: Float[np.ndarray, "N D"], rng: np.random.Generator) -> Float[np.ndarray, "N D"]:
    """Standardised columns, with so little noise that it does no more than put equal numbers in some order."""
    return standardised(x)[0] + JITTER * rng.normal(size=x.shape)


def class_information(
    x: Float[np.ndarray, "N D"], y: Int[np.ndarray, "N K"], neighbours: int
) -> Float[np.ndarray, "D K"]:
    """The information of each column of numbers about each column of classes (Ross 2014); never below 0.

    I = ψ(N) + mean ψ(k) - mean ψ(rows of the class) - mean ψ(m), where m is the number of rows, of any class, that are
    nearer than the k-th neighbour of the same class. Rows whose class no other row has are left out.
    """
    out = np.empty((x.shape[1], y.shape[1]))
    for j in range(x.shape[1]):
        order = np.argsort(x[:, j], kind="stable")
        for k in range(y.shape[1]):
            out[j, k] = _ross(x[order, j], y[order, k], neighbours)
    return out


def _ross(x: Float[np.ndarray, " N"], y: Int[np.ndarray, " N"], neighbours: int) -> float:
    """x in rising order."""
    size = np.bincount(y)[y]
    shared = size > 1
    x, y, size = x[shared], y[shared], size[shared]
    if not len(x):
        return 0.0
    count = np.minimum(neighbours, size - 1)
    by_class = np.argsort(y, kind="stable")  # within a class still in rising order
    distance = np.empty(len(x))
    for rows in np.split(by_class, np.flatnonzero(np.diff(y[by_class])) + 1):
        distance[rows] = kth_distance(x[rows], int(count[rows[0]]))
    nearer = within(x, np.nextafter(distance, 0))
    digamma = scipy.special.digamma
    estimate = digamma(len(x)) + np.mean(digamma(count)) - np.mean(digamma(size)) - np.mean(digamma(nearer))
    return max(0.0, float(estimate))


def kth_distance(x: Float[np.ndarray, " n"], k: int) -> Float[np.ndarray, " n"]:
    """The distance to the k-th nearest other number; x in rising order, and longer than k.

    The k nearest and the number itself are k + 1 in a row: the best of the k + 1 such rows that hold it.
    """
    rows = np.arange(len(x))
    out = np.full(len(x), np.inf)
    for below in range(k + 1):
        first, last = rows - below, rows - below + k
        there = (first >= 0) & (last < len(x))
        reach = np.maximum(x[rows[there]] - x[first[there]], x[last[there]] - x[rows[there]])
        out[there] = np.minimum(out[there], reach)
    return out


def within(x: Float[np.ndarray, " n"], radius: Float[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """How many numbers are no farther than the radius from each, itself included; x in rising order.

    A first guess by bisection may be off where x ± radius was rounded: ends are moved until the distances agree.
    """
    low, high = np.searchsorted(x, x - radius, "left"), np.searchsorted(x, x + radius, "right") - 1
    last = len(x) - 1
    while (wrong := x - x[low] > radius).any():
        low += wrong
    while (wrong := (low > 0) & (x - x[np.maximum(low - 1, 0)] <= radius)).any():
        low -= wrong
    while (wrong := x[high] - x > radius).any():
        high -= wrong
    while (wrong := (high < last) & (x[np.minimum(high + 1, last)] - x <= radius)).any():
        high += wrong
    return high - low + 1


def number_information(x: Float[np.ndarray, " N"], y: Float[np.ndarray, " N"], neighbours: int) -> float:
    """The information of two columns of numbers about each other (Kraskov et al. 2004, eq. 8); never below 0."""
    if len(x) < 2:
        return 0.0
    k = min(neighbours, len(x) - 1)
    both = np.stack([x, y], axis=1)
    distance = scipy.spatial.cKDTree(both).query(both, k + 1, p=np.inf)[0][:, -1]
    radius = np.nextafter(distance, 0)
    digamma = scipy.special.digamma
    estimate = digamma(len(x)) + digamma(k)
    for column in (x, y):
        order = np.argsort(column, kind="stable")
        estimate -= np.mean(digamma(within(column[order], radius[order])))
    return max(0.0, float(estimate))
