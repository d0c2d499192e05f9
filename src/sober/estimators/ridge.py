"""Ridge regression, its penalty chosen by cross-validation: scikit-learn's RidgeCV(cv=5), for all penalties at once.

    minimum over w, b of  Σ (y - w z - b)² + ‖w‖² / C

One eigendecomposition of the covariance serves every C. The C with the best mean R² on held-out rows (the first of
equals) is then fitted to all rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from sober.estimators.folds import contiguous
from sober.estimators.logistic import strengths_between
from sober.estimators.scaling import NEGLIGIBLE


class Ridge(NamedTuple):
    """A linear model, its strength C, and the scores that chose C."""

    weight: Float[np.ndarray, " D"]
    intercept: float
    strength: float
    r2: Float[np.ndarray, "F S"]  # on the rows of each fold, at each strength

    def predict(self, x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, " N"]:
        return np.asarray(x, np.float64) @ self.weight + self.intercept


def ridge(x: Float[np.ndarray, "N D"], y: Float[np.ndarray, " N"], *, strengths: int = 10, folds: int = 5) -> Ridge:
    """The regression of y on x at the best of `strengths` values of C. Folds are contiguous rows."""
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    grid = strengths_between(strengths)
    fold = contiguous(len(x), folds)
    r2 = np.zeros((folds, strengths))
    for f in range(folds):
        weights, intercepts = _lines(x[fold != f], y[fold != f], 1 / grid)
        truth = y[fold == f]
        r2[f] = [explained(guess[:, None], truth[:, None]) for guess in (x[fold == f] @ weights + intercepts).T]
    best = int(np.argmax(r2.mean(axis=0)))
    weights, intercepts = _lines(x, y, 1 / grid[[best]])
    return Ridge(weights[:, 0], float(intercepts[0]), float(grid[best]), r2)


def explained(
    guess: Float[np.ndarray, "n m"], truth: Float[np.ndarray, "n m"], weights: Float[np.ndarray, " n"] | None = None
) -> float:
    """R² over all coordinates together; 0 where the truth does not vary."""
    return float(share_explained(np.sum(rooted(guess - truth, weights) ** 2), variation(truth, weights)))


def share_explained(error: Float[np.ndarray, "*n"], spread: float) -> Float[np.ndarray, "*n"]:
    """1 - error / spread; 0 where the spread is 0, or nothing beside the error."""
    varies = spread > NEGLIGIBLE**2 * error
    return np.where(varies, 1.0 - error / np.where(varies, spread, 1.0), 0.0)


def variation(truth: Float[np.ndarray, "n m"], weights: Float[np.ndarray, " n"] | None) -> float:
    """The sum of squares about the mean, over all coordinates together."""
    if not np.ptp(truth, axis=0).any():
        return 0.0  # without rounding errors of the mean
    return float(np.sum(rooted(truth - np.average(truth, axis=0, weights=weights), weights) ** 2))


def rooted(x: Float[np.ndarray, "N m"], weights: Float[np.ndarray, " N"] | None) -> Float[np.ndarray, "N m"]:
    """Rows times the roots of their weights, so that products of columns are weighted sums."""
    return x if weights is None else x * np.sqrt(weights)[:, None]


def _lines(
    x: Float[np.ndarray, "N D"], y: Float[np.ndarray, " N"], penalties: Float[np.ndarray, " S"]
) -> tuple[Float[np.ndarray, "D S"], Float[np.ndarray, " S"]]:
    """Weights and intercepts for each penalty."""
    middle, level = x.mean(axis=0), y.mean()
    centred = x - middle
    size, axes = np.linalg.eigh(centred.T @ centred)
    along = axes.T @ (centred.T @ (y - level))
    weights = axes @ (along[:, None] / (np.maximum(size, 0)[:, None] + penalties))
    return weights, level - middle @ weights
