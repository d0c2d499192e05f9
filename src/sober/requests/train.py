"""Trains runs into a folder of results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sober.errors import RequestError
from sober.evaluation.cohorts import cohorts_of
from sober.evaluation.engine import Evaluation
from sober.requests.results import Results
from sober.results.folder import Folder
from sober.results.request import Measure, Request, asked_of
from sober.training.progress import Watcher
from sober.types import Run
from sober.worlds import World


def train(
    runs: Sequence[Run],
    world: World,
    out: str | Path,
    *,
    cohort: int | None = None,
    checkpoint_seconds: float = 60.0,
    command: str = "",
    watcher: Watcher | None = None,
) -> Results:
    """Trains every run that is not finished and returns the results in `out`.

    Call it again with the same runs to go on after a stop. `cohort` is how many models train at once, at most; without
    it, as many as fit into the device's memory. Ctrl-C or SIGTERM stops at a checkpoint and raises `Stopped`. Several
    processes may train into the same folder: each cohort is trained by one of them.

    >>> blocks = sober.world("blocks")
    >>> results = sober.train(sober.grid(blocks, "beta_vae", {"beta": [1, 4]}, steps=6000), blocks, "runs/blocks")
    """
    if not runs:
        raise RequestError("give at least one run to train")
    if cohort is not None and cohort < 1:
        raise RequestError(f"cohort must be at least 1, got {cohort}")
    if foreign := [run for run in runs if run.world != world.label]:
        raise RequestError(f"run {foreign[0].identity} is of world {foreign[0].world!r}, not {world.label!r}")
    request = Request(
        "train", asked_of(runs), {world.label: world.spec}, tuple(cohorts_of(runs)), Measure(), command=command
    )
    folder = Folder.begin(out, request)
    evaluation = Evaluation(
        folder, request.measure, at_once=cohort, checkpoint_seconds=checkpoint_seconds, watcher=watcher
    )
    evaluation.all()
    return Results.of(folder)
