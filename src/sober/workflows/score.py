"""Scores the models of a folder, by metrics and in tasks, and writes what it finds into the folder's table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sober.errors import RequestError
from sober.metrics.score import resolved
from sober.results.folder import Folder
from sober.results.request import Measure
from sober.tasks import find_task
from sober.training.progress import Watcher
from sober.types import Asked
from sober.workflows.evaluate import Evaluation

if TYPE_CHECKING:
    import polars as pl


def score_models(
    folder: Folder,
    metrics: Sequence[str] | None = None,
    *,
    tasks: Sequence[Asked] = (),
    preset: str = "study",
    sample: int | None = None,
    seed: int = 0,
    repeats: int = 1,
    watcher: Watcher | None = None,
) -> pl.DataFrame:
    """Measures every finished model, and returns the rows of the table that say so; what is there is not done again.

    The arguments are those of `sober.score`; `sample` is how many pictures are encoded, all without it. `tasks` are
    performed with the same codes.
    """
    if sample is not None and sample < 1:
        raise RequestError(f"sample must be at least 1, got {sample}")
    asked = None if metrics is None else tuple(metrics)
    measure = Measure(metrics=asked, preset=preset, pictures=sample, seed=seed, repeats=repeats, tasks=tuple(tasks))
    finished = folder.need_models()
    for _ in resolved(asked, True):  # a wrong name is refused before anything is encoded
        pass
    for task, settings in tasks:
        find_task(task).configured(preset, settings)
    evaluation = Evaluation(folder, measure, trains=False, watcher=watcher)
    evaluation.all()
    folder.store.compact(wait=False)
    return evaluation.rows(finished)
