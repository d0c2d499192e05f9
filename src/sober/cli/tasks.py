"""`sober tasks`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.console import Group

from sober.cli.console import console
from sober.cli.name_lists import Entry, Facts, NameList, card, page_of, presets_fact, scores_fact
from sober.errors import counted
from sober.settings_text import assignments

if TYPE_CHECKING:
    from sober.tasks import Task

END = """sober tasks NAME: its scores, settings and paper.
sober score runs/blocks --tasks downstream performs one with the models of a folder."""


def tasks(names: Annotated[list[str] | None, Parameter(name="NAME")] = None, /) -> None:
    """List the tasks on one screen, or say all about the tasks that you name.

    For example:

    - `sober tasks`
    - `sober tasks downstream`

    Parameters
    ----------
    names
        Tasks: print what each asks of a representation, its scores, its settings and its paper.
    """
    from sober.tasks import TASKS, find_task

    if names:
        for task in map(find_task, names):
            console.print(task_card(task))
    else:
        console.print(NameList({"Tasks": [task_entry(task) for task in TASKS.values()]}, END))


def task_entry(task: Task) -> Entry:
    scores = counted(len(task.scores), "score")
    return Entry(task.name, scores, task.summary)


def task_card(task: Task) -> Group:
    """All about one task."""
    facts: Facts = {
        "scores": scores_fact(task.scores),
        "settings": assignments(task.settings),
        "presets": presets_fact(task.presets),
        "needs": "the models of a folder; arrays are not enough" if task.needs == "models" else "codes",
        "paper": task.reference,
        "page": page_of("tasks", task.perform),
    }
    return card(task.name, task.summary, facts)
