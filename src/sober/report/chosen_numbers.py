"""Which numbers a report chooses where it has room for a few, and which ones it shows once."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sober.results import Runs
from sober.results.runs import score_meanings

FEW_METRICS, FEW_TASKS = 3, 2  # numbers from metrics and from tasks in a small table, at most


def few_numbers(runs: Runs) -> list[str]:
    """The numbers for a small table: a few metrics and tasks with a better direction, then the leading criteria.

    A criterion that was used with several settings has one number.
    """
    metrics = [name for name in distinct_numbers(runs, runs.metrics()) if runs.numbers[name].sign]
    tasks = [name for name in runs.headline_tasks() if runs.numbers[name].sign]
    criteria = dict.fromkeys(runs.numbers[name].metric for name in runs.headline_criteria())
    return [*metrics[:FEW_METRICS], *tasks[:FEW_TASKS], *runs.numbers_of(list(criteria))]


def distinct_numbers(runs: Runs, names: Iterable[str]) -> list[str]:
    """Numbers in reading order, and of numbers that are equal by definition and in every run only the first."""
    ordered = runs.ordered(names)
    of_metric = {(runs.numbers[name].metric, runs.numbers[name].preset): name for name in ordered}
    meanings = score_meanings()
    distinct = []
    for name in ordered:
        number = runs.numbers[name]
        meaning = meanings.get(number.metric)
        original = of_metric.get((meaning.same_as, number.preset)) if meaning is not None else None
        if original is None or not _equal(runs, name, original):
            distinct.append(name)
    return distinct


def _equal(runs: Runs, name: str, other: str) -> bool:
    """Whether every run that has the first number has the second too, and both are equal up to rounding."""
    first, second = runs.number_columns([name, other]).T
    has_first, has_second = ~np.ma.getmaskarray(first), ~np.ma.getmaskarray(second)
    return bool(has_second[has_first].all() and np.allclose(first.data[has_first], second.data[has_first], 1e-9, 1e-9))
