"""R² of factors predicted from latents: how much of the factors' variance does a simple model of the code explain?

    R²_k = 1 - sum of squared errors / sum of squares about the mean, on rows that the model was not fitted to

`r2` is the mean over factors for one linear model of the whole code. `r2_permuted` gives every factor a latent of its
own, chosen on the rows that are fitted (an assignment problem), and predicts it from that latent alone, by a line.
The preset `kernel` takes ridge regression with an RBF kernel instead of the linear model, as is usual for blocks of
latents (von Kügelgen et al. 2021), its penalty and width chosen by cross-validation. A perfect model has 1, one that
always guesses the mean 0, and one that is worse than that less than 0.

Number-like factors stand for themselves, cyclic ones lie on a circle, categories are all equally far apart.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from sober.errors import NotMeasuredError, RequestError
from sober.estimators.predictors import points
from sober.estimators.ridge import explained, rooted, variation
from sober.estimators.scaling import standardised
from sober.metrics.matrices import best_match, matched
from sober.metrics.metric import Meaning, Measured, Metric, Traits
from sober.metrics.rows import TRAIN, by_factor, halves
from sober.metrics.shapes import at_most, unit_spread
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
        raise NotMeasuredError("its kernel model is chosen by errors in which all rows count the same")

    def of_rows(part: Codes) -> Explained:
        return shared(explained_variance, *shared(halves, part, samples, held_out, seed), model)

    whole, fitted, measured, dead, collapsed, rare = by_factor(codes, shared, of_rows)
    latent = best_match(fitted)
    own = matched(measured, latent)
    flags = ["rare_class"] * rare
    flags += ["dead_latent"] * dead + ["collapsed"] * collapsed + ["few_latents"] * (len(fitted) < len(codes.about))
    parts = {"r2_per_factor": whole, "r2_permuted_per_factor": own, "r2_permuted_latent": latent}
    return Measured({"r2": float(whole.mean()), "r2_permuted": float(own.mean())}, tuple(flags), parts)


class Explained(NamedTuple):
    """How much of each factor is explained."""

    whole: Float[np.ndarray, " K"]  # by one model of the whole code
    fitted: Float[np.ndarray, "D K"]  # by each latent alone, on the rows that were fitted
    measured: Float[np.ndarray, "D K"]  # and on those to measure
    dead: bool  # whether some latent does not vary in the rows that were fitted,
    collapsed: bool  # whether none does,
    rare: bool  # and whether some factor has one value there, or in the rows to measure


def explained_variance(learn: Codes, check: Codes, model: str) -> Explained:
    """Of factors, by models fitted to some rows and measured on others."""
    x, x_test = standardised(learn.mean, check.mean, weights=learn.weights)
    y, y_test = factor_points(learn, check)
    w, w_test = learn.weights, check.weights
    predicted = linear(x, y, x_test, w) if model == "linear" else kernel(x, y, x_test, learn.groups)
    whole = np.array([explained(guess, truth, w_test) for guess, truth in zip(predicted, y_test, strict=True)])
    dead = unit_spread(learn) == 0
    rare = any(not np.ptp(values, axis=0).any() for values in (*y, *y_test))
    seen = ((x, y, w), (x_test, y_test, w_test))
    if learn.unit == 1:
        fitted, measured = (lines(x, y, some, truth, w, weights) for some, truth, weights in seen)
    else:
        fitted, measured = (blocks(learn, model, x, y, *rows) for rows in seen)
    return Explained(whole, fitted, measured, bool(dead.any()), bool(dead.all()), rare)


def factor_points(learn: Codes, check: Codes) -> tuple[Points, Points]:
    """The values of each factor as points, in units of their spread in the rows that are fitted."""
    fitted, measured = [], []
    for k, factor in enumerate(learn.about):
        parts = [points(factor, codes.factors[:, k]) for codes in (learn, check)]
        centre = np.average(parts[0], axis=0, weights=learn.weights)
        square = float(np.mean(rooted(parts[0] - centre, learn.weights) ** 2))
        square /= 1.0 if learn.weights is None else float(learn.weights.mean())
        scale = math.sqrt(square) if np.ptp(parts[0], axis=0).any() else 1.0
        fitted.append((parts[0] - centre) / scale)
        measured.append((parts[1] - centre) / scale)
    return fitted, measured


def linear(
    x: Float[np.ndarray, "N D"],
    y: Points,
    x_test: Float[np.ndarray, "n D"],
    weights: Float[np.ndarray, " N"] | None = None,
) -> Points:
    """Least squares; x and y have mean 0, which is the intercept."""
    weight = np.linalg.lstsq(rooted(x, weights), rooted(np.concatenate(y, axis=1), weights), rcond=None)[0]
    return _apart(x_test @ weight, y)


def kernel(
    x: Float[np.ndarray, "N D"],
    y: Points,
    x_test: Float[np.ndarray, "n D"],
    groups: Int[np.ndarray, " N"] | None = None,
) -> Points:
    """Kernel ridge regression of all factors at once, its penalty and width chosen by cross-validation.

    Rows of one group are in one fold; without as many groups as folds nothing is chosen.
    """
    from sklearn.kernel_ridge import KernelRidge  # noqa: PLC0415
    from sklearn.model_selection import GridSearchCV, GroupKFold  # noqa: PLC0415

    target = np.concatenate(y, axis=1)
    if len(x) < 2 * FOLDS or (groups is not None and len(np.unique(groups)) < FOLDS):  # too few to choose by
        return _apart(KernelRidge(kernel="rbf").fit(x, target).predict(x_test), y)
    folds = FOLDS if groups is None else GroupKFold(FOLDS)
    search = GridSearchCV(KernelRidge(kernel="rbf"), {"alpha": PENALTIES, "gamma": WIDTHS}, cv=folds)
    return _apart(search.fit(x, target, groups=groups).predict(x_test), y)


def _apart(columns: Float[np.ndarray, "n M"], y: Points) -> Points:
    """Columns of all factors, factor by factor again."""
    return np.split(columns, np.cumsum([part.shape[1] for part in y])[:-1], axis=1)


def blocks(
    learn: Codes,
    model: str,
    x: Float[np.ndarray, "N D"],
    y: Points,
    x_test: Float[np.ndarray, "n D"],
    y_test: Points,
    test_weights: Float[np.ndarray, " n"] | None,
) -> Float[np.ndarray, "U K"]:
    """R² of each factor, predicted from all the numbers of each unit by a model that was fitted to x and y."""
    out = np.zeros((x.shape[1] // learn.unit, len(y)))
    for u, first in enumerate(range(0, x.shape[1], learn.unit)):
        known, asked = (part[:, first : first + learn.unit] for part in (x, x_test))
        if model == "linear":
            predicted = linear(known, y, asked, learn.weights)
        else:
            predicted = kernel(known, y, asked, learn.groups)
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
    """R² of each factor, predicted from each latent alone by a line that was fitted to x and y."""
    out = np.zeros((x.shape[1], len(y)))
    x, x_test = rooted(x, weights), rooted(x_test, test_weights)
    lengths = np.einsum("nd,nd->d", x, x)
    for k, (fitted, truth) in enumerate(zip(y, y_test, strict=True)):
        slope = (x.T @ rooted(fitted, weights)) / np.where(lengths > 0, lengths, 1.0)[:, None]  # (D, m)
        if np.ptp(truth, axis=0).any():
            spread = variation(truth, test_weights)
            heavy = rooted(truth, test_weights)
            # |y - z s|² summed over rows, without an array of all latents' errors
            cross, square = x_test.T @ heavy, np.einsum("nd,nd->d", x_test, x_test)
            error = np.sum(heavy**2) - 2 * np.sum(slope * cross, axis=1) + square * np.sum(slope**2, axis=1)
            out[:, k] = 1.0 - error / spread
    return out


r2 = Metric(
    name="r2",
    summary="how much of the factors' variance does a simple model of the code explain?",
    reference="von Kügelgen et al. (2021) Self-Supervised Learning with Data Augmentations Provably Isolates Content "
    "from Style",
    scores={
        "r2": Meaning(
            "variance explained by one model of the whole code",
            -math.inf,
            without_factors=0.0,
            traits=Traits(lowered_by=("merged factors",)),
        ),
        "r2_permuted": Meaning(
            "variance explained by a line from a latent of its own",
            -math.inf,
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
    seconds=0.03,
    default=False,
    takes=frozenset({"holes", "groups", "weights", "units"}),
)
