"""Scores the models of a folder with metrics and tasks, and writes the scores into the folder's table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sober.errors import RequestError
from sober.evaluation.engine import Evaluation
from sober.metrics.scoring.score import resolved
from sober.models.model import has_weights
from sober.results.folder import Folder
from sober.results.request import Measure
from sober.tasks import find_task
from sober.training.progress import Watcher
from sober.types import NamedSettings

if TYPE_CHECKING:
    import polars as pl


def score_models(
    folder: Folder,
    metrics: Sequence[str] | None = None,
    *,
    tasks: Sequence[NamedSettings] = (),
    preset: str = "study",
    pictures: int | None = None,
    seed: int = 0,
    repeats: int = 1,
    watcher: Watcher | None = None,
) -> pl.DataFrame:
    """Measures every finished model, and returns the table's rows of its scores. Scores already there are kept.

    `sober.score` explains most arguments. `pictures` is how many pictures each model encodes. None is all of them, or
    those whose codes are kept if the folder keeps no weights.
    The same codes are used for `tasks`.
    """
    if pictures is not None and pictures < 1:
        raise RequestError(f"pictures must be at least 1, got {pictures}")
    finished = folder.need_models()
    if pictures is None and not any(has_weights(folder.path, run) for run in finished):
        pictures = folder.request.measure.pictures  # whose codes are kept: no model can encode others
    names = None if metrics is None else tuple(metrics)
    measure = Measure(metrics=names, preset=preset, pictures=pictures, seed=seed, repeats=repeats, tasks=tuple(tasks))
    for _ in resolved(names, True):  # refuses a wrong name before any picture is encoded
        pass
    for task, settings in tasks:
        find_task(task).configured(preset, settings)
    evaluation = Evaluation(folder, measure, trains=False, watcher=watcher)
    evaluation.all()
    folder.store.compact(wait=False)
    return evaluation.rows(finished)
