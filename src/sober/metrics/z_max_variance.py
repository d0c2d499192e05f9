"""Z-max variance (Kim et al. 2019, Relevance Factor VAE): does the latent that varies most tell which factor varies?

Each vote is a batch of 200 rows that agree in all factors but one. It goes to the latent with the largest variance in
the batch, relative to the latent's variance over all rows. Each latent stands for the factor that varied in most of its
training votes. The score is the share of test votes whose latent stands for the right factor, rescaled so that guessing
has 0:

    (accuracy - 1/K) / (1 - 1/K)

Latents with a standard deviation below 0.05 do not take part. Rows of a sample rarely agree in all factors of a large
grid, so ordered factors are cut into 3 bins; on a complete grid `factor_bins=0` uses their values.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Int

from sober.errors import RequestError
from sober.estimators.discrete import binned, classes
from sober.metrics.common.factor_classes import discretised, has_continuous
from sober.metrics.common.interventions import agreeing_but, variances
from sober.metrics.common.metric_rows import TRAIN, Groups, sample, sides
from sober.metrics.common.shapes import at_most
from sober.metrics.factor_vae import WIDEST, majority, overall_variances
from sober.metrics.metric import Meaning, Measured, Metric, Traits
from sober.shared import Shared
from sober.types import Codes, Factor


def measure(
    codes: Codes,
    shared: Shared,
    *,
    seed: int,
    samples: int,
    train: int,
    test: int,
    batch: int,
    threshold: float,
    factor_bins: int,
) -> Measured:
    if batch < 2:
        raise RequestError(f"z_max_variance: batch must be at least 2, not {batch}: one row has no variance")
    at_most(codes, WIDEST, "every latent has a variance in each of the batches")
    classed = shared(discretised, codes, int(factor_bins) or 20)
    coarse = shared(coarsened, classed, int(factor_bins))
    overall = overall_variances(shared(sample, classed, samples, seed).mean, codes.unit)
    active = np.sqrt(overall) >= threshold
    flags = ["binned_factor"] * has_continuous(codes) + ["one_factor"] * (len(codes.about) == 1)
    rows = shared(sides, coarse, train, test, seed)
    groups = [[Groups.of(agreeing_but(side, k)) for k in range(len(side.about))] for side in rows]
    usable = all((group.size > 1).any() for of_side in groups for group in of_side)
    flags += ["collapsed"] * (not active.any()) + ["no_pairs"] * (not usable)
    if not active.any() or not usable:
        votes = np.zeros((len(active), len(codes.about)), int)
        return Measured({"z_max_variance": 0.0}, tuple(flags), {"votes": votes, "active": active})
    rng = np.random.default_rng([seed, 6])
    learned, checked = (
        cast(side, of_side, overall, active, points, batch, rng)
        for side, of_side, points in zip(rows, groups, (train, test), strict=True)
    )
    chance = 1 / len(codes.about)
    right = majority(learned, checked)
    value = max(0.0, (right - chance) / (1 - chance)) if chance < 1 else right
    parts = {"votes": learned, "test_votes": checked, "active": active}
    return Measured({"z_max_variance": value}, tuple(flags), parts)


def coarsened(codes: Codes, bins: int) -> Codes:
    """Cuts ordered factors with more values than `bins` into bins of equal width; 0 bins changes nothing."""
    if not bins:
        return codes
    columns, factors = [], []
    for k, factor in enumerate(codes.about):
        column = codes.factors[:, k]
        if factor.kind != "categorical" and factor.size > bins:
            column = classes(binned(column[:, None].astype(float), bins)[:, 0])
        columns.append(column)
        factors.append(Factor(factor.name, int(column.max(initial=0)) + 1, factor.kind))
    return dataclasses.replace(codes, factors=np.stack(columns, axis=1), about=tuple(factors))


def cast(
    codes: Codes,
    groups: list[Groups],
    overall: np.ndarray,
    active: np.ndarray,
    points: int,
    batch: int,
    rng: np.random.Generator,
) -> Int[np.ndarray, "D K"]:
    """How often each latent varied most, for each factor that varied."""
    factor = rng.integers(len(groups), size=points)
    rows = np.stack([agreeing_rows(groups[k], batch, rng) for k in factor])
    candidates = np.flatnonzero(active)
    chosen = candidates[np.argmax(variances(codes.mean, rows, codes.unit)[:, candidates] / overall[candidates], axis=1)]
    flat = np.bincount(chosen * len(groups) + factor, minlength=len(active) * len(groups))
    return flat.reshape(len(active), len(groups))


def agreeing_rows(group: Groups, batch: int, rng: np.random.Generator) -> Int[np.ndarray, " B"]:
    """A batch from one random group of at least two rows; its rows repeat to fill the batch."""
    chosen = rng.choice(np.flatnonzero(group.size > 1))
    rows = group.order[group.start[chosen] : group.start[chosen] + group.size[chosen]]
    return np.resize(rng.permutation(rows), batch)


z_max_variance = Metric(
    name="z_max_variance",
    summary="does the latent that varies most tell which factor varies?",
    short="does the liveliest latent tell the factor?",
    reference="Kim et al. (2019) Relevance Factor VAE: Learning and Identifying Disentangled Factors",
    scores={
        "z_max_variance": Meaning(
            "how often the latent that varies most tells which factor varies; guessing has 0",
            title="Z-max variance",
            traits=Traits(
                noise_within=0.15,
                changed_by=("rescaled latents", "relabelled factors"),  # small latents take no part; bins go by order
                lowered_by=("noise latents", "merged factors", "split factors"),
            ),
        )
    },
    measure=measure,
    settings={
        "samples": TRAIN,
        "train": 800,
        "test": 800,
        "batch": 200,
        "threshold": 0.05,
        "factor_bins": 3,
    },
    presets={"grid": {"factor_bins": 0}},
    quick={"train": 200, "test": 100, "batch": 32},
    seconds=0.035,
    default=False,
    takes=frozenset({"groups", "units"}),
)
