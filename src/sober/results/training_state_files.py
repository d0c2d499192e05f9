"""How far models are trained, on disk.

judged/training-DIGEST.json   the training states of a world's models, by the identity of the run; the digest is the
                              world's
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from sober.criteria.verdict import TrainingState
from sober.files import expecting, read_json, write_json


def load_training_states(folder: Path, world: str) -> dict[str, TrainingState]:
    """The saved training states of a world's models; none in a folder that no one has looked at yet."""
    path = _path(folder, world)
    if not path.exists():
        return {}
    with expecting(path, "a file of training states"):
        return {run: TrainingState(**fields) for run, fields in read_json(path)["models"].items()}


def save_training_states(folder: Path, world: str, states: Mapping[str, TrainingState]) -> None:
    """Replaces the saved training states of a world's models."""
    path = _path(folder, world)
    path.parent.mkdir(exist_ok=True)
    write_json(path, {"world": world, "models": {run: state._asdict() for run, state in states.items()}})


def _path(folder: Path, world: str) -> Path:
    return folder / "judged" / f"training-{world_digest(world)}.json"


def world_digest(world: str) -> str:
    """A name for files about a world: its label may hold what no file name can."""
    return hashlib.sha256(world.encode()).hexdigest()[:16]
