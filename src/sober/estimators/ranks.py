"""Where each row of a table stands among the others, column by column: of numbers, trees see only their order."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8

BINS = 255  # of a feature: more leave fewer rows to go through, but make larger histograms


class Ranks(NamedTuple):
    """Where each row stands among the others in each feature: all that trees need to know of it.

    The bins of all features lie in one row, those of the lowest values first: bin b of feature f at b D + f.
    """

    rows: UInt8[np.ndarray, "N D"]  # the bin of each value
    columns: UInt8[np.ndarray, "D N"]  # the same: each is used where it is read in order
    rank: Int[np.ndarray, "D N"]  # how many distinct values are smaller
    order: Int[np.ndarray, "D N"]  # the rows by increasing value,
    fresh: Bool[np.ndarray, "D N"]  # whether each differs from the one before,
    start: Int[np.ndarray, "D B+1"]  # and where each bin starts
    counts: Int[np.ndarray, " B*D+D"]  # of rows before each bin
    enough: Int[np.ndarray, " B*D"]  # rows that a bin needs for a cut inside it; N + 1 where its values are equal


def ranked(x: Float[np.ndarray, "N D"], pool: Executor) -> Ranks:
    """Rows sorted by each feature and cut into bins of about equally many."""
    parts = list(pool.map(_ranked_column, x.T))
    columns, rank, order, fresh = (np.stack([part[k] for part in parts]) for k in range(4))
    bins = max(int(part[4][-1]) for part in parts) + 1
    start, enough = np.zeros((x.shape[1], bins + 1), np.int64), np.full((bins, x.shape[1]), len(x) + 1, np.int32)
    for f, (column, *_, group) in enumerate(parts):
        start[f, 1:] = np.cumsum(np.bincount(column, minlength=bins))
        enough[np.bincount(group, minlength=bins) > 1, f] = 2
    counts = start.T.astype(np.int32).ravel()
    return Ranks(np.ascontiguousarray(columns.T), columns, rank, order, fresh, start, counts, enough.ravel())


def _ranked_column(column: Float[np.ndarray, " N"]) -> tuple[np.ndarray, ...]:
    order = np.argsort(column, kind="stable").astype(np.int32)
    fresh = np.ones(len(column), np.bool_)
    fresh[1:] = column[order[1:]] != column[order[:-1]]
    place = np.cumsum(fresh) - 1
    group = np.arange(place[-1] + 1)  # the bin of each distinct value
    if len(group) > BINS:
        counts = np.bincount(place)
        share = np.floor((np.cumsum(counts) - counts / 2) * (BINS / len(column)))
        group = np.cumsum(np.diff(share, prepend=share[0]) > 0)  # without the numbers that a value of many rows skips
    rank, bins = np.empty(len(column), np.int32), np.empty(len(column), np.uint8)
    rank[order], bins[order] = place, group[place]
    return bins, rank, order, fresh, group
