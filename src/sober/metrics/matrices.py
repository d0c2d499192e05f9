"""The matrices (D, K) that say how much each latent has to do with each factor, each estimated once for given codes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import scipy
from jaxtyping import Bool, Float, Int

from sober.errors import NotMeasuredError, RequestError
from sober.estimators.columns import WIDE, Standardised, Table, dense_stretches, is_sparse, is_wide, spread
from sober.estimators.detection import ranked_columns
from sober.estimators.discrete import BINS, binned, entropy, expected_table, information_and_entropies
from sober.estimators.scaling import standardised
from sober.estimators.sparse_counts import SparseBins
from sober.estimators.sparse_svm import wide_svm_accuracy
from sober.estimators.svm import svm_accuracy
from sober.estimators.vectors import unit_svm_accuracy, units, vector_information
from sober.metrics.discrete import discretised, has_continuous
from sober.metrics.metric import Measured, moved
from sober.metrics.rows import by_factor, effective_rows, own_rows, sample, shuffled, split
from sober.metrics.shapes import unit_spread
from sober.shared import Shared
from sober.types import Codes

VECTORS = 3_000  # rows that the vectors of a unit are compared in, each with each
CHANCE = 1e-3  # how often a latent that knows nothing is taken for one that does, for each factor


def factor_entropy(codes: Codes) -> Float[np.ndarray, " K"]:
    """The entropy of each factor in nats; factors are classes."""
    return entropy(codes.factors, codes.weights)


class Information(NamedTuple):
    """What each latent and each factor hold, and what they share, in nats, counted on the rows that know the factor."""

    matrix: Float[np.ndarray, "D K"]
    of_factors: Float[np.ndarray, " K"]
    of_latents: Float[np.ndarray, "D K"]  # of a vector unit that varies: infinite


def counted_information(codes: Codes, shared: Shared, samples: int, bins: int, seed: int) -> Information:
    """Of so many rows drawn; latents, and factors that are continuous, are cut into bins of equal width."""

    def of_rows(part: Codes) -> Information:
        return shared(information_and_counts, shared(sample, part, samples, seed), bins)[0]

    return by_factor(shared(discretised, codes, bins), shared, of_rows)


def mutual_information(codes: Codes, bins: int = BINS) -> Float[np.ndarray, "D K"]:
    """I(latent; factor) in nats, latents cut into bins of equal width; factors are classes."""
    return information(codes, bins).matrix


def information(codes: Codes, bins: int = BINS) -> Information:
    """The same, and the entropies of latents and factors."""
    return information_and_counts(codes, bins)[0]


def information_and_counts(codes: Codes, bins: int = BINS) -> tuple[Information, Int[np.ndarray, "D B"]]:
    """The same, and how many rows each latent has in each of its bins.

    What a vector unit knows is estimated from nearest neighbours instead, and is at most the factor's entropy; it has
    no bins.
    """
    if codes.unit > 1:
        matrix, of_latents = unit_information(codes), np.where(unit_spread(codes) > 0, np.inf, 0.0)
        counts = np.zeros((len(matrix), 0), np.int64)
    elif is_sparse(codes.mean):
        cut = SparseBins.of(codes.mean, bins)
        matrix, of_latents = cut.information(codes.factors, codes.weights), cut.entropy(codes.weights)
        counts = cut.counts()
    else:
        parts = (binned(x, bins) for _, x in dense_stretches(codes.mean))
        found = [(*information_and_entropies(x, codes.factors, codes.weights)[:2], _counts(x, bins)) for x in parts]
        matrix, of_latents, counts = (np.concatenate(kind) for kind in zip(*found, strict=True))
    of_latents = np.broadcast_to(of_latents[:, None], matrix.shape)
    return Information(matrix, factor_entropy(codes), of_latents), counts


def _counts(x: Int[np.ndarray, "N D"], bins: int) -> Int[np.ndarray, "D B"]:
    return np.stack([np.bincount(column, minlength=bins) for column in x.T])


def unit_information(codes: Codes) -> Float[np.ndarray, "U K"]:
    """I(unit; factor) in nats, by nearest neighbours; factors are classes."""
    if codes.weights is not None:
        raise NotMeasuredError("distances of vector units have no form in which rows have weights")
    rows = shuffled(len(codes.factors), 0)[:VECTORS]
    factors = codes.factors[rows]
    return np.minimum(vector_information(codes.mean[rows], codes.unit, factors), entropy(factors))


Rule = Callable[[Information, Bool[np.ndarray, " D"]], Mapping[str, float]]


def corrected(
    measured: Measured, rule: Rule, codes: Codes, shared: Shared, samples: int, bins: int, seed: int
) -> Measured:
    """Scores of information, beside what they are without chance, where that is far from them.

    `rule` makes them of the information beyond chance and of the latents that have some. Of vector units nothing is
    known of chance.
    """
    if codes.unit > 1:
        return measured

    def of_rows(part: Codes) -> tuple[Information, Bool[np.ndarray, "D k"]]:
        drawn = shared(sample, part, samples, seed)
        return shared(beyond_chance, drawn, bins, shared)

    found, knows = by_factor(shared(discretised, codes, bins), shared, of_rows)
    return moved(measured, rule(found, np.logical_or.reduce(knows, axis=1)))


def beyond_chance(codes: Codes, bins: int, shared: Shared) -> tuple[Information, Bool[np.ndarray, "D K"]]:
    """Information less its mean over all orders of the rows, and where it is more than chance gives.

    It is 0 where it is not: by the G-test, at a level that one latent of a thousand codes passes. Factors are classes.
    """
    found, counts = shared(information_and_counts, codes, bins)
    knows = above_chance(codes, found.matrix, np.count_nonzero(counts, axis=1), CHANCE / len(found.matrix))
    of_factors = [np.bincount(column) for column in codes.factors.T]
    chance = expected_table(list(counts), of_factors, None if codes.weights is None else effective_rows(codes))
    return found._replace(matrix=np.where(knows, np.maximum(found.matrix - chance, 0.0), 0.0)), knows


def above_chance(
    codes: Codes, matrix: Float[np.ndarray, "D K"], used: Int[np.ndarray, " D"], level: float = CHANCE
) -> Bool[np.ndarray, "D K"]:
    """Entries of information that are more than independent latents show in so few rows; `used` bins have rows.

    Twice the number of rows times the estimated information of independent classes follows a χ² distribution with
    (bins in use - 1) · (classes - 1) degrees of freedom (the G-test). Rows with weights count as fewer (Kish 1965).
    """
    classes = np.array([factor.size for factor in codes.about])
    freedom = np.maximum((used[:, None] - 1) * (classes[None, :] - 1), 1)
    least: Float[np.ndarray, "D K"] = scipy.special.chdtri(freedom, level) / (2 * effective_rows(codes))
    return matrix > least


def known_shares(found: Information, over: str) -> Float[np.ndarray, "D K"]:
    """I(latent; factor) as a share of the factor's entropy, or of the latent's own; 0 where there is nothing to know.

    `over` is `factor` or `code`.
    """
    if over not in ("factor", "code"):
        raise RequestError(f"over must be 'factor' or 'code', not {over!r}: whose entropy information is divided by")
    if over == "code" and np.isinf(found.of_latents).any():
        raise NotMeasuredError("it divides by the entropy of a latent in bins, and a vector unit has none")
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
    A vector unit predicts with all its numbers, linearly.
    """
    out = np.empty((learn.mean.shape[1] // learn.unit, len(learn.about)))
    number = np.array([factor.kind == "continuous" for factor in learn.about], bool)
    if number.any():
        explained = r_squared if learn.unit == 1 else functools.partial(unit_r_squared, unit=learn.unit)
        out[:, number] = explained(learn.mean, learn.factors[:, number])
    if not number.all():
        truth, answer = (part.factors[:, ~number].astype(np.int64) for part in (learn, check))
        if learn.unit > 1:
            out[:, ~number] = unit_svm_accuracy(learn.mean, truth, check.mean, answer, learn.unit, C=strength)
        else:
            accuracy = wide_svm_accuracy if is_wide(learn.mean) else svm_accuracy
            out[:, ~number] = accuracy(learn.mean, truth, check.mean, answer, C=strength)
    return out


def unit_r_squared(x: Table, y: Float[np.ndarray, "N K"], unit: int) -> Float[np.ndarray, "U K"]:
    """How much of each column of y a linear model of each unit explains, in sample; 0 where y does not vary."""
    y = standardised(y)[0]
    out = []
    for columns in units(x, unit):
        part = standardised(columns)[0]
        guess = part @ np.linalg.lstsq(part, y, rcond=None)[0]
        out.append(np.clip(np.mean(guess * y, axis=0), 0.0, 1.0))  # the share of its variance: y and guess are centred
    return np.array(out)


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
    return ["rare_class"] * rare + ["collapsed"] * (not spread(learn.mean).any())


def r_squared(x: Table, y: Float[np.ndarray, "N K"]) -> Float[np.ndarray, "D K"]:
    """The squared correlation of each column of x with each of y; 0 where either does not vary."""
    return correlation(x, y) ** 2


def correlation(
    x: Table, y: Float[np.ndarray, "N K"], weights: Float[np.ndarray, " N"] | None = None
) -> Float[np.ndarray, "D K"]:
    """The correlation of each column of x with each of y; 0 where either does not vary."""
    if is_wide(x):
        _refuse_weights(weights)
        return Standardised(x).against(standardised(y)[0].T).T / len(y)
    x, y = (standardised(part, weights=weights)[0] for part in (x, y))
    if weights is None:
        return x.T @ y / len(x)
    return x.T @ (y * weights[:, None]) / weights.sum()


def rank_correlation(
    x: Table, y: Float[np.ndarray, "N K"], weights: Float[np.ndarray, " N"] | None = None
) -> Float[np.ndarray, "D K"]:
    """The same of their ranks, ties sharing theirs (Spearman)."""
    if is_wide(x):
        _refuse_weights(weights)
        ranks = standardised(scipy.stats.rankdata(y, axis=0))[0]
        return np.concatenate([_ranks_with(part, ranks) for part in _column_parts(x)])
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


def _refuse_weights(weights: Float[np.ndarray, " N"] | None) -> None:
    if weights is not None:
        raise NotMeasuredError(f"correlations of more than {WIDE} latents have no form in which rows have weights")


def _column_parts(x: Table) -> Iterator[Table]:
    """Its columns, a stretch at a time; all of them where they are sparse."""
    if is_sparse(x):
        yield x
    else:
        yield from (part for _, part in dense_stretches(x))


def _ranks_with(x: Table, y: Float[np.ndarray, "N K"]) -> Float[np.ndarray, "D K"]:
    """Correlations of the ranks of x with standardised y. Ranks less that of 0 are sparse where x is."""
    if is_sparse(x):
        ranks = ranked_columns(x)[1]
        table = scipy.sparse.csc_array((ranks.value, ranks.row, ranks.start), shape=x.shape)
        return Standardised(table.tocsr()).against(y.T).T / len(y)
    return standardised(scipy.stats.rankdata(x, axis=0))[0].T @ y / len(y)


def best_match(matrix: Float[np.ndarray, "D K"]) -> Int[np.ndarray, " K"]:
    """A latent of its own for each factor so that the entries' sum is largest; -1 for factors left without one."""
    latents, factors = scipy.optimize.linear_sum_assignment(matrix, maximize=True)
    out = np.full(matrix.shape[1], -1)
    out[factors] = latents
    return out


def matched(matrix: Float[np.ndarray, "D K"], latent: Int[np.ndarray, " K"]) -> Float[np.ndarray, " K"]:
    """The entries of a match; 0 for factors without a latent."""
    return np.where(latent >= 0, matrix[latent, np.arange(len(latent))], 0.0)
