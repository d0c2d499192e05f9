"""The plan of a study: its runs, the cohorts in which they train together, and what they cost.

Cohorts are the unit of work. They depend on the study alone, so every process that works on a study plans the same
cohorts, now or later. Seeds that are added later form new cohorts.
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
from sober.defaults import STUDY_TOGETHER
from sober.evaluation.cohorts import cohorts_of
from sober.methods import METHODS, Structure, structure
from sober.metrics.scoring.score import resolved
from sober.nets import NETS, Nets
from sober.requests.study.study import Absent, Study, planned_world
from sober.requests.study.training_rates import backend, step_seconds, training_seconds
from sober.results.request import Cohort, Request
from sober.tasks import find_task
from sober.types import Run

DAY = 86_400.0  # seconds
TIME_UNITS = (("years", 365.25 * DAY), ("months", 30.44 * DAY), ("days", DAY), ("hours", 3_600.0), ("minutes", 60.0),
              ("seconds", 1.0))  # fmt: skip
SCORING_CORES = 2  # models are scored side by side, one on each core
CODE_BYTES = 8  # for each latent of each picture: mean and log-variance


class Estimate(NamedTuple):
    """What a plan costs on one machine."""

    seconds: float
    bytes: int
    device: str


@dataclasses.dataclass(frozen=True)
class Plan:
    """A study as a request: runs in cohorts, and how their models are measured."""

    study: Study
    request: Request
    shapes: Mapping[str, tuple[int, int, int]]  # shape of a picture, by the world's label
    sizes: Mapping[str, int]  # number of pictures, by the world's label

    @property
    def runs(self) -> Mapping[str, Run]:
        """The runs by identity."""
        return self.request.runs

    @property
    def cohorts(self) -> tuple[Cohort, ...]:
        return self.request.cohorts

    @property
    def missing(self) -> Mapping[str, str]:
        """Worlds that cannot be opened here, and why."""
        return self.request.missing

    def training_seconds(self, device: str) -> float:
        """Seconds of training on a `cpu` or a `gpu`: an order of magnitude, by measured rates."""
        return sum(self.cohort_seconds(cohort, device) for cohort in self.cohorts)

    def cohort_seconds(self, cohort: Cohort, device: str) -> float:
        """Seconds of training of a cohort, whose runs share nets, method and steps."""
        models = len(cohort.runs)
        return models * training_seconds(cohort.runs[0], self.shapes[cohort.world], models, device)

    def estimate(self) -> Estimate:
        """Seconds and bytes on this machine: orders of magnitude, by rates measured on an H200 and two CPU cores."""
        device = backend()
        seconds = self.training_seconds(device)
        seconds += len(self.runs) * self._scoring() / SCORING_CORES
        seconds += sum(self.measuring(runs, device) for runs in self.request.by_world().values())
        size = sum(4 * _weights(*self._shape(cohort)) * len(cohort.runs) for cohort in self.cohorts)
        if self.study.keep_codes:
            size += sum(CODE_BYTES * run.latents * self._pictures(run) for run in self.runs.values())
        return Estimate(seconds, int(size), device)

    def _scoring(self) -> float:
        """Seconds of processor time for the metrics of one model."""
        metrics = {metric.name: metric for metric, _, _ in resolved(self.study.metrics, True)}
        return sum(metric.seconds for metric in metrics.values() if metric.reuses not in metrics)

    def _pictures(self, run: Run) -> int:
        """How many pictures of a run's world metrics and tasks use."""
        return self.sizes[run.world] if self.study.pictures is None else self.study.pictures

    def measuring(self, runs: tuple[Run, ...], device: str) -> float:
        """How many seconds criteria and tasks take with the models of a world."""
        costs = []
        for name, changes in self.study.asked:
            criterion = find_criterion(name)
            costs.append(criterion.cost(criterion.configured(changes), len(runs)))
        for name, changes in self.study.asked_tasks:
            task = find_task(name)
            costs.append(task.cost(task.configured(self.study.preset, changes), len(runs)))
        seconds_of_step = step_seconds(runs[0], self.shapes[runs[0].world], min(len(runs), STUDY_TOGETHER), device)
        return sum(cost.seconds + cost.steps * len(runs) * seconds_of_step for cost in costs)

    def _shape(self, cohort: Cohort) -> tuple[Structure, Nets, tuple[int, int, int]]:
        first = cohort.runs[0]
        return structure(first), NETS[first.nets], self.shapes[cohort.world]

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """How many runs each method has on each world. The worlds are named by their specs."""
        rows: dict[str, dict[str, int]] = {}
        for cohort in self.cohorts:
            row = rows.setdefault(self.request.worlds[cohort.world], {})
            row[cohort.runs[0].method] = row.get(cohort.runs[0].method, 0) + len(cohort.runs)
        return rows


def plan(study: Study, together: int = STUDY_TOGETHER, *, fetch: bool = False, command: str = "") -> Plan:
    """Plans the cohorts of a study. A cohort has at most `together` runs of one world that share a program.

    With `fetch`, missing files of worlds are downloaded if Sober knows from where.
    """
    cohorts: list[Cohort] = []
    worlds: dict[str, str] = {}
    shapes: dict[str, tuple[int, int, int]] = {}
    sizes: dict[str, int] = {}
    missing: dict[str, str] = {}
    planned_runs: set[str] = set()
    for product in study.products:
        for spec in product.worlds:
            world = planned_world(spec, fetch)
            worlds.setdefault(world.label, spec)
            shapes[world.label], sizes[world.label] = world.image_shape, world.size
            if isinstance(world, Absent):
                missing[world.label] = world.why
            new_runs = [run for run in product.runs(world) if run.identity not in planned_runs]  # products may overlap
            planned_runs |= {run.identity for run in new_runs}
            cohorts += cohorts_of(new_runs, together)
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
    """The cost of training a cohort, in steps of one β-VAE."""
    first = cohort.runs[0]
    cost = 1.0 if first.is_layer else METHODS[first.method].cost  # nothing trains the layers of a probe
    return first.steps * len(cohort.runs) * cost


@functools.cache
def _weights(model_structure: Structure, nets: Nets, shape: tuple[int, int, int]) -> int:
    """How many numbers a saved model has."""
    model_shapes = jax.eval_shape(lambda key: model_structure.fresh(key, nets, shape), jax.random.key(0))
    return sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(model_shapes))


def time_in_words(seconds: float) -> str:
    """A span of time as a person says it: 40 seconds, 5.4 hours, 11 months, 15 years."""
    if not math.isfinite(seconds):
        return "an unknown time"
    unit, length = next((unit for unit in TIME_UNITS if seconds >= 1.5 * unit[1]), TIME_UNITS[-1])
    count = seconds / length
    return f"{count:.0f} {unit}" if count >= 10 or unit == "seconds" else f"{count:.1f} {unit}".replace(".0 ", " ")
