"""A ranking of models without labels, by one criterion or by the mean of the ranks of several, and how sure it is.

Which setting to train with and which model to use are two questions (Duan et al. 2020; Locatello et al. 2020): a
setting is judged by the median over its seeds, a model by itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy
from jaxtyping import Float

from sober.criteria.criterion import PICTURES, REPLICATES, UNFIT, Criterion, Evidence, Judgement
from sober.criteria.registry import find_criterion
from sober.criteria.udr import informative_latents
from sober.errors import RequestError, counted, listed
from sober.models.encode import Progress
from sober.models.family import Family
from sober.types import Run, Setting


class RankedModel(NamedTuple):
    """One model and its place."""

    run: Run
    place: int  # 1 is best
    scores: Mapping[str, float]  # by criterion
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

    criteria: tuple[Criterion, ...]
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
            "criteria": [criterion.name for criterion in self.criteria],
            "models": [{**model._asdict(), "run": model.run.identity} for model in self.models],
            "settings": [{**each._asdict(), "runs": [run.identity for run in each.runs]} for each in self.settings],
            "left_out": [run.identity for run in self.left_out],
            "sentences": self.sentences(),
        }

    def sentences(self) -> list[str]:
        """What was found, how sure it is, and what the criteria can and cannot see."""
        best, by = self.best, " and ".join(criterion.name for criterion in self.criteria)
        found = [
            f"The model to use, of {len(self.models)}, is {best.run.identity[:8]} by {by}: it came first in "
            f"{best.first:.0%} of {REPLICATES} draws of pictures and partners{_in_nine_of_ten(best.places[1])}."
        ]
        if len(self.settings) > 1:
            setting = self.settings[0]
            found.append(
                f"The setting to train with, of {len(self.settings)}, is {setting.words}: the median over its "
                f"{counted(len(setting.runs), 'seed')} came first in {setting.first:.0%} of draws."
            )
        if unfit := set(best.flags) & set(UNFIT):
            found.append(f"No model is fit to be used: even this one is flagged {listed(unfit)}.")
        return found + [f"{each.name}: {each.sees} {each.blind}" for each in self.criteria]


def rank(
    family: Family,
    criteria: Sequence[str] = ("udr",),
    *,
    settings: Mapping[str, Setting] | None = None,
    pictures: int = PICTURES,
    seed: int = 0,
    progress: Progress | None = None,
) -> Ranking:
    """Ranks the finished models of a family. Several criteria count alike, by the ranks they give.

    `settings` go to each criterion that has one of that name.
    """
    chosen = tuple(find_criterion(name) for name in dict.fromkeys(criteria))
    if not chosen:
        raise RequestError("name at least one criterion to rank by")
    known = {name for criterion in chosen for name in criterion.settings}
    if unknown := set(settings or {}) - known:
        raise RequestError(f"no setting {listed(unknown)!r}: {listed(c.name for c in chosen)} have {listed(known)}")
    evidence, left_out = Evidence.of(family, pictures=pictures, seed=seed, progress=progress)
    judged = {}
    for criterion in chosen:
        changes = {name: value for name, value in (settings or {}).items() if name in criterion.settings}
        judged[criterion.name] = criterion(evidence, changes, seed=seed, progress=progress)
    return ranking(evidence, chosen, judged, left_out, seed=seed)


def ranking(
    evidence: Evidence,
    criteria: Sequence[Criterion],
    judged: Mapping[str, Judgement],
    left_out: Sequence[Run] = (),
    *,
    seed: int = 0,
) -> Ranking:
    """The ranking that judgements amount to."""
    rng = np.random.default_rng([seed, 3])
    flags = [sorted({flag for found in judged.values() for flag in found.flags[m]}) for m in range(len(evidence.runs))]
    unfit = np.array([bool(set(each) & set(UNFIT)) for each in flags])
    sign = {criterion.name: 1 if criterion.better == "lower" else -1 for criterion in criteria}
    drawn = {
        name: found.replicates[rng.integers(0, len(found.replicates), REPLICATES)] for name, found in judged.items()
    }
    ranks = _consensus({name: sign[name] * found.scores for name, found in judged.items()}, unfit)  # (M,)
    again = _consensus({name: sign[name] * values for name, values in drawn.items()}, unfit)  # (R, M)
    places = scipy.stats.rankdata(again, method="min", axis=1)
    within = np.quantile(places, (0.05, 0.95), axis=0, method="nearest").astype(int)
    order = np.lexsort((np.array([run.identity for run in evidence.runs]), ranks))
    first = _share_of_first(again, rng)
    models = tuple(
        RankedModel(
            evidence.runs[m],
            place,
            {name: float(found.scores[m]) for name, found in judged.items()},
            float(ranks[m]),
            float(first[m]),
            (int(within[0, m]), int(within[1, m])),
            int(informative_latents(evidence.codes[m]).sum()),
            tuple(flags[m]),
        )
        for place, m in enumerate(order.tolist(), start=1)
    )
    settings = _settings(evidence, judged, drawn, sign, rng)
    return Ranking(tuple(criteria), models, settings, tuple(left_out))


def _consensus(values: Mapping[str, Float[np.ndarray, "*R M"]], unfit: np.ndarray) -> Float[np.ndarray, "*R M"]:
    """The mean of the ranks under each criterion, lowest value first; models that are unfit after all others."""
    last = np.where(unfit, unfit.size, 0)
    return np.mean([scipy.stats.rankdata(value, axis=-1) + last for value in values.values()], axis=0)


def _share_of_first(ranks: Float[np.ndarray, "R M"], rng: np.random.Generator) -> Float[np.ndarray, " M"]:
    """How often each comes first; where several do, chance decides."""
    luck = rng.random(ranks.shape)
    tied = ranks == ranks.min(axis=1, keepdims=True)
    winners = np.argmax(np.where(tied, luck, -1.0), axis=1)
    return np.bincount(winners, minlength=ranks.shape[1]) / len(ranks)


def _settings(
    evidence: Evidence,
    judged: Mapping[str, Judgement],
    drawn: Mapping[str, Float[np.ndarray, "R M"]],
    sign: Mapping[str, int],
    rng: np.random.Generator,
) -> tuple[RankedSetting, ...]:
    """Settings by the median over their seeds; in the replicates, seeds are drawn anew too."""
    members: dict[str, list[int]] = {}
    for at, run in enumerate(evidence.runs):
        members.setdefault(dataclasses.replace(run, seed=0).identity, []).append(at)
    groups = [np.array(each) for each in members.values()]
    medians = {name: np.array([np.median(found.scores[g]) for g in groups]) for name, found in judged.items()}
    ranks = _consensus({name: sign[name] * each for name, each in medians.items()}, np.zeros(len(groups), bool))
    seeds = [g[rng.integers(0, len(g), (REPLICATES, len(g)))] for g in groups]
    again = {
        name: np.stack([np.median(np.take_along_axis(each, s, axis=1), axis=1) for s in seeds], axis=1)
        for name, each in drawn.items()
    }
    turned = {name: sign[name] * each for name, each in again.items()}
    first = _share_of_first(_consensus(turned, np.zeros(len(groups), bool)), rng)
    return tuple(
        RankedSetting(
            evidence.family.words(evidence.runs[groups[at][0]]),
            tuple(evidence.runs[m] for m in groups[at]),
            place,
            {name: float(each[at]) for name, each in medians.items()},
            float(ranks[at]),
            float(first[at]),
        )
        for place, at in enumerate(np.argsort(ranks, kind="stable").tolist(), start=1)
    )


def _in_nine_of_ten(place: int) -> str:
    return "" if place == 1 else f", and {_ordinal(place)} or better in nine of ten"


def _ordinal(number: int) -> str:
    """`1st`, `2nd`, `13th`."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
