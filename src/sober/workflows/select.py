"""Ranks the models of a folder without labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sober.criteria import Criterion, Ranking, find_criterion
from sober.criteria.criterion import Judgement
from sober.criteria.ranking import ranking
from sober.criteria.registry import USUAL
from sober.errors import RequestError
from sober.models.family import Family
from sober.results.folder import Folder
from sober.results.judged import Judged, as_judged
from sober.results.request import JUDGED_BY, Measure
from sober.training.progress import Watcher
from sober.types import Asked, Setting
from sober.words import assignments
from sober.workflows.evaluate import Evaluation


def select(
    folder: Folder,
    criteria: Sequence[str | Asked] = (USUAL,),
    *,
    settings: Mapping[str, Setting] | None = None,
    pictures: int = JUDGED_BY,
    seed: int = 0,
    watcher: Watcher | None = None,
) -> dict[str, Ranking]:
    """A ranking of the finished models of each world. Several criteria count alike, by the ranks they give.

    `settings` go to each criterion that has one of that name. What criteria say goes into the table, too.
    """
    measure = Measure(criteria=_asked(criteria, settings or {}), judged_by=pictures, seed=seed)
    if folder.fixed:
        return {label: _as_judged(folder, family, measure) for label, family in folder.families.items()}
    folder.need_models()
    evaluation = Evaluation(folder, measure, trains=False, watcher=watcher)
    evaluation.all()
    families = {label: family.part(family.finished) for label, family in folder.families.items() if family.finished}
    return {label: ranked(evaluation, family) for label, family in families.items()}


def ranked(evaluation: Evaluation, family: Family) -> Ranking:
    """The ranking that judgements of a world's models amount to."""
    judged: dict[str, Judged] = {}
    for label, asked in _labelled(evaluation.measure.criteria).items():
        answer = evaluation.judged(family, family.runs, asked)
        assert answer is not None  # it has just been asked for
        if not answer.said_something():  # as a study found, too, and went on
            raise RequestError(
                f"{asked.name} has too few models of {family.label} in {evaluation.folder.path} to say anything: "
                "train more seeds"
            )
        judged[label] = answer
    return _ranking(evaluation.folder, family, judged, evaluation.measure.seed)


def _as_judged(folder: Folder, family: Family, measure: Measure) -> Ranking:
    """The ranking that the judgements amount to that a folder keeps; nothing is judged."""
    judged = {
        label: as_judged(folder.path, family.label, asked.name, find_criterion(asked.name).configured(asked.settings))
        for label, asked in _labelled(measure.criteria).items()
    }
    common = set.intersection(*(set(answer.question.runs) for answer in judged.values()))
    return _ranking(folder, family, {label: answer.of(common) for label, answer in judged.items()}, measure.seed)


def _ranking(folder: Folder, family: Family, judged: Mapping[str, Judged], seed: int) -> Ranking:
    first = next(iter(judged.values()))
    by_identity = {run.identity: run for run in family.runs}
    runs = tuple(by_identity[identity] for identity in first.question.runs)
    answers: dict[str, tuple[Criterion, Judgement]] = {
        label: (find_criterion(each.question.criterion), each.judgement) for label, each in judged.items()
    }
    left_out = tuple(run for run in family.runs if run not in runs)
    return ranking(
        runs,
        first.informative.tolist(),
        answers,
        words=folder.words,
        left_out=left_out,
        seed=seed,
    )


def _labelled(criteria: Sequence[Asked]) -> dict[str, Asked]:
    """Criteria by a label each: the name, and what was set where one comes twice."""
    names = [asked.name for asked in criteria]
    return {
        asked.name if names.count(asked.name) == 1 else f"{asked.name} {assignments(asked.settings)}".rstrip(): asked
        for asked in criteria
    }


def _asked(criteria: Sequence[str | Asked], settings: Mapping[str, Setting]) -> tuple[Asked, ...]:
    asked = Asked.all([Asked(each) if isinstance(each, str) else each for each in criteria])
    if not asked:
        raise RequestError("name at least one criterion to rank by")
    return Asked.each_with(asked, settings, lambda name: find_criterion(name).settings)
