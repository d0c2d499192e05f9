"""A folder of results: whoever made it, one layout, one table, one way to begin it, to go on, and to refuse.

request.json         what was asked: the runs, and what to measure of their models
models/              one file for each finished model
checkpoints/         cohorts in training
codes/               codes of models, while they are needed, or kept
matrices/            what metrics found by latent and by factor
judged/              what criteria said, and what it was made of
shown/               what the report shows of chosen models
scores.parquet       the table: every number about every model; parts/ and columns.json are its own
claims/              who works on what
progress/, failures/ where each process stands, and what went wrong
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from sober.errors import RequestError, listed
from sober.files import locked, read_json, writable_folder, write_json
from sober.models.family import Family, Words, summary
from sober.models.model import Model
from sober.results.request import FORMAT, Cohort, Request, differences
from sober.results.shipped import NOTE, shipped
from sober.results.store import Store
from sober.types import Run

EARLIER = ("family.json", "fit.json", "tune.json", "study.json", "store.json")  # what older versions wrote
HELD = {
    "train": "a training",
    "fit": "a fit",
    "tune": "a search",
    "study": "a study",
}


@dataclasses.dataclass(frozen=True, eq=False)
class Folder:
    """A folder of results, and what was asked of it."""

    path: Path
    request: Request

    @staticmethod
    def begin(path: str | Path, request: Request) -> Folder:
        """The folder for a request: new, or the one that holds the same. Anything else is refused, and left as it is.

        Runs that are asked for in addition join those that are there; models that are finished stay.
        """
        folder = usable_folder(path)
        file, before = folder / "request.json", None
        with locked(folder, ".request.lock", wait=True):  # for a moment, also by those who hold the folder
            if file.exists():
                before = _read(file)
                _refuse_another(folder, before, request)
                request = before.grown(request, {path.stem for path in (folder / "models").glob("*.safetensors")})
            if before is None or request.plain() != before.plain():
                write_json(file, request.plain())
        Store.create(folder)
        return Folder(folder, request)

    @staticmethod
    def open(path: str | Path) -> Folder:
        """A folder that is there, or the results of that name that come with Sober."""
        folder = Path(path)
        if not folder.exists():
            folder = shipped().get(str(path), folder)
        if not (folder / "request.json").exists():
            if earlier := [name for name in EARLIER if (folder / name).exists()]:
                raise RequestError(
                    f"{folder} was made by an earlier version of Sober ({earlier[0]}): make a new folder, or load its "
                    f"models one by one with sober.load"
                )
            raise RequestError(
                f"{folder} holds no results: make some with 'sober train WORLD --out {folder}', or fit, tune or study"
            )
        return Folder(folder, _read(folder / "request.json"))

    @functools.cached_property
    def store(self) -> Store:
        return Store.open(self.path, fixed=True) if self.fixed else Store.create(self.path)

    @functools.cached_property
    def fixed(self) -> bool:
        """Whether it is only read: it comes with Sober, which its note says, or cannot be written to."""
        return (self.path / NOTE).exists() or not os.access(self.path, os.W_OK)

    def need_change(self) -> None:
        """Refuses to change what is only read."""
        if self.fixed:
            raise RequestError(f"{self.path} is only read: to add to it, copy it elsewhere, without its {NOTE}")

    def beside(self, name: str) -> Path:
        """Where something about it is written, unless told: into it, or here where it is only read."""
        return Path(f"{self.path.resolve().name}-{name}") if self.fixed else self.path / name

    @property
    def runs(self) -> dict[str, Run]:
        """By identity."""
        return self.request.runs

    @functools.cached_property
    def families(self) -> dict[str, Family]:
        """The runs on each world, by its label."""
        by_world = self.request.by_world()
        return {label: Family(self.path, self.request.worlds[label], runs) for label, runs in by_world.items()}

    def family(self) -> Family:
        """The runs of the only world; refused where there are several."""
        if len(self.families) != 1:
            raise RequestError(f"{self.path} has runs on {listed(self.families) or 'no world'}: choose one of them")
        return next(iter(self.families.values()))

    def family_of(self, run: Run) -> Family:
        return self.families[run.world]

    @property
    def finished(self) -> tuple[Run, ...]:
        """The runs whose models are there."""
        return tuple(run for run in self.runs.values() if self.model_path(run).exists())

    def model_path(self, run: Run) -> Path:
        return self.path / "models" / f"{run.identity}.safetensors"

    def model(self, run: Run) -> Model:
        return self.family_of(run).model(run)

    def run(self, name: str) -> Run:
        """The run whose identity begins so."""
        begun = [run for identity, run in self.runs.items() if identity.startswith(name)]
        if len(begun) != 1:
            what = "no run" if not begun else f"{len(begun)} runs"
            raise RequestError(f"{what} of {self.path} begin with {name!r}: choose from {listed(self.runs)}")
        return begun[0]

    def need_models(self) -> tuple[Run, ...]:
        """The finished runs, of which there must be some."""
        if not self.finished:
            if self.fixed:
                raise RequestError(f"{self.path} keeps no models, which this needs: train them with sober train")
            raise RequestError(f"{self.path} has no finished model: run the command that made it again to go on")
        return self.finished

    @functools.cached_property
    def words(self) -> Callable[[Run], str]:
        """A run's setting in words, as far as it differs from that of the others."""
        return Words(list(self.runs.values()))

    def summary(self) -> str:
        return summary(list(self.runs.values()))

    def checkpoints(self, cohort: Cohort) -> Path:
        return self.path / "checkpoints" / cohort.name

    def cohorts(self, runs: Sequence[Run]) -> list[Cohort]:
        """The cohorts that hold these runs, with no others in them."""
        wanted = {run.identity for run in runs}
        parts = [[run for run in cohort.runs if run.identity in wanted] for cohort in self.request.cohorts]
        return [Cohort.of(part) for part in parts if part]


def usable_folder(path: str | Path) -> Path:
    """A folder that can be written to, and holds results or nothing; else it is refused, and nothing written there."""
    folder = writable_folder(Path(path))
    if not (folder / "request.json").exists() and any(not each.name.startswith(".") for each in folder.iterdir()):
        raise RequestError(f"{folder} is not empty and holds no results: choose another --out")
    return folder


def _read(file: Path) -> Request:
    plain = read_json(file)
    try:
        if plain["format"] != FORMAT:
            raise RequestError(f"{file.parent} was written by another version of Sober (format {plain['format']})")
        return Request.of(plain)
    except RequestError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise RequestError(f"{file} is not a request of Sober's ({error!r}): choose another folder") from error


def _refuse_another(folder: Path, before: Request, now: Request) -> None:
    """The one place where a folder that holds something else is refused, and the difference named."""
    if before.maker != now.maker:
        raise RequestError(f"{folder} holds {HELD[before.maker]}, not {HELD[now.maker]}: choose another --out")
    if different := differences(before.asked, now.asked):
        raise RequestError(f"{folder} holds {HELD[before.maker]} with {different}: choose another --out")
