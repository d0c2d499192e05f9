"""What a study will do, before anything is done: its runs, in cohorts that train together, and what they cost.

Cohorts are the unit of work. They depend on the study alone: any process that works on it, now or later, finds the same
ones, and seeds that are added later come in cohorts of their own.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import NamedTuple

import jax
import numpy as np

from sober.criteria import find_criterion
from sober.methods import METHODS, Structure, structure
from sober.metrics.score import resolved
from sober.nets import NETS, Nets
from sober.results.request import Cohort, Request, cohorts_of
from sober.tasks import find_task
from sober.types import Run
from sober.workflows.study import Absent, Study, planned_world

TOGETHER = 64  # models in a cohort, at most: beyond that nothing gets faster

# Model-steps a second of a β-VAE with nets `conv` on 64 x 64, measured (docs/speed.md).
RATES = {"gpu": 12_000.0, "cpu": 13.0}
COLOUR = 0.8  # of that rate, with three channels
CODE_BYTES = 8  # of one latent of one picture: mean and log-variance


class Estimate(NamedTuple):
    """What a plan costs on one machine."""

    seconds: float
    bytes: int
    device: str


@dataclasses.dataclass(frozen=True)
class Plan:
    """A study as a request: runs in cohorts, and what to measure of them."""

    study: Study
    request: Request
    shapes: Mapping[str, tuple[int, int, int]]  # of the pictures of each world, by its label
    sizes: Mapping[str, int]  # how many there are

    @property
    def runs(self) -> Mapping[str, Run]:
        """By identity."""
        return self.request.runs

    @property
    def cohorts(self) -> tuple[Cohort, ...]:
        return self.request.cohorts

    @property
    def missing(self) -> Mapping[str, str]:
        """Worlds that cannot be opened here, and why."""
        return self.request.missing

    def estimate(self) -> Estimate:
        """Hours and bytes, from rates that were measured on an H200 and on two CPU cores: an order of magnitude."""
        device = backend()
        seconds = sum(work(cohort) / self.rate(cohort.runs[0], device) for cohort in self.cohorts)
        seconds += len(self.runs) * sum(metric.seconds for metric, _, _ in resolved(self.study.metrics, True))
        seconds += sum(self.measuring(runs, device) for runs in self.request.by_world().values())
        size = sum(4 * _weights(*self._shape(cohort)) * len(cohort.runs) for cohort in self.cohorts)
        if self.study.keep_codes:
            size += sum(CODE_BYTES * run.latents * self._pictures(run) for run in self.runs.values())
        return Estimate(seconds, int(size), device)

    def _pictures(self, run: Run) -> int:
        """That metrics look at."""
        return self.sizes[run.world] if self.study.pictures is None else self.study.pictures

    def measuring(self, runs: tuple[Run, ...], device: str) -> float:
        """What criteria and tasks take with the models of a world."""
        costs = []
        for name, changes in self.study.asked:
            criterion = find_criterion(name)
            costs.append(criterion.cost(criterion.configured(changes), len(runs)))
        for name, changes in self.study.asked_tasks:
            task = find_task(name)
            costs.append(task.cost(task.configured(self.study.preset, changes), len(runs)))
        return sum(cost.seconds + cost.steps * len(runs) / self.rate(runs[0], device) for cost in costs)

    def rate(self, run: Run, device: str) -> float:
        """Model-steps a second of a β-VAE with the nets of a run, on its pictures."""
        shape = self.shapes[run.world]
        colour = COLOUR if shape[2] == 3 else 1.0
        return colour * RATES[device] / NETS[run.nets].work(device, shape)

    def _shape(self, cohort: Cohort) -> tuple[Structure, Nets, tuple[int, int, int]]:
        first = cohort.runs[0]
        return structure(first), NETS[first.nets], self.shapes[cohort.world]

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """Runs of each method on each world, by how it is opened."""
        rows: dict[str, dict[str, int]] = {}
        for cohort in self.cohorts:
            row = rows.setdefault(self.request.worlds[cohort.world], {})
            row[cohort.runs[0].method] = row.get(cohort.runs[0].method, 0) + len(cohort.runs)
        return rows


def backend() -> str:
    """What rates are for: `cpu`, or `gpu` for whatever is faster."""
    return "cpu" if jax.default_backend() == "cpu" else "gpu"


def plan(study: Study, together: int = TOGETHER, *, fetch: bool = False, command: str = "") -> Plan:
    """The cohorts of a study: runs of one world that share a program, seed by seed, at most so many in one.

    With `fetch`, files of worlds that are not here are downloaded where they can be.
    """
    cohorts: list[Cohort] = []
    worlds: dict[str, str] = {}
    shapes: dict[str, tuple[int, int, int]] = {}
    sizes: dict[str, int] = {}
    missing: dict[str, str] = {}
    seen: set[str] = set()
    for product in study.products:
        for spec in product.worlds:
            world = planned_world(spec, fetch)
            worlds.setdefault(world.label, spec)
            shapes[world.label], sizes[world.label] = world.image_shape, world.size
            if isinstance(world, Absent):
                missing[world.label] = world.why
            new = [run for run in product.runs(world) if run.identity not in seen]  # products may overlap
            seen |= {run.identity for run in new}
            cohorts += cohorts_of(new, together)
    request = Request(
        "study",
        {"study": study.name, "scale": study.scale},
        worlds,
        tuple(cohorts),
        study.measure,
        study.name,
        study.title,
        study.paper,
        study.scale,
        command,
        missing,
    )
    return Plan(study, request, shapes, sizes)


def work(cohort: Cohort) -> float:
    """What training a cohort takes, in steps of one β-VAE."""
    first = cohort.runs[0]
    return first.steps * len(cohort.runs) * METHODS[first.method].cost


@functools.cache
def _weights(of: Structure, nets: Nets, shape: tuple[int, int, int]) -> int:
    """Numbers in a saved model."""
    built = jax.eval_shape(lambda key: of.fresh(key, nets, shape), jax.random.key(0))
    return sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(built))


def hours(seconds: float) -> str:
    """A span of time as a person says it."""
    if not math.isfinite(seconds):
        return "unknown"
    for unit, length in (("days", 172_800.0), ("hours", 5_400.0), ("minutes", 90.0)):
        if seconds >= length:
            return f"{seconds / {'days': 86_400, 'hours': 3_600, 'minutes': 60}[unit]:.1f} {unit}"
    return f"{seconds:.0f} seconds"
