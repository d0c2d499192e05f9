"""What representations are good for: tasks, one file each."""

from sober.tasks.perform import as_scores, joined, perform
from sober.tasks.registry import TASKS, find_task, task_of
from sober.tasks.task import Subjects, Task

__all__ = ["TASKS", "Subjects", "Task", "as_scores", "find_task", "joined", "perform", "task_of"]
