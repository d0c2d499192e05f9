"""The matrices (D, K) that say how much each latent has to do with each factor, each estimated once for given codes."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from sober.estimators.discrete import BINS, binned, information
from sober.estimators.scaling import standardised
from sober.estimators.svm import svm_accuracy
from sober.types import Codes


def mutual_information(codes: Codes, bins: int = BINS) -> Float[np.ndarray, "D K"]:
    """I(latent; factor) in nats, latents cut into bins of equal width; factors are classes."""
    return information(binned(codes.mean, bins), codes.factors)


def predictability(learn: Codes, check: Codes, strength: float = 0.01) -> Float[np.ndarray, "D K"]:
    """How well one latent alone predicts a factor (Kumar et al. 2018), learned from some rows and tested on others.

    For a discrete factor the test accuracy of a linear support vector machine; for a continuous one the R² of a line.
    """
    out = np.empty((learn.mean.shape[1], len(learn.about)))
    number = np.array([factor.kind == "continuous" for factor in learn.about], bool)
    if number.any():
        out[:, number] = r_squared(learn.mean, learn.factors[:, number])
    if not number.all():
        truth, answer = (part.factors[:, ~number].astype(np.int64) for part in (learn, check))
        out[:, ~number] = svm_accuracy(learn.mean, truth, check.mean, answer, C=strength)
    return out


def shortcomings(learn: Codes, check: Codes) -> list[str]:
    """Flags about the rows that a model learns from and is tested on: classes in one part only, constant codes."""
    discrete = [k for k, factor in enumerate(learn.about) if factor.kind != "continuous"]
    counts = [[np.bincount(rows.factors[:, k].astype(int)) > 0 for k in discrete] for rows in (learn, check)]
    rare = any(not np.array_equal(a, b) for a, b in zip(*counts, strict=True))
    return ["rare_class"] * rare + ["collapsed"] * (not np.ptp(learn.mean, axis=0).any())


def r_squared(x: Float[np.ndarray, "N D"], y: Float[np.ndarray, "N K"]) -> Float[np.ndarray, "D K"]:
    """The squared correlation of each column of x with each of y; 0 where either does not vary."""
    x, y = standardised(x)[0], standardised(y)[0]
    return (x.T @ y / len(x)) ** 2
