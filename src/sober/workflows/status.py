"""Where a study stands: what is done, running and failed, and how long the rest may take."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Any

from sober.errors import RequestError
from sober.files import read_json
from sober.results.store import Holder, Store
from sober.workflows.evaluate import Failure, failures

STALE = 120.0  # seconds after which a note of progress is no longer news


@dataclasses.dataclass(frozen=True)
class Status:
    """A study's store at a moment."""

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


def status(folder: str | Path) -> Status:
    """Where the study in a folder stands."""
    folder = Path(folder)
    if not (folder / "study.json").exists():
        raise RequestError(f"{folder} holds no study: start one with 'sober study run NAME --out {folder}'")
    about, store = read_json(folder / "study.json"), Store.open(folder)
    models = folder / "models"
    there = {path.stem for path in models.glob("*.safetensors")} if models.is_dir() else set()
    by_world: dict[str, tuple[int, int]] = {}
    for each in about["cohorts"]:
        trained, total = by_world.get(each["world"], (0, 0))
        by_world[each["world"]] = (trained + len(there & set(each["runs"])), total + len(each["runs"]))
    left = sum(each["work"] for each in about["cohorts"] if not set(each["runs"]) <= there)
    claimed = store.claimed()
    names = {holder.name for holder in claimed}
    notes = [read_json(path) for path in sorted((folder / "progress").glob("*.json"))]
    fresh = tuple(note for note in notes if note["task"] in names and time.time() - note["at"] < STALE)
    return Status(
        about["name"],
        about["scale"],
        sum(total for _, total in by_world.values()),
        sum(trained for trained, _ in by_world.values()),
        by_world,
        store.height(),
        fresh,
        tuple(claimed),
        tuple(failures(folder)),
        about["missing"],
        {each["name"]: each["work"] for each in about["cohorts"]},
        left,
    )
