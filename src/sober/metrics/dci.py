"""DCI (Eastwood & Williams 2018): disentanglement, completeness and informativeness of one fitted importance matrix.

A model is fitted to predict each factor from the whole code, and says how important each latent was to it: R (D, K).

    disentanglement  of a latent: 1 - entropy over factors of its row as shares, base K; averaged with the rows' weights
    completeness     of a factor: 1 - entropy over latents of its column as shares, base D
    informativeness  how well the factors are predicted on test rows: accuracy (R² for a continuous factor)
    nrmse            the same as an error: root mean square, in units of predicting the mean; 0 is perfect

`study` (Locatello et al. 2020): gradient boosted trees; completeness weighted by columns. `paper`: a random forest
whose depth is chosen on validation rows, completeness a plain mean (`weighted=False`); `lasso` its linear model, whose
strength is chosen likewise.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from sober.errors import RequestError, listed
from sober.estimators.predictors import PREDICTORS, Fitted, Rows, nearest, points
from sober.metrics.aggregate import completeness_columns, disentanglement_rows, shares
from sober.metrics.metric import Meaning, Measured, Metric, Traits
from sober.metrics.rows import TEST, TRAIN, by_factor, split
from sober.shared import Shared
from sober.types import Codes


class Fit(NamedTuple):
    """How important each latent was to the prediction of each factor, and how good the predictions are."""

    importances: Float[np.ndarray, "D K"]
    right: Float[np.ndarray, " K"]  # accuracy on test rows; R² for a continuous factor
    nrmse: Float[np.ndarray, " K"]
    rare: bool  # whether some class is in one part of the rows only


def measure(codes: Codes, shared: Shared, *, seed: int, train: int, test: int, trees: str, weighted: bool) -> Measured:
    fit = fitted_importance(codes, shared, train, test, trees, seed)
    values, parts = scores_of(fit.importances, weighted)
    values |= {"informativeness": fit.right.mean(), "nrmse": fit.nrmse.mean()}
    parts |= {"informativeness_per_factor": fit.right, "nrmse_per_factor": fit.nrmse}
    return Measured({f"dci_{name}": float(value) for name, value in values.items()}, flags_of(fit), parts)


def scores_of(matrix: Float[np.ndarray, "D K"], weighted: bool) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """Disentanglement and completeness of importances, and what they are made of."""
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


def flags_of(fit: Fit) -> tuple[str, ...]:
    latents, factors = fit.importances.shape
    flags = ["collapsed"] * (not fit.importances.any()) + ["one_latent"] * (latents == 1)
    return (*flags, *["one_factor"] * (factors == 1), *["rare_class"] * fit.rare)


def fitted_importance(codes: Codes, shared: Shared, train: int, test: int, trees: str, seed: int) -> Fit:
    """A model of each factor, learned from some of the rows that know it and tested on others."""

    def of_rows(part: Codes) -> Fit:
        return shared(importance, *shared(split, part, train, test, seed), trees, seed)

    return by_factor(codes, shared, of_rows)


def importance(learn: Codes, check: Codes, trees: str, seed: int) -> Fit:
    """A model of each factor, learned from some rows and tested on others."""
    if trees not in PREDICTORS:
        raise RequestError(f"dci: trees must be one of {listed(PREDICTORS)}, not {trees!r}")
    fitted = PREDICTORS[trees](rows_of(learn), check.mean, seed)
    return tested(fitted, learn, check)


def rows_of(codes: Codes) -> Rows:
    """Codes as those who fit models see them."""
    return Rows(codes.mean, codes.factors, codes.about, codes.groups)


def tested(fitted: Fitted, learn: Codes, check: Codes) -> Fit:
    """How good predictions of test rows are."""
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
    return Fit(fitted.importances, right, nrmse, rare)


dci = Metric(
    name="dci",
    summary="does each latent serve one factor, each factor need one latent, and do latents tell it all?",
    reference="Eastwood & Williams (2018) A Framework for the Quantitative Evaluation of Disentangled Representations",
    scores={
        "dci_disentanglement": Meaning(
            "1 - entropy over factors of each latent's importance, weighted",
            headline=True,
            traits=Traits(perfect=0.02, noise_within=0.1, lowered_by=("merged factors",)),
        ),
        "dci_completeness": Meaning(
            "1 - entropy over latents of each factor's importance",
            traits=Traits(
                perfect=0.02,
                noise_within=0.1,
                changed_by=("dead latent",),
                lowered_by=("duplicated latents", "split factors"),
            ),  # in units of log D
        ),
        "dci_informativeness": Meaning(
            "accuracy with which factors are predicted from the whole code",
            traits=Traits(perfect=0.02, noise=lambda sizes: float(np.mean([1 / size for size in sizes]))),
        ),
        "dci_nrmse": Meaning(
            "root mean square error of that, over that of the mean",
            0,
            math.inf,
            "lower",
            without_factors=1.0,  # that of predicting the mean
            # A guess that varies as much as the truth, and independently of it, is off by √2 standard deviations.
            traits=Traits(perfect=0.02, noise=lambda sizes: math.sqrt(2), noise_within=0.2),
        ),
    },
    measure=measure,
    settings={"train": TRAIN, "test": TEST, "trees": "boosted", "weighted": True},
    presets={"paper": {"trees": "forest", "weighted": False}, "lasso": {"trees": "lasso", "weighted": False}},
    seconds=3.0,
    takes=frozenset({"holes", "groups"}),
)
