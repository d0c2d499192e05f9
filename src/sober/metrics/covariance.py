"""The covariance of latents: of the encoder's means, and of samples from its distributions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

from sober.metrics.rows import sample
from sober.metrics.shapes import at_most
from sober.types import Codes

LEAST = 1e-12  # eigenvalues of a correlation matrix below this are taken as this


WIDEST = 4_096  # latents whose covariances are made


def covariances(codes: Codes, samples: int | None = None, seed: int = 0) -> dict[str, Float[np.ndarray, "D D"]]:
    """Of the `means`; and where there are log-variances of `samples`, whose noise adds its mean variance to the
    diagonal. Of so many rows, or of all.

    That is the covariance that samples have on average, so none need be drawn. Rows with weights have that of the means
    alone, but for a factor: how many rows they stand for is not known.
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
    """The covariance within each unit; none where a latent is a single number, which has nothing to share."""
    starts = range(0, len(covariance), unit) if unit > 1 else range(0)
    return (covariance[first : first + unit, first : first + unit] for first in starts)


def spectrum(covariance: Float[np.ndarray, "D D"]) -> tuple[Float[np.ndarray, " d"], bool]:
    """Eigenvalues of the correlation matrix of the latents that vary, none below LEAST, and whether any had been.

    The second is also true where a latent does not vary: that one is independent of all others and has no eigenvalue.
    """
    spread = np.sqrt(np.diag(covariance))
    alive = spread > 0
    if not alive.any():
        return np.ones(0), True
    correlation = covariance[np.ix_(alive, alive)] / np.outer(spread[alive], spread[alive])
    values = np.linalg.eigvalsh(correlation)
    return np.maximum(values, LEAST), bool((values < LEAST).any() or not alive.all())
