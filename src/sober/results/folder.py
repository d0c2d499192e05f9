"""A folder of results. Every command that makes one begins, continues and refuses it here, and gives it one layout.

request.json         the request: the runs, and what to measure about their models
models/              one file for each finished model
checkpoints/         cohorts in training
codes/               codes of models, while a step needs them, or for good
matrices/            matrices by latent and factor, from metrics
judged/              scores from criteria, with the numbers behind them
shown/               showcases of chosen models, for the report
scores.parquet       the table: every number about every model; parts/ and columns.json belong to it
claims/              which process works on which piece of work
progress/, failures/ how far each process is, and its errors
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Sequence
from pathlib import Path

from sober.errors import RequestError, choices, counted, listed, nearest, shell_command
from sober.files import folder_names, is_there, locked, read_json, writable_folder, write_json
from sober.files.model_files import finished_runs, model_path
from sober.results.request import FORMAT, Cohort, Request, differences
from sober.results.shipped import NOTE, shipped
from sober.results.store import Store
from sober.short_text import as_facts
from sober.types import Run

ENDING = ".safetensors"  # of a model's file
EARLIER = ("family.json", "fit.json", "tune.json", "study.json", "store.json")  # files of folders from older versions
HELD = {  # what a folder holds, by the command that made it
    "train": "a training",
    "fit": "a fit",
    "tune": "a search",
    "study": "a study",
    "probe": "a probe of encoders",
}


@dataclasses.dataclass(frozen=True, eq=False)
class Folder:
    """A folder of results and the request that it answers."""

    path: Path
    request: Request

    def __repr__(self) -> str:
        facts = {
            "runs": self.summary(),
            "made by": f"sober {self.request.maker}",
            "finished": f"{len(self.finished):,} of {counted(len(self.runs), 'model')}",
        }
        return as_facts(f"{type(self).__name__} in {self.path}", facts)

    @staticmethod
    def begin(path: str | Path, request: Request) -> Folder:
        """Makes a new folder for a request, or continues the folder of the same request.

        A folder with another request is refused and stays unchanged. Runs that only the new request has are added.
        Finished models stay.
        """
        folder = usable_folder(path)
        file, before = folder / "request.json", None
        with locked(folder, ".request.lock", wait=True):  # for a moment; a process that holds the folder takes it, too
            if is_there(file):
                before = _read(file)
                _refuse_another(folder, before, request)
                request = before.grown(request, _finished(folder))
            if before is None or request.plain() != before.plain():
                write_json(file, request.plain())
        Store.create(folder)
        return Folder(folder, request)

    @staticmethod
    def open(path: str | Path) -> Folder:
        """An existing folder, or results that come with Sober, by their name."""
        folder = Path(path)
        if not folder.exists():
            folder = shipped().get(str(path), folder)
        if not is_there(folder / "request.json"):
            if earlier := [name for name in EARLIER if (folder / name).exists()]:
                raise RequestError(
                    f"{folder} was made by an earlier version of Sober ({earlier[0]}): make a new folder, or load its "
                    f"models one by one with sober.load"
                )
            if not folder.exists() and (alike := nearest(str(folder), _folders_of_results(folder.parent))):
                raise RequestError(f"there is no folder {str(folder)!r}: {choices(str(folder), alike)}")
            if folder.is_dir() and any(folder.iterdir()):  # no command would write into it
                raise RequestError(f"{folder} holds no results: name a folder that train, fit, tune or study made")
            train = shell_command("sober", "train", "WORLD", "--out", folder)
            raise RequestError(f"{folder} holds no results: make some with `{train}`, or with fit, tune or study")
        return Folder(folder, _read(folder / "request.json"))

    @functools.cached_property
    def store(self) -> Store:
        return Store.open(self.path, fixed=True) if self.fixed else Store.create(self.path)

    @functools.cached_property
    def fixed(self) -> bool:
        """Whether the folder is only read: it comes with Sober and so has a note, or the system forbids writing."""
        return (self.path / NOTE).exists() or not os.access(self.path, os.W_OK)

    def need_change(self) -> None:
        """Refuses to change a folder that is only read."""
        if self.fixed:
            raise RequestError(f"{self.path} is only read: to add to it, copy it elsewhere, without its {NOTE}")

    def beside(self, name: str) -> Path:
        """Where a report or picture goes by default: into the folder; if that is only read, the current folder."""
        return Path(f"{self.path.resolve().name}-{name}") if self.fixed else self.path / name

    @property
    def runs(self) -> tuple[Run, ...]:
        return tuple(self.request.runs.values())

    @property
    def finished(self) -> tuple[Run, ...]:
        """The runs whose models are in the folder."""
        return finished_runs(self.path, self.runs)

    def model_path(self, run: Run) -> Path:
        """The file of a run's model. It exists once the model is finished."""
        return model_path(self.path, run)

    def run(self, name: str) -> Run:
        """The run whose identity begins with `name`."""
        matching = [run for run in self.runs if run.identity.startswith(name)]
        if len(matching) != 1:
            count = "no run" if not matching else f"{len(matching)} runs"
            beginning = "begin" if len(matching) > 1 else "begins"
            names = [run.identity for run in matching or self.runs]
            raise RequestError(f"{count} of {self.path} {beginning} with {name!r}: {choices(name, names)}")
        return matching[0]

    def need_models(self) -> tuple[Run, ...]:
        """The finished runs; an error if there are none."""
        if not self.finished:
            if self.fixed:
                raise RequestError(f"{self.path} keeps no models, which this needs: train them with sober train")
            raise RequestError(f"{self.path} has no finished model: run the command that made it again to go on")
        return self.finished

    def summary(self) -> str:
        """The folder's runs in a few words, for messages: `30 runs of beta_vae on dsprites, 6000 steps`."""
        values = {name: listed({getattr(run, name) for run in self.runs}) for name in ("method", "world", "steps")}
        return f"{counted(len(self.runs), 'run')} of {values['method']} on {values['world']}, {values['steps']} steps"

    def checkpoints(self, cohort: Cohort) -> Path:
        """The folder for a cohort's checkpoints."""
        return self.path / "checkpoints" / cohort.name

    def cohorts(self, runs: Sequence[Run]) -> list[Cohort]:
        """The request's cohorts, reduced to these runs."""
        wanted = {run.identity for run in runs}
        reduced = [[run for run in cohort.runs if run.identity in wanted] for cohort in self.request.cohorts]
        return [Cohort.of(members) for members in reduced if members]


def _finished(folder: Path) -> set[str]:
    """The identities of the runs whose models are in a folder."""
    return {name.removesuffix(ENDING) for name in folder_names(folder / "models", ENDING)}


def usable_folder(path: str | Path) -> Path:
    """The folder, if it can be written to and is empty or holds results. Another one is refused and stays unchanged."""
    folder = writable_folder(Path(path))
    if not is_there(folder / "request.json") and any(not file.name.startswith(".") for file in folder.iterdir()):
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
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise RequestError(f"{file} is not a request of Sober's ({error!r}): choose another folder") from error


def _refuse_another(folder: Path, before: Request, request: Request) -> None:
    """Refuses a folder whose request is another one, and names the difference."""
    if before.maker != request.maker:
        raise RequestError(f"{folder} holds {HELD[before.maker]}, not {HELD[request.maker]}: choose another --out")
    if different := differences(before.asked, request.asked):
        raise RequestError(f"{folder} holds {HELD[before.maker]} with {different}: choose another --out")


def _folders_of_results(parent: Path) -> list[str]:
    """The names of the results that come with Sober, and the paths of the folders of results in `parent`."""
    return [*shipped(), *(str(path.parent) for path in parent.glob("*/request.json"))]
