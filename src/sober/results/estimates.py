"""What tables share: a frame of rows with an estimate and its interval, and rank correlations that come with one."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.ma import MaskedArray

from sober.results.stats import Interval, interval, rank_correlations, resampled

if TYPE_CHECKING:
    import polars as pl

    from sober.results.runs import Runs

RESAMPLES = 500
ESTIMATE = {"value": float, "low": float, "high": float}


def frame(schema: Mapping[str, type], rows: Sequence[tuple[Any, ...]]) -> pl.DataFrame:
    """Rows as a table with these columns, also where there are none."""
    import polars as pl  # noqa: PLC0415

    return pl.DataFrame(rows, schema=dict(schema), orient="row")


def ranked(x: MaskedArray, y: MaskedArray, resamples: int, seed: int) -> tuple[np.ndarray, Interval]:
    """Rank correlations of columns with intervals, and how many rows each is of."""
    counts = resampled(len(x), resamples=resamples, seed=seed)
    return common(x, y), interval(rank_correlations(x, y), rank_correlations(x, y, counts=counts))


def correlated(
    runs: Runs,
    by: Sequence[str],
    left: tuple[str, Sequence[str]],
    right: tuple[str, Sequence[str]],
    resamples: int,
    seed: int,
) -> pl.DataFrame:
    """Rank correlations of each of some numbers with each of others, over the runs that share the columns `by`.

    `left` and `right` are numbers, and what the column with their names is called.
    """
    rows = []
    for key, part in runs.by(*by):
        n, estimate = ranked(part.columns(left[1]), part.columns(right[1]), resamples, seed)
        for (a, one), (b, other) in itertools.product(enumerate(left[1]), enumerate(right[1])):
            rows.append((*key, one, other, int(n[a, b]), *(column[a, b].tolist() for column in estimate)))
    return frame({**dict.fromkeys((*by, left[0], right[0]), str), "n": int, **ESTIMATE}, rows)


def common(x: MaskedArray, y: MaskedArray) -> np.ndarray:
    """How many rows have both, for each column of x and each of y: (A, B)."""
    has_x, has_y = ((~np.ma.getmaskarray(columns)).astype(int) for columns in (x, y))
    return has_x.T @ has_y
