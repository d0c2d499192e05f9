"""Runs a study: on this machine with one process or several, or on a Ray cluster. All do the same work on one store.

A cluster's machines must share the folder of the store, as they do on a network file system.
"""

from __future__ import annotations

import contextlib
import importlib.util
import multiprocessing
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from sober.errors import RequestError, counted
from sober.files import write_json
from sober.results.store import Store
from sober.training.train import Stopped, Watcher
from sober.workflows.evaluate import Failure, Work, failures
from sober.workflows.plan import TOGETHER, Plan, plan
from sober.workflows.study import find_study, study_of

Engine = Literal["local", "ray"]
RETRIES = 3  # of a task whose node was lost


@runtime_checkable
class Onlooker(Protocol):
    """A watcher that also wants to look at the store now and then, while other machines work on it."""

    def looked(self, folder: Path) -> None: ...


def run(
    name: str | Path,
    out: str | Path,
    *,
    scale: str | None = None,
    engine: Engine = "local",
    workers: int = 1,
    together: int = TOGETHER,
    command: str = "",
    address: str | None = None,
    gpus: float | None = None,
    watcher: Watcher | None = None,
) -> tuple[Store, list[Failure]]:
    """Does all that is left of a study and returns its store, with what failed twice.

    Call it again to go on after a stop, on the same store from several machines at once, or with more seeds.
    """
    if workers < 1:
        raise RequestError(f"workers must be at least 1, got {workers}")
    study, source = find_study(name)
    planned = plan(study.scaled(scale), together, fetch=True)
    if planned.missing.keys() == planned.worlds.keys():
        raise RequestError(f"none of the study's worlds can be opened: {next(iter(planned.missing.values()))}")
    store = Store.create(out)
    _describe(store, planned, command)
    arguments = (str(Path(out).resolve()), source, str(name), scale, together)
    if engine == "ray":
        _on_ray(planned, arguments, address, gpus, watcher)
    elif workers > 1:
        _in_processes(arguments, workers, watcher)
    else:
        Work(store, planned, watcher).all()
    if importlib.util.find_spec("polars") is not None:  # a machine that only trains leaves the table to others
        from sober.workflows.shown import show  # noqa: PLC0415 -- draws, and so needs more than training does

        store.compact()
        show(store, planned)
    return store, [failure for failure in failures(store.folder) if failure.tries > 1]


def _describe(store: Store, planned: Plan, command: str) -> None:
    """What the store holds, for those who look at it; the latest plan is the one that counts."""
    study = planned.study
    about = {
        "name": study.name,
        "title": study.title,
        "paper": study.paper,
        "scale": study.scale,
        "command": command,
        "criteria": {name: dict(settings) for name, settings in study.criteria.items()},
        "cohorts": [
            {"name": each.name, "world": each.world, "runs": [r.identity for r in each.runs], "work": each.work()}
            for each in planned.cohorts
        ],
        "missing": planned.missing,
    }
    write_json(store.folder / "study.json", about)


def _work(folder: str, source: str, path: str, scale: str | None, together: int) -> Work:
    """The work on a store, in a fresh process."""
    return Work(Store.open(folder), plan(study_of(source, path).scaled(scale), together, fetch=True))


# Several processes.


def _in_processes(arguments: tuple[Any, ...], workers: int, watcher: Watcher | None) -> None:
    context = multiprocessing.get_context("spawn")
    share = max(1, len(os.sched_getaffinity(0)) // workers)
    started = [context.Process(target=_process, args=(*arguments, share, at)) for at in range(workers)]
    for process in started:
        process.start()
    try:
        while any(process.is_alive() for process in started):
            time.sleep(0.2)
            if isinstance(watcher, Onlooker):
                watcher.looked(Path(arguments[0]))
    except KeyboardInterrupt:
        for process in started:
            if process.is_alive() and process.pid is not None:
                os.kill(process.pid, signal.SIGTERM)  # stops at a checkpoint
        for process in started:
            process.join()
        raise Stopped("all processes stopped at a checkpoint; run the same command to go on") from None
    if lost := [process.exitcode for process in started if process.exitcode]:
        raise RequestError(
            f"{len(lost)} of {counted(workers, 'worker')} ended early (status {lost[0]}): run the same command to go on"
        )


def _process(folder: str, source: str, path: str, scale: str | None, together: int, cores: int, at: int) -> None:
    """One of several processes, on its share of the cores."""
    mine = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, mine[at * cores % len(mine) :][:cores])
    with contextlib.suppress(Stopped):
        _work(folder, source, path, scale, together).all()


# A cluster.


def _on_ray(
    planned: Plan, arguments: tuple[Any, ...], address: str | None, gpus: float | None, watcher: Watcher | None
) -> None:
    """A task for each cohort, then one for each world; Ray starts a task again whose node was lost."""
    ray = _ray()
    if not ray.is_initialized():
        ray.init(address=address, log_to_driver=False, logging_level="error")
    if gpus is None:
        gpus = 1.0 if ray.cluster_resources().get("GPU") else 0.0
    piece: Any = ray.remote(num_gpus=gpus, num_cpus=1, max_retries=RETRIES, retry_exceptions=False)(_piece)
    for names in ([each.name for each in planned.cohorts], ["judge"]):
        for _ in range(2):  # a task that was lost for good gets another chance
            _finish(ray, [piece.remote(*arguments, name) for name in names], watcher, Path(arguments[0]))


def _finish(ray: Any, tasks: Sequence[Any], watcher: Watcher | None, folder: Path) -> None:
    left = list(tasks)
    while left:
        done, left = ray.wait(left, timeout=0.5)
        if isinstance(watcher, Onlooker):
            watcher.looked(folder)
        for each in done:
            try:
                ray.get(each)
            except ray.exceptions.RayError as error:
                if watcher is not None:
                    watcher.note(f"a task was lost for good: {type(error).__name__}")


def _piece(folder: str, source: str, path: str, scale: str | None, together: int, name: str) -> None:
    """One task on a cluster: a cohort by its name, or all judgements."""
    _work(folder, source, path, scale, together).all(name)


def _ray() -> Any:
    try:
        import ray  # noqa: PLC0415
    except ImportError as error:
        raise RequestError("the engine ray needs Ray: pip install 'sober[ray]'") from error
    return ray
