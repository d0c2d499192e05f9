"""Pictures in, one encoder out: a family is trained within a time budget, ranked without labels, the best one exported.

Beside what every folder of results has:

model.safetensors            the chosen model: `sober.load(folder)` reads it
model.json                   what it is, in words and numbers
encoder.onnx, decoder.onnx   the same for ONNX Runtime, where the package onnx is installed
codes.parquet                mean and log-variance of each latent for each picture
ranking.json                 every model and setting with its scores, and how sure the ranking is
traversals.png               what each latent of the best models does
report.html                  all of it, to look at
"""

from __future__ import annotations

import dataclasses
import importlib.util
import itertools
import shutil
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from sober.criteria import Ranking, find_criterion
from sober.errors import RequestError, UnknownError, counted, listed
from sober.files import locked, replacing, write_json
from sober.interop import onnx
from sober.methods import find_method
from sober.models.grid import grid
from sober.models.model import Model, latent_kl, load
from sober.report.pictures import traversals
from sober.results.folder import Folder, usable_folder
from sober.results.request import Measure, Request, cohorts_of
from sober.spread import Spread
from sober.training.cohort import best_program
from sober.training.feed import Feed
from sober.training.progress import Watcher
from sober.types import Asked, Run, Setting, Training
from sober.workflows.evaluate import Evaluation
from sober.workflows.opened import Results
from sober.workflows.select import ranked
from sober.worlds import World, from_array, world

METHODS = ("dava", "beta_tcvae", "beta_vae")
CRITERIA = ("udr", "pipe")  # the pair that did best where it could be checked: docs/criteria/does_it_work.md
LIGHT_NETS = "small"  # for machines that are too slow for those that suit large pictures
MINUTES = 10.0
SHARE = 0.6  # of the time, for training; the rest is for judging, encoding and drawing
SEEDS, MOST_SEEDS = 3, 10
DRAWN = 4  # models in the picture of traversals
SMALL = 32  # pixels: pictures below this side are small, and learn faster
LONGEST = 300_000  # steps


class Length(NamedTuple):
    """How long training should be, by the size of pictures."""

    fewest: int  # steps below which nothing is worth having
    enough: int  # steps after which more seeds say more than more steps
    rate: float  # of Adam


LENGTHS = {True: Length(1_500, 8_000, 1e-3), False: Length(2_000, 30_000, 5e-4)}  # of small pictures, of large ones


@dataclasses.dataclass(frozen=True, eq=False)
class Fit:
    """What `fit` found: all trained models, their ranking, and the best of them."""

    results: Results
    ranking: Ranking
    best: Model

    @property
    def folder(self) -> Path:
        return self.results.folder

    @property
    def report(self) -> Path:
        """One HTML file with all of it."""
        return self.folder / "report.html"

    def encode(self, images: np.ndarray) -> tuple[Float[np.ndarray, "N D"], Float[np.ndarray, "N D"]]:
        """Mean and log-variance of the best model's codes of pictures: bytes 0 to 255, or floats 0 to 1."""
        return self.best.encode(images)


def fit(
    images: Any,
    *,
    out: str | Path | None = None,
    method: str | Sequence[str] = METHODS,
    minutes: float = MINUTES,
    seeds: int | None = None,
    criteria: Sequence[str] = CRITERIA,
    seed: int = 0,
    command: str = "",
    watcher: Watcher | None = None,
    **hyper: Any,
) -> Fit:
    """Trains a family on pictures, chooses without labels, and writes the chosen model with all that led to it.

    `images` is an array (N, H, W) or (N, H, W, C), a folder or zip archive of pictures, or a world or its name. How
    many seeds and steps there are follows from `minutes` and the speed of this machine, unless they are given. `hyper`
    sets options of `Training`, such as `steps` and `latents`, and hyperparameters of those methods that have them, to
    one value or several. Called again with the same `out` it goes on where it was stopped; without `out`, results are
    in a new temporary folder.

    >>> chosen = sober.fit(images, out="fitted", minutes=5)
    >>> mean, logvar = sober.load("fitted").encode(images)
    """
    began = time.monotonic()
    opened = pictures(images)
    methods = (method,) if isinstance(method, str) else tuple(method)
    options = {name: value for name, value in hyper.items() if name in Training.options()}
    values = {name: value for name, value in hyper.items() if name not in Training.options()}
    asked = {
        "pictures": opened.label, "method": list(methods), "minutes": minutes, "seeds": seeds,
        "criteria": list(criteria), "seed": seed, **_plain(options), **_plain(values),
    }  # fmt: skip
    _check(methods, minutes, criteria, values)
    path = usable_folder(tempfile.mkdtemp(prefix="sober-fit-") if out is None else out)
    with locked(path):  # two processes would plan, each for its own speed
        request = _request(path, asked, command)
        if request is None:
            runs, note = plan(opened, methods, minutes, began, seeds, options, values)
            if note and watcher is not None:
                watcher.note(note)
            request = _planned(runs, opened, asked, criteria, seed, command)
        folder = Folder.begin(path, request)
        evaluation = Evaluation(folder, folder.request.measure, watcher=watcher)
        evaluation.all()
        ranking = ranked(evaluation, folder.family())
        _write(folder, ranking, seed)
    return Fit(Results(folder), ranking, load(folder.path / "model.safetensors"))


def pictures(images: Any) -> World:
    """A world from whatever holds pictures."""
    if isinstance(images, World):
        return images
    if isinstance(images, str | Path):
        path = Path(images).expanduser()
        try:
            return world(f"pictures:folder={path}") if path.exists() else world(str(images))
        except UnknownError as error:
            raise RequestError(f"{images} is neither a folder or archive of pictures nor a world") from error
    return from_array(images)


def _request(path: Path, asked: Mapping[str, Any], command: str) -> Request | None:
    """The request of an earlier call, with the runs that it planned; None in a new folder."""
    if not (path / "request.json").exists():
        return None
    return dataclasses.replace(Folder.open(path).request, maker="fit", asked=asked, command=command)


def _planned(
    runs: Sequence[Run], opened: World, asked: Mapping[str, Any], criteria: Sequence[str], seed: int, command: str
) -> Request:
    """A new request: the runs that were planned, and how they will be judged, as suits so short a training."""
    judged = tuple(Asked(name, find_criterion(name).suited(runs[0].steps)) for name in criteria)
    return Request(
        "fit",
        asked,
        {opened.label: opened.spec},
        tuple(cohorts_of(runs)),
        Measure(criteria=judged, seed=seed, show=True),
        title=f"{counted(len(runs), 'model')} of {opened.name}, to choose one from",
        command=command,
    )


def plan(
    opened: World,
    methods: Sequence[str],
    minutes: float,
    began: float,
    seeds: int | None,
    options: Mapping[str, Any],
    hyper: Mapping[str, Setting | Sequence[Setting]],
) -> tuple[list[Run], str]:
    """The runs that fit into the time that is left, and what a person should know about that."""
    small = min(opened.image_shape[:2]) < SMALL
    length = LENGTHS[small]
    training = Training().but(**{"learning_rate": length.rate, "steps": length.enough, **options})

    def make(methods: Sequence[str], seeds: int, training: Training) -> list[Run]:
        """Each method at its strengths, each with every seed."""
        runs = []
        for name in methods:
            chosen = find_method(name)
            own = {key: value for key, value in hyper.items() if key in {each.name for each in chosen.hyper}}
            sweep = {**chosen.advised(small, training.steps), **own}
            runs += grid(opened, name, sweep, seeds=seeds, training=training)
        return runs

    if "steps" in options:
        return make(methods, seeds or SEEDS, training), ""
    costs = {name: find_method(name).cost for name in methods}
    note, kept, cheapest = "", list(methods), min(methods, key=lambda name: costs[name])
    for choice in [training.nets] if training.nets is not None or small else [None, LIGHT_NETS]:
        training = training.but(nets=choice)
        step = seconds_per_step(opened, make([cheapest], seeds or SEEDS, training)) / costs[cheapest]
        left = SHARE * (60 * minutes - (time.monotonic() - began))
        if left / (step * sum(costs.values())) >= length.fewest:
            break
        note = f"{minutes:g} minutes are too few for convolutional nets on this machine: going on with small ones"
    while len(kept) > 1 and left / (step * sum(costs[name] for name in kept)) < length.fewest:
        dropped = max(kept, key=lambda name: costs[name])
        kept.remove(dropped)
        note = f"{minutes:g} minutes are too few for {dropped} on this machine: going on with {listed(kept)}"
    affordable = int(left / (step * sum(costs[name] for name in kept)))
    if affordable < length.fewest:
        note = (
            f"{minutes:g} minutes allow {max(affordable, 1):,} steps on this machine, and models need some "
            f"{length.fewest:,} before they are worth choosing from: give more --minutes, or smaller pictures"
        )
    if seeds is None and affordable > length.enough:
        seeds = min(MOST_SEEDS, SEEDS * affordable // length.enough)
        affordable = affordable * SEEDS // seeds
    return make(kept, seeds or SEEDS, training.but(steps=max(10, min(affordable, LONGEST)))), note


def seconds_per_step(opened: World, runs: Sequence[Run]) -> float:
    """How long one step of a family takes here, compilation left out."""
    spread = Spread(len(runs))
    compiled, _ = best_program(opened, runs[0], spread.each)
    inputs, (data, _) = spread.place(compiled.inputs(runs)), Feed(opened, spread).at(0, runs[0].steps)
    carry = jax.block_until_ready(compiled.advance(compiled.init(inputs, data), data, inputs, 1))
    taken: list[float] = []
    count = 1
    while sum(taken) * count < 1.0 and len(taken) < 5:
        started = time.monotonic()
        carry = jax.block_until_ready(compiled.advance(carry, data, inputs, int(carry.step) + count))
        taken.append((time.monotonic() - started) / count)
        count = max(1, int(0.3 / taken[-1]))
    return statistics.median(taken)


def _check(methods: Sequence[str], minutes: float, criteria: Sequence[str], hyper: Mapping[str, Any]) -> None:
    """Refuses what is wrong before anything is written."""
    if not minutes > 0:
        raise RequestError(f"minutes must be more than 0, got {minutes:g}")
    for name in criteria:
        find_criterion(name)
    known = set(itertools.chain.from_iterable((each.name for each in find_method(name).hyper) for name in methods))
    if unknown := hyper.keys() - known:
        raise RequestError(
            f"none of {listed(methods)} has a hyperparameter {listed(unknown)!r}: they have {listed(known)}"
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


def _write(folder: Folder, ranking: Ranking, seed: int) -> None:
    """The chosen model, and all that is said about it."""
    results, best = Results(folder), ranking.best.run
    model, codes = results.model(best), results.codes(best)
    with replacing(folder.path / "model.safetensors") as temporary:
        shutil.copyfile(folder.model_path(best), temporary)
    write_codes(folder.path / "codes.parquet", results.world, codes.mean, codes.logvar)
    if importlib.util.find_spec("onnx") is not None:
        onnx.export(model, folder.path)
    write_json(folder.path / "ranking.json", ranking.plain())
    described = _described(model, folder.words(best), ranking, latent_kl(codes.mean, codes.logvar))
    write_json(folder.path / "model.json", described)
    best_few = [results.model(each.run) for each in ranking.models[:DRAWN]]
    traversals(best_few, results.world, folder.path / "traversals.png", seed=seed)
    results.report()


def _described(model: Model, setting: str, ranking: Ranking, kl: np.ndarray) -> dict[str, Any]:
    return {
        "run": model.run.canonical(),
        "identity": model.run.identity,
        "setting": setting,
        "image_shape": model.image_shape,
        "pixels": "0 to 1, or bytes 0 to 255; channels last here, first in ONNX",
        "latents": [{"latent": d, "kl": round(float(each), 4)} for d, each in enumerate(kl)],
        "scores": dict(ranking.best.scores),
        "came_first": ranking.best.first,
        "of": counted(len(ranking.models), "model"),
        "read_with": "sober.load(FOLDER).encode(pictures)",
    }


def write_codes(
    path: Path, opened: World, mean: Float[np.ndarray, "N D"], logvar: Float[np.ndarray, "N D"] | None
) -> None:
    """A parquet table: which picture, its file where it has one, and mean and log-variance of each latent."""
    import polars as pl  # noqa: PLC0415 -- not on every training machine

    names = getattr(opened, "names", ())
    columns: dict[str, Any] = {"picture": np.arange(len(mean))}
    if len(names) == len(mean):
        columns["file"] = list(names)
    columns |= {f"mean_{d}": mean[:, d] for d in range(mean.shape[1])}
    if logvar is not None:
        columns |= {f"logvar_{d}": logvar[:, d] for d in range(mean.shape[1])}
    with replacing(path) as temporary:
        pl.DataFrame(columns).write_parquet(temporary)
