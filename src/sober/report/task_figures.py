"""Figures about tasks: how well codes did in them, by method and by group of runs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

from sober.report import charts
from sober.report.charts import Row
from sober.report.figure import Figure, Key
from sober.report.scatter_figures import run_pairs
from sober.results import ResultTable, Runs
from sober.results.tables.number_groups import directed_criteria, paper_scores
from sober.results.tables.registry import TABLES


def task_figures(runs: Runs, tables: Mapping[str, ResultTable]) -> Iterator[Figure]:
    """Every figure of tasks that the tables allow, in the order of a report."""
    metrics = runs.ordered(paper_scores(runs, TABLES["transfer"].scores))
    criteria = [name for name in runs.headline_criteria() if name in directed_criteria(runs)]
    if "task_curves" in tables:
        yield _curves(tables["task_curves"])
    if "tasks_by_group" in tables:
        yield _groups(runs, tables["tasks_by_group"], metrics)
    pairs = itertools.product([*metrics, *criteria], runs.headline_tasks())
    yield run_pairs(runs, "task_pairs", "Task against score", pairs)


def _curves(result: ResultTable) -> Figure:
    """A figure with a panel for each world and curve, and a line for each method."""
    panels: dict[Key, list[Row]] = {}
    frame = result.frame.sort("world", "curve", "method", "settings", "place", maintain_order=True)
    for row in frame.iter_rows(named=True):
        panels.setdefault((row["world"], row["curve"]), []).append(row)
    return Figure(
        "task_curves",
        result.table.title,
        "Means over the runs of a method, and their 95% intervals. Codes that are easy to use are high on the left, "
        "where a task has learned from little.",
        result.caption,
        charts.rising,
        ("world", "curve"),
        panels,
    )


def _groups(runs: Runs, result: ResultTable, metrics: list[str]) -> Figure:
    """A figure with a panel for each world and metric, and for each number of a task three groups side by side."""
    panels: dict[Key, list[Row]] = {}
    order = {name: place for place, name in enumerate(runs.ordered(runs.tasks()))}
    for row in sorted(result.frame.iter_rows(named=True), key=lambda row: order[row["task"]]):
        if row["metric"] in metrics:
            panels.setdefault((row["world"], row["metric"]), []).append(row)
    return Figure(
        "tasks_by_group",
        result.table.title,
        "A metric divides the runs of a world into three groups. Dots are means over the runs of a group, lines their "
        "95% intervals.",
        result.caption,
        charts.groups,
        ("world", "metric"),
        {key: panels[key] for key in sorted(panels, key=lambda key: (key[0], metrics.index(key[1])))},
    )
