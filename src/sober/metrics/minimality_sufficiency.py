"""Minimality and sufficiency (Almudévar & Ortega 2024): does each latent hold nothing but one factor, and all of it?

    minimality[j, k]  = I(z_j; v_k) / I(z_j; x)    latent j holds nothing besides factor k
    sufficiency[j, k] = I(z_j; v_k) / H(v_k)       latent j holds all of factor k
    minimality        = mean over latents of the largest over factors
    sufficiency       = mean over factors of the largest over latents

These scores suit factors that depend on each other. A latent may know other factors because they depend on its own, and
neither score lowers it for that: codes that equal the factors score 1 in both. x is the picture. Standardised means get
Gaussian noise of standard deviation 0.1, as in the authors' public code, because without noise they would hold infinite
information about x. The authors draw samples; here the integrals are computed.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

from sober.errors import RequestError
from sober.estimators.discrete import entropy
from sober.estimators.mixture import gaussian_information
from sober.estimators.scaling import standardised
from sober.metrics.common.factor_classes import discretised, has_continuous
from sober.metrics.common.metric_rows import TRAIN, by_factor, sample
from sober.metrics.metric import Meaning, Measured, Metric, Traits
from sober.shared import Shared
from sober.types import Codes


def measure(codes: Codes, shared: Shared, *, seed: int, samples: int, noise: float) -> Measured:
    if not noise > 0:
        raise RequestError(f"minimality_sufficiency: noise must be above 0, not {noise}")

    def of_rows(subset: Codes) -> tuple[np.ndarray, np.ndarray]:
        return shared(shares, shared(sample, subset, samples, seed), noise)

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
    """I(z; v) as a share of I(z; x), and of H(v); 0 if there is no information. Factors must be classes."""
    mean = standardised(codes.mean)[0]
    matrix, of_latents = gaussian_information(mean, np.full(mean.shape, 2 * math.log(noise)), codes.factors)
    of_noise = 0.5 * math.log(2 * math.pi * math.e * noise**2)
    of_pictures = np.maximum(of_latents - of_noise, 0.0)[:, None]  # I(z; x) = H(z) - H(z|x)
    uncertainty = entropy(codes.factors)[None, :]
    ratios = [
        np.divide(matrix, upper_bound, out=np.zeros_like(matrix), where=(upper_bound > 1e-9) & (matrix > 0)).clip(
            0.0, 1.0
        )
        for upper_bound in (of_pictures, uncertainty)
    ]
    return ratios[0], ratios[1]


minimality_sufficiency = Metric(
    name="minimality_sufficiency",
    summary="does each latent hold nothing but one factor, and does one latent hold all of each factor?",
    short="one factor in a latent, and all of it?",
    reference="Almudévar & Ortega (2024) Rethinking Disentanglement under Dependent Factors of Variation",
    scores={
        "minimality": Meaning(
            "share of a latent's information about the picture that is about one factor",
            title="minimality",
            traits=Traits(
                perfect=0.01,
                noise_within=0.1,
                changed_by=("dead latent",),  # a dead latent is one more in the mean
                lowered_by=("noise latents", "merged factors"),
            ),
        ),
        "sufficiency": Meaning(
            "share of a factor's entropy that one latent knows",
            title="sufficiency",
            traits=Traits(perfect=0.01, noise_within=0.1, lowered_by=("merged factors", "split factors")),
        ),
    },
    measure=measure,
    settings={"samples": TRAIN, "noise": 0.1},
    seconds=0.025,
    exact=True,
    default=False,
    takes=frozenset({"holes", "groups"}),
)
