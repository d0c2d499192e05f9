"""Notes of progress that processes leave in a folder while they work on it.

progress/NAME.json   how much of the job of that name is done
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from sober.evaluation.jobs import Job
from sober.files import expecting, folder_names, read_json, write_json

SECONDS_BETWEEN = 2.0  # two notes of one process


@runtime_checkable
class StageWatcher(Protocol):
    """A watcher that also follows the stages after training: encoding, scoring, each task, each criterion."""

    def stage(self, stage: str, done: int, total: int) -> None: ...


@contextlib.contextmanager
def shown_stage(watcher: object, stage: str) -> Iterator[None]:
    """Shows work in one piece, which cannot say how much of it is done, if the watcher follows stages."""
    shows = watcher.stage if isinstance(watcher, StageWatcher) else None
    if shows:
        shows(stage, 0, 1)
    yield
    if shows:
        shows(stage, 1, 1)


@runtime_checkable
class FolderWatcher(Protocol):
    """A watcher that also looks at the folder now and then, while other processes work on it."""

    def looked(self, folder: Path) -> None: ...


class ProgressNotes:
    """The notes of progress in one folder, as one process reads and writes them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "progress"
        self.last_written = -SECONDS_BETWEEN

    def write(self, job: Job, fields: dict[str, Any]) -> None:
        """Notes how much of a job is done, unless a note was written a moment ago."""
        if time.monotonic() - self.last_written > SECONDS_BETWEEN:
            self.last_written = time.monotonic()
            self.folder.mkdir(exist_ok=True)
            note = {**fields, "task": job.name, "at": time.time(), "pid": os.getpid()}
            write_json(self.folder / f"{job.name}.json", note)

    def remove(self, job: Job) -> None:
        """Removes the note of a job that has ended."""
        (self.folder / f"{job.name}.json").unlink(missing_ok=True)

    def all(self) -> list[dict[str, Any]]:
        return [_read(self.folder / name) for name in folder_names(self.folder, ".json")]


def _read(path: Path) -> dict[str, Any]:
    with expecting(path, "a note of progress"):
        note = dict(read_json(path))
        if not isinstance(note["task"], str) or not all(note[name] >= 0 for name in ("at", "done", "total")):
            raise ValueError("a value has another type")
        return note
