"""Interventional robustness score (Suter et al. 2019): does each latent stay put while all factors but one change?

For each latent and factor: hold the factor at a value, and measure the latent's distance from its mean there while the
other factors vary. Take the 0.99 quantile (`study`) or the maximum (`paper`) of the distance, average over the factor's
values, and divide by the latent's largest distance from its mean over all rows.

    IRS = mean over latents, weighted by their largest distances, of the largest over factors of (1 - ratio)
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from sober.contracts import number_between
from sober.estimators.discrete import binned, classes
from sober.metrics.common.factor_classes import discretised, has_continuous
from sober.metrics.common.metric_rows import TRAIN, Groups, by_factor, sample
from sober.metrics.common.shapes import unit_lengths, unit_spread, whole_units
from sober.metrics.metric import Meaning, Measured, Metric, Traits
from sober.shared import Shared
from sober.types import Codes


def measure(codes: Codes, shared: Shared, *, seed: int, samples: int, quantile: float, factor_bins: int) -> Measured:
    number_between("irs: quantile", quantile, 0, 1)
    classed = shared(discretised, codes)

    def of_rows(subset: Codes) -> tuple[Float[np.ndarray, "D k"], bool]:
        return robustness(shared(sample, subset, samples, seed), quantile, factor_bins)

    matrix, singletons = by_factor(classed, shared, of_rows)
    farthest = farthest_reach(shared(sample, classed, samples, seed))
    moves = farthest > 0
    best = np.maximum(matrix.max(axis=1), 0.0)  # negative if a latent strays farther from a group's mean
    value = float(np.average(best, weights=farthest)) if moves.any() else 0.0
    flags = ["collapsed"] * (not moves.any()) + ["binned_factor"] * has_continuous(codes)
    flags += ["singletons"] * singletons
    parts = {"robustness": matrix, "irs_per_latent": best, "weights": farthest}
    return Measured({"irs": value}, tuple(flags), parts)


def robustness(codes: Codes, quantile: float, factor_bins: int) -> tuple[Float[np.ndarray, "D K"], bool]:
    """1 - how far each latent strays while each factor is held fixed; and whether some value has a single row."""
    factors = binned(codes.factors.astype(float), factor_bins) if factor_bins else codes.factors
    labels = [classes(column) for column in factors.T]
    farthest = farthest_reach(codes)
    matrix = np.zeros((len(farthest), len(labels)))
    for units, mean in whole_units(codes):
        moves = np.flatnonzero(farthest[units] > 0)
        if len(moves):
            columns = (moves[:, None] * codes.unit + np.arange(codes.unit)).ravel()
            strays = [deviations(mean[:, columns], label, quantile, codes.unit) for label in labels]
            matrix[units.start + moves] = 1.0 - np.stack(strays, axis=1) / farthest[units][moves, None]
    return matrix, any((np.bincount(column) == 1).any() for column in factors.T)


def farthest_reach(codes: Codes) -> Float[np.ndarray, " U"]:
    """The largest distance of each latent from its mean."""
    blocks = (mean for _, mean in whole_units(codes))
    farthest = np.concatenate([unit_lengths(mean - mean.mean(axis=0), codes.unit).max(axis=0) for mean in blocks])
    farthest[unit_spread(codes) == 0] = 0.0  # constant latents, without rounding errors
    return farthest


def deviations(
    mean: Float[np.ndarray, "N D"], label: Int[np.ndarray, " N"], quantile: float, unit: int = 1
) -> Float[np.ndarray, " U"]:
    """A quantile of each latent's distance from its mean among rows with the same label, averaged over labels."""
    rows = Groups.of(label)
    total = np.zeros(mean.shape[1] // unit)
    for start, size in zip(rows.start, rows.size, strict=True):
        values = mean[rows.order[start : start + size]]
        total += np.quantile(unit_lengths(values - values.mean(axis=0), unit), quantile, axis=0)
    return total / len(rows.size)


irs = Metric(
    name="irs",
    summary="does each latent stay put while all factors but one change?",
    short="do latents ignore all factors but one?",
    reference="Suter et al. (2019) Robustly Disentangled Causal Mechanisms",
    scores={
        "irs": Meaning(
            "1 - how far latents stray while the factor they stand for is held fixed",
            title="IRS",
            traits=Traits(
                noise=lambda sizes: 0.4,  # the 0.99 quantile of a Gaussian is well short of its maximum
                noise_within=0.2,
                changed_by=("rescaled latents",),  # latents are weighted by their largest distance
                lowered_by=("noise latents", "merged factors"),
            ),
        )
    },
    measure=measure,
    settings={"samples": TRAIN, "quantile": 0.99, "factor_bins": 0},
    presets={"paper": {"quantile": 1.0}},
    seconds=0.015,
    exact=True,
    extremes=True,
    takes=frozenset({"holes", "groups", "units", "sparse"}),
)
