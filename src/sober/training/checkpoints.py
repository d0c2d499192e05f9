"""Checkpoints of cohorts in training. A training resumed from one ends with the same bits.

cohorts.json                    the cohorts, as lists of run identities
IDENTITY-COUNT.safetensors      the latest checkpoint of a cohort, named by its first run and its size
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sober.errors import RequestError
from sober.files import load_arrays, read_json, save_arrays, write_json
from sober.model_placement import ModelPlacement
from sober.models.named_arrays import named_arrays, tree_from_arrays
from sober.training.cohort import PLACEMENT, Carry, Inputs, Program
from sober.types import Run

Log = list[tuple[int, dict[str, np.ndarray]]]  # a step, and the mean of every term since the entry before it, per model


class Checkpoints:
    """The folder with the checkpoints of some runs while they train."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def cohorts(self, runs: Sequence[Run]) -> list[list[Run]] | None:
        """The cohorts of an earlier training, or None. Resumed with the same cohorts, models keep the same bits."""
        path = self.folder / "cohorts.json"
        if not path.exists():
            return None
        by_identity = {run.identity: run for run in runs}
        try:
            return [[by_identity[identity] for identity in cohort] for cohort in read_json(path)]
        except (KeyError, TypeError) as error:
            raise RequestError(f"{path} is of other runs ({error!r}): restore it, or choose another folder") from error

    def keep_cohorts(self, cohorts: Sequence[Sequence[Run]]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        write_json(self.folder / "cohorts.json", [[run.identity for run in runs] for runs in cohorts])

    def path(self, runs: Sequence[Run]) -> Path:
        return self.folder / f"{runs[0].identity}-{len(runs)}.safetensors"

    def save(self, runs: Sequence[Run], carry: Carry, log: Log) -> None:
        """Writes a checkpoint of a cohort whose arrays are on the host."""
        arrays = named_arrays(carry, "carry") | {"log.step": np.array([step for step, _ in log], np.int32)}
        for name in log[0][1] if log else ():
            arrays[f"log.{name}"] = np.stack([entry[name] for _, entry in log])  # (T, M)
        save_arrays(self.path(runs), arrays, _metadata(runs))

    def restore(
        self, runs: Sequence[Run], program: Program, inputs: Inputs, example: Any, placement: ModelPlacement
    ) -> tuple[Carry, Log]:
        """The cohort at its latest checkpoint, or at step 0, on its devices."""
        path = self.path(runs)
        if not path.exists():
            return program.init(placement.place(inputs), example), []
        try:
            arrays, metadata = load_arrays(path)
        except RequestError as error:
            raise RequestError(f"{error}: move it elsewhere to train these models from the start") from error
        if metadata != _metadata(runs):
            raise RequestError(f"{path} is a checkpoint of other runs: move it elsewhere to train these from the start")
        carry = placement.place(tree_from_arrays(program.shapes(inputs, example), arrays, "carry"), PLACEMENT)
        names = [name for name in arrays if name.startswith("log.") and name != "log.step"]
        log = [
            (int(step), {name.removeprefix("log."): arrays[name][entry] for name in names})
            for entry, step in enumerate(arrays["log.step"])
        ]
        return carry, log

    def halve(self, runs: Sequence[Run], middle: int) -> None:
        """Splits a checkpoint in two: the runs before `middle`, and the others."""
        if not self.path(runs).exists():
            return
        arrays, _ = load_arrays(self.path(runs))
        for half in (slice(0, middle), slice(middle, None)):
            half_arrays = {name: _rows_of_models(name, array, half) for name, array in arrays.items()}
            save_arrays(self.path(runs[half]), half_arrays, _metadata(runs[half]))

    def drop(self, runs: Sequence[Run]) -> None:
        self.path(runs).unlink(missing_ok=True)

    def clear(self) -> None:
        """Removes the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _metadata(runs: Sequence[Run]) -> Mapping[str, str]:
    return {"kind": "sober.checkpoint", "runs": json.dumps([run.identity for run in runs])}


def _rows_of_models(name: str, array: np.ndarray, models: slice) -> np.ndarray:
    """The rows of some models in one array of a checkpoint."""
    if name in ("carry.step", "log.step"):
        return array
    return array[:, models] if name.startswith("log.") else array[models]
