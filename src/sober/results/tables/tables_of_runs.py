"""Single runs that a paper shows: each method's best run by a criterion, and runs that two metrics rank differently."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import scipy

from sober.results.runs import Runs
from sober.results.tables.estimates import frame
from sober.results.tables.number_groups import directed_criteria, evaluated_numbers
from sober.results.tables.table import (
    CHEN,
    TWO_METRICS,
    UDR,
    Need,
    table,
)

if TYPE_CHECKING:
    import polars as pl


ALL_METHODS = "all"  # the methods of a world together
DISPUTED_RUNS = 5  # for every two metrics, as in Chen et al., Figure S14
JUDGED = Need("a criterion, such as udr or pipe", lambda runs: bool(directed_criteria(runs)))


@table(
    "Each method's best run by a criterion",
    f"{UDR}, Figure 4",
    needs=(JUDGED,),
    drawn="",
)
def best_by_criterion(runs: Runs, *, resamples: int, seed: int) -> pl.DataFrame:
    """Duan et al., Figure 4: each method's best run by a criterion, with every number about that run."""
    rows, names = [], evaluated_numbers(runs)
    for (world, method), runs_of_method in runs.grouped_by("world", "method"):
        for criterion in directed_criteria(runs):
            if not runs_of_method.oriented(criterion).count():
                continue
            best = int(np.ma.argmax(runs_of_method.oriented(criterion)))
            run = runs_of_method.run_frame.row(best, named=True)
            values = zip(names, runs_of_method.number_columns(names)[best].tolist(), strict=True)
            labels = (world, method, criterion, run["setting"], run["seed"], run["run"])
            rows += [(*labels, name, value) for name, value in values if value is not None]
    schema = {**dict.fromkeys(("world", "method", "criterion", "setting"), str), "seed": int, "run": str}
    return frame({**schema, "metric": str, "value": float}, rows)


@table(
    "Runs that one metric ranks high and another low",
    f"{CHEN}, Figures S12 to S14",
    needs=(TWO_METRICS,),
    drawn="",
)
def disputed(runs: Runs, *, resamples: int, seed: int) -> pl.DataFrame:
    """Chen et al., Figures S12 to S14: runs that one metric ranks much higher than another, the most disputed first.

    `by_metric` is the share of the world's other runs that are worse than this run by the metric, `by_other` the share
    that are worse by the other metric. `value` is the first less the second. The paper compares β-VAEs with each other:
    runs are compared within each method, and under the method `all` with the runs of every method.
    """
    rows = []
    names = [name for name in runs.metrics() if runs.numbers[name].sign]
    groups = [((world, ALL_METHODS), runs_of_world) for (world,), runs_of_world in runs.grouped_by("world")]
    for group, compared_runs in [*groups, *runs.grouped_by("world", "method")]:
        for metric, other in itertools.permutations(names, 2):
            columns = [compared_runs.oriented(name) for name in (metric, other)]
            scored = np.flatnonzero(~(np.ma.getmaskarray(columns[0]) | np.ma.getmaskarray(columns[1])))
            if len(scored) < 2:
                continue
            ranks = np.array([scipy.stats.rankdata(column.data[scored], method="min") - 1 for column in columns])
            shares = ranks / (len(scored) - 1)
            difference = shares[0] - shares[1]
            most_disputed = np.argsort(-difference, kind="stable")[:DISPUTED_RUNS].tolist()
            for place, i in enumerate(most_disputed, start=1):
                run = compared_runs.run_frame.row(int(scored[i]), named=True)
                labels = (*group, metric, other, place, run["setting"], run["seed"], run["run"], len(scored))
                rows.append((*labels, *shares[:, i].tolist(), float(difference[i])))
    schema = {
        **dict.fromkeys(("world", "method", "metric", "other"), str),
        "place": int,
        "setting": str,
        "seed": int,
        "run": str,
    }
    return frame({**schema, "n": int, "by_metric": float, "by_other": float, "value": float}, rows)
