"""Tasks, by name. To add one: one file here, one line below, one test.

Importing this needs no JAX, so a task that works with models imports it when it is performed.
"""

from __future__ import annotations

from sober.errors import UnknownError, listed
from sober.tasks.abstract_reasoning import abstract_reasoning
from sober.tasks.downstream import downstream
from sober.tasks.fid import fid
from sober.tasks.task import Task
from sober.tasks.zero_shot import zero_shot

TASKS: dict[str, Task] = {
    "downstream": downstream,
    "zero_shot": zero_shot,
    "abstract_reasoning": abstract_reasoning,
    "fid": fid,
}


def find_task(name: str) -> Task:
    """The task of that name."""
    if name not in TASKS:
        raise UnknownError(f"there is no task {name!r}: there are {listed(TASKS)}")
    return TASKS[name]


def task_of(score: str) -> Task:
    """The task that a score belongs to."""
    for task in TASKS.values():
        if score in task.scores:
            return task
    raise UnknownError(
        f"there is no score {score!r} of a task: there are {listed(n for t in TASKS.values() for n in t.scores)}"
    )
