"""Densities of mixtures of Gaussians: the aggregate posterior q(z) = 1/N Σ_n q(z|x_n), and its marginals.

Every Gaussian is evaluated at every point, so the cost is points × rows × latents. Memory holds one block of points and
rows.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from sober.parallel import cores

POINTS, ROWS = 16, 4_096  # evaluated at once: they take some megabytes, which fit into a processor's cache
NARROWEST, WIDEST = -460.0, 230.0  # log-variances: e^-460 is 10^-200, e^230 is 10^100; beyond, squares overflow
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
    logstd = np.clip(np.asarray(logvar, np.float64), NARROWEST, WIDEST) / 2
    blocks = [points[start : start + POINTS].astype(np.float64) for start in range(0, len(points), POINTS)]
    with ThreadPoolExecutor(cores()) as pool:
        densities = list(pool.map(lambda block: _block_densities(block, mean, logstd), blocks))
    joint, marginal = (np.concatenate(arrays) for arrays in zip(*densities, strict=True))
    return LogDensities(joint, marginal)


def _block_densities(
    points: Float[np.ndarray, "S D"], mean: Float[np.ndarray, "N D"], logstd: Float[np.ndarray, "N D"]
) -> LogDensities:
    (count, latents), rows = points.shape, len(mean)
    joint, marginal = _Sum.empty((count,)), [_Sum.empty((count,)) for _ in range(latents)]
    for start in range(0, rows, ROWS):
        chunk = slice(start, start + ROWS)
        log_joint = np.zeros((count, len(mean[chunk])))
        for j in range(latents):
            log_density = np.subtract(points[:, j, None], mean[None, chunk, j])
            log_density *= np.exp(-logstd[chunk, j])
            np.square(log_density, out=log_density)
            log_density *= -0.5
            log_density -= logstd[chunk, j]
            log_joint += log_density
            marginal[j] = marginal[j].plus(log_density)
        joint = joint.plus(log_joint)
    log_marginal = np.stack([sums.log() for sums in marginal], axis=1)
    return LogDensities(joint.log() - np.log(rows) - latents * HALF_LOG_TAU, log_marginal - np.log(rows) - HALF_LOG_TAU)


class _Sum(NamedTuple):
    """A sum of exponentials as exp(largest) · total, so that nothing over- or underflows."""

    largest: Float[np.ndarray, " S"]
    total: Float[np.ndarray, " S"]

    @staticmethod
    def empty(shape: tuple[int, ...]) -> _Sum:
        return _Sum(np.full(shape, -np.inf), np.zeros(shape))

    def plus(self, exponents: Float[np.ndarray, "S n"]) -> _Sum:
        """The sum with more terms. Overwrites `exponents`, because allocating a copy would take most of the time."""
        largest = np.maximum(self.largest, exponents.max(axis=1))
        exponents -= largest[:, None]
        np.exp(exponents, out=exponents)
        return _Sum(largest, self.total * np.exp(self.largest - largest) + exponents.sum(axis=1))

    def log(self) -> Float[np.ndarray, " S"]:
        return self.largest + np.log(self.total)
