"""A task on plain arrays, and what it gave as scores by name."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from sober.errors import RequestError
from sober.metrics.inputs import as_codes
from sober.metrics.metric import Measured, varying
from sober.metrics.score import Scores
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
    """What a representation is good for: the scores of a task, as `sober.score` gives those of metrics.

    `codes` is (N, D), `factors` (N, K), as for `sober.score`. `settings` are those that `sober tasks` lists. Tasks that
    work with models themselves are asked of a folder of results: `sober.open(folder).score(tasks=...)`.

    >>> sober.task("downstream", codes, factors)["downstream_logistic_100"]
    """
    chosen = find_task(task)
    if chosen.needs == "models":
        raise RequestError(f"{task} needs models: sober.open(folder).score(metrics=(), tasks=['{task}'])")
    subjects = Subjects((as_codes(codes, factors, names=names, kinds=kinds),))
    with_settings, started = chosen.configured(preset, settings), time.perf_counter()
    (outcome,) = chosen(subjects, with_settings, preset=preset, seed=seed)
    return as_scores(chosen, with_settings, outcome, subjects, time.perf_counter() - started)


def as_scores(
    task: Task, settings: Mapping[str, Setting], outcome: Measured, subjects: Subjects, seconds: float
) -> Scores:
    """What a task gave of one model."""
    scores = Scores()
    scores.update(outcome.values)
    scores.flags = dict.fromkeys(outcome.values, outcome.flags)
    scores.errors, scores.parts = dict(outcome.errors), {task.name: outcome.parts}
    scores.settings, scores.seconds = {task.name: settings}, {task.name: seconds}
    scores.factors = tuple(factor.name for factor in varying(subjects.codes[0]).about)
    return scores


def joined(scores: Scores, more: Scores) -> Scores:
    """Scores with those of a task added."""
    scores.update(more)
    for name in ("flags", "errors", "parts", "settings", "seconds"):
        getattr(scores, name).update(getattr(more, name))
    scores.factors = scores.factors or more.factors
    return scores
