"""What representations are good for: tasks, one file each."""

from sober.tasks.registry import TASKS, find_task, task_of
from sober.tasks.task import Subjects, Task

__all__ = ["TASKS", "Subjects", "Task", "find_task", "task_of"]
