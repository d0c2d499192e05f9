"""Figures of points: two numbers of each run, or of each setting, against each other."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sober.report import charts
from sober.report.charts import Chart, Row
from sober.report.figure import Figure, Key
from sober.results import Made, Runs
from sober.results.means import label_free
from sober.results.papers import TABLES, held
from sober.results.stats import quartiles
from sober.results.within import judging, scored

if TYPE_CHECKING:
    import polars as pl

POINTS = 120  # runs of a world in a panel, at most: more hide each other, and the page grows
METRICS = 2  # that criteria are drawn against: those that speak for the others
LEAST = 2  # points below which there is nothing to see


def pair_figures(runs: Runs, made: dict[str, Made]) -> Iterator[Figure]:
    """Every figure of points that the runs allow, in the order of a report."""
    metrics = runs.ordered(scored(runs, TABLES["transfer"].name))
    leading = [name for name in runs.ordered(runs.metrics()) if runs.numbers[name].sign][:METRICS]
    criteria = [name for name in runs.leading_criteria() if name in judging(runs)]
    yield of_runs(runs, "metric_pairs", "Metric against metric", itertools.combinations(metrics, 2))
    yield of_runs(runs, "criteria_pairs", "Criterion against metric", itertools.product(leading, criteria))
    yield of_runs(runs, "unified_pairs", "Rule against rule, on one matrix", _rules(runs))
    if "worlds_agreement" in made:
        yield _worlds(runs, metrics)
    twins = runs.sampled()
    yield of_runs(
        runs, "samples_pairs", "Of samples, and of means", ((twins[name], name) for name in twins), charts.log_pairs
    )
    if "means_by_setting" in made:
        yield _strengths(made["means_by_setting"].frame, made["means_by_setting"].caption, leading, label_free(runs))


def of_runs(runs: Runs, name: str, title: str, pairs: Iterable[tuple[str, str]], chart: Chart = charts.pairs) -> Figure:
    """A panel for each world and each two numbers, a point for each run."""
    several = list(pairs)
    panels: dict[Key, list[Row]] = {}
    for (world,), part in runs.by("world"):
        shown = np.unique(np.linspace(0, len(part.about) - 1, POINTS).round().astype(int))
        about = part.about[shown.tolist()].select("method", "setting", "seed").rows(named=True)
        for x, y in several:
            points = list(_points(about, part.columns([x, y])[shown], positive=chart is charts.log_pairs))
            if len(points) >= LEAST:
                panels[world, f"{x} · {y}"] = points
    fewer = f" Of more than {POINTS} runs of a world, {POINTS} are drawn." if len(runs.about) > POINTS else ""
    log = " Both axes are logarithmic; on the line both are equal." if chart is charts.log_pairs else ""
    says = f"Each point is a run. The first of the two numbers runs to the right, the second upwards.{log}{fewer}"
    return Figure(name, title, says, held(runs), chart, ("world", "numbers"), panels)


def _points(about: Sequence[Row], values: np.ma.MaskedArray, *, positive: bool) -> Iterator[Row]:
    for row, (x, y) in zip(about, values.tolist(), strict=True):
        if x is not None and y is not None and (not positive or min(x, y) > 0):
            yield {**row, "x": x, "y": y}


def _rules(runs: Runs) -> Iterator[tuple[str, str]]:
    """Unified scores that share a matrix."""
    known = {name: number.matrix for name, number in runs.numbers.items() if number.matrix}
    yield from ((one, other) for one, other in itertools.combinations(known, 2) if known[one] == known[other])


def _worlds(runs: Runs, metrics: Sequence[str]) -> Figure:
    """A panel for each metric and each two worlds, a point for each setting: medians over seeds."""
    worlds, settings = runs.different("world"), runs.different("setting")
    grid = runs.grid(metrics, settings)
    medians = quartiles(grid.reshape(-1, grid.shape[-1]))[1].reshape(grid.shape[:-1])  # (W, K, S)
    method = dict(runs.about.select("setting", "method").iter_rows())
    about = [{"method": method[setting], "setting": setting} for setting in settings]
    panels: dict[Key, list[Row]] = {}
    for (k, name), (a, b) in itertools.product(enumerate(metrics), itertools.combinations(range(len(worlds)), 2)):
        points = list(_points(about, np.ma.column_stack([medians[a, k], medians[b, k]]), positive=False))
        if len(points) >= LEAST:
            panels[name, f"{worlds[a]} · {worlds[b]}"] = points
    says = "Each point is a setting, its median over seeds in two worlds: the first to the right, the second upwards."
    caption = held(runs)
    return Figure("worlds_pairs", "A metric in two worlds", says, caption, charts.pairs, ("metric", "worlds"), panels)


def _strengths(frame: pl.DataFrame, caption: str, metrics: Sequence[str], criteria: Sequence[str]) -> Figure:
    """A panel for each world, criterion and metric: means over seeds, a point for each strength of a method."""
    panels: dict[Key, list[Row]] = {}
    swept = frame.drop_nulls("strength")
    for (world,), part in swept.partition_by("world", as_dict=True, maintain_order=True).items():
        for criterion, metric in itertools.product(criteria, metrics):
            x, y = (
                part.filter(metric=name).select("method", "setting", "strength", "value")
                for name in (criterion, metric)
            )
            both = x.join(y, on=("method", "setting", "strength"), suffix="_y", maintain_order="left")
            rows = both.rename({"value": "x", "value_y": "y"}).sort("method", "strength").rows(named=True)
            if len(rows) >= LEAST:
                panels[str(world), f"{criterion} · {metric}"] = list(rows)
    says = (
        "Each point is the mean over the seeds of a setting. A line joins the strengths of a method in order, and "
        "a larger point is a larger hyperparameter. The first number runs to the right, the second upwards."
    )
    return Figure(
        "strength_pairs",
        "Criterion and metric along the strengths",
        says,
        caption,
        charts.paths,
        ("world", "numbers"),
        panels,
    )
