"""`sober metrics`."""

from __future__ import annotations

from sober.cli.console import console, indented
from sober.metrics import METRICS, Metric
from sober.tasks import Task
from sober.words import assignments


def metrics() -> None:
    """List the metrics: what each asks, its scores with their range and direction, its settings and its paper.

    Example: `sober metrics`
    """
    for name, metric in METRICS.items():
        console.print(f"[bold]{name}[/]  {metric.summary}")
        if not metric.default:
            indented("[dim]only when asked for: by name, or with --metrics all[/]")
        say_scores(metric)


def say_scores(measure: Metric | Task) -> None:
    """Prints the scores of a metric or a task with their range and direction, its settings, and its paper."""
    for score, meaning in measure.scores.items():
        indented(f"[cyan]{score}[/]  {meaning.summary} [dim]({meaning})[/]")
    if measure.settings:
        indented(f"[dim]settings[/]  {assignments(measure.settings)}")
    for preset, changes in measure.presets.items():
        indented(f"[dim]preset {preset}[/]  {assignments(changes)}")
    indented(f"[dim]{measure.reference}[/]\n")
