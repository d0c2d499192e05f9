"""What a label-free criterion is: a function of trained models and their codes that gives each model a number.

Nothing here needs JAX: criteria that work with the models themselves import it when they judge.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

import numpy as np
from jaxtyping import Float, Int

from sober.errors import RequestError, counted, listed
from sober.shared import Shared
from sober.types import Codes, Run, Setting

if TYPE_CHECKING:  # these need JAX
    from sober.models.model import Model
    from sober.worlds import World

PICTURES = 10_000  # that criteria look at, as in the UDR paper
HALVES = 8  # how often half of the pictures are drawn
REPLICATES = 200

UNJUDGED = "no_partner"  # a model of which nothing is said: where a number must stand, it is the worst
# Models that no criterion can recommend, and why.
UNFIT: Mapping[str, str] = {
    "collapsed": "no latent carries anything",
    "diverged": "training had stopped: the numbers were no longer finite",
    "ignores_codes": "the decoder makes nearly the same picture whatever the codes",
    UNJUDGED: "no other model is left to compare it with",
    "not_finite": "some codes were not finite",
}

R = TypeVar("R")
Progress = Callable[[int, int], None]  # told how much is done, and of how much


@dataclasses.dataclass(frozen=True, eq=False)
class Evidence:
    """All that a criterion may look at: models trained on one world, and their codes of the same pictures.

    Codes must be fit to judge. `load` gives the model of a run; it is called for those criteria alone that decode.
    """

    world: World
    runs: tuple[Run, ...]
    codes: tuple[Codes, ...]  # of each run
    index: Int[np.ndarray, " N"] | None  # which pictures; None for all there are
    load: Callable[[Run], Model]

    @functools.cached_property
    def models(self) -> tuple[Model, ...]:
        return tuple(self.load(run) for run in self.runs)

    def posterior(self, model: int) -> tuple[Float[np.ndarray, "N D"], Float[np.ndarray, "N D"]]:
        """Mean and log-variance of q(z|x), of each picture under one of the models.

        A code without a spread is its mean: the log-variance is -∞, a sample is the mean, and the KL from the prior ∞.
        """
        codes = self.codes[model]
        return codes.mean, np.full_like(codes.mean, -np.inf) if codes.logvar is None else codes.logvar

    def only(self, runs: Iterable[Run]) -> Evidence:
        """The part of it that is about these runs, in their order."""
        place = {run: m for m, run in enumerate(self.runs)}
        chosen = tuple(runs)
        return dataclasses.replace(self, runs=chosen, codes=tuple(self.codes[place[run]] for run in chosen))


def fit_to_judge(codes: Codes) -> bool:
    """Whether these are numbers at all: training did not diverge, and every code is finite."""
    if {"diverged", "not_finite"} & set(codes.flags):
        return False
    return all_finite(codes.mean) and (codes.logvar is None or all_finite(codes.logvar))


def all_finite(array: np.ndarray) -> bool:
    """A sum is quick to take, and is finite where all numbers are, unless they are huge."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(array.sum()) or np.isfinite(array).all())


class Judgement(NamedTuple):
    """What a criterion says of M models, and what it might have said by chance."""

    scores: Float[np.ndarray, " M"]
    replicates: Float[np.ndarray, "R M"]  # the scores again, with pictures and partners drawn anew
    flags: tuple[tuple[str, ...], ...]
    parts: Mapping[str, np.ndarray] = {}  # what the scores were made of, where that is worth keeping


class Cost(NamedTuple):
    """What a judgement takes: an order of magnitude, for plans."""

    seconds: float = 0.0  # on two cores, for all models together
    steps: float = 0.0  # of a β-VAE, that training or decoding takes as long as, for each model


def _no_changes(steps: int) -> Mapping[str, Setting]:
    return {}


def _no_cost(settings: Mapping[str, Setting], models: int) -> Cost:
    return Cost()


def refuse_unknown(owner: str, settings: Mapping[str, Setting], changes: Mapping[str, Setting]) -> None:
    """Refuses changes of settings that there are not, and a word for a number."""
    for name, value in changes.items():
        if name not in settings:
            raise RequestError(f"{owner} has no setting {name!r}: it has {listed(settings) or 'none'}")
        if isinstance(value, str) != isinstance(settings[name], str):
            kind = "a word" if isinstance(settings[name], str) else "a number"
            raise RequestError(f"{owner}: {name} must be {kind}, such as {settings[name]}, not {value!r}")


@dataclasses.dataclass(frozen=True)
class Criterion:
    """A criterion by name, and all that others need to know of it.

    `judge(evidence, seed=, progress=, shared=, **settings)` gives a Judgement. What it has in common with other
    criteria it computes through `shared`, which makes no difference to the result.
    """

    name: str
    summary: str
    sees: str  # one sentence
    blind: str  # one sentence
    reference: str
    judge: Callable[..., Judgement]
    settings: Mapping[str, Setting] = dataclasses.field(default_factory=dict)
    better: Literal["higher", "lower"] = "higher"
    compares: bool = False  # whether it needs more models than one
    headline: bool = False  # whether it chooses for the others where one must
    relative: bool = False  # whether it measures from the best of the models judged: no measure between families
    steps: str = ""  # the setting that counts steps of training, where it trains
    suited: Callable[[int], Mapping[str, Setting]] = _no_changes  # changes for models trained for so many steps
    cost: Callable[[Mapping[str, Setting], int], Cost] = _no_cost  # with these settings, for so many models

    def configured(self, changes: Mapping[str, Setting] | None = None) -> dict[str, Setting]:
        """Every setting, with changes. A setting that there is not, or a word for a number, is refused."""
        refuse_unknown(self.name, self.settings, changes or {})
        return {**self.settings, **(changes or {})}

    def __call__(
        self,
        evidence: Evidence,
        changes: Mapping[str, Setting] | None = None,
        *,
        seed: int = 0,
        progress: Progress | None = None,
        shared: Shared | None = None,
    ) -> Judgement:
        """Judges models. A number for each, always.

        Criteria that are called with one `shared`, on the same evidence, do what they have in common once.
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
            progress=progress or (lambda done, total: None),
            shared=Shared() if shared is None else shared,
            **settings,
        )


class Once(Generic[R]):
    """`function(*request, progress)`, computed for the first who asks, who is told how far it is, and kept.

    For what criteria share and takes long: `shared(Once, function, *request)(progress)` is one computation for each
    request, whoever is told.
    """

    def __init__(self, function: Callable[..., R], *request: Any) -> None:
        self._compute: Callable[[Progress], R] | None = functools.partial(function, *request)
        self._result: R

    def __call__(self, progress: Progress) -> R:
        if self._compute is not None:
            self._result = self._compute(progress)
            self._compute = None
        return self._result


def halves(pictures: int, seed: int, count: int = HALVES) -> list[Int[np.ndarray, " n"]]:
    """Half of the pictures, drawn without replacement, so often.

    A mean over half of them varies from draw to draw as much as one over all varies from sample to sample, and no
    picture comes twice, which would leak from one fold of a cross-validation to another.
    """
    rng = np.random.default_rng([seed, 1])
    return [rng.permutation(pictures)[: max(pictures // 2, 10)] for _ in range(count)]


def seen_by(codes: Codes, rows: Int[np.ndarray, " n"]) -> Codes:
    """Codes of some of the pictures, without their factors, which no criterion may look at."""
    logvar = None if codes.logvar is None else codes.logvar[rows]
    return Codes(codes.mean[rows], logvar, np.zeros((len(rows), 0)), (), codes.flags)
