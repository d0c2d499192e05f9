"""Scores of a task on plain arrays, by name."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from sober.contracts import whole_number
from sober.errors import RequestError
from sober.metrics.common.inputs import as_codes
from sober.metrics.common.metric_rows import varying
from sober.metrics.metric import Measured
from sober.metrics.scoring.score import Scores
from sober.tasks.registry import find_task
from sober.tasks.task import Subjects, Task
from sober.types import Setting


def perform(
    task: str,
    codes: Any,
    factors: Any = None,
    *,
    names: Sequence[str] | None = None,
    kinds: str | Sequence[str] | Mapping[str, str] | None = None,
    preset: str = "study",
    seed: int = 0,
    **settings: Setting,
) -> Scores:
    """Performs a task on plain arrays and returns its scores, as `sober.score` does for metrics.

    `codes` is (N, D), `factors` (N, K), as for `sober.score`. `sober tasks` lists the `settings` of each task. Tasks
    that need models are performed on a folder of results: `sober.open(folder).score(tasks=...)`.

    >>> sober.task("downstream", codes, factors)["downstream_logistic_100"]
    """
    chosen_task, seed = find_task(task), whole_number("seed", seed)
    if chosen_task.needs == "models":
        raise RequestError(f"{task} needs models: sober.open(folder).score(metrics=(), tasks=['{task}'])")
    subjects = Subjects((as_codes(codes, factors, names=names, kinds=kinds),))
    all_settings, started = chosen_task.configured(preset, settings), time.perf_counter()
    (outcome,) = chosen_task(subjects, all_settings, preset=preset, seed=seed)
    return as_scores(chosen_task, all_settings, outcome, subjects, time.perf_counter() - started)


def as_scores(
    task: Task, settings: Mapping[str, Setting], outcome: Measured, subjects: Subjects, seconds: float
) -> Scores:
    """A task's outcome for one model, as scores."""
    scores = Scores()
    scores.update(outcome.values)
    scores.flags = dict.fromkeys(outcome.values, outcome.flags)
    scores.errors, scores.parts = dict(outcome.errors), {task.name: outcome.parts}
    scores.settings, scores.seconds = {task.name: settings}, {task.name: seconds}
    scores.factors = tuple(factor.name for factor in varying(subjects.codes[0]).about)
    return scores


def joined(scores: Scores, more: Scores) -> Scores:
    """Adds the scores of a task to other scores."""
    scores.update(more)
    for name in ("flags", "errors", "parts", "settings", "seconds"):
        getattr(scores, name).update(getattr(more, name))
    scores.factors = scores.factors or more.factors
    return scores
