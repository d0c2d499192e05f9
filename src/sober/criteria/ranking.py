"""A ranking of models without labels and how certain it is: by a rule, by one criterion, or by mean ranks.

Which setting to train with and which model to use are two questions (Duan et al. 2020; Locatello et al. 2020): a
setting is ranked by the median over its seeds, a model by its own score.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy
from jaxtyping import Bool, Float, Int

from sober.criteria.choice_rule import AGREEMENT, LOSS, ChoiceRule, kept_shares
from sober.criteria.criterion import REPLICATES, UNFIT, Criterion, Judgement
from sober.criteria.ranked_models import RankedModel, RankedSetting
from sober.criteria.registry import criterion_words
from sober.criteria.verdict import Training, Verdict, decide
from sober.errors import RequestError, counted
from sober.short_text import as_table
from sober.types import Run

Combine = Callable[[Sequence[Float[np.ndarray, "*R M"]], np.ndarray], Float[np.ndarray, "*R M"]]


@dataclasses.dataclass(frozen=True, eq=False)
class Ranking:
    """Models and settings, best first."""

    criteria: Mapping[str, Criterion]  # by label: one criterion may be used twice, with different settings
    models: tuple[RankedModel, ...]
    settings: tuple[RankedSetting, ...]
    left_out: tuple[Run, ...]  # models whose training diverged
    verdict: Verdict

    def __repr__(self) -> str:
        heading = f"Ranking of {counted(len(self.models), 'model')} by {' and '.join(self.criteria)}"
        left_out = f"; {len(self.left_out)} diverged and left out" if self.left_out else ""
        return as_table(f"{heading}{left_out}: {self.verdict.kind}", self.rows())

    @property
    def best(self) -> RankedModel:
        return self.models[0]

    def by_latents(self) -> dict[int, RankedModel]:
        """The best model for each number of informative latents, to compare like with like: UDR prefers few."""
        best: dict[int, RankedModel] = {}
        for model in self.models:
            best.setdefault(model.informative, model)
        return dict(sorted(best.items()))

    def rows(self) -> list[dict[str, object]]:
        """Models as the rows of a table. How often each came first is left out if no model is trained far enough."""
        words = {run: setting.words for setting in self.settings for run in setting.runs}
        return [
            {
                "place": model.place,
                "setting": words[model.run],
                "seed": model.run.seed,
                "run": model.run.identity[:8],
                **{label: f"{score:.3f}" for label, score in model.scores.items()},
                "latents": f"{model.informative} of {model.run.latents}",
                "first": "" if self.verdict.certainty is None else f"{model.first:.0%}",
                "flags": " ".join(model.flags),
            }
            for model in self.models
        ]

    def plain(self) -> dict[str, Any]:
        """The ranking as plain values, for JSON."""
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
            "verdict": self.verdict.plain(),
            "sentences": self.sentences(),
        }

    def sentences(self) -> list[str]:
        """The verdict, what the choice gives up, and what the criteria can and cannot see."""
        given_up = [self.verdict.gives_up] if self.verdict.gives_up else []
        return [self.verdict.sentence(), *given_up] + [
            f"{criterion_words(label)}: {criterion.sees} {criterion.blind}"
            for label, criterion in self.criteria.items()
        ]


def _finite(scores: Mapping[str, float]) -> dict[str, float | None]:
    """Infinity becomes None: JSON cannot hold it."""
    return {label: score if np.isfinite(score) else None for label, score in scores.items()}


def ranking(
    runs: Sequence[Run],
    informative: Sequence[int],
    judgements: Mapping[str, tuple[Criterion, Judgement]],
    *,
    words: Callable[[Run], str],
    rule: ChoiceRule | None = None,
    of_mean_picture: Float[np.ndarray, " M"] | None = None,
    left_out: Sequence[Run] = (),
    training: Training | None = None,
    fewest_steps: int = 0,
    seed: int = 0,
) -> Ranking:
    """Ranks runs by judgements of these runs: by a rule, which needs its two criteria, or by mean ranks.

    `informative` counts the informative latents of each run's model, and `words` describes its setting. The label of a
    judgement is the name of its criterion, longer if the criterion is used twice. A rule needs the loss of the mean
    picture. `training` and `fewest_steps` are for the verdict.
    """
    if not judgements:
        raise RequestError("name at least one criterion to rank by")
    rng = np.random.default_rng([seed, 3])
    flags_by_criterion = [judgement.flags for _, judgement in judgements.values()]
    flags = [tuple(sorted(set().union(*model_flags))) for model_flags in zip(*flags_by_criterion, strict=True)]
    unfit = np.array([bool(set(model_flags) & set(UNFIT)) for model_flags in flags])
    losses = {
        label: _losses(criterion, judgement, rng.integers(0, len(judgement.replicates), REPLICATES))
        for label, (criterion, judgement) in judgements.items()
    }
    combined: Combine = _mean_ranks
    most_loss = None
    if rule is not None:
        assert of_mean_picture is not None
        most_loss = rule.most_loss(losses[LOSS].scores, of_mean_picture, unfit)
        losses[LOSS] = losses[LOSS].as_shares(of_mean_picture, unfit)
        combined = _by_rule(rule, list(judgements))
    ranks = combined([loss.scores for loss in losses.values()], unfit)  # (M,)
    replicate_ranks = combined([loss.replicates for loss in losses.values()], unfit)  # (R, M)
    places = scipy.stats.rankdata(replicate_ranks, method="min", axis=1)
    place_range = np.quantile(places, (0.05, 0.95), axis=0, method="nearest").astype(int)
    order = np.lexsort((np.array([run.identity for run in runs]), ranks))
    first = _share_of_first(replicate_ranks, rng)
    models = tuple(
        RankedModel(
            runs[m],
            place,
            {label: float(judgement.scores[m]) for label, (_, judgement) in judgements.items()},
            float(ranks[m]),
            float(first[m]),
            (int(place_range[0, m]), int(place_range[1, m])),
            int(informative[m]),
            flags[m],
        )
        for place, m in enumerate(order.tolist(), start=1)
    )
    criteria = {label: criterion for label, (criterion, _) in judgements.items()}
    settings = _settings(runs, judgements, losses, combined, words, rng)
    verdict = decide(models, settings, tuple(criteria), words=words, rule=rule, training=training, fewest=fewest_steps)
    if rule is not None and verdict.certainty is not None:
        shares = dict(zip(runs, losses[LOSS].scores.tolist(), strict=True))
        verdict = dataclasses.replace(verdict, gives_up=_gives_up(models, shares, words), most_loss=most_loss)
    return Ranking(criteria, models, settings, tuple(left_out), verdict)


class _Losses(NamedTuple):
    """Scores and replicates of a criterion, negated if higher is better: the lowest is the best."""

    scores: Float[np.ndarray, " M"]
    replicates: Float[np.ndarray, "R M"]

    def as_shares(self, of_mean_picture: Float[np.ndarray, " M"], unfit: Bool[np.ndarray, " M"]) -> _Losses:
        """Losses of pictures as shares of a picture that models keep, as a rule takes them: the highest is the best."""
        return _Losses(*(kept_shares(losses, of_mean_picture, unfit) for losses in self))


def _losses(criterion: Criterion, judgement: Judgement, indices: Int[np.ndarray, " R"]) -> _Losses:
    """Losses of a judgement, with these of its replicates."""
    sign = 1 if criterion.better == "lower" else -1
    return _Losses(sign * judgement.scores, sign * judgement.replicates[indices])


def _mean_ranks(losses: Sequence[Float[np.ndarray, "*R M"]], unfit: np.ndarray) -> Float[np.ndarray, "*R M"]:
    """The mean rank under the criteria, lowest first, with unfit models after all others."""
    last = np.where(unfit, unfit.size, 0)
    return np.mean([scipy.stats.rankdata(values, axis=-1) + last for values in losses], axis=0)


def _by_rule(rule: ChoiceRule, labels: Sequence[str]) -> Combine:
    """Combines what is under these labels by a rule: disagreement, and the shares that models keep."""

    def combined(losses: Sequence[Float[np.ndarray, "*R M"]], unfit: np.ndarray) -> Float[np.ndarray, "*R M"]:
        return rule.ranks(losses[labels.index(AGREEMENT)], losses[labels.index(LOSS)], unfit)

    return combined


def _gives_up(models: Sequence[RankedModel], shares: Mapping[Run, float], words: Callable[[Run], str]) -> str:
    """Compares the chosen model with the most agreeing and the most keeping model, in sentences.

    `shares` is how much each run's model keeps of a picture, as a share of what the best one keeps.
    """
    chosen, fit = models[0], [model for model in models if not set(model.flags) & set(UNFIT)]
    agreeing = max(fit, key=lambda model: model.scores[AGREEMENT], default=chosen)
    keeping = max(fit, key=lambda model: shares[model.run], default=chosen)
    sentences = []
    if agreeing.scores[AGREEMENT] > chosen.scores[AGREEMENT]:
        sentences.append(
            f"{words(agreeing.run)}, seed {agreeing.run.seed}, agrees most with the other models (UDR "
            f"{agreeing.scores[AGREEMENT]:.2f}, the chosen one {chosen.scores[AGREEMENT]:.2f}), but keeps only "
            f"{shares[agreeing.run]:.0%} of what the best model keeps of a picture, the chosen one "
            f"{shares[chosen.run]:.0%}."
        )
    if shares[keeping.run] > shares[chosen.run]:
        sentences.append(
            f"{words(keeping.run)}, seed {keeping.run.seed}, keeps the most, but its UDR is "
            f"{keeping.scores[AGREEMENT]:.2f}."
        )
    return " ".join(sentences) or "No other model agrees more, and none keeps more of a picture."


def _share_of_first(ranks: Float[np.ndarray, "R M"], rng: np.random.Generator) -> Float[np.ndarray, " M"]:
    """How often each comes first. Ties are broken by chance."""
    luck = rng.random(ranks.shape)
    tied = ranks == ranks.min(axis=1, keepdims=True)
    winners = np.argmax(np.where(tied, luck, -1.0), axis=1)
    return np.bincount(winners, minlength=ranks.shape[1]) / len(ranks)


def _settings(
    runs: Sequence[Run],
    judgements: Mapping[str, tuple[Criterion, Judgement]],
    losses: Mapping[str, _Losses],
    combined: Combine,
    words: Callable[[Run], str],
    rng: np.random.Generator,
) -> tuple[RankedSetting, ...]:
    """Ranks settings by the median over their seeds. Replicates draw the seeds again, too."""
    members: dict[str, list[int]] = {}
    for m, run in enumerate(runs):
        members.setdefault(dataclasses.replace(run, seed=0).identity, []).append(m)
    groups = [np.array(indices) for indices in members.values()]
    drawn_seeds = [group[rng.integers(0, len(group), (REPLICATES, len(group)))] for group in groups]
    unfit = np.zeros(len(groups), bool)  # a setting is never unfit: one bad model does not make it so
    ranks = combined([_medians(loss.scores, groups) for loss in losses.values()], unfit)
    replicates = [
        np.stack([np.median(np.take_along_axis(loss.replicates, s, axis=1), axis=1) for s in drawn_seeds], axis=1)
        for loss in losses.values()
    ]
    first = _share_of_first(combined(replicates, unfit), rng)
    medians = {label: _medians(judgement.scores, groups) for label, (_, judgement) in judgements.items()}
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
