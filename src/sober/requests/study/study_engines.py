"""Runs a study in one or several processes on this machine, or on a Ray cluster. All processes work on one folder.

The machines of a cluster must share that folder, for example on a network file system.
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
from typing import Any

from sober.defaults import STUDY_TOGETHER, Engine
from sober.errors import RequestError, counted
from sober.evaluation.engine import Evaluation
from sober.evaluation.failures import Failure, Failures
from sober.evaluation.jobs import JobKind
from sober.evaluation.progress_notes import FolderWatcher
from sober.installation import needing_extra
from sober.parallel import cores
from sober.requests.results import Results
from sober.requests.study.plan import plan
from sober.requests.study.study import find_study, study_of
from sober.results.folder import Folder
from sober.training.progress import Stopped, Watcher

RETRIES = 3  # how often Ray starts a task again after its node was lost


def run_study(
    name: str | Path,
    out: str | Path,
    *,
    scale: str | None = None,
    engine: Engine = "local",
    workers: int = 1,
    together: int = STUDY_TOGETHER,
    command: str = "",
    address: str | None = None,
    gpus: float | None = None,
    watcher: Watcher | None = None,
) -> tuple[Results, list[Failure]]:
    """Does every unfinished job of a study. Returns the results, and the failures of jobs that failed twice.

    Call it again with the same folder to go on after a stop or to add seeds. Several machines may call it at once.
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
        _evaluation(folder, watcher).all()
    if importlib.util.find_spec("polars") is not None:  # training machines may lack it; others then compact the table
        folder.store.compact()
    return Results.of(folder), [failure for failure in Failures(folder.path).all() if failure.tries > 1]


def _evaluation(folder: Folder, watcher: Watcher | None = None) -> Evaluation:
    return Evaluation(folder, folder.request.measure, strict=False, watcher=watcher)


def _evaluation_in_new_process(folder: str, source: str, path: str) -> Evaluation:
    """The same evaluation in a new process. It first runs the study's file, which may add to the registries."""
    study_of(source, path)
    return _evaluation(Folder.open(folder))


# Several processes.


def _in_processes(arguments: tuple[Any, ...], workers: int, watcher: Watcher | None) -> None:
    context = multiprocessing.get_context("spawn")
    cores_each = max(1, cores() // workers)
    processes = [context.Process(target=_process, args=(*arguments, cores_each, number)) for number in range(workers)]
    for process in processes:
        process.start()
    try:
        while any(process.is_alive() for process in processes):
            time.sleep(0.2)
            if isinstance(watcher, FolderWatcher):
                watcher.looked(Path(arguments[0]))
    except KeyboardInterrupt:
        for process in processes:
            if process.is_alive() and process.pid is not None:
                os.kill(process.pid, signal.SIGTERM)  # the process stops at a checkpoint
        for process in processes:
            process.join()
        raise Stopped("all processes stopped at a checkpoint; run the same command to go on") from None
    if bad_statuses := [process.exitcode for process in processes if process.exitcode]:
        raise RequestError(
            f"{len(bad_statuses)} of {counted(workers, 'worker')} ended early (status {bad_statuses[0]}): "
            "run the same command to go on"
        )


def _process(folder: str, source: str, path: str, cores_each: int, number: int) -> None:
    """One of several processes. It uses its own `cores_each` cores, if the system can bind a process to cores."""
    if hasattr(os, "sched_setaffinity"):  # macOS cannot
        usable_cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, usable_cores[number * cores_each % len(usable_cores) :][:cores_each])
    with contextlib.suppress(Stopped):
        _evaluation_in_new_process(folder, source, path).all()


# A cluster.


def _on_ray(
    folder: Folder, arguments: tuple[Any, ...], address: str | None, gpus: float | None, watcher: Watcher | None
) -> None:
    """A task for each cohort, then a task that judges all worlds. Ray starts a task again after its node was lost."""
    ray = _ray()
    if not ray.is_initialized():
        ray.init(address=address, log_to_driver=False, logging_level="error")
    if gpus is None:
        gpus = 1.0 if ray.cluster_resources().get("GPU") else 0.0
    remote: Any = ray.remote(num_gpus=gpus, num_cpus=1, max_retries=RETRIES, retry_exceptions=False)(_ray_task)
    cohorts: list[tuple[JobKind, str | None]] = [("cohort", cohort.name) for cohort in folder.request.cohorts]
    for jobs in (cohorts, [("judge", None)]):
        for _ in range(2):  # the second round does what a task lost in the first round left undone
            _wait_for(ray, [remote.remote(*arguments, *job) for job in jobs], watcher, Path(arguments[0]))


def _wait_for(ray: Any, tasks: Sequence[Any], watcher: Watcher | None, folder: Path) -> None:
    unfinished = list(tasks)
    while unfinished:
        finished, unfinished = ray.wait(unfinished, timeout=0.5)
        if isinstance(watcher, FolderWatcher):
            watcher.looked(folder)
        for task in finished:
            try:
                ray.get(task)
            except ray.exceptions.RayError as error:
                if watcher is not None:
                    watcher.note(f"a task was lost for good: {type(error).__name__}")


def _ray_task(folder: str, source: str, path: str, kind: JobKind, cohort: str | None) -> None:
    """One task on a cluster: the cohort of a name, or all judgements."""
    _evaluation_in_new_process(folder, source, path).all(kind, cohort)


def _ray() -> Any:
    with needing_extra("the engine ray"):
        import ray  # noqa: PLC0415
    return ray
