"""Figures about tasks: what codes were good for, by method and by group of runs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

from sober.report import charts
from sober.report.charts import Row
from sober.report.figure import Figure, Key
from sober.report.pairs import of_runs
from sober.results import Made, Runs
from sober.results.papers import TABLES
from sober.results.within import judging, scored


def task_figures(runs: Runs, tables: Mapping[str, Made]) -> Iterator[Figure]:
    """Every figure of tasks that the tables allow, in the order of a report."""
    metrics = runs.ordered(scored(runs, TABLES["transfer"].name))
    criteria = [name for name in runs.leading_criteria() if name in judging(runs)]
    if "task_curves" in tables:
        yield _curves(tables["task_curves"])
    if "tasks_by_group" in tables:
        yield _groups(runs, tables["tasks_by_group"], metrics)
    pairs = itertools.product([*metrics, *criteria], runs.leading_tasks())
    yield of_runs(runs, "task_pairs", "Task against score", pairs)


def _curves(made: Made) -> Figure:
    """A panel for each world and curve, a line for each method."""
    panels: dict[Key, list[Row]] = {}
    frame = made.frame.sort("world", "curve", "method", "settings", "place", maintain_order=True)
    for row in frame.iter_rows(named=True):
        panels.setdefault((row["world"], row["curve"]), []).append(row)
    return Figure(
        "task_curves",
        made.table.title,
        "Means over the runs of a method, and their 95% intervals. A code that is easy to use is high on the left "
        "already.",
        made.caption,
        charts.rising,
        ("world", "curve"),
        panels,
    )


def _groups(runs: Runs, made: Made, metrics: list[str]) -> Figure:
    """A panel for each world and metric: the three groups side by side for each number of a task."""
    panels: dict[Key, list[Row]] = {}
    order = {name: place for place, name in enumerate(runs.ordered(runs.tasks()))}
    for row in sorted(made.frame.iter_rows(named=True), key=lambda row: order[row["task"]]):
        if row["metric"] in metrics:
            panels.setdefault((row["world"], row["metric"]), []).append(row)
    return Figure(
        "tasks_by_group",
        made.table.title,
        "The runs of a world in three groups, by a metric. Dots are means over the runs of a group, lines their 95% "
        "intervals.",
        made.caption,
        charts.groups,
        ("world", "metric"),
        {key: panels[key] for key in sorted(panels, key=lambda key: (key[0], metrics.index(key[1])))},
    )
