"""How much factors depend on each other. Scores that compare latents across factors assume that they do not."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy
from jaxtyping import Float

from sober.estimators.discrete import expected_information
from sober.metrics.common.factor_classes import discretised
from sober.metrics.common.metric_rows import TRAIN, effective_rows, sample
from sober.short_text import as_call
from sober.types import Codes

MOST = 2048  # values of all factors together at most: their table has the square of this number of cells
LEAST = 0.05  # factors that share less of their entropy count as independent
CHANCE = 1e-3  # how often independent factors are wrongly taken as dependent
EXACT = 200  # at most this many pairs of factors have their information by chance computed exactly


class Dependence(NamedTuple):
    """How much information pairs of factors share, and the pair that shares most.

    share = I(v_a; v_b) / min(H(v_a), H(v_b)), over the rows in which both are known: 0 for independent factors, 1 if
    one is a function of the other. Shares that chance explains are set to 0.
    """

    shares: Float[np.ndarray, "K K"]  # 0 on the diagonal
    pair: tuple[str, str]
    largest: float

    def __repr__(self) -> str:
        return as_call(self)

    @property
    def real(self) -> bool:
        """Whether some pair shares more than a twentieth."""
        return self.largest > LEAST


class Pairs(NamedTuple):
    """Counts and information of every two factors, over the rows in which both are known."""

    counts: Float[np.ndarray, "C K"]  # how many rows have a value of one factor and know another factor
    information: Float[np.ndarray, "K K"]
    least: Float[np.ndarray, "K K"]  # the smaller of their entropies
    freedom: Float[np.ndarray, "K K"]  # (values - 1) (values - 1)
    rows: Float[np.ndarray, "K K"]


def dependence(codes: Codes, seed: int = 0) -> Dependence | None:
    """How much the factors of these codes depend on each other; None for a single factor, or too many values."""
    if len(codes.about) < 2:
        return None
    drawn = sample(discretised(codes), TRAIN, seed)
    if sum(factor.size for factor in drawn.about) > MOST:
        return None
    pairs = _pairs(drawn)
    shares = np.divide(pairs.information, pairs.least, out=np.zeros_like(pairs.least), where=pairs.least > 1e-12)
    shares = np.where(pairs.information > _chance(drawn, pairs), shares.clip(0.0, 1.0), 0.0)
    np.fill_diagonal(shares, 0.0)
    first, second = sorted(int(index) for index in np.unravel_index(np.argmax(shares), shares.shape))
    return Dependence(shares, (codes.about[first].name, codes.about[second].name), float(shares.max()))


def _chance(codes: Codes, pairs: Pairs) -> Float[np.ndarray, "K K"]:
    """The information that independent factors rarely exceed, by the G-test.

    With hardly more rows than cells the χ² distribution does not hold. The bound is then the exact mean over shuffled
    rows plus five standard deviations.
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
        of_a, of_b = (
            counts[ends[factor] - codes.about[factor].size : ends[factor], beside]
            for factor, beside in ((a, b), (b, a))
        )
        mean = expected_information(of_a, of_b) if of_a.any() else 0.0
        out[a, b] = out[b, a] = mean + 5 * np.sqrt(mean / rows[a, b])
    return out


def _pairs(codes: Codes) -> Pairs:
    """Counts how often any two values occur together, by one product of a table of all values with itself.

    Factors must be classes.
    """
    sizes = np.array([factor.size for factor in codes.about])
    start = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    is_known = np.ones(codes.factors.shape, bool) if codes.known is None else codes.known
    rows, factors = np.nonzero(is_known)
    weights = np.ones(len(is_known)) if codes.weights is None else codes.weights / codes.weights.mean()
    place, shape = (rows, start[factors] + codes.factors[rows, factors]), (len(is_known), int(sizes.sum()))
    values = scipy.sparse.csr_array((np.ones(len(rows)), place), shape)
    weighted = scipy.sparse.csr_array((weights[rows], place), shape)
    dense = shape[1] <= 8 * len(sizes)  # with few values per factor a dense product is faster
    joint = values.toarray().T @ weighted.toarray() if dense else (values.T @ weighted).toarray()
    x_log_x = scipy.special.xlogy

    def summed(table: np.ndarray, *axes: int) -> np.ndarray:
        for axis in axes:
            table = np.add.reduceat(table, start, axis=axis)
        return table

    of_first = summed(joint, 1)  # (values, K): how often each value occurs in rows that know the other factor
    total = np.maximum(summed(joint, 0, 1), 1e-300)
    entropy = np.log(total) - summed(x_log_x(of_first, of_first), 0) / total  # H(v_a), in those rows
    joint_entropy = np.log(total) - summed(x_log_x(joint, joint), 0, 1) / total
    present = summed((of_first > 0).astype(float), 0)
    information = np.maximum(entropy + entropy.T - joint_entropy, 0.0)
    share = effective_rows(codes) / codes.mean.shape[0]
    return Pairs(of_first, information, np.minimum(entropy, entropy.T), (present - 1) * (present.T - 1), total * share)
