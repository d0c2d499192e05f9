"""The training loop: cohort by cohort, as many models at once as fit, with checkpoints that resume bit for bit."""

from __future__ import annotations

import gc
import itertools
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np

from sober.device import evenly, free_memory, keep_compilations, local_devices, out_of_memory
from sober.errors import RequestError, counted
from sober.models.family import Family
from sober.models.model import Model
from sober.spread import Spread
from sober.training.checkpoints import Checkpoints, Log
from sober.training.cohort import PLACES, Carry, best_program, program, signature
from sober.training.feed import Feed
from sober.training.progress import Progress, Quiet, Stopped, Watcher, stop_requests
from sober.types import Run
from sober.worlds import World

LOG_ENTRIES = 100  # in a run's training curves
CHUNK_SECONDS = 1.0  # between looks at the clock and at Ctrl-C
CHECKPOINT_SECONDS = 60.0


def train(
    family: Family,
    checkpoints: Path,
    *,
    at_once: int | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    watcher: Watcher | None = None,
) -> None:
    """Trains every run of a family that is not finished, and writes its model as soon as it is.

    What is needed to go on after a stop is kept in the folder `checkpoints`, which goes away in the end. `at_once`
    limits how many models train at once; without it the devices' memory does. Ctrl-C or SIGTERM stops at a checkpoint
    and raises `Stopped`.
    """
    keep_compilations()
    kept, watcher = Checkpoints(checkpoints), watcher or Quiet()
    with stop_requests() as stop:
        cohorts = _Cohorts(family, kept, at_once)
        clock = _Clock(cohorts, watcher)
        while (number := cohorts.next_unfinished()) is not None:
            fits = True
            try:
                _train_cohort(family, kept, cohorts.runs[number], stop, checkpoint_seconds, watcher, clock)
            except jax.errors.JaxRuntimeError as error:
                if not out_of_memory(error):
                    raise
                fits = False
            if not fits:  # outside the handler: the error held on to the arrays that did not fit
                gc.collect()
                cohorts.halve(number)
                watcher.note(f"out of memory: going on with {counted(len(cohorts.runs[number]), 'model')} at once")
    kept.clear()


class _Cohorts:
    """Which runs train at once. On disk, so that a resumed training keeps its shapes and with them its bits."""

    def __init__(self, family: Family, kept: Checkpoints, limit: int | None) -> None:
        self.family, self.kept = family, kept
        known = kept.cohorts(family.runs)
        self.runs = _cohorts(family, limit) if known is None else known
        if known is None:
            kept.keep_cohorts(self.runs)

    def next_unfinished(self) -> int | None:
        for number, runs in enumerate(self.runs):
            if not all(self.family.model_path(run).exists() for run in runs):
                return number
        return None

    def halve(self, number: int) -> None:
        """Splits a cohort that did not fit, and its checkpoint if it has one."""
        runs = self.runs[number]
        if len(runs) == 1:
            raise RequestError(
                f"run {runs[0].identity} alone does not fit into memory: use a smaller batch or smaller nets"
            )
        middle = (len(runs) + 1) // 2
        self.kept.halve(runs, middle)
        self.runs[number : number + 1] = [runs[:middle], runs[middle:]]
        self.kept.keep_cohorts(self.runs)
        self.kept.drop(runs)  # last: a kill before this leaves the old cohorts with their checkpoint, or both


def _cohorts(family: Family, limit: int | None) -> list[list[Run]]:
    """Runs that share a program, in as few equal cohorts as fit, so that one compilation serves most of them."""
    cohorts = []
    for _, group in itertools.groupby(sorted(family.runs, key=_program_of), key=_program_of):
        runs = list(group)
        cohorts += evenly(runs, limit or _models_that_fit(family.world, runs))
    return cohorts


def _program_of(run: Run) -> str:
    return repr(signature(run))


def _models_that_fit(world: World, runs: Sequence[Run]) -> int:
    compiled = program(world, signature(runs[0]))
    return len(local_devices()) * compiled.memory(compiled.inputs(runs[:1])).models(free_memory())


class _Clock:
    """Counts model-steps over all cohorts and how fast they pass, and tells whoever watches."""

    def __init__(self, cohorts: _Cohorts, watcher: Watcher) -> None:
        self.cohorts, self.watcher = cohorts, watcher
        self.rate = 0.0
        self.said: set[str] = set()

    def note(self, text: str) -> None:
        """Says something once, whichever cohort it is about."""
        if text and text not in self.said:
            self.watcher.note(text)
        self.said.add(text)

    def progress(self, runs: Sequence[Run], step: int, loss: float) -> Progress:
        number = self.cohorts.runs.index(runs)  # type: ignore[arg-type]
        before = [run for cohort in self.cohorts.runs[:number] for run in cohort]
        total = sum(run.steps for cohort in self.cohorts.runs for run in cohort)
        done = sum(run.steps for run in before) + step * len(runs)
        left = (total - done) / self.rate if self.rate else float("nan")
        return Progress(
            done, total, self.rate, left, step, runs[0].steps, len(runs), number + 1, len(self.cohorts.runs), loss
        )

    def took(self, model_steps: int, seconds: float) -> None:
        rate = model_steps / seconds
        self.rate = rate if not self.rate else 0.7 * self.rate + 0.3 * rate


def _train_cohort(
    family: Family,
    kept: Checkpoints,
    runs: list[Run],
    stop: threading.Event,
    checkpoint_seconds: float,
    watcher: Watcher,
    clock: _Clock,
) -> None:
    spread = Spread(len(runs))
    compiled, why = best_program(family.world, runs[0], spread.each)
    clock.note(why)
    inputs = compiled.inputs(runs)
    feed = Feed(family.world, spread)
    carry, log = kept.restore(runs, compiled, inputs, family.world.example, spread)
    inputs = spread.place(inputs)
    step, steps = int(carry.step), runs[0].steps
    every = max(1, steps // LOG_ENTRIES)
    chunk, compiling, loss, saved = 1, True, float("nan"), time.monotonic()
    while step < steps:
        data, end = feed.at(step, steps)
        until = min(step + chunk, steps, (step // every + 1) * every, end)
        started = time.monotonic()
        carry = jax.block_until_ready(compiled.advance(carry, data, inputs, until))
        seconds = time.monotonic() - started
        if not compiling:
            clock.took((until - step) * len(runs), seconds)
            chunk = max(1, min(4 * chunk, int((until - step) / seconds * CHUNK_SECONDS)))
        compiling = False
        step = until
        if step % every == 0 or step == steps:
            carry, entry = _log_entry(carry, spread)
            log.append((step, entry))
            loss = float(np.nanmean(entry["loss"])) if np.isfinite(entry["loss"]).any() else float("nan")
        watcher.progress(clock.progress(runs, step, loss))
        asked = stop.is_set() and step < steps
        if asked or time.monotonic() - saved > checkpoint_seconds:
            kept.save(runs, spread.trimmed(carry, PLACES), log)
            saved = time.monotonic()
        if asked:
            raise Stopped(f"stopped at step {step} of {steps}; run the same command to go on")
    _finish(family, runs, spread.trimmed(carry, PLACES), log, watcher)
    kept.drop(runs)


def _log_entry(carry: Carry, spread: Spread) -> tuple[Carry, dict[str, np.ndarray]]:
    """The mean of every term since the last entry, per model (NaN once it has diverged), and the sums emptied."""
    sums, counts = spread.trimmed((carry.sums, carry.counts))
    with np.errstate(invalid="ignore", divide="ignore"):
        entry = {name: total / counts for name, total in sums.items()}
    empty = spread.place(jax.tree.map(np.zeros_like, (sums, counts)))
    return carry._replace(sums=empty[0], counts=empty[1]), entry


def _finish(family: Family, runs: Sequence[Run], carry: Carry, log: Log, watcher: Watcher) -> None:
    (family.folder / "models").mkdir(exist_ok=True)
    autoencoders, diverged = carry.state.model, carry.diverged
    steps = np.array([step for step, _ in log], np.int32)
    for m, run in enumerate(runs):
        curves = {name: np.array([entry[name][m] for _, entry in log]) for name in log[0][1]}
        Model(
            run,
            family.world.image_shape,
            jax.tree.map(lambda leaf: leaf[m], autoencoders),  # noqa: B023 (used at once)
            int(diverged[m]) if diverged[m] >= 0 else None,
            {"step": steps, **curves},
        ).save(family.model_path(run))
        if diverged[m] >= 0:
            watcher.note(f"run {run.identity} diverged at step {diverged[m]} and was frozen there")
