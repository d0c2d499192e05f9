"""Lassos, ridges and random forests whose strength or depth is chosen on rows of their own (Eastwood & Williams 2018).

A model learns from training rows, and the option with the least error on validation rows is kept. One forest serves to
choose among depths (`forests`). The forest of that depth is then scikit-learn's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from sober.estimators.forests import Forest
from sober.estimators.lasso import lasso
from sober.estimators.predictors import DEPTHS, STRENGTHS, Rows, points
from sober.estimators.scaling import standardised

RIDGES = tuple(float(strength) for strength in np.logspace(-8, 2, 21))  # of a ridge's penalty, on standardised numbers
MANY = 10_000  # rows from which on trees are worth a thread each


class Parts(NamedTuple):
    """Standardised codes of training, validation and test rows, and what is to be predicted of the first two."""

    x: Float[np.ndarray, "N D"]
    x_valid: Float[np.ndarray, "V D"]
    x_test: Float[np.ndarray, "n D"]
    y: Float[np.ndarray, "N m"]
    y_valid: Float[np.ndarray, "V m"]


class Chosen(NamedTuple):
    """The model with the least validation error: the importance of each column, and what it says of test rows."""

    importances: Float[np.ndarray, "I D"]  # counted in one way, or in several
    predicted: Float[np.ndarray, "n m"]
    option: float  # the depth of trees, or the strength of a penalty


class Validated(NamedTuple):
    """A model of each factor: importances counted in I ways, predictions for the test rows as points, and options."""

    importances: Float[np.ndarray, "I D K"]
    predicted: list[Float[np.ndarray, "n m"]]
    options: Float[np.ndarray, " K"]


def fitted_by(choose: Callable[[Parts], Chosen], learn: Rows, valid: Rows, test: Float[np.ndarray, "n D"]) -> Validated:
    """A model of each factor. Codes and targets are standardised by the training rows."""
    x, x_valid, x_test = standardised(learn.x, valid.x, test)
    columns, predicted, options = [], [], []
    for k, factor in enumerate(learn.about):
        target, of_valid = points(factor, learn.factors[:, k]), points(factor, valid.factors[:, k])
        middle = target.mean(axis=0)
        scale = float(np.sqrt(np.mean((target - middle) ** 2))) or 1.0
        chosen = choose(Parts(x, x_valid, x_test, (target - middle) / scale, (of_valid - middle) / scale))
        columns.append(chosen.importances)
        predicted.append(chosen.predicted * scale + middle)
        options.append(chosen.option)
    return Validated(np.stack(columns, axis=2), predicted, np.array(options, float))


def choose_lasso(parts: Parts) -> Chosen:
    """Linear models with an l1 penalty, at the best of `STRENGTHS`; a column's importance is the size of its weight."""
    if len(parts.x) < 2:  # one row says nothing of how columns and targets go together
        return Chosen(np.zeros((1, parts.x.shape[1])), np.zeros((len(parts.x_test), parts.y.shape[1])), STRENGTHS[-1])
    found = [(strength, lasso(parts.x, parts.y, strength)) for strength in STRENGTHS]
    errors = [np.mean((parts.x_valid @ fitted.T - parts.y_valid) ** 2) for _, fitted in found]
    strength, best = found[int(np.argmin(errors))]
    return Chosen(np.abs(best).sum(axis=0)[None], parts.x_test @ best.T, strength)


def choose_ridge(parts: Parts) -> Chosen:
    """Linear models with an l2 penalty, at the best of `RIDGES`; a column's importance is the size of its weight.

    The least of |y - xw|² / N + strength · |w|², for all strengths from one decomposition of x'x / N.
    """
    values, axes = np.linalg.eigh(parts.x.T @ parts.x / len(parts.x))
    along = axes.T @ (parts.x.T @ parts.y) / len(parts.x)  # (D, m)
    found = [(strength, axes @ (along / (values.clip(0) + strength)[:, None])) for strength in RIDGES]
    errors = [np.mean((parts.x_valid @ weight - parts.y_valid) ** 2) for _, weight in found]
    strength, best = found[int(np.argmin(errors))]
    return Chosen(np.abs(best).sum(axis=1)[None], parts.x_test @ best, strength)


def choose_forest(parts: Parts, trees: int, seed: int) -> Chosen:
    """So many regression trees, at the best of `DEPTHS`. Importances by decrease of squared error, and by splits."""
    forest = grown(parts.x, parts.y, trees, seed)
    errors = [np.mean((guess - parts.y_valid) ** 2) for guess in forest.predict_at(parts.x_valid, DEPTHS)]
    depth = DEPTHS[int(np.argmin(errors))]
    if depth < DEPTHS[-1]:
        forest = grown(parts.x, parts.y, trees, seed, depth)
    importances = np.stack([forest.importances(by_splits=False), forest.importances(by_splits=True)])
    return Chosen(importances, forest.predict(parts.x_test), depth)


def grown(
    x: Float[np.ndarray, "N D"], y: Float[np.ndarray, "N m"], trees: int, seed: int, depth: int = DEPTHS[-1]
) -> Forest:
    """scikit-learn's random forest of some depth, by default the largest that is chosen among."""
    from sklearn.ensemble import RandomForestRegressor  # noqa: PLC0415

    jobs = -1 if len(x) >= MANY else None
    model = RandomForestRegressor(trees, max_depth=depth, random_state=seed, n_jobs=jobs)
    model.fit(x, y[:, 0] if y.shape[1] == 1 else y)
    return Forest.of(model)
