"""`sober metrics`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.console import Group

from sober.cli.console import console
from sober.cli.name_lists import Entry, Facts, NameList, card, ends, page_of, presets_fact, scores_fact
from sober.errors import unknown
from sober.settings_text import assignments

if TYPE_CHECKING:
    from sober.metrics import Metric

WITH_LABELS = "Measured by default, with labels"
WITHOUT_LABELS = "Measured by default, without labels"
NAMED = "Measured only if you name them, or with --metrics all"
END = """↑ higher is better, ↓ lower is better. sober metrics NAME: its scores, settings, paper and cost.
sober score codes.npz --metrics mig,dci measures these two."""


def metrics(names: Annotated[list[str] | None, Parameter(name="NAME")] = None, /) -> None:
    """List the metrics on one screen, or say all about the metrics or scores that you name.

    For example:

    - `sober metrics`
    - `sober metrics mig dci_completeness`

    Parameters
    ----------
    names
        Metrics or scores: print what each asks, its scores with their range, settings, presets, cost and paper.
    """
    if names:
        for metric in dict.fromkeys(map(_metric, names)):
            console.print(metric_card(metric))
    else:
        console.print(metric_list())


def _metric(name: str) -> Metric:
    """The metric of this name or with a score of this name."""
    from sober.metrics import METRICS, home_of
    from sober.metrics.registry import LISTED

    scores = [score for metric in METRICS.values() for score in metric.scores]
    if name in METRICS:
        return METRICS[name]
    if name in scores:
        return home_of(name)
    raise unknown("metric or score", [*METRICS, *scores], name, LISTED)


def metric_list() -> NameList:
    """Every metric in a line: its range, how many scores it has, and what it asks."""
    from sober.metrics import METRICS

    groups: dict[str, list[Entry]] = {WITH_LABELS: [], WITHOUT_LABELS: [], NAMED: []}
    for name, metric in METRICS.items():
        title = NAMED if not metric.default else WITH_LABELS if metric.supervised else WITHOUT_LABELS
        ranges = list(dict.fromkeys(map(ends, metric.scores.values())))
        scores = ", ".join(metric.scores) if [*metric.scores] != [name] else ""
        groups[title].append(Entry(name, ranges[0], metric.short or metric.summary, scores))
    return NameList(groups, END)


def metric_card(metric: Metric) -> Group:
    """All about one metric."""
    needs = f"codes{' and factors' if metric.supervised else ''}"
    needs += "; log-variances for some scores or settings" if metric.logvar else ""
    rows = "20,000 rows of 10 latents and 5 factors"
    facts: Facts = {
        "scores": scores_fact(metric.scores),
        "settings": assignments(metric.settings),
        "presets": presets_fact(metric.presets),
        "needs": needs,
        "measured": "by default" if metric.default else "only if you name it, or with --metrics all",
        "cost": f"about {metric.seconds:g} s of processor time for {rows}",
        "paper": metric.reference,
        "page": page_of("metrics", metric.measure),
    }
    return card(metric.name, metric.summary, facts)
