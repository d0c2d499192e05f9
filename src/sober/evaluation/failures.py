"""Failures of jobs, noted in the folder, so that a job that failed twice is given up by every process.

failures/NAME.json   the last error of the job of that name, and how often it was tried
"""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import NamedTuple

from sober.errors import brief
from sober.evaluation.jobs import Job
from sober.files import expecting, folder_names, read_json, write_json

TRIES = 2


class Failure(NamedTuple):
    """The last error of a job, and how often it was tried."""

    task: str  # the name of the job
    runs: tuple[str, ...]
    error: str
    tries: int


class Failures:
    """The failures noted in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "failures"

    def add(self, job: Job, error: Exception) -> str:
        """Notes that a job failed once more, and returns a message that says so."""
        message = f"{type(error).__name__}: {brief(error)}"
        failure = Failure(job.name, tuple(run.identity for run in job.runs), message, self.tries(job) + 1)
        self.folder.mkdir(exist_ok=True)
        last_frames = "".join(traceback.format_exception(error)[-6:])
        write_json(self._path(job), {**failure._asdict(), "traceback": last_frames})
        return f"{job.name}: {message} (try {failure.tries} of {TRIES})"

    def clear(self, job: Job) -> None:
        """Forgets the failures of a job that has succeeded."""
        self._path(job).unlink(missing_ok=True)

    def tries(self, job: Job) -> int:
        """How often a job has failed."""
        path = self._path(job)
        return _read(path).tries if path.exists() else 0

    def given_up(self, job: Job) -> bool:
        """Whether a job has failed too often to be tried again."""
        return self.tries(job) >= TRIES

    def all(self) -> list[Failure]:
        return [_read(self.folder / name) for name in folder_names(self.folder, ".json")]

    def _path(self, job: Job) -> Path:
        return self.folder / f"{job.name}.json"


def _read(path: Path) -> Failure:
    with expecting(path, "a note of a failure"):
        note = read_json(path)
        return Failure(note["task"], tuple(note["runs"]), note["error"], int(note["tries"]))
