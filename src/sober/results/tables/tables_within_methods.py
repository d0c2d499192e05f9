"""Criteria against metrics within one method, where only seeds and strengths differ (Duan et al. 2020).

Differences between methods alone may cause a rank correlation over all methods of a world. The UDR paper therefore
computes it within one model class and one data set, and averages these correlations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.ma import MaskedArray

from sober.results.runs import Runs, places
from sober.results.stats import (
    interval,
    rank_correlations,
    scores_by_partners,
    settings_then_seeds,
)
from sober.results.tables.estimates import ESTIMATE, correlated, frame
from sober.results.tables.number_groups import directed_criteria, paper_scores
from sober.results.tables.table import (
    ONE_METRIC,
    SETTINGS_THEN_SEEDS,
    UDR,
    Need,
    table,
)

if TYPE_CHECKING:
    import polars as pl

    from sober.results.judgement_files import PairScores

PARTNERS = (5, 10, 15, 20, 25, 30, 35, 40, 45)  # as in Duan et al., Table 1
DRAWS = 100  # of partners
ALL_METHODS = "all"  # the methods of a world together
REFERENCE = "metrics with each other"
PAIRS = Need("the pair scores that a study keeps of udr", lambda runs: bool(runs.pairs))
JUDGED = Need("a criterion, such as udr or pipe", lambda runs: bool(directed_criteria(runs)))


@table(
    "Rank correlation of criteria with metrics, over the runs of one method in one world",
    f"{UDR}, Figure 7",
    needs=(JUDGED, ONE_METRIC),
    drawn=SETTINGS_THEN_SEEDS,
)
def criteria_within_methods(runs: Runs, *, resamples: int, seed: int) -> pl.DataFrame:
    """Duan et al., Figure 7: rank correlation of each criterion with each metric, over the runs of a method."""
    numbers = ("criterion", directed_criteria(runs)), ("metric", runs.metrics())
    return correlated(runs, ("world", "method"), *numbers, resamples, seed)


@table(
    "Criteria against metrics within methods: mean over methods, worlds and metrics",
    f"{UDR}, Table 6",
    needs=(JUDGED, ONE_METRIC),
    drawn=SETTINGS_THEN_SEEDS,
    scores=("beta_vae", "factor_vae", "mig", "dci_disentanglement"),
)
def criteria_averages(runs: Runs, *, resamples: int, seed: int) -> pl.DataFrame:
    """Duan et al., Table 6: the mean of `criteria_within_methods` over worlds, methods and the paper's metrics.

    Signs are turned so that agreement is positive. `n` counts the correlations, `std` is their standard deviation, and
    the interval is for their mean, with settings and then seeds drawn again. The last row correlates metrics with each
    other.
    """
    criteria, metrics = directed_criteria(runs), paper_scores(runs, criteria_averages.scores)
    by_method = [
        _oriented_correlations(runs_of_method, [*criteria, *metrics], metrics, resamples, seed)
        for _, runs_of_method in runs.grouped_by("world", "method")
    ]
    rows = [(name, *_averaged([method.select(k) for method in by_method])) for k, name in enumerate(criteria)]
    if len(metrics) > 1:
        metric_pairs = [
            method.select(len(criteria) + k, slice(k + 1, None))
            for method in by_method
            for k in range(len(metrics) - 1)
        ]
        rows.append((REFERENCE, *_averaged(metric_pairs)))
    return frame({"criterion": str, "n": int, **ESTIMATE, "std": float}, rows)


class _Correlations(NamedTuple):
    """Rank correlations within one method of one world, over its runs and over each resample; masked if undefined."""

    values: Float[MaskedArray, "... K"]
    draws: Float[MaskedArray, "R ... K"]

    def select(self, row: int, columns: slice = slice(None)) -> _Correlations:
        """The correlations in one row and some columns."""
        return _Correlations(self.values[row, columns], self.draws[:, row, columns])


def _oriented_correlations(
    runs: Runs, rows: Sequence[str], columns: Sequence[str], resamples: int, seed: int
) -> _Correlations:
    """Correlates every number in `rows` with every number in `columns`, turned so that agreement is positive."""
    row_signs, column_signs = (
        np.array([runs.numbers[name].sign for name in names], float) for names in (rows, columns)
    )
    signs = np.outer(row_signs, column_signs)
    x, y = runs.number_columns(rows), runs.number_columns(columns)
    counts = settings_then_seeds(runs.run_column("setting"), resamples=resamples, seed=seed)
    return _Correlations(signs * rank_correlations(x, y), signs * rank_correlations(x, y, counts=counts))


def _averaged(
    by_method: Sequence[_Correlations],
) -> tuple[int, float | None, float | None, float | None, float | None]:
    """The number of correlations, their mean with its interval, and their standard deviation."""
    values = np.ma.concatenate([correlations.values for correlations in by_method])
    if not values.count():
        return (0, None, None, None, None)
    draws = np.ma.concatenate([correlations.draws for correlations in by_method], axis=1)
    estimate = interval(np.ma.mean(values), np.ma.mean(draws, axis=1))
    return (int(values.count()), *estimate, float(np.ma.std(values)))


@table(
    "Rank correlation of UDR with metrics, by the number of partners",
    f"{UDR}, Table 1 and Figure 9",
    needs=(PAIRS, ONE_METRIC),
    drawn="partners",
)
def udr_by_partners(runs: Runs, *, resamples: int, seed: int) -> pl.DataFrame:
    """Duan et al., Table 1 and Figure 9: rank correlation of UDR with each metric, by the number of partners.

    It is computed within each method, with partners of that method, as in the paper; and over all methods of a world.
    `value` is the mean over draws of partners, `std` their standard deviation; the interval holds 95% of the draws.
    """
    runs, rows = runs.not_diverged(), []
    methods = dict(zip(runs.run_column("run"), runs.run_column("method"), strict=True))
    for pairs in runs.pairs:
        compared_methods = sorted({methods[run] for run in pairs.runs if run in methods})
        for method in [*compared_methods, ALL_METHODS] if len(compared_methods) > 1 else compared_methods:
            members = {run for run in pairs.runs if run in methods and method in (methods[run], ALL_METHODS)}
            partner_rows = _by_partners(runs, pairs, members, min(resamples, DRAWS), seed)
            rows += [(pairs.world, _criterion_name(runs, pairs), method, *row) for row in partner_rows]
    labels = dict.fromkeys(("world", "criterion", "method", "metric"), str)
    return frame({**labels, "partners": int, "n": int, **ESTIMATE, "std": float}, rows)


def _by_partners(
    runs: Runs, pairs: PairScores, members: set[str], draws: int, seed: int
) -> Iterator[tuple[str, int, int, float, float, float, float]]:
    """Rows of the table for the models of these member runs: metric, partners, models, and the correlation."""
    row_of = places(runs.run_column("run").tolist())
    models = [model for model, run in enumerate(pairs.runs) if run in members]
    place = places(models)  # of a model among the members
    member_pairs = [
        (place[int(i)], int(j), float(score)) for i, j, score in pairs.scores if int(i) in place and int(j) in place
    ]
    partner_counts = np.bincount([model for model, _, _ in member_pairs], minlength=len(models))
    fewest = int(partner_counts.min()) if member_pairs else 0
    if not fewest:
        return
    numbers = [*(partners for partners in PARTNERS if partners < fewest), fewest]
    names = runs.metrics()
    columns = runs.number_columns(names)[[row_of[pairs.runs[model]] for model in models]]
    scores_of_numbers = scores_by_partners(member_pairs, len(models), numbers, draws=draws, seed=seed)
    for partners, scores in zip(numbers, scores_of_numbers, strict=True):
        agreement = rank_correlations(scores.T, columns)  # (R, K): draws by metrics
        for k, name in enumerate(names):
            draws_of_metric = agreement[:, k]
            if not np.ma.is_masked(columns[:, k]) and draws_of_metric.count():
                mean, std = float(draws_of_metric.mean()), float(draws_of_metric.std())
                yield name, partners, len(models), mean, mean - 1.96 * std, mean + 1.96 * std, std


def _criterion_name(runs: Runs, pairs: PairScores) -> str:
    """The name of the number that was made from these pairs: the number of this criterion with the same settings."""
    names = [name for name, number in runs.numbers.items() if number.metric == pairs.criterion]
    return next((name for name in names if runs.numbers[name].settings == pairs.settings), pairs.criterion)
