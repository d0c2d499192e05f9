"""Linear readouts: ridge regressions of many targets at many strengths, from one decomposition of the features.

    minimum over w, b of  Σ (y - w z - b)² + λ ‖w‖²

z are features scaled to standard deviation 1 on the rows to learn from. The λ of each factor is the one with the least
squared error on rows left out one at a time, which has a closed form:

    error without row i = (y_i - ŷ_i) / (1 - h_ii)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

STRENGTHS = 10.0 ** np.arange(-4, 4.5)  # λ, as a share of the number of rows
TINY, TINY_32 = 1e-10, 1e-6  # axes along which features vary less than this share of the widest are rounding
LARGE = 1_024  # axes


class Scaling(NamedTuple):
    """Takes the mean of each feature away and divides by its standard deviation; constant features become 0."""

    mean: Float[np.ndarray, " D"]
    factor: Float[np.ndarray, " D"]

    @staticmethod
    def of(features: Float[np.ndarray, "N D"]) -> Scaling:
        mean, deviation = features.mean(axis=0, dtype=np.float64), features.std(axis=0, dtype=np.float64)
        varies = deviation > 1e-6 * np.maximum(np.abs(mean), 1e-30)
        return Scaling(mean, np.divide(1.0, deviation, out=np.zeros_like(deviation), where=varies))

    def __call__(self, features: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N D"]:
        return ((features - self.mean) * self.factor).astype(np.float32)


class Axes(NamedTuple):
    """Features of the rows to learn from, as `left * size @ right`: n rows, r axes, D features."""

    left: Float[np.ndarray, "n r"]
    size: Float[np.ndarray, " r"]
    right: Float[np.ndarray, "r D"]

    @staticmethod
    def of(z: Float[np.ndarray, "n D"]) -> Axes:
        """The singular value decomposition, by the smaller of the two squares of z. In float32 if that is large."""
        rows, width = z.shape
        is_large = min(rows, width) > LARGE
        centred: np.ndarray = np.asarray(z, np.float32 if is_large else np.float64)
        squares, vectors = np.linalg.eigh(centred @ centred.T if rows < width else centred.T @ centred)
        counted = squares > (TINY_32 if is_large else TINY) * max(float(squares[-1]), 1e-300)
        size, vectors = np.sqrt(squares[counted]), vectors[:, counted]
        if rows < width:
            return Axes(vectors, size, (vectors / size).T @ centred)
        return Axes(centred @ vectors / size, size, vectors.T)


class Readout(NamedTuple):
    """Linear maps from features to the points of every factor, each factor with its own strength."""

    scaling: Scaling
    axes: Axes
    weight: Float[np.ndarray, "D m"]
    intercept: Float[np.ndarray, " m"]
    strengths: Float[np.ndarray, " K"]  # λ of each factor, as a share of the number of rows

    def predict(self, features: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N m"]:
        return self.scaling(features) @ self.weight + self.intercept


def fit(features: Float[np.ndarray, "n D"], targets: Sequence[Float[np.ndarray, "n m"]]) -> Readout:
    """The readouts of all factors, given as points, at the strengths with the least error on rows left out."""
    scaling = Scaling.of(features)
    axes = Axes.of(scaling(features))
    shrinkages = _shrinkages(axes)
    widths = [target.shape[1] for target in targets]
    y = np.concatenate(targets, axis=1).astype(np.float64)
    intercept = y.mean(axis=0)
    along = axes.left.T @ (y - intercept)  # (r, m)
    errors = _left_out(axes, along, y - intercept, shrinkages)  # (S, m)
    by_factor = np.stack([block.sum(axis=1) for block in np.split(errors, np.cumsum(widths)[:-1], axis=1)], axis=1)
    best = by_factor.argmin(axis=0)  # (K,)
    shrinkage = shrinkages[np.repeat(best, widths)].T  # (r, m)
    weight = axes.right.T @ (shrinkage * along / axes.size[:, None])
    return Readout(scaling, axes, weight.astype(np.float32), intercept, STRENGTHS[best])


def _shrinkages(axes: Axes) -> Float[np.ndarray, "S r"]:
    """What each strength leaves of the fit along each axis."""
    squares = axes.size**2
    return squares / (squares + STRENGTHS[:, None] * len(axes.left))


def _left_out(
    axes: Axes, along: Float[np.ndarray, "r m"], centred: Float[np.ndarray, "n m"], shrinkages: Float[np.ndarray, "S r"]
) -> Float[np.ndarray, "S m"]:
    """The sum of squared errors of each target on rows left out one at a time, for each strength."""
    leverage = axes.left**2 @ shrinkages.T + 1 / len(centred)  # (n, S)
    errors = []
    for row_leverage, shrinkage in zip(leverage.T, shrinkages, strict=True):
        residual = centred - axes.left @ (shrinkage[:, None] * along)
        errors.append(np.sum((residual / np.maximum(1 - row_leverage, 1e-6)[:, None]) ** 2, axis=0))
    return np.stack(errors)
