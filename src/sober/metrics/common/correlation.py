"""The correlation of latents with factors, and of their ranks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy
from jaxtyping import Float

from sober.errors import NotMeasuredError
from sober.estimators.detection import ranked_columns
from sober.estimators.scaling import standardised
from sober.estimators.wide.wide_tables import WIDE, Standardised, Table, dense_stretches, is_sparse, is_wide


def r_squared(x: Table, y: Float[np.ndarray, "N K"]) -> Float[np.ndarray, "D K"]:
    """The squared correlation of each column of x with each of y; 0 if either does not vary."""
    return correlation(x, y) ** 2


def correlation(
    x: Table, y: Float[np.ndarray, "N K"], weights: Float[np.ndarray, " N"] | None = None
) -> Float[np.ndarray, "D K"]:
    """The correlation of each column of x with each of y; 0 if either does not vary."""
    if is_wide(x):
        _refuse_weights(weights)
        return Standardised(x).against(standardised(y)[0].T).T / len(y)
    x, y = (standardised(array, weights=weights)[0] for array in (x, y))
    if weights is None:
        return x.T @ y / len(x)
    return x.T @ (y * weights[:, None]) / weights.sum()


def rank_correlation(
    x: Table, y: Float[np.ndarray, "N K"], weights: Float[np.ndarray, " N"] | None = None
) -> Float[np.ndarray, "D K"]:
    """The correlation of ranks; tied values share a rank (Spearman)."""
    if is_wide(x):
        _refuse_weights(weights)
        ranks = standardised(scipy.stats.rankdata(y, axis=0))[0]
        return np.concatenate([_ranks_with(block, ranks) for block in _column_blocks(x)])
    if weights is None:
        return correlation(scipy.stats.rankdata(x, axis=0), scipy.stats.rankdata(y, axis=0))
    return correlation(weighted_ranks(x, weights), weighted_ranks(y, weights), weights)


def weighted_ranks(x: Float[np.ndarray, "N D"], weights: Float[np.ndarray, " N"]) -> Float[np.ndarray, "N D"]:
    """Ranks up to a constant: the weight of rows with smaller values, plus half that of rows with the same value."""
    out = np.empty(x.shape)
    for j in range(x.shape[1]):
        place = np.unique(x[:, j], return_inverse=True)[1]
        total = np.bincount(place, weights)
        out[:, j] = (np.cumsum(total) - total / 2)[place]
    return out


def _refuse_weights(weights: Float[np.ndarray, " N"] | None) -> None:
    if weights is not None:
        raise NotMeasuredError(f"correlations of more than {WIDE} latents have no form in which rows have weights")


def _column_blocks(x: Table) -> Iterator[Table]:
    """The columns, some at a time; all at once if they are sparse."""
    if is_sparse(x):
        yield x
    else:
        yield from (block for _, block in dense_stretches(x))


def _ranks_with(x: Table, y: Float[np.ndarray, "N K"]) -> Float[np.ndarray, "D K"]:
    """Correlations of the ranks of x with standardised y. Less the rank of 0, ranks are as sparse as x."""
    if is_sparse(x):
        ranks = ranked_columns(x)[1]
        table = scipy.sparse.csc_array((ranks.value, ranks.row, ranks.start), shape=x.shape)
        return Standardised(table.tocsr()).against(y.T).T / len(y)
    return standardised(scipy.stats.rankdata(x, axis=0))[0].T @ y / len(y)
