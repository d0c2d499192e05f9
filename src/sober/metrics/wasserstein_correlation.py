"""Wasserstein correlation (Locatello et al. 2020): how far are latents from being independent, in their own units?

    W = squared 2-Wasserstein distance between N(0, Σ) and N(0, diag Σ) = 2 tr Σ - 2 tr (diag(Σ)^½ Σ diag(Σ)^½)^½

It is computed for the encoder's means, and with log-variances also for samples. The `_norm` scores are divided by tr Σ.
"""

from __future__ import annotations

import math

import numpy as np
import scipy
from jaxtyping import Float

from sober.metrics.common.covariance import covariances, unit_blocks
from sober.metrics.common.metric_rows import TRAIN, sample
from sober.metrics.metric import Meaning, Measured, Metric, Traits
from sober.shared import Shared
from sober.types import Codes


def measure(codes: Codes, shared: Shared, *, seed: int, samples: int) -> Measured:
    values, flags = {}, set()
    suffixes = {"means": "", "samples": "_sampled"}
    for kind, covariance in shared(covariances, shared(sample, codes, samples, seed)).items():
        distance, trace = wasserstein(covariance, codes.unit), float(np.trace(covariance))
        values[f"wasserstein_correlation{suffixes[kind]}"] = distance
        values[f"wasserstein_correlation_norm{suffixes[kind]}"] = distance / trace if trace > 0 else 0.0
        flags |= {"collapsed"} if not trace > 0 else set()
    return Measured(values, tuple(flags))


def wasserstein(covariance: Float[np.ndarray, "D D"], unit: int = 1) -> float:
    """Squared 2-Wasserstein distance between the Gaussian and the one without covariance between units."""
    if unit > 1:
        root = scipy.linalg.block_diag(*(_root(block) for block in unit_blocks(covariance, unit)))
        roots = np.sqrt(np.maximum(np.linalg.eigvalsh(root @ covariance @ root), 0.0))
        return max(0.0, float(2 * np.trace(covariance) - 2 * roots.sum()))
    spread = np.sqrt(np.diag(covariance))
    roots = np.sqrt(np.maximum(np.linalg.eigvalsh(covariance * np.outer(spread, spread)), 0.0))
    return max(0.0, float(2 * np.sum(spread**2) - 2 * roots.sum()))


def _root(covariance: Float[np.ndarray, "d d"]) -> Float[np.ndarray, "d d"]:
    """The symmetric square root of a covariance."""
    values, axes = np.linalg.eigh(covariance)
    return (axes * np.sqrt(np.maximum(values, 0.0))) @ axes.T


OF_MEANS = Traits(
    changed_by=("rescaled latents",), raised_by=("duplicated latents",)
)  # the distance is in the latents' own units
OF_SAMPLES = OF_MEANS._replace(perfect=None)  # the noise of samples adds to it

wasserstein_correlation = Metric(
    name="wasserstein_correlation",
    summary="how far are latents from being independent, in their own units?",
    short="how far are latents from independent?",
    reference="Locatello et al. (2020) A Sober Look at the Unsupervised Learning of Disentangled Representations",
    scores={
        "wasserstein_correlation": Meaning(
            "squared distance of the means from independent latents with the same variances",
            0,
            math.inf,
            "lower",
            title="Wasserstein correlation of means",
            traits=OF_MEANS,
        ),
        "wasserstein_correlation_norm": Meaning(
            "the same, divided by the total variance",
            0,
            2,
            "lower",
            title="relative Wasserstein correlation of means",
            traits=OF_MEANS,
        ),
        "wasserstein_correlation_sampled": Meaning(
            "squared distance of samples from q(z|x) from independent latents with the same variances",
            0,
            math.inf,
            "lower",
            title="Wasserstein correlation of samples",
            samples_of="wasserstein_correlation",
            traits=OF_SAMPLES,
        ),
        "wasserstein_correlation_norm_sampled": Meaning(
            "the same, divided by the total variance",
            0,
            2,
            "lower",
            title="relative Wasserstein correlation of samples",
            samples_of="wasserstein_correlation_norm",
            traits=OF_SAMPLES,
        ),
    },
    measure=measure,
    settings={"samples": TRAIN},
    seconds=0.003,
    logvar=True,
    exact=True,
    supervised=False,
    takes=frozenset({"groups", "units"}),
)
