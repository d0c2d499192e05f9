"""FactorVAE score (Kim & Mnih 2018): does the latent that varies least tell which factor was held fixed?

Each vote is a batch of 64 rows that share the value of one factor. It goes to the latent with the smallest variance in
the batch, relative to the latent's variance over all rows. Each latent stands for the factor that most of its training
votes held fixed. The score is the share of test votes whose latent stands for the right factor. Latents with a variance
below 0.05 do not take part; `prune="std"` compares the standard deviation instead, as the study's public code did.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int

from sober.errors import RequestError
from sober.metrics.common.factor_classes import discretised, has_continuous
from sober.metrics.common.interventions import Drawn, draw_fixed, fewer_than, sharing, variances
from sober.metrics.common.metric_rows import TEST, TRAIN, sample, sides
from sober.metrics.common.shapes import at_most, unit_sums
from sober.metrics.metric import Meaning, Measured, Metric, Traits
from sober.shared import Shared
from sober.types import Codes

WIDEST = 4_096  # latents at most: their variances are held for all batches at once


def measure(
    codes: Codes,
    shared: Shared,
    *,
    seed: int,
    train: int,
    test: int,
    batch: int,
    samples: int,
    threshold: float,
    prune: str,
) -> Measured:
    if prune not in ("variance", "std"):
        raise RequestError(f"factor_vae: prune must be 'variance' or 'std', not {prune!r}")
    at_most(codes, WIDEST, "every latent has a variance in each of the batches")
    classes = shared(discretised, codes)
    parts_of_rows = [classes] if codes.groups is None else list(shared(sides, classes, train, test, seed))
    too_few = any(fewer_than(batch, shared(sharing, rows)) for rows in parts_of_rows)
    flags = ["few_rows"] * too_few + ["binned_factor"] * has_continuous(codes)
    overall = overall_variances(shared(sample, classes, samples, seed).mean, codes.unit)
    active = (overall if prune == "variance" else np.sqrt(overall)) >= threshold
    if not active.any():
        parts = {"votes": np.zeros((len(active), len(codes.about)), int), "active": active}
        return Measured({"factor_vae": 0.0}, ("collapsed", *flags), parts)
    rng = np.random.default_rng([seed, 2])
    if codes.groups is None:  # training and test votes are drawn from all rows, as published
        drawn = draw_fixed(classes, shared(sharing, classes), train + test, batch, rng)
        cast = [Drawn(drawn.factor[half], drawn.rows[half]) for half in (slice(train), slice(train, None))]
        parts_of_rows *= 2
    else:
        cast = [
            draw_fixed(rows, shared(sharing, rows), points, batch, rng)
            for rows, points in zip(parts_of_rows, (train, test), strict=True)
        ]
    learned, checked = (
        votes(rows.mean, drawn, overall, active, len(codes.about), codes.unit)
        for rows, drawn in zip(parts_of_rows, cast, strict=True)
    )
    flags += ["one_factor"] * (len(codes.about) == 1)
    parts = {"votes": learned, "test_votes": checked, "active": active}
    return Measured({"factor_vae": majority(learned, checked)}, tuple(flags), parts)


def overall_variances(mean: Float[np.ndarray, "N D"], unit: int = 1) -> Float[np.ndarray, " U"]:
    """The variance of each latent over all rows; for a vector unit the trace of its covariance."""
    return unit_sums(np.var(np.asarray(mean, float), axis=0, ddof=min(1, len(mean) - 1)), unit)


def votes(
    mean: Float[np.ndarray, "N D"],
    drawn: Drawn,
    overall: Float[np.ndarray, " D"],
    active: Bool[np.ndarray, " D"],
    factors: int,
    unit: int = 1,
) -> Int[np.ndarray, "D K"]:
    """How often each latent varied least, for each factor held fixed."""
    candidates = np.flatnonzero(active)
    chosen = candidates[np.argmin(variances(mean, drawn.rows, unit)[:, candidates] / overall[candidates], axis=1)]
    flat = np.bincount(chosen * factors + drawn.factor, minlength=len(active) * factors)
    return flat.reshape(len(active), factors)


def majority(learned: Int[np.ndarray, "D K"], checked: Int[np.ndarray, "D K"]) -> float:
    """The share of test votes that are right if each latent stands for the factor of most of its training votes."""
    factor_of_latent = learned.argmax(axis=1)
    return float(checked[np.arange(len(checked)), factor_of_latent].sum() / checked.sum())


factor_vae = Metric(
    name="factor_vae",
    summary="does the latent that varies least tell which factor was held fixed?",
    short="does the stillest latent tell the factor?",
    reference="Kim & Mnih (2018) Disentangling by Factorising",
    scores={
        "factor_vae": Meaning(
            "how often the latent that varies least tells which factor was held fixed",
            title="FactorVAE score",
            traits=Traits(
                noise=lambda sizes: 1 / len(sizes),
                noise_within=0.15,
                changed_by=("rescaled latents",),  # latents of small variance do not take part
                lowered_by=("merged factors",),
            ),
        )
    },
    measure=measure,
    settings={"train": TRAIN, "test": TEST, "batch": 64, "samples": 10_000, "threshold": 0.05, "prune": "variance"},
    quick={"train": 200, "test": 100, "batch": 16},
    seconds=0.03,
    takes=frozenset({"holes", "groups", "units"}),
)
