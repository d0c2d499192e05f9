"""What a study will do, before anything is done: its runs, in cohorts that train together, and what they cost.

Cohorts are the unit of work. They depend on the study alone: any process that works on it, now or later, finds the same
ones, and seeds that are added later come in cohorts of their own.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from sober.criteria import find_criterion
from sober.methods import METHODS
from sober.nets import NETS
from sober.training.cohort import signature
from sober.types import Run
from sober.workflows.study import Absent, Study, planned_world

TOGETHER = 64  # models in a cohort, at most: beyond that nothing gets faster

# Model-steps a second, measured (docs/speed.md): 64 x 64 with nets `conv`, small pictures with nets `small`.
RATES = {("gpu", "large"): 10_000.0, ("cpu", "large"): 13.0, ("gpu", "small"): 50_000.0, ("cpu", "small"): 900.0}
SCORING = 3.0  # seconds on two cores for one model and all metrics
CODE_BYTES = 8  # of one latent of one picture: mean and log-variance


class Cohort(NamedTuple):
    """Runs that train in one compiled program."""

    name: str
    world: str  # as `sober.world` opens it
    runs: tuple[Run, ...]

    def work(self) -> float:
        """What training it takes, in steps of one β-VAE."""
        first = self.runs[0]
        return first.steps * len(self.runs) * METHODS[first.method].cost


class Estimate(NamedTuple):
    """What a plan costs on one machine."""

    seconds: float
    bytes: int
    device: str


@dataclasses.dataclass(frozen=True)
class Plan:
    """A study as cohorts."""

    study: Study
    cohorts: tuple[Cohort, ...]
    fetch: bool = False

    @functools.cached_property
    def runs(self) -> dict[str, Run]:
        """By identity."""
        return {run.identity: run for cohort in self.cohorts for run in cohort.runs}

    @functools.cached_property
    def worlds(self) -> dict[str, tuple[Run, ...]]:
        """The runs on each world: those that criteria compare."""
        found: dict[str, list[Run]] = {}
        for cohort in self.cohorts:
            found.setdefault(cohort.world, []).extend(cohort.runs)
        return {spec: tuple(runs) for spec, runs in found.items()}

    @functools.cached_property
    def missing(self) -> dict[str, str]:
        """Worlds that cannot be opened here, and why."""
        found = {spec: planned_world(spec, self.fetch) for spec in self.worlds}
        return {spec: each.why for spec, each in found.items() if isinstance(each, Absent)}

    def estimate(self) -> Estimate:
        """Hours and bytes, from rates that were measured on an H200 and on two CPU cores: an order of magnitude."""
        device = "cpu" if jax.default_backend() == "cpu" else "gpu"
        seconds = sum(_seconds(cohort, device) for cohort in self.cohorts)
        seconds += SCORING * len(self.runs) + sum(self._judging(spec, device) for spec in self.worlds)
        weights = {key: _weights(*key) for key in {_shape(cohort) for cohort in self.cohorts}}
        size = sum(4 * weights[_shape(cohort)] * len(cohort.runs) for cohort in self.cohorts)
        if self.study.keep_codes:
            size += sum(CODE_BYTES * run.latents * self.study.pictures for run in self.runs.values())
        return Estimate(seconds, int(size), device)

    def _judging(self, spec: str, device: str) -> float:
        runs, seconds = self.worlds[spec], 0.0
        for name, changes in self.study.criteria.items():
            settings = {**find_criterion(name).settings, **changes}
            if "partners" in settings:
                seconds += 5 * 1e-4 * len(runs) * min(float(settings["partners"]), len(runs))  # and its replicates
            if "mixing" in settings:
                seconds += 1.5 * len(runs) * float(settings["steps"]) / _rate(runs[0], spec, device)
        return seconds


def plan(study: Study, together: int = TOGETHER, *, fetch: bool = False) -> Plan:
    """The cohorts of a study: runs of one world that share a program, seed by seed, at most so many in one.

    With `fetch`, files of worlds that are not here are downloaded where they can be.
    """
    cohorts = []
    seen: set[str] = set()
    for product in study.products:
        for spec in product.worlds:
            alike: dict[Any, list[Run]] = {}
            for run in product.runs(spec, planned_world(spec, fetch)):
                if run.identity not in seen:  # products may overlap
                    seen.add(run.identity)
                    alike.setdefault(signature(run), []).append(run)
            for runs in alike.values():
                in_order = sorted(runs, key=lambda run: run.seed)  # so that more seeds leave earlier cohorts alone
                cohorts += [cohort(spec, in_order[at : at + together]) for at in range(0, len(runs), together)]
    return Plan(study, tuple(cohorts), fetch)


def cohort(spec: str, runs: Sequence[Run]) -> Cohort:
    """A cohort of these runs, named by them."""
    names = ",".join(run.identity for run in runs)
    return Cohort(hashlib.sha256(names.encode()).hexdigest()[:12], spec, tuple(runs))


def _seconds(of: Cohort, device: str) -> float:
    return of.work() / _rate(of.runs[0], of.world, device)


def _rate(run: Run, spec: str, device: str) -> float:
    size = "small" if run.nets in ("small", "linear") else "large"
    channels = planned_world(spec).image_shape[2]
    return RATES[device, size] * (0.8 if channels == 3 else 1.0)


def _shape(of: Cohort) -> tuple[str, str, int, tuple[int, int, int]]:
    return of.runs[0].method, of.runs[0].nets, of.runs[0].latents, planned_world(of.world).image_shape


@functools.cache
def _weights(method: str, nets: str, latents: int, shape: tuple[int, int, int]) -> int:
    """Numbers in a saved model."""
    built = jax.eval_shape(lambda key: METHODS[method].model(key, NETS[nets], shape, latents), jax.random.key(0))
    return sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(built))


def counts(of: Plan) -> Mapping[str, Mapping[str, int]]:
    """Runs of each method on each world."""
    found: dict[str, dict[str, int]] = {}
    for each in of.cohorts:
        row = found.setdefault(each.world, {})
        row[each.runs[0].method] = row.get(each.runs[0].method, 0) + len(each.runs)
    return found
