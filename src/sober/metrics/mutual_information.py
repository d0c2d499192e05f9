"""Mean mutual information of pairs of latents (Locatello et al. 2020): do latents know about each other?

The mean of each latent is cut into 20 bins of equal width; in nats, averaged over all pairs. No labels are needed.
"""

from __future__ import annotations

import math

import numpy as np

from sober.estimators.discrete import BINS, binned, information
from sober.metrics.metric import Meaning, Measured, Metric, Traits
from sober.metrics.rows import TRAIN, sample
from sober.shared import Shared
from sober.types import Codes


def measure(codes: Codes, shared: Shared, *, seed: int, samples: int, bins: int) -> Measured:
    latents = binned(shared(sample, codes, samples, seed).mean, bins)
    d = latents.shape[1]
    matrix = np.zeros((d, d))
    for j in range(1, d):
        matrix[j, :j] = information(latents[:, [j]], latents[:, :j])[0]
    matrix += matrix.T
    flags = ["one_latent"] * (d == 1) + ["collapsed"] * (not np.ptp(latents, axis=0).any())
    return Measured(
        {"mutual_information": float(matrix.sum() / max(d * (d - 1), 1))}, tuple(flags), {"between": matrix}
    )


mutual_information = Metric(
    name="mutual_information",
    summary="do latents know about each other?",
    reference="Locatello et al. (2020) A Sober Look at the Unsupervised Learning of Disentangled Representations",
    scores={
        "mutual_information": Meaning(
            "mean mutual information of two latents, in nats",
            0,
            math.inf,
            "lower",
            traits=Traits(changed_by=("dead latent",)),  # a mean over all latents
        )
    },
    measure=measure,
    settings={"samples": TRAIN, "bins": BINS},
    seconds=0.01,
    exact=True,
    supervised=False,
)
