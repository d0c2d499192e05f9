"""Where work on a folder stands: what is done, running and failed, and how long the rest may take."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Any

from sober.results.folder import Folder
from sober.results.store import Holder
from sober.workflows.desk import Desk, Failure
from sober.workflows.plan import work

STALE = 120.0  # seconds after which a note of progress is no longer news


@dataclasses.dataclass(frozen=True)
class Status:
    """A folder at a moment."""

    name: str
    scale: str
    runs: int
    trained: int
    by_world: dict[str, tuple[int, int]]  # trained, and all
    rows: int
    running: tuple[dict[str, Any], ...]  # notes of progress of pieces of work that are claimed now
    claimed: tuple[Holder, ...]
    failed: tuple[Failure, ...]
    missing: dict[str, str]
    work: dict[str, float]  # of each cohort, in steps of one β-VAE
    work_left: float  # of cohorts that are not all trained

    @property
    def seconds_left(self) -> float | None:
        """Of training, at the pace of what trains now; None where nothing does, or has not said how fast."""
        training = [note for note in self.running if note["what"] == "training" and note.get("rate")]
        pace = sum(note["rate"] * self.work[note["task"]] / note["total"] for note in training)
        if not pace:
            return None
        done = sum(self.work[note["task"]] * note["done"] / note["total"] for note in training)
        return (self.work_left - done) / pace


def status(path: str | Path) -> Status:
    """Where the work on a folder stands."""
    folder = Folder.open(path)
    request, store, desk = folder.request, folder.store, Desk(folder.path)
    there = {run.identity for run in folder.finished}
    by_world = {
        request.worlds[label]: (sum(run.identity in there for run in runs), len(runs))
        for label, runs in request.by_world().items()
    }
    left = [cohort for cohort in request.cohorts if not {run.identity for run in cohort.runs} <= there]
    claimed = store.claimed()
    names = {holder.name for holder in claimed}
    fresh = [note for note in desk.notes() if note["task"] in names and time.time() - note["at"] < STALE]
    return Status(
        request.name or request.maker,
        request.scale,
        sum(total for _, total in by_world.values()),
        sum(trained for trained, _ in by_world.values()),
        by_world,
        store.height(),
        tuple(fresh),
        tuple(claimed),
        tuple(desk.failures()),
        dict(request.missing),
        {cohort.name: work(cohort) for cohort in request.cohorts},
        sum(map(work, left)),
    )
