"""Rules that turn a matrix (D, K) of how much each latent has to do with each factor into scores.

The Sober Look study (section 6.1) splits a score into an estimated matrix and a rule that makes one number of it. Each
rule here gives a number for every factor or for every latent.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

Matrix = Float[np.ndarray, "D K"]


def gap(matrix: Matrix) -> Float[np.ndarray, " K"]:
    """For each factor, the largest entry less the second largest, which is 0 if there is only one latent."""
    ordered = np.sort(np.vstack([matrix, np.zeros_like(matrix[:1])]) if len(matrix) == 1 else matrix, axis=0)
    return ordered[-1] - ordered[-2]


def modularity_rows(matrix: Matrix) -> Float[np.ndarray, " D"]:
    """For each latent, 1 - the mean square of its other entries in units of its largest (Ridgeway & Mozer 2018).

    1 for a latent related to one factor only, 0 for one related equally to all, and 0 for one related to none.
    """
    squares = (matrix / _or_one(matrix.max(axis=1, keepdims=True, initial=0.0))) ** 2
    others = squares.sum(axis=1) - squares.max(axis=1, initial=0.0)
    return np.where(alive(matrix), 1.0 - others / max(matrix.shape[1] - 1, 1), 0.0)


def alive(matrix: Matrix) -> Bool[np.ndarray, " D"]:
    """Latents that are related to some factor."""
    return matrix.max(axis=1, initial=0.0) > 0


def disentanglement_rows(matrix: Matrix) -> Float[np.ndarray, " D"]:
    """For each latent, 1 - the entropy, in units of log K, of its entries as shares (Eastwood & Williams 2018)."""
    return _concentration(matrix)


def completeness_columns(matrix: Matrix) -> Float[np.ndarray, " K"]:
    """For each factor, 1 - the entropy, in units of log D, of its entries as shares (Eastwood & Williams 2018)."""
    return _concentration(matrix.T)


def shares(totals: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Totals as weights that sum to 1; equal weights if all totals are 0."""
    total = totals.sum()
    return totals / total if total > 0 else np.full(len(totals), 1.0 / max(len(totals), 1))


def _concentration(rows: Float[np.ndarray, "n m"]) -> Float[np.ndarray, " n"]:
    """1 - entropy / log m of each row as shares: 1 if one entry has all, 0 if all are equal or all are 0."""
    m = rows.shape[1]
    if m < 2:
        return (rows.sum(axis=1) > 0).astype(float)
    share = rows / _or_one(rows.sum(axis=1, keepdims=True))
    entropy = -np.sum(share * np.log(_or_one(share)), axis=1) / np.log(m)
    return np.where(rows.sum(axis=1) > 0, 1.0 - entropy, 0.0)


def _or_one(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, x, 1.0)


class IndependentGroups(NamedTuple):
    """The factor-latent graph with its edges below a threshold deleted, for every threshold (Sober Look, section
    6.1.2).

    At each threshold: how many factors are still joined to some latent, and into how many groups the graph then falls
    (connected components that hold a factor and a latent). A disentangled code has as many groups as factors early.
    """

    thresholds: Float[np.ndarray, " T"]
    factors: Int[np.ndarray, " T"]
    groups: Int[np.ndarray, " T"]


def independent_groups(matrix: Matrix) -> IndependentGroups:
    """The curve of groups: thresholds are the matrix's own entries, in rising order; edges at the threshold stay."""
    thresholds = np.unique(matrix[matrix > 0])
    factors = _at_least(matrix.max(axis=0, initial=0.0), thresholds)
    # Each factor that has a latent at threshold t begins as a group of its own, and each edge at or above t of the
    # largest spanning tree between factors makes one group of two: groups(t) = factors(t) - joins(t).
    joins = _at_least(np.array([level for level, _, _ in merges(matrix)]), thresholds)
    return IndependentGroups(thresholds, factors, factors - joins)


def _at_least(levels: Float[np.ndarray, " n"], thresholds: Float[np.ndarray, " T"]) -> Int[np.ndarray, " T"]:
    """How many levels are no lower than each threshold."""
    return len(levels) - np.searchsorted(np.sort(levels), thresholds)


def merges(matrix: Matrix) -> list[tuple[float, int, int]]:
    """How factors merge as the threshold falls: (threshold, factor, factor), strongest first; data of a dendrogram.

    Kruskal's algorithm on the graph of factors. The edge between two factors is the largest over latents of the weaker
    of the latent's two entries. Factors that are never joined are not in the list.
    """
    k = matrix.shape[1]
    direct = np.zeros((k, k))
    for a in range(k):
        direct[a] = np.minimum(matrix[:, [a]], matrix).max(axis=0, initial=0.0)
    pairs = sorted(((direct[a, b], a, b) for a in range(k) for b in range(a) if direct[a, b] > 0), reverse=True)
    root = list(range(k))

    def find(a: int) -> int:
        while root[a] != a:
            a = root[a]
        return a

    joined = []
    for level, a, b in pairs:
        if find(a) != find(b):
            root[find(a)] = find(b)
            joined.append((float(level), b, a))
    return joined


def merge_thresholds(matrix: Matrix) -> Float[np.ndarray, "K K"]:
    """For every pair of factors, the threshold below which they are in one group; 0 if they are never joined.

    The diagonal holds the threshold above which a factor is joined to no latent.
    """
    k = matrix.shape[1]
    levels = np.diag(matrix.max(axis=0, initial=0.0))
    group = {a: [a] for a in range(k)}
    for level, a, b in merges(matrix):
        together = group[a] + group[b]
        for i in group[a]:
            for j in group[b]:
                levels[i, j] = levels[j, i] = level
        for i in together:
            group[i] = together
    return levels
