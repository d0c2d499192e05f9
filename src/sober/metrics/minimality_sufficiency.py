"""Minimality and sufficiency (Almudévar & Ortega 2024): disentanglement that factors may depend on each other under.

    minimality[j, k]  = I(z_j; v_k) / I(z_j; x)    latent j holds nothing beside factor k
    sufficiency[j, k] = I(z_j; v_k) / H(v_k)       latent j holds all of factor k
    minimality        = mean over latents of the largest over factors
    sufficiency       = mean over factors of the largest over latents

What a latent knows of other factors because they depend on its own costs nothing, for no other factor is asked about:
codes that are the factors have 1 in both, however dependent those are. x is the picture; a latent of standardised means
is taken with Gaussian noise of standard deviation 0.1, as in the authors' public code, for without noise it would hold
infinitely much of x. They draw samples; here the integrals are computed.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

from sober.errors import RequestError
from sober.estimators.discrete import entropy
from sober.estimators.mixture import gaussian_information
from sober.estimators.scaling import standardised
from sober.metrics.discrete import discretised, has_continuous
from sober.metrics.metric import Meaning, Measured, Metric, Traits
from sober.metrics.rows import TRAIN, by_factor, sample
from sober.shared import Shared
from sober.types import Codes


def measure(codes: Codes, shared: Shared, *, seed: int, samples: int, noise: float) -> Measured:
    if not noise > 0:
        raise RequestError(f"minimality_sufficiency: noise must be above 0, not {noise}")

    def of_rows(part: Codes) -> tuple[np.ndarray, np.ndarray]:
        return shared(shares, shared(sample, part, samples, seed), noise)

    minimal, sufficient = by_factor(shared(discretised, codes), shared, of_rows)
    of_latents, of_factors = minimal.max(axis=1), sufficient.max(axis=0)
    dead = np.ptp(codes.mean, axis=0) == 0
    flags = ["dead_latent"] * bool(dead.any()) + ["collapsed"] * bool(dead.all())
    flags += ["one_latent"] * (len(minimal) == 1) + ["one_factor"] * (minimal.shape[1] == 1)
    flags += ["binned_factor"] * has_continuous(codes)
    parts = {
        "minimality": minimal,
        "sufficiency": sufficient,
        "minimality_per_latent": of_latents,
        "sufficiency_per_factor": of_factors,
    }
    values = {"minimality": float(of_latents.mean()), "sufficiency": float(of_factors.mean())}
    return Measured(values, tuple(flags), parts)


def shares(codes: Codes, noise: float) -> tuple[Float[np.ndarray, "D K"], Float[np.ndarray, "D K"]]:
    """I(z; v) as a share of I(z; x), and of H(v); 0 where there is nothing to know. Factors are classes."""
    mean = standardised(codes.mean)[0]
    matrix, of_latents = gaussian_information(mean, np.full(mean.shape, 2 * math.log(noise)), codes.factors)
    of_noise = 0.5 * math.log(2 * math.pi * math.e * noise**2)
    of_pictures = np.maximum(of_latents - of_noise, 0.0)[:, None]  # I(z; x) = H(z) - H(z|x)
    whole = entropy(codes.factors)[None, :]
    found = [
        np.divide(matrix, most, out=np.zeros_like(matrix), where=(most > 1e-9) & (matrix > 0)).clip(0.0, 1.0)
        for most in (of_pictures, whole)
    ]
    return found[0], found[1]


minimality_sufficiency = Metric(
    name="minimality_sufficiency",
    summary="does each latent hold one factor and nothing else, and one latent all of each, however factors depend?",
    reference="Almudévar & Ortega (2024) Rethinking Disentanglement under Dependent Factors of Variation",
    scores={
        "minimality": Meaning(
            "share of what a latent holds that is about one factor",
            traits=Traits(
                perfect=0.01,
                noise_within=0.1,
                changed_by=("dead latent",),  # it is one more in the mean
                lowered_by=("noise latents", "merged factors"),
            ),
        ),
        "sufficiency": Meaning(
            "share of a factor that one latent holds",
            traits=Traits(perfect=0.01, noise_within=0.1, lowered_by=("merged factors", "split factors")),
        ),
    },
    measure=measure,
    settings={"samples": TRAIN, "noise": 0.1},
    seconds=0.06,
    exact=True,
    default=False,
    takes=frozenset({"holes", "groups"}),
)
