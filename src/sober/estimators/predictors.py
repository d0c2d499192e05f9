"""Models that predict each factor from all columns of a table, and say how important each column was to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, Num

from sober.estimators.boosting import boosted
from sober.estimators.scaling import standardised
from sober.types import Factor

DEPTHS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20)  # of a random forest's trees
STRENGTHS = tuple(float(alpha) for alpha in np.logspace(-5, 0, 21))  # of the lasso's penalty, on standardised numbers
VALIDATION = 0.2  # of the training rows, to choose among these


class Rows(NamedTuple):
    """What is learned from: numbers, and for each row a value of each factor."""

    x: Float[np.ndarray, "N D"]
    factors: Num[np.ndarray, "N K"]
    about: tuple[Factor, ...]
    groups: Int[np.ndarray, " N"] | None = None  # rows of one group are not both learned from and chosen by


class Fitted(NamedTuple):
    """Importances (D, K), each column summing to 1, or all 0; and what was predicted for the test rows, as points."""

    importances: Float[np.ndarray, "D K"]
    predicted: list[Float[np.ndarray, "n m"]]


def points(factor: Factor, column: np.ndarray) -> Float[np.ndarray, "N m"]:
    """Values of a factor as points, so that distances mean what the kind says.

    A number stands for itself, a place in a cycle lies on a circle, and categories are all equally far apart.
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
    """Gradient boosted trees as in the Sober Look study, with histograms: the same trees some hundred times faster."""
    kinds = [np.float64 if factor.kind == "continuous" else np.int64 for factor in rows.about]
    targets = [column.astype(kind) for column, kind in zip(rows.factors.T, kinds, strict=True)]
    found = boosted(rows.x, targets, test, seed=seed)
    predicted = [points(factor, each.test) for factor, each in zip(rows.about, found, strict=True)]
    return Fitted(np.stack([each.importances for each in found], axis=1), predicted)


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

    def model(depth: int) -> Any:
        return RandomForestRegressor(10, max_depth=depth, random_state=seed, n_jobs=-1)

    return _chosen(rows, test, seed, DEPTHS, model, lambda fitted: fitted.feature_importances_)


def by_lasso(rows: Rows, test: Float[np.ndarray, "n D"], seed: int) -> Fitted:
    """Linear models with an l1 penalty, its strength chosen on validation rows (Eastwood & Williams 2018): R = |W|."""
    from sklearn.linear_model import Lasso  # noqa: PLC0415

    def model(alpha: float) -> Any:
        return Lasso(alpha=alpha, max_iter=10_000)

    strongest_first = STRENGTHS[::-1]
    return _chosen(rows, test, seed, strongest_first, model, lambda fitted: np.abs(np.atleast_2d(fitted.coef_)).sum(0))


def _chosen(
    rows: Rows,
    test: Float[np.ndarray, "n D"],
    seed: int,
    options: Sequence[Any],
    model: Callable[[Any], Any],
    importances: Callable[[Any], Float[np.ndarray, " D"]],
) -> Fitted:
    """For each factor the option with the smallest validation error, fitted again to all training rows.

    Codes and targets are standardised. Options go from simple to complex; the search ends where two in a row no longer
    help.
    """
    x, x_test = standardised(rows.x, test)
    valid, rest = validation_rows(rows, np.random.default_rng([seed, 3]))
    columns, predicted = [], []
    for k, factor in enumerate(rows.about):
        target = points(factor, rows.factors[:, k])
        middle, scale = target.mean(axis=0), float(np.sqrt(np.mean((target - target.mean(axis=0)) ** 2))) or 1.0
        y = (target - middle) / scale
        best, least, worse = options[0], np.inf, 0
        for option in options:
            fitted = model(option).fit(x[rest], _flat(y[rest]))
            error = float(np.mean((_tall(fitted.predict(x[valid])) - y[valid]) ** 2))
            best, least, worse = (option, error, 0) if error < least else (best, least, worse + 1)
            if worse == 2:
                break
        fitted = model(best).fit(x, _flat(y))
        columns.append(importances(fitted))
        predicted.append(_tall(fitted.predict(x_test)) * scale + middle)
    return Fitted(np.stack(columns, axis=1), predicted)


def validation_rows(rows: Rows, rng: np.random.Generator) -> tuple[Int[np.ndarray, " v"], Int[np.ndarray, " r"]]:
    """Rows to choose by and rows to fit; of single rows, or of groups where there are two or more."""
    if rows.groups is None or not np.ptp(rows.groups):
        order = rng.permutation(len(rows.x))
        held = max(1, int(len(order) * VALIDATION))
        return order[:held], order[held:] if len(order) > held else order
    place = rng.permutation(int(rows.groups.max()) + 1)[rows.groups]
    order = np.argsort(place, kind="stable")
    ends = np.flatnonzero(np.diff(place[order])) + 1
    held = int(ends[np.argmin(np.abs(ends - len(order) * VALIDATION))])
    return order[:held], order[held:]


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
