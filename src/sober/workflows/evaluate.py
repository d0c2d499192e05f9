"""Working through a plan: cohorts are trained and scored, then the models of each world are judged without labels.

Every step leaves its results in the store and is skipped where they are there, whoever left them. Any number of
processes may work on one store: each claims a piece of work, and a claim ends with its process. A step that fails is
tried once more, a cohort one run at a time, and then listed; it never stops the others.

study.json      the study and its plan, for those who look at the store
progress/       where each process stands
failures/       what went wrong, and how often
judged/         which judgements are done
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import importlib.metadata
import json
import os
import shutil
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import numpy as np
import threadpoolctl

from sober.criteria import Evidence, find_criterion
from sober.errors import RequestError, brief
from sober.files import read_json, save_arrays, write_json
from sober.metrics import METRICS, score
from sober.metrics.score import resolved
from sober.models.encode import codes_path, encode
from sober.models.family import Family
from sober.models.model import load
from sober.results.store import Store
from sober.training.train import Progress, Stopped, Watcher, train
from sober.types import Run, Score
from sober.workflows.plan import Cohort, Plan, cohort
from sober.worlds import World, world

TRIES = 2
TOLD_EVERY = 2.0  # seconds between two notes of progress
ROWS_AT_ONCE = 8  # models whose scores are written together
WAIT = 1.0  # seconds between looks at what other processes do
PRESET = "label_free"  # of criteria, which have no other


@runtime_checkable
class Stages(Protocol):
    """A watcher that also wants to see what comes after training: scoring, encoding, each criterion."""

    def stage(self, what: str, done: int, total: int) -> None: ...


class Failure(NamedTuple):
    """What went wrong with a piece of work."""

    task: str
    runs: tuple[str, ...]
    error: str
    tries: int


class Work:
    """One process at work on a study's store."""

    def __init__(self, store: Store, plan: Plan, watcher: Watcher | None = None) -> None:
        self.store = store
        self.plan = plan
        self.watcher = watcher

    def all(self, only: str = "") -> None:
        """Does all that is left and not claimed by others, and waits for what they have claimed.

        `only` limits it to the pieces of work whose names begin so: one cohort, or all judgements.
        """
        while True:
            did = [self.attempt(*task) for task in self.tasks() if task[0].startswith(only)]
            if "done" in did:
                continue
            if "claimed" not in did:
                return
            time.sleep(WAIT)

    def tasks(self) -> Iterator[tuple[str, Callable[[], None], Sequence[Run]]]:
        """Pieces of work that are left, those first that others wait for."""
        done = self.store.done()
        for each in self.plan.cohorts:
            left = [run for run in each.runs if not self._finished(run, done)]
            if left and not self._given_up(each.name):
                yield each.name, functools.partial(self.cohort, each), each.runs
        for spec, runs in self.plan.worlds.items():
            trained = self._trained(runs)
            if self.plan.study.criteria and trained and self._settled(spec):
                name = self._judgement(spec, trained)
                if not self._marker(name).exists() and not self._given_up(name):
                    yield name, functools.partial(self.judge, spec, trained, name), trained

    # The steps.

    def cohort(self, of: Cohort) -> None:
        """Trains what is not trained and scores what is not scored, of the runs of a cohort."""
        opened = world(of.world)
        self._check_models(of.runs)
        todo = [run for run in of.runs if not self.store.model_path(run).exists()]
        if todo:
            alone = self._tries(of.name) > 0  # a run that fails takes no other with it the second time
            for runs in [[run] for run in todo] if alone and len(todo) > 1 else [todo]:
                with self._noting(cohort(of.world, runs).name, runs) if alone else contextlib.nullcontext():
                    self._train(of.name, opened, of.world, runs)
        self._score(of, opened)

    def _check_models(self, runs: Iterable[Run]) -> None:
        """Sets aside models that are damaged, so that they are trained again."""
        for run in self._trained(runs):
            try:
                load(self.store.model_path(run))
            except RequestError as error:
                self.store.set_aside(self.store.model_path(run), f"cannot be used ({brief(error)})")

    def _train(self, name: str, opened: World, spec: str, runs: Sequence[Run]) -> None:
        folder = self.store.folder / "cohorts" / cohort(spec, runs).name
        folder.parent.mkdir(exist_ok=True)
        family = train(runs, opened, folder, watcher=_Telling(self, name, self.watcher))
        (self.store.folder / "models").mkdir(exist_ok=True)
        for run in runs:
            self._write(_training_scores(family, run), {run.identity: run}, kind="training", preset="training")
            os.replace(family.model_path(run), self.store.model_path(run))
        shutil.rmtree(folder, ignore_errors=True)

    def _score(self, of: Cohort, opened: World) -> None:
        """Every metric of every trained run, as many runs at once as there are cores."""
        done, trained = self.store.done(), self._trained(of.runs)
        wanted = {run: lacking for run in trained if (lacking := self._lacking(run, done))}
        if not wanted:
            return
        family, index = self._family(of.world, of.runs), pictures_of(opened, self.plan.study.pictures)
        workers = min(len(os.sched_getaffinity(0)), len(wanted))
        rows: list[Score] = []
        with threadpoolctl.threadpool_limits(1), ThreadPoolExecutor(workers) as pool:
            measured = pool.map(functools.partial(self._scores, wanted), encode(family, list(wanted), index=index))
            for at, (run, found) in enumerate(measured, start=1):
                rows += found
                self._tell(of.name, "scoring", at, len(wanted))
                if at % ROWS_AT_ONCE == 0 or at == len(wanted):
                    self._write(rows, self.plan.runs, kind="metric", preset=self.plan.study.preset)
                    rows = []
                if not self.plan.study.keep_codes:
                    codes_path(family, run, index).unlink(missing_ok=True)

    def _scores(self, wanted: dict[Run, list[str]], each: tuple[Run, Any]) -> tuple[Run, list[Score]]:
        run, codes = each
        with self._noting(f"score-{run.identity}", [run]):
            found = score(codes, metrics=wanted[run], preset=self.plan.study.preset)
            return run, [
                Score(run.identity, name, value, found.settings.get(_metric_of(name), {}), found.flags[name],
                      seconds=found.seconds.get(_metric_of(name), 0.0))
                for name, value in found.items()
            ]  # fmt: skip
        return run, []

    def judge(self, spec: str, runs: Sequence[Run], name: str) -> None:
        """What each criterion says of all models of a world."""
        family = self._family(spec, runs)
        evidence, _ = Evidence.of(family, progress=functools.partial(self._tell, name, "encoding"))
        for criterion, changes in self.plan.study.criteria.items():
            started = time.monotonic()
            of = find_criterion(criterion)
            if of.compares and len(evidence.runs) < 2:
                continue
            found = of(evidence, changes, progress=functools.partial(self._tell, name, criterion))
            low, high = np.quantile(found.replicates, (0.05, 0.95), axis=0)
            settings = {**of.settings, **changes, "models": len(evidence.runs)}
            seconds = (time.monotonic() - started) / len(evidence.runs)
            rows = [
                Score(run.identity, criterion, float(found.scores[m]), settings, found.flags[m],
                      (float(low[m]), float(high[m])), seconds)
                for m, run in enumerate(evidence.runs)
            ]  # fmt: skip
            self._write(rows, self.plan.runs, kind="criterion", preset=PRESET)
            if found.parts:
                about = {"kind": "sober.judgement", "criterion": criterion, "world": evidence.runs[0].world}
                about["runs"] = json.dumps([run.identity for run in evidence.runs])
                save_arrays(self._marker(f"{name}-{criterion}").with_suffix(".safetensors"), found.parts, about)
        if not self.plan.study.keep_codes:
            for run in evidence.runs:
                codes_path(family, run, evidence.index).unlink(missing_ok=True)
        write_json(self._marker(name), {"world": spec, "runs": len(runs), "criteria": list(self.plan.study.criteria)})

    # What is there.

    def _finished(self, run: Run, done: set[tuple[str, str, str]]) -> bool:
        if not self.store.model_path(run).exists():
            return self._lost(run)
        return not self._lacking(run, done) or self._given_up(f"score-{run.identity}")

    def _lacking(self, run: Run, done: set[tuple[str, str, str]]) -> list[str]:
        """Metrics of which the store has no score."""
        preset = self.plan.study.preset
        return [
            metric
            for metric in self._metrics
            if not any((run.identity, name, preset) in done for name in METRICS[metric].scores)
        ]

    @functools.cached_property
    def _metrics(self) -> list[str]:
        return [metric.name for metric, _, _ in resolved(self.plan.study.metrics, True)]

    def _trained(self, runs: Iterable[Run]) -> list[Run]:
        return [run for run in runs if self.store.model_path(run).exists()]

    def _lost(self, run: Run) -> bool:
        """Whether a run was given up by itself, as it is once its cohort has failed."""
        return self._given_up(cohort("", [run]).name)

    def _settled(self, spec: str) -> bool:
        """Whether every run on a world is trained, or given up."""
        return all(
            self.store.model_path(run).exists() or self._lost(run) or self._given_up(each.name)
            for each in self.plan.cohorts
            if each.world == spec
            for run in each.runs
        )

    def _judgement(self, spec: str, runs: Sequence[Run]) -> str:
        settings = {name: dict(changes) for name, changes in self.plan.study.criteria.items()}
        said = json.dumps([spec, [run.identity for run in runs], settings])
        return f"judge-{hashlib.sha256(said.encode()).hexdigest()[:12]}"

    def _marker(self, name: str) -> Path:
        folder = self.store.folder / "judged"
        folder.mkdir(exist_ok=True)
        return folder / f"{name}.json"

    def _family(self, spec: str, runs: Sequence[Run]) -> Family:
        """The store's own models, as a family."""
        return Family(self.store.folder, spec, tuple(runs))

    def _write(self, rows: Sequence[Score], runs: Any, *, kind: Any, preset: str) -> None:
        if rows:
            self.store.write(
                rows, runs, kind=kind, preset=preset, device=jax.local_devices()[0].device_kind, versions=versions(),
                scale=self.plan.study.scale,
            )  # fmt: skip

    # What went wrong, and where things stand.

    def attempt(self, name: str, do: Callable[[], None], runs: Sequence[Run]) -> str:
        """`done`, well or noted as a failure, or `claimed` by another."""
        claim = self.store.claim(name)
        if claim is None:
            return "claimed"
        with claim:
            with self._noting(name, runs):
                do()
                self._failure_path(name).unlink(missing_ok=True)
            progress_path(self.store.folder, name).unlink(missing_ok=True)
        return "done"

    @contextlib.contextmanager
    def _noting(self, name: str, runs: Sequence[Run]) -> Iterator[None]:
        """Notes what fails in the block, and goes on after it; but no room on the disk stops everything."""
        try:
            yield
        except (Stopped, KeyboardInterrupt, SystemExit):
            raise
        except Exception as error:
            if "no room for" in str(error) or getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
                raise RequestError(
                    f"{self.store.folder}: the disk is full ({brief(error)}); make room, and the same command goes on"
                ) from error
            self._note(name, runs, error)

    def _note(self, name: str, runs: Sequence[Run], error: Exception) -> None:
        path, said = self._failure_path(name), f"{type(error).__name__}: {brief(error)}"
        where = "".join(traceback.format_exception(error)[-6:])
        failure = Failure(name, tuple(run.identity for run in runs), said, self._tries(name) + 1)
        write_json(path, {**failure._asdict(), "traceback": where})
        if self.watcher is not None:
            self.watcher.note(f"{name}: {said} (try {failure.tries} of {TRIES})")

    def _tries(self, name: str) -> int:
        path = self._failure_path(name)
        return int(read_json(path)["tries"]) if path.exists() else 0

    def _given_up(self, name: str) -> bool:
        return self._tries(name) >= TRIES

    def _failure_path(self, name: str) -> Path:
        folder = self.store.folder / "failures"
        folder.mkdir(exist_ok=True)
        return folder / f"{name}.json"

    def _tell(self, name: str, what: str, done: int, total: int) -> None:
        self._told(name, {"what": what, "done": done, "total": total})
        if isinstance(self.watcher, Stages):
            self.watcher.stage(what, done, total)

    def _told(self, name: str, about: dict[str, Any]) -> None:
        last = getattr(self, "_last", 0.0)
        if time.monotonic() - last > TOLD_EVERY:
            self._last = time.monotonic()
            path = progress_path(self.store.folder, name)
            path.parent.mkdir(exist_ok=True)
            write_json(path, {**about, "task": name, "at": time.time(), "pid": os.getpid()})


class _Telling:
    """Training's progress, for those who look at the store and for whoever watches here."""

    def __init__(self, work: Work, name: str, watcher: Watcher | None) -> None:
        self.work, self.name, self.watcher = work, name, watcher

    def progress(self, progress: Progress) -> None:
        about = {"what": "training", "done": progress.done, "total": progress.total, "rate": progress.rate}
        self.work._told(self.name, {**about, "left": progress.seconds_left})
        if self.watcher is not None:
            names = [cohort.name for cohort in self.work.plan.cohorts]
            self.watcher.progress(progress._replace(cohort=names.index(self.name) + 1, cohorts=len(names)))

    def note(self, text: str) -> None:
        if self.watcher is not None:
            self.watcher.note(text)


def pictures_of(opened: World, count: int) -> np.ndarray | None:
    """The pictures that models of a world are scored by: so many, drawn once and for all; None for all there are."""
    if opened.size <= count and not opened.stochastic:
        return None
    return np.asarray(opened.index(jax.random.key(0), count))


def progress_path(folder: Path, name: str) -> Path:
    return folder / "progress" / f"{name}.json"


def failures(folder: Path) -> list[Failure]:
    """What went wrong so far."""
    found = []
    for path in sorted((folder / "failures").glob("*.json")):
        about = read_json(path)
        found.append(Failure(about["task"], tuple(about["runs"]), about["error"], about["tries"]))
    return found


@functools.cache
def versions() -> dict[str, str]:
    """Of what numbers depend on."""
    found = {}
    for name in ("sober", "jax", "numpy", "scikit-learn"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def _metric_of(name: str) -> str:
    return next(metric.name for metric in METRICS.values() if name in metric.scores)


def _training_scores(family: Family, run: Run) -> list[Score]:
    """Where every term of a run's training ended."""
    model = family.model(run)
    flags = ("diverged",) if model.diverged is not None else ()
    ended = {name: model.ended(name) for name in model.curves if name != "step"}
    return [
        Score(run.identity, f"train_{name}", last, flags=flags) for name, last in ended.items() if not np.isnan(last)
    ]
