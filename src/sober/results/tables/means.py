"""Means over seeds: for each setting, for each method's best and middling setting, and correlations of two means."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from numpy.ma import MaskedArray

from sober.results.runs import Runs
from sober.results.stats import (
    interval,
    pearson,
    resampled,
)
from sober.results.tables.estimates import ESTIMATE, frame, mean_within
from sober.results.tables.number_groups import directed_label_free, evaluated_numbers
from sober.results.tables.table import (
    CHEN,
    DAVA,
    EASTWOOD,
    ONE_METRIC,
    SEEDS,
    Need,
    table,
)

if TYPE_CHECKING:
    import polars as pl


WRITTEN = "as_written"  # the reading of runs that do not follow the DAVA paper's code
FEWEST_STRENGTHS = 3  # a line through fewer points says nothing
LABEL_FREE = Need(
    "a criterion or a label-free metric that says which model is better", lambda runs: bool(directed_label_free(runs))
)
STRENGTHS = Need("a method with at least three strengths", lambda runs: _most_strengths(runs) >= FEWEST_STRENGTHS)


def _most_strengths(runs: Runs) -> int:
    """The number of strengths of the method that has the most."""
    sweeps = [runs_of_sweep for _, runs_of_sweep in runs.grouped_by("world", "sweep")]
    return max((len(set(sweep.run_column("strength"))) for sweep in sweeps if _has_strengths(sweep)), default=0)


def _has_strengths(runs: Runs) -> bool:
    return bool(runs.run_frame["strength"].is_not_null().all())


@table(
    "Means over the seeds of each setting",
    f"{CHEN}, Figure 2; {EASTWOOD}, Table 1",
    needs=(),
    drawn="",
)
def means_by_setting(runs: Runs, *, resamples: int, seed: int) -> pl.DataFrame:
    """Each number's mean over the seeds of a setting, its 95% and 90% intervals (Student's t), and its deviation."""
    names, rows = evaluated_numbers(runs), []
    groups = runs.grouped_by("world", "method", "setting", "strength")
    for (world, method, setting, strength), runs_of_setting in groups:
        for name, column in zip(names, runs_of_setting.number_columns(names).T, strict=True):
            if values := column.compressed().tolist():
                wide, narrow = (mean_within(values, runs.bounds(name), level=level) for level in (0.95, 0.90))
                rows.append((world, method, setting, strength, name, len(values), *wide, _std(values), *narrow[1:]))
    labels = {"world": str, "method": str, "setting": str, "strength": float, "metric": str}
    return frame({**labels, "n": int, **ESTIMATE, "std": float, "low_90": float, "high_90": float}, rows)


@table(
    "Each method at its best strength, at a middling one, and over all",
    f"{DAVA}, Tables 1 to 3 and 9 to 16",
    needs=(ONE_METRIC, SEEDS),
    drawn="",
    scores=("mig", "dci_disentanglement", "factor_vae", "pipe"),
)
def best_and_mean_strength(runs: Runs, *, resamples: int, seed: int) -> pl.DataFrame:
    """Estermann & Wattenhofer, Tables 1 to 3 and 9 to 16: each method at one strength, means over seeds.

    The column `which` says how the setting was chosen:

    - `best`: its mean of the supervised scores is the highest;
    - `mean`: its mean of all the paper's scores is nearest to the average over the method's settings;
    - `average`: all settings of the method together;
    - `fixed`: the method has only this setting.

    The column `reading` says whether a method is as_written in the paper or as_published in its code. Readings of a
    method are chosen apart. `std` is over the runs.
    """
    names, scores = evaluated_numbers(runs), runs.numbers_of(best_and_mean_strength.scores)
    scores = [name for name in scores if runs.numbers[name].sign] or [n for n in runs.metrics() if runs.numbers[n].sign]
    rows: list[tuple[Any, ...]] = []
    for (world, method, reading), runs_of_method in runs.grouped_by("world", "method", "reading"):
        for choice, setting, chosen_runs in _chosen_settings(runs_of_method, scores):
            for name, column in zip(names, chosen_runs.number_columns(names).T, strict=True):
                if values := column.compressed().tolist():
                    estimate = (*mean_within(values, runs.bounds(name)), _std(values))
                    rows.append((world, method, reading or WRITTEN, choice, setting, name, len(values), *estimate))
    labels = dict.fromkeys(("world", "method", "reading", "which", "setting", "metric"), str)
    return frame({**labels, "n": int, **ESTIMATE, "std": float}, rows)


def _chosen_settings(runs_of_method: Runs, scores: Sequence[str]) -> Iterator[tuple[str, str, Runs]]:
    """The settings of a method that the paper shows: how each was chosen, its name, and its runs."""
    settings = [(setting, runs_of_setting) for (setting,), runs_of_setting in runs_of_method.grouped_by("setting")]
    if len(settings) == 1:
        yield ("fixed", *settings[0])
        return
    supervised = [name for name in scores if name in runs_of_method.metrics()]
    by_supervised, by_all = (
        np.array([_mean_score(runs_of_setting, names) for _, runs_of_setting in settings])
        for names in (supervised, scores)
    )
    if not np.isnan(by_supervised).all():
        yield ("best", *settings[int(np.nanargmax(by_supervised))])
        yield ("mean", *settings[int(np.nanargmin(np.abs(by_all - np.nanmean(by_all))))])
    yield "average", "all", runs_of_method


def _mean_score(runs: Runs, names: Sequence[str]) -> float:
    """The mean over scores of their means over runs, each turned so that more is better; NaN without numbers."""
    means = [np.ma.mean(runs.oriented(name)) for name in names if runs.oriented(name).count()]
    return float(np.mean(means)) if means else np.nan


@table(
    "Pearson's correlation of means of criteria with means of metrics, over strengths",
    f"{CHEN}, Figure 4",
    needs=(LABEL_FREE, ONE_METRIC, STRENGTHS),
    drawn="runs of each setting",
)
def means_correlation(runs: Runs, *, resamples: int, seed: int) -> pl.DataFrame:
    """Chen et al., Figure 4: Pearson's correlation of two means over seeds, over the strengths of a method.

    The first is the mean of a criterion or of a label-free metric that says which model is better, the second the mean
    of a supervised metric. `n` is the number of strengths. Seeds are drawn again within each strength. Runs that differ
    in another setting than the strength have a row of their own, as `beta_tcvae alpha=0`.
    """
    criteria, metrics, rows = directed_label_free(runs), runs.metrics(), []
    names = [*criteria, *metrics]
    runs = runs.where(runs.run_frame["strength"].is_not_null().to_numpy())
    for (world, method), runs_of_method in runs.grouped_by("world", "sweep"):
        settings = runs_of_method.run_column("setting")
        if len(set(settings)) < FEWEST_STRENGTHS:
            continue
        counts = resampled(len(settings), within=settings, resamples=resamples, seed=seed)
        means = dict(
            zip(names, _means_of_settings(runs_of_method.number_columns(names), settings, counts), strict=True)
        )
        for criterion, metric in itertools.product(criteria, metrics):
            x, y = means[criterion], means[metric]
            n = int((~(np.ma.getmaskarray(x[0]) | np.ma.getmaskarray(y[0]))).sum())
            correlations = pearson(x, y)  # of the runs, and of each resample
            estimate = interval(correlations[0], correlations[1:], centred=True)  # drawn again, means are noisier
            rows.append((world, method, criterion, metric, n, *map(_as_correlation, estimate)))
    labels = dict.fromkeys(("world", "method", "criterion", "metric"), str)
    return frame({**labels, "n": int, **ESTIMATE}, rows)


def _means_of_settings(columns: MaskedArray, settings: np.ndarray, counts: np.ndarray) -> Float[MaskedArray, "K R+1 S"]:
    """Means of columns over the seeds of each setting: first over the runs as they are, then over each resample."""
    drawn = np.vstack([np.ones((1, len(columns))), counts])
    present, values = (~np.ma.getmaskarray(columns)).astype(float), columns.filled(0.0)
    rows_by_setting = [settings == setting for setting in np.unique(settings)]
    sums = np.stack([drawn[:, rows] @ values[rows] for rows in rows_by_setting], axis=-1)  # (R+1, K, S)
    sizes = np.stack([drawn[:, rows] @ present[rows] for rows in rows_by_setting], axis=-1)
    return np.ma.array(sums / np.maximum(sizes, 1), mask=sizes == 0).transpose(1, 0, 2)


def _as_correlation(end: float | None) -> float | None:
    """An end of an interval from -1 to 1: a centred interval can reach further."""
    return None if end is None else min(max(end, -1.0), 1.0)


def _std(values: Sequence[float]) -> float | None:
    return float(np.std(values, ddof=1)) if len(values) > 1 else None
