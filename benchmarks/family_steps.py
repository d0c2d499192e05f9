"""The steps of a family, with the program of `sober train` or with plain layers: all benchmarks of training use it."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import Any

import jax

from sober.model_placement import ModelPlacement
from sober.training.cohort import Program, fastest_program, program, signature
from sober.training.feed import Feed
from sober.types import Run
from sober.worlds import World

LONG = 10**9  # steps


class FamilySteps:
    """Trains a family for n steps and returns the seconds it took.

    The program is as `sober train` chooses it on this machine; with `plain` it has no kernels. It is a
    copy with no compiled functions yet, so that each family is traced by itself. The first step is made at once, unless
    `later`: then threads compile, so that several families can compile side by side, and `ready` makes the first step.
    """

    def __init__(
        self,
        world: World,
        runs: Sequence[Run],
        *,
        plain: bool = False,
        later: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.models, self.world = len(runs), world
        self.placement = ModelPlacement(self.models)
        self.program, self.reason = chosen_program(world, runs, plain=plain)
        if options is not None:  # of the compiler, in the place of those of `sober train`
            advance = jax.jit(self.program._advance, donate_argnums=0, compiler_options=dict(options))
            self.program.__dict__["advance"] = advance  # where the program caches its own
        self.inputs = self.placement.place(self.program.inputs(runs))
        self.feed = Feed(world, self.placement)
        self.compilations = None
        if len(self.placement.devices) == 1:
            data, _ = self.feed.at(0, LONG)
            self.compilations = self.program.compile_ahead(self.inputs, data, world.example)
        if not later:
            self.ready()

    def ready(self) -> FamilySteps:
        """Waits for the compilations, draws the models and makes their first step."""
        if self.compilations is not None:
            for compilation in self.compilations:
                compilation.result()
        self.carry = self.program.init(self.inputs, self.world.example)
        self(1)
        return self

    @property
    def uses_kernels(self) -> bool:
        return bool(self.program.kernels)

    def __call__(self, n: int) -> float:
        started = time.perf_counter()
        step = int(self.carry.step)
        stop = step + n
        while step < stop:
            data, end = self.feed.at(step, LONG)
            step = min(stop, end)
            self.carry = self.advanced(step, data)
        return time.perf_counter() - started

    def advanced(self, stop: int, data: Any) -> Any:
        return jax.block_until_ready(self.program.advance(self.carry, data, self.inputs, stop))


def chosen_program(world: World, runs: Sequence[Run], *, plain: bool = False) -> tuple[Program, str]:
    """A copy of the program for a family, and the reason for it."""
    if plain:
        return dataclasses.replace(program(world, signature(runs[0]))), "plain layers, as asked"
    fastest = fastest_program(world, runs[0], ModelPlacement(len(runs)).models_per_device)
    return dataclasses.replace(fastest.program), fastest.reason
