"""Notes that processes leave in a folder while they work on it: where each stands, and what went wrong.

progress/NAME.json   where the piece of work of that name stands
failures/NAME.json   what went wrong with it, and how often
"""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from sober.errors import brief
from sober.files import read_json, write_json
from sober.types import Run

TRIES = 2
TOLD_EVERY = 2.0  # seconds between two notes of progress


@runtime_checkable
class Stages(Protocol):
    """A watcher that also wants to see what comes after training: scoring, encoding, each criterion."""

    def stage(self, what: str, done: int, total: int) -> None: ...


@runtime_checkable
class Onlooker(Protocol):
    """A watcher that also wants to look at the folder now and then, while other processes work on it."""

    def looked(self, folder: Path) -> None: ...


class Failure(NamedTuple):
    """What went wrong with a piece of work."""

    task: str
    runs: tuple[str, ...]
    error: str
    tries: int


class Desk:
    """The notes about one folder, as one process reads and writes them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.last = -TOLD_EVERY

    def tell(self, name: str, about: dict[str, Any]) -> None:
        """Notes where a piece of work stands, if that was not done a moment ago."""
        if time.monotonic() - self.last > TOLD_EVERY:
            self.last = time.monotonic()
            path = self.folder / "progress" / f"{name}.json"
            path.parent.mkdir(exist_ok=True)
            write_json(path, {**about, "task": name, "at": time.time(), "pid": os.getpid()})

    def notes(self) -> list[dict[str, Any]]:
        return [read_json(path) for path in sorted((self.folder / "progress").glob("*.json"))]

    def finished(self, name: str) -> None:
        (self.folder / "progress" / f"{name}.json").unlink(missing_ok=True)

    def failed(self, name: str, runs: Sequence[Run], error: Exception) -> str:
        """Notes a failure, and says it in words."""
        said = f"{type(error).__name__}: {brief(error)}"
        where = "".join(traceback.format_exception(error)[-6:])
        failure = Failure(name, tuple(run.identity for run in runs), said, self.tries(name) + 1)
        path = self._failure(name)
        path.parent.mkdir(exist_ok=True)
        write_json(path, {**failure._asdict(), "traceback": where})
        return f"{name}: {said} (try {failure.tries} of {TRIES})"

    def succeeded(self, name: str) -> None:
        self._failure(name).unlink(missing_ok=True)

    def tries(self, name: str) -> int:
        path = self._failure(name)
        return int(read_json(path)["tries"]) if path.exists() else 0

    def given_up(self, name: str) -> bool:
        return self.tries(name) >= TRIES

    def failures(self) -> list[Failure]:
        """What went wrong so far."""
        notes = map(read_json, sorted((self.folder / "failures").glob("*.json")))
        return [Failure(note["task"], tuple(note["runs"]), note["error"], note["tries"]) for note in notes]

    def _failure(self, name: str) -> Path:
        return self.folder / "failures" / f"{name}.json"
