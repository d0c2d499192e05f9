"""How numbers change with the strength of regularisation, and how numbers of means differ from numbers of samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sober.results.runs import Runs
from sober.results.stats import (
    median_intervals,
    paired,
)
from sober.results.tables.estimates import ESTIMATE, frame, ranked
from sober.results.tables.table import (
    SOBER_LOOK,
    STRENGTH,
    Need,
    table,
)

if TYPE_CHECKING:
    import polars as pl


SAMPLES = Need(
    "a number of means that has a twin of samples, such as gaussian_total_correlation_sampled",
    lambda runs: bool(runs.sample_twins()),
)


@table(
    "Means less samples, medians by setting",
    f"{SOBER_LOOK}, Figures 2 to 4",
    needs=(SAMPLES,),
)
def means_against_samples(runs: Runs, *, resamples: int, seed: int) -> pl.DataFrame:
    """A number of the means less the same number of the samples, run by run: medians by setting.

    `higher` is the share of runs in which the number of the means is higher.
    """
    twin_of, rows = runs.sample_twins(), []
    names, twins = list(twin_of), list(twin_of.values())
    groups = runs.grouped_by("world", "method", "setting", "strength")
    for (world, method, setting, strength), runs_of_setting in groups:
        means, samples = runs_of_setting.number_columns(names), runs_of_setting.number_columns(twins)
        medians = median_intervals((means - samples).T, resamples=resamples, seed=seed)
        for k, name in enumerate(names):
            present = ~(np.ma.getmaskarray(means) | np.ma.getmaskarray(samples))[:, k]
            if present.any():
                pair = paired(means.data[present, k], samples.data[present, k])
                estimate = (column[k].tolist() for column in medians)
                rows.append(
                    (world, method, setting, strength, name, pair.n, pair.first, pair.second, pair.higher, *estimate)
                )
    labels = {"world": str, "method": str, "setting": str, "strength": float, "metric": str}
    return frame({**labels, "n": int, "means": float, "samples": float, "higher": float, **ESTIMATE}, rows)


@table(
    "Rank correlation with the strength of regularisation",
    f"{SOBER_LOOK}, Figures 2, 3 and 7",
    needs=(STRENGTH,),
)
def strength_trends(runs: Runs, *, resamples: int, seed: int) -> pl.DataFrame:
    """Rank correlation of each number with the strength of regularisation, over the runs of a method in a world.

    Runs that differ in another setting than the strength have a row of their own, as `beta_tcvae alpha=0`.
    """
    names, rows = runs.main_numbers(), []
    runs = runs.where(runs.run_frame["strength"].is_not_null().to_numpy())
    for (world, method), runs_of_method in runs.grouped_by("world", "sweep"):
        if method not in runs.unique("method") and len(set(runs_of_method.run_column("strength"))) == 1:
            continue
        strengths = np.ma.array(runs_of_method.run_column("strength")[:, None])
        n, correlations = ranked(strengths, runs_of_method.number_columns(names), resamples, seed)
        estimates = (column[0].tolist() for column in correlations)
        for name, runs_with_number, *estimate in zip(names, n[0], *estimates, strict=True):
            rows.append((world, method, name, int(runs_with_number), *estimate))
    return frame({"world": str, "method": str, "metric": str, "n": int, **ESTIMATE}, rows)
