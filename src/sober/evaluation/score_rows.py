"""Turns measurements into rows of the table: the last values of training, metrics, criteria and tasks."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np

from sober.criteria import Criterion
from sober.criteria.criterion import UNJUDGED, Judgement
from sober.evaluation.pictures_to_encode import RequestedTask
from sober.metrics import Metric, Scores, home_of
from sober.metrics.common.intervals import half_width
from sober.metrics.scoring.score import resolved
from sober.models.model import TrainingRecord
from sober.results.judgement_files import JudgementKey
from sober.results.request import Measure
from sober.results.table_rows import Key, key_of
from sober.tasks import Task
from sober.types import Codes, Run, Score, Setting

PRESET = "label_free"  # the only preset of criteria
TRAINED = "training"  # the preset of numbers from training


def training_rows(record: TrainingRecord) -> list[Score]:
    """The last value of every term in a model's training."""
    flags = ("diverged",) if record.diverged is not None else ()
    ended = {name: record.ended(name) for name in record.curves if name != "step"}
    return [
        Score(record.run.identity, f"train_{name}", value, "training", TRAINED, better="neither", flags=flags)
        for name, value in ended.items()
    ]


def training_key(run: Run) -> Key:
    """The key of the row that shows that a run's rows from training were written: every method has a loss."""
    return key_of(Score(run.identity, "train_loss", 0.0, "training", TRAINED))


def metric_rows(run: Run, scores: Scores, measure: Measure, pictures: int) -> list[Score]:
    """Scores by metrics of a model's codes of this many pictures."""
    homes = {name: home_of(name).name for name in scores}
    return [
        _with_number(_metric_row(run, name, scores.settings[home], measure, pictures), scores, home, measure.repeats)
        for name, home in homes.items()
    ]


def _with_number(row: Score, scores: Scores, home: str, repeats: int = 1) -> Score:
    """A row with its number, and with its interval if the standard error is known."""
    value, error = scores[row.metric], scores.errors.get(row.metric)
    half = None if error is None else half_width(error, repeats if repeats > 1 else None)
    interval = None if half is None else (value - half, value + half)
    flags, seconds = scores.flags[row.metric], scores.seconds[home]
    return dataclasses.replace(row, value=value, flags=flags, interval=interval, seconds=seconds)


def unmeasured_rows(run: Run, metrics: Sequence[str], measure: Measure, codes: Codes, why: str) -> list[Score]:
    """Rows that say that metrics have no score, and why: codes are not finite, or do not suit the metric."""
    flags = tuple(sorted({*codes.flags, why}))
    return [
        dataclasses.replace(
            _metric_row(run, name, metric.configured(measure.preset, changes), measure, len(codes.mean)), flags=flags
        )
        for metric, wanted, changes in resolved(metrics, bool(codes.about))
        for name in metric.scores
        if wanted is None or name in wanted
    ]


def _metric_row(run: Run, name: str, settings: Mapping[str, Setting], measure: Measure, pictures: int) -> Score:
    """A row without its number."""
    metric = home_of(name)
    meaning = metric.scores[name]
    return Score(
        run.identity,
        name,
        math.nan,
        preset=measure.preset,
        settings=settings,
        better=meaning.better,
        supervised=metric.supervised,
        matrix=meaning.matrix,
        rule=meaning.rule,
        samples_of=meaning.samples_of,
        pictures=pictures,
        draw=measure.seed,
        repeats=measure.repeats,
        versions=_version(metric),
    )


def _version(measured_by: Metric | Task) -> dict[str, str]:
    """The version of a metric or task whose scores an earlier version computed otherwise."""
    return {measured_by.name: str(measured_by.version)} if measured_by.version > 1 else {}


def criterion_rows(criterion: Criterion, question: JudgementKey, judgement: Judgement, seconds: float) -> list[Score]:
    """A criterion's scores of models, each with the interval of nine in ten draws of pictures and partners."""
    if np.isnan(judgement.scores).all():  # there were too few models
        return []
    with np.errstate(invalid="ignore"):  # a quantile between two infinities is NaN
        low, high = np.quantile(judgement.replicates, (0.05, 0.95), axis=0)
    models = len(question.runs)
    unjudged = [UNJUDGED in flags for flags in judgement.flags]
    return [
        Score(
            run,
            criterion.name,
            math.nan if unjudged[m] else float(judgement.scores[m]),
            "criterion",
            PRESET,
            question.settings,
            criterion.better,
            pictures=question.pictures,
            draw=question.seed,
            models=models,
            flags=(*judgement.flags[m], *(("not_measured",) if unjudged[m] else ())),
            interval=None if unjudged[m] else (float(low[m]), float(high[m])),
            seconds=seconds / models,
        )
        for m, run in enumerate(question.runs)
    ]


def criterion_keys(question: JudgementKey) -> list[Key]:
    """The keys of the rows that hold a criterion's answer."""
    settings, pictures, draw = question.settings, question.pictures, question.seed
    return [
        key_of(Score(run, question.criterion, 0.0, preset=PRESET, settings=settings, pictures=pictures, draw=draw))
        for run in question.runs
    ]


def task_rows(run: Run, requested: RequestedTask, scores: Scores, measure: Measure, pictures: int) -> list[Score]:
    """Scores of a task with a model's codes of this many pictures."""
    return [
        _with_number(_task_row(run, requested, name, measure, pictures), scores, requested.task.name) for name in scores
    ]


def unperformed_rows(run: Run, requested: RequestedTask, measure: Measure, codes: Codes) -> list[Score]:
    """Rows that say that a task was not performed, because the model's codes are not finite."""
    flags = tuple(sorted({*codes.flags, "not_finite"}))
    rows = (_task_row(run, requested, name, measure, len(codes.mean)) for name in requested.task.scores)
    return [dataclasses.replace(row, flags=flags) for row in rows]


def task_keys(run: Run, requested: RequestedTask, measure: Measure, pictures: int) -> list[Key]:
    """The keys of the rows that a task may have about a run."""
    return [key_of(_task_row(run, requested, name, measure, pictures)) for name in requested.task.scores]


def _task_row(run: Run, requested: RequestedTask, name: str, measure: Measure, pictures: int) -> Score:
    """A row without its number."""
    return Score(
        run.identity,
        name,
        math.nan,
        "task",
        measure.preset,
        requested.settings,
        requested.task.scores[name].better,
        supervised=requested.task.supervised,
        pictures=pictures,
        draw=measure.seed,
        versions=_version(requested.task),
    )
