"""Matches each factor with a latent of its own."""

from __future__ import annotations

import numpy as np
import scipy
from jaxtyping import Float, Int


def best_match(matrix: Float[np.ndarray, "D K"]) -> Int[np.ndarray, " K"]:
    """Gives each factor a latent of its own so that the sum of entries is largest; -1 for factors without one."""
    latents, factors = scipy.optimize.linear_sum_assignment(matrix, maximize=True)
    out = np.full(matrix.shape[1], -1)
    out[factors] = latents
    return out


def matched(matrix: Float[np.ndarray, "D K"], latent: Int[np.ndarray, " K"]) -> Float[np.ndarray, " K"]:
    """The matrix entries of a match; 0 for factors without a latent."""
    return np.where(latent >= 0, matrix[latent, np.arange(len(latent))], 0.0)
