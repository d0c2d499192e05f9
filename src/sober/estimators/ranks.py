"""Ranks and bins of the values in each column of a table. Trees need nothing else about the numbers."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8

BINS = 255  # most bins of a feature: with more, fewer rows are searched one by one, but histograms are larger


class Ranks(NamedTuple):
    """The place of each row among the others in each feature.

    Arrays of bins hold all features in one row, with bin b of feature f at b D + f.
    """

    rows: UInt8[np.ndarray, "N D"]  # the bin of each value
    columns: UInt8[np.ndarray, "D N"]  # the same, transposed: a loop uses the layout that it reads in order
    rank: Int[np.ndarray, "D N"]  # how many distinct values are smaller
    order: Int[np.ndarray, "D N"]  # the rows by increasing value
    fresh: Bool[np.ndarray, "D N"]  # whether a row's value differs from the value before it in `order`
    start: Int[np.ndarray, "D B+1"]  # where each bin starts in `order`
    counts: Int[np.ndarray, " B*D+D"]  # rows before each bin
    needed_rows: Int[np.ndarray, " B*D"]  # rows that a bin needs for a cut inside it; N + 1 where its values are equal


def ranked(x: Float[np.ndarray, "N D"], pool: Executor) -> Ranks:
    """Rows sorted by each feature, and cut into bins of about equally many rows."""
    ranked_columns = list(pool.map(_ranked_column, x.T))
    columns, rank, order, fresh = (np.stack([ranked_column[k] for ranked_column in ranked_columns]) for k in range(4))
    bins = max(int(ranked_column[4][-1]) for ranked_column in ranked_columns) + 1
    start, needed_rows = np.zeros((x.shape[1], bins + 1), np.int64), np.full((bins, x.shape[1]), len(x) + 1, np.int32)
    for f, (column, *_, group) in enumerate(ranked_columns):
        start[f, 1:] = np.cumsum(np.bincount(column, minlength=bins))
        needed_rows[np.bincount(group, minlength=bins) > 1, f] = 2
    counts = start.T.astype(np.int32).ravel()
    return Ranks(np.ascontiguousarray(columns.T), columns, rank, order, fresh, start, counts, needed_rows.ravel())


def _ranked_column(column: Float[np.ndarray, " N"]) -> tuple[np.ndarray, ...]:
    order = np.argsort(column, kind="stable").astype(np.int32)
    fresh = np.ones(len(column), np.bool_)
    fresh[1:] = column[order[1:]] != column[order[:-1]]
    place = np.cumsum(fresh) - 1
    group = np.arange(place[-1] + 1)  # the bin of each distinct value
    if len(group) > BINS:
        counts = np.bincount(place)
        share = np.floor((np.cumsum(counts) - counts / 2) * (BINS / len(column)))
        group = np.cumsum(np.diff(share, prepend=share[0]) > 0)  # bins that a value of many rows skips are left out
    rank, bins = np.empty(len(column), np.int32), np.empty(len(column), np.uint8)
    rank[order], bins[order] = place, group[place]
    return bins, rank, order, fresh, group
