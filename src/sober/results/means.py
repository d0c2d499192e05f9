"""Means over seeds: by setting, at the best and at a middling strength of a method, and how two of them go together."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from numpy.ma import MaskedArray

from sober.results.checklist import scores_of
from sober.results.estimates import ESTIMATE, RESAMPLES, frame
from sober.results.runs import Runs, as_runs
from sober.results.stats import interval, mean_interval, pearson, resampled

if TYPE_CHECKING:
    import polars as pl

LEAST = 3  # points below which a line through them says nothing


def means_by_setting(data: pl.DataFrame | Runs, *, resamples: int = RESAMPLES, seed: int = 0) -> pl.DataFrame:
    """Each number's mean over the seeds of a setting: with 95% and 90% intervals, Student's t, and the deviation."""
    runs = as_runs(data)
    names, rows = measured(runs), []
    for (world, method, setting, strength), part in runs.by("world", "method", "setting", "strength"):
        for name, column in zip(names, part.columns(names).T, strict=True):
            if values := column.compressed().tolist():
                wide, narrow = (mean_interval(values, level=level) for level in (0.95, 0.90))
                rows.append((world, method, setting, strength, name, len(values), *wide, _std(values), *narrow[1:]))
    labels = {"world": str, "method": str, "setting": str, "strength": float, "metric": str}
    return frame({**labels, "n": int, **ESTIMATE, "std": float, "low_90": float, "high_90": float}, rows)


def best_and_mean_strength(data: pl.DataFrame | Runs, *, resamples: int = RESAMPLES, seed: int = 0) -> pl.DataFrame:
    """Estermann & Wattenhofer, Tables 1 to 3 and 9 to 16: each method at one strength, means over seeds.

    `best` is the setting with the highest mean of the supervised scores; `mean` the one whose mean of all the paper's
    scores is nearest to the average of the method's settings; `average` is over all of its settings. A method with one
    setting has `fixed`. `std` is over the runs.
    """
    runs = as_runs(data)
    names, scores = measured(runs), runs.of_metrics(scores_of(best_and_mean_strength.__name__))
    scores = [name for name in scores if runs.numbers[name].sign] or [n for n in runs.metrics() if runs.numbers[n].sign]
    rows: list[tuple[Any, ...]] = []
    for (world, method), part in runs.by("world", "method"):
        for which, setting, some in _chosen(part, scores):
            for name, column in zip(names, some.columns(names).T, strict=True):
                if values := column.compressed().tolist():
                    estimate = (*mean_interval(values), _std(values))
                    rows.append((world, method, which, setting, name, len(values), *estimate))
    labels = dict.fromkeys(("world", "method", "which", "setting", "metric"), str)
    return frame({**labels, "n": int, **ESTIMATE, "std": float}, rows)


def _chosen(part: Runs, scores: Sequence[str]) -> Iterator[tuple[str, str, Runs]]:
    """The settings of a method that the paper shows, and the runs of each."""
    settings = [(setting, some) for (setting,), some in part.by("setting")]
    if len(settings) == 1:
        yield ("fixed", *settings[0])
        return
    supervised = [name for name in scores if name in part.metrics()]
    best, middle = (np.array([_goodness(some, names) for _, some in settings]) for names in (supervised, scores))
    if not np.isnan(best).all():
        yield ("best", *settings[int(np.nanargmax(best))])
        yield ("mean", *settings[int(np.nanargmin(np.abs(middle - np.nanmean(middle))))])
    yield "average", "all", part


def _goodness(some: Runs, names: Sequence[str]) -> float:
    """The mean over scores of their means over runs, each turned so that more is better; NaN without numbers."""
    means = [np.ma.mean(some.turned(name)) for name in names if some.turned(name).count()]
    return float(np.mean(means)) if means else np.nan


def means_correlation(data: pl.DataFrame | Runs, *, resamples: int = RESAMPLES, seed: int = 0) -> pl.DataFrame:
    """Chen et al., Figure 4: Pearson's correlation over strengths of a method, of two means over seeds.

    One is of a criterion, or of another number that needs no labels and has a good end, the other of a metric. `n` is
    the number of strengths. Seeds are drawn again within each strength.
    """
    runs = as_runs(data)
    criteria, metrics, rows = label_free(runs), runs.metrics(), []
    names = [*criteria, *metrics]
    runs = runs.where(runs.about["strength"].is_not_null().to_numpy())
    for (world, method), part in runs.by("world", "method"):
        settings = part.labels("setting")
        if len(set(settings)) < LEAST:
            continue
        counts = resampled(len(settings), within=settings, resamples=resamples, seed=seed)
        means = dict(zip(names, _means(part.columns(names), settings, counts), strict=True))
        for criterion, metric in itertools.product(criteria, metrics):
            x, y = means[criterion], means[metric]
            n = int((~(np.ma.getmaskarray(x[0]) | np.ma.getmaskarray(y[0]))).sum())
            found = pearson(x, y)
            rows.append((world, method, criterion, metric, n, *interval(found[0], found[1:])))
    labels = dict.fromkeys(("world", "method", "criterion", "metric"), str)
    return frame({**labels, "n": int, **ESTIMATE}, rows)


def _means(columns: MaskedArray, settings: np.ndarray, counts: np.ndarray) -> Float[MaskedArray, "K R+1 S"]:
    """Means of columns over the seeds of each setting: of the runs as they are, and then of each resample."""
    drawn = np.vstack([np.ones((1, len(columns))), counts])
    present, values = (~np.ma.getmaskarray(columns)).astype(float), columns.filled(0.0)
    parts = [settings == setting for setting in np.unique(settings)]
    sums = np.stack([drawn[:, rows] @ values[rows] for rows in parts], axis=-1)  # (R+1, K, S)
    sizes = np.stack([drawn[:, rows] @ present[rows] for rows in parts], axis=-1)
    return np.ma.array(sums / np.maximum(sizes, 1), mask=sizes == 0).transpose(1, 0, 2)


def label_free(runs: Runs) -> list[str]:
    """Criteria, and metrics that need no labels, of which one end is the good one."""
    return [name for name in measured(runs) if name in runs.criteria() and runs.numbers[name].sign]


def measured(runs: Runs) -> list[str]:
    """Of metrics, tasks and criteria: not numbers of training."""
    return [name for name in runs.whole() if runs.numbers[name].kind != "training"]


def _std(values: Sequence[float]) -> float | None:
    return float(np.std(values, ddof=1)) if len(values) > 1 else None
