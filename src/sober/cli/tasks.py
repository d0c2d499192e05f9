"""`sober tasks`."""

from __future__ import annotations

from sober.cli.console import console, indented
from sober.cli.metrics import say_scores
from sober.tasks import TASKS


def tasks() -> None:
    """List the tasks: what each asks of a representation, its scores, its settings and its paper.

    Example: `sober tasks`
    """
    for name, task in TASKS.items():
        console.print(f"[bold]{name}[/]  {task.summary}")
        if task.needs == "models":
            indented("[dim]needs the models of a folder; arrays are not enough[/]")
        say_scores(task)
