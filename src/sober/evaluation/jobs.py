"""A job: a piece of work that one process claims, notes its progress with, and may fail at."""

from __future__ import annotations

from typing import Literal, NamedTuple

from sober.results.request import Cohort
from sober.types import Run

JobKind = Literal["cohort", "score", "task", "judge"]


class Job(NamedTuple):
    """Work of one kind on some runs.

    cohort   train the runs of a cohort, score them, and perform tasks with them
    score    all metrics of one run, as a part of its cohort's job
    task     one task with some runs, as a part of their cohort's job
    judge    ask criteria about the models of a world, and save showcases for the report
    """

    kind: JobKind
    runs: tuple[Run, ...]
    task: str = ""

    @property
    def name(self) -> str:
        """The name of its claim, its note of progress and its failure."""
        if self.kind == "score":
            return f"score-{self.runs[0].identity}"
        cohort = Cohort.of(self.runs).name
        return {"cohort": cohort, "task": f"{self.task}-{cohort}", "judge": f"judge-{cohort}"}[self.kind]
