"""Active latents: how many latents say anything about the pictures?

With log-variances, those whose mean KL divergence from the prior is above 0.01 nats (Duan et al. 2020); without, those
whose mean has a variance above 0.01 (Burda et al. 2016).
"""

from __future__ import annotations

import math

import numpy as np

from sober.metrics.metric import Meaning, Measured, Metric
from sober.metrics.rows import sample
from sober.models.model import latent_kl
from sober.types import Codes


def measure(codes: Codes, *, seed: int, samples: int, threshold: float) -> Measured:
    drawn = sample(codes, samples, seed)
    if drawn.logvar is None:
        says = np.asarray(drawn.mean, float).var(axis=0)
    else:
        says = latent_kl(np.clip(drawn.mean, -1e15, 1e15), np.clip(drawn.logvar, -1e15, 80))  # so that float32 holds it
    active = says > threshold
    flags = ["collapsed"] * (not active.any())
    parts = {"variance" if drawn.logvar is None else "kl": says, "active": active}
    return Measured({"active_latents": float(active.sum())}, tuple(flags), parts)


active_latents = Metric(
    name="active_latents",
    summary="how many latents say anything about the pictures?",
    reference="Burda et al. (2016) Importance Weighted Autoencoders; Duan et al. (2020) Unsupervised Model Selection "
    "for Variational Disentangled Representation Learning",
    scores={
        "active_latents": Meaning(
            "latents whose KL divergence (or variance) is above the threshold", 0, math.inf, "neither"
        )
    },
    measure=measure,
    settings={"samples": 10_000, "threshold": 0.01},
    supervised=False,
)
