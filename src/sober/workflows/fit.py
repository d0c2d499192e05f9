"""Pictures in, one encoder out: a family is trained within a time budget, ranked without labels, the best one exported.

fit.json                     what was asked, and the runs that were planned for it: written first
family/                      the trained models
model.safetensors            the chosen model: `sober.load(folder)` reads it
model.json                   what it is, in words and numbers
encoder.onnx, decoder.onnx   the same for ONNX Runtime, where the package onnx is installed
codes.parquet                mean and log-variance of each latent for each picture
ranking.json                 every model and setting with its scores, and how sure the ranking is
traversals.png               what each latent of the best models does
results/                     the same results as a store, which any report or table can be made of
report.html                  all of it, to look at
"""

from __future__ import annotations

import dataclasses
import functools
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

from sober.criteria import Ranking, find_criterion, rank
from sober.errors import RequestError, counted, listed
from sober.files import read_json, replacing, writable_folder, write_json
from sober.interop import onnx
from sober.methods import find_method
from sober.models.encode import Progress, encode
from sober.models.family import Family, grid
from sober.models.model import Model, latent_kl, load
from sober.report.pictures import traversals
from sober.results.store import Store
from sober.training.cohort import program, signature
from sober.training.train import Feed, Watcher, train
from sober.types import Adam, Run, Score, Setting
from sober.worlds import World, from_array, world

METHODS = ("dava", "beta_tcvae", "beta_vae")
CRITERIA = ("udr", "pipe")  # the pair that did best where it could be checked: docs/criteria/does_it_work.md
MINUTES = 10.0
SHARE = 0.6  # of the time, for training; the rest is for judging, encoding and drawing
SEEDS, MOST_SEEDS = 3, 10
SHOWN = 3  # models in the report with all their latents
SMALL = 32  # pixels: pictures below this side are small, and learn faster
FORMAT = 1


class Scale(NamedTuple):
    """How long training should be, by the size of pictures."""

    fewest: int  # steps below which nothing is worth having
    enough: int  # steps after which more seeds say more than more steps
    rate: float  # of Adam
    betas: tuple[float, ...]


SCALES = {"small": Scale(1_500, 8_000, 1e-3, (2.0, 4.0)), "large": Scale(2_000, 30_000, 5e-4, (4.0, 8.0))}


@dataclasses.dataclass(frozen=True, eq=False)
class Fit:
    """What `fit` found: all trained models, their ranking, and the best of them."""

    folder: Path
    family: Family
    ranking: Ranking
    best: Model

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
    steps: int | None = None,
    latents: int = 10,
    nets: str | None = None,
    criteria: Sequence[str] = CRITERIA,
    seed: int = 0,
    watcher: Watcher | None = None,
    progress: Progress | None = None,
    **hyper: Setting | Sequence[Setting],
) -> Fit:
    """Trains a family on pictures, chooses without labels, and writes the chosen model with all that led to it.

    `images` is an array (N, H, W) or (N, H, W, C), a folder or zip archive of pictures, or a world or its name. How
    many seeds and steps there are follows from `minutes` and the speed of this machine, unless they are given; `hyper`
    sets hyperparameters of those methods that have them, to one value or several. Called again with the same `out` it
    goes on where it was stopped; without `out`, results are in a new temporary folder.

    >>> found = sober.fit(images, out="fitted", minutes=5)
    >>> mean, logvar = sober.load("fitted").encode(images)
    """
    began = time.monotonic()
    opened = pictures(images)
    methods = (method,) if isinstance(method, str) else tuple(method)
    for name in criteria:
        find_criterion(name)
    asked = {
        "format": FORMAT, "world": opened.label, "method": list(methods), "minutes": minutes, "seeds": seeds,
        "steps": steps, "latents": latents, "nets": nets, "hyper": _plain(hyper),
    }  # fmt: skip
    folder = writable_folder(Path(tempfile.mkdtemp(prefix="sober-fit-") if out is None else out))
    request = folder / "fit.json"
    if request.exists():
        runs = _planned(request, asked)
    else:
        if any(not path.name.startswith(".") for path in folder.iterdir()):
            raise RequestError(f"{folder} is not empty and holds no fit: choose another --out")
        runs, note = plan(opened, methods, minutes, began, seeds, steps, latents, nets, hyper)
        if note and watcher is not None:
            watcher.note(note)
        write_json(request, {**asked, "runs": [run.canonical() for run in runs]})
    family = train(runs, opened, folder / "family", watcher=watcher)
    ranking = rank(family, criteria, settings=_judging(runs, criteria), seed=seed, progress=progress)
    _write(folder, family, ranking, seed)
    return Fit(folder, family, ranking, load(folder / "model.safetensors"))


def pictures(images: Any) -> World:
    """A world from whatever holds pictures."""
    if isinstance(images, World):
        return images
    if isinstance(images, str | Path):
        path = Path(images).expanduser()
        return world(f"pictures:folder={path}") if path.exists() else _by_name(str(images))
    return from_array(images)


def _by_name(spec: str) -> World:
    try:
        return world(spec)
    except RequestError as error:
        if "unknown world" in str(error):
            raise RequestError(f"{spec} is neither a folder or archive of pictures nor a world") from error
        raise


def plan(
    opened: World,
    methods: Sequence[str],
    minutes: float,
    began: float,
    seeds: int | None,
    steps: int | None,
    latents: int,
    nets: str | None,
    hyper: Mapping[str, Setting | Sequence[Setting]],
) -> tuple[list[Run], str]:
    """The runs that fit into the time that is left, and what a person should know about that."""
    if not minutes > 0:
        raise RequestError(f"minutes must be more than 0, got {minutes:g}")
    _check_hyper(methods, hyper)
    size = "small" if min(opened.image_shape[:2]) < SMALL else "large"
    scale = SCALES[size]
    make = functools.partial(_runs, opened, scale=scale, latents=latents, hyper=hyper)
    if steps is not None:
        return make(methods, seeds or SEEDS, steps, nets=nets), ""
    costs = {name: find_method(name).cost for name in methods}
    note, kept, cheapest = "", list(methods), min(methods, key=lambda name: costs[name])
    for choice in [nets] if nets is not None or size == "small" else [None, "small"]:
        nets = choice
        step = seconds_per_step(opened, make([cheapest], seeds or SEEDS, scale.enough, nets=nets)) / costs[cheapest]
        left = SHARE * (60 * minutes - (time.monotonic() - began))
        if left / (step * sum(costs.values())) >= scale.fewest:
            break
        note = f"{minutes:g} minutes are too few for convolutional nets on this machine: going on with small ones"
    while len(kept) > 1 and left / (step * sum(costs[name] for name in kept)) < scale.fewest:
        dropped = max(kept, key=lambda name: costs[name])
        kept.remove(dropped)
        note = f"{minutes:g} minutes are too few for {dropped} on this machine: going on with {listed(kept)}"
    affordable = int(left / (step * sum(costs[name] for name in kept)))
    if affordable < scale.fewest:
        note = (
            f"{minutes:g} minutes allow {max(affordable, 1):,} steps on this machine, and models need some "
            f"{scale.fewest:,} before they are worth choosing from: give more --minutes, or smaller pictures"
        )
    if seeds is None and affordable > scale.enough:
        seeds = min(MOST_SEEDS, SEEDS * affordable // scale.enough)
        affordable = affordable * SEEDS // seeds
    return make(kept, seeds or SEEDS, max(10, min(affordable, 300_000)), nets=nets), note


def _runs(
    opened: World,
    methods: Sequence[str],
    seeds: int,
    steps: int,
    *,
    scale: Scale,
    latents: int,
    nets: str | None,
    hyper: Mapping[str, Setting | Sequence[Setting]],
) -> list[Run]:
    """Each method at its strengths, each with every seed."""
    runs = []
    for name in methods:
        known = {each.name for each in find_method(name).hyper}
        sweep = {**strengths(name, scale, steps), **{key: value for key, value in hyper.items() if key in known}}
        runs += grid(
            opened, name, sweep, seeds=seeds, nets=nets, latents=latents, steps=steps, optimiser=Adam(scale.rate)
        )
    return runs


def strengths(method: str, scale: Scale, steps: int) -> dict[str, tuple[float, ...]]:
    """Two values of a method's main hyperparameter between which good ones lie; else its default.

    DAVA's capacity, which rises by `delta_c` a step while mixed codes look right, is given the time to reach 10 and 30.
    """
    if method in ("beta_vae", "beta_tcvae"):
        return {"beta": scale.betas}
    return {"delta_c": tuple(float(f"{room / steps:.2g}") for room in (10, 30))} if method == "dava" else {}


def seconds_per_step(opened: World, runs: Sequence[Run]) -> float:
    """How long one step of a family takes here, compilation left out."""
    compiled = program(opened, signature(runs[0]))
    inputs, (data, _) = compiled.inputs(runs), Feed(opened).at(0, runs[0].steps)
    carry = jax.block_until_ready(compiled.advance(compiled.init(inputs, data), data, inputs, 1))
    taken: list[float] = []
    count = 1
    while sum(taken) * count < 1.0 and len(taken) < 5:
        started = time.monotonic()
        carry = jax.block_until_ready(compiled.advance(carry, data, inputs, int(carry.step) + count))
        taken.append((time.monotonic() - started) / count)
        count = max(1, int(0.3 / taken[-1]))
    return statistics.median(taken)


def _judging(runs: Sequence[Run], criteria: Sequence[str]) -> dict[str, Setting]:
    """Settings of the criteria: discriminators train an eighth as long as models, faster where that is short."""
    steps = min(10_000, max(200, runs[0].steps // 8))
    known = {name for each in criteria for name in find_criterion(each).settings}
    settings: dict[str, Setting] = {
        "mixing": "permuted", "steps": steps, "rate": 1e-4 if steps >= 5_000 else 1e-3 if steps < 2_000 else 5e-4,
    }  # fmt: skip
    return {name: value for name, value in settings.items() if name in known}


def _planned(path: Path, asked: Mapping[str, Any]) -> list[Run]:
    """The runs of an earlier call that asked for the same."""
    about = read_json(path)
    try:
        for name, value in asked.items():
            if about[name] != value:
                raise RequestError(
                    f"{path.parent} holds a fit with {name} {about[name]}, not {value}: choose another --out"
                )
        return [Run.of(run) for run in about["runs"]]
    except (KeyError, TypeError) as error:
        raise RequestError(
            f"{path} is not the plan of a fit ({error!r}): delete it, or choose another --out"
        ) from error


def _check_hyper(methods: Sequence[str], hyper: Mapping[str, Any]) -> None:
    known = set(itertools.chain.from_iterable((each.name for each in find_method(name).hyper) for name in methods))
    if unknown := hyper.keys() - known:
        raise RequestError(
            f"none of {listed(methods)} has a hyperparameter {listed(unknown)!r}: they have {listed(known)}"
        )


def _plain(hyper: Mapping[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, list | tuple) else value for name, value in hyper.items()}


def _write(folder: Path, family: Family, ranking: Ranking, seed: int) -> None:
    """The chosen model, and all that is said about it."""
    best = ranking.best.run
    model = family.model(best)
    _, codes = next(iter(encode(family, [best])))
    assert codes.logvar is not None
    with replacing(folder / "model.safetensors") as temporary:
        shutil.copyfile(family.model_path(best), temporary)
    write_codes(folder / "codes.parquet", family.world, codes.mean, codes.logvar)
    if importlib.util.find_spec("onnx") is not None:
        onnx.export(model, folder)
    write_json(folder / "ranking.json", ranking.plain())
    write_json(folder / "model.json", _described(model, family, ranking, latent_kl(codes.mean, codes.logvar)))
    best_four = [family.model(each.run) for each in ranking.models[:4]]
    traversals(best_four, family.world, folder / "traversals.png", seed=seed)
    _report(folder, family, ranking)


def _report(folder: Path, family: Family, ranking: Ranking) -> None:
    """The ranking as a store, what the report shows of the best models, and the report."""
    from sober.report.report import report  # noqa: PLC0415 -- draws, and so takes long to import
    from sober.report.showcase import keep_showcase  # noqa: PLC0415

    store = Store.create(folder / "results")
    runs = {run.identity: run for run in family.runs}
    scores = [
        Score(model.run.identity, name, value, {"models": len(ranking.models)}, model.flags)
        for model in ranking.models
        for name, value in model.scores.items()
    ]
    store.write(scores, runs, kind="criterion", preset="label_free")
    write_json(store.folder / "study.json", {"name": "fit", "title": family.summary(), "scale": "", "command": ""})
    for model in ranking.models[:SHOWN]:
        _, codes = next(iter(encode(family, [model.run])))
        (store.folder / "models").mkdir(exist_ok=True)
        with replacing(store.model_path(model.run)) as temporary:
            shutil.copyfile(family.model_path(model.run), temporary)
        keep_showcase(store.folder, family.model(model.run), codes, family.world)
    store.compact()
    report(store.folder, folder / "report.html")


def _described(model: Model, family: Family, ranking: Ranking, kl: np.ndarray) -> dict[str, Any]:
    return {
        "run": model.run.canonical(),
        "identity": model.run.identity,
        "setting": family.words(model.run),
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

    names = getattr(opened, "names", ()) if isinstance(opened, World) else ()
    columns: dict[str, Any] = {"picture": np.arange(len(mean))}
    if len(names) == len(mean):
        columns["file"] = list(names)
    columns |= {f"mean_{d}": mean[:, d] for d in range(mean.shape[1])}
    if logvar is not None:
        columns |= {f"logvar_{d}": logvar[:, d] for d in range(mean.shape[1])}
    with replacing(path) as temporary:
        pl.DataFrame(columns).write_parquet(temporary)
