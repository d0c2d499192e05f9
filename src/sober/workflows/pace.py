"""How long work takes on a machine: estimated from rates that were measured once, corrected by what is seen here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sober.device import device_kind
from sober.machine import cores
from sober.methods import METHODS
from sober.metrics.score import resolved
from sober.results.request import cohorts_of
from sober.types import Run
from sober.workflows.plan import TOGETHER, Plan, backend
from sober.workflows.wanted import Entry

IDLE = {"gpu": 6.0, "cpu": 0.0}  # models' worth of time that a step takes however few models it has
USUAL_BATCH = 64  # that rates were measured with


class Pace:
    """Seconds that pieces of work take. `seen` is, for each kind of work, what it took over what was estimated."""

    def __init__(self, seen: Mapping[str, float] | None = None) -> None:
        self.seen = dict(seen or {})

    def training(self, plan: Plan, runs: Sequence[Run]) -> float:
        """Of runs that train together, compilation left out."""
        return self.seen.get(self._training(plan, runs[0]), 1.0) * estimated_training(plan, runs)

    def measuring(self, entry: Entry, runs: Sequence[Run]) -> float:
        """All that comes after their training: encoding, metrics, criteria."""
        return self.seen.get(self._measuring(), 1.0) * estimated_measuring(entry, runs)

    def knows(self, plan: Plan, run: Run) -> bool:
        """Whether runs like this one were seen to train."""
        return self._training(plan, run) in self.seen

    def trained(self, plan: Plan, runs: Sequence[Run], rate: float) -> None:
        """Notes how many model-steps a second were seen."""
        seconds = runs[0].steps * len(runs) / rate
        self.seen[self._training(plan, runs[0])] = seconds / estimated_training(plan, runs)

    def measured(self, entry: Entry, runs: Sequence[Run], seconds: float) -> None:
        self.seen[self._measuring()] = seconds / estimated_measuring(entry, runs)

    def _training(self, plan: Plan, run: Run) -> str:
        shape = "x".join(map(str, plan.shapes[run.world]))
        return f"train {run.method} {run.nets} {shape} {run.batch} {run.precision} on {device_kind()}"

    def _measuring(self) -> str:
        return f"measure on {device_kind()}, {cores()} cores"


def estimated_training(plan: Plan, runs: Sequence[Run], device: str | None = None) -> float:
    """From the rates of `plan`: steps, what a step of the method costs, and the size of its batch."""
    first, device = runs[0], device or backend()
    steps = first.steps * METHODS[first.method].cost * max(1.0, first.batch / USUAL_BATCH)
    return steps * (len(runs) + IDLE[device]) / plan.rate(first, device)


def estimated_measuring(
    entry: Entry, runs: Sequence[Run], device: str | None = None, at_once: int | None = None
) -> float:
    """Metrics on as many cores as there are, and criteria."""
    metrics = {
        (metric.name, measure.preset): metric.seconds
        for measure in entry.measures
        for metric, _, _ in resolved(measure.metrics, True)
    }
    turns = -(-len(runs) // (at_once or cores()))
    return turns * sum(metrics.values()) + entry.plan.measuring(tuple(runs), device or backend())


def gpu_hours(entry: Entry, runs: Sequence[Run]) -> float:
    """About what runs take on one GPU of a machine with 16 cores, as many of a program together as a cohort has."""
    together = cohorts_of(runs, TOGETHER)
    training = sum(estimated_training(entry.plan, cohort.runs, "gpu") for cohort in together)
    return (training + sum(estimated_measuring(entry, cohort.runs, "gpu", 16) for cohort in together)) / 3600
