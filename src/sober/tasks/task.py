"""What a task is: a use of representations, tried on the codes of one or several models, that gives each some numbers.

A metric asks how a code looks, a task what it is good for. Nothing here needs JAX: tasks that work with the models
themselves import it when they are performed.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from jaxtyping import Int

from sober.criteria.criterion import Cost, Progress, refuse_unknown
from sober.errors import RequestError, counted
from sober.metrics.metric import FLAGS, Meaning, Measured, varying
from sober.metrics.rows import take
from sober.shared import Shared
from sober.types import Codes, Run, Setting

if TYPE_CHECKING:  # these need JAX
    from sober.models.model import Model
    from sober.worlds import World


@dataclasses.dataclass(frozen=True, eq=False)
class Subjects:
    """What a task is tried on: the codes that M models gave to the same pictures, with the pictures' factors.

    Where only arrays are known, one model's codes stand alone: there is no world, and nothing can be encoded. All
    codes are finite.
    """

    codes: tuple[Codes, ...]  # of each model
    runs: tuple[Run, ...] = ()
    world: World | None = None
    index: Int[np.ndarray, " N"] | None = None  # which pictures of the world; None for all there are
    load: Callable[[Run], Model] | None = None

    @functools.cached_property
    def models(self) -> tuple[Model, ...]:
        if self.load is None:
            raise RequestError("this task works with models, and only arrays are known: give it a folder of results")
        return tuple(self.load(run) for run in self.runs)

    def encode(self, index: Int[np.ndarray, " n"], world: World | None = None) -> list[Codes]:
        """The codes that each model gives to other pictures, of its own world or of another with pictures alike."""
        from sober.models.encode import encode_pictures  # noqa: PLC0415 -- needs JAX

        pictures_of = self.world if world is None else world
        assert pictures_of is not None, "arrays alone have no world"
        return encode_pictures(pictures_of, self.models, index)

    def only(self, places: Iterable[int]) -> Subjects:
        """The part of it that is about some of the models."""
        chosen = tuple(places)
        return dataclasses.replace(
            self, codes=tuple(self.codes[m] for m in chosen), runs=tuple(self.runs[m] for m in chosen if self.runs)
        )


def _no_cost(settings: Mapping[str, Setting], models: int) -> Cost:
    return Cost()


def _as_they_are(settings: Mapping[str, Setting], world: World | None) -> Mapping[str, Setting]:
    return settings


def _always(settings: Mapping[str, Setting], world: World | None) -> str:
    return ""


@dataclasses.dataclass(frozen=True)
class Task:
    """A task by name, and all that others need to know of it.

    `perform(subjects, seed=, progress=, shared=, **settings)` gives a Measured for each model. What it finds of a model
    does not depend on the others: they come together so that one program serves them all.
    """

    name: str
    summary: str
    reference: str
    scores: Mapping[str, Meaning]
    perform: Callable[..., Sequence[Measured]]
    settings: Mapping[str, Setting]  # of the preset `study`, which every task has
    presets: Mapping[str, Mapping[str, Setting]] = dataclasses.field(default_factory=dict)  # what others change
    quick: Mapping[str, Setting] = dataclasses.field(default_factory=dict)  # changes that make it fast, for tests
    needs: Literal["codes", "models"] = "codes"  # whether arrays are enough
    supervised: bool = True  # whether it looks at factors
    together: int = 64  # models in one call, at most: rows are written after each
    steps: str = ""  # the setting that counts steps of training, where it trains
    # Settings in full: what those that depend on the world, or on a file, come to. Rows have them so.
    complete: Callable[[Mapping[str, Setting], World | None], Mapping[str, Setting]] = _as_they_are
    # Why it cannot be asked of models of this world, with these settings; empty where it can.
    refuses: Callable[[Mapping[str, Setting], World | None], str] = _always
    cost: Callable[[Mapping[str, Setting], int], Cost] = _no_cost  # with these settings, for so many models

    def configured(
        self, preset: str = "study", changes: Mapping[str, Setting] | None = None, world: World | None = None
    ) -> dict[str, Setting]:
        """Every setting under a preset, with changes; what is no setting, or a word for a number, is refused."""
        refuse_unknown(self.name, self.settings, changes or {})
        return dict(self.complete({**self.settings, **self.presets.get(preset, {}), **(changes or {})}, world))

    def __call__(
        self,
        subjects: Subjects,
        changes: Mapping[str, Setting] | None = None,
        *,
        preset: str = "study",
        seed: int = 0,
        progress: Progress | None = None,
        shared: Shared | None = None,
    ) -> list[Measured]:
        """Performs it with each of the models. Every number is finite; what could not be measured is flagged."""
        settings = self.configured(preset, changes, subjects.world)
        if why := self.refuses(settings, subjects.world):
            raise RequestError(f"{self.name}: {why}")
        if self.needs == "models" and subjects.load is None:
            raise RequestError(f"{self.name} needs models: give it a folder of results, as in sober score DIR --tasks")
        varied = tuple(varying(_labelled(codes)) for codes in subjects.codes)
        if self.needs == "codes" and not varied[0].about:
            raise RequestError(f"{self.name} predicts factors, and none of those given has two values: pass factors")
        outcomes = list(
            self.perform(
                dataclasses.replace(subjects, codes=varied),
                seed=seed,
                progress=progress or (lambda done, total: None),
                shared=Shared() if shared is None else shared,
                **settings,
            )
        )
        return [self._checked(*pair) for pair in zip(outcomes, zip(subjects.codes, varied, strict=True), strict=True)]

    def _checked(self, outcome: Measured, codes: tuple[Codes, Codes]) -> Measured:
        """With what is to be known of the codes: nothing that is not finite, no flag that nobody explains."""
        for name, value in outcome.values.items():
            if not math.isfinite(value):
                raise ArithmeticError(f"{name} came out as {value}, which is a fault in Sober: please report it")
        if unknown := (set(outcome.values) - set(self.scores)) | (set(outcome.flags) - set(FLAGS)):
            raise KeyError(f"{self.name} used scores or flags that nothing explains: {sorted(unknown)}")
        given, varied = codes
        constant = {"constant_factor"} if self.supervised and len(varied.about) < len(given.about) else set()
        return outcome._replace(flags=tuple(sorted({*outcome.flags, *given.flags, *constant})))


def _labelled(codes: Codes) -> Codes:
    """The rows in which every factor is known."""
    if codes.known is None:
        return codes
    every = codes.known.all(axis=1)
    if not every.any():
        raise RequestError("no row has a value for every factor: leave out the factors that are seldom known")
    return dataclasses.replace(take(codes, np.flatnonzero(every)), known=None)


def enough_rows(task: str, codes: Codes, least: int) -> None:
    """Refuses codes with fewer rows than a task can do anything with."""
    if len(codes.mean) < least:
        raise RequestError(
            f"{task} needs at least {least:,} rows, and was given {counted(len(codes.mean), 'row')}: encode more"
        )
