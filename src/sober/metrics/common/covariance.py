"""The covariance of the encoder's means, and of samples from its distributions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

from sober.metrics.common.metric_rows import sample
from sober.metrics.common.shapes import at_most
from sober.types import Codes

LEAST = 1e-12  # smaller eigenvalues of a correlation matrix are raised to this
WIDEST = 4_096  # latents at most: their covariances are a matrix


def covariances(codes: Codes, samples: int | None = None, seed: int = 0) -> dict[str, Float[np.ndarray, "D D"]]:
    """The covariance of the `means`, and with log-variances also of `samples` from q(z|x), over some rows or all.

    Samples have the covariance of the means plus their mean variance on the diagonal, so none are drawn. With weights
    there is only the covariance of the means, divided by the sum of the weights instead of n - 1.
    """
    at_most(codes, WIDEST, "it needs the covariances of all pairs of latents")
    drawn = codes if samples is None else sample(codes, samples, seed)
    mean = np.asarray(drawn.mean, float)
    mean = mean - np.average(mean, axis=0, weights=drawn.weights)
    mean[:, np.ptp(drawn.mean, axis=0) == 0] = 0.0
    if drawn.weights is not None:
        return {"means": mean.T @ (mean * drawn.weights[:, None]) / drawn.weights.sum()}
    of_means = mean.T @ mean / max(len(mean) - 1, 1)
    if drawn.logvar is None:
        return {"means": of_means}
    noise = np.exp(np.minimum(np.asarray(drawn.logvar, float), 230.0)).mean(axis=0)  # e^230 is 10^100
    return {"means": of_means, "samples": of_means + np.diag(noise)}


def unit_blocks(covariance: Float[np.ndarray, "D D"], unit: int) -> Iterator[Float[np.ndarray, "d d"]]:
    """The covariance within each vector unit; empty if latents are single numbers."""
    starts = range(0, len(covariance), unit) if unit > 1 else range(0)
    return (covariance[first : first + unit, first : first + unit] for first in starts)


def spectrum(covariance: Float[np.ndarray, "D D"]) -> tuple[Float[np.ndarray, " d"], bool]:
    """Eigenvalues of the correlation matrix, each at least LEAST, and whether the matrix is singular.

    Constant latents are left out of the matrix. If there are any, it counts as singular.
    """
    spread = np.sqrt(np.diag(covariance))
    alive = spread > 0
    if not alive.any():
        return np.ones(0), True
    correlation = covariance[np.ix_(alive, alive)] / np.outer(spread[alive], spread[alive])
    values = np.linalg.eigvalsh(correlation)
    return np.maximum(values, LEAST), bool((values < LEAST).any() or not alive.all())
