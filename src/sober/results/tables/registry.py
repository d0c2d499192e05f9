"""The papers' tables, by name. To add one: a function with `@table(...)` in a file here, and one line below."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sober.errors import RequestError, choices, listed
from sober.results.runs import Runs, as_runs
from sober.results.tables.agreement import (
    criteria_against_metrics,
    criteria_agreement,
    metric_agreement,
    unified_agreement,
    worlds_agreement,
)
from sober.results.tables.by_variable import merge_thresholds, scores_by_variable
from sober.results.tables.estimates import RESAMPLES
from sober.results.tables.leaderboard import leaderboard
from sober.results.tables.means import best_and_mean_strength, means_by_setting, means_correlation
from sober.results.tables.stability import stability
from sober.results.tables.strengths import means_against_samples, strength_trends
from sober.results.tables.table import ResultTable, Table
from sober.results.tables.tables_of_runs import best_by_criterion, disputed
from sober.results.tables.tables_within_methods import criteria_averages, criteria_within_methods, udr_by_partners
from sober.results.tables.tasks import (
    scores_against_tasks,
    scores_against_tasks_within_methods,
    task_curves,
    tasks_by_group,
)
from sober.results.tables.transfer import transfer
from sober.results.tables.variance import objective_variance, variance_averages

if TYPE_CHECKING:
    import polars as pl

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        metric_agreement,
        criteria_against_metrics,
        criteria_agreement,
        worlds_agreement,
        objective_variance,
        variance_averages,
        transfer,
        means_against_samples,
        strength_trends,
        unified_agreement,
        udr_by_partners,
        criteria_within_methods,
        criteria_averages,
        best_by_criterion,
        means_by_setting,
        best_and_mean_strength,
        means_correlation,
        disputed,
        stability,
        merge_thresholds,
        scores_by_variable,
        scores_against_tasks,
        scores_against_tasks_within_methods,
        tasks_by_group,
        task_curves,
        leaderboard,
    )
}


def make_tables(
    data: pl.DataFrame | Runs, names: Iterable[str] | None = None, *, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[list[ResultTable], dict[str, str]]:
    """Makes the named tables, or all. Returns the tables made, and by name why each other table could not be made."""
    runs = as_runs(data)
    unknown = set(names or ()) - set(TABLES)
    if unknown:
        advice = choices(min(unknown), TABLES, "docs/statistics.md describes all tables")
        raise RequestError(f"there is no table {listed(unknown)}: {advice}")
    tables = list(TABLES.values()) if names is None else [TABLES[name] for name in names]
    lacking = {table.name: why for table in tables if (why := table.lacking(runs))}
    result_tables = [
        ResultTable(table, table(runs, resamples=resamples, seed=seed), table.caption(runs, resamples))
        for table in tables
        if table.name not in lacking
    ]
    return result_tables, lacking
