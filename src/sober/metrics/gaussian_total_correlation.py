"""Total correlation of a Gaussian with the latents' covariance (Locatello et al. 2020): are latents independent?

    TC = ½ (Σ_j log Σ_jj - log det Σ)  =  -½ log det of the correlation matrix

in nats; of the encoder's means, and where log-variances are given also of samples. No labels are needed.
"""

from __future__ import annotations

import math

import numpy as np
import scipy
from jaxtyping import Float

from sober.errors import NotMeasuredError
from sober.metrics.covariance import covariances, spectrum, unit_blocks
from sober.metrics.metric import Meaning, Measured, Metric, Traits, moved
from sober.metrics.rows import TRAIN, effective_rows, sample
from sober.shared import Shared
from sober.types import Codes


def measure(codes: Codes, shared: Shared, *, seed: int, samples: int) -> Measured:
    if codes.weights is not None and codes.logvar is not None:
        raise NotMeasuredError(
            "of samples it depends on the number of rows, which weights do not say: leave out logvar"
        )
    values, flags = {}, set()
    names = {"means": "gaussian_total_correlation", "samples": "gaussian_total_correlation_sampled"}
    drawn = shared(sample, codes, samples, seed)
    found = shared(covariances, drawn)
    for of, covariance in found.items():
        whole, singular = total_correlation(covariance)
        # What the numbers of a unit have to do with each other is not between units.
        inside = [total_correlation(block)[0] for block in unit_blocks(covariance, codes.unit)]
        values[names[of]] = max(0.0, whole - sum(inside))
        flags |= {"singular"} if singular else set()
        flags |= {"collapsed"} if not np.diag(covariance).any() else set()
    measured = Measured(values, tuple(flags), {f"covariance_{of}": covariance for of, covariance in found.items()})
    rows, varies = effective_rows(drawn), np.diag(found["means"]) > 0
    if rows - 1 <= varies.sum():
        return measured._replace(flags=(*measured.flags, "moved_by_size"))  # no rows are left to tell it from chance
    inside = [by_chance(rows, unit.sum()) for unit in varies.reshape(-1, codes.unit)]
    chance = by_chance(rows, varies.sum()) - sum(inside)
    return moved(measured, {names["means"]: max(0.0, values[names["means"]] - chance)})


def by_chance(rows: float, latents: int) -> float:
    """What is added on average to the total correlation of a Gaussian, whatever that is, by having so few rows.

        ½ Σ_j ψ(n/2) - ψ((n - j + 1)/2),   n = rows - 1

    for the log-determinant of a Wishart matrix has the mean log det Σ + Σ_j ψ((n - j + 1)/2) + D log 2, and each of its
    diagonal entries log Σ_jj + ψ(n/2) + log 2.
    """
    half = (rows - 1) / 2
    return 0.5 * float(np.sum(scipy.special.digamma(half) - scipy.special.digamma(half - np.arange(latents) / 2)))


def total_correlation(covariance: Float[np.ndarray, "D D"]) -> tuple[float, bool]:
    """Of a Gaussian with this covariance, in nats; and whether some latent has none, or follows from others."""
    eigenvalues, singular = spectrum(covariance)
    return float(-0.5 * np.log(eigenvalues).sum()), singular


gaussian_total_correlation = Metric(
    name="gaussian_total_correlation",
    summary="are latents independent of each other? (as far as covariances tell)",
    reference="Locatello et al. (2020) A Sober Look at the Unsupervised Learning of Disentangled Representations",
    scores={
        "gaussian_total_correlation": Meaning(
            "total correlation of the means, as if Gaussian",
            0,
            math.inf,
            "lower",
            traits=Traits(raised_by=("duplicated latents",)),
        ),
        "gaussian_total_correlation_sampled": Meaning(
            "the same of samples from q(z|x)",
            0,
            math.inf,
            "lower",
            samples_of="gaussian_total_correlation",
            traits=Traits(
                perfect=None, changed_by=("rescaled latents",), raised_by=("duplicated latents",)
            ),  # the noise has a scale of its own
        ),
    },
    measure=measure,
    settings={"samples": TRAIN},
    seconds=0.002,
    logvar=True,
    exact=True,
    supervised=False,
    takes=frozenset({"groups", "weights", "units"}),
)
