"""Which runs train together: one world, one compiled program."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sober.results.request import Cohort
from sober.training.cohort import signature
from sober.types import Run


def cohorts_of(runs: Iterable[Run], together: int | None = None) -> list[Cohort]:
    """Cohorts of at most `together` runs that share a world and a compiled program.

    With `together`, runs are ordered by seed, so that seeds added later do not change the first cohorts.
    """
    by_program: dict[Any, list[Run]] = {}
    for run in runs:
        by_program.setdefault((run.world, signature(run)), []).append(run)
    cohorts = []
    for group in by_program.values():
        in_order = sorted(group, key=lambda run: run.seed) if together else group
        size = together or len(group)
        cohorts += [Cohort.of(in_order[start : start + size]) for start in range(0, len(group), size)]
    return cohorts
