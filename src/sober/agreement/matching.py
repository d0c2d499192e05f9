"""Who is matched with whom: one to many, or one to one.

One to many, each feature takes its best partner, and several may take the same one. One to one, the sum of all
similarities is as large as it can be (Kuhn 1955). Up to 4,096 features this is exact. Above, only the best k partners
of each feature can be matched, and the loss is bounded: let each feature also stay alone, for the similarity of its
k-th best partner. No matching has a larger sum than this problem.

A match is made for every feature, so a match says nothing before its similarity is looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.optimize
import scipy.sparse.csgraph
from jaxtyping import Float, Int

from sober.agreement.columns import Columns
from sober.agreement.partners import Panel, Partners, similarities

EXACT = 4_096  # features of a model whose pairs are all looked at, at most


class Matches(NamedTuple):
    """For each of F features its partner in each of M models, and how alike both are."""

    place: Int[np.ndarray, "F M"]  # the partner's number in its model; -1 if it has none
    similarity: Float[np.ndarray, "F M"]  # with its sign
    most_lost: float  # how much the mean similarity of matched pairs of two models may be below the best, at most

    def __repr__(self) -> str:
        return f"Matches({len(self.place):,} features, {self.place.shape[1]} models)"


def one_to_many(partners: Partners) -> Matches:
    return Matches(partners.place[:, :, 0], partners.similarity[:, :, 0], 0.0)


def one_to_one(partners: Partners, models: Sequence[tuple[Columns, ...]], *, signed: bool) -> Matches:
    """Matches each two models, from all pairs of features where both models have at most `EXACT`."""
    index = np.full(partners.place.shape[:2], -1, np.int32)
    similarity = np.zeros(index.shape, np.float32)
    most_lost = 0.0
    for first in range(len(models)):
        for second in range(first + 1, len(models)):
            spans = [slice(partners.start[model], partners.start[model + 1]) for model in (first, second)]
            if max(models[first][0].shape[1], models[second][0].shape[1]) <= EXACT:
                rows, columns, values = _exact(models[first], models[second], signed)
            else:
                rows, columns, values, lost = best_of_few(
                    partners.place[spans[0], second], partners.similarity[spans[0], second],
                    models[second][0].shape[1], signed,
                )  # fmt: skip
                most_lost = max(most_lost, lost)
            index[spans[0].start + rows, second], similarity[spans[0].start + rows, second] = columns, values
            index[spans[1].start + columns, first], similarity[spans[1].start + columns, first] = rows, values
    return Matches(index, similarity, most_lost)


def _exact(
    first: tuple[Columns, ...], second: tuple[Columns, ...], signed: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    a, b = (
        Panel(parts, np.array([number]), np.array([0, parts[0].shape[1]]))
        for number, parts in enumerate((first, second))
    )
    table = similarities(a, slice(0, a.width), b)
    rows, columns = scipy.optimize.linear_sum_assignment(table if signed else np.abs(table), maximize=True)
    return rows, columns, table[rows, columns]


def best_of_few(
    index: Int[np.ndarray, "D k"], similarity: Float[np.ndarray, "D k"], width: int, signed: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """The best matching among the k best partners of each feature, and how much its mean may be below the best of all.

    Each feature may stay alone, as a partner of its own beyond the `width` real ones.
    """
    strength = np.maximum(similarity, 0) if signed else np.abs(similarity)
    rows = np.repeat(np.arange(len(index)), index.shape[1])
    possible = index.ravel() >= 0
    alone = strength[:, -1] if index.shape[1] < width else np.zeros(len(index))
    weights = np.concatenate([strength.ravel()[possible], alone]) + 1.0  # above 0, as a sparse table needs them
    places = np.concatenate([index.ravel()[possible], width + np.arange(len(index))])
    sources = np.concatenate([rows[possible], np.arange(len(index))])
    table = scipy.sparse.csr_array((weights, (sources, places)), (len(index), width + len(index)))
    matched, partner = scipy.sparse.csgraph.min_weight_full_bipartite_matching(table, maximize=True)
    is_real = partner < width
    lonely = alone[matched[~is_real]].sum()  # no matching exceeds the sum of these and of the matched similarities
    matched, partner = matched[is_real], partner[is_real]
    values = similarity[matched, (index[matched] == partner[:, None]).argmax(axis=1)]
    return matched, partner, values, float(lonely) / max(1, min(len(index), width))
