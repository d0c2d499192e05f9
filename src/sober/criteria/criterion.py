"""What a label-free criterion is: a function of trained models and their codes that gives each model a number.

Nothing here needs JAX: criteria that use the models themselves import it when they judge.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

import numpy as np
from jaxtyping import Float, Int

from sober.contracts import Cost, ProgressCallback, configured, counting, no_cost, no_progress, without_later
from sober.errors import RequestError, counted
from sober.shared import Shared
from sober.short_text import as_call
from sober.types import Codes, Run, Setting

if TYPE_CHECKING:  # these need JAX
    from sober.models.model import Model
    from sober.worlds import World

FEWEST_PICTURES = 10  # with fewer, models cannot be compared
HALVES = 8  # random halves of the pictures
REPLICATES = 200  # how often scores are computed again with other pictures and partners

UNJUDGED = "no_partner"  # flag of a model that was not judged; its score is the worst
# Flags of models that no criterion can recommend, and why.
UNFIT: Mapping[str, str] = {
    "collapsed": "no latent carries anything",
    "diverged": "training had stopped: the numbers were no longer finite",
    "ignores_codes": "the decoder makes nearly the same picture whatever the codes",
    UNJUDGED: "no other model is left to compare it with",
    "not_finite": "some codes were not finite",
}

R = TypeVar("R")


@dataclasses.dataclass(frozen=True, eq=False)
class Evidence:
    """All that a criterion may look at: models trained on one world, and their codes of the same pictures.

    Codes must be `fit_to_judge`. `load` loads the model of a run; only criteria that decode call it.
    """

    world: World
    runs: tuple[Run, ...]
    codes: tuple[Codes, ...]  # of each run
    index: Int[np.ndarray, " N"] | None  # the pictures' places in the world; None for all
    load: Callable[[Run], Model]

    @functools.cached_property
    def models(self) -> tuple[Model, ...]:
        return tuple(self.load(run) for run in self.runs)

    def posterior(self, model: int) -> tuple[Float[np.ndarray, "N D"], Float[np.ndarray, "N D"]]:
        """Mean and log-variance of q(z|x) for each picture under one of the models.

        If codes have no log-variance it is -∞: samples equal the mean, and the KL divergence from the prior is ∞.
        """
        codes = self.codes[model]
        return codes.mean, np.full_like(codes.mean, -np.inf) if codes.logvar is None else codes.logvar

    def only(self, runs: Iterable[Run]) -> Evidence:
        """The evidence about some of the runs, in the order given."""
        place = {run: m for m, run in enumerate(self.runs)}
        chosen = tuple(runs)
        return dataclasses.replace(self, runs=chosen, codes=tuple(self.codes[place[run]] for run in chosen))


def fit_to_judge(codes: Codes) -> bool:
    """Whether codes can be judged: training did not diverge, and every code is finite."""
    if {"diverged", "not_finite"} & set(codes.flags):
        return False
    return all_finite(codes.mean) and (codes.logvar is None or all_finite(codes.logvar))


def all_finite(array: np.ndarray) -> bool:
    """Whether all numbers are finite. Tries their sum first, which is quick, and finite unless they are huge."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(array.sum()) or np.isfinite(array).all())


class Judgement(NamedTuple):
    """A criterion's scores of M models, and scores that it might have given by chance."""

    scores: Float[np.ndarray, " M"]
    replicates: Float[np.ndarray, "R M"]  # the scores with other pictures and partners
    flags: tuple[tuple[str, ...], ...]
    parts: Mapping[str, np.ndarray] = {}  # arrays behind the scores that are worth keeping

    def __repr__(self) -> str:
        return as_call(self)


def _no_changes(steps: int) -> Mapping[str, Setting]:
    return {}


@dataclasses.dataclass(frozen=True)
class Criterion:
    """A criterion: its name and settings, and the function that judges models.

    `judge(evidence, seed=, progress=, shared=, **settings)` returns a Judgement. It computes through `shared` what
    other criteria need as well, which does not change the result.
    """

    name: str
    summary: str
    sees: str  # what it can see, in one sentence
    blind: str  # what it cannot see, in one sentence
    reference: str
    judge: Callable[..., Judgement]
    settings: Mapping[str, Setting] = dataclasses.field(default_factory=dict)
    # Settings that were added after scores were saved: rows leave them out at their defaults, which `judge` has too.
    later: frozenset[str] = frozenset()
    better: Literal["higher", "lower"] = "higher"
    low: float = -math.inf  # the lowest score that there can be, under any settings
    high: float = math.inf  # the highest
    compares: bool = False  # whether it needs at least two models
    title: str = ""  # its name for people; `name` if empty
    decodes: bool = False  # whether it needs the models themselves, and not only their codes
    headline: bool = False  # whether it chooses if only one criterion may
    relative: bool = False  # whether scores are relative to the best model judged, so families cannot be compared
    steps: str = ""  # the setting that counts its training steps; empty if it trains nothing
    suited: Callable[[int], Mapping[str, Setting]] = (
        _no_changes  # changes of settings for models trained for this many steps
    )
    cost: Callable[[Mapping[str, Setting], int], Cost] = no_cost  # of these settings, for this many models

    def __repr__(self) -> str:
        return as_call(self)

    def configured(self, changes: Mapping[str, Setting] | None = None) -> dict[str, Setting]:
        """Every setting, with changes. Refuses unknown settings, and a word in place of a number."""
        return without_later(configured(self.name, self.settings, changes), self.settings, self.later)

    def __call__(
        self,
        evidence: Evidence,
        changes: Mapping[str, Setting] | None = None,
        *,
        seed: int = 0,
        progress: ProgressCallback | None = None,
        shared: Shared | None = None,
    ) -> Judgement:
        """Judges models: every model gets a number.

        Criteria that are called with the same `shared` and evidence compute what they have in common once.
        """
        settings = self.configured(changes)
        if self.compares and len(evidence.runs) < 2:
            raise RequestError(
                f"{self.name} compares models with each other, and was given "
                f"{counted(len(evidence.runs), 'model')} that can be compared: train more seeds"
            )
        return self.judge(
            evidence,
            seed=seed,
            progress=progress or no_progress,
            shared=Shared() if shared is None else shared,
            **counting(settings, self.settings),
        )


class Once(Generic[R]):
    """Computes `function(*request, progress)` at the first call and keeps the result.

    For long computations that criteria share: `shared(Once, function, *request)(progress)` computes each request once
    and reports progress to the first caller.
    """

    def __init__(self, function: Callable[..., R], *request: Any) -> None:
        self._compute: Callable[[ProgressCallback], R] | None = functools.partial(function, *request)
        self._result: R

    def __call__(self, progress: ProgressCallback) -> R:
        if self._compute is not None:
            self._result = self._compute(progress)
            self._compute = None
        return self._result


def halves(pictures: int, seed: int, count: int = HALVES) -> list[Int[np.ndarray, " n"]]:
    """Random halves of the pictures, each drawn without replacement.

    The mean over a half varies between halves as much as the mean over all pictures varies between samples. No picture
    is in a half twice, which would leak from one fold of a cross-validation to another.
    """
    rng = np.random.default_rng([seed, 1])
    return [rng.permutation(pictures)[: max(pictures // 2, 10)] for _ in range(count)]


def seen_by(codes: Codes, rows: Int[np.ndarray, " n"]) -> Codes:
    """Codes of some of the pictures, without factors, which criteria may not look at."""
    logvar = None if codes.logvar is None else codes.logvar[rows]
    return Codes(codes.mean[rows], logvar, np.zeros((len(rows), 0)), (), codes.flags)
