"""DCI (Eastwood & Williams 2018): does each latent serve one factor, and does each factor need only one latent?

One model per factor predicts the factor from the whole code. Its importances of the latents make a matrix R (D, K).

    disentanglement  of a latent: 1 - entropy over factors of its row as shares, base K; averaged with the rows' weights
    completeness     of a factor: 1 - entropy over latents of its column as shares, base D
    informativeness  how well the factors are predicted on test rows: accuracy (R² for a continuous factor)
    nrmse            the same as an error: root mean square, in units of predicting the mean; 0 is perfect

`study` (Locatello et al. 2020): gradient boosted trees; completeness weighted by columns. `paper`: a random forest
whose depth is chosen on validation rows, completeness a plain mean (`weighted=False`); `lasso` its linear model, whose
strength is chosen likewise.

With more than 512 latents, each model sees only the `screen` latents that know most about its factor, by the mutual
information in training rows; the others have importance 0. A flag says so, and `latents_kept` among the parts has the
number of latents that each model saw.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from sober.errors import RequestError, listed
from sober.estimators.predictors import PREDICTORS, Fitted, Rows, nearest, points
from sober.estimators.wide.wide_tables import by_column, is_wide, taken
from sober.metrics.common.aggregation import completeness_columns, disentanglement_rows, shares
from sober.metrics.common.factor_classes import discretised
from sober.metrics.common.information import mutual_information
from sober.metrics.common.metric_rows import TEST, TRAIN, by_factor, split
from sober.metrics.common.shapes import unit_sums
from sober.metrics.metric import Meaning, Measured, Metric, Traits
from sober.parallel import map_in_order
from sober.shared import Shared
from sober.types import Codes

SCREEN = 64  # latents that the model of one factor sees, if there are too many


class FactorModels(NamedTuple):
    """How important each latent is for predicting each factor, and how good the predictions are."""

    importances: Float[np.ndarray, "D K"]
    right: Float[np.ndarray, " K"]  # accuracy on test rows; R² for a continuous factor
    nrmse: Float[np.ndarray, " K"]
    rare: bool  # whether some class is missing from the training or the test rows
    stopped: bool = False  # whether a model stopped before its optimum


def measure(
    codes: Codes, shared: Shared, *, seed: int, train: int, test: int, trees: str, weighted: bool, screen: int
) -> Measured:
    fit = fitted_importance(codes, shared, train, test, trees, screen, seed)
    values, parts = scores_of(fit.importances, weighted)
    values |= {"informativeness": fit.right.mean(), "nrmse": fit.nrmse.mean()}
    parts |= {"informativeness_per_factor": fit.right, "nrmse_per_factor": fit.nrmse}
    parts |= kept_latents(codes, screen)
    flags = (*flags_of(fit), *["screened"] * is_wide(codes.mean))
    return Measured({f"dci_{name}": float(value) for name, value in values.items()}, flags, parts)


def scores_of(matrix: Float[np.ndarray, "D K"], weighted: bool) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """Disentanglement and completeness of importances, and their parts."""
    rows, columns = disentanglement_rows(matrix), completeness_columns(matrix)
    of_latents, of_factors = shares(matrix.sum(axis=1)), shares(matrix.sum(axis=0))
    used = matrix.sum(axis=1) > 0
    plain = {"disentanglement": rows[used].mean() if used.any() else 0.0, "completeness": columns.mean()}
    weighed = {"disentanglement": of_latents @ rows, "completeness": of_factors @ columns}
    values = {
        "disentanglement": weighed["disentanglement"],
        "completeness": (weighed if weighted else plain)["completeness"],
    }
    parts = {
        "importance": matrix,
        "disentanglement_per_latent": rows,
        "latent_weights": of_latents,
        "completeness_per_factor": columns,
        "factor_weights": of_factors,
        **{f"{name}_plain": np.asarray(value) for name, value in plain.items()},
        **{f"{name}_weighted": np.asarray(value) for name, value in weighed.items()},
    }
    return values, parts


def flags_of(fit: FactorModels) -> tuple[str, ...]:
    latents, factors = fit.importances.shape
    flags = ["collapsed"] * (not fit.importances.any()) + ["one_latent"] * (latents == 1)
    flags += ["one_factor"] * (factors == 1) + ["rare_class"] * fit.rare + ["not_converged"] * fit.stopped
    return tuple(flags)


def fitted_importance(
    codes: Codes, shared: Shared, train: int, test: int, trees: str, screen: int, seed: int
) -> FactorModels:
    """Fits a model to each factor on some of the rows that know the factor, and tests it on others."""

    def of_rows(subset: Codes) -> FactorModels:
        return shared(importance, *shared(split, subset, train, test, seed), trees, seed, screen)

    return by_factor(codes, shared, of_rows)


def importance(learn: Codes, check: Codes, trees: str, seed: int, screen: int = SCREEN) -> FactorModels:
    """Fits a model to each factor on some rows, and tests it on others.

    If codes are wide, each model sees the `screen` latents that know most about its factor. The importance of a vector
    unit is the sum over its numbers.
    """
    if trees not in PREDICTORS:
        raise RequestError(f"dci: trees must be one of {listed(PREDICTORS)}, not {trees!r}")
    if is_wide(learn.mean):
        fitted = screened_models(learn, check, screen, lambda rows, x_test: PREDICTORS[trees](rows, x_test, seed))
    else:
        fitted = PREDICTORS[trees](rows_of(learn), check.mean, seed)
    fit = tested(fitted, learn, check)
    return fit._replace(importances=unit_sums(fit.importances.T, learn.unit).T)


def screened_models(
    learn: Codes, check: Codes, screen: int, fit: Callable[[Rows, Float[np.ndarray, "n d"]], Fitted]
) -> Fitted:
    """Fits a model to each factor. A model sees only the latents that know most about its factor in training rows."""
    latents = most_knowing(learn, screen)
    tables = [by_column(rows.mean) for rows in (learn, check)]

    def of_factor(k: int) -> Fitted:
        x, x_test = (taken(table, latents[:, k]) for table in tables)
        return fit(Rows(x, learn.factors[:, [k]], learn.about[k : k + 1], learn.groups), x_test)

    models = list(map_in_order(of_factor, range(len(learn.about))))
    importances = np.zeros((learn.mean.shape[1], len(models)))
    for k, model in enumerate(models):
        importances[latents[:, k], k] = model.importances[:, 0]
    stopped = any(model.stopped for model in models)
    return Fitted(importances, [model.predicted[0] for model in models], stopped)


def most_knowing(codes: Codes, screen: int) -> Int[np.ndarray, "S K"]:
    """The `screen` columns of codes that know most about each factor, in ascending order; units are taken apart."""
    if screen < 1:
        raise RequestError(f"screen must be at least 1, not {screen}: how many latents a model sees")
    information = mutual_information(discretised(dataclasses.replace(codes, unit=1)))
    return np.sort(np.argsort(-information, axis=0, kind="stable")[: int(screen)], axis=0)


def kept_latents(codes: Codes, screen: int) -> dict[str, np.ndarray]:
    """A part with the number of latents that each model saw; empty if each saw all."""
    return {"latents_kept": np.asarray(min(int(screen), codes.mean.shape[1]))} if is_wide(codes.mean) else {}


def rows_of(codes: Codes) -> Rows:
    """Codes in the form that predictors take."""
    return Rows(codes.mean, codes.factors, codes.about, codes.groups)


def tested(fitted: Fitted, learn: Codes, check: Codes) -> FactorModels:
    """Measures how good the predictions of test rows are."""
    right, nrmse, rare = np.empty(len(learn.about)), np.empty(len(learn.about)), False
    for k, factor in enumerate(learn.about):
        truth = points(factor, check.factors[:, k])
        centre = points(factor, learn.factors[:, k]).mean(axis=0)
        error, spread = np.sum((fitted.predicted[k] - truth) ** 2), np.sum((centre - truth) ** 2)
        nrmse[k] = np.sqrt(error / spread) if spread > 0 else float(error > 0)
        if factor.kind == "continuous":
            right[k] = max(0.0, 1.0 - nrmse[k] ** 2)
        else:
            right[k] = np.mean(nearest(factor, fitted.predicted[k]) == check.factors[:, k])
            rare |= set(learn.factors[:, k]) != set(check.factors[:, k])
    return FactorModels(fitted.importances, right, nrmse, rare, fitted.stopped)


dci = Metric(
    name="dci",
    summary="does each latent serve one factor, does each factor need only one latent, and is each factor predictable?",
    short="a latent per factor, a factor per latent?",
    reference="Eastwood & Williams (2018) A Framework for the Quantitative Evaluation of Disentangled Representations",
    scores={
        "dci_disentanglement": Meaning(
            "how far each latent serves one factor only: 1 - entropy of its importances, weighted",
            title="DCI disentanglement",
            headline=True,
            traits=Traits(perfect=0.02, noise_within=0.1, lowered_by=("merged factors",)),
        ),
        "dci_completeness": Meaning(
            "how far each factor needs one latent only: 1 - entropy of its importances",
            title="DCI completeness",
            traits=Traits(
                perfect=0.02,
                noise_within=0.1,
                changed_by=("dead latent",),
                lowered_by=("duplicated latents", "split factors"),
            ),  # in units of log D
        ),
        "dci_informativeness": Meaning(
            "accuracy of predicting each factor from the whole code",
            title="DCI informativeness",
            traits=Traits(perfect=0.02, noise=lambda sizes: float(np.mean([1 / size for size in sizes]))),
        ),
        "dci_nrmse": Meaning(
            "root mean square error of these predictions, divided by the error of predicting the mean",
            0,
            math.inf,
            "lower",
            title="DCI prediction error",
            without_factors=1.0,  # the error of predicting the mean
            # A guess that varies as much as the truth, and independently of it, is off by √2 standard deviations.
            traits=Traits(perfect=0.02, noise=lambda sizes: math.sqrt(2), noise_within=0.2),
        ),
    },
    measure=measure,
    settings={"train": TRAIN, "test": TEST, "trees": "boosted", "weighted": True, "screen": SCREEN},
    presets={"paper": {"trees": "forest", "weighted": False}, "lasso": {"trees": "lasso", "weighted": False}},
    seconds=1.7,
    takes=frozenset({"holes", "groups", "units", "sparse"}),
)
