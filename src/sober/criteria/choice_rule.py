"""How one model is chosen from several without labels: agreement is weighed against what the codes keep.

Models agree most about codes that keep little: what is left is easy to find again. So a rule looks at agreement only
among models that keep nearly as much of their pictures as the best one does. A model keeps

    k = (loss of the mean picture - loss) / (loss of the mean picture - lowest loss)

of what the best model keeps: 1 for the best, 0 for one whose reconstructions are no better than the mean picture. The
wish of a person says how much it must be:

    few         anything: the most agreement, often with few latents
    balanced    nine tenths
    complete    nineteen twentieths

docs/criteria/choosing.md says how this was decided, and how often each rule was right.
"""

from __future__ import annotations

import math
from typing import NamedTuple, get_args

import numpy as np
import scipy
from jaxtyping import Bool, Float

from sober.defaults import Prefer
from sober.errors import RequestError, choices
from sober.short_text import as_call

AGREEMENT = "udr"  # the criterion that says how far models agree
LOSS = "reconstruction"  # the criterion that says how much of a picture a model loses, in nats
BEST_QUARTER = 0.75  # a choice was right if its model beat this share of the other models by labels


class Record(NamedTuple):
    """How often choices of one certainty were right, in families whose labels could tell."""

    at_least: float  # share of the draws in which the chosen model came first
    best_quarter: int  # choices that named one of the best quarter of the models
    better_half: int
    families: int

    def __repr__(self) -> str:
        return as_call(self)

    def sentence(self) -> str:
        quarter = (
            f"Choices this sure were one of the best quarter of the models in {self.best_quarter} of {self.families} "
            "families with labels"
        )
        if self.best_quarter == self.families:
            return f"{quarter}."
        return f"{quarter}, and one of the better half in {self.better_half}."


class ChoiceRule(NamedTuple):
    """Among the models that keep at least a share of what the best one keeps, prefers high agreement."""

    prefer: Prefer
    least: float  # share
    among: str  # those models, in words
    records: tuple[Record, ...]  # the surest first

    def __repr__(self) -> str:
        return as_call(self)

    @property
    def criteria(self) -> tuple[str, str]:
        return AGREEMENT, LOSS

    def ranks(
        self, disagreement: Float[np.ndarray, "*R M"], shares: Float[np.ndarray, "*R M"], unfit: Bool[np.ndarray, " M"]
    ) -> Float[np.ndarray, "*R M"]:
        """The lowest is the best. Models that keep too small a share come after the others, and unfit ones last."""
        models = unfit.size
        behind = (shares < self.least) | unfit
        return scipy.stats.rankdata(disagreement, axis=-1) + models * behind + models * unfit

    def most_loss(
        self, loss: Float[np.ndarray, " M"], of_mean_picture: Float[np.ndarray, " M"], unfit: Bool[np.ndarray, " M"]
    ) -> float | None:
        """The highest loss of a model that keeps enough; None if any does."""
        gain = np.where(unfit, -np.inf, of_mean_picture - loss)
        best = int(gain.argmax())
        if math.isinf(self.least) or not gain[best] > 0:
            return None
        return float(of_mean_picture[best] - self.least * gain[best])

    def record(self, certainty: float) -> Record:
        """How often choices of this certainty were right."""
        return next(record for record in self.records if certainty >= record.at_least)


# docs/make_choosing.py counts the records; a test compares them.
RULES: dict[Prefer, ChoiceRule] = {
    "few": ChoiceRule(
        "few", -math.inf, "all models",
        (Record(0.75, 5, 9, 11), Record(0.5, 7, 14, 15), Record(0.0, 27, 37, 47)),
    ),
    "balanced": ChoiceRule(
        "balanced", 0.9, "the models that keep at least 90% of what the best one keeps of a picture",
        (Record(0.75, 7, 8, 8), Record(0.5, 12, 18, 19), Record(0.0, 30, 43, 46)),
    ),
    "complete": ChoiceRule(
        "complete", 0.95, "the models that keep at least 95% of what the best one keeps of a picture",
        (Record(0.75, 10, 16, 17), Record(0.5, 15, 21, 25), Record(0.0, 14, 24, 31)),
    ),
}  # fmt: skip


def kept_shares(
    loss: Float[np.ndarray, "*R M"], of_mean_picture: Float[np.ndarray, " M"], unfit: Bool[np.ndarray, " M"]
) -> Float[np.ndarray, "*R M"]:
    """How much each model keeps of a picture, as a share of what the best fit model keeps.

    `of_mean_picture` is the loss if every picture is reconstructed as the mean picture. If no model does better than
    that, all keep the same.
    """
    gain = of_mean_picture - loss
    best = np.where(unfit, -np.inf, gain).max(axis=-1, keepdims=True)
    return np.where(best > 0, gain / np.where(best > 0, best, 1.0), 1.0)


def find_rule(prefer: str) -> ChoiceRule:
    """The rule for a wish."""
    if prefer not in get_args(Prefer):
        raise RequestError(f"unknown wish {prefer!r}: {choices(prefer, RULES)}")
    return RULES[prefer]  # type: ignore[index]
