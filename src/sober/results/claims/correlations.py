"""Rank correlations with intervals, and the same within methods and after taking out the KL.

The KL says how much a model keeps, and most numbers about models go with it. A correlation that is there within
methods, and at equal KL, says more.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Int
from numpy.ma import MaskedArray

from sober.results.runs import Runs
from sober.results.stats import Interval, interval, partial_rank_correlations, rank_correlations, settings_then_seeds

RESAMPLES = 1_000


class Controlled(NamedTuple):
    """Rank correlations of A numbers with B numbers, each an Interval of (A, B): plain, and with two controls."""

    plain: Interval
    within: Interval  # mean over methods of the correlations within one method
    given_kl: Interval  # after taking out the KL

    def __repr__(self) -> str:
        return f"Controlled({' × '.join(map(str, self.plain.value.shape))} rank correlations, with two controls)"


def draws_of(runs: Runs) -> Int[np.ndarray, "R N"]:
    """How often each run is drawn in each resample, which draws settings and then seeds, as the tables do."""
    return settings_then_seeds(runs.run_column("setting"), resamples=RESAMPLES, seed=0)


def controlled(runs: Runs, left: MaskedArray, right: MaskedArray) -> Controlled:
    """Correlates the columns of two arrays with a row for each run."""
    counts, kl = draws_of(runs), runs.number_columns(["kl"])[:, 0]
    methods = runs.run_column("method")
    values, draws = [], []
    for method in runs.unique("method"):
        rows = methods == method
        values.append(rank_correlations(left[rows], right[rows]))
        draws.append(rank_correlations(left[rows], right[rows], counts=counts[:, rows]))
    return Controlled(
        interval(rank_correlations(left, right), rank_correlations(left, right, counts=counts)),
        interval(np.ma.mean(np.ma.stack(values), axis=0), np.ma.mean(np.ma.stack(draws), axis=0)),
        interval(partial_rank_correlations(left, right, kl), partial_rank_correlations(left, right, kl, counts=counts)),
    )


def cell(intervals: Interval, *place: int) -> Interval:
    """One of the intervals in an array of them."""
    ends = (array[place] for array in intervals)
    return Interval(*(None if end is np.ma.masked else float(end) for end in ends))
