"""Rank correlations of numbers about runs: metrics with each other, with label-free numbers, and between worlds."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sober.results.runs import Runs
from sober.results.stats import (
    Unified,
    quartiles,
    unified_pairs,
)
from sober.results.tables.estimates import ESTIMATE, correlated, frame, ranked
from sober.results.tables.table import (
    CRITERIA,
    DAVA,
    ONE_METRIC,
    SETTINGS_THEN_SEEDS,
    SOBER_LOOK,
    TWO_CRITERIA,
    TWO_METRICS,
    UDR,
    WORLDS,
    Need,
    table,
)

if TYPE_CHECKING:
    import polars as pl


UNIFIED = Need(
    "at least two unified scores, such as mi/mig and gbt/mig", lambda runs: bool(unified_pairs(_unified(runs)))
)


@table(
    "Rank correlation between metrics",
    f"{SOBER_LOOK}, Figure 13",
    needs=(TWO_METRICS,),
    drawn=SETTINGS_THEN_SEEDS,
)
def metric_agreement(runs: Runs, *, resamples: int, seed: int) -> pl.DataFrame:
    """Rank correlation of every two supervised metrics over the runs of a world."""
    pairs = list(itertools.combinations(runs.metrics(), 2))
    return _correlations(runs, ("metric", "other"), pairs, resamples, seed)


@table(
    "Rank correlation of label-free numbers with metrics",
    f"{SOBER_LOOK}, Figure 8; {UDR}",
    needs=(ONE_METRIC, CRITERIA),
    drawn=SETTINGS_THEN_SEEDS,
)
def criteria_against_metrics(runs: Runs, *, resamples: int, seed: int) -> pl.DataFrame:
    """Rank correlation of every label-free number with every supervised metric, over the runs of a world."""
    numbers = ("criterion", runs.criteria()), ("metric", runs.metrics())
    return correlated(runs, ("world",), *numbers, resamples, seed)


@table(
    "Rank correlation between label-free numbers",
    f"{DAVA}, Figures 3 and 18",
    needs=(TWO_CRITERIA,),
    drawn=SETTINGS_THEN_SEEDS,
)
def criteria_agreement(runs: Runs, *, resamples: int, seed: int) -> pl.DataFrame:
    """Rank correlation of every two label-free numbers over the runs of a world."""
    pairs = list(itertools.combinations(runs.criteria(), 2))
    return _correlations(runs, ("criterion", "other"), pairs, resamples, seed)


@table(
    "Rank correlation of a metric between worlds, over settings",
    f"{SOBER_LOOK}, Figure 9",
    needs=(WORLDS, ONE_METRIC),
    drawn="settings",
)
def worlds_agreement(runs: Runs, *, resamples: int, seed: int) -> pl.DataFrame:
    """Rank correlation of a metric in one world with the same metric in another, over the medians of settings."""
    runs = runs.not_diverged()
    names, worlds = runs.metrics(), runs.unique("world")
    grid = runs.grid(names, runs.unique("setting"))
    medians = quartiles(grid.reshape(-1, grid.shape[-1]))[1].reshape(grid.shape[:-1])  # (W, K, S)
    rows = []
    for metric, name in enumerate(names):
        by_world = medians[:, metric].T  # (S, W)
        n, estimate = ranked(by_world, by_world, resamples, seed)
        for a, b in itertools.combinations(range(len(worlds)), 2):
            rows.append((name, worlds[a], worlds[b], int(n[a, b]), *(column[a, b].tolist() for column in estimate)))
    return frame({"metric": str, "world": str, "other": str, "n": int, **ESTIMATE}, rows)


@table(
    "Rank correlation of scores that share a matrix or a rule",
    f"{SOBER_LOOK}, Figures 16 and 20",
    needs=(UNIFIED,),
    drawn=SETTINGS_THEN_SEEDS,
)
def unified_agreement(runs: Runs, *, resamples: int, seed: int) -> pl.DataFrame:
    """Rank correlation of scores that share the matrix, or the rule, over the runs of a world."""
    pairs = unified_pairs(_unified(runs))
    return _correlations(runs, ("score", "other", "shared"), pairs, resamples, seed)


def _unified(runs: Runs) -> list[Unified]:
    numbers = ((name, runs.numbers[name]) for name in runs.unified())
    return [Unified(name, number.matrix, number.rule or number.metric) for name, number in numbers]


def _correlations(
    runs: Runs, labels: Sequence[str], pairs: Sequence[tuple[str, ...]], resamples: int, seed: int
) -> pl.DataFrame:
    """Rank correlations of pairs of numbers, world by world. Settings and then seeds are drawn again for intervals."""
    left, right = (list(dict.fromkeys(pair[side] for pair in pairs)) for side in (0, 1))
    cells = tuple(np.array([[left.index(pair[0]), right.index(pair[1])] for pair in pairs], int).reshape(-1, 2).T)
    rows = []
    for (world,), runs_of_world in runs.grouped_by("world"):
        columns = runs_of_world.number_columns(left), runs_of_world.number_columns(right)
        n, correlations = ranked(*columns, resamples, seed, settings=runs_of_world.run_column("setting"))
        estimates = (column[cells].tolist() for column in correlations)
        for pair, runs_shared, *estimate in zip(pairs, n[cells], *estimates, strict=True):
            rows.append((world, *pair, int(runs_shared), *estimate))
    return frame({"world": str, **dict.fromkeys(labels, str), "n": int, **ESTIMATE}, rows)
