"""Ranks the models of a folder without labels."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

from sober.criteria import Criterion, Ranking, find_criterion
from sober.criteria.choice_rule import AGREEMENT, LOSS, ChoiceRule, find_rule
from sober.criteria.criterion import Judgement
from sober.criteria.ranking import ranking
from sober.criteria.verdict import TrainingState, Verdict
from sober.defaults import JUDGED_BY, USUAL_WISH
from sober.errors import RequestError, counted
from sober.evaluation.engine import Evaluation
from sober.evaluation.families import families_of, finished_families
from sober.evaluation.jobs import Job
from sober.evaluation.mean_picture import losses_of_mean_picture
from sober.evaluation.pictures_to_encode import judged_pictures
from sober.evaluation.training_states import training_states
from sober.models.family import Family
from sober.models.model import has_weights
from sober.requests.fit.plan import Wishes
from sober.results.folder import Folder
from sober.results.judgement_files import SavedJudgement, joined_judgement
from sober.results.request import Measure
from sober.results.training_state_files import load_training_states
from sober.results.verdict_files import load_verdicts, save_verdict
from sober.setting_words import words_for_people
from sober.settings_text import assignments
from sober.training.progress import Watcher
from sober.types import NamedSettings, Run, Setting

LOSS_OF_TRAINING = "train_reconstruction"  # the same number as `LOSS`, in the last training steps


def select(
    folder: Folder,
    criteria: Sequence[str | NamedSettings] | None = None,
    *,
    prefer: str | None = None,
    settings: Mapping[str, Setting] | None = None,
    pictures: int = JUDGED_BY,
    seed: int = 0,
    watcher: Watcher | None = None,
) -> dict[str, Ranking]:
    """Ranks the finished models of each world, by a rule or by criteria.

    `prefer` names the rule: few, balanced (the usual one) or complete. With `criteria` instead, models go by their mean
    rank: several criteria have the same weight. Each of the `settings` goes to every criterion that has a setting of
    that name. The criteria's scores go into the folder's table.
    """
    if any(run.is_layer for run in folder.runs):
        raise RequestError(
            f"{folder.path} holds layers of encoders, and criteria choose among models trained alike: probe.html says "
            "what each layer tells"
        )
    rule = rule_for(criteria, prefer)
    named = _with_settings(criteria or () if rule is None else rule.criteria, settings or {})
    measure = Measure(criteria=named, judged_by=pictures, seed=seed)
    if folder.fixed:
        return {label: _saved_ranking(folder, family, measure, rule) for label, family in families_of(folder).items()}
    folder.need_models()
    if rule is not None and not _can_decode(folder):
        measure = dataclasses.replace(measure, criteria=tuple(name for name in named if name.name != LOSS))
    evaluation = Evaluation(folder, measure, trains=False, watcher=watcher)
    evaluation.all()
    wishes = Wishes.of_request(folder.request)
    rankings = {
        label: ranked(evaluation, family, rule=rule, wishes=wishes)
        for label, family in finished_families(folder).items()
    }
    if wishes is None:  # the verdict of a fit stays with the model that it exported
        for label, result in rankings.items():
            save_verdict(folder.path, label, result.verdict)
    return rankings


def rule_for(criteria: Sequence[str | NamedSettings] | None, prefer: str | None) -> ChoiceRule | None:
    """The rule to choose by; None if criteria are named instead."""
    if criteria is not None and prefer is not None:
        raise RequestError("choose by criteria or by what you prefer, not by both")
    return find_rule(prefer or USUAL_WISH) if criteria is None else None


def ranked(
    evaluation: Evaluation, family: Family, *, rule: ChoiceRule | None = None, wishes: Wishes | None = None
) -> Ranking:
    """Ranks the models of a world by the judgements of an evaluation that has ended.

    Without a `rule`, all criteria have the same weight. The `wishes` of a fit say how many steps are too few to choose
    from, and how many minutes would do.
    """
    judgements: dict[str, SavedJudgement] = {}
    for label, criterion in _labelled(evaluation.measure.criteria).items():
        judgement = evaluation.answer(family, family.runs, criterion)
        assert judgement is not None  # the evaluation has just asked every criterion
        if not judgement.has_scores():  # a study goes on without such a criterion
            raise RequestError(
                f"{criterion.name} has too few models of {family.label} in {evaluation.folder.path} to say anything: "
                "train more seeds"
            )
        judgements[label] = judgement
    compared = _compared(family, judgements)
    tell = evaluation.context.teller(Job("judge", family.runs), "how far models are trained")
    training = training_states(evaluation.context, family, compared, tell)
    result = _ranking(
        evaluation.folder,
        family,
        judgements,
        evaluation.measure,
        rule=rule,
        training=training,
        fewest_steps=0 if wishes is None else wishes.fewest_steps(family.world),
    )
    if wishes is None:
        return result
    return dataclasses.replace(result, verdict=wishes.with_minutes(result.verdict, evaluation.folder.runs))


def verdicts(folder: Folder) -> dict[str, Verdict]:
    """The saved verdict on each world, or the verdict that saved judgements lead to. No model is opened."""
    saved = load_verdicts(folder.path)
    for label, family in families_of(folder).items():
        if label not in saved:
            with contextlib.suppress(RequestError):  # no criterion has judged this world
                rule = find_rule(USUAL_WISH)
                measure = Measure(criteria=tuple(map(NamedSettings, rule.criteria)))
                saved[label] = _saved_ranking(folder, family, measure, rule).verdict
    return saved


def _saved_ranking(folder: Folder, family: Family, measure: Measure, rule: ChoiceRule | None) -> Ranking:
    """Ranks the models of a world by the judgements saved in the folder. No criterion judges again."""
    judgements: dict[str, SavedJudgement] = {}
    for label, criterion in _labelled(measure.criteria).items():
        settings = find_criterion(criterion.name).configured(criterion.settings)
        with contextlib.suppress(RequestError) if rule is not None and label == LOSS else contextlib.nullcontext():
            judgements[label] = joined_judgement(folder.path, family.label, criterion.name, settings)
    common_runs = set.intersection(*(set(judgement.question.runs) for judgement in judgements.values()))
    of_common_runs = {label: judgement.for_runs(common_runs) for label, judgement in judgements.items()}
    states = load_training_states(folder.path, family.label)
    training = states if common_runs <= states.keys() else None
    return _ranking(folder, family, of_common_runs, measure, rule=rule, training=training)


def _compared(family: Family, judgements: Mapping[str, SavedJudgement]) -> tuple[Run, ...]:
    """The judged runs. All judgements are about the same runs."""
    by_identity = {run.identity: run for run in family.runs}
    return tuple(by_identity[identity] for identity in next(iter(judgements.values())).question.runs)


def _ranking(
    folder: Folder,
    family: Family,
    judgements: Mapping[str, SavedJudgement],
    measure: Measure,
    *,
    rule: ChoiceRule | None,
    training: Mapping[str, TrainingState] | None,
    fewest_steps: int = 0,
) -> Ranking:
    runs = _compared(family, judgements)
    answers: dict[str, tuple[Criterion, Judgement]] = {
        label: (find_criterion(saved.question.criterion), saved.judgement) for label, saved in judgements.items()
    }
    left_out = tuple(run for run in family.runs if run not in runs)
    loss_of_training = rule is not None and LOSS not in answers
    if loss_of_training:
        answers[LOSS] = find_criterion(LOSS), _loss_of_training(folder, runs)
    result = ranking(
        runs,
        next(iter(judgements.values())).informative.tolist(),
        answers,
        words=words_for_people(folder.runs),
        rule=rule,
        of_mean_picture=None if rule is None else _losses_of_mean_picture(family, measure, runs),
        left_out=left_out,
        training=training,
        fewest_steps=fewest_steps,
        seed=measure.seed,
    )
    if loss_of_training:
        return dataclasses.replace(result, verdict=dataclasses.replace(result.verdict, loss_of_training=True))
    return result


def _can_decode(folder: Folder) -> bool:
    """Whether the weights of all finished models are here, so that they can reconstruct pictures."""
    return all(has_weights(folder.path, run) for family in finished_families(folder).values() for run in family.runs)


def _losses_of_mean_picture(family: Family, measure: Measure, runs: Sequence[Run]) -> Float[np.ndarray, " M"]:
    return losses_of_mean_picture(family.world, judged_pictures(measure, family.world), runs)


def _loss_of_training(folder: Folder, runs: Sequence[Run]) -> Judgement:
    """The loss at the end of training in place of the loss on pictures: it places models nearly in the same order."""
    import polars as pl  # noqa: PLC0415 -- training machines may lack it

    losses = folder.store.table(["run", "metric", "value"]).filter(pl.col("metric") == LOSS_OF_TRAINING)
    by_run = dict(losses.select("run", "value").iter_rows())
    if missing := [run for run in runs if by_run.get(run.identity) is None]:
        raise RequestError(
            f"{folder.path} has neither the weights nor the training loss of {counted(len(missing), 'model')}: choose "
            f"by criteria, such as {AGREEMENT}"
        )
    scores = np.array([by_run[run.identity] for run in runs])
    return Judgement(scores, scores[None], ((),) * len(runs))


def _labelled(criteria: Sequence[NamedSettings]) -> dict[str, NamedSettings]:
    """Criteria by label. The label is the criterion's name; if a name comes twice, its settings are added."""
    names = [name for name, _ in criteria]
    return {
        name if names.count(name) == 1 else f"{name} {assignments(settings)}".rstrip(): NamedSettings(name, settings)
        for name, settings in criteria
    }


def _with_settings(
    criteria: Sequence[str | NamedSettings], settings: Mapping[str, Setting]
) -> tuple[NamedSettings, ...]:
    """Criteria, each with the settings that it has."""
    named = NamedSettings.parse_all(criteria)
    if not named:
        raise RequestError("name at least one criterion to rank by")
    return NamedSettings.with_settings(named, settings, lambda name: find_criterion(name).settings)
