"""How terms of training went, step by step, from the models' files: mean and deviation over the runs of a method."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from safetensors import SafetensorError, safe_open

from sober.results.estimates import frame
from sober.results.runs import Runs

if TYPE_CHECKING:
    import polars as pl

CURVE, STEP = "curve.", "curve.step"
POINTS = 40  # of a curve: more are not seen
RUNS = 300  # of a method in a world, at most: a mean of more looks the same


def training_curves(runs: Runs) -> pl.DataFrame:
    """Each term of each method's training in each world: at some steps the mean, and one deviation either way.

    Runs that trained for other steps than most of their method are left out.
    """
    rows = []
    for (world, method), part in runs.by("world", "method"):
        curves = [read for run in part.labels("run")[:RUNS] if (read := _read(runs.folder, run))]
        steps = [tuple(curve[STEP].tolist()) for curve in curves]
        if not steps:
            continue
        usual = max(dict.fromkeys(steps), key=steps.count)
        same = [curve for curve, its in zip(curves, steps, strict=True) if its == usual]
        places = np.unique(np.linspace(0, len(usual) - 1, POINTS).round().astype(int)) if usual else np.array([], int)
        for name in same[0]:
            values = np.array([curve[name][places] for curve in same if len(curve.get(name, ())) == len(usual)])
            if name == STEP or not len(values) or not np.isfinite(values).all():
                continue
            mean, std = values.mean(axis=0), values.std(axis=0)
            for at, place in enumerate(places.tolist()):
                middle, half = float(mean[at]), float(std[at])
                term = name.removeprefix(CURVE)
                rows.append((world, method, term, int(usual[place]), len(values), middle, middle - half, middle + half))
    labels = {"world": str, "method": str, "term": str, "step": int, "n": int}
    return frame({**labels, "value": float, "low": float, "high": float}, rows)


def _read(folder: Path | None, run: str) -> Mapping[str, np.ndarray]:
    """The curves of a model, without its weights; none where there is no model, or it has none."""
    path = None if folder is None else folder / "models" / f"{run}.safetensors"
    if path is None or not path.exists():
        return {}
    try:
        with safe_open(path, framework="numpy") as file:
            names = [name for name in file.keys() if name.startswith(CURVE)]  # noqa: SIM118 (not a mapping)
            curves = {name: np.asarray(file.get_tensor(name), float) for name in names}
    except (OSError, SafetensorError):  # who needs the model will say so
        return {}
    return curves if STEP in curves else {}
