"""Parts of scores, on disk: matrices of latents by factors, values by latent or factor, and curves.

matrices/IDENTITY.safetensors   of one model; METRIC|DIGEST|PART is an array, DIGEST a hash of the metric's settings

Tables that average matrices over models, or show a score by latent or factor, read these files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sober.errors import RequestError
from sober.files import expecting, load_arrays, parse_json, save_arrays
from sober.metrics.scoring.score import Scores
from sober.results.runs import Runs
from sober.results.table_rows import settings_text

LARGEST = 4_096  # numbers in a saved part: room for a matrix of 400 latents and ten factors
KIND = "sober.parts"
MERGE = "merge_thresholds"
# The name of a part ends in:
BY_LATENT, BY_FACTOR = "_per_latent", "_per_factor"  # with one value for each latent or factor
CURVE = "_curve"  # with two rows: places and values


class MetricParts(NamedTuple):
    """The parts of one metric with its settings, of one model."""

    run: str
    metric: str
    settings: str  # the column `settings` of the table
    factors: tuple[str, ...]
    parts: Mapping[str, np.ndarray]


def save_parts(folder: Path, run: str, scores: Scores) -> None:
    """Adds the small parts of a model's scores to the model's file of parts."""
    path = parts_path(folder, run)
    arrays, settings = _load(path)[:2] if path.exists() else ({}, {})
    for metric, parts in scores.parts.items():
        text = settings_text(scores.settings[metric])
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        small = {name: np.asarray(array, np.float32) for name, array in parts.items() if np.size(array) <= LARGEST}
        arrays |= {f"{metric}|{digest}|{name}": array for name, array in small.items()}
        settings[digest] = text
    if arrays:
        path.parent.mkdir(exist_ok=True)
        header = {"settings": settings, "factors": list(scores.factors)}
        save_arrays(path, arrays, {"kind": KIND, "about": json.dumps(header, sort_keys=True)})


def load_parts(folder: Path, run: str) -> Iterator[MetricParts]:
    """The saved parts of a model's scores, metric by metric; nothing if the model has no file of parts."""
    path = parts_path(folder, run)
    if not path.exists():
        return
    arrays, settings, factors = _load(path)
    by_metric: dict[tuple[str, str], dict[str, np.ndarray]] = {}
    for name, array in arrays.items():
        metric, digest, part_name = name.split("|")
        by_metric.setdefault((metric, digest), {})[part_name] = array
    for (metric, digest), parts in sorted(by_metric.items()):
        yield MetricParts(run, metric, settings[digest], factors, parts)


def parts_path(folder: Path, run: str) -> Path:
    return folder / "matrices" / f"{run}.safetensors"


def _load(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str], tuple[str, ...]]:
    arrays, metadata = load_arrays(path)
    if metadata.get("kind") != KIND:
        raise RequestError(f"{path} holds no parts of scores saved by Sober: move it elsewhere")
    with expecting(path, "a file of parts of scores"):
        header = parse_json(metadata["about"])
        settings, factors = dict(header["settings"]), tuple(header["factors"])
        for name in arrays:
            _, digest, _ = name.split("|")
            if digest not in settings:
                raise ValueError(f"it lacks the settings {digest!r}")
    return arrays, settings, factors


def has_parts(runs: Runs, *endings: str) -> bool:
    """Whether the first run with saved parts has a part whose name has one of these endings."""
    folder = runs.folder
    first = next((run for run in runs.run_column("run") if folder and parts_path(folder, run).exists()), None)
    if folder is None or first is None:
        return False
    return any(name.endswith(endings) for metric_parts in load_parts(folder, first) for name in metric_parts.parts)
