"""Asks criteria about the models of a world."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Int

from sober.criteria import find_criterion
from sober.criteria.criterion import Criterion, Evidence, Judgement, fit_to_judge
from sober.criteria.udr import informative_latents
from sober.errors import RequestError, counted
from sober.evaluation.context import Context
from sober.evaluation.families import finished_families
from sober.evaluation.jobs import Job
from sober.evaluation.pictures_to_encode import judged_pictures
from sober.evaluation.score_rows import criterion_keys, criterion_rows
from sober.models.encode import encode, picture_index
from sober.models.family import Family
from sober.models.model import NoWeightsError, has_weights
from sober.results.judgement_files import JudgementKey, SavedJudgement, joined_judgement, load_judgement
from sober.results.table_rows import Key, settings_text
from sober.shared import Shared
from sober.types import NamedSettings, Run


def judge_missing(context: Context, job: Job, family: Family, done: dict[Key, int]) -> None:
    """Asks every criterion that has not answered yet about each group of models that it compares."""
    for runs in _groups(context, family):
        if not all(_is_answered(context, question, done) for question in _questions(context, family, runs)):
            _judge(context, job, family, runs)


def all_answered(context: Context, family: Family, done: dict[Key, int]) -> bool:
    """Whether every criterion was asked about every group of models, and the table has its answers."""
    questions = [q for runs in _groups(context, family) for q in _questions(context, family, runs)]
    return all(_is_answered(context, question, done) for question in questions)


def answer_about(
    context: Context, family: Family, runs: Sequence[Run], criterion: NamedSettings
) -> SavedJudgement | None:
    """A criterion's judgement of these models; None if it was not asked about them."""
    path = _question(context, family, runs, criterion).path(context.folder.path)
    return load_judgement(path) if path.exists() else None


def answers(context: Context, criterion: NamedSettings) -> Iterator[SavedJudgement]:
    """A criterion's judgement of every group of finished models."""
    for family in finished_families(context.folder).values():
        for runs in _groups(context, family):
            if (answer := answer_about(context, family, runs, criterion)) is not None:
                yield answer


def _judge(context: Context, job: Job, family: Family, runs: Sequence[Run]) -> None:
    evidence, shared = _evidence(context, job, family, runs), Shared()
    identities = tuple(run.identity for run in evidence.runs)
    informative = np.array([int(informative_latents(codes).sum()) for codes in evidence.codes], np.int64)
    for named in context.measure.criteria:
        question = _question(context, family, runs, named)
        criterion, started = find_criterion(named.name), time.monotonic()
        if (answer := answer_about(context, family, runs, named)) is not None:  # the table may have lost its rows
            context.write(criterion_rows(criterion, answer.question, answer.judgement, 0.0))
            continue
        if len(evidence.runs) < (2 if criterion.compares else 1):
            _refuse_too_few(context, criterion, evidence, len(runs))
            SavedJudgement.without_scores(question._replace(runs=identities), informative).save(
                context.folder.path, question
            )
            continue
        if criterion.decodes and not all(has_weights(context.folder.path, run) for run in evidence.runs):
            _answer_from_elsewhere(context, question, evidence.runs, informative)
            continue
        progress = context.teller(job, criterion.name)
        judgement = criterion(evidence, named.settings, seed=context.measure.seed, shared=shared, progress=progress)
        answer = SavedJudgement(question._replace(runs=identities), judgement, informative)
        context.write(criterion_rows(criterion, answer.question, judgement, time.monotonic() - started))
        answer.save(context.folder.path, question)


def _answer_from_elsewhere(
    context: Context, question: JudgementKey, runs: Sequence[Run], informative: Int[np.ndarray, " M"]
) -> None:
    """Joins the answers that were given where the models still had weights."""
    folder, identities = context.folder.path, [run.identity for run in runs]
    joined = joined_judgement(folder, question.world, question.criterion, question.settings)
    if settings_text(joined.question.settings) != settings_text(question.settings):
        raise NoWeightsError(
            f"{question.criterion} needs the models themselves, and {folder} keeps no weights: ask with the settings "
            f"that it was asked with before, {settings_text(joined.question.settings)}"
        )
    place = {identity: m for m, identity in enumerate(joined.question.runs)}
    if missing := [identity for identity in identities if identity not in place]:
        raise NoWeightsError(
            f"{question.criterion} needs the models themselves: the weights of {counted(len(missing), 'model')} in "
            f"{folder} were not kept, and it was not asked about them before"
        )
    order = [place[identity] for identity in identities]
    scores, replicates = joined.judgement.scores[order], joined.judgement.replicates[:, order]
    judgement = Judgement(scores, replicates, tuple(joined.judgement.flags[m] for m in order))
    SavedJudgement(question._replace(runs=tuple(identities)), judgement, informative).save(folder, question)


def _refuse_too_few(context: Context, criterion: Criterion, evidence: Evidence, models: int) -> None:
    """Raises an error if a person asked for this answer; a study or a search goes on without it."""
    if not context.strict or context.measure.among != "world":
        return
    folder = context.folder.path
    if not evidence.runs:
        raise RequestError(f"no model of {folder} is fit to be chosen: all {models} diverged")
    raise RequestError(
        f"{criterion.name} compares models with each other, and {folder} has "
        f"{counted(len(evidence.runs), 'model')} that can be compared: train more seeds"
    )


def _evidence(context: Context, job: Job, family: Family, runs: Sequence[Run]) -> Evidence:
    """The models' codes of the judged pictures. Models whose codes are not finite are left out."""
    world, pictures = family.world, judged_pictures(context.measure, family.world)
    encoded = list(encode(family, runs, pictures=pictures, progress=context.teller(job)))
    finite = [(run, codes) for run, codes in encoded if fit_to_judge(codes)]
    index = None if pictures is None else picture_index(world, pictures)
    codes = tuple(codes for _, codes in finite)
    return Evidence(world, tuple(run for run, _ in finite), codes, index, context.model)


def _groups(context: Context, family: Family) -> list[tuple[Run, ...]]:
    """The groups of runs that criteria compare with each other."""
    if context.measure.among == "world":
        return [family.runs]
    if context.measure.among == "cohort":
        return [cohort.runs for cohort in context.folder.cohorts(family.runs)]
    groups: dict[str, list[Run]] = {}
    for run in family.runs:
        groups.setdefault(run.seedless, []).append(run)
    return [tuple(runs) for runs in groups.values()]


def _questions(context: Context, family: Family, runs: Sequence[Run]) -> list[JudgementKey]:
    return [_question(context, family, runs, criterion) for criterion in context.measure.criteria]


def _question(context: Context, family: Family, runs: Sequence[Run], criterion: NamedSettings) -> JudgementKey:
    settings = find_criterion(criterion.name).configured(criterion.settings)
    identities = tuple(run.identity for run in runs)
    count = min(context.measure.judged_by, context.world(family.label).pictures)
    return JudgementKey(criterion.name, settings, family.label, identities, count, context.measure.seed)


def _is_answered(context: Context, question: JudgementKey, done: dict[Key, int]) -> bool:
    """Whether a criterion has answered, and the table has the answer."""
    path = question.path(context.folder.path)
    if not path.exists():
        return False
    if any(key in done for key in criterion_keys(question)):
        return True
    return not load_judgement(path).has_scores()
