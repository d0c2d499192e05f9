"""The mutual information (D, K) of each latent with each factor, and what chance adds to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import scipy
from jaxtyping import Bool, Float, Int

from sober.errors import NotMeasuredError, RequestError
from sober.estimators.discrete import BINS, binned, entropy, expected_table, information_and_entropies
from sober.estimators.vectors import vector_information
from sober.estimators.wide.sparse_counts import SparseBins
from sober.estimators.wide.wide_tables import dense_stretches, is_sparse
from sober.metrics.common.factor_classes import discretised, has_continuous
from sober.metrics.common.metric_rows import by_factor, effective_rows, sample, shuffled
from sober.metrics.common.shapes import unit_spread
from sober.metrics.metric import Measured, moved
from sober.shared import Shared
from sober.types import Codes

VECTORS = 3_000  # rows at most in which a unit's vectors are compared, each with each
CHANCE = 1e-3  # how often an uninformative latent is taken as informative, for each factor


def factor_entropy(codes: Codes) -> Float[np.ndarray, " K"]:
    """The entropy of each factor in nats; factors are classes."""
    return entropy(codes.factors, codes.weights)


class Information(NamedTuple):
    """Entropies of latents and factors and their mutual information, in nats, on rows in which the factor is known."""

    matrix: Float[np.ndarray, "D K"]
    of_factors: Float[np.ndarray, " K"]
    of_latents: Float[np.ndarray, "D K"]  # infinite for a vector unit that varies


def counted_information(codes: Codes, shared: Shared, samples: int, bins: int, seed: int) -> Information:
    """The information in a sample of rows. Latents and continuous factors are cut into bins of equal width."""

    def of_rows(subset: Codes) -> Information:
        return shared(information_and_counts, shared(sample, subset, samples, seed), bins)[0]

    return by_factor(shared(discretised, codes, bins), shared, of_rows)


def mutual_information(codes: Codes, bins: int = BINS) -> Float[np.ndarray, "D K"]:
    """I(latent; factor) in nats, latents cut into bins of equal width. Factors must be classes."""
    return information(codes, bins).matrix


def information(codes: Codes, bins: int = BINS) -> Information:
    """Mutual information, and the entropies of latents and factors."""
    return information_and_counts(codes, bins)[0]


def information_and_counts(codes: Codes, bins: int = BINS) -> tuple[Information, Int[np.ndarray, "D B"]]:
    """The information, and how many rows each latent has in each of its bins.

    A vector unit has no bins: its information is estimated from nearest neighbours, at most the factor's entropy.
    """
    if codes.unit > 1:
        matrix, of_latents = unit_information(codes), np.where(unit_spread(codes) > 0, np.inf, 0.0)
        counts = np.zeros((len(matrix), 0), np.int64)
    elif is_sparse(codes.mean):
        cut = SparseBins.of(codes.mean, bins)
        matrix, of_latents = cut.information(codes.factors, codes.weights), cut.entropy(codes.weights)
        counts = cut.counts()
    else:
        blocks = (binned(x, bins) for _, x in dense_stretches(codes.mean))
        estimates = [
            (*information_and_entropies(x, codes.factors, codes.weights)[:2], _counts(x, bins)) for x in blocks
        ]
        matrix, of_latents, counts = (np.concatenate(kind) for kind in zip(*estimates, strict=True))
    of_latents = np.broadcast_to(of_latents[:, None], matrix.shape)
    return Information(matrix, factor_entropy(codes), of_latents), counts


def _counts(x: Int[np.ndarray, "N D"], bins: int) -> Int[np.ndarray, "D B"]:
    return np.stack([np.bincount(column, minlength=bins) for column in x.T])


def unit_information(codes: Codes) -> Float[np.ndarray, "U K"]:
    """I(unit; factor) in nats, by nearest neighbours. Factors must be classes."""
    if codes.weights is not None:
        raise NotMeasuredError("distances of vector units have no form in which rows have weights")
    rows = shuffled(len(codes.factors), 0)[:VECTORS]
    factors = codes.factors[rows]
    return np.minimum(vector_information(codes.mean[rows], codes.unit, factors), entropy(factors))


Rule = Callable[[Information, Bool[np.ndarray, " D"]], Mapping[str, float]]


def corrected(
    measured: Measured, rule: Rule, codes: Codes, shared: Shared, samples: int, bins: int, seed: int
) -> Measured:
    """Adds corrected scores, without what chance contributes, if they are far from the scores.

    `rule` computes scores from the information beyond chance and the latents that have some. For vector units the
    contribution of chance is not known, so nothing is corrected.
    """
    if codes.unit > 1:
        return measured

    def of_rows(subset: Codes) -> tuple[Information, Bool[np.ndarray, "D k"]]:
        drawn = shared(sample, subset, samples, seed)
        return shared(beyond_chance, drawn, bins, shared)

    estimate, knows = by_factor(shared(discretised, codes, bins), shared, of_rows)
    return moved(measured, rule(estimate, np.logical_or.reduce(knows, axis=1)))


def beyond_chance(codes: Codes, bins: int, shared: Shared) -> tuple[Information, Bool[np.ndarray, "D K"]]:
    """The information less its mean over shuffled rows, and which entries exceed chance; the others are set to 0.

    The G-test decides, at a level at which one uninformative code in a thousand has a latent that passes. Factors must
    be classes.
    """
    estimate, counts = shared(information_and_counts, codes, bins)
    knows = above_chance(codes, estimate.matrix, np.count_nonzero(counts, axis=1), CHANCE / len(estimate.matrix))
    of_factors = [np.bincount(column) for column in codes.factors.T]
    chance = expected_table(list(counts), of_factors, None if codes.weights is None else effective_rows(codes))
    return estimate._replace(matrix=np.where(knows, np.maximum(estimate.matrix - chance, 0.0), 0.0)), knows


def above_chance(
    codes: Codes, matrix: Float[np.ndarray, "D K"], used: Int[np.ndarray, " D"], level: float = CHANCE
) -> Bool[np.ndarray, "D K"]:
    """Which entries of information exceed what independent latents show in as few rows; `used` counts bins with rows.

    Twice the number of rows times the estimated information of independent classes follows a χ² distribution with
    (bins in use - 1) · (classes - 1) degrees of freedom (the G-test). Rows with weights count as fewer (Kish 1965).
    """
    classes = np.array([factor.size for factor in codes.about])
    freedom = np.maximum((used[:, None] - 1) * (classes[None, :] - 1), 1)
    least: Float[np.ndarray, "D K"] = scipy.special.chdtri(freedom, level) / (2 * effective_rows(codes))
    return matrix > least


def known_shares(estimate: Information, over: str) -> Float[np.ndarray, "D K"]:
    """I(latent; factor) as a share of the entropy of the factor or of the latent; 0 if that entropy is 0.

    `over` is `factor` or `code`.
    """
    if over not in ("factor", "code"):
        raise RequestError(f"over must be 'factor' or 'code', not {over!r}: whose entropy information is divided by")
    if over == "code" and np.isinf(estimate.of_latents).any():
        raise NotMeasuredError("it divides by the entropy of a latent in bins, and a vector unit has none")
    divisor = estimate.of_factors[None, :] if over == "factor" else estimate.of_latents
    return np.divide(estimate.matrix, divisor, out=np.zeros_like(estimate.matrix), where=divisor > 0)


def information_flags(codes: Codes, estimate: Information) -> list[str]:
    """Flags about information: none at all, constant latents, a single latent or factor, binned factors."""
    matrix = estimate.matrix
    flags = ["collapsed"] * (not matrix.any()) + ["dead_latent"] * bool((estimate.of_latents == 0).any())
    flags += ["one_latent"] * (len(matrix) == 1) + ["one_factor"] * (matrix.shape[1] == 1)
    return flags + ["binned_factor"] * has_continuous(codes)
