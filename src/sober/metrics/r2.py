"""R² of factors predicted from latents: how much of the factors' variance does a simple model of the code explain?

    R²_k = 1 - sum of squared errors / sum of squares about the mean, on rows that the model was not fitted to

`r2` is the mean over factors for one linear model of the whole code. `r2_permuted` gives every factor a latent of its
own, chosen on the fitted rows (an assignment problem), and predicts the factor from that latent alone, by a line. The
preset `kernel` uses ridge regression with an RBF kernel instead of the linear model, as is usual for blocks of latents
(von Kügelgen et al. 2021), with penalty and width chosen by cross-validation. R² is 1 for perfect predictions, 0 for
predicting the mean, and negative for worse predictions.

Ordinal and continuous factors are numbers, cyclic factors are points on a circle, and categories are equally far apart.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from sober.errors import NotMeasuredError, RequestError
from sober.estimators.predictors import points
from sober.estimators.ridge import explained, rooted, share_explained, variation
from sober.estimators.scaling import NEGLIGIBLE, standardised
from sober.metrics.common.matching import best_match, matched
from sober.metrics.common.metric_rows import TRAIN, by_factor, halves
from sober.metrics.common.shapes import at_most, unit_spread
from sober.metrics.metric import Meaning, Measured, Metric, Traits
from sober.shared import Shared
from sober.types import Codes

WIDEST = 2_048  # latents
PENALTIES = (1.0, 0.1, 0.01, 0.001)
WIDTHS = tuple(float(gamma) for gamma in np.logspace(-2, 2, 4))
FOLDS = 3

Points = list[Float[np.ndarray, "N m"]]  # the values of each factor


def measure(codes: Codes, shared: Shared, *, seed: int, samples: int, held_out: str, model: str) -> Measured:
    at_most(codes, WIDEST, "least squares needs the products of all pairs of latents")
    if model not in ("linear", "kernel"):
        raise RequestError(f"r2: model must be 'linear' or 'kernel', not {model!r}")
    if model == "kernel" and codes.weights is not None:
        raise NotMeasuredError("the errors that choose its kernel model count all rows the same")

    def of_rows(subset: Codes) -> Explained:
        return shared(explained_variance, *shared(halves, subset, samples, held_out, seed), model)

    by_whole_code, fitted, measured, dead, collapsed, rare = by_factor(codes, shared, of_rows)
    latent = best_match(fitted)
    permuted = matched(measured, latent)
    flags = ["rare_class"] * rare
    flags += ["dead_latent"] * dead + ["collapsed"] * collapsed + ["few_latents"] * (len(fitted) < len(codes.about))
    parts = {"r2_per_factor": by_whole_code, "r2_permuted_per_factor": permuted, "r2_permuted_latent": latent}
    return Measured({"r2": float(by_whole_code.mean()), "r2_permuted": float(permuted.mean())}, tuple(flags), parts)


class Explained(NamedTuple):
    """R² of each factor, and flags about the rows."""

    by_whole_code: Float[np.ndarray, " K"]  # R² by one model of the whole code
    fitted: Float[np.ndarray, "D K"]  # R² by each latent alone, on the fitted rows
    measured: Float[np.ndarray, "D K"]  # R² by each latent alone, on the measured rows
    dead: bool  # whether some latent is constant in the fitted rows
    collapsed: bool  # whether all latents are
    rare: bool  # whether some factor is constant in the fitted or the measured rows


def explained_variance(learn: Codes, check: Codes, model: str) -> Explained:
    """R² of factors, by models fitted to some rows and measured on others."""
    x, x_test = standardised(learn.mean, check.mean, weights=learn.weights)
    y, y_test = factor_points(learn, check)
    w, w_test = learn.weights, check.weights
    predicted = linear(x, y, x_test, w) if model == "linear" else kernel(x, y, x_test, learn.groups)
    by_whole_code = np.array([explained(guess, truth, w_test) for guess, truth in zip(predicted, y_test, strict=True)])
    dead = unit_spread(learn) == 0
    rare = any(not np.ptp(values, axis=0).any() for values in (*y, *y_test))
    row_sets = ((x, y, w), (x_test, y_test, w_test))
    if learn.unit == 1:
        fitted, measured = (lines(x, y, x_measured, truth, w, weights) for x_measured, truth, weights in row_sets)
    else:
        fitted, measured = (blocks(learn, model, x, y, *rows) for rows in row_sets)
    return Explained(by_whole_code, fitted, measured, bool(dead.any()), bool(dead.all()), rare)


def factor_points(learn: Codes, check: Codes) -> tuple[Points, Points]:
    """The values of each factor as points, in units of their spread in the fitted rows."""
    fitted, measured = [], []
    for k, factor in enumerate(learn.about):
        parts = [points(factor, codes.factors[:, k]) for codes in (learn, check)]
        centre = np.average(parts[0], axis=0, weights=learn.weights)
        mean_square = variation(parts[0], learn.weights) / parts[0].size
        mean_square /= 1.0 if learn.weights is None else float(learn.weights.mean())
        largest = max(float(np.abs(values).max()) for values in parts)
        is_constant = math.sqrt(mean_square) <= NEGLIGIBLE * largest
        scale = 1.0 if is_constant else math.sqrt(mean_square)
        fitted.append(np.zeros_like(parts[0]) if is_constant else (parts[0] - centre) / scale)
        measured.append((parts[1] - centre) / scale)
    return fitted, measured


def linear(
    x: Float[np.ndarray, "N D"],
    y: Points,
    x_test: Float[np.ndarray, "n D"],
    weights: Float[np.ndarray, " N"] | None = None,
) -> Points:
    """Predictions by least squares, without an intercept: x and y have mean 0."""
    weight = np.linalg.lstsq(rooted(x, weights), rooted(np.concatenate(y, axis=1), weights), rcond=None)[0]
    return _apart(x_test @ weight, y)


def kernel(
    x: Float[np.ndarray, "N D"],
    y: Points,
    x_test: Float[np.ndarray, "n D"],
    groups: Int[np.ndarray, " N"] | None = None,
) -> Points:
    """Kernel ridge regression of all factors at once, its penalty and width chosen by cross-validation.

    Rows of one group are in one fold. With fewer groups than folds, nothing is chosen.
    """
    from sklearn.kernel_ridge import KernelRidge  # noqa: PLC0415
    from sklearn.model_selection import GridSearchCV, GroupKFold  # noqa: PLC0415

    target = np.concatenate(y, axis=1)
    if len(x) < 2 * FOLDS or (groups is not None and len(np.unique(groups)) < FOLDS):  # too few rows to choose by
        return _apart(KernelRidge(kernel="rbf").fit(x, target).predict(x_test), y)
    folds = FOLDS if groups is None else GroupKFold(FOLDS)
    search = GridSearchCV(KernelRidge(kernel="rbf"), {"alpha": PENALTIES, "gamma": WIDTHS}, cv=folds)
    return _apart(search.fit(x, target, groups=groups).predict(x_test), y)


def _apart(columns: Float[np.ndarray, "n M"], y: Points) -> Points:
    """Splits an array of all factors' columns into one array for each factor."""
    return np.split(columns, np.cumsum([values.shape[1] for values in y])[:-1], axis=1)


def blocks(
    learn: Codes,
    model: str,
    x: Float[np.ndarray, "N D"],
    y: Points,
    x_test: Float[np.ndarray, "n D"],
    y_test: Points,
    test_weights: Float[np.ndarray, " n"] | None,
) -> Float[np.ndarray, "U K"]:
    """R² of each factor, predicted from the numbers of each unit by a model fitted to x and y."""
    out = np.zeros((x.shape[1] // learn.unit, len(y)))
    for u, first in enumerate(range(0, x.shape[1], learn.unit)):
        block, test_block = (array[:, first : first + learn.unit] for array in (x, x_test))
        if model == "linear":
            predicted = linear(block, y, test_block, learn.weights)
        else:
            predicted = kernel(block, y, test_block, learn.groups)
        out[u] = [explained(guess, truth, test_weights) for guess, truth in zip(predicted, y_test, strict=True)]
    return out


def lines(
    x: Float[np.ndarray, "N D"],
    y: Points,
    x_test: Float[np.ndarray, "n D"],
    y_test: Points,
    weights: Float[np.ndarray, " N"] | None = None,
    test_weights: Float[np.ndarray, " n"] | None = None,
) -> Float[np.ndarray, "D K"]:
    """R² of each factor, predicted from each latent alone by a line fitted to x and y."""
    out = np.zeros((x.shape[1], len(y)))
    x, x_test = rooted(x, weights), rooted(x_test, test_weights)
    lengths = np.einsum("nd,nd->d", x, x)
    for k, (fitted, truth) in enumerate(zip(y, y_test, strict=True)):
        slope = (x.T @ rooted(fitted, weights)) / np.where(lengths > 0, lengths, 1.0)[:, None]  # (D, m)
        heavy = rooted(truth, test_weights)
        # |y - z s|² summed over rows, without an array of all latents' errors
        cross, square = x_test.T @ heavy, np.einsum("nd,nd->d", x_test, x_test)
        error = np.sum(heavy**2) - 2 * np.sum(slope * cross, axis=1) + square * np.sum(slope**2, axis=1)
        out[:, k] = share_explained(error, variation(truth, test_weights))
    return out


r2 = Metric(
    name="r2",
    summary="how much of the factors' variance does a simple model of the code explain?",
    short="how much of the factors can be predicted?",
    reference="von Kügelgen et al. (2021) Self-Supervised Learning with Data Augmentations Provably Isolates Content "
    "from Style",
    scores={
        "r2": Meaning(
            "share of the factors' variance that one model of the whole code explains",
            -math.inf,
            title="R²",
            without_factors=0.0,
            traits=Traits(lowered_by=("merged factors",)),
        ),
        "r2_permuted": Meaning(
            "share of each factor's variance that a line from a latent of its own explains",
            -math.inf,
            title="R² of matched latents",
            without_factors=0.0,
            traits=Traits(lowered_by=("merged factors", "split factors")),
        ),
    },
    measure=measure,
    settings={"samples": TRAIN, "held_out": "drawn", "model": "linear"},
    presets={
        "paper": {"held_out": "none"},
        "kernel": {"model": "kernel", "samples": 4_000},
    },
    seconds=0.005,
    default=False,
    takes=frozenset({"holes", "groups", "weights", "units"}),
)
