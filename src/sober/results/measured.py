"""What metrics found beside their numbers: matrices of latents and factors, and values by latent or by factor.

matrices/IDENTITY.safetensors   of one model; METRIC|DIGEST|PART is an array, the digest is of the metric's settings

A table of the papers that averages matrices over models, or shows a score by variable, is made of these files.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sober.errors import RequestError
from sober.files import load_arrays, save_arrays
from sober.metrics.score import Scores
from sober.results.estimates import ESTIMATE, RESAMPLES, frame
from sober.results.rows import settings_text
from sober.results.runs import Runs, as_runs
from sober.results.stats import mean_interval

if TYPE_CHECKING:
    import polars as pl

LARGEST = 4_096  # numbers in a part that is kept: a matrix of 400 latents and ten factors
KIND = "sober.parts"
MERGE = "merge_thresholds"
BY_LATENT, BY_FACTOR = "_per_latent", "_per_factor"  # how the names of parts end that have a value for each,
CURVE = "_curve"  # and of those that have two rows, places and values


class Kept(NamedTuple):
    """The parts of one metric with its settings, of one model."""

    run: str
    metric: str
    settings: str  # as the rows of the table have them
    factors: tuple[str, ...]
    parts: Mapping[str, np.ndarray]


def keep_parts(folder: Path, run: str, scores: Scores) -> None:
    """Keeps the small parts of a model's scores in a folder of results, beside those that it has."""
    path = parts_path(folder, run)
    arrays, settings = _load(path)[:2] if path.exists() else ({}, {})
    for metric, parts in scores.parts.items():
        said = settings_text(scores.settings[metric])
        digest = hashlib.sha256(said.encode()).hexdigest()[:8]
        small = {name: np.asarray(part, np.float32) for name, part in parts.items() if np.size(part) <= LARGEST}
        arrays |= {f"{metric}|{digest}|{name}": part for name, part in small.items()}
        settings[digest] = said
    if arrays:
        path.parent.mkdir(exist_ok=True)
        about = {"settings": settings, "factors": list(scores.factors)}
        save_arrays(path, arrays, {"kind": KIND, "about": json.dumps(about, sort_keys=True)})


def kept_parts(folder: Path, run: str) -> Iterator[Kept]:
    """What is kept of a model, metric by metric; nothing where there is no file."""
    path = parts_path(folder, run)
    if not path.exists():
        return
    arrays, settings, factors = _load(path)
    by_metric: dict[tuple[str, str], dict[str, np.ndarray]] = {}
    for name, array in arrays.items():
        metric, digest, part = name.split("|")
        by_metric.setdefault((metric, digest), {})[part] = array
    for (metric, digest), parts in sorted(by_metric.items()):
        yield Kept(run, metric, settings[digest], factors, parts)


def parts_path(folder: Path, run: str) -> Path:
    return folder / "matrices" / f"{run}.safetensors"


def _load(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str], tuple[str, ...]]:
    arrays, metadata = load_arrays(path)
    if metadata.get("kind") != KIND:
        raise RequestError(f"{path} holds no parts of scores saved by Sober: move it elsewhere")
    about = json.loads(metadata["about"])
    return arrays, about["settings"], tuple(about["factors"])


def has_parts(runs: Runs, *endings: str) -> bool:
    """Whether the folder keeps parts whose names end so: what it keeps of the first run speaks for the others."""
    folder = runs.folder
    first = next((run for run in runs.labels("run") if folder and parts_path(folder, run).exists()), None)
    if folder is None or first is None:
        return False
    return any(part.endswith(endings) for kept in kept_parts(folder, first) for part in kept.parts)


def merge_thresholds(data: pl.DataFrame | Runs, *, resamples: int = RESAMPLES, seed: int = 0) -> pl.DataFrame:
    """Locatello et al., Figures 34 and 35: the threshold at which two factors merge into one group, mean over models.

    It is the weight of the edges through which they are joined: the higher it is, the more entangled the two are. The
    paper counts thresholds from the largest, so that there a lower one says the same. `matrix` is what says how much
    latents have to do with factors.
    """
    runs = as_runs(data)
    found: dict[tuple[str, str, str, str], list[float]] = {}
    for world, kept in _of_worlds(runs):
        if MERGE in kept.parts and kept.parts[MERGE].shape == (len(kept.factors),) * 2:
            for (a, factor), (b, other) in itertools.combinations(enumerate(kept.factors), 2):
                found.setdefault((world, kept.metric, factor, other), []).append(float(kept.parts[MERGE][a, b]))
    rows = [(*key, len(values), *mean_interval(values)) for key, values in found.items()]
    labels = dict.fromkeys(("world", "matrix", "factor", "other"), str)
    return frame({**labels, "n": int, **ESTIMATE}, rows)


def scores_by_variable(data: pl.DataFrame | Runs, *, resamples: int = RESAMPLES, seed: int = 0) -> pl.DataFrame:
    """Eastwood & Williams, Tables 3 and 4: a metric's parts for each latent and each factor, run by run.

    Latents have no order that two models share: compare those of one model. `settings` tells how they were found.
    """
    runs, rows = as_runs(data), []
    about = {row["run"]: row for row in runs.sound().about.iter_rows(named=True)}
    for world, kept in _of_worlds(runs):
        of = about[kept.run]
        whose = (world, of["method"], of["setting"], of["seed"], kept.metric, kept.settings)
        for part, values in sorted(kept.parts.items()):
            for ending, variables in ((BY_LATENT, _latents(values)), (BY_FACTOR, kept.factors)):
                if part.endswith(ending) and len(variables) == np.size(values):
                    name = part.removesuffix(ending)
                    rows += [(*whose, name, v, float(x)) for v, x in zip(variables, np.ravel(values), strict=True)]
    labels = {**dict.fromkeys(("world", "method", "setting"), str), "seed": int}
    return frame({**labels, **dict.fromkeys(("metric", "settings", "quantity", "variable"), str), "value": float}, rows)


def _latents(values: np.ndarray) -> list[str]:
    return [f"c{latent}" for latent in range(np.size(values))]


def _of_worlds(runs: Runs) -> Iterator[tuple[str, Kept]]:
    sound = runs.sound()
    for run, world in zip(sound.labels("run"), sound.labels("world"), strict=True):
        if runs.folder is not None:
            yield from ((world, kept) for kept in kept_parts(runs.folder, run))
