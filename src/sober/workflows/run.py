"""Runs a study: on this machine with one process or several, or on a Ray cluster. All work on one folder.

A cluster's machines must share that folder, as they do on a network file system.
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
from typing import Any, Literal

from sober.errors import RequestError, counted
from sober.machine import cores
from sober.results.folder import Folder
from sober.training.progress import Stopped, Watcher
from sober.workflows.desk import Desk, Failure, Onlooker
from sober.workflows.evaluate import Evaluation
from sober.workflows.opened import Results
from sober.workflows.plan import TOGETHER, plan
from sober.workflows.study import find_study, study_of

Engine = Literal["local", "ray"]
RETRIES = 3  # of a task whose node was lost


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
) -> tuple[Results, list[Failure]]:
    """Does all that is left of a study and returns its results, with what failed twice.

    Call it again to go on after a stop, on the same folder from several machines at once, or with more seeds.
    """
    if workers < 1:
        raise RequestError(f"workers must be at least 1, got {workers}")
    study, source = find_study(name)
    planned = plan(study.scaled(scale), together, fetch=True, command=command)
    if planned.missing.keys() == planned.request.worlds.keys():
        raise RequestError(f"none of the study's worlds can be opened: {next(iter(planned.missing.values()))}")
    folder = Folder.begin(out, planned.request)
    arguments = (str(folder.path.resolve()), source, str(name))
    if engine == "ray":
        _on_ray(folder, arguments, address, gpus, watcher)
    elif workers > 1:
        _in_processes(arguments, workers, watcher)
    else:
        _work(folder, watcher).all()
    if importlib.util.find_spec("polars") is not None:  # a machine that only trains leaves the table to others
        folder.store.compact()
    return Results(folder), [failure for failure in Desk(folder.path).failures() if failure.tries > 1]


def _work(folder: Folder, watcher: Watcher | None = None) -> Evaluation:
    return Evaluation(folder, folder.request.measure, strict=False, watcher=watcher)


def _elsewhere(folder: str, source: str, path: str) -> Evaluation:
    """The same work in a fresh process, which runs the study's file for what it may add to the registries."""
    study_of(source, path)
    return _work(Folder.open(folder))


# Several processes.


def _in_processes(arguments: tuple[Any, ...], workers: int, watcher: Watcher | None) -> None:
    context = multiprocessing.get_context("spawn")
    share = max(1, cores() // workers)
    started = [context.Process(target=_process, args=(*arguments, share, number)) for number in range(workers)]
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


def _process(folder: str, source: str, path: str, share: int, number: int) -> None:
    """One of several processes, on its share of the cores where the system lets it be bound to some."""
    if hasattr(os, "sched_setaffinity"):  # not on macOS
        mine = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, mine[number * share % len(mine) :][:share])
    with contextlib.suppress(Stopped):
        _elsewhere(folder, source, path).all()


# A cluster.


def _on_ray(
    folder: Folder, arguments: tuple[Any, ...], address: str | None, gpus: float | None, watcher: Watcher | None
) -> None:
    """A task for each cohort, then one for each world; Ray starts a task again whose node was lost."""
    ray = _ray()
    if not ray.is_initialized():
        ray.init(address=address, log_to_driver=False, logging_level="error")
    if gpus is None:
        gpus = 1.0 if ray.cluster_resources().get("GPU") else 0.0
    piece: Any = ray.remote(num_gpus=gpus, num_cpus=1, max_retries=RETRIES, retry_exceptions=False)(_piece)
    for names in ([cohort.name for cohort in folder.request.cohorts], ["judge"]):
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


def _piece(folder: str, source: str, path: str, name: str) -> None:
    """One task on a cluster: a cohort by its name, or all judgements."""
    _elsewhere(folder, source, path).all(name)


def _ray() -> Any:
    try:
        import ray  # noqa: PLC0415
    except ImportError as error:
        raise RequestError("the engine ray needs Ray: pip install 'sober[ray]'") from error
    return ray
