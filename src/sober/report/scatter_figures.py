"""Figures of points: each point is a run or a setting, and its place is given by two numbers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from sober.report import charts
from sober.report.charts import Chart, Row
from sober.report.figure import Figure, Key
from sober.results import ResultTable, Runs
from sober.results.stats import quartiles
from sober.results.tables.number_groups import directed_criteria, directed_label_free, paper_scores
from sober.results.tables.registry import TABLES
from sober.results.tables.table import run_counts

POINTS = 120  # a panel shows at most as many runs: more would hide each other and make the page large
METRICS = 2  # criteria are drawn against the first metrics in order, at most as many
POSITIVE = (0.0, math.inf)  # bounds of numbers that are drawn on a logarithmic axis, such as total correlations
LEAST = 2  # a panel with fewer points is left out


def pair_figures(runs: Runs, tables: Mapping[str, ResultTable]) -> Iterator[Figure]:
    """Every figure of points that the runs allow, in the order of a report."""
    metrics = runs.ordered(paper_scores(runs, TABLES["transfer"].scores))
    leading = [name for name in runs.ordered(runs.metrics()) if runs.numbers[name].sign][:METRICS]
    criteria = [name for name in runs.headline_criteria() if name in directed_criteria(runs)]
    yield run_pairs(runs, "metric_pairs", "Metric against metric", itertools.combinations(metrics, 2))
    if "disputed" in tables:
        yield _disputed(runs, tables["disputed"], leading)
    yield run_pairs(runs, "criteria_pairs", "Criterion against metric", itertools.product(leading, criteria))
    yield run_pairs(runs, "unified_pairs", "Rule against rule, on one matrix", _rules(runs))
    if "worlds_agreement" in tables:
        yield _worlds(runs, metrics)
    twins = runs.sample_twins()
    sample_pairs = ((of_samples, of_means) for of_means, of_samples in twins.items())
    yield run_pairs(
        runs, "samples_pairs", "A score of samples against the same of means", sample_pairs, charts.log_pairs
    )
    if "means_by_setting" in tables:
        label_free = directed_label_free(runs)
        of_any_size = [name for name in label_free if runs.bounds(name) == POSITIVE]
        others = [name for name in label_free if name not in of_any_size]
        yield _strengths(runs, tables["means_by_setting"], leading, others)
        yield _strengths(runs, tables["means_by_setting"], leading, of_any_size, charts.log_paths)


def run_pairs(
    runs: Runs, name: str, title: str, pairs: Iterable[tuple[str, str]], chart: Chart = charts.pairs
) -> Figure:
    """A figure with a panel for each world and each pair of numbers, and a point for each run."""
    number_pairs = list(pairs)
    panels: dict[Key, list[Row]] = {}
    for (world,), world_runs in runs.grouped_by("world"):
        drawn = np.unique(np.linspace(0, len(world_runs.run_frame) - 1, POINTS).round().astype(int))
        labels = world_runs.run_frame[drawn.tolist()].select("method", "setting", "seed").rows(named=True)
        for x, y in number_pairs:
            values = world_runs.number_columns([x, y])[drawn]
            points = list(_points(labels, values, positive=chart is charts.log_pairs))
            if len(points) >= LEAST:
                panels[world, f"{x} · {y}"] = points
    cut = f" A panel shows at most {POINTS} runs of its world." if len(runs.run_frame) > POINTS else ""
    log = " Both axes are logarithmic; on the line the numbers are equal." if chart is charts.log_pairs else ""
    how_to_read = f"Each point is a run. The first number grows to the right, the second upwards.{log}{cut}"
    return Figure(name, title, how_to_read, run_counts(runs), chart, ("world", "numbers"), panels)


def _points(labels: Sequence[Row], values: np.ma.MaskedArray, *, positive: bool) -> Iterator[Row]:
    """The rows of a panel: labels with two values, where both exist and, if asked, are positive."""
    for row, (x, y) in zip(labels, values.tolist(), strict=True):
        if x is not None and y is not None and (not positive or min(x, y) > 0):
            yield {**row, "x": x, "y": y}


def _disputed(runs: Runs, disputed: ResultTable, metrics: Sequence[str]) -> Figure:
    """A figure with a panel for each world, method and ordered pair of metrics; the most disputed runs are marked."""
    pairs = list(itertools.permutations(metrics, 2))
    rows_by_panel: dict[Key, dict[str, int]] = {}
    for row in disputed.frame.iter_rows(named=True):
        key = row["world"], row["method"], row["metric"], row["other"]
        rows_by_panel.setdefault(key, {})[row["run"]] = row["place"]
    panels: dict[Key, list[Row]] = {}
    for (world, method), runs_of_method in runs.grouped_by("world", "method"):
        frame = runs_of_method.run_frame.select("run", "setting", "seed")
        drawn = np.unique(np.linspace(0, len(frame) - 1, POINTS).round().astype(int))
        for metric, other in pairs:
            places = rows_by_panel.get((world, method, metric, other), {})
            marked = np.flatnonzero(np.isin(frame["run"].to_numpy(), list(places)))
            chosen = np.union1d(drawn, marked)
            labels = [
                {"setting": row["setting"], "seed": row["seed"], "place": str(places.get(row["run"], ""))}
                for row in frame[chosen.tolist()].iter_rows(named=True)
            ]
            points = list(_points(labels, runs_of_method.number_columns([other, metric])[chosen], positive=False))
            if places and len(points) >= LEAST:
                panels[world, method, f"{other} · {metric}"] = points
    cut = f" A panel shows at most {POINTS} runs and these." if len(runs.run_frame) > POINTS else ""
    how_to_read = (
        "Each point is a run of one method. The first metric grows to the right, the second upwards. Numbered runs are "
        f"the most disputed: the second metric ranks them highest above the first.{cut}"
    )
    title = "Runs that one metric ranks high and another low, within a method"
    by = ("world", "method", "numbers")
    return Figure("disputed_pairs", title, how_to_read, disputed.caption, charts.marked_pairs, by, panels)


def _rules(runs: Runs) -> Iterator[tuple[str, str]]:
    """Every two unified scores that share a matrix."""
    matrices = {name: number.matrix for name, number in runs.numbers.items() if number.matrix}
    yield from ((one, other) for one, other in itertools.combinations(matrices, 2) if matrices[one] == matrices[other])


def _worlds(runs: Runs, metrics: Sequence[str]) -> Figure:
    """A figure with a panel for each metric and each pair of worlds, and a point for each setting."""
    worlds, settings = runs.unique("world"), runs.unique("setting")
    grid = runs.grid(metrics, settings)
    medians = quartiles(grid.reshape(-1, grid.shape[-1]))[1].reshape(grid.shape[:-1])  # (W, K, S)
    methods = dict(runs.run_frame.select("setting", "method").iter_rows())
    labels = [{"method": methods[setting], "setting": setting} for setting in settings]
    panels: dict[Key, list[Row]] = {}
    for (k, name), (a, b) in itertools.product(enumerate(metrics), itertools.combinations(range(len(worlds)), 2)):
        points = list(_points(labels, np.ma.column_stack([medians[a, k], medians[b, k]]), positive=False))
        if len(points) >= LEAST:
            panels[name, f"{worlds[a]} · {worlds[b]}"] = points
    how_to_read = (
        "Each point is a setting: its median over seeds in the first world runs to the right, in the second upwards."
    )
    return Figure(
        "worlds_pairs",
        "A metric in two worlds",
        how_to_read,
        run_counts(runs),
        charts.pairs,
        ("metric", "worlds"),
        panels,
    )


def _strengths(
    runs: Runs, means: ResultTable, metrics: Sequence[str], criteria: Sequence[str], chart: Chart = charts.paths
) -> Figure:
    """A figure with a panel for each world, criterion and metric, and a point for each strength of a sweep."""
    log = chart is charts.log_paths
    panels: dict[Key, list[Row]] = {}
    sweeps = runs.run_frame.select("world", "setting", "sweep").unique()
    swept = means.frame.drop_nulls("strength").join(sweeps, on=("world", "setting"), maintain_order="left")
    swept = swept.drop("method").rename({"sweep": "method"})
    for (world,), world_means in swept.partition_by("world", as_dict=True, maintain_order=True).items():
        for criterion, metric in itertools.product(criteria, metrics):
            x, y = (
                world_means.filter(metric=name).select("method", "setting", "strength", "value")
                for name in (criterion, metric)
            )
            joined = x.join(y, on=("method", "setting", "strength"), suffix="_y", maintain_order="left")
            points = joined.rename({"value": "x", "value_y": "y"}).sort("method", "strength").rows(named=True)
            rows: list[Row] = [row for row in points if not log or row["x"] > 0]
            if len(rows) >= LEAST:
                panels[str(world), f"{criterion} · {metric}"] = rows
    how_to_read = (
        "Each point is the mean over the seeds of a setting. A line joins the strengths of a method in order, and "
        "a larger point is a larger hyperparameter. The first number grows to the right, the second upwards."
    )
    return Figure(
        "strength_log_pairs" if log else "strength_pairs",
        "Criterion and metric along the strengths" + (", on a logarithmic axis" if log else ""),
        how_to_read + (" The axis of the first number is logarithmic." if log else ""),
        means.caption,
        chart,
        ("world", "numbers"),
        panels,
    )
