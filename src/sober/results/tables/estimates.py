"""Parts that tables share: a frame of estimates with intervals, and rank correlations with intervals."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.ma import MaskedArray

from sober.results.stats import (
    Interval,
    Labels,
    interval,
    mean_interval,
    rank_correlations,
    resampled,
    settings_then_seeds,
)
from sober.settings_text import assignments

if TYPE_CHECKING:
    import polars as pl

    from sober.results.runs import Runs

RESAMPLES = 500
ESTIMATE = {"value": float, "low": float, "high": float}


def frame(schema: Mapping[str, type], rows: Sequence[tuple[Any, ...]]) -> pl.DataFrame:
    """Rows as a data frame with these columns, also if there are no rows."""
    import polars as pl  # noqa: PLC0415

    return pl.DataFrame(rows, schema=dict(schema), orient="row")


def ranked(
    x: MaskedArray, y: MaskedArray, resamples: int, seed: int, *, settings: Labels | None = None
) -> tuple[np.ndarray, Interval]:
    """The number of rows that each two columns share, and their rank correlations with intervals.

    With the `settings` of the rows, settings are drawn again and then rows within them; without, single rows.
    """
    if settings is None:
        counts = resampled(len(x), resamples=resamples, seed=seed)
    else:
        counts = settings_then_seeds(settings, resamples=resamples, seed=seed)
    return shared_rows(x, y), interval(rank_correlations(x, y), rank_correlations(x, y, counts=counts))


def settings_that_differ(variants: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """By metric and settings (JSON), the settings in which variants of that metric differ: `trees=forest`.

    It is empty where a metric was measured with one choice of settings.
    """
    by_metric: dict[str, dict[str, dict[str, Any]]] = {}
    for metric, settings in variants:
        by_metric.setdefault(metric, {})[settings] = json.loads(settings)
    names = {}
    for metric, variants_of_metric in by_metric.items():
        for text, values in variants_of_metric.items():
            others = variants_of_metric.values()
            differing = {name: value for name, value in values.items() if any(o.get(name) != value for o in others)}
            names[metric, text] = assignments(differing)
    return names


def mean_within(values: Sequence[float], bounds: tuple[float, float], *, level: float = 0.95) -> Interval:
    """The mean with its interval by Student's t, cut at the lowest and the highest value that the number can have.

    A value beyond a bound moves that bound, so the interval always holds the mean and never ends before it begins.
    """
    mean, low, high = mean_interval(values, level=level)
    if low is None:
        return Interval(mean, low, high)
    return Interval(mean, max(low, min(bounds[0], *values)), min(high, max(bounds[1], *values)))


def correlated(
    runs: Runs,
    by: Sequence[str],
    left: tuple[str, Sequence[str]],
    right: tuple[str, Sequence[str]],
    resamples: int,
    seed: int,
) -> pl.DataFrame:
    """Rank correlations of every left number with every right number, within each group of runs.

    Runs in a group have the same values in the columns `by`. `left` and `right` are each a heading for the column of
    names, and the names of the numbers. For intervals, settings are drawn again, and then seeds within them.
    """
    (left_heading, left_names), (right_heading, right_names) = left, right
    rows = []
    for key, group in runs.grouped_by(*by):
        columns = group.number_columns(left_names), group.number_columns(right_names)
        n, estimate = ranked(*columns, resamples, seed, settings=group.run_column("setting"))
        for (a, left_name), (b, right_name) in itertools.product(enumerate(left_names), enumerate(right_names)):
            rows.append((*key, left_name, right_name, int(n[a, b]), *(column[a, b].tolist() for column in estimate)))
    return frame({**dict.fromkeys((*by, left_heading, right_heading), str), "n": int, **ESTIMATE}, rows)


def shared_rows(x: MaskedArray, y: MaskedArray) -> np.ndarray:
    """How many rows have a value in both columns, for each column of x and each column of y: (A, B)."""
    has_x, has_y = ((~np.ma.getmaskarray(columns)).astype(int) for columns in (x, y))
    return has_x.T @ has_y
