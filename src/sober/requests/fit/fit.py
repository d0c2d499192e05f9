"""Pictures in, one encoder out: a family is trained within a time budget, ranked without labels, the best one exported.

Beside what every folder of results has:

model.safetensors            the chosen model: `sober.load(folder)` reads it
model.json                   the chosen model's run, setting, latents and scores
encoder.onnx, decoder.onnx   the same for ONNX Runtime, where the package onnx is installed
codes.parquet                mean and log-variance of each latent for each picture
ranking.json                 every model and setting with its scores, and how sure the ranking is
traversals.png               how pictures change with each latent of the best models
report.html                  all results as a page
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import itertools
import textwrap
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from sober.criteria import Ranking, find_criterion
from sober.criteria.verdict import Verdict
from sober.defaults import FIT_METHODS, FIT_MINUTES
from sober.errors import RequestError, choices, counted, listed
from sober.evaluation.cohorts import cohorts_of
from sober.evaluation.engine import Evaluation
from sober.evaluation.families import only_family
from sober.evaluation.progress_notes import shown_stage
from sober.files import locked, writable_folder
from sober.methods import find_method
from sober.models.model import Model, load
from sober.requests.fit.export import export
from sober.requests.fit.given_pictures import given_pictures, refuse_hopeless
from sober.requests.fit.new_pictures import codes_of_new
from sober.requests.fit.plan import Plan, Wishes, most_runs, plan
from sober.requests.results import Results
from sober.requests.select import ranked, rule_for
from sober.results.folder import Folder, usable_folder
from sober.results.request import Measure, Request
from sober.short_text import COLUMNS, LINES, as_table
from sober.training.progress import SilentWatcher, Stopped, Watcher
from sober.types import NamedSettings, Run, Training
from sober.worlds import World

SHOWN = 8  # models in the text of a fit


@dataclasses.dataclass(frozen=True, eq=False)
class Fit:
    """What `fit` found: all trained models, their ranking, and the best of them."""

    results: Results
    ranking: Ranking
    best: Model

    def __repr__(self) -> str:
        """The best placed models, what was decided for the person, and the verdict."""
        rows = self.ranking.rows()
        table = as_table(f"Fit in {self.folder}: {counted(len(rows), 'model')}, the best placed first", rows[:SHOWN])
        wrap = functools.partial(textwrap.wrap, width=COLUMNS, break_on_hyphens=False)
        verdict = wrap(self.verdict.sentence())
        notes = [line for note in self.notes for line in wrap(note)]
        room = LINES - len(table.split("\n")) - len(verdict)
        return "\n".join([table, *notes[:room], *verdict])

    @property
    def folder(self) -> Path:
        return self.results.folder

    @property
    def report(self) -> Path:
        """The path of the report: all results as one HTML file."""
        return self.folder / "report.html"

    @property
    def verdict(self) -> Verdict:
        """Whether to use the best model, and how sure that is. `verdict.sentence()` says it in words."""
        return self.ranking.verdict

    @property
    def notes(self) -> tuple[str, ...]:
        """What was decided for you, in sentences: the size of pictures, nets, methods that were left out."""
        return self.results.request.notes

    def encode(self, images: np.ndarray) -> tuple[Float[np.ndarray, "N D"], Float[np.ndarray, "N D"]]:
        """Encodes pictures with the best model: mean and log-variance. Pictures are bytes 0 to 255 or floats 0 to 1."""
        return self.best.encode(images)

    def transform(self, pictures: Any) -> Float[np.ndarray, "N D"]:
        """The best model's codes (N, D) of new pictures, which are prepared as `fit` prepared its own.

        `pictures` is anything that `fit` takes, of any size. The codes are the means that `encode` gives, so
        `sober.scorer` can score a fit as it scores an estimator of scikit-learn.

        >>> codes = chosen.transform("new photos")
        """
        return codes_of_new(self.best, self.results.request.worlds[self.best.run.world], pictures)


def fit(
    images: Any,
    *,
    out: str | Path | None = None,
    method: str | Sequence[str] = FIT_METHODS,
    minutes: float = FIT_MINUTES,
    seeds: int | None = None,
    prefer: str | None = None,
    criteria: Sequence[str] | None = None,
    seed: int = 0,
    command: str = "",
    watcher: Watcher | None = None,
    **hyper: Any,
) -> Fit:
    """Trains a family on pictures, ranks it without labels, and writes the best model, the ranking and a report.

    `images` is an array (N, H, W), (N, H, W, C) or (N, C, H, W), a list of arrays, files or PIL images, a folder or zip
    archive of pictures, or a world or its name. Sides above 64 pixels are scaled. `fit` chooses the numbers of seeds
    and steps by `minutes` and the speed of this machine, unless you give them; `notes` of the result say what it
    decided. `prefer` is few, balanced (the usual wish) or complete: how much codes must keep. With `criteria` instead,
    models go by their mean rank. `hyper` sets options of `Training`, such as `steps` and `latents`, and
    hyperparameters, to one value or several; a hyperparameter is set for every method that has it. Call `fit` again
    with the same `out` to go on after a stop. Without `out`, results go into a new folder in the current one, named by
    the date.

    >>> chosen = sober.fit(images, out="fitted", minutes=5)
    >>> mean, logvar = sober.load("fitted").encode(images)
    """
    began = time.monotonic()
    watcher = watcher or SilentWatcher()
    methods = (method,) if isinstance(method, str) else tuple(method)
    options = {name: value for name, value in hyper.items() if name in Training.options()}
    values = {name: value for name, value in hyper.items() if name not in Training.options()}
    wishes = Wishes(methods, minutes, seeds, options, values)
    rule = rule_for(criteria, prefer)
    criteria = (criteria or ()) if rule is None else rule.criteria
    _check(wishes, criteria)
    world, notes = given_pictures(images, options.get("nets"))
    notes += refuse_hopeless(world)
    _refuse_if_alone(most_runs(world, wishes), criteria)
    going_on = ""  # how to go on after a stop, if the same call would begin anew
    if out is None:
        out = new_folder()
        going_on = f"give {_as_option(out, command)}"
        notes += (f"Results go into the new folder {out}. To go on after a stop, {going_on}.",)
    arguments = {
        "pictures": world.label, "method": list(methods), "minutes": minutes, "seeds": seeds,
        "criteria": list(criteria), "seed": seed, **_plain(options), **_plain(values),
    }  # fmt: skip
    path = usable_folder(out)
    with locked(path):  # or two processes would make different plans, each for its own speed
        request = _request(path, arguments, command)
        if request is None:
            for note in notes:
                watcher.note(note)
            with shown_stage(watcher, "measuring how fast this machine trains"):
                planned = plan(world, wishes, began)
            for note in planned.notes:
                watcher.note(note)
            _refuse_if_alone(planned.runs, criteria)
            request = _planned(planned, world, arguments, criteria, seed, command, notes)
        folder = Folder.begin(path, request)
        evaluation = Evaluation(folder, folder.request.measure, watcher=watcher)
        try:
            evaluation.all()
        except Stopped as stopped:
            if not going_on:
                raise
            raise Stopped(f"stopped at a checkpoint; to go on, {going_on}") from stopped
        wishes = dataclasses.replace(wishes, pace=folder.request.pace)
        with shown_stage(watcher, "ranking the models"):
            ranking = ranked(evaluation, only_family(folder), rule=rule, wishes=wishes)
        with shown_stage(watcher, "drawing the latents and writing the report"):
            export(folder, ranking, seed)
    return Fit(Results.of(folder), ranking, load(folder.path / "model.safetensors"))


def new_folder() -> Path:
    """A new folder in the current one, named by the date: `sober-fit-2026-11-19`, `sober-fit-2026-11-19-2`, …"""
    name = f"sober-fit-{datetime.date.today().isoformat()}"
    for number in itertools.count(1):
        path = Path(name if number == 1 else f"{name}-{number}")
        if not path.exists():
            return writable_folder(path)
    raise AssertionError("unreachable")


def _as_option(out: Path, command: str) -> str:
    """How a person names this folder: on the command line, or in Python."""
    return f"--out {out}" if command else f"out={str(out)!r}"


def _request(path: Path, arguments: Mapping[str, Any], command: str) -> Request | None:
    """This call's request with the runs that an earlier call planned. None in a new folder."""
    if not (path / "request.json").exists():
        return None
    return dataclasses.replace(Folder.open(path).request, maker="fit", asked=arguments, command=command)


def _planned(
    planned: Plan,
    world: World,
    arguments: Mapping[str, Any],
    criteria: Sequence[str],
    seed: int,
    command: str,
    notes: tuple[str, ...],
) -> Request:
    """A new request: the planned runs, and the criteria with settings that suit the number of steps."""
    steps = planned.runs[0].steps
    suited_criteria = tuple(NamedSettings(name, find_criterion(name).suited(steps)) for name in criteria)
    return Request(
        "fit",
        arguments,
        {world.label: world.spec},
        tuple(cohorts_of(planned.runs)),
        Measure(criteria=suited_criteria, seed=seed, show=True),
        title=f"{counted(len(planned.runs), 'model')} of {world.name}, to choose one from",
        command=command,
        notes=notes + planned.notes,
        pace=planned.pace,
    )


def _check(wishes: Wishes, criteria: Sequence[str]) -> None:
    """Refuses wrong arguments before anything is written."""
    if not wishes.minutes > 0:
        raise RequestError(f"minutes must be more than 0, got {wishes.minutes:g}")
    if not wishes.methods or not criteria:
        raise RequestError(f"name at least one {'criterion to choose by' if wishes.methods else 'method'}")
    for name in criteria:
        find_criterion(name)
    hyperparameters = itertools.chain.from_iterable(find_method(name).hyper for name in wishes.methods)
    hyper_names = {hyperparameter.name for hyperparameter in hyperparameters}
    if unknown := wishes.hyper.keys() - hyper_names:
        advice = choices(min(unknown), hyper_names)
        raise RequestError(f"none of {listed(wishes.methods)} has a hyperparameter {listed(unknown)!r}: {advice}")


def _refuse_if_alone(runs: Sequence[Run], criteria: Sequence[str]) -> None:
    """Refuses a single model if a criterion compares models."""
    comparing = [name for name in criteria if find_criterion(name).compares]
    if len(runs) < 2 and comparing:
        raise RequestError(
            f"{listed(comparing)} compares models with each other, and only one would be trained: give more seeds, "
            "more methods, or several values of a hyperparameter"
        )


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: dataclasses.asdict(value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type)
        else list(value)
        if isinstance(value, list | tuple)
        else value
        for name, value in values.items()
    }
