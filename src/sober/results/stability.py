"""Whether metrics agree with themselves when they are computed again, with other pictures (Locatello et al. 2020)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from sober.results.estimates import ESTIMATE, RESAMPLES, frame, ranked
from sober.results.runs import Runs, as_runs, places

if TYPE_CHECKING:
    import polars as pl
    from numpy.ma import MaskedArray


def stability(data: pl.DataFrame | Runs, *, resamples: int = RESAMPLES, seed: int = 0) -> pl.DataFrame:
    """Locatello et al., Figures 21 and 22: rank correlation of metrics on one draw of pictures with those on another.

    For each number of pictures of which the table has two draws: those of the first two seeds.
    """
    runs = as_runs(data)
    names, rows = runs.metrics(), []
    for pictures, first, second in _twice(runs):
        for (world,), part in runs.by("world"):
            x, y = (_columns(part, names, pictures, draw) for draw in (first, second))
            n, estimate = ranked(x, y, resamples, seed)
            for (a, metric), (b, other) in itertools.product(enumerate(names), repeat=2):
                if n[a, b] > 1:
                    values = (part_of[a, b].tolist() for part_of in estimate)
                    rows.append((world, pictures, metric, other, int(n[a, b]), *values))
    return frame(
        {"world": str, "pictures": int, "metric": str, "other": str, "n": int, **ESTIMATE},
        rows,
    )


def measured_twice(runs: Runs) -> bool:
    """Whether there is a number of pictures of which metrics were computed on two draws."""
    return bool(list(_twice(runs)))


def _twice(runs: Runs) -> Iterator[tuple[int, int, int]]:
    """Numbers of pictures, the most first, with the seeds of two draws."""
    if runs.draws is None:
        return
    metrics = runs.draws.filter(runs.draws["name"].is_in(runs.metrics()))
    seeds: dict[int, set[int]] = {}
    for pictures, draw in metrics.select("pictures", "draw").unique().iter_rows():
        seeds.setdefault(pictures, set()).add(draw)
    for pictures in sorted(seeds, reverse=True):
        if len(seeds[pictures]) > 1:
            first, second = sorted(seeds[pictures])[:2]
            yield pictures, first, second


def _columns(part: Runs, names: list[str], pictures: int, draw: int) -> MaskedArray:
    """Metrics on one draw, for each of the runs: (N, K), masked where there is none."""
    assert part.draws is not None
    values = np.full((len(part.about), len(names)), np.nan)
    row_of, column_of = places(part.labels("run").tolist()), places(names)
    for run, name, value in part.draws.filter(pictures=pictures, draw=draw).select("run", "name", "value").iter_rows():
        if run in row_of and name in column_of and value is not None:
            values[row_of[run], column_of[name]] = value
    return np.ma.masked_invalid(values)
