"""Total correlation of the aggregate posterior (Chen et al. 2018): are latents independent, over all pictures?

    TC = KL( q(z) ‖ Π_j q(z_j) ) = E_q(z) [ log q(z) - Σ_j log q(z_j) ]        q(z) = 1/N Σ_n q(z|x_n)

The score is in nats, over all N rows. The densities are sums over all rows, so they are exact. The mean is over points
drawn from q(z), each from a different row, and comes with its standard error. No labels are needed.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

from sober.estimators.densities import WIDEST, mixture_densities
from sober.metrics.common.covariance import covariances, spectrum
from sober.metrics.common.metric_rows import shuffled
from sober.metrics.metric import Meaning, Measured, Metric, Traits
from sober.shared import Shared
from sober.types import Codes

NAME = "aggregate_total_correlation"


def measure(codes: Codes, shared: Shared, *, seed: int, points: int) -> Measured:
    flags = ["collapsed"] * (not np.ptp(codes.mean, axis=0).any()) + ["one_latent"] * (codes.mean.shape[1] == 1)
    if codes.logvar is None:
        eigenvalues, singular = spectrum(shared(covariances, codes)["means"])
        flags += ["means_only"] + ["singular"] * singular
        return Measured({NAME: max(0.0, float(-0.5 * np.log(eigenvalues).sum()))}, tuple(flags))
    drawn = draw(codes, points, seed)
    joint, marginal = mixture_densities(drawn, codes.mean, codes.logvar)
    log_ratio = joint - marginal.sum(axis=1)  # (S,)
    error = float(log_ratio.std(ddof=1) / math.sqrt(points)) if points > 1 else 0.0
    return Measured({NAME: max(0.0, float(log_ratio.mean()))}, tuple(flags), {"log_ratio": log_ratio}, {NAME: error})


def draw(codes: Codes, points: int, seed: int) -> Float[np.ndarray, "S D"]:
    """Points of q(z), one from q(z|x) of each row in random order; rows repeat if there are more points than rows."""
    assert codes.logvar is not None
    rows = np.resize(shuffled(len(codes.mean), seed), points)
    std = np.exp(np.minimum(np.asarray(codes.logvar[rows], float), WIDEST) / 2)
    return codes.mean[rows] + std * np.random.default_rng([seed, 4]).standard_normal(std.shape)


aggregate_total_correlation = Metric(
    name=NAME,
    summary="are latents independent of each other, over all pictures?",
    short="are latents independent, over all pictures?",
    reference="Chen et al. (2018) Isolating Sources of Disentanglement in Variational Autoencoders",
    scores={
        NAME: Meaning(
            "total correlation of q(z), the encoder's distributions over all rows, in nats",
            0,
            math.inf,
            "lower",
            same_as="gaussian_total_correlation",  # without log-variances
            title="total correlation of q(z)",
            traits=Traits(  # needs distributions, which have a scale
                perfect=None, changed_by=("rescaled latents",), raised_by=("duplicated latents", "noise latents")
            ),
        )
    },
    measure=measure,
    settings={"points": 1_000},
    quick={"points": 40},
    seconds=0.6,
    logvar=True,
    supervised=False,
    takes=frozenset({"groups"}),
    default=False,
)
