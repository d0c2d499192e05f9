"""The training loop: cohort by cohort, as many models at once as fit, with checkpoints that resume bit for bit."""

from __future__ import annotations

import gc
import itertools
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from sober.device import equal_chunks, free_memory, kept_compilations, local_devices, out_of_memory
from sober.errors import RequestError, counted
from sober.files.model_files import finished_runs, model_path
from sober.model_placement import ModelPlacement
from sober.models.family import Family
from sober.models.model import Model
from sober.nets.kernels.check import CheckBeside
from sober.training.checkpoints import Checkpoints, Log
from sober.training.cohort import (
    PLACEMENT,
    AheadOfUse,
    Carry,
    Inputs,
    Program,
    fastest_program,
    likely_program,
    program,
    signature,
)
from sober.training.feed import Feed
from sober.training.progress import SilentWatcher, Stopped, TrainingProgress, Watcher, stop_requests
from sober.types import Run
from sober.worlds import World

LOG_ENTRIES = 100  # points of a training curve
CHUNK_SECONDS = 1.0  # between checks for a checkpoint, Ctrl-C and progress
CHECKPOINT_SECONDS = 60.0


@kept_compilations()
def train(
    family: Family,
    checkpoints: Path,
    *,
    at_once: int | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    watcher: Watcher | None = None,
) -> None:
    """Trains the unfinished runs of a family, and writes each model as soon as it is trained.

    The folder `checkpoints` holds what a stopped training needs to resume; it is removed at the end. `at_once` limits
    how many models train at once; by default the devices' memory does. Ctrl-C or SIGTERM stops at a checkpoint and
    raises `Stopped`.
    """
    store, watcher = Checkpoints(checkpoints), watcher or SilentWatcher()
    with stop_requests() as stop:
        cohorts = _Cohorts(family, store, at_once)
        clock = _Clock(cohorts, watcher)
        while (number := cohorts.next_unfinished()) is not None:
            fits = True
            try:
                _train_cohort(family, store, cohorts.runs[number], stop, checkpoint_seconds, watcher, clock)
            except jax.errors.JaxRuntimeError as error:
                if not out_of_memory(error):
                    raise
                fits = False
            if not fits:  # outside the handler: the error holds references to the arrays that did not fit
                gc.collect()
                cohorts.halve(number)
                watcher.note(f"out of memory: going on with {counted(len(cohorts.runs[number]), 'model')} at once")
    store.clear()


class _Cohorts:
    """The runs of each cohort. Stored on disk: a resumed training has the same shapes, and so the same bits."""

    def __init__(self, family: Family, checkpoints: Checkpoints, limit: int | None) -> None:
        self.family, self.checkpoints = family, checkpoints
        stored = checkpoints.cohorts(family.runs)
        self.runs = _cohorts(family, limit) if stored is None else stored
        if stored is None:
            checkpoints.keep_cohorts(self.runs)

    def next_unfinished(self) -> int | None:
        for number, runs in enumerate(self.runs):
            if len(finished_runs(self.family.folder, runs)) < len(runs):
                return number
        return None

    def halve(self, number: int) -> None:
        """Splits a cohort that did not fit into memory, and its checkpoint if it has one."""
        runs = self.runs[number]
        if len(runs) == 1:
            raise RequestError(
                f"run {runs[0].identity} alone does not fit into memory: use a smaller batch or smaller nets"
            )
        middle = (len(runs) + 1) // 2
        self.checkpoints.halve(runs, middle)
        self.runs[number : number + 1] = [runs[:middle], runs[middle:]]
        self.checkpoints.keep_cohorts(self.runs)
        self.checkpoints.drop(
            runs
        )  # last: until then a kill leaves the old checkpoint, which the old list of cohorts needs


def _cohorts(family: Family, limit: int | None) -> list[list[Run]]:
    """Cohorts of runs that share a program: as few as fit into memory, and of equal size, to share compilations."""
    cohorts = []
    for _, group in itertools.groupby(sorted(family.runs, key=_signature_text), key=_signature_text):
        runs = list(group)
        cohorts += equal_chunks(runs, limit or _models_that_fit(family.world, runs))
    return cohorts


def _signature_text(run: Run) -> str:
    return repr(signature(run))


def _models_that_fit(world: World, runs: Sequence[Run]) -> int:
    compiled = program(world, signature(runs[0]))
    return len(local_devices()) * compiled.memory(compiled.inputs(runs[:1])).models(free_memory())


class _Clock:
    """Measures model-steps per second over all cohorts, for the watcher."""

    def __init__(self, cohorts: _Cohorts, watcher: Watcher) -> None:
        self.cohorts, self.watcher = cohorts, watcher
        self.rate = 0.0
        self.notes: set[str] = set()

    def note(self, text: str) -> None:
        """Passes a note to the watcher, only once if several cohorts have it."""
        if text and text not in self.notes:
            self.watcher.note(text)
        self.notes.add(text)

    def progress(self, runs: Sequence[Run], step: int, loss: float) -> TrainingProgress:
        number = self.cohorts.runs.index(runs)  # type: ignore[arg-type]
        earlier = [run for cohort in self.cohorts.runs[:number] for run in cohort]
        total = sum(run.steps for cohort in self.cohorts.runs for run in cohort)
        done = sum(run.steps for run in earlier) + step * len(runs)
        left = (total - done) / self.rate if self.rate else float("nan")
        return TrainingProgress(
            done, total, self.rate, left, step, runs[0].steps, len(runs), number + 1, len(self.cohorts.runs), loss
        )

    def took(self, model_steps: int, seconds: float) -> None:
        rate = model_steps / seconds
        self.rate = rate if not self.rate else 0.7 * self.rate + 0.3 * rate


class _Start(NamedTuple):
    """What a cohort trains with, and where it stands."""

    program: Program
    check: CheckBeside
    feed: Feed
    inputs: Inputs
    carry: Carry
    log: Log


def _begin(family: Family, checkpoints: Checkpoints, runs: list[Run], clock: _Clock) -> _Start:
    """Chooses and compiles the program of a cohort, and makes its models or restores them from their checkpoint."""
    world, placement = family.world, ModelPlacement(len(runs))
    feed, example, steps = Feed(world, placement), world.example, runs[0].steps
    fresh = not checkpoints.path(runs).exists()

    def compiling(chosen: Program) -> AheadOfUse | None:
        """The compilations of a program's functions in threads, if models begin here on one device."""
        if not fresh or len(placement.devices) > 1:
            return None
        data, _ = feed.at(0, steps)
        return chosen.compile_ahead(placement.place(chosen.inputs(runs)), data, example)

    def compiling_meanwhile() -> Callable[[], Any]:
        """Begins to compile the program that a trial of kernels will probably choose."""
        compilations = compiling(likely_program(world, runs[0]))
        return compilations.wait if compilations else lambda: None

    compiled, reason, unchecked = fastest_program(
        world, runs[0], placement.models_per_device, unchecked=True, meanwhile=compiling_meanwhile
    )
    clock.note(reason)
    inputs = compiled.inputs(runs)
    compilations = compiling(compiled)
    if compilations:
        compilations.init.result()
    carry, log = checkpoints.restore(runs, compiled, inputs, example, placement)
    if compilations:
        compilations.advance.result()
    return _Start(compiled, CheckBeside(unchecked), feed, placement.place(inputs), carry, log)


def _train_cohort(
    family: Family,
    checkpoints: Checkpoints,
    runs: list[Run],
    stop: threading.Event,
    checkpoint_seconds: float,
    watcher: Watcher,
    clock: _Clock,
) -> None:
    compiled, check, feed, inputs, carry, log = _begin(family, checkpoints, runs, clock)
    placement, step, steps = feed.placement, int(carry.step), runs[0].steps
    log_steps = max(1, steps // LOG_ENTRIES)
    chunk, first_chunk, loss, saved = 1, True, float("nan"), time.monotonic()
    while step < steps:
        data, end = feed.at(step, steps)
        until = min(step + chunk, steps, (step // log_steps + 1) * log_steps, end)
        started = time.monotonic()
        carry = jax.block_until_ready(compiled.advance(carry, data, inputs, until))
        seconds = time.monotonic() - started
        if not first_chunk:
            clock.took((until - step) * len(runs), seconds)
            chunk = max(1, min(4 * chunk, int((until - step) / seconds * CHUNK_SECONDS)))
        first_chunk = False
        step = until
        check.start()  # after compilation, which it would slow down
        check.require_right()
        if step % log_steps == 0 or step == steps:
            carry, entry = _log_entry(carry, placement)
            log.append((step, entry))
            loss = float(np.nanmean(entry["loss"])) if np.isfinite(entry["loss"]).any() else float("nan")
        watcher.progress(clock.progress(runs, step, loss))
        stopping = stop.is_set() and step < steps
        if stopping or time.monotonic() - saved > checkpoint_seconds:
            check.require_right(wait=True)
            checkpoints.save(runs, placement.fetched(carry, PLACEMENT), log)
            saved = time.monotonic()
        if stopping:
            raise Stopped(f"stopped at step {step} of {steps}; run the same command to go on")
    check.require_right(wait=True)
    _finish(family, runs, placement.fetched(carry, PLACEMENT), log, watcher)
    checkpoints.drop(runs)


def _log_entry(carry: Carry, placement: ModelPlacement) -> tuple[Carry, dict[str, np.ndarray]]:
    """Sums set to zero, and the mean of every term since the last entry, per model (NaN after it diverged)."""
    sums, counts = placement.fetched((carry.sums, carry.counts))
    with np.errstate(invalid="ignore", divide="ignore"):
        entry = {name: total / counts for name, total in sums.items()}
    zeros = placement.place(jax.tree.map(np.zeros_like, (sums, counts)))
    return carry._replace(sums=zeros[0], counts=zeros[1]), entry


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
        ).save(model_path(family.folder, run))
        if diverged[m] >= 0:
            watcher.note(f"run {run.identity} diverged at step {diverged[m]} and was frozen there")
