"""Total correlation of the latents, taken for Gaussian: how far they are from independent. Lower is better."""

from __future__ import annotations

import numpy as np

from sober.contracts import ProgressCallback
from sober.criteria.criterion import Criterion, Evidence, Judgement, halves, seen_by
from sober.criteria.udr import informative_latents, model_flags
from sober.shared import Shared
from sober.types import Codes


def gaussian_total_correlation(codes: Codes) -> float:
    """In nats, of samples from q(z|x), or of the means where there are no log-variances."""
    from sober.metrics.common.covariance import covariances, spectrum  # noqa: PLC0415 -- with it comes every metric

    covariance = covariances(codes, len(codes.mean), 0)
    eigenvalues, _ = spectrum(covariance.get("samples", covariance["means"]))
    return max(0.0, float(-0.5 * np.log(eigenvalues).sum()))


def judge(evidence: Evidence, *, seed: int, progress: ProgressCallback, shared: Shared) -> Judgement:
    """Each replicate draws half of the pictures."""
    scores = np.array([gaussian_total_correlation(codes) for codes in evidence.codes])
    replicates = [
        [gaussian_total_correlation(seen_by(codes, rows)) for codes in evidence.codes]
        for rows in halves(len(evidence.codes[0].mean), seed)
    ]
    flags = tuple(model_flags(codes, informative_latents(codes)) for codes in evidence.codes)
    return Judgement(scores, np.array(replicates), flags)


total_correlation = Criterion(
    name="total_correlation",
    title="total correlation",
    summary="are latents independent of each other? (judged by their covariances)",
    sees="It sees whether latents vary together over the pictures.",
    blind="It cannot see what latents mean: rotated Gaussian latents stay independent, and dead ones cost nothing.",
    reference="Locatello et al. (2020) A Sober Look at the Unsupervised Learning of Disentangled Representations",
    judge=judge,
    better="lower",
)
