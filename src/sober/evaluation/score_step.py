"""Scores trained models by metrics."""

from __future__ import annotations

import functools
import time

from sober.criteria.criterion import all_finite
from sober.evaluation.context import Context
from sober.evaluation.jobs import Job
from sober.evaluation.pictures_to_encode import pictures_to_encode, scored_pictures
from sober.evaluation.score_rows import metric_rows, unmeasured_rows
from sober.metrics.scoring.score import resolved, score
from sober.models.encode import encode
from sober.models.family import Family
from sober.parallel import map_in_order, one_thread
from sober.results.score_files import save_parts
from sober.results.table_rows import Key, key_of
from sober.types import Codes, Run, Score

# Rows are written after this many models, or this many seconds: a kill loses no more.
MODELS_AT_ONCE = 8
SECONDS_AT_ONCE = 20.0


def score_missing(context: Context, job: Job, family: Family, done: dict[Key, int]) -> None:
    """Measures trained runs by the metrics that have no row for them, as many runs at once as there are cores."""
    wanted = {run: missing for run in context.finished(family.runs) if (missing := missing_metrics(context, run, done))}
    if not wanted:
        return
    scored, all_encoded = (choose(context.measure, family.world) for choose in (scored_pictures, pictures_to_encode))
    encoded = encode(family, list(wanted), pictures=scored, within=all_encoded, progress=context.teller(job))
    rows: list[Score] = []
    written = time.monotonic()
    with one_thread():
        for count, scores in enumerate(map_in_order(functools.partial(_scores, context, wanted), encoded), start=1):
            rows += scores
            context.tell(job, "scoring", count, len(wanted))
            late = time.monotonic() - written > SECONDS_AT_ONCE
            if late or count % MODELS_AT_ONCE == 0 or count == len(wanted):
                context.write(rows)
                rows, written = [], time.monotonic()


def _scores(context: Context, wanted: dict[Run, list[str]], encoded: tuple[Run, Codes]) -> list[Score]:
    (run, codes), measure = encoded, context.measure
    with context.noting_failures(Job("score", (run,))):
        if not all_finite(codes.mean):
            return unmeasured_rows(run, wanted[run], measure, codes, "not_finite")
        scores = score(codes, metrics=wanted[run], preset=measure.preset, seed=measure.seed, repeats=measure.repeats)
        save_parts(context.folder.path, run.identity, scores)
        rows = metric_rows(run, scores, measure, len(codes.mean))
        # If a metric cannot be computed, a row says so: without the row it would be tried again and again.
        left_out = list(scores.left_out)
        return rows + (unmeasured_rows(run, left_out, measure, codes, "not_measured") if left_out else [])
    return []


def missing_metrics(context: Context, run: Run, done: dict[Key, int]) -> list[str]:
    """The requested metrics, or single scores, that have no row about a run."""
    return [name for name, keys in metric_keys(context, run).items() if not any(key in done for key in keys)]


def metric_keys(context: Context, run: Run) -> dict[str, list[Key]]:
    """The keys of the rows that each requested metric, or single score, may have about a run."""
    measure = context.measure
    if measure.metrics == ():
        return {}
    facts = context.world(run.world)
    keys: dict[str, list[Key]] = {}
    for metric, wanted, changes in resolved(measure.metrics, facts.labelled):
        settings = metric.configured(measure.preset, changes)
        for name in metric.scores:
            if wanted is None or name in wanted:
                row = Score(
                    run.identity, name, 0.0, preset=measure.preset, settings=settings, pictures=facts.scored_pictures,
                    draw=measure.seed, repeats=measure.repeats,
                )  # fmt: skip
                keys.setdefault(metric.name if wanted is None else name, []).append(key_of(row))
    return keys
