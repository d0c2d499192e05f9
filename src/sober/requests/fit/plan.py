"""The plan of a fit: which runs the time suffices for, and what had to be decided for the person who asked."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax

from sober.criteria.verdict import Verdict, two_digits
from sober.errors import counted, listed
from sober.methods import find_method
from sober.model_placement import ModelPlacement
from sober.models.grid import grid
from sober.nets import default_nets
from sober.results.request import Pace, Request
from sober.setting_words import method_title
from sober.short_text import as_call
from sober.training.cohort import fastest_program
from sober.training.feed import Feed
from sober.types import Run, Setting, Training
from sober.worlds import World

LIGHT_NETS = "small"  # for large pictures on machines that are too slow for convolutional nets
SHARE = 0.6  # share of the time for training; the remaining time is for judging, encoding and drawing
SEEDS, MOST_SEEDS = 3, 10
SMALL = 32  # pixels: pictures whose shorter side is below this are small, and models learn them faster
LONGEST = 300_000  # steps of training, at most


class Length(NamedTuple):
    """How long training should be, by the size of pictures."""

    fewest: int  # steps: models with fewer are not worth choosing from
    enough: int  # steps: beyond them, more seeds help more than more steps
    rate: float  # learning rate of Adam

    def __repr__(self) -> str:
        return as_call(self)


LENGTHS = {True: Length(1_500, 8_000, 1e-3), False: Length(2_000, 30_000, 5e-4)}  # by whether pictures are small


@dataclasses.dataclass(frozen=True)
class Wishes:
    """What a person asks of a family: its methods, the time, and values that take the place of the usual ones."""

    methods: tuple[str, ...]
    minutes: float
    seeds: int | None = None  # None: as many as fit into the time
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # of `Training`
    hyper: Mapping[str, Setting | Sequence[Setting]] = dataclasses.field(default_factory=dict)
    pace: Pace | None = None  # of the fit that was planned; None before, and in folders of older versions

    def __repr__(self) -> str:
        return as_call(self)

    @staticmethod
    def of_request(request: Request) -> Wishes | None:
        """The wishes of a fit that made a folder; None if something else made it."""
        if request.maker != "fit":
            return None
        arguments = request.asked
        options = {name: value for name, value in arguments.items() if name in Training.options()}
        return Wishes(
            tuple(arguments["method"]), float(arguments["minutes"]), arguments.get("seeds"), options, pace=request.pace
        )

    @property
    def are_timed(self) -> bool:
        """Whether the time decides the number of steps."""
        return "steps" not in self.options

    def fewest_steps(self, world: World) -> int:
        """The number of steps below which no training counts; 0 if the person chose the number."""
        return _length(world).fewest if self.are_timed else 0

    def minutes_for(self, steps_needed: float, steps: int, methods_kept: Iterable[str]) -> int | None:
        """How many minutes would do for all methods, by the pace with the methods kept.

        Without a pace, the minutes are taken to have given `steps`. Rounded up to two digits. None if the time does not
        decide the number of steps.
        """
        if not self.are_timed:
            return None
        pace = self.pace or Pace(0.0, 60 * self.minutes / steps)
        return two_digits(pace.minutes(steps_needed * _cost(self.methods) / _cost(methods_kept)))

    def with_minutes(self, verdict: Verdict, runs: Sequence[Run]) -> Verdict:
        """The verdict, with the minutes that would do where the time decided the number of steps."""
        if verdict.steps is None:
            return verdict
        minutes = self.minutes_for(verdict.steps, runs[0].steps, {run.method for run in runs})
        return dataclasses.replace(verdict, minutes=minutes)


@dataclasses.dataclass(frozen=True)
class Plan:
    """The runs to train, and in sentences what was decided so that they fit into the time."""

    runs: tuple[Run, ...]
    notes: tuple[str, ...] = ()
    pace: Pace | None = None  # as it was measured; None if the time does not decide the number of steps

    def __repr__(self) -> str:
        return as_call(self)


def plan(world: World, wishes: Wishes, began: float) -> Plan:
    """The runs that can be trained in the time left. `began` is when the fit began, by `time.monotonic()`.

    If the time is too short, the nets become smaller. If that is not enough, methods are left out, the costliest first.
    """
    is_small, length = _is_small(world), _length(world)
    training = _training(world, wishes)
    if not wishes.are_timed:
        return Plan(tuple(_runs(world, wishes, wishes.methods, wishes.seeds or SEEDS, training)))

    def pace(trained: Iterable[str]) -> Pace:
        return Pace(passed, step_seconds * _cost(trained) / SHARE)

    def minutes_needed(trained: Iterable[str]) -> int:
        return two_digits(pace(trained).minutes(length.fewest))

    notes: list[str] = []
    minutes = _minutes(wishes.minutes)
    methods = list(wishes.methods)
    cheapest = min(methods, key=lambda name: find_method(name).cost)
    usual_nets = default_nets(world.image_shape)
    for nets in [training.nets] if training.nets is not None or is_small else [None, LIGHT_NETS]:
        training = training.but(nets=nets)
        measured_runs = _runs(world, wishes, [cheapest], wishes.seeds or SEEDS, training)
        step_seconds = seconds_per_step(world, measured_runs) / find_method(cheapest).cost
        passed = time.monotonic() - began  # seconds
        seconds_left = SHARE * (60 * wishes.minutes - passed)
        if seconds_left / (step_seconds * _cost(methods)) >= length.fewest:
            break
    if training.nets == LIGHT_NETS != wishes.options.get("nets"):
        notes.append(f"{minutes} too few for {usual_nets} nets on this machine: all models have {LIGHT_NETS} nets.")
    while len(methods) > 1 and seconds_left / (step_seconds * _cost(methods)) < length.fewest:
        costliest = max(methods, key=lambda name: find_method(name).cost)
        needed = minutes_needed(methods)
        methods.remove(costliest)
        notes.append(
            f"{minutes} too few for {method_title(costliest)} on this machine, so it is left out: about "
            f"{counted(needed, 'minute')} would do."
        )
    steps = max(10, int(seconds_left / (step_seconds * _cost(methods))))
    if steps < length.fewest:
        whom = ""
        if len(methods) < len(wishes.methods):
            whom = f" for all methods, {minutes_needed(methods):,} for {listed(map(method_title, methods))} alone"
        notes.append(
            f"{minutes} enough for {counted(steps, 'step')} on this machine, and models need some {length.fewest:,}: "
            f"about {minutes_needed(wishes.methods):,} minutes would do{whom}."
        )
    seeds, planned_pace = wishes.seeds, pace(methods)
    if seeds is None and steps > length.enough:
        seeds = min(MOST_SEEDS, SEEDS * steps // length.enough)
        steps = steps * SEEDS // seeds
        planned_pace = planned_pace._replace(per_step=planned_pace.per_step * seeds / SEEDS)
    runs = _runs(world, wishes, methods, seeds or SEEDS, training.but(steps=min(steps, LONGEST)))
    return Plan(tuple(runs), tuple(notes), planned_pace)


def most_runs(world: World, wishes: Wishes) -> list[Run]:
    """The runs of all methods that were asked for, if time does not matter."""
    return _runs(world, wishes, wishes.methods, wishes.seeds or SEEDS, _training(world, wishes))


def seconds_per_step(world: World, runs: Sequence[Run]) -> float:
    """How long one step of a family takes on this machine, without compilation."""
    placement = ModelPlacement(len(runs))
    compiled = fastest_program(world, runs[0], placement.models_per_device, unchecked=True).program
    inputs, (data, _) = placement.place(compiled.inputs(runs)), Feed(world, placement).at(0, runs[0].steps)
    carry = jax.block_until_ready(compiled.advance(compiled.init(inputs, data), data, inputs, 1))
    measured: list[float] = []  # seconds per step
    steps = 1
    while sum(measured) * steps < 1.0 and len(measured) < 5:
        started = time.monotonic()
        carry = jax.block_until_ready(compiled.advance(carry, data, inputs, int(carry.step) + steps))
        measured.append((time.monotonic() - started) / steps)
        steps = max(1, int(0.3 / measured[-1]))
    return statistics.median(measured)


def _runs(world: World, wishes: Wishes, methods: Iterable[str], seeds: int, training: Training) -> list[Run]:
    """The runs of each method: every advised or given setting, with every seed."""
    runs = []
    for name in methods:
        method = find_method(name)
        hyper_names = {hyperparameter.name for hyperparameter in method.hyper}
        given_values = {key: value for key, value in wishes.hyper.items() if key in hyper_names}
        sweep = {**method.advised(_is_small(world), training.steps), **given_values}
        runs += grid(world, name, sweep, seeds=seeds, training=training)
    return runs


def _training(world: World, wishes: Wishes) -> Training:
    length = _length(world)
    return Training().but(**{"learning_rate": length.rate, "steps": length.enough, **wishes.options})


def _is_small(world: World) -> bool:
    return min(world.image_shape[:2]) < SMALL


def _length(world: World) -> Length:
    return LENGTHS[_is_small(world)]


def _cost(methods: Iterable[str]) -> float:
    """The cost of a step of these methods together, in steps of a VAE."""
    return sum(find_method(name).cost for name in methods)


def _minutes(minutes: float) -> str:
    if minutes < 1:
        return f"{60 * minutes:.2g} seconds are"
    return "1 minute is" if minutes == 1 else f"{minutes:g} minutes are"
