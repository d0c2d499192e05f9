"""Z-max variance (Kim et al. 2019, Relevance Factor VAE): does the latent that varies most name the factor that varies?

Each vote is a batch of 200 rows that agree in all factors but one; it goes to the latent whose variance in the batch is
the largest part of its variance over all rows. Each latent names the factor that it was most often chosen for in
training votes; the score is the accuracy of that on test votes, rescaled so that guessing has 0:

    (accuracy - 1/K) / (1 - 1/K)

Latents with a standard deviation below 0.05 do not take part. So that rows agree at all in a sample of a large grid,
factors with an order are cut into 3 bins; on a complete grid `factor_bins=0` takes their values as they are.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Int

from sober.errors import RequestError
from sober.estimators.discrete import binned, classes
from sober.metrics.discrete import discretised, has_continuous
from sober.metrics.factor_vae import WIDEST, majority, overall_variances
from sober.metrics.interventions import agreeing_but, variances
from sober.metrics.metric import Meaning, Measured, Metric, Traits
from sober.metrics.rows import TRAIN, Groups, sample, sides
from sober.metrics.shapes import at_most
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
    whole = overall_variances(shared(sample, classed, samples, seed).mean, codes.unit)
    active = np.sqrt(whole) >= threshold
    flags = ["binned_factor"] * has_continuous(codes) + ["one_factor"] * (len(codes.about) == 1)
    rows = shared(sides, coarse, train, test, seed)
    groups = [[Groups.of(agreeing_but(part, k)) for k in range(len(part.about))] for part in rows]
    usable = all((group.size > 1).any() for of_part in groups for group in of_part)
    flags += ["collapsed"] * (not active.any()) + ["no_pairs"] * (not usable)
    if not active.any() or not usable:
        votes = np.zeros((len(active), len(codes.about)), int)
        return Measured({"z_max_variance": 0.0}, tuple(flags), {"votes": votes, "active": active})
    rng = np.random.default_rng([seed, 6])
    learned, checked = (
        cast(part, of_part, whole, active, points, batch, rng)
        for part, of_part, points in zip(rows, groups, (train, test), strict=True)
    )
    chance = 1 / len(codes.about)
    right = majority(learned, checked)
    value = max(0.0, (right - chance) / (1 - chance)) if chance < 1 else right
    parts = {"votes": learned, "test_votes": checked, "active": active}
    return Measured({"z_max_variance": value}, tuple(flags), parts)


def coarsened(codes: Codes, bins: int) -> Codes:
    """Factors with an order and more values than bins, cut into bins of equal width; all as they are without bins."""
    if not bins:
        return codes
    columns, about = [], []
    for k, factor in enumerate(codes.about):
        column = codes.factors[:, k]
        if factor.kind != "categorical" and factor.size > bins:
            column = classes(binned(column[:, None].astype(float), bins)[:, 0])
        columns.append(column)
        about.append(Factor(factor.name, int(column.max(initial=0)) + 1, factor.kind))
    return dataclasses.replace(codes, factors=np.stack(columns, axis=1), about=tuple(about))


def cast(
    codes: Codes,
    groups: list[Groups],
    whole: np.ndarray,
    active: np.ndarray,
    points: int,
    batch: int,
    rng: np.random.Generator,
) -> Int[np.ndarray, "D K"]:
    """How often each latent varied most, by the factor that varied."""
    factor = rng.integers(len(groups), size=points)
    rows = np.stack([agreeing_rows(groups[k], batch, rng) for k in factor])
    kept = np.flatnonzero(active)
    chosen = kept[np.argmax(variances(codes.mean, rows, codes.unit)[:, kept] / whole[kept], axis=1)]
    flat = np.bincount(chosen * len(groups) + factor, minlength=len(active) * len(groups))
    return flat.reshape(len(active), len(groups))


def agreeing_rows(group: Groups, batch: int, rng: np.random.Generator) -> Int[np.ndarray, " B"]:
    """A batch from one group of two rows or more, each as likely: all its rows as often as they fit, then some."""
    one = rng.choice(np.flatnonzero(group.size > 1))
    rows = group.order[group.start[one] : group.start[one] + group.size[one]]
    return np.resize(rng.permutation(rows), batch)


z_max_variance = Metric(
    name="z_max_variance",
    summary="does the latent that varies most name the factor that varies?",
    reference="Kim et al. (2019) Relevance Factor VAE: Learning and Identifying Disentangled Factors",
    scores={
        "z_max_variance": Meaning(
            "accuracy of a majority vote by the latent of largest relative variance; guessing has 0",
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
    seconds=0.03,
    default=False,
    takes=frozenset({"groups", "units"}),
)
