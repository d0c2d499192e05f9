"""A family on disk: a folder with the runs it holds, the models trained so far, and what is needed to go on.

family.json                          the world and every run: written once, first
plan.json                            which runs train together, as lists of identities
cohorts/IDENTITY-COUNT.safetensors   the latest checkpoint of a cohort, by its first run and size, until it is done
models/IDENTITY.safetensors          one finished model with its training curves
codes/IDENTITY.safetensors           its codes for the whole grid, once asked for; IDENTITY-SAMPLE for a sample
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import jax

from sober.errors import RequestError, counted, listed
from sober.files import read_json, writable_folder, write_json
from sober.methods import find_method
from sober.models.model import Model, load
from sober.nets import NETS
from sober.types import Adam, Precision, Run, Setting, written
from sober.worlds import World, world

FORMAT = 1


def grid(
    world: World,
    method: str,
    sweep: Mapping[str, Setting | Sequence[Setting]] | str,
    *,
    seeds: int | Iterable[int] = 1,
    nets: str | None = None,
    latents: int = 10,
    optimiser: Adam = Adam(),  # noqa: B008 (frozen)
    steps: int = 300_000,
    batch: int = 64,
    precision: Precision | None = None,
) -> list[Run]:
    """Every combination of the sweep's values, each with every seed, as runs.

    A sweep may be the name of a study, such as "sober_look": then it is the values that study gave the method.
    Precision follows the device where it is not given: bfloat16 matrix products on a GPU, float32 on a CPU.
    """
    of = find_method(method)
    sweep = of.sweep(sweep) if isinstance(sweep, str) else sweep
    if of.nets is not None and nets not in (None, of.nets):
        raise RequestError(f"method {method} needs nets {of.nets!r}, not {nets!r}: leave --nets out")
    nets = nets or of.nets or ("conv" if min(world.image_shape[:2]) >= 32 else "small")
    if nets not in NETS:
        raise RequestError(f"unknown nets {nets!r}: choose one of {listed(NETS)}")
    if isinstance(seeds, int) and seeds < 1:
        raise RequestError(f"seeds must be at least 1, got {seeds}")
    axes = [values if isinstance(values, list | tuple) else [values] for values in sweep.values()]
    if empty := [name for name, values in zip(sweep, axes, strict=True) if not values]:
        raise RequestError(f"no values given for {listed(empty)}")
    runs = [
        Run(
            world=world.label,
            method=method,
            hyper=of.settings(dict(zip(sweep, values, strict=True))),
            nets=nets,
            latents=latents,
            optimiser=optimiser,
            steps=steps,
            batch=batch,
            seed=seed,
            precision=precision or ("float32" if jax.default_backend() == "cpu" else "bfloat16"),
        )
        for values in itertools.product(*axes)
        for seed in (range(seeds) if isinstance(seeds, int) else seeds)
    ]
    if len({run.identity for run in runs}) < len(runs):
        raise RequestError("the sweep or the seeds name the same run twice")
    return runs


@dataclasses.dataclass(frozen=True)
class Family:
    """A folder of models trained together."""

    folder: Path
    spec: str
    runs: tuple[Run, ...]

    @staticmethod
    def create(folder: Path, world: World, runs: Sequence[Run]) -> Family:
        """The family of these runs in `folder`: new, or the one already there if it is the same."""
        if not runs:
            raise RequestError("a family needs at least one run")
        manifest = writable_folder(folder) / "family.json"
        if manifest.exists():
            family = Family.open(folder)
            if [run.identity for run in family.runs] != [run.identity for run in runs]:
                raise RequestError(f"{folder} holds another family ({family.summary()}): choose another --out")
            return family
        if any(not path.name.startswith(".") for path in folder.iterdir()):
            raise RequestError(f"{folder} is not empty and holds no family: choose another --out")
        runs_on_disk = [run.canonical() for run in runs]
        write_json(manifest, {"format": FORMAT, "world": world.spec, "runs": runs_on_disk})
        return Family(folder, world.spec, tuple(runs))

    @staticmethod
    def open(folder: str | Path) -> Family:
        """The family in a folder."""
        folder = Path(folder)
        if not (folder / "family.json").exists():
            raise RequestError(f"{folder} holds no family: make one with 'sober train WORLD --out {folder}'")
        about = read_json(folder / "family.json")
        try:
            if about["format"] != FORMAT:
                raise RequestError(f"{folder} was written by another version of Sober (format {about['format']})")
            return Family(folder, about["world"], tuple(Run.of(run) for run in about["runs"]))
        except (KeyError, TypeError) as error:
            raise RequestError(f"{folder / 'family.json'} is not a family's manifest ({error!r})") from error

    @functools.cached_property
    def world(self) -> World:
        """The world the family was trained on; refused if its file now holds other pictures."""
        opened = world(self.spec)
        if opened.label != self.runs[0].world:
            raise RequestError(f"{self.spec} holds other pictures than this family was trained on")
        return opened

    def model_path(self, run: Run) -> Path:
        return self.folder / "models" / f"{run.identity}.safetensors"

    def model(self, run: Run) -> Model:
        """A finished model."""
        if not self.model_path(run).exists():
            raise RequestError(f"run {run.identity} is not finished: run the same 'sober train' command to go on")
        return load(self.model_path(run))

    @property
    def finished(self) -> tuple[Run, ...]:
        """The runs whose models are there."""
        return tuple(run for run in self.runs if self.model_path(run).exists())

    def summary(self) -> str:
        """In a few words, for messages: `30 runs of beta_vae on dsprites`."""
        methods = sorted({run.method for run in self.runs})
        return (
            f"{counted(len(self.runs), 'run')} of {listed(methods)} on {self.runs[0].world}, {self.runs[0].steps} steps"
        )

    def varying(self) -> tuple[str, ...]:
        """The hyperparameters in which the runs differ."""
        names = sorted({name for run in self.runs for name in run.hyper})
        return tuple(name for name in names if len({run.hyper.get(name) for run in self.runs}) > 1)

    def words(self, run: Run) -> str:
        """A run's setting in words: its method, and those hyperparameters that vary among the family's runs of it."""
        varied = (name for name in run.hyper if len(self._values[run.method, name]) > 1)
        return " ".join([run.method, *(f"{name}={written(run.hyper[name])}" for name in varied)])

    @functools.cached_property
    def _values(self) -> dict[tuple[str, str], set[Setting]]:
        """Which values each hyperparameter of each method has."""
        found: dict[tuple[str, str], set[Setting]] = {}
        for run in self.runs:
            for name, value in run.hyper.items():
                found.setdefault((run.method, name), set()).add(value)
        return found
