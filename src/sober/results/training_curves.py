"""Curves of training by step, from the models' files: mean and standard deviation over the runs of a method."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from safetensors import SafetensorError, safe_open

from sober.results.runs import Runs
from sober.results.tables.estimates import frame

if TYPE_CHECKING:
    import polars as pl

CURVE, STEP = "curve.", "curve.step"
POINTS = 40  # points of a curve: more would not show in a picture
RUNS = 300  # runs of a method in a world, at most: a mean over more looks the same


def training_curves(runs: Runs) -> pl.DataFrame:
    """Each term of the training objective by world, method and step: the mean, and one standard deviation either way.

    Most runs of a method record their curves at the same steps. Runs with other steps are left out.
    """
    rows = []
    for (world, method), group in runs.grouped_by("world", "method"):
        curves = [curve for run in group.run_column("run")[:RUNS] if (curve := _read(runs.folder, run))]
        steps = [tuple(curve[STEP].tolist()) for curve in curves]
        if not steps:
            continue
        usual = max(dict.fromkeys(steps), key=steps.count)
        alike = [curve for curve, recorded in zip(curves, steps, strict=True) if recorded == usual]
        places = np.unique(np.linspace(0, len(usual) - 1, POINTS).round().astype(int)) if usual else np.array([], int)
        for name in alike[0]:
            values = np.array([curve[name][places] for curve in alike if len(curve.get(name, ())) == len(usual)])
            if name == STEP or not len(values) or not np.isfinite(values).all():
                continue
            mean, std = values.mean(axis=0), values.std(axis=0)
            term = name.removeprefix(CURVE)
            for place, middle, half in zip(places.tolist(), mean.tolist(), std.tolist(), strict=True):
                rows.append((world, method, term, int(usual[place]), len(values), middle, middle - half, middle + half))
    labels = {"world": str, "method": str, "term": str, "step": int, "n": int}
    return frame({**labels, "value": float, "low": float, "high": float}, rows)


def _read(folder: Path | None, run: str) -> Mapping[str, np.ndarray]:
    """The curves in a model's file; empty if there is no file, or no curves in it."""
    path = None if folder is None else folder / "models" / f"{run}.safetensors"
    if path is None or not path.exists():
        return {}
    try:
        with safe_open(path, framework="numpy") as file:
            names = [name for name in file.keys() if name.startswith(CURVE)]  # noqa: SIM118 (not a mapping)
            curves = {name: np.asarray(file.get_tensor(name), float) for name in names}
    except (OSError, SafetensorError):  # a damaged file is reported when the model itself is loaded
        return {}
    return curves if STEP in curves else {}
