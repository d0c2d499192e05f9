"""The matrices (D, K) that say how much each latent has to do with each factor, each estimated once for given codes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy
from jaxtyping import Float, Int

from sober.errors import RequestError
from sober.estimators.discrete import BINS, binned, entropy, information_and_entropies
from sober.estimators.scaling import standardised
from sober.estimators.svm import svm_accuracy
from sober.metrics.discrete import discretised, has_continuous
from sober.metrics.rows import by_factor, own_rows, sample, split
from sober.shared import Shared
from sober.types import Codes


def factor_entropy(codes: Codes) -> Float[np.ndarray, " K"]:
    """The entropy of each factor in nats; factors are classes."""
    return entropy(codes.factors, codes.weights)


class Information(NamedTuple):
    """What each latent and each factor hold, and what they share, in nats, counted on the rows that know the factor."""

    matrix: Float[np.ndarray, "D K"]
    of_factors: Float[np.ndarray, " K"]
    of_latents: Float[np.ndarray, "D K"]


def counted_information(codes: Codes, shared: Shared, samples: int, bins: int, seed: int) -> Information:
    """Of so many rows drawn; latents, and factors that are continuous, are cut into bins of equal width."""

    def of_rows(part: Codes) -> Information:
        return shared(information, shared(sample, part, samples, seed), bins)

    return by_factor(shared(discretised, codes, bins), shared, of_rows)


def mutual_information(codes: Codes, bins: int = BINS) -> Float[np.ndarray, "D K"]:
    """I(latent; factor) in nats, latents cut into bins of equal width; factors are classes."""
    return information(codes, bins).matrix


def information(codes: Codes, bins: int = BINS) -> Information:
    """The same, and the entropies of latents and factors."""
    matrix, of_latents, of_factors = information_and_entropies(binned(codes.mean, bins), codes.factors, codes.weights)
    return Information(matrix, of_factors, np.broadcast_to(of_latents[:, None], matrix.shape))


def known_shares(found: Information, over: str) -> Float[np.ndarray, "D K"]:
    """I(latent; factor) as a share of the factor's entropy, or of the latent's own; 0 where there is nothing to know.

    `over` is `factor` or `code`.
    """
    if over not in ("factor", "code"):
        raise RequestError(f"over must be 'factor' or 'code', not {over!r}: whose entropy information is divided by")
    whole = found.of_factors[None, :] if over == "factor" else found.of_latents
    return np.divide(found.matrix, whole, out=np.zeros_like(found.matrix), where=whole > 0)


def information_flags(codes: Codes, found: Information) -> list[str]:
    """Flags about information: nothing known at all, constant latents, a single latent or factor, binned factors."""
    matrix = found.matrix
    flags = ["collapsed"] * (not matrix.any()) + ["dead_latent"] * bool((found.of_latents == 0).any())
    flags += ["one_latent"] * (len(matrix) == 1) + ["one_factor"] * (matrix.shape[1] == 1)
    return flags + ["binned_factor"] * has_continuous(codes)


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


def fitted_predictability(
    codes: Codes, shared: Shared, train: int, test: int, strength: float, seed: int
) -> Float[np.ndarray, "D K"]:
    """The same for so many rows drawn, of those that know each factor."""

    def of_rows(part: Codes) -> Float[np.ndarray, "D k"]:
        return shared(predictability, *shared(split, part, train, test, seed), strength)

    return by_factor(codes, shared, of_rows)


def shortcomings(codes: Codes, shared: Shared, train: int, test: int, seed: int) -> list[str]:
    """Flags about the rows that models learn from and are tested on: classes in one part only, constant codes."""
    found = [_shortcomings(*shared(split, part, train, test, seed)) for _, part in shared(own_rows, codes)]
    return sorted({flag for flags in found for flag in flags})


def _shortcomings(learn: Codes, check: Codes) -> list[str]:
    discrete = [k for k, factor in enumerate(learn.about) if factor.kind != "continuous"]
    counts = [[np.bincount(rows.factors[:, k].astype(int)) > 0 for k in discrete] for rows in (learn, check)]
    rare = any(not np.array_equal(a, b) for a, b in zip(*counts, strict=True))
    return ["rare_class"] * rare + ["collapsed"] * (not np.ptp(learn.mean, axis=0).any())


def r_squared(x: Float[np.ndarray, "N D"], y: Float[np.ndarray, "N K"]) -> Float[np.ndarray, "D K"]:
    """The squared correlation of each column of x with each of y; 0 where either does not vary."""
    return correlation(x, y) ** 2


def correlation(
    x: Float[np.ndarray, "N D"], y: Float[np.ndarray, "N K"], weights: Float[np.ndarray, " N"] | None = None
) -> Float[np.ndarray, "D K"]:
    """The correlation of each column of x with each of y; 0 where either does not vary."""
    x, y = (standardised(part, weights=weights)[0] for part in (x, y))
    if weights is None:
        return x.T @ y / len(x)
    return x.T @ (y * weights[:, None]) / weights.sum()


def rank_correlation(
    x: Float[np.ndarray, "N D"], y: Float[np.ndarray, "N K"], weights: Float[np.ndarray, " N"] | None = None
) -> Float[np.ndarray, "D K"]:
    """The same of their ranks, ties sharing theirs (Spearman)."""
    if weights is None:
        return correlation(scipy.stats.rankdata(x, axis=0), scipy.stats.rankdata(y, axis=0))
    return correlation(weighted_ranks(x, weights), weighted_ranks(y, weights), weights)


def weighted_ranks(x: Float[np.ndarray, "N D"], weights: Float[np.ndarray, " N"]) -> Float[np.ndarray, "N D"]:
    """The weight of rows with smaller values, and half of that of rows with the same: ranks, but for a constant."""
    out = np.empty(x.shape)
    for j in range(x.shape[1]):
        place = np.unique(x[:, j], return_inverse=True)[1]
        total = np.bincount(place, weights)
        out[:, j] = (np.cumsum(total) - total / 2)[place]
    return out


def best_match(matrix: Float[np.ndarray, "D K"]) -> Int[np.ndarray, " K"]:
    """A latent of its own for each factor so that the entries' sum is largest; -1 for factors left without one."""
    latents, factors = scipy.optimize.linear_sum_assignment(matrix, maximize=True)
    out = np.full(matrix.shape[1], -1)
    out[factors] = latents
    return out


def matched(matrix: Float[np.ndarray, "D K"], latent: Int[np.ndarray, " K"]) -> Float[np.ndarray, " K"]:
    """The entries of a match; 0 for factors without a latent."""
    return np.where(latent >= 0, matrix[latent, np.arange(len(latent))], 0.0)
