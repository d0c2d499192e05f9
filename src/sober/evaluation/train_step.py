"""Trains the models of a cohort, and writes the last values of their training."""

from __future__ import annotations

import contextlib

from sober.errors import ReadFaultError, RequestError, brief
from sober.evaluation.context import Context
from sober.evaluation.jobs import Job
from sober.evaluation.score_rows import training_key, training_rows
from sober.models.family import Family
from sober.models.model import NoWeightsError
from sober.results.request import Cohort
from sober.results.table_rows import Key
from sober.training.progress import TrainingProgress
from sober.training.train import train


def train_missing(
    context: Context, job: Job, family: Family, *, at_once: int | None, checkpoint_seconds: float
) -> None:
    """Trains the runs of a cohort that have no sound model: together, or one by one if the cohort has failed."""
    _set_damaged_models_aside(context, family)
    untrained = [run for run in family.runs if not context.folder.model_path(run).exists()]
    if not untrained:
        return
    one_by_one = context.failures.tries(job) > 0  # so that the run that fails does not fail the others
    for runs in [[run] for run in untrained] if one_by_one and len(untrained) > 1 else [untrained]:
        attempt = Job("cohort", tuple(runs))
        with context.noting_failures(attempt) if one_by_one else contextlib.nullcontext():
            checkpoints = context.folder.checkpoints(Cohort.of(runs))
            checkpoints.parent.mkdir(exist_ok=True)
            train(
                family.part(runs),
                checkpoints,
                at_once=at_once,
                checkpoint_seconds=checkpoint_seconds,
                watcher=_TrainingWatcher(context, job),
            )


def _set_damaged_models_aside(context: Context, family: Family) -> None:
    """Sets aside models whose files are damaged, so that they are trained again."""
    for run in context.finished(family.runs):
        try:
            context.model(run)
        except NoWeightsError:  # nothing is damaged: only the codes of this model were brought here
            continue
        except ReadFaultError:
            raise  # the model may be sound
        except RequestError as error:
            context.folder.store.set_aside(context.folder.model_path(run), f"cannot be used ({brief(error)})")


def write_training_rows(context: Context, family: Family, done: dict[Key, int]) -> None:
    """Writes the last value of every term in training, for runs without such rows."""
    missing = [run for run in context.finished(family.runs) if training_key(run) not in done]
    context.write(row for run in missing for row in training_rows(context.record(run)))


class _TrainingWatcher:
    """Passes training's progress on to the folder's notes, and to this process's watcher."""

    def __init__(self, context: Context, job: Job) -> None:
        self.context, self.job = context, job

    def progress(self, progress: TrainingProgress) -> None:
        fields = {"what": "training", "done": progress.done, "total": progress.total, "rate": progress.rate}
        self.context.progress.write(self.job, {**fields, "left": progress.seconds_left})
        if self.context.watcher is not None:
            self.context.watcher.progress(self._over_all_cohorts(progress))

    def note(self, text: str) -> None:
        if self.context.watcher is not None:
            self.context.watcher.note(text)

    def _over_all_cohorts(self, progress: TrainingProgress) -> TrainingProgress:
        cohorts = self.context.folder.request.cohorts
        if len(cohorts) < 2:
            return progress
        number = [cohort.name for cohort in cohorts].index(self.job.name)
        steps = [sum(run.steps for run in cohort.runs) for cohort in cohorts]
        total, done = sum(steps), sum(steps[:number]) + progress.done
        left = (total - done) / progress.rate if progress.rate else float("nan")
        return progress._replace(done=done, total=total, seconds_left=left, cohort=number + 1, cohorts=len(cohorts))
