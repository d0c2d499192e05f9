"""How well one latent alone predicts a factor, learned from some rows and tested on others."""

from __future__ import annotations

import functools

import numpy as np
from jaxtyping import Float

from sober.estimators.scaling import standardised
from sober.estimators.svm import svm_accuracy
from sober.estimators.vectors import unit_svm_accuracy, units
from sober.estimators.wide.sparse_svm import wide_svm_accuracy
from sober.estimators.wide.wide_tables import Table, is_wide, spread
from sober.metrics.common.correlation import r_squared
from sober.metrics.common.metric_rows import by_factor, own_rows, split
from sober.shared import Shared
from sober.types import Codes


def predictability(learn: Codes, check: Codes, strength: float = 0.01) -> Float[np.ndarray, "D K"]:
    """How well one latent alone predicts a factor (Kumar et al. 2018), learned from some rows and tested on others.

    For a discrete factor this is the test accuracy of a linear support vector machine, for a continuous one the R² of a
    line. A vector unit predicts from all its numbers, linearly.
    """
    out = np.empty((learn.mean.shape[1] // learn.unit, len(learn.about)))
    continuous = np.array([factor.kind == "continuous" for factor in learn.about], bool)
    if continuous.any():
        explained = r_squared if learn.unit == 1 else functools.partial(unit_r_squared, unit=learn.unit)
        out[:, continuous] = explained(learn.mean, learn.factors[:, continuous])
    if not continuous.all():
        truth, answer = (rows.factors[:, ~continuous].astype(np.int64) for rows in (learn, check))
        if learn.unit > 1:
            out[:, ~continuous] = unit_svm_accuracy(learn.mean, truth, check.mean, answer, learn.unit, C=strength)
        else:
            accuracy = wide_svm_accuracy if is_wide(learn.mean) else svm_accuracy
            out[:, ~continuous] = accuracy(learn.mean, truth, check.mean, answer, C=strength)
    return out


def unit_r_squared(x: Table, y: Float[np.ndarray, "N K"], unit: int) -> Float[np.ndarray, "U K"]:
    """The R² of each column of y by a linear model of each unit, in sample; 0 if y does not vary."""
    y = standardised(y)[0]
    out = []
    for columns in units(x, unit):
        block = standardised(columns)[0]
        guess = block @ np.linalg.lstsq(block, y, rcond=None)[0]
        out.append(np.clip(np.mean(guess * y, axis=0), 0.0, 1.0))  # a share of variance: y and guess are centred
    return np.array(out)


def fitted_predictability(
    codes: Codes, shared: Shared, train: int, test: int, strength: float, seed: int
) -> Float[np.ndarray, "D K"]:
    """`predictability` from a sample of the rows in which each factor is known."""

    def of_rows(subset: Codes) -> Float[np.ndarray, "D k"]:
        return shared(predictability, *shared(split, subset, train, test, seed), strength)

    return by_factor(codes, shared, of_rows)


def shortcomings(codes: Codes, shared: Shared, train: int, test: int, seed: int) -> list[str]:
    """Flags about training and test rows: classes that only one of the two has, constant codes."""
    flags_by_subset = [
        _shortcomings(*shared(split, subset, train, test, seed)) for _, subset in shared(own_rows, codes)
    ]
    return sorted({flag for flags in flags_by_subset for flag in flags})


def _shortcomings(learn: Codes, check: Codes) -> list[str]:
    discrete = [k for k, factor in enumerate(learn.about) if factor.kind != "continuous"]
    counts = [[np.bincount(rows.factors[:, k].astype(int)) > 0 for k in discrete] for rows in (learn, check)]
    rare = any(not np.array_equal(a, b) for a, b in zip(*counts, strict=True))
    return ["rare_class"] * rare + ["collapsed"] * (not spread(learn.mean).any())
