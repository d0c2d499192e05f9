"""Models that predict each factor from all columns of a table, and say how important each column was to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, Num

from sober.estimators.boosting import boosted
from sober.estimators.scaling import standardised
from sober.estimators.sklearn_warnings import not_converged_is_fine
from sober.types import Factor

DEPTHS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20)  # depths of a random forest's trees
STRENGTHS = tuple(float(alpha) for alpha in np.logspace(-5, 0, 21))  # of the lasso, on standardised numbers
LASSO_STEPS = 10_000
VALIDATION = 0.2  # share of the training rows that chooses a depth or strength


class Rows(NamedTuple):
    """Rows to learn from: numbers, and a value of each factor."""

    x: Float[np.ndarray, "N D"]
    factors: Num[np.ndarray, "N K"]
    about: tuple[Factor, ...]
    groups: Int[np.ndarray, " N"] | None = None  # validation takes whole groups of rows


class Fitted(NamedTuple):
    """Importances, whose columns each sum to 1 or are all 0, and predictions for the test rows as points."""

    importances: Float[np.ndarray, "D K"]
    predicted: list[Float[np.ndarray, "n m"]]
    stopped: bool = False  # whether a model stopped before its optimum


def points(factor: Factor, column: np.ndarray) -> Float[np.ndarray, "N m"]:
    """Values of a factor as points whose distances fit its kind.

    Numbers stay numbers, places in a cycle lie on a circle, and categories are all equally far apart.
    """
    if factor.kind in ("continuous", "ordinal"):
        return np.asarray(column, float)[:, None]
    if factor.kind == "cyclic":
        angle = 2 * np.pi * column / factor.size
        return np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return np.eye(factor.size)[column.astype(np.int64)]


def nearest(factor: Factor, predicted: Float[np.ndarray, "n m"]) -> Int[np.ndarray, " n"]:
    """The class whose point is nearest."""
    if factor.kind == "ordinal":
        return np.clip(np.rint(predicted[:, 0]), 0, factor.size - 1).astype(np.int64)
    table = points(factor, np.arange(factor.size))
    return np.argmax(predicted @ table.T, axis=1)  # all points have length 1


def by_boosting(rows: Rows, test: Float[np.ndarray, "n D"], seed: int) -> Fitted:
    """Gradient boosted trees as in the Sober Look study. `boosting` grows them about a hundred times faster."""
    kinds = [np.float64 if factor.kind == "continuous" else np.int64 for factor in rows.about]
    targets = [column.astype(kind) for column, kind in zip(rows.factors.T, kinds, strict=True)]
    fits = boosted(rows.x, targets, test, seed=seed)
    predicted = [points(factor, fit.test) for factor, fit in zip(rows.about, fits, strict=True)]
    return Fitted(np.stack([fit.importances for fit in fits], axis=1), predicted)


def by_sklearn(rows: Rows, test: Float[np.ndarray, "n D"], seed: int) -> Fitted:
    """scikit-learn's gradient boosted trees with their defaults, as in the Sober Look study: the slow original."""
    from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor  # noqa: PLC0415

    columns, predicted = [], []
    for k, factor in enumerate(rows.about):
        target = rows.factors[:, k]
        if len(np.unique(target)) < 2:
            columns.append(np.zeros(rows.x.shape[1]))
            predicted.append(points(factor, np.full(len(test), target[0])))
            continue
        kind = GradientBoostingRegressor if factor.kind == "continuous" else GradientBoostingClassifier
        model = kind(random_state=seed).fit(rows.x, target)
        columns.append(np.abs(model.feature_importances_))
        predicted.append(points(factor, model.predict(test)))
    return Fitted(np.stack(columns, axis=1), predicted)


def by_forest(rows: Rows, test: Float[np.ndarray, "n D"], seed: int) -> Fitted:
    """Random forests of ten regression trees, their depth chosen on validation rows (Eastwood & Williams 2018)."""
    from sklearn.ensemble import RandomForestRegressor  # noqa: PLC0415

    def fit(depth: int, x: Float[np.ndarray, "N D"], y: np.ndarray) -> Any:
        forest = RandomForestRegressor(10, max_depth=depth, random_state=seed, n_jobs=-1).fit(x, y)
        return forest.set_params(n_jobs=1)  # several threads add up predictions in any order, and rounding follows it

    return _chosen(rows, test, seed, DEPTHS, fit, lambda forest: forest.feature_importances_)


def by_lasso(rows: Rows, test: Float[np.ndarray, "n D"], seed: int) -> Fitted:
    """Linear models with an l1 penalty, its strength chosen on validation rows (Eastwood & Williams 2018): R = |W|."""
    from sklearn.linear_model import Lasso  # noqa: PLC0415

    def fit(alpha: float, x: Float[np.ndarray, "N D"], y: np.ndarray) -> Any:
        with not_converged_is_fine():  # `stopped` says it
            return Lasso(alpha=alpha, max_iter=LASSO_STEPS).fit(x, y)

    strongest_first = STRENGTHS[::-1]
    return _chosen(rows, test, seed, strongest_first, fit, lambda fitted: np.abs(np.atleast_2d(fitted.coef_)).sum(0))


def _chosen(
    rows: Rows,
    test: Float[np.ndarray, "n D"],
    seed: int,
    options: Sequence[Any],
    fit: Callable[[Any, np.ndarray, np.ndarray], Any],
    importances: Callable[[Any], Float[np.ndarray, " D"]],
) -> Fitted:
    """For each factor, the option with the smallest validation error, fitted again to all training rows.

    Codes and targets are standardised. Options go from simple to complex, and the search ends when two in a row do not
    lower the error.
    """
    x, x_test = standardised(rows.x, test)
    valid, learn = validation_rows(rows, np.random.default_rng([seed, 3]))
    columns, predicted, stopped = [], [], False
    for k, factor in enumerate(rows.about):
        target = points(factor, rows.factors[:, k])
        middle, scale = target.mean(axis=0), float(np.sqrt(np.mean((target - target.mean(axis=0)) ** 2))) or 1.0
        y = (target - middle) / scale
        best, least, worse = options[0], np.inf, 0
        for option in options:
            fitted = fit(option, x[learn], _flat(y[learn]))
            error = float(np.mean((_tall(fitted.predict(x[valid])) - y[valid]) ** 2))
            best, least, worse = (option, error, 0) if error < least else (best, least, worse + 1)
            if worse == 2:
                break
        fitted = fit(best, x, _flat(y))
        columns.append(importances(fitted))
        predicted.append(_tall(fitted.predict(x_test)) * scale + middle)
        stopped |= bool(np.max(getattr(fitted, "n_iter_", 0)) >= LASSO_STEPS)
    return Fitted(np.stack(columns, axis=1), predicted, stopped)


def validation_rows(rows: Rows, rng: np.random.Generator) -> tuple[Int[np.ndarray, " v"], Int[np.ndarray, " r"]]:
    """The rows that validate, and the rows that are fitted. With two groups or more, no group is divided."""
    if rows.groups is None or not np.ptp(rows.groups):
        order = rng.permutation(len(rows.x))
        valid_count = max(1, int(len(order) * VALIDATION))
        return order[:valid_count], order[valid_count:] if len(order) > valid_count else order
    place = rng.permutation(int(rows.groups.max()) + 1)[rows.groups]
    order = np.argsort(place, kind="stable")
    ends = np.flatnonzero(np.diff(place[order])) + 1
    valid_count = int(ends[np.argmin(np.abs(ends - len(order) * VALIDATION))])
    return order[:valid_count], order[valid_count:]


def _flat(y: Float[np.ndarray, "N m"]) -> np.ndarray:
    return y[:, 0] if y.shape[1] == 1 else y


def _tall(y: np.ndarray) -> Float[np.ndarray, "N m"]:
    return y.reshape(len(y), -1)


PREDICTORS: dict[str, Callable[[Rows, np.ndarray, int], Fitted]] = {
    "boosted": by_boosting,
    "sklearn": by_sklearn,
    "forest": by_forest,
    "lasso": by_lasso,
}
