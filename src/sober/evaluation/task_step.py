"""Performs tasks with trained models."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from sober.criteria.criterion import all_finite
from sober.device import equal_chunks
from sober.errors import RequestError
from sober.evaluation.context import Context
from sober.evaluation.jobs import Job
from sober.evaluation.pictures_to_encode import RequestedTask, pictures_to_encode, scored_pictures
from sober.evaluation.score_rows import task_keys, task_rows, unperformed_rows
from sober.models.encode import HOST_BYTES, encode, picture_index
from sober.models.family import Family
from sober.results.score_files import save_parts
from sober.results.table_rows import Key
from sober.tasks import Subjects, as_scores
from sober.types import Codes, Run


def perform_missing(context: Context, job: Job, family: Family, requested: RequestedTask, done: dict[Key, int]) -> None:
    """Performs a task with every trained run that has no row from it, as many runs at once as one program takes."""
    runs = [run for run in context.finished(family.runs) if not_performed(context, run, requested, done)]
    if not runs:
        return
    if requested.refused:
        if context.strict:
            raise RequestError(f"{requested.task.name}: {requested.refused}")
        return
    scored, all_encoded = (choose(context.measure, family.world) for choose in (scored_pictures, pictures_to_encode))
    index = None if scored is None else picture_index(family.world, scored)
    bytes_of_one = 8 * runs[0].latents * context.world(family.label).scored_pictures
    encoded = encode(family, runs, pictures=scored, within=all_encoded, progress=context.teller(job))
    count = 0
    for chunk in equal_chunks(runs, max(1, min(requested.task.together, HOST_BYTES // bytes_of_one))):
        subjects = [next(encoded) for _ in chunk]
        # After a failure, runs go one by one, so that the run that fails does not fail the others.
        one_by_one = context.failures.tries(_task_job(requested, chunk)) > 0
        for group in [[subject] for subject in subjects] if one_by_one else [subjects]:
            _perform(context, job, family, requested, group, index, (count, len(runs)))
            count += len(group)
            context.tell(job, requested.task.name, count, len(runs))


def _perform(
    context: Context,
    job: Job,
    family: Family,
    requested: RequestedTask,
    encoded: Sequence[tuple[Run, Codes]],
    index: np.ndarray | None,
    so_far: tuple[int, int],
) -> None:
    """Performs a task with some models at once and writes the rows; models without finite codes get a flagged row."""
    measure, task, started = context.measure, requested.task, time.monotonic()
    finite = [(run, codes) for run, codes in encoded if all_finite(codes.mean)]
    unfit = [(run, codes) for run, codes in encoded if not all_finite(codes.mean)]
    context.write(row for run, codes in unfit for row in unperformed_rows(run, requested, measure, codes))
    if not finite:
        return
    runs = [run for run, _ in finite]
    subjects = Subjects(tuple(codes for _, codes in finite), tuple(runs), family.world, index, context.model)
    with context.noting_failures(_task_job(requested, runs)):
        models_before, all_models = so_far

        def tell(done: int, total: int) -> None:
            """Counts thousandths of a model, so that a task has one bar, whatever units it counts in."""
            thousandths = int(1000 * (models_before + len(finite) * done / max(total, 1)))
            context.tell(job, task.name, thousandths, 1000 * all_models)

        outcomes = task(subjects, requested.settings, preset=measure.preset, seed=measure.seed, progress=tell)
        seconds, rows = (time.monotonic() - started) / len(finite), []
        for (run, codes), outcome in zip(finite, outcomes, strict=True):
            scores = as_scores(task, requested.settings, outcome, subjects, seconds)
            save_parts(context.folder.path, run.identity, scores)
            rows += task_rows(run, requested, scores, measure, len(codes.mean))
        context.write(rows)


def requested_tasks(context: Context, label: str) -> tuple[RequestedTask, ...]:
    """The requested tasks with their settings on a world. If no task was requested, the world is not opened."""
    return context.world(label).tasks if context.measure.tasks else ()


def not_performed(context: Context, run: Run, requested: RequestedTask, done: dict[Key, int]) -> bool:
    """Whether the table has no row from a task about a run, and the task was not given up."""
    keys = task_keys(run, requested, context.measure, context.world(run.world).scored_pictures)
    if any(key in done for key in keys):
        return False
    return context.strict or not context.failures.given_up(_task_job(requested, [run]))


def all_task_keys(context: Context, run: Run) -> list[Key]:
    """The keys of the rows that all tasks may have about a run."""
    pictures = context.world(run.world).scored_pictures if context.measure.tasks else 0
    tasks = requested_tasks(context, run.world)
    return [key for requested in tasks for key in task_keys(run, requested, context.measure, pictures)]


def _task_job(requested: RequestedTask, runs: Sequence[Run]) -> Job:
    return Job("task", tuple(runs), requested.task.name)
