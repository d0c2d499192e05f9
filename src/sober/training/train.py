"""Trains a family: cohort by cohort, as many models at once as fit, with checkpoints that resume bit for bit."""

from __future__ import annotations

import contextlib
import gc
import itertools
import json
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np

from sober.device import evenly, free_memory, keep_compilations, out_of_memory
from sober.errors import RequestError, counted
from sober.files import load_arrays, locked, read_json, save_arrays, write_json
from sober.models.family import Family
from sober.models.model import Model
from sober.models.trees import named_arrays, tree_of
from sober.training.cohort import Carry, Program, program, signature
from sober.types import Run
from sober.worlds import World

LOG_ENTRIES = 100  # in a run's training curves
CHUNK_SECONDS = 1.0  # between looks at the clock and at Ctrl-C


class Progress(NamedTuple):
    """Where training stands, for a person to watch."""

    done: int  # model-steps
    total: int
    rate: float  # model-steps a second, compilation left out; 0 until it is known
    seconds_left: float
    step: int
    steps: int
    models: int  # in this cohort
    cohort: int  # counted from 1
    cohorts: int
    loss: float  # mean over the cohort's models that have not diverged


class Watcher(Protocol):
    """Whoever watches a training: the command line draws a bar, a test may count."""

    def progress(self, progress: Progress) -> None: ...

    def note(self, text: str) -> None: ...


class Quiet:
    def progress(self, progress: Progress) -> None: ...

    def note(self, text: str) -> None: ...


class Stopped(KeyboardInterrupt):
    """Training was asked to stop and has, at a checkpoint."""


def train(
    runs: Sequence[Run],
    world: World,
    out: str | Path,
    *,
    cohort: int | None = None,
    checkpoint_seconds: float = 60.0,
    watcher: Watcher | None = None,
) -> Family:
    """Trains every run that is not finished and returns the family in `out`.

    Call it again with the same runs to go on after a stop. `cohort` limits how many models train at once; without it
    the device's memory does. Ctrl-C or SIGTERM stops at a checkpoint and raises `Stopped`.
    """
    if cohort is not None and cohort < 1:
        raise RequestError(f"cohort must be at least 1, got {cohort}")
    if foreign := [run for run in runs if run.world != world.label]:
        raise RequestError(f"run {foreign[0].identity} is of world {foreign[0].world!r}, not {world.label!r}")
    keep_compilations()
    family = Family.create(Path(out), world, runs)
    watcher = watcher or Quiet()
    with locked(family.folder), _stop_requests() as stop:
        plan = _Plan(family, cohort)
        clock = _Clock(plan)
        while (at := plan.next_unfinished()) is not None:
            fits = True
            try:
                _train_cohort(family, plan.cohorts[at], stop, checkpoint_seconds, watcher, clock)
            except jax.errors.JaxRuntimeError as error:
                if not out_of_memory(error):
                    raise
                fits = False
            if not fits:  # outside the handler: the error held on to the arrays that did not fit
                gc.collect()
                plan.halve(at)
                watcher.note(f"out of memory: going on with {counted(len(plan.cohorts[at]), 'model')} at once")
    return family


class _Plan:
    """Which runs train together. On disk, so that a resumed family keeps its shapes and with them its bits."""

    def __init__(self, family: Family, limit: int | None) -> None:
        self.family = family
        self.path = family.folder / "plan.json"
        if self.path.exists():
            by_identity = {run.identity: run for run in family.runs}
            try:
                self.cohorts = [[by_identity[identity] for identity in cohort] for cohort in read_json(self.path)]
            except (KeyError, TypeError) as error:
                raise RequestError(f"{self.path} does not belong to this family ({error!r}): delete it") from error
        else:
            self.cohorts = _cohorts(family, limit)
            self._write()

    def _write(self) -> None:
        write_json(self.path, [[run.identity for run in runs] for runs in self.cohorts])

    def next_unfinished(self) -> int | None:
        for at, runs in enumerate(self.cohorts):
            if not all(self.family.model_path(run).exists() for run in runs):
                return at
        return None

    def halve(self, at: int) -> None:
        """Splits a cohort that did not fit, and its checkpoint if it has one."""
        runs = self.cohorts[at]
        if len(runs) == 1:
            raise RequestError(
                f"run {runs[0].identity} alone does not fit into memory: use a smaller batch or smaller nets"
            )
        middle = (len(runs) + 1) // 2
        whole = _checkpoint_path(self.family, runs)
        if whole.exists():
            arrays, _ = load_arrays(whole)
            for part in (slice(0, middle), slice(middle, None)):
                of_part = {name: _of_models(name, array, part) for name, array in arrays.items()}
                save_arrays(_checkpoint_path(self.family, runs[part]), of_part, _about(runs[part]))
        self.cohorts[at : at + 1] = [runs[:middle], runs[middle:]]
        self._write()
        whole.unlink(missing_ok=True)  # last: a kill before this leaves the old plan with its checkpoint, or both


def _cohorts(family: Family, limit: int | None) -> list[list[Run]]:
    """Runs that share a program, in as few equal cohorts as fit, so that one compilation serves most of them."""
    cohorts = []
    for _, group in itertools.groupby(sorted(family.runs, key=_program_of), key=_program_of):
        runs = list(group)
        cohorts += evenly(runs, limit or _models_that_fit(family.world, runs))
    return cohorts


def _program_of(run: Run) -> str:
    return repr(signature(run))


def _of_models(name: str, array: np.ndarray, part: slice) -> np.ndarray:
    """The rows of some models in one array of a checkpoint."""
    if name in ("carry.step", "log.step"):
        return array
    return array[:, part] if name.startswith("log.") else array[part]


def _models_that_fit(world: World, runs: Sequence[Run]) -> int:
    compiled = program(world, signature(runs[0]))
    return compiled.memory(compiled.inputs(runs[:1])).models(free_memory())


class _Clock:
    """Counts model-steps over the whole family and how fast they pass."""

    def __init__(self, plan: _Plan) -> None:
        self.plan = plan
        self.rate = 0.0

    def progress(self, runs: Sequence[Run], step: int, loss: float) -> Progress:
        at = self.plan.cohorts.index(runs)  # type: ignore[arg-type]
        before = [run for cohort in self.plan.cohorts[:at] for run in cohort]
        total = sum(run.steps for cohort in self.plan.cohorts for run in cohort)
        done = sum(run.steps for run in before) + step * len(runs)
        left = (total - done) / self.rate if self.rate else float("nan")
        cohorts = len(self.plan.cohorts)
        return Progress(done, total, self.rate, left, step, runs[0].steps, len(runs), at + 1, cohorts, loss)

    def took(self, model_steps: int, seconds: float) -> None:
        rate = model_steps / seconds
        self.rate = rate if not self.rate else 0.7 * self.rate + 0.3 * rate


def _train_cohort(
    family: Family,
    runs: list[Run],
    stop: threading.Event,
    checkpoint_seconds: float,
    watcher: Watcher,
    clock: _Clock,
) -> None:
    compiled = program(family.world, signature(runs[0]))
    inputs = compiled.inputs(runs)
    feed = Feed(family.world)
    carry, log = _restore(family, runs, compiled, inputs)
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
            carry, entry = _log_entry(carry)
            log.append((step, entry))
            loss = float(np.nanmean(entry["loss"])) if np.isfinite(entry["loss"]).any() else float("nan")
        watcher.progress(clock.progress(runs, step, loss))
        asked = stop.is_set() and step < steps
        if asked or time.monotonic() - saved > checkpoint_seconds:
            _save_checkpoint(family, runs, carry, log)
            saved = time.monotonic()
        if asked:
            raise Stopped(f"stopped at step {step} of {steps}; run the same command to go on")
    _finish(family, runs, carry, log, watcher)


class Feed:
    """The data to train on, step by step. Where it comes in shards, the next is fetched while this one is in use."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.waited = 0.0  # seconds, for data
        self.pool = ThreadPoolExecutor(1)  # which starts no thread until it is given something to do
        self.now: tuple[Any, int | None] | None = None
        self.next: Future[tuple[Any, int | None]] | None = None

    def at(self, step: int, steps: int) -> tuple[Any, int]:
        """The data for a step, and the step at which to ask again."""
        started = time.monotonic()
        if self.now is None:
            self.now = self.world.shard(step)
        elif self.now[1] is not None and step >= self.now[1]:
            assert self.next is not None
            self.now = None  # so that two shards are on the device at a time, not three
            self.now = self.next.result()
            self.next = None
        data, end = self.now
        if end is not None and end < steps and self.next is None:
            self.next = self.pool.submit(self.world.shard, end)
        self.waited += time.monotonic() - started
        return data, steps if end is None else end


Log = list[tuple[int, dict[str, np.ndarray]]]


def _log_entry(carry: Carry) -> tuple[Carry, dict[str, np.ndarray]]:
    """The mean of every term since the last entry, per model (NaN once it has diverged), and the sums emptied."""
    counts = np.asarray(carry.counts)
    with np.errstate(invalid="ignore", divide="ignore"):
        entry = {name: np.asarray(total) / counts for name, total in carry.sums.items()}
    empty = jax.tree.map(np.zeros_like, jax.device_get((carry.sums, carry.counts)))
    return carry._replace(sums=jax.device_put(empty[0]), counts=jax.device_put(empty[1])), entry


def _checkpoint_path(family: Family, runs: Sequence[Run]) -> Path:
    return family.folder / "cohorts" / f"{runs[0].identity}-{len(runs)}.safetensors"


def _about(runs: Sequence[Run]) -> dict[str, str]:
    return {"kind": "sober.checkpoint", "runs": json.dumps([run.identity for run in runs])}


def _save_checkpoint(family: Family, runs: Sequence[Run], carry: Carry, log: Log) -> None:
    path = _checkpoint_path(family, runs)
    path.parent.mkdir(exist_ok=True)
    arrays = named_arrays(carry, "carry") | {"log.step": np.array([step for step, _ in log], np.int32)}
    for name in log[0][1] if log else ():
        arrays[f"log.{name}"] = np.stack([entry[name] for _, entry in log])  # (T, M)
    save_arrays(path, arrays, _about(runs))


def _restore(family: Family, runs: Sequence[Run], compiled: Program, inputs: Any) -> tuple[Carry, Log]:
    """The cohort at its latest checkpoint, or at step 0."""
    path = _checkpoint_path(family, runs)
    if not path.exists():
        return compiled.init(inputs, family.world.example), []
    arrays, about = load_arrays(path)
    if about != _about(runs):
        raise RequestError(f"{path} is a checkpoint of other runs: delete it to train these from the start")
    carry = jax.device_put(tree_of(jax.eval_shape(compiled.init, inputs, family.world.example), arrays, "carry"))
    names = [name for name in arrays if name.startswith("log.") and name != "log.step"]
    log = [
        (int(step), {name.removeprefix("log."): arrays[name][at] for name in names})
        for at, step in enumerate(arrays["log.step"])
    ]
    return carry, log


def _finish(family: Family, runs: Sequence[Run], carry: Carry, log: Log, watcher: Watcher) -> None:
    (family.folder / "models").mkdir(exist_ok=True)
    autoencoders, diverged = jax.device_get((carry.state.model, carry.diverged))
    steps = np.array([step for step, _ in log], np.int32)
    for at, run in enumerate(runs):
        curves = {name: np.array([entry[name][at] for _, entry in log]) for name in log[0][1]}
        Model(
            run,
            family.world.image_shape,
            jax.tree.map(lambda leaf: leaf[at], autoencoders),  # noqa: B023 (used at once)
            int(diverged[at]) if diverged[at] >= 0 else None,
            {"step": steps, **curves},
        ).save(family.model_path(run))
        if diverged[at] >= 0:
            watcher.note(f"run {run.identity} diverged at step {diverged[at]} and was frozen there")
    _checkpoint_path(family, runs).unlink(missing_ok=True)


@contextlib.contextmanager
def _stop_requests() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set. A second Ctrl-C interrupts at once."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    previous = {which: signal.getsignal(which) for which in (signal.SIGINT, signal.SIGTERM)}

    def handle(which: int, frame: Any) -> None:
        stop.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    for which in previous:
        signal.signal(which, handle)
    try:
        yield stop
    finally:
        for which, handler in previous.items():
            signal.signal(which, handler)
