"""The status of work on a folder: what is done, running and failed, and how much longer training may take."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Any

from sober.evaluation.failures import Failure, Failures
from sober.evaluation.progress_notes import ProgressNotes
from sober.requests.study.plan import work
from sober.results.folder import Folder
from sober.results.store import Holder

STALE = 120.0  # seconds after which a note of progress is ignored


@dataclasses.dataclass(frozen=True)
class Status:
    """What is done, running and failed in a folder at one moment."""

    name: str
    scale: str
    runs: int
    trained: int
    by_world: dict[str, tuple[int, int]]  # how many runs are trained, and how many there are
    rows: int  # in the table
    running: tuple[dict[str, Any], ...]  # fresh notes of progress of claimed jobs
    claimed: tuple[Holder, ...]
    failed: tuple[Failure, ...]
    missing: dict[str, str]  # worlds that cannot be opened here, and why
    work: dict[str, float]  # by cohort, in steps of one β-VAE
    work_left: float  # the work of all cohorts with untrained runs

    @property
    def seconds_left(self) -> float | None:
        """Seconds of training left at the present pace. None if no cohort is training or its pace is unknown."""
        training = [note for note in self.running if note["what"] == "training" and note.get("rate")]
        pace = sum(note["rate"] * self.work[note["task"]] / note["total"] for note in training)
        if not pace:
            return None
        done = sum(self.work[note["task"]] * note["done"] / note["total"] for note in training)
        return (self.work_left - done) / pace


def status(path: str | Path) -> Status:
    """The status of the work on a folder."""
    folder = Folder.open(path)
    request, store = folder.request, folder.store
    trained = {run.identity for run in folder.finished}
    by_world = {
        request.worlds[label]: (sum(run.identity in trained for run in runs), len(runs))
        for label, runs in request.by_world().items()
    }
    cohorts_left = [cohort for cohort in request.cohorts if not {run.identity for run in cohort.runs} <= trained]
    claimed = store.claimed()
    claimed_jobs = {holder.name for holder in claimed}
    fresh_notes = [
        note
        for note in ProgressNotes(folder.path).all()
        if note["task"] in claimed_jobs and time.time() - note["at"] < STALE
    ]
    return Status(
        request.name or request.maker,
        request.scale,
        sum(total for _, total in by_world.values()),
        sum(count for count, _ in by_world.values()),
        by_world,
        store.height(),
        tuple(fresh_notes),
        tuple(claimed),
        tuple(Failures(folder.path).all()),
        dict(request.missing),
        {cohort.name: work(cohort) for cohort in request.cohorts},
        sum(map(work, cohorts_left)),
    )
