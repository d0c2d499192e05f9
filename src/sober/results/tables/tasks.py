"""Whether scores predict how useful a representation is: metrics and criteria against the numbers of tasks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from sober.results.runs import Runs
from sober.results.score_files import CURVE, has_parts, load_parts
from sober.results.stats import (
    mean_interval,
)
from sober.results.tables.estimates import ESTIMATE, correlated, frame, mean_within, settings_that_differ
from sober.results.tables.number_groups import evaluated_numbers
from sober.results.tables.table import (
    DAVA,
    ONE_METRIC,
    SETTINGS_THEN_SEEDS,
    SOBER_LOOK,
    Need,
    table,
)

if TYPE_CHECKING:
    import polars as pl


GROUPS = ("low", "middle", "high")  # thirds of the runs of a world, by a metric
FEWEST_RUNS = 6  # that are split into thirds
A_TASK = Need("a task (sober score DIR --tasks, sober tasks lists them)", lambda runs: bool(runs.tasks()))
THREE_GROUPS = Need(f"at least {FEWEST_RUNS} runs", lambda runs: len(runs.run_frame) >= FEWEST_RUNS)
CURVES = Need("curves of a task, in the folder's matrices/", lambda runs: has_parts(runs, CURVE))


@table(
    "Rank correlation of scores with tasks",
    f"{SOBER_LOOK}, Figures 23 and 28",
    needs=(A_TASK,),
    drawn=SETTINGS_THEN_SEEDS,
)
def scores_against_tasks(runs: Runs, *, resamples: int, seed: int) -> pl.DataFrame:
    """Locatello et al., Figures 23 and 28: rank correlation of scores with numbers of tasks, over a world's runs."""
    return _correlations(runs, ("world",), resamples, seed)


@table(
    "Rank correlation of scores with tasks, over the runs of one method",
    f"{DAVA}, Figure 4",
    needs=(A_TASK,),
    drawn=SETTINGS_THEN_SEEDS,
)
def scores_against_tasks_within_methods(runs: Runs, *, resamples: int, seed: int) -> pl.DataFrame:
    """Estermann & Wattenhofer, Figure 4: rank correlation of scores with numbers of tasks, over a method's runs."""
    return _correlations(runs, ("world", "method"), resamples, seed)


def _correlations(runs: Runs, by: tuple[str, ...], resamples: int, seed: int) -> pl.DataFrame:
    scores = [name for name in evaluated_numbers(runs) if name not in runs.tasks()]
    return correlated(runs, by, ("score", scores), ("task", runs.tasks()), resamples, seed)


@table(
    "Tasks in three groups of runs: low, middle and high by a metric",
    f"{SOBER_LOOK}, Figures 26 and 27",
    needs=(A_TASK, ONE_METRIC, THREE_GROUPS),
    drawn="",
)
def tasks_by_group(runs: Runs, *, resamples: int, seed: int) -> pl.DataFrame:
    """Locatello et al., Figures 26 and 27: means of a task's numbers in three groups of runs, split by a metric.

    The runs of a world that have the metric and the task are sorted from worst to best by the metric, and cut into
    thirds. `from` and `to` are the metric at the first and the last run of a group. The paper does not say where it
    cuts.
    """
    rows = []
    for (world,), runs_of_world in runs.grouped_by("world"):
        for metric, task in itertools.product(runs_of_world.metrics(), runs_of_world.tasks()):
            x, y = runs_of_world.oriented(metric), runs_of_world.number_columns([task])[:, 0]
            scored = np.flatnonzero(~(np.ma.getmaskarray(x) | np.ma.getmaskarray(y)))
            if not runs_of_world.numbers[metric].sign or len(scored) < FEWEST_RUNS:
                continue
            order = scored[np.argsort(x.data[scored], kind="stable")]
            for group, members in zip(GROUPS, np.array_split(order, len(GROUPS)), strict=True):
                values = runs_of_world.number_columns([metric]).data[members, 0]
                mean = mean_within(y.data[members].tolist(), runs.bounds(task))
                rows.append((world, metric, group, float(values[0]), float(values[-1]), task, len(members), *mean))
    labels = {"world": str, "metric": str, "group": str, "from": float, "to": float, "task": str}
    return frame({**labels, "n": int, **ESTIMATE}, rows)


@table(
    "Curves of tasks: how a task goes with more to learn from",
    f"{SOBER_LOOK}, section 7",
    needs=(A_TASK, CURVES),
    drawn="",
)
def task_curves(runs: Runs, *, resamples: int, seed: int) -> pl.DataFrame:
    """How a task goes with more to learn from: means over the runs of a method in a world, along each curve.

    A task saves a curve for each model: places, such as numbers of rows or steps of training, and a value at each.
    `settings` are those in which the folder's curves of that name differ.
    """
    values_by_place: dict[tuple[Any, ...], list[float]] = {}
    for (world, method), runs_of_method in runs.grouped_by("world", "method"):
        for name, settings, curve in _curves(runs_of_method):
            for place, value in curve.T.tolist():
                values_by_place.setdefault((world, method, name, settings, place), []).append(value)
    names = settings_that_differ((name, settings) for _, _, name, settings, _ in values_by_place)
    rows = [
        (world, method, name, names[name, settings], place, len(values), *mean_interval(values))
        for (world, method, name, settings, place), values in values_by_place.items()
    ]
    labels = {**dict.fromkeys(("world", "method", "curve", "settings"), str), "place": float}
    return frame({**labels, "n": int, **ESTIMATE}, rows)


def _curves(runs: Runs) -> Iterator[tuple[str, str, np.ndarray]]:
    """Every curve that the folder keeps of runs: its name, the task's settings, and the curve (2, T)."""
    for run in runs.run_column("run"):
        for task in load_parts(runs.folder, run) if runs.folder is not None else ():
            for name, curve in task.parts.items():
                if name.endswith(CURVE) and curve.ndim == 2 and len(curve) == 2:
                    yield name.removesuffix(CURVE), task.settings, curve
