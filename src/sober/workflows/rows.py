"""What was measured as rows of the table: where training ended, what metrics found, what criteria and tasks said."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np

from sober.criteria import Criterion
from sober.criteria.criterion import UNJUDGED, Judgement
from sober.metrics import Scores, home_of
from sober.metrics.score import resolved
from sober.models.model import Model
from sober.results.judged import Question
from sober.results.request import Measure
from sober.results.rows import Key, key_of
from sober.types import Codes, Run, Score, Setting
from sober.workflows.looking import Wanted

PRESET = "label_free"  # of criteria, which have no other
TRAINED = "training"  # of numbers that training left


def training_rows(model: Model) -> list[Score]:
    """Where every term of a model's training ended."""
    flags = ("diverged",) if model.diverged is not None else ()
    ended = {name: model.ended(name) for name in model.curves if name != "step"}
    return [
        Score(model.run.identity, f"train_{name}", value, "training", TRAINED, better="neither", flags=flags)
        for name, value in ended.items()
    ]


def training_key(run: Run) -> Key:
    """The row without which it is not known where a run's training ended: every method has a loss."""
    return key_of(Score(run.identity, "train_loss", 0.0, "training", TRAINED))


def metric_rows(run: Run, scores: Scores, measure: Measure, pictures: int) -> list[Score]:
    """What metrics found in a model's codes of so many pictures."""
    homes = {name: home_of(name).name for name in scores}
    return [
        _with_number(_metric_row(run, name, scores.settings[home], measure, pictures), scores, home)
        for name, home in homes.items()
    ]


def _with_number(row: Score, scores: Scores, home: str) -> Score:
    """A row with its number, and between what it lies where its standard error is known."""
    value, error = scores[row.metric], scores.errors.get(row.metric)
    between = None if error is None else (value - 1.96 * error, value + 1.96 * error)
    flags, seconds = scores.flags[row.metric], scores.seconds[home]
    return dataclasses.replace(row, value=value, flags=flags, interval=between, seconds=seconds)


def unmeasured_rows(run: Run, metrics: Sequence[str], measure: Measure, codes: Codes, why: str) -> list[Score]:
    """What is to be said where codes are no numbers, or not what a metric needs: that there is no score, and why."""
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
    """A row without a number."""
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
    )


def criterion_rows(criterion: Criterion, question: Question, judgement: Judgement, seconds: float) -> list[Score]:
    """What a criterion said of models, and between what it lay in nine of ten draws of pictures and partners."""
    if np.isnan(judgement.scores).all():  # there were too few models
        return []
    with np.errstate(invalid="ignore"):  # between infinities there is no number
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


def criterion_keys(question: Question) -> list[Key]:
    """The keys of the rows that say what a criterion said."""
    settings, pictures, draw = question.settings, question.pictures, question.seed
    return [
        key_of(Score(run, question.criterion, 0.0, preset=PRESET, settings=settings, pictures=pictures, draw=draw))
        for run in question.runs
    ]


def task_rows(run: Run, wanted: Wanted, scores: Scores, measure: Measure, pictures: int) -> list[Score]:
    """What a task gave with a model's codes of so many pictures."""
    return [_with_number(_task_row(run, wanted, name, measure, pictures), scores, wanted.task.name) for name in scores]


def unperformed_rows(run: Run, wanted: Wanted, measure: Measure, codes: Codes) -> list[Score]:
    """What is to be said of a model whose codes are no numbers: that no task was performed, and why."""
    flags = tuple(sorted({*codes.flags, "not_finite"}))
    rows = (_task_row(run, wanted, name, measure, len(codes.mean)) for name in wanted.task.scores)
    return [dataclasses.replace(row, flags=flags) for row in rows]


def task_keys(run: Run, wanted: Wanted, measure: Measure, pictures: int) -> list[Key]:
    """The keys of the rows that a task may have about a run."""
    return [key_of(_task_row(run, wanted, name, measure, pictures)) for name in wanted.task.scores]


def _task_row(run: Run, wanted: Wanted, name: str, measure: Measure, pictures: int) -> Score:
    """A row without a number."""
    return Score(
        run.identity,
        name,
        math.nan,
        "task",
        measure.preset,
        wanted.settings,
        wanted.task.scores[name].better,
        supervised=wanted.task.supervised,
        pictures=pictures,
        draw=measure.seed,
    )
