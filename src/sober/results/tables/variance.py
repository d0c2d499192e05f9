"""Shares of a metric's variance that the method and its setting explain."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from sober.results.runs import Runs
from sober.results.stats import (
    Interval,
    adjusted_share,
    interval,
    resampled,
    variance_explained,
)
from sober.results.tables.estimates import ESTIMATE, frame
from sober.results.tables.number_groups import paper_scores
from sober.results.tables.table import (
    METHODS,
    ONE_METRIC,
    SEEDS,
    SEVEN_SCORES,
    SOBER_LOOK,
    table,
)

if TYPE_CHECKING:
    import polars as pl


@table(
    "Share of the variance explained by the method, and by the setting",
    f"{SOBER_LOOK}, Table 5",
    needs=(METHODS, SEEDS, ONE_METRIC),
)
def objective_variance(runs: Runs, *, resamples: int, seed: int) -> pl.DataFrame:
    """Share of a metric's variance explained by the method, and by the setting: the method with its hyperparameters."""
    rows = []
    for (world,), runs_of_world in runs.grouped_by("world"):
        counts = resampled(len(runs_of_world.run_frame), resamples=resamples, seed=seed)
        for name, by in itertools.product(runs.metrics(), ("method", "setting")):
            column = runs_of_world.number_columns([name])[:, 0]
            present = ~np.ma.getmaskarray(column)
            if present.any():
                groups = runs_of_world.run_column(by)[present]
                rows.append((world, name, by, *_explained(column.compressed(), groups, counts[:, present])))
    return frame({"world": str, "metric": str, "by": str, "groups": int, "n": int, **ESTIMATE, "adjusted": float}, rows)


def _explained(values: np.ndarray, groups: np.ndarray, counts: np.ndarray) -> tuple[Any, ...]:
    """The number of groups and of rows, the share with its interval, and the share corrected for chance."""
    share, number = variance_explained(values, groups), len(set(groups))
    draws = variance_explained(values, groups, counts=counts)
    return (
        number,
        len(values),
        *_as_shares(interval(share, draws, centred=True)),
        adjusted_share(share, len(values), number),
    )


def _as_shares(estimate: Interval) -> list[float | None]:
    """A share and its interval from 0 to 1: a centred interval can reach further."""
    return [None if end is None else min(max(end, 0.0), 1.0) for end in estimate]


@table(
    "Share of the variance explained by the method, and by the setting, mean over worlds and metrics",
    f"{SOBER_LOOK}, section 5.3",
    needs=(METHODS, SEEDS, ONE_METRIC),
    scores=SEVEN_SCORES,
)
def variance_averages(runs: Runs, *, resamples: int, seed: int) -> pl.DataFrame:
    """Locatello et al., section 5.3: mean over worlds and the paper's scores of the shares in `objective_variance`."""
    rows = []
    names = paper_scores(runs, variance_averages.scores)
    for by in ("method", "setting"):
        values, draws = [], []
        for _, runs_of_world in runs.grouped_by("world"):
            counts = resampled(len(runs_of_world.run_frame), resamples=resamples, seed=seed)
            groups = runs_of_world.run_column(by)
            for column in runs_of_world.number_columns(names).T:
                present = ~np.ma.getmaskarray(column)
                share = variance_explained(column.compressed(), groups[present]) if present.any() else None
                if share is not None:
                    values.append(share)
                    draws.append(variance_explained(column.compressed(), groups[present], counts=counts[:, present]))
        if values:
            mean = interval(np.mean(values), np.ma.mean(np.ma.stack(draws), axis=0), centred=True)
            rows.append((by, len(values), *_as_shares(mean)))
    return frame({"by": str, "n": int, **ESTIMATE}, rows)
