"""How much factors have to do with each other: what scores that compare latents across factors take for granted."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy
from jaxtyping import Float

from sober.estimators.discrete import expected_information
from sober.metrics.discrete import discretised
from sober.metrics.rows import TRAIN, effective_rows, sample
from sober.types import Codes

MOST = 2048  # values of all factors together: their table has the square of it
LEAST = 0.05  # a share of the entropy, below which factors count as independent
CHANCE = 1e-3  # how often independent factors are taken for dependent ones
EXACT = 200  # pairs for which what chance gives is computed exactly


class Dependence(NamedTuple):
    """What pairs of factors share, and the pair that shares most.

    share = I(v_a; v_b) / min(H(v_a), H(v_b)), over the rows that know both: 0 for independent factors, 1 where one is a
    function of the other. It is 0 where it is no more than chance gives independent factors.
    """

    shares: Float[np.ndarray, "K K"]  # 0 on the diagonal
    pair: tuple[str, str]
    largest: float

    @property
    def real(self) -> bool:
        """Whether some pair shares more than a twentieth."""
        return self.largest > LEAST


class Pairs(NamedTuple):
    """Of every two factors, over the rows that know both."""

    counts: Float[np.ndarray, "C K"]  # rows of each value of a factor, beside each other factor
    information: Float[np.ndarray, "K K"]
    least: Float[np.ndarray, "K K"]  # the smaller of their entropies
    freedom: Float[np.ndarray, "K K"]  # (values - 1) (values - 1)
    rows: Float[np.ndarray, "K K"]


def dependence(codes: Codes, seed: int = 0) -> Dependence | None:
    """Of the factors of these codes; None for a single one, or where they have too many values to compare."""
    if len(codes.about) < 2:
        return None
    drawn = sample(discretised(codes), TRAIN, seed)
    if sum(factor.size for factor in drawn.about) > MOST:
        return None
    pairs = _pairs(drawn)
    shares = np.divide(pairs.information, pairs.least, out=np.zeros_like(pairs.least), where=pairs.least > 1e-12)
    shares = np.where(pairs.information > _chance(drawn, pairs), shares.clip(0.0, 1.0), 0.0)
    np.fill_diagonal(shares, 0.0)
    first, second = sorted(int(at) for at in np.unravel_index(np.argmax(shares), shares.shape))
    return Dependence(shares, (codes.about[first].name, codes.about[second].name), float(shares.max()))


def _chance(codes: Codes, pairs: Pairs) -> Float[np.ndarray, "K K"]:
    """The information that independent factors seldom seem to have: by the G-test.

    Where there are hardly more rows than cells its χ² distribution does not hold, and the exact mean over shuffled rows
    is taken, with five standard deviations.
    """
    tests = len(pairs.rows) * (len(pairs.rows) - 1) / 2
    rows, freedom = np.maximum(pairs.rows, 1), np.maximum(pairs.freedom, 1)
    out: np.ndarray = scipy.special.chdtri(freedom, CHANCE / tests) / (2 * rows)
    sparse = np.argwhere(np.triu(pairs.freedom > pairs.rows / 5, 1))
    if codes.weights is not None or len(sparse) > EXACT:
        return out
    ends = np.cumsum([factor.size for factor in codes.about])
    counts = pairs.counts.astype(np.int64)
    for a, b in sparse:
        of_a, of_b = (counts[ends[one] - codes.about[one].size : ends[one], other] for one, other in ((a, b), (b, a)))
        mean = expected_information(of_a, of_b) if of_a.any() else 0.0
        out[a, b] = out[b, a] = mean + 5 * np.sqrt(mean / rows[a, b])
    return out


def _pairs(codes: Codes) -> Pairs:
    """One product of a table of all values with itself counts how often any two of them occur together.

    Factors are classes.
    """
    sizes = np.array([factor.size for factor in codes.about])
    start = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    known = np.ones(codes.factors.shape, bool) if codes.known is None else codes.known
    rows, factors = np.nonzero(known)
    weights = np.ones(len(known)) if codes.weights is None else codes.weights / codes.weights.mean()
    place, shape = (rows, start[factors] + codes.factors[rows, factors]), (len(known), int(sizes.sum()))
    values = scipy.sparse.csr_array((np.ones(len(rows)), place), shape)
    heavy = scipy.sparse.csr_array((weights[rows], place), shape)
    few = shape[1] <= 8 * len(sizes)  # of so few values to a factor a dense product is faster
    joint = values.toarray().T @ heavy.toarray() if few else (values.T @ heavy).toarray()
    weight = scipy.special.xlogy

    def summed(table: np.ndarray, *axes: int) -> np.ndarray:
        for axis in axes:
            table = np.add.reduceat(table, start, axis=axis)
        return table

    of_first = summed(joint, 1)  # (values, K): each value of a factor, in the rows that know the other factor
    total = np.maximum(summed(joint, 0, 1), 1e-300)
    first = np.log(total) - summed(weight(of_first, of_first), 0) / total  # H(v_a), in those rows
    both = np.log(total) - summed(weight(joint, joint), 0, 1) / total
    there = summed((of_first > 0).astype(float), 0)
    information = np.maximum(first + first.T - both, 0.0)
    share = effective_rows(codes) / codes.mean.shape[0]
    return Pairs(of_first, information, np.minimum(first, first.T), (there - 1) * (there.T - 1), total * share)
