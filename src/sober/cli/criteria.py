"""`sober criteria`."""

from __future__ import annotations

from sober.cli.console import console, indented
from sober.criteria import CRITERIA
from sober.words import assignments


def criteria() -> None:
    """List the criteria that choose without labels: what each asks, sees and cannot see, its settings and its paper.

    Example: `sober criteria`
    """
    for name, criterion in CRITERIA.items():
        console.print(f"[bold]{name}[/]  {criterion.summary} [dim]({criterion.better} is better)[/]")
        indented(f"{criterion.sees} {criterion.blind}")
        if criterion.settings:
            indented(f"[dim]settings[/]  {assignments(criterion.settings)}")
        indented(f"[dim]{criterion.reference}[/]\n")
