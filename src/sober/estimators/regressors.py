"""Lassos, ridges and random forests whose strength or depth is chosen on validation rows (Eastwood & Williams 2018).

Models learn from training rows, and the option with the least error on validation rows is chosen. One forest serves for
all depths.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from sober.errors import RequestError
from sober.estimators.forests import SortedColumns, grown
from sober.estimators.lasso import lasso
from sober.estimators.predictors import DEPTHS, STRENGTHS, Rows, points
from sober.estimators.scaling import standardised

RIDGES = tuple(float(strength) for strength in np.logspace(-8, 2, 21))  # strengths of the ridge's penalty


class SplitRows(NamedTuple):
    """Standardised codes of training, validation and test rows, and targets of the training and validation rows."""

    x: Float[np.ndarray, "N D"]
    x_valid: Float[np.ndarray, "V D"]
    x_test: Float[np.ndarray, "n D"]
    y: Float[np.ndarray, "N m"]
    y_valid: Float[np.ndarray, "V m"]


class Chosen(NamedTuple):
    """The model with the least validation error: the importance of each column, and predictions for the test rows."""

    importances: Float[np.ndarray, "I D"]  # counted in one way, or in several
    predicted: Float[np.ndarray, "n m"]
    option: float  # the depth of trees, or the strength of a penalty


class Validated(NamedTuple):
    """A model of each factor: importances counted in I ways, predictions for the test rows as points, and options."""

    importances: Float[np.ndarray, "I D K"]
    predicted: list[Float[np.ndarray, "n m"]]
    options: Float[np.ndarray, " K"]


def fitted_by(
    choose: Callable[[SplitRows], Chosen], learn: Rows, valid: Rows, test: Float[np.ndarray, "n D"]
) -> Validated:
    """A model of each factor. Codes and targets are standardised by the training rows."""
    x, x_valid, x_test = standardised(learn.x, valid.x, test)
    columns, predicted, options = [], [], []
    for k, factor in enumerate(learn.about):
        target, valid_target = points(factor, learn.factors[:, k]), points(factor, valid.factors[:, k])
        middle = target.mean(axis=0)
        scale = float(np.sqrt(np.mean((target - middle) ** 2))) or 1.0
        chosen = choose(SplitRows(x, x_valid, x_test, (target - middle) / scale, (valid_target - middle) / scale))
        columns.append(chosen.importances)
        predicted.append(chosen.predicted * scale + middle)
        options.append(chosen.option)
    return Validated(np.stack(columns, axis=2), predicted, np.array(options, float))


def choose_lasso(rows: SplitRows, strengths: Sequence[float] = STRENGTHS) -> Chosen:
    """Linear models with an l1 penalty, at the best of `strengths`; a column's importance is the size of its weight."""
    if len(rows.x) < 2:  # one row cannot relate columns to targets
        return Chosen(np.zeros((1, rows.x.shape[1])), np.zeros((len(rows.x_test), rows.y.shape[1])), strengths[-1])
    fits = [(strength, lasso(rows.x, rows.y, strength)) for strength in strengths]
    errors = [np.mean((rows.x_valid @ weight.T - rows.y_valid) ** 2) for _, weight in fits]
    strength, best = fits[int(np.argmin(errors))]
    return Chosen(np.abs(best).sum(axis=0)[None], rows.x_test @ best.T, strength)


def lasso_strengths(strength: float) -> tuple[float, ...]:
    """The strengths among which validation rows choose: this one alone, or all of `STRENGTHS` if it is 0."""
    if not 0 <= strength < math.inf:
        raise RequestError(f"the strength of a lasso must be above 0, or 0 to choose it on validation rows: {strength}")
    return (float(strength),) if strength else STRENGTHS


def choose_ridge(rows: SplitRows) -> Chosen:
    """Linear models with an l2 penalty, at the best of `RIDGES`; a column's importance is the size of its weight.

    Minimises |y - xw|² / N + strength · |w|², for all strengths from one eigendecomposition of x'x / N.
    """
    values, axes = np.linalg.eigh(rows.x.T @ rows.x / len(rows.x))
    along = axes.T @ (rows.x.T @ rows.y) / len(rows.x)  # (D, m)
    fits = [(strength, axes @ (along / (values.clip(0) + strength)[:, None])) for strength in RIDGES]
    errors = [np.mean((rows.x_valid @ weight - rows.y_valid) ** 2) for _, weight in fits]
    strength, best = fits[int(np.argmin(errors))]
    return Chosen(np.abs(best).sum(axis=1)[None], rows.x_test @ best, strength)


def choose_forest(rows: SplitRows, trees: int, seed: int) -> Chosen:
    """Regression trees, at the best of `DEPTHS`. Importances by decrease of squared error, and by splits."""
    forest = grown(SortedColumns.of(rows.x), rows.y, trees=trees, depth=DEPTHS[-1], seed=seed)
    errors = [np.mean((guess - rows.y_valid) ** 2) for guess in forest.predict_at(rows.x_valid, DEPTHS)]
    depth = DEPTHS[int(np.argmin(errors))]
    importances = np.stack([forest.importances(by_splits, depth) for by_splits in (False, True)])
    return Chosen(importances, forest.predict(rows.x_test, depth), depth)
