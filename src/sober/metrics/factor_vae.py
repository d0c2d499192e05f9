"""FactorVAE score (Kim & Mnih 2018): does the latent that varies least name the factor that was held fixed?

Each vote is a batch of 64 rows that share the value of one factor; it goes to the latent whose variance in the batch is
the smallest part of its variance over all rows. The score is the accuracy of the majority: each latent names the factor
that it was most often chosen for in training votes. Latents whose variance is below 0.05 do not take part; with
`prune="std"` their standard deviation is compared instead, as the study's public code did.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int

from sober.errors import RequestError
from sober.metrics.discrete import discretised, has_continuous
from sober.metrics.interventions import Drawn, draw_fixed, fewer_than, sharing, variances
from sober.metrics.metric import Meaning, Measured, Metric, Traits
from sober.metrics.rows import TEST, TRAIN, sample, sides
from sober.metrics.shapes import at_most, unit_sums
from sober.shared import Shared
from sober.types import Codes

WIDEST = 4_096  # latents whose variances are held for all batches at once


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
    few = any(fewer_than(batch, shared(sharing, rows)) for rows in parts_of_rows)
    flags = ["few_rows"] * few + ["binned_factor"] * has_continuous(codes)
    whole = overall_variances(shared(sample, classes, samples, seed).mean, codes.unit)
    active = (whole if prune == "variance" else np.sqrt(whole)) >= threshold
    if not active.any():
        parts = {"votes": np.zeros((len(active), len(codes.about)), int), "active": active}
        return Measured({"factor_vae": 0.0}, ("collapsed", *flags), parts)
    rng = np.random.default_rng([seed, 2])
    if codes.groups is None:  # training and test votes are drawn from all rows, as published
        drawn = draw_fixed(classes, shared(sharing, classes), train + test, batch, rng)
        cast = [Drawn(drawn.factor[at], drawn.rows[at]) for at in (slice(train), slice(train, None))]
        parts_of_rows *= 2
    else:
        cast = [
            draw_fixed(rows, shared(sharing, rows), points, batch, rng)
            for rows, points in zip(parts_of_rows, (train, test), strict=True)
        ]
    learned, checked = (
        votes(rows.mean, drawn, whole, active, len(codes.about), codes.unit)
        for rows, drawn in zip(parts_of_rows, cast, strict=True)
    )
    flags += ["one_factor"] * (len(codes.about) == 1)
    parts = {"votes": learned, "test_votes": checked, "active": active}
    return Measured({"factor_vae": majority(learned, checked)}, tuple(flags), parts)


def overall_variances(mean: Float[np.ndarray, "N D"], unit: int = 1) -> Float[np.ndarray, " U"]:
    """The variance of each latent over all rows; of a vector unit the trace of its covariance."""
    return unit_sums(np.var(np.asarray(mean, float), axis=0, ddof=min(1, len(mean) - 1)), unit)


def votes(
    mean: Float[np.ndarray, "N D"],
    drawn: Drawn,
    whole: Float[np.ndarray, " D"],
    active: Bool[np.ndarray, " D"],
    factors: int,
    unit: int = 1,
) -> Int[np.ndarray, "D K"]:
    """How often each latent varied least, by the factor that was held fixed."""
    kept = np.flatnonzero(active)
    chosen = kept[np.argmin(variances(mean, drawn.rows, unit)[:, kept] / whole[kept], axis=1)]
    flat = np.bincount(chosen * factors + drawn.factor, minlength=len(active) * factors)
    return flat.reshape(len(active), factors)


def majority(learned: Int[np.ndarray, "D K"], checked: Int[np.ndarray, "D K"]) -> float:
    """The share of checked votes named rightly when each latent stands for the factor it was most often chosen for."""
    named = learned.argmax(axis=1)
    return float(checked[np.arange(len(checked)), named].sum() / checked.sum())


factor_vae = Metric(
    name="factor_vae",
    summary="does the latent that varies least name the factor that was held fixed?",
    reference="Kim & Mnih (2018) Disentangling by Factorising",
    scores={
        "factor_vae": Meaning(
            "accuracy of a majority vote by the latent of smallest relative variance",
            traits=Traits(
                noise=lambda sizes: 1 / len(sizes),
                noise_within=0.15,
                changed_by=("rescaled latents",),  # those of small variance do not take part
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
