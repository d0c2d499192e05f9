"""The verdict on the models of a world: which one to use, if any.

It is one of three. Models that are not trained far enough cannot be chosen from. Where nothing separates the models it
is undecided, and says which comes closest. Else it names one model. It is decided here and nowhere else: the command
line, the report and the leaderboard repeat it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from sober.criteria.choice_rule import ChoiceRule, find_rule
from sober.criteria.criterion import REPLICATES, UNFIT
from sober.criteria.ranked_models import RankedModel, RankedSetting
from sober.criteria.registry import criterion_words
from sober.errors import counted, listed
from sober.short_text import as_call
from sober.types import Run

Kind = Literal["not trained far enough", "undecided", "this one"]

EXPLAINED = 0.01  # share of the pictures' variance below which a reconstruction is no better than the mean picture
STILL_LEARNING = 0.05  # share of all progress in the last fifth of training above which a model is still learning
SHORTEST = 1000  # steps: no family that was tried was trained with fewer
MOST_LONGER = 20.0  # times: beyond it, what longer training needs cannot be told
DECIDED = 0.5  # share of the draws in which the model and the setting named must come first


class TrainingState(NamedTuple):
    """How far a model is trained, by what it does."""

    steps: int
    explained: float  # 1 - squared error of its reconstructions / that of the mean picture; NaN if it has none
    last_fifth: float  # share of its progress over the mean picture made in the last fifth of training; NaN if unknown
    informative: int  # latents that carry something

    def __repr__(self) -> str:
        return as_call(self)

    @property
    def is_learning(self) -> bool:
        return self.last_fifth > STILL_LEARNING

    @property
    def is_no_better_than_mean_picture(self) -> bool:
        return self.explained < EXPLAINED

    @property
    def is_collapsed(self) -> bool:
        """Whether it has settled on codes that carry nothing: more steps will not help."""
        return self.informative == 0 and not self.is_learning and not self.explained < -EXPLAINED

    @property
    def is_trained(self) -> bool:
        return not self.is_learning and not self.is_no_better_than_mean_picture and self.informative > 0

    def in_words(self) -> str:
        """Why it is not trained, as the end of a sentence about it."""
        if self.informative == 0:
            return "has no latent that carries anything"
        if self.is_no_better_than_mean_picture:
            return "reconstructs pictures no better than the mean picture does"
        return "was still learning when training ended" if self.is_learning else "is trained"

    @property
    def steps_that_would_do(self) -> float:
        """An estimate. The share of the last fifth falls about as one over the number of steps."""
        longer = self.last_fifth / STILL_LEARNING if self.explained > EXPLAINED else MOST_LONGER
        return self.steps * float(np.clip(longer, 1.5, MOST_LONGER))


Training = Mapping[str, TrainingState]  # by the identity of the run


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Which of a world's models to use, and how sure that is."""

    kind: Kind
    models: int  # compared
    run: str  # identity of the best placed model
    setting: str  # of that model, in words for people
    seed: int
    certainty: float | None  # share of draws in which it came first; None if the models are not trained far enough
    draws: int
    criteria: tuple[str, ...]
    reasons: tuple[str, ...]  # why no model is named
    checked: bool = True  # whether it could be seen how far the models are trained
    steps: int | None = None  # that would do, if the models are not trained far enough
    minutes: float | None = None  # that would do
    prefer: str = ""  # the wish that the choice follows; empty if the criteria have equal weight
    gives_up: str = ""  # compares the model with the most agreeing and the most keeping one, in words
    most_loss: float | None = None  # nats that a model may lose of a picture to be chosen, at most; None: any
    best_setting: str = ""  # by the median over seeds, in words, where a rule chose a model of another one
    loss_of_training: bool = False  # whether the loss comes from the last training steps, as the models are not here

    def __repr__(self) -> str:
        return as_call(self)

    @property
    def model(self) -> str:
        """The best placed model in words: its setting, seed and identity."""
        return f"{self.setting}, seed {self.seed} (run {self.run[:8]})"

    def sentence(self) -> str:
        """The verdict in a few sentences."""
        return " ".join(filter(None, [self.statement(), self.how_often_right(), *self.unchecked()]))

    def statement(self) -> str:
        """The verdict and how sure it is, without how often such a choice was right elsewhere."""
        if self.kind == "not trained far enough":
            lacking = f"Not trained far enough to choose from: {'; '.join(self.reasons)}."
            return " ".join([lacking, *self._that_would_do()])
        among = f"of {counted(self.models, 'model')}"
        first = f"came first in {self.certainty:.0%} of {self.draws} draws of pictures and partners"
        if self.kind == "this one":
            sentences = [f"Use this one, {among}: {self.model}.", f"{self._by()} it {first}."]
        else:
            sentences = [
                f"Undecided: {'; '.join(self.reasons)}.",
                f"The best placed {among} is {self.model}: it {first}.",
            ]
        return " ".join([*sentences, *self._best_setting()])

    def why(self) -> str:
        """Why it is this model, or none, for a page that says beside it which model it is and how sure that is."""
        if self.kind == "not trained far enough":
            return self.statement()
        if self.kind == "undecided":
            reasons = "; ".join(self.reasons)
            sentence = f"{reasons[0].upper()}{reasons[1:]}. The best placed of {counted(self.models, 'model')} is "
            sentence += f"{self.setting}, seed {self.seed}."
        elif self.prefer:
            sentence = f"Among {find_rule(self.prefer).among}, its latents agree most with those of the other models."
        else:
            sentence = f"{self._by()} it is the best placed of {counted(self.models, 'model')}."
        return " ".join([sentence, *self._best_setting()])

    def unchecked(self) -> list[str]:
        """What could not be seen of the models, in sentences."""
        if self.certainty is None or self.checked:
            return []
        loss = ["For the same reason the loss comes from the last steps of training."] if self.loss_of_training else []
        return ["How far the models are trained could not be checked: they are not here.", *loss]

    def _best_setting(self) -> list[str]:
        if not self.best_setting:
            return []
        return [f"By the median over seeds the best setting is another, {self.best_setting}."]

    def _by(self) -> str:
        """By what the models were placed, as the beginning of a sentence."""
        if self.prefer:
            return f"By {criterion_words(self.criteria[0])}, among {find_rule(self.prefer).among},"
        return f"By {' and '.join(map(criterion_words, self.criteria))}"

    def how_often_right(self) -> str:
        """How often choices of this certainty were right on worlds with labels; empty where that is not known."""
        if not self.prefer or self.certainty is None:
            return ""
        return find_rule(self.prefer).record(self.certainty).sentence()

    def _that_would_do(self) -> list[str]:
        if self.minutes is not None:
            return [f"About {self.minutes:,.0f} minutes would do."]
        return [] if self.steps is None else [f"About {self.steps:,} steps would do."]

    def plain(self) -> dict[str, Any]:
        """The verdict as plain values, for JSON."""
        return {**dataclasses.asdict(self), "sentence": self.sentence()}

    @staticmethod
    def of(plain: Mapping[str, Any]) -> Verdict:
        """The verdict of plain values."""
        fields = {field.name: plain[field.name] for field in dataclasses.fields(Verdict) if field.name in plain}
        lists = {name: tuple(value) for name, value in fields.items() if isinstance(value, list)}
        return Verdict(**{**fields, **lists})


def decide(
    models: Sequence[RankedModel],
    settings: Sequence[RankedSetting],
    criteria: Sequence[str],
    *,
    words: Callable[[Run], str],
    rule: ChoiceRule | None = None,
    training: Training | None = None,
    fewest: int = 0,
) -> Verdict:
    """The verdict that a ranking of models and settings amounts to, best first.

    `training` says how far each model is trained; None if that could not be seen. `fewest` is the number of steps below
    which no training counts.
    """
    best = models[0]
    verdict = Verdict(
        "this one", len(models), best.run.identity, words(best.run), best.run.seed, best.first, REPLICATES,
        tuple(criteria), (), checked=training is not None, prefer=rule.prefer if rule else "",
    )  # fmt: skip
    if training is not None:
        states = [training[model.run.identity] for model in models]
        if lacking := why_not_trained(states, fewest):
            steps = steps_that_would_do(states, fewest) or None
            return dataclasses.replace(
                verdict, kind="not trained far enough", certainty=None, reasons=lacking, steps=steps
            )
    if rule is not None and best.run not in settings[0].runs:
        verdict = dataclasses.replace(verdict, best_setting=settings[0].words)
    state = None if training is None else training[best.run.identity]
    if reasons := why_undecided(best, settings, state, needs_best_setting=rule is None):
        return dataclasses.replace(verdict, kind="undecided", reasons=reasons)
    return verdict


def why_undecided(
    best: RankedModel, settings: Sequence[RankedSetting], state: TrainingState | None, *, needs_best_setting: bool
) -> tuple[str, ...]:
    """Why the best placed model is not simply the one to use; nothing if it is.

    A model that a rule chose needs no best setting: it was right as often with another (docs/criteria/choosing.md).
    """
    reasons = []
    if unfit := set(best.flags) & set(UNFIT):
        reasons.append(f"no model is fit to be used, as even the best placed is flagged {listed(sorted(unfit))}")
    elif state is not None and not state.is_trained:
        reasons.append(f"the best placed model {state.in_words()}")
    if needs_best_setting and best.run not in settings[0].runs:
        reasons.append(f"by the median over seeds the best setting is another, {settings[0].words}")
    if best.first < DECIDED:
        reasons.append("no model came first in half of the draws")
    return tuple(reasons)


def why_not_trained(states: Sequence[TrainingState], fewest: int = 0) -> tuple[str, ...]:
    """Why models are not trained far enough to choose from; nothing if they are.

    They are if at least half of them are trained. Models that have collapsed for good are left out of the count unless
    all have. `fewest` is the number of steps below which no training counts.
    """
    if all(state.is_collapsed for state in states):
        return ("no latent of any model carries anything, and all have stopped learning: try weaker regularisation",)
    counting = [state for state in states if not state.is_collapsed]
    steps = max(state.steps for state in states)
    reasons = []
    if steps < fewest:
        reasons.append(f"models trained for {counted(steps, 'step')}, and need some {fewest:,}")
    elif 2 * sum(state.is_trained for state in counting) >= len(counting):
        return ()
    smears = sum(state.is_no_better_than_mean_picture for state in states)
    if smears:
        made_by = _of(smears, len(states), verb=False)
        reasons.append(f"the reconstructions of {made_by} are no better than the mean picture")
    learning = [state.last_fifth for state in counting if state.is_learning and state.explained > EXPLAINED]
    if learning and smears < len(states) / 2:
        brought = f"{share:.0%}" if (share := float(np.median(learning))) < DECIDED else "most"
        reasons.append(
            f"{_of(len(learning), len(states))} still learning when training ended: the last fifth brought "
            f"{brought} of all progress"
        )
    empty = sum(state.informative == 0 for state in states)
    if empty:
        reasons.append(f"the latents of {_of(empty, len(states), verb=False)} carry nothing")
    return tuple(reasons)


def steps_that_would_do(states: Sequence[TrainingState], fewest: int = 0) -> int:
    """How many steps would do for most models, with two digits."""
    needed = [state.steps_that_would_do for state in states if not state.is_collapsed and not state.is_trained]
    if not needed and not fewest:
        return 0
    return two_digits(max(float(np.median(needed or [0])), SHORTEST, fewest))


def two_digits(number: float) -> int:
    """A number rounded up to two digits."""
    unit = 10 ** max(0, math.floor(math.log10(max(number, 1))) - 1)
    return math.ceil(number / unit) * unit


def _of(count: int, models: int, *, verb: bool = True) -> str:
    """`all 6 models were`, `1 of 6 models was`."""
    were = (" was" if count == 1 else " were") if verb else ""
    if count == models:
        return f"the model{were}" if count == 1 else f"all {models} models{were}"
    return f"{count} of {models} models{were}"
