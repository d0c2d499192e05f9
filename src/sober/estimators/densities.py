"""Densities of mixtures of Gaussians: of the aggregate posterior q(z) = 1/N Σ_n q(z|x_n), and of each latent of it.

Every Gaussian is evaluated at every point, so the cost is points × rows × latents, in memory for a block of them.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from sober.machine import cores

POINTS, ROWS = 16, 4_096  # evaluated at once: some megabytes, which stay near the processor
WIDEST = 230.0  # log-variance: e^230 is 10^100
HALF_LOG_TAU = 0.5 * np.log(2 * np.pi)


class LogDensities(NamedTuple):
    """Logarithms of a mixture's densities at S points."""

    joint: Float[np.ndarray, " S"]
    marginal: Float[np.ndarray, "S D"]


def mixture_densities(
    points: Float[np.ndarray, "S D"], mean: Float[np.ndarray, "N D"], logvar: Float[np.ndarray, "N D"]
) -> LogDensities:
    """log 1/N Σ_n Π_j N(z_j; mean_nj, exp(logvar_nj)) at each point z, and for each j log 1/N Σ_n N(z_j; …)."""
    mean = np.asarray(mean, np.float64)
    logstd = np.minimum(np.asarray(logvar, np.float64), WIDEST) / 2
    blocks = [points[start : start + POINTS].astype(np.float64) for start in range(0, len(points), POINTS)]
    with ThreadPoolExecutor(cores()) as pool:
        found = list(pool.map(lambda block: _of_block(block, mean, logstd), blocks))
    joint, marginal = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return LogDensities(joint, marginal)


def _of_block(
    points: Float[np.ndarray, "S D"], mean: Float[np.ndarray, "N D"], logstd: Float[np.ndarray, "N D"]
) -> LogDensities:
    (count, latents), rows = points.shape, len(mean)
    joint, marginal = _Sum.empty((count,)), [_Sum.empty((count,)) for _ in range(latents)]
    for start in range(0, rows, ROWS):
        part = slice(start, start + ROWS)
        together = np.zeros((count, len(mean[part])))
        for j in range(latents):
            log_density = np.subtract(points[:, j, None], mean[None, part, j])
            log_density *= np.exp(-logstd[part, j])
            np.square(log_density, out=log_density)
            log_density *= -0.5
            log_density -= logstd[part, j]
            together += log_density
            marginal[j] = marginal[j].plus(log_density)
        joint = joint.plus(together)
    of_latents = np.stack([each.log() for each in marginal], axis=1)
    return LogDensities(joint.log() - np.log(rows) - latents * HALF_LOG_TAU, of_latents - np.log(rows) - HALF_LOG_TAU)


class _Sum(NamedTuple):
    """A sum of exponentials in two parts, so that neither over- nor underflows: exp(largest) · total."""

    largest: Float[np.ndarray, " S"]
    total: Float[np.ndarray, " S"]

    @staticmethod
    def empty(shape: tuple[int, ...]) -> _Sum:
        return _Sum(np.full(shape, -np.inf), np.zeros(shape))

    def plus(self, exponents: Float[np.ndarray, "S n"]) -> _Sum:
        """With more terms added. Their exponents are overwritten: room for others takes longer than all the rest."""
        largest = np.maximum(self.largest, exponents.max(axis=1))
        exponents -= largest[:, None]
        np.exp(exponents, out=exponents)
        return _Sum(largest, self.total * np.exp(self.largest - largest) + exponents.sum(axis=1))

    def log(self) -> Float[np.ndarray, " S"]:
        return self.largest + np.log(self.total)
