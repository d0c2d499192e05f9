"""The Fréchet distance between Gaussians that are fitted to rows of numbers, a batch at a time.

    d² = |μ₁ - μ₂|² + tr Σ₁ + tr Σ₂ - 2 tr (Σ₁ Σ₂)^½        (Dowson & Landau 1982; Heusel et al. 2017 print d² as FID)

With Σ = A A', the last trace is the sum of the singular values of A₁' A₂: their squares are the eigenvalues of the
symmetric product Σ₁^½ Σ₂ Σ₁^½. Rounding can make a zero eigenvalue negative or positive, but no root of
it is taken here, and covariances without full rank need no special case.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from sober.errors import RequestError


class FeatureMoments:
    """Mean and covariance of rows that are added in batches (Chan et al. 1983), with memory for F² numbers."""

    def __init__(self, features: int) -> None:
        self.count = 0
        self.mean = np.zeros(features)
        self.scatter = np.zeros((features, features))  # sums of products of distances from the mean

    def add(self, rows: Float[np.ndarray, "n F"]) -> None:
        if not len(rows):
            return
        mean, total = rows.mean(axis=0, dtype=np.float64), self.count + len(rows)
        deviations, shift = rows - mean, mean - self.mean
        self.scatter += deviations.T @ deviations
        self.scatter += (self.count * len(rows) / total) * np.outer(shift, shift)
        self.mean = self.mean + shift * (len(rows) / total)
        self.count = total

    @property
    def covariance(self) -> Float[np.ndarray, "F F"]:
        """Unbiased: over the number of rows less one."""
        return self.scatter / (self.count - 1)


class Gaussian:
    """A mean, and a root A of the covariance Σ = A A', with as many columns as Σ has rank."""

    def __init__(self, moments: FeatureMoments) -> None:
        self.mean, covariance = moments.mean, moments.covariance
        self.trace = float(np.trace(covariance))
        values, axes = np.linalg.eigh(covariance)
        above_rounding = values > len(values) * np.finfo(float).eps * values[-1]
        self.root = axes[:, above_rounding] * np.sqrt(values[above_rounding])  # (F, r)

    def distance(self, other: Gaussian) -> float:
        """The squared Fréchet distance. Papers print it as the distance."""
        common = np.linalg.svd(self.root.T @ other.root, compute_uv=False).sum()
        return max(0.0, float(np.sum((self.mean - other.mean) ** 2) + self.trace + other.trace - 2 * common))


def frechet_distance(a: Float[np.ndarray, "n F"], b: Float[np.ndarray, "m F"]) -> float:
    """The Fréchet distance between Gaussians fitted to two sets of features, row by row: 0 for the same, else above.

    >>> frechet_distance(features_of_pictures, features_of_reconstructions)
    """
    gaussians = []
    for name, features in (("the first", a), ("the second", b)):
        rows = np.asarray(features, np.float64)
        if rows.ndim != 2 or len(rows) < 2 or not rows.shape[1]:
            raise RequestError(f"features must be (n, F) with two rows at least, {name} have shape {rows.shape}")
        if not np.isfinite(rows).all():
            raise RequestError(f"features must be finite, and some of {name} are not: leave those rows out")
        moments = FeatureMoments(rows.shape[1])
        moments.add(rows)
        gaussians.append(Gaussian(moments))
    if gaussians[0].mean.shape != gaussians[1].mean.shape:
        widths = " and ".join(str(len(gaussian.mean)) for gaussian in gaussians)
        raise RequestError(f"both sets must have as many features, and have {widths}: compare like with like")
    return gaussians[0].distance(gaussians[1])
