"""A ranking of models without labels, by one criterion or by the mean of the ranks of several, and how sure it is.

Which setting to train with and which model to use are two questions (Duan et al. 2020; Locatello et al. 2020): a
setting is judged by the median over its seeds, a model by itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy
from jaxtyping import Float, Int

from sober.criteria.criterion import REPLICATES, UNFIT, Criterion, Judgement
from sober.errors import RequestError, counted, listed
from sober.types import Run


class RankedModel(NamedTuple):
    """One model and its place."""

    run: Run
    place: int  # 1 is best
    scores: Mapping[str, float]  # by the label of a criterion
    rank: float  # the mean of its ranks under the criteria
    first: float  # in which share of the replicates it came first
    places: tuple[int, int]  # in nine of ten replicates it came within these
    informative: int  # latents
    flags: tuple[str, ...]


class RankedSetting(NamedTuple):
    """One setting and its place: all that runs share that differ in nothing but their seed."""

    words: str
    runs: tuple[Run, ...]
    place: int
    scores: Mapping[str, float]  # medians over seeds
    rank: float
    first: float


@dataclasses.dataclass(frozen=True, eq=False)
class Ranking:
    """Models and settings, best first."""

    criteria: Mapping[str, Criterion]  # by label: one criterion may judge twice, with other settings
    models: tuple[RankedModel, ...]
    settings: tuple[RankedSetting, ...]
    left_out: tuple[Run, ...]  # no numbers: training had diverged

    @property
    def best(self) -> RankedModel:
        return self.models[0]

    def by_latents(self) -> dict[int, RankedModel]:
        """The best model for each number of informative latents: UDR prefers few, so compare like with like."""
        best: dict[int, RankedModel] = {}
        for model in self.models:
            best.setdefault(model.informative, model)
        return dict(sorted(best.items()))

    def plain(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "criteria": list(self.criteria),
            "models": [
                {**model._asdict(), "run": model.run.identity, "scores": _finite(model.scores)} for model in self.models
            ],
            "settings": [
                {**setting._asdict(), "runs": [run.identity for run in setting.runs], "scores": _finite(setting.scores)}
                for setting in self.settings
            ],
            "left_out": [run.identity for run in self.left_out],
            "sentences": self.sentences(),
        }

    def sentences(self) -> list[str]:
        """What was found, how sure it is, and what the criteria can and cannot see."""
        best, by = self.best, " and ".join(self.criteria)
        said = [
            f"The model to use, of {len(self.models)}, is {best.run.identity[:8]} by {by}: it came first in "
            f"{best.first:.0%} of {REPLICATES} draws of pictures and partners{_in_nine_of_ten(best.places[1])}."
        ]
        if len(self.settings) > 1:
            setting = self.settings[0]
            said.append(
                f"The setting to train with, of {len(self.settings)}, is {setting.words}: the median over its "
                f"{counted(len(setting.runs), 'seed')} came first in {setting.first:.0%} of draws."
            )
        if unfit := set(best.flags) & set(UNFIT):
            said.append(f"No model is fit to be used: even this one is flagged {listed(unfit)}.")
        return said + [f"{label}: {criterion.sees} {criterion.blind}" for label, criterion in self.criteria.items()]


def _finite(scores: Mapping[str, float]) -> dict[str, float | None]:
    """JSON has no word for infinity."""
    return {label: score if np.isfinite(score) else None for label, score in scores.items()}


def ranking(
    runs: Sequence[Run],
    informative: Sequence[int],
    judged: Mapping[str, tuple[Criterion, Judgement]],
    *,
    words: Callable[[Run], str],
    left_out: Sequence[Run] = (),
    seed: int = 0,
) -> Ranking:
    """The ranking that judgements of the same runs amount to. Several count alike, by the ranks they give.

    `informative` counts the informative latents of each run's model, and `words` says its setting. Judgements have
    labels: the name of the criterion, or more where it judges twice.
    """
    if not judged:
        raise RequestError("name at least one criterion to rank by")
    rng = np.random.default_rng([seed, 3])
    by_criterion = [judgement.flags for _, judgement in judged.values()]
    flags = [tuple(sorted(set().union(*of_model))) for of_model in zip(*by_criterion, strict=True)]
    unfit = np.array([bool(set(said) & set(UNFIT)) for said in flags])
    losses = {
        label: _losses(criterion, judgement, rng.integers(0, len(judgement.replicates), REPLICATES))
        for label, (criterion, judgement) in judged.items()
    }
    ranks = _consensus([each.scores for each in losses.values()], unfit)  # (M,)
    again = _consensus([each.replicates for each in losses.values()], unfit)  # (R, M)
    places = scipy.stats.rankdata(again, method="min", axis=1)
    within = np.quantile(places, (0.05, 0.95), axis=0, method="nearest").astype(int)
    order = np.lexsort((np.array([run.identity for run in runs]), ranks))
    first = _share_of_first(again, rng)
    models = tuple(
        RankedModel(
            runs[m],
            place,
            {label: float(judgement.scores[m]) for label, (_, judgement) in judged.items()},
            float(ranks[m]),
            float(first[m]),
            (int(within[0, m]), int(within[1, m])),
            int(informative[m]),
            flags[m],
        )
        for place, m in enumerate(order.tolist(), start=1)
    )
    criteria = {label: criterion for label, (criterion, _) in judged.items()}
    return Ranking(criteria, models, _settings(runs, judged, losses, words, rng), tuple(left_out))


class _Losses(NamedTuple):
    """What a criterion says, with its sign turned where needed: the lowest is the best."""

    scores: Float[np.ndarray, " M"]
    replicates: Float[np.ndarray, "R M"]


def _losses(criterion: Criterion, judgement: Judgement, drawn: Int[np.ndarray, " R"]) -> _Losses:
    """With the replicates that were drawn."""
    sign = 1 if criterion.better == "lower" else -1
    return _Losses(sign * judgement.scores, sign * judgement.replicates[drawn])


def _consensus(losses: Sequence[Float[np.ndarray, "*R M"]], unfit: np.ndarray) -> Float[np.ndarray, "*R M"]:
    """The mean of the ranks under each criterion, lowest first; models that are unfit after all others."""
    last = np.where(unfit, unfit.size, 0)
    return np.mean([scipy.stats.rankdata(values, axis=-1) + last for values in losses], axis=0)


def _share_of_first(ranks: Float[np.ndarray, "R M"], rng: np.random.Generator) -> Float[np.ndarray, " M"]:
    """How often each comes first; where several do, chance decides."""
    luck = rng.random(ranks.shape)
    tied = ranks == ranks.min(axis=1, keepdims=True)
    winners = np.argmax(np.where(tied, luck, -1.0), axis=1)
    return np.bincount(winners, minlength=ranks.shape[1]) / len(ranks)


def _settings(
    runs: Sequence[Run],
    judged: Mapping[str, tuple[Criterion, Judgement]],
    losses: Mapping[str, _Losses],
    words: Callable[[Run], str],
    rng: np.random.Generator,
) -> tuple[RankedSetting, ...]:
    """Settings by the median over their seeds; in the replicates, seeds are drawn anew too."""
    members: dict[str, list[int]] = {}
    for m, run in enumerate(runs):
        members.setdefault(dataclasses.replace(run, seed=0).identity, []).append(m)
    groups = [np.array(places) for places in members.values()]
    seeds = [g[rng.integers(0, len(g), (REPLICATES, len(g)))] for g in groups]
    fit = np.zeros(len(groups), bool)  # a setting is not unfit because a model is
    ranks = _consensus([_medians(each.scores, groups) for each in losses.values()], fit)
    again = [
        np.stack([np.median(np.take_along_axis(each.replicates, s, axis=1), axis=1) for s in seeds], axis=1)
        for each in losses.values()
    ]
    first = _share_of_first(_consensus(again, fit), rng)
    medians = {label: _medians(judgement.scores, groups) for label, (_, judgement) in judged.items()}
    return tuple(
        RankedSetting(
            words(runs[groups[g][0]]),
            tuple(runs[m] for m in groups[g]),
            place,
            {label: float(values[g]) for label, values in medians.items()},
            float(ranks[g]),
            float(first[g]),
        )
        for place, g in enumerate(np.argsort(ranks, kind="stable").tolist(), start=1)
    )


def _medians(values: Float[np.ndarray, " M"], groups: Sequence[Int[np.ndarray, " m"]]) -> Float[np.ndarray, " G"]:
    return np.array([np.median(values[members]) for members in groups])


def _in_nine_of_ten(place: int) -> str:
    return "" if place == 1 else f", and {_ordinal(place)} or better in nine of ten"


def _ordinal(number: int) -> str:
    """`1st`, `2nd`, `13th`."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
