"""`sober metrics`."""

from __future__ import annotations

from sober.cli.console import console, indented
from sober.metrics import METRICS
from sober.words import assignments


def metrics() -> None:
    """List the metrics: what each asks, its scores with their range and direction, its settings and its paper.

    Example: `sober metrics`
    """
    for name, metric in METRICS.items():
        console.print(f"[bold]{name}[/]  {metric.summary}")
        if not metric.default:
            indented("[dim]only when asked for: by name, or with --metrics all[/]")
        for score, meaning in metric.scores.items():
            indented(f"[cyan]{score}[/]  {meaning.summary} [dim]({meaning})[/]")
        indented(f"[dim]settings[/]  {assignments(metric.settings)}")
        for preset, changes in metric.presets.items():
            indented(f"[dim]preset {preset}[/]  {assignments(changes)}")
        indented(f"[dim]{metric.reference}[/]\n")
