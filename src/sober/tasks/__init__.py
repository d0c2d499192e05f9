"""Tasks measure what representations are good for. One file each."""

from sober.tasks.registry import TASKS, find_task, task_of
from sober.tasks.task import Subjects, Task
from sober.tasks.task_scores import as_scores, joined, perform

__all__ = ["TASKS", "Subjects", "Task", "as_scores", "find_task", "joined", "perform", "task_of"]
