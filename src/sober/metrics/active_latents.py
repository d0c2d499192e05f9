"""Active latents: how many latents carry information about the pictures?

With log-variances, a latent is active if its mean KL divergence from the prior is above 0.01 nats (Duan et al. 2020).
Without them, it is active if its mean has a variance above 0.01 (Burda et al. 2016).
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

from sober.estimators.wide.wide_tables import dense_stretches, moments
from sober.metrics.common.metric_rows import sample
from sober.metrics.common.shapes import unit_sums
from sober.metrics.metric import Meaning, Measured, Metric, Traits
from sober.shared import Shared
from sober.types import Codes


def measure(codes: Codes, shared: Shared, *, seed: int, samples: int, threshold: float) -> Measured:
    drawn = shared(sample, codes, samples, seed)
    if drawn.logvar is None:
        name, activity = "variance", spread(drawn)
    else:
        blocks = zip(dense_stretches(drawn.mean), dense_stretches(drawn.logvar), strict=True)
        divergences = [divergence(mean, logvar, drawn.weights) for (_, mean), (_, logvar) in blocks]
        name, activity = "kl", np.concatenate(divergences)
    activity = unit_sums(activity, drawn.unit)  # a unit is as active as its numbers together
    active = activity > threshold
    flags = ["collapsed"] * (not active.any())
    parts = {name: activity, "active": active}
    return Measured({"active_latents": float(active.sum())}, tuple(flags), parts)


def spread(codes: Codes) -> Float[np.ndarray, " D"]:
    """The variance of each latent."""
    weights = codes.weights
    if weights is None:
        return moments(codes.mean).variance
    blocks = (np.asarray(block, float) for _, block in dense_stretches(codes.mean))
    centred = (block - np.average(block, axis=0, weights=weights) for block in blocks)
    return np.concatenate([np.average(block**2, axis=0, weights=weights) for block in centred])


def divergence(
    mean: Float[np.ndarray, "N D"], logvar: Float[np.ndarray, "N D"], weights: Float[np.ndarray, " N"] | None = None
) -> Float[np.ndarray, " D"]:
    """KL(q(z|x) || N(0, 1)) of each latent in nats, mean over the rows; clipped to what a float64 can square."""
    mean = np.clip(np.asarray(mean, float), -1e150, 1e150)
    logvar = np.clip(np.asarray(logvar, float), -1e300, 690.0)
    return np.average(0.5 * (mean**2 + np.exp(logvar) - 1 - logvar), axis=0, weights=weights)


active_latents = Metric(
    name="active_latents",
    summary="how many latents carry information about the pictures?",
    short="how many latents carry information?",
    reference="Burda et al. (2016) Importance Weighted Autoencoders; Duan et al. (2020) Unsupervised Model Selection "
    "for Variational Disentangled Representation Learning",
    scores={
        "active_latents": Meaning(
            "number of latents whose KL divergence (or variance) is above the threshold",
            0,
            math.inf,
            "neither",
            title="active latents",
            traits=Traits(
                perfect=None,
                changed_by=("rescaled latents",),
                lowered_by=("merged factors",),
                raised_by=("duplicated latents", "noise latents", "split factors"),
            ),
        )
    },
    measure=measure,
    settings={"samples": 10_000, "threshold": 0.01},
    seconds=0.002,
    logvar=True,
    exact=True,
    supervised=False,
    takes=frozenset({"groups", "weights", "units", "sparse"}),
)
