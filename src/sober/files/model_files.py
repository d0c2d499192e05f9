"""Where the models of a folder lie: models/IDENTITY.safetensors, one finished model with its training curves."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sober.files.atomic import is_there
from sober.types import Run


def model_path(folder: Path, run: Run) -> Path:
    """The file of a run's model, which is there as soon as the model is trained."""
    return folder / "models" / f"{run.identity}.safetensors"


def finished_runs(folder: Path, runs: Iterable[Run]) -> tuple[Run, ...]:
    """The runs whose models are there."""
    return tuple(run for run in runs if is_there(model_path(folder, run)))
