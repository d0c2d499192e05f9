"""What a task is: a use of representations, tried on the codes of one or several models, that scores each model.

A metric measures what codes look like, a task what they are good for. Nothing here needs JAX: tasks that use the models
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

from sober.contracts import (
    SEEDS,
    Cost,
    ProgressCallback,
    configured,
    counting,
    no_cost,
    no_progress,
    without_later,
)
from sober.errors import RequestError, counted
from sober.metrics.common.flags import FLAGS
from sober.metrics.common.metric_rows import take, varying
from sober.metrics.metric import Meaning, Measured
from sober.shared import Shared
from sober.short_text import as_call
from sober.types import Codes, Run, Setting

if TYPE_CHECKING:  # these need JAX
    from sober.models.model import Model
    from sober.worlds import World


@dataclasses.dataclass(frozen=True, eq=False)
class Subjects:
    """What a task is tried on: the codes that M models gave to the same pictures, with the pictures' factors.

    Plain arrays are the codes of one model, without a world, so nothing more can be encoded. All codes are finite.
    """

    codes: tuple[Codes, ...]  # of each model
    runs: tuple[Run, ...] = ()
    world: World | None = None
    index: Int[np.ndarray, " N"] | None = None  # the pictures' places in the world; None for all
    load: Callable[[Run], Model] | None = None

    @functools.cached_property
    def models(self) -> tuple[Model, ...]:
        if self.load is None:
            raise RequestError("this task works with models, and only arrays are known: give it a folder of results")
        return tuple(self.load(run) for run in self.runs)

    def encode(self, index: Int[np.ndarray, " n"], world: World | None = None) -> list[Codes]:
        """The codes that each model gives to other pictures, of its own world or of one with pictures of that shape."""
        from sober.models.encode import encode_pictures  # noqa: PLC0415 -- needs JAX

        encoded_world = self.world if world is None else world
        assert encoded_world is not None, "arrays alone have no world"
        return encode_pictures(encoded_world, self.models, index)

    def only(self, places: Iterable[int]) -> Subjects:
        """The subjects for some of the models."""
        chosen = tuple(places)
        return dataclasses.replace(
            self, codes=tuple(self.codes[m] for m in chosen), runs=tuple(self.runs[m] for m in chosen if self.runs)
        )


def _unchanged(settings: Mapping[str, Setting], world: World | None) -> Mapping[str, Setting]:
    return settings


def _never_refuses(settings: Mapping[str, Setting], world: World | None) -> str:
    return ""


@dataclasses.dataclass(frozen=True)
class Task:
    """A task: its name, scores and settings, and the function that performs it.

    `perform(subjects, seed=, progress=, shared=, **settings)` returns a Measured for each model. A model's result does
    not depend on the other models; they are passed together so that one program serves them all.
    """

    name: str
    summary: str
    reference: str
    scores: Mapping[str, Meaning]
    perform: Callable[..., Sequence[Measured]]
    settings: Mapping[str, Setting]  # with the values of the preset `study`
    presets: Mapping[str, Mapping[str, Setting]] = dataclasses.field(default_factory=dict)  # what other presets change
    # Settings that were added after results were saved: rows leave them out at their defaults, which `perform` has too.
    later: frozenset[str] = frozenset()
    quick: Mapping[str, Setting] = dataclasses.field(default_factory=dict)  # changes that make it fast, for tests
    version: int = 1  # counts changes of how it computes that change its scores; rows say it from 2 on
    needs: Literal["codes", "models"] = "codes"  # `models` if arrays are not enough
    supervised: bool = True  # whether it uses factors
    together: int = 64  # models at most in one call; rows are written after each call
    steps: str = ""  # the setting that counts its training steps; empty if it trains nothing
    # Fills in settings that depend on the world or on a file. Rows of results have the filled-in settings.
    complete: Callable[[Mapping[str, Setting], World | None], Mapping[str, Setting]] = _unchanged
    # Why it cannot be performed with models of this world and these settings; empty if it can.
    refuses: Callable[[Mapping[str, Setting], World | None], str] = _never_refuses
    cost: Callable[[Mapping[str, Setting], int], Cost] = no_cost  # of these settings, for this many models

    def __repr__(self) -> str:
        return as_call(self)

    def configured(
        self, preset: str = "study", changes: Mapping[str, Setting] | None = None, world: World | None = None
    ) -> dict[str, Setting]:
        """Every setting under a preset, with changes. Refuses unknown settings, and a word in place of a number."""
        settings = configured(self.name, self.settings, changes, self.presets, preset)
        return without_later(self.complete(settings, world), self.settings, self.later)

    def __call__(
        self,
        subjects: Subjects,
        changes: Mapping[str, Setting] | None = None,
        *,
        preset: str = "study",
        seed: int = 0,
        progress: ProgressCallback | None = None,
        shared: Shared | None = None,
    ) -> list[Measured]:
        """Performs the task with each model. Every score is a finite number; what could not be measured is flagged."""
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
                seed=seed % SEEDS,
                progress=progress or no_progress,
                shared=Shared() if shared is None else shared,
                **counting(settings, self.settings),
            )
        )
        return [self._checked(*pair) for pair in zip(outcomes, zip(subjects.codes, varied, strict=True), strict=True)]

    def _checked(self, outcome: Measured, codes: tuple[Codes, Codes]) -> Measured:
        """Refuses scores that are not finite and unknown flags. Adds the flags of the codes."""
        for name, value in outcome.values.items():
            if not math.isfinite(value):
                raise ArithmeticError(f"{name} came out as {value}, which is a fault in Sober: please report it")
        if unknown := (set(outcome.values) - set(self.scores)) | (set(outcome.flags) - set(FLAGS)):
            raise KeyError(f"{self.name} used scores or flags that nothing explains: {sorted(unknown)}")
        original, varied = codes
        constant = {"constant_factor"} if self.supervised and len(varied.about) < len(original.about) else set()
        return outcome._replace(flags=tuple(sorted({*outcome.flags, *original.flags, *constant})))


def _labelled(codes: Codes) -> Codes:
    """The rows in which every factor is known."""
    if codes.known is None:
        return codes
    complete = codes.known.all(axis=1)
    if not complete.any():
        raise RequestError("no row has a value for every factor: leave out the factors that are seldom known")
    return dataclasses.replace(take(codes, np.flatnonzero(complete)), known=None)


def enough_rows(task: str, codes: Codes, least: int) -> None:
    """Refuses codes with fewer rows than a task needs."""
    if len(codes.mean) < least:
        raise RequestError(
            f"{task} needs at least {least:,} rows, and was given {counted(len(codes.mean), 'row')}: encode more"
        )
