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

import numpy as np

from sober.errors import RequestError, listed
from sober.metrics.aggregate import completeness_columns, disentanglement_rows, shares
from sober.metrics.metric import Meaning, Measured, Metric, remembered
from sober.metrics.predictors import PREDICTORS, Fit, evaluate
from sober.metrics.rows import TEST, TRAIN, split
from sober.types import Codes


def measure(codes: Codes, *, seed: int, train: int, test: int, trees: str, weighted: bool) -> Measured:
    fit = importance(codes, train=train, test=test, trees=trees, seed=seed)
    matrix = fit.importances
    rows, columns = disentanglement_rows(matrix), completeness_columns(matrix)
    of_latents, of_factors = shares(matrix.sum(axis=1)), shares(matrix.sum(axis=0))
    used = matrix.sum(axis=1) > 0
    plain = {"disentanglement": rows[used].mean() if used.any() else 0.0, "completeness": columns.mean()}
    weighed = {"disentanglement": of_latents @ rows, "completeness": of_factors @ columns}
    values = {
        "dci_disentanglement": weighed["disentanglement"],
        "dci_completeness": (weighed if weighted else plain)["completeness"],
        "dci_informativeness": fit.right.mean(),
        "dci_nrmse": fit.nrmse.mean(),
    }
    flags = ["collapsed"] * (not matrix.any()) + ["one_latent"] * (len(matrix) == 1)
    flags += ["one_factor"] * (matrix.shape[1] == 1) + ["rare_class"] * fit.rare
    parts = {
        "importance": matrix,
        "disentanglement_per_latent": rows,
        "latent_weights": of_latents,
        "completeness_per_factor": columns,
        "factor_weights": of_factors,
        "informativeness_per_factor": fit.right,
        "nrmse_per_factor": fit.nrmse,
        **{f"{name}_plain": np.asarray(value) for name, value in plain.items()},
        **{f"{name}_weighted": np.asarray(value) for name, value in weighed.items()},
    }
    return Measured({name: float(value) for name, value in values.items()}, tuple(flags), parts)


@remembered
def importance(codes: Codes, *, train: int = TRAIN, test: int = TEST, trees: str = "boosted", seed: int = 0) -> Fit:
    """The importance of each latent to the prediction of each factor, and how good the predictions are."""
    if trees not in PREDICTORS:
        raise RequestError(f"dci: trees must be one of {listed(PREDICTORS)}, not {trees!r}")
    learn, check = split(codes, train, test, seed)
    return evaluate(PREDICTORS[trees](learn, check, seed), learn, check)


dci = Metric(
    name="dci",
    summary="does each latent serve one factor, each factor need one latent, and do latents tell it all?",
    reference="Eastwood & Williams (2018) A Framework for the Quantitative Evaluation of Disentangled Representations",
    scores={
        "dci_disentanglement": Meaning("1 - entropy over factors of each latent's importance, weighted"),
        "dci_completeness": Meaning("1 - entropy over latents of each factor's importance"),
        "dci_informativeness": Meaning("accuracy with which factors are predicted from the whole code"),
        "dci_nrmse": Meaning("root mean square error of that, over that of the mean", 0, math.inf, "lower"),
    },
    measure=measure,
    settings={"train": TRAIN, "test": TEST, "trees": "boosted", "weighted": True},
    presets={"paper": {"trees": "forest", "weighted": False}, "lasso": {"trees": "lasso", "weighted": False}},
)
