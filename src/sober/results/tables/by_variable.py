"""Tables of values that metrics save for each latent and each factor."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from sober.results.runs import Runs
from sober.results.score_files import BY_FACTOR, BY_LATENT, MERGE, MetricParts, has_parts, load_parts
from sober.results.tables.estimates import ESTIMATE, frame, mean_within, settings_that_differ
from sober.results.tables.table import (
    EASTWOOD,
    SOBER_LOOK,
    Need,
    table,
)

if TYPE_CHECKING:
    import polars as pl


PARTS = Need(
    "values of metrics by latent and by factor, in the folder's matrices/",
    lambda runs: has_parts(runs, BY_LATENT, BY_FACTOR),
)
MATRICES = Need("matrices of the unified scores, in the folder's matrices/", lambda runs: has_parts(runs, MERGE))


@table(
    "Thresholds at which two factors merge, mean over models",
    f"{SOBER_LOOK}, Figures 34 and 35",
    needs=(MATRICES,),
    drawn="",
)
def merge_thresholds(runs: Runs, *, resamples: int, seed: int) -> pl.DataFrame:
    """Locatello et al., Figures 34 and 35: the threshold at which two factors merge into one group, mean over models.

    The threshold is the weight of the edges that join the two factors: the higher it is, the more entangled they are.
    The paper counts thresholds down from the largest, so there a lower one means more entangled. `matrix` names the
    matrix that relates latents to factors.
    """
    thresholds: dict[tuple[str, str, str, str], list[float]] = {}
    for world, metric in _parts_by_world(runs):
        if MERGE in metric.parts and metric.parts[MERGE].shape == (len(metric.factors),) * 2:
            for (a, factor), (b, other) in itertools.combinations(enumerate(metric.factors), 2):
                key = world, metric.metric, factor, other
                thresholds.setdefault(key, []).append(float(metric.parts[MERGE][a, b]))
    rows = [(*key, len(values), *mean_within(values, (0.0, np.inf))) for key, values in thresholds.items()]
    labels = dict.fromkeys(("world", "matrix", "factor", "other"), str)
    return frame({**labels, "n": int, **ESTIMATE}, rows)


@table(
    "Scores by latent and by factor",
    f"{EASTWOOD}, Tables 3 and 4",
    needs=(PARTS,),
    drawn="",
)
def scores_by_variable(runs: Runs, *, resamples: int, seed: int) -> pl.DataFrame:
    """Eastwood & Williams, Tables 3 and 4: a metric's values for each latent and each factor, run by run.

    Two models do not share an order of latents: compare latents within one model. `settings` are those in which the
    folder's measurements of the metric differ.
    """
    rows: list[tuple[Any, ...]] = []
    run_rows = {row["run"]: row for row in runs.not_diverged().run_frame.iter_rows(named=True)}
    for world, metric in _parts_by_world(runs):
        run = run_rows[metric.run]
        labels = (world, run["method"], run["setting"], run["seed"], metric.metric, metric.settings)
        for part_name, values in sorted(metric.parts.items()):
            for ending, variables in ((BY_LATENT, _latent_names(values)), (BY_FACTOR, metric.factors)):
                if part_name.endswith(ending) and len(variables) == np.size(values):
                    quantity = part_name.removesuffix(ending)
                    rows += [(*labels, quantity, v, float(x)) for v, x in zip(variables, np.ravel(values), strict=True)]
    names = settings_that_differ(row[4:6] for row in rows)
    rows = [(*row[:5], names[row[4:6]], *row[6:]) for row in rows]
    schema = {**dict.fromkeys(("world", "method", "setting"), str), "seed": int}
    return frame({**schema, **dict.fromkeys(("metric", "settings", "quantity", "variable"), str), "value": float}, rows)


def _latent_names(values: np.ndarray) -> list[str]:
    return [f"c{latent}" for latent in range(np.size(values))]


def _parts_by_world(runs: Runs) -> Iterator[tuple[str, MetricParts]]:
    """The values that a folder keeps of each metric, with the run's world. Runs that diverged are left out."""
    sound = runs.not_diverged()
    for run, world in zip(sound.run_column("run"), sound.run_column("world"), strict=True):
        if runs.folder is not None:
            yield from ((world, metric) for metric in load_parts(runs.folder, run))
