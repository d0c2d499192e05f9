"""Cohorts in training, on disk: all that is needed to go on bit for bit.

cohorts.json                    which runs train at once, as lists of identities
IDENTITY-COUNT.safetensors      the latest checkpoint of a cohort, by its first run and size
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
from sober.models.trees import named_arrays, tree_of
from sober.spread import Spread
from sober.training.cohort import PLACES, Carry, Inputs, Program
from sober.types import Run

Log = list[tuple[int, dict[str, np.ndarray]]]  # a step, and the mean of every term up to it, per model


class Checkpoints:
    """The folder in which some runs keep their checkpoints while they train."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def cohorts(self, runs: Sequence[Run]) -> list[list[Run]] | None:
        """Which runs train at once, where that was written down: a resumed training keeps its shapes, and its bits."""
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
        """Writes a checkpoint of a cohort on the host: of its models alone, however many devices they are on."""
        arrays = named_arrays(carry, "carry") | {"log.step": np.array([step for step, _ in log], np.int32)}
        for name in log[0][1] if log else ():
            arrays[f"log.{name}"] = np.stack([entry[name] for _, entry in log])  # (T, M)
        save_arrays(self.path(runs), arrays, _about(runs))

    def restore(
        self, runs: Sequence[Run], program: Program, inputs: Inputs, example: Any, spread: Spread
    ) -> tuple[Carry, Log]:
        """The cohort at its latest checkpoint, or at step 0, on its devices."""
        path = self.path(runs)
        if not path.exists():
            return program.init(spread.place(inputs), example), []
        try:
            arrays, about = load_arrays(path)
        except RequestError as error:
            raise RequestError(f"{error}: move it elsewhere to train these models from the start") from error
        if about != _about(runs):
            raise RequestError(f"{path} is a checkpoint of other runs: move it elsewhere to train these from the start")
        carry = spread.place(tree_of(program.shapes(inputs, example), arrays, "carry"), PLACES)
        names = [name for name in arrays if name.startswith("log.") and name != "log.step"]
        log = [
            (int(step), {name.removeprefix("log."): arrays[name][entry] for name in names})
            for entry, step in enumerate(arrays["log.step"])
        ]
        return carry, log

    def halve(self, runs: Sequence[Run], middle: int) -> None:
        """Makes two checkpoints of one, of the runs before `middle` and of the others."""
        if not self.path(runs).exists():
            return
        arrays, _ = load_arrays(self.path(runs))
        for part in (slice(0, middle), slice(middle, None)):
            of_part = {name: _of_models(name, array, part) for name, array in arrays.items()}
            save_arrays(self.path(runs[part]), of_part, _about(runs[part]))

    def keep_first(self, runs: Sequence[Run], count: int, other: Checkpoints) -> None:
        """Writes the checkpoint of the first of some runs into another folder."""
        arrays, _ = load_arrays(self.path(runs))
        first = {name: _of_models(name, array, slice(0, count)) for name, array in arrays.items()}
        save_arrays(other.path(runs[:count]), first, _about(runs[:count]))

    def drop(self, runs: Sequence[Run]) -> None:
        self.path(runs).unlink(missing_ok=True)

    def clear(self) -> None:
        """Removes the folder, once all is trained."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _about(runs: Sequence[Run]) -> Mapping[str, str]:
    return {"kind": "sober.checkpoint", "runs": json.dumps([run.identity for run in runs])}


def _of_models(name: str, array: np.ndarray, part: slice) -> np.ndarray:
    """The rows of some models in one array of a checkpoint."""
    if name in ("carry.step", "log.step"):
        return array
    return array[:, part] if name.startswith("log.") else array[part]
