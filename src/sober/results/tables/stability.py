"""Whether a metric ranks runs alike when it is computed again from other pictures (Locatello et al. 2020)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.ma import MaskedArray

from sober.results.runs import Runs, places
from sober.results.tables.estimates import ESTIMATE, frame, ranked
from sober.results.tables.table import (
    ONE_METRIC,
    SETTINGS_THEN_SEEDS,
    SOBER_LOOK,
    Need,
    table,
)

if TYPE_CHECKING:
    import polars as pl


TWO_DRAWS = Need(
    "metrics of two draws of as many pictures (sober score DIR --pictures 10000 --seed 1)",
    lambda runs: bool(list(_pairs_of_draws(runs))),
)


@table(
    "Rank correlation of metrics with themselves, on other pictures",
    f"{SOBER_LOOK}, Figures 21 and 22",
    needs=(ONE_METRIC, TWO_DRAWS),
    drawn=SETTINGS_THEN_SEEDS,
)
def stability(runs: Runs, *, resamples: int, seed: int) -> pl.DataFrame:
    """Locatello et al., Figures 21 and 22: rank correlation of metrics on two draws of pictures.

    Each number of pictures with two draws or more has its rows, from the draws with the two lowest seeds.
    """
    names, rows = runs.metrics(), []
    for pictures, first, second in _pairs_of_draws(runs):
        for (world,), runs_of_world in runs.grouped_by("world"):
            x, y = (_columns(runs_of_world, names, pictures, draw) for draw in (first, second))
            n, estimate = ranked(x, y, resamples, seed, settings=runs_of_world.run_column("setting"))
            for (a, metric), (b, other) in itertools.product(enumerate(names), repeat=2):
                if n[a, b] > 1:
                    values = (column[a, b].tolist() for column in estimate)
                    rows.append((world, pictures, metric, other, int(n[a, b]), *values))
    return frame(
        {"world": str, "pictures": int, "metric": str, "other": str, "n": int, **ESTIMATE},
        rows,
    )


def _pairs_of_draws(runs: Runs) -> Iterator[tuple[int, int, int]]:
    """Each number of pictures that was drawn twice, the most pictures first, with the seeds of two draws."""
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


def _columns(runs: Runs, names: list[str], pictures: int, draw: int) -> MaskedArray:
    """Each run's metrics on one draw of pictures: (N, K), masked where missing."""
    assert runs.draws is not None
    values = np.full((len(runs.run_frame), len(names)), np.nan)
    row_of, column_of = places(runs.run_column("run").tolist()), places(names)
    for run, name, value in runs.draws.filter(pictures=pictures, draw=draw).select("run", "name", "value").iter_rows():
        if run in row_of and name in column_of and value is not None:
            values[row_of[run], column_of[name]] = value
    return np.ma.masked_invalid(values)
