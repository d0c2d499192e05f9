"""Total correlation of a Gaussian with the latents' covariance (Locatello et al. 2020): are latents independent?

    TC = ½ (Σ_j log Σ_jj - log det Σ)  =  -½ log det of the correlation matrix

The score is in nats. It is computed for the encoder's means, and with log-variances also for samples. No labels are
needed.
"""

from __future__ import annotations

import math

import numpy as np
import scipy
from jaxtyping import Float

from sober.errors import NotMeasuredError
from sober.metrics.common.covariance import covariances, spectrum, unit_blocks
from sober.metrics.common.metric_rows import TRAIN, effective_rows, sample
from sober.metrics.metric import Meaning, Measured, Metric, Traits, moved
from sober.shared import Shared
from sober.types import Codes


def measure(codes: Codes, shared: Shared, *, seed: int, samples: int) -> Measured:
    if codes.weights is not None and codes.logvar is not None:
        raise NotMeasuredError(
            "its score for samples depends on the number of rows, and weights leave that open: leave out logvar"
        )
    values, flags = {}, set()
    names = {"means": "gaussian_total_correlation", "samples": "gaussian_total_correlation_sampled"}
    drawn = shared(sample, codes, samples, seed)
    covariance_by_kind = shared(covariances, drawn)
    for kind, covariance in covariance_by_kind.items():
        total, singular = total_correlation(covariance)
        # The total correlation inside a unit is not between units.
        inside = [total_correlation(block)[0] for block in unit_blocks(covariance, codes.unit)]
        values[names[kind]] = max(0.0, total - sum(inside))
        flags |= {"singular"} if singular else set()
        flags |= {"collapsed"} if not np.diag(covariance).any() else set()
    measured = Measured(
        values, tuple(flags), {f"covariance_{kind}": covariance for kind, covariance in covariance_by_kind.items()}
    )
    rows, varies = effective_rows(drawn), np.diag(covariance_by_kind["means"]) > 0
    if rows - 1 <= varies.sum():
        return measured._replace(flags=(*measured.flags, "moved_by_size"))  # too few rows to tell it from chance
    inside = [by_chance(rows, unit.sum()) for unit in varies.reshape(-1, codes.unit)]
    chance = by_chance(rows, varies.sum()) - sum(inside)
    return moved(measured, {names["means"]: max(0.0, values[names["means"]] - chance)})


def by_chance(rows: float, latents: int) -> float:
    """How much drawing only `rows` rows adds, on average, to the total correlation of any Gaussian.

        ½ Σ_j ψ(n/2) - ψ((n - j + 1)/2),   n = rows - 1

    because the log-determinant of a Wishart matrix has the mean log det Σ + Σ_j ψ((n - j + 1)/2) + D log 2, and the log
    of each diagonal entry has the mean log Σ_jj + ψ(n/2) + log 2.
    """
    half = (rows - 1) / 2
    return 0.5 * float(np.sum(scipy.special.digamma(half) - scipy.special.digamma(half - np.arange(latents) / 2)))


def total_correlation(covariance: Float[np.ndarray, "D D"]) -> tuple[float, bool]:
    """The total correlation of a Gaussian in nats; and whether some latent is constant or a function of others."""
    eigenvalues, singular = spectrum(covariance)
    return float(-0.5 * np.log(eigenvalues).sum()), singular


gaussian_total_correlation = Metric(
    name="gaussian_total_correlation",
    summary="are latents independent of each other? (judged by their covariances)",
    short="are latents independent, by covariances?",
    reference="Locatello et al. (2020) A Sober Look at the Unsupervised Learning of Disentangled Representations",
    scores={
        "gaussian_total_correlation": Meaning(
            "total correlation of a Gaussian with the covariance of the means, in nats",
            0,
            math.inf,
            "lower",
            title="total correlation of means",
            traits=Traits(raised_by=("duplicated latents",)),
        ),
        "gaussian_total_correlation_sampled": Meaning(
            "the same for samples from q(z|x)",
            0,
            math.inf,
            "lower",
            title="total correlation of samples",
            samples_of="gaussian_total_correlation",
            traits=Traits(
                perfect=None, changed_by=("rescaled latents",), raised_by=("duplicated latents",)
            ),  # the noise has its own scale
        ),
    },
    measure=measure,
    settings={"samples": TRAIN},
    seconds=0.003,
    logvar=True,
    exact=True,
    supervised=False,
    takes=frozenset({"groups", "weights", "units"}),
)
