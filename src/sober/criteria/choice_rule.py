"""How one model is chosen from several without labels: agreement is weighed against what the codes keep.

Models agree most about codes that keep little: what is left is easy to find again. So a rule looks at agreement only
among the models that explain their pictures best. The wish of a person says how many of them count:

    few         all models: the most agreement, often with few latents
    balanced    the half with the lowest loss
    complete    the third with the lowest loss

docs/criteria/choosing.md says how this was decided, and how often each rule was right.
"""

from __future__ import annotations

from typing import NamedTuple, get_args

import numpy as np
import scipy
from jaxtyping import Bool, Float

from sober.defaults import Prefer
from sober.errors import RequestError, choices
from sober.short_text import as_call

AGREEMENT = "udr"  # the criterion that says how far models agree
LOSS = "elbo"  # the criterion that says how well a model explains its pictures, in nats
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
        return (
            f"Choices this sure were one of the best quarter of the models in {self.best_quarter} of {self.families} "
            f"families with labels, and one of the better half in {self.better_half}."
        )


class ChoiceRule(NamedTuple):
    """Keeps the `share` of the models with the lowest loss, and prefers high agreement among them."""

    prefer: Prefer
    share: float
    among: str  # those models, in words
    records: tuple[Record, ...]  # the surest first

    def __repr__(self) -> str:
        return as_call(self)

    @property
    def criteria(self) -> tuple[str, str]:
        return AGREEMENT, LOSS

    def ranks(
        self, disagreement: Float[np.ndarray, "*R M"], loss: Float[np.ndarray, "*R M"], unfit: Bool[np.ndarray, " M"]
    ) -> Float[np.ndarray, "*R M"]:
        """The lowest is the best. Models whose loss is too high come after the others, and unfit models come last."""
        models = unfit.size
        count = np.ceil(self.share * np.count_nonzero(~unfit))
        place = scipy.stats.rankdata(np.where(unfit, np.inf, loss), method="min", axis=-1)
        behind = (place > count) | unfit
        return scipy.stats.rankdata(disagreement, axis=-1) + models * behind + models * unfit

    def record(self, certainty: float) -> Record:
        """How often choices of this certainty were right."""
        return next(record for record in self.records if certainty >= record.at_least)


# docs/make_choosing.py counts the records; a test compares them.
RULES: dict[Prefer, ChoiceRule] = {
    "few": ChoiceRule(
        "few", 1.0, "all models",
        (Record(0.75, 5, 9, 9), Record(0.5, 7, 13, 13), Record(0.0, 27, 36, 44)),
    ),
    "balanced": ChoiceRule(
        "balanced", 1 / 2, "the half of the models with the lowest loss",
        (Record(0.75, 15, 15, 15), Record(0.5, 10, 18, 20), Record(0.0, 13, 28, 31)),
    ),
    "complete": ChoiceRule(
        "complete", 1 / 3, "the third of the models with the lowest loss",
        (Record(0.75, 16, 21, 22), Record(0.5, 8, 19, 24), Record(0.0, 8, 14, 20)),
    ),
}  # fmt: skip


def find_rule(prefer: str) -> ChoiceRule:
    """The rule for a wish."""
    if prefer not in get_args(Prefer):
        raise RequestError(f"unknown wish {prefer!r}: {choices(prefer, RULES)}")
    return RULES[prefer]  # type: ignore[index]
