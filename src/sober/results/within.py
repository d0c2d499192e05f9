"""Criteria against metrics within one method, where only seeds and strengths differ (Duan et al. 2020).

Over all methods of a world a rank correlation may come from differences between methods alone. The UDR paper compares
within a model class and a data set, and then averages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.ma import MaskedArray

from sober.results.checklist import scores_of
from sober.results.estimates import ESTIMATE, RESAMPLES, correlated, frame
from sober.results.runs import Runs, as_runs, places
from sober.results.stats import interval, rank_correlations, resampled, scores_by_partners

if TYPE_CHECKING:
    import polars as pl

    from sober.results.judged import Pairs

PARTNERS = (5, 10, 15, 20, 25, 30, 35, 40, 45)  # as in Duan et al., Table 1
DRAWS = 100  # of partners
ALL = "all"  # the methods of a world together
REFERENCE = "metrics with each other"


def criteria_within_methods(data: pl.DataFrame | Runs, *, resamples: int = RESAMPLES, seed: int = 0) -> pl.DataFrame:
    """Duan et al., Figure 7: rank correlation of each criterion with each metric, over the runs of a method."""
    runs = as_runs(data)
    numbers = ("criterion", judging(runs)), ("metric", runs.metrics())
    return correlated(runs, ("world", "method"), *numbers, resamples, seed)


def criteria_averages(data: pl.DataFrame | Runs, *, resamples: int = RESAMPLES, seed: int = 0) -> pl.DataFrame:
    """Duan et al., Table 6: the mean of those correlations over worlds, methods and the paper's metrics.

    Each is turned so that agreement is positive. `std` is over the correlations, of which there are `n`; the interval
    is of the mean, with runs drawn again. The last row is of each two of the metrics, in place of a criterion.
    """
    runs = as_runs(data)
    criteria, metrics = judging(runs), scored(runs, criteria_averages.__name__)
    cells = [_turned(part, [*criteria, *metrics], metrics, resamples, seed) for _, part in runs.by("world", "method")]
    rows = [(name, *_averaged([cell.of(place) for cell in cells])) for place, name in enumerate(criteria)]
    if len(metrics) > 1:
        others = [cell.of(len(criteria) + k, slice(k + 1, None)) for cell in cells for k in range(len(metrics) - 1)]
        rows.append((REFERENCE, *_averaged(others)))
    return frame({"criterion": str, "n": int, **ESTIMATE, "std": float}, rows)


class _Cell(NamedTuple):
    """Rank correlations within one method of one world, and the same of each resample, masked where not defined."""

    values: Float[MaskedArray, "... K"]
    draws: Float[MaskedArray, "R ... K"]

    def of(self, row: int, columns: slice = slice(None)) -> _Cell:
        """Those of one number with some of the metrics."""
        return _Cell(self.values[row, columns], self.draws[:, row, columns])


def _turned(part: Runs, rows: Sequence[str], columns: Sequence[str], resamples: int, seed: int) -> _Cell:
    """Each of some numbers with each of others, turned so that agreement is positive."""
    of_rows, of_columns = (np.array([part.numbers[name].sign for name in names], float) for names in (rows, columns))
    signs = np.outer(of_rows, of_columns)
    x, y = part.columns(rows), part.columns(columns)
    counts = resampled(len(x), resamples=resamples, seed=seed)
    return _Cell(signs * rank_correlations(x, y), signs * rank_correlations(x, y, counts=counts))


def _averaged(cells: Sequence[_Cell]) -> tuple[int, float | None, float | None, float | None, float | None]:
    """How many there are, their mean with its interval, and their standard deviation."""
    values = np.ma.concatenate([cell.values for cell in cells])
    if not values.count():
        return (0, None, None, None, None)
    draws = np.ma.concatenate([cell.draws for cell in cells], axis=1)
    estimate = interval(np.ma.mean(values), np.ma.mean(draws, axis=1))
    return (int(values.count()), *estimate, float(np.ma.std(values)))


def udr_by_partners(data: pl.DataFrame | Runs, *, resamples: int = RESAMPLES, seed: int = 0) -> pl.DataFrame:
    """Duan et al., Table 1 and Figure 9: rank correlation of UDR with each metric when models have so many partners.

    Within each method, among partners of that method, as in the paper; and over the methods of a world together.
    `value` is the mean over draws of partners, `std` their standard deviation; the interval holds 95% of the draws.
    """
    runs, rows = as_runs(data).sound(), []
    methods = dict(zip(runs.labels("run"), runs.labels("method"), strict=True))
    for pairs in runs.pairs:
        there = sorted({methods[run] for run in pairs.runs if run in methods})
        for method in [*there, ALL] if len(there) > 1 else there:
            members = {run for run in pairs.runs if run in methods and method in (methods[run], ALL)}
            rows += [(pairs.world, _variant(runs, pairs), method, *row) for row in _by_partners(
                runs, pairs, members, min(resamples, DRAWS), seed)]  # fmt: skip
    labels = dict.fromkeys(("world", "criterion", "method", "metric"), str)
    return frame({**labels, "partners": int, "n": int, **ESTIMATE, "std": float}, rows)


def _by_partners(
    runs: Runs, pairs: Pairs, members: set[str], draws: int, seed: int
) -> Iterator[tuple[str, int, int, float, float, float, float]]:
    row_of = places(runs.labels("run").tolist())
    known = [model for model, run in enumerate(pairs.runs) if run in members]
    new = places(known)
    inside = [(new[int(i)], int(j), float(score)) for i, j, score in pairs.scores if int(i) in new and int(j) in new]
    fewest = int(np.bincount([model for model, _, _ in inside], minlength=len(known)).min()) if inside else 0
    if not fewest:
        return
    numbers = [*(partners for partners in PARTNERS if partners < fewest), fewest]
    names, columns = runs.metrics(), runs.columns(runs.metrics())[[row_of[pairs.runs[model]] for model in known]]
    for partners, scores in zip(
        numbers, scores_by_partners(inside, len(known), numbers, draws=draws, seed=seed), strict=True
    ):
        agreement = rank_correlations(scores.T, columns)  # (R, K): draws by metrics
        for k, name in enumerate(names):
            of_metric = agreement[:, k]
            if not np.ma.is_masked(columns[:, k]) and of_metric.count():
                mean, std = float(of_metric.mean()), float(of_metric.std())
                yield name, partners, len(known), mean, mean - 1.96 * std, mean + 1.96 * std, std


def _variant(runs: Runs, pairs: Pairs) -> str:
    """The name of the criterion whose pairs these are, among those of one criterion with other settings."""
    names = [name for name, number in runs.numbers.items() if number.metric == pairs.criterion]
    return next((name for name in names if runs.numbers[name].settings == pairs.settings), pairs.criterion)


def judging(runs: Runs) -> list[str]:
    """What criteria said; not numbers of training, nor metrics that happen to need no labels."""
    return [name for name in runs.criteria() if runs.numbers[name].kind == "criterion" and runs.numbers[name].sign]


def scored(runs: Runs, table: str) -> list[str]:
    """The scores that a paper's table is about, as far as they are there; with fewer than two, all that have an end."""
    of_paper = runs.of_metrics(scores_of(table))
    with_end = [name for name in runs.metrics() if runs.numbers[name].sign]
    return of_paper if len(of_paper) > 1 else with_end
