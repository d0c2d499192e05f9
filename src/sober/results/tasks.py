"""What scores say of the use of a representation: each metric and criterion against each number of each task."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from sober.results.estimates import ESTIMATE, RESAMPLES, correlated, frame
from sober.results.means import measured
from sober.results.measured import CURVE, kept_parts
from sober.results.runs import Runs, as_runs
from sober.results.stats import mean_interval

if TYPE_CHECKING:
    import polars as pl

GROUPS = ("low", "middle", "high")  # thirds of the runs of a world, by a metric
LEAST = 6  # runs of which thirds are made


def scores_against_tasks(data: pl.DataFrame | Runs, *, resamples: int = RESAMPLES, seed: int = 0) -> pl.DataFrame:
    """Locatello et al., Figures 23 and 28: rank correlation of each score with each number of a task, over the runs of
    a world."""
    return _correlations(as_runs(data), ("world",), resamples, seed)


def scores_against_tasks_within_methods(
    data: pl.DataFrame | Runs, *, resamples: int = RESAMPLES, seed: int = 0
) -> pl.DataFrame:
    """Estermann & Wattenhofer, Figure 4: the same over the runs of one method."""
    return _correlations(as_runs(data), ("world", "method"), resamples, seed)


def _correlations(runs: Runs, by: tuple[str, ...], resamples: int, seed: int) -> pl.DataFrame:
    scores = [name for name in measured(runs) if name not in runs.tasks()]
    return correlated(runs, by, ("score", scores), ("task", runs.tasks()), resamples, seed)


def tasks_by_group(data: pl.DataFrame | Runs, *, resamples: int = RESAMPLES, seed: int = 0) -> pl.DataFrame:
    """Locatello et al., Figures 26 and 27: what tasks give in three groups of runs, with a rising metric.

    A group is a third of the runs of a world that have both numbers, the worst by the metric first; `from` and `to`
    are the metric's values at its ends. The paper does not say where it cuts.
    """
    runs, rows = as_runs(data), []
    for (world,), part in runs.by("world"):
        for metric, task in itertools.product(part.metrics(), part.tasks()):
            x, y = part.turned(metric), part.columns([task])[:, 0]
            both = np.flatnonzero(~(np.ma.getmaskarray(x) | np.ma.getmaskarray(y)))
            if not part.numbers[metric].sign or len(both) < LEAST:
                continue
            order = both[np.argsort(x.data[both], kind="stable")]
            for group, members in zip(GROUPS, np.array_split(order, len(GROUPS)), strict=True):
                own = part.columns([metric]).data[members, 0]
                mean = mean_interval(y.data[members].tolist())
                rows.append((world, metric, group, float(own[0]), float(own[-1]), task, len(members), *mean))
    labels = {"world": str, "metric": str, "group": str, "from": float, "to": float, "task": str}
    return frame({**labels, "n": int, **ESTIMATE}, rows)


def task_curves(data: pl.DataFrame | Runs, *, resamples: int = RESAMPLES, seed: int = 0) -> pl.DataFrame:
    """How a task goes as it gets more to learn from: means over the runs of a method in a world, along each curve.

    A curve is a part that a task keeps of each model: places, such as rows or steps of training, and a value at each.
    """
    along: dict[tuple[Any, ...], list[float]] = {}
    for (world, method), part in as_runs(data).by("world", "method"):
        for name, settings, curve in _curves(part):
            for place, value in curve.T.tolist():
                along.setdefault((world, method, name, settings, place), []).append(value)
    rows = [(*key, len(values), *mean_interval(values)) for key, values in along.items()]
    labels = {**dict.fromkeys(("world", "method", "curve", "settings"), str), "place": float}
    return frame({**labels, "n": int, **ESTIMATE}, rows)


def _curves(runs: Runs) -> Iterator[tuple[str, str, np.ndarray]]:
    """Every curve that the folder keeps of runs: its name, the task's settings, and the curve (2, T)."""
    for run in runs.labels("run"):
        for kept in kept_parts(runs.folder, run) if runs.folder is not None else ():
            for name, curve in kept.parts.items():
                if name.endswith(CURVE) and curve.ndim == 2 and len(curve) == 2:
                    yield name.removesuffix(CURVE), kept.settings, curve
