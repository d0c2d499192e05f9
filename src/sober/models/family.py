"""A family: runs on one world, and the folder in which their models lie.

models/IDENTITY.safetensors   one finished model with its training curves
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path

from sober.errors import RequestError, counted, listed
from sober.methods import hyper_of
from sober.models.model import Model, load
from sober.types import Run, Setting
from sober.words import assignments
from sober.worlds import World, world


@dataclasses.dataclass(frozen=True)
class Family:
    """Runs on one world, whose models are in `folder` as soon as they are trained."""

    folder: Path
    spec: str  # how to open the world
    runs: tuple[Run, ...]

    @functools.cached_property
    def world(self) -> World:
        """The world the family was trained on; refused if its file now holds other pictures."""
        opened = world(self.spec)
        if opened.label != self.label:
            raise RequestError(f"{self.spec} holds other pictures than this family was trained on")
        return opened

    @property
    def label(self) -> str:
        """What its runs call their world."""
        return self.runs[0].world

    def part(self, runs: Sequence[Run]) -> Family:
        """Some of its runs."""
        return dataclasses.replace(self, runs=tuple(runs))

    def model_path(self, run: Run) -> Path:
        return self.folder / "models" / f"{run.identity}.safetensors"

    def model(self, run: Run) -> Model:
        """A finished model."""
        if not self.model_path(run).exists():
            raise RequestError(f"run {run.identity} is not finished: run the command that trains it again to go on")
        return load(self.model_path(run))

    @property
    def finished(self) -> tuple[Run, ...]:
        """The runs whose models are there."""
        return tuple(run for run in self.runs if self.model_path(run).exists())


def summary(runs: Sequence[Run]) -> str:
    """Runs in a few words, for messages: `30 runs of beta_vae on dsprites, 6000 steps`."""
    said = {name: listed({getattr(run, name) for run in runs}) for name in ("method", "world", "steps")}
    return f"{counted(len(runs), 'run')} of {said['method']} on {said['world']}, {said['steps']} steps"


def varying(runs: Sequence[Run]) -> tuple[str, ...]:
    """The hyperparameters in which runs differ."""
    settings = [hyper_of(run) for run in runs]
    names = sorted({name for hyper in settings for name in hyper})
    return tuple(name for name in names if len({hyper.get(name) for hyper in settings}) > 1)


class Words:
    """Settings of some runs in words: the method, and those hyperparameters that vary among the runs of it."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self.values: dict[tuple[str, str], set[Setting]] = {}
        for run in runs:
            for name, value in hyper_of(run).items():
                self.values.setdefault((run.method, name), set()).add(value)

    def __call__(self, run: Run) -> str:
        varied = {name: value for name, value in hyper_of(run).items() if len(self.values[run.method, name]) > 1}
        return f"{run.method} {assignments(varied)}".rstrip()
