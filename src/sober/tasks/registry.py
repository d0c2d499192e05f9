"""Tasks, by name. To add one: one file here, one line below, one test.

Importing this needs no JAX, so a task that works with models imports it when it is performed.
"""

from __future__ import annotations

from sober.contracts import find
from sober.errors import unknown
from sober.tasks.abstract_reasoning import abstract_reasoning
from sober.tasks.downstream import downstream
from sober.tasks.fid import fid
from sober.tasks.readout import readout
from sober.tasks.task import Task
from sober.tasks.zero_shot import zero_shot

TASKS: dict[str, Task] = {
    "downstream": downstream,
    "zero_shot": zero_shot,
    "abstract_reasoning": abstract_reasoning,
    "fid": fid,
    "readout": readout,
}


def find_task(name: str) -> Task:
    """The task of that name."""
    return find("task", TASKS, name, "`sober tasks` lists all tasks")


def task_of(score: str) -> Task:
    """The task that computes a score."""
    for task in TASKS.values():
        if score in task.scores:
            return task
    raise unknown("score of a task", [name for task in TASKS.values() for name in task.scores], score)
