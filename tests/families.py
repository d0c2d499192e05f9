"""Small families for tests: big enough to learn something, small enough for a second."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sober.methods import METHODS
from sober.models.grid import grid
from sober.requests.results import Results
from sober.requests.train import train
from sober.training.progress import Stopped, TrainingProgress
from sober.types import Adam, Run
from sober.worlds import world

BLOCKS = world("blocks")


def small_runs(method: str = "beta_vae", sweep: Any = None, **settings: Any) -> list[Run]:
    defaults = {"seeds": 2, "steps": 20, "latents": 3, "batch": 16, "optimiser": Adam(1e-3)}
    return grid(BLOCKS, method, sweep or {}, **(defaults | settings))


class StopAt:
    """A watcher that asks training to stop, as Ctrl-C does, once a step is reached."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.notes: list[str] = []
        self.seen: list[TrainingProgress] = []

    def progress(self, progress: TrainingProgress) -> None:
        import signal  # noqa: PLC0415

        self.seen.append(progress)
        if progress.step >= self.step:
            signal.raise_signal(signal.SIGINT)

    def note(self, text: str) -> None:
        self.notes.append(text)


def interrupted(runs: list[Run], out: Path, *steps: int, **settings: Any) -> Results:
    """Trains to the end with a stop at each of `steps` on the way."""
    for step in steps:
        try:
            train(runs, BLOCKS, out, watcher=StopAt(step), **settings)
        except Stopped:
            continue
        raise AssertionError(f"training was not stopped at step {step}")
    return train(runs, BLOCKS, out, **settings)


def weights(family: Results, run: Run) -> dict[str, np.ndarray]:
    from sober.models.named_arrays import named_arrays  # noqa: PLC0415

    return named_arrays(family.model(run).autoencoder, "model")


def assert_same_model(one: tuple[Results, Run], other: tuple[Results, Run]) -> None:
    """Bitwise the same weights and training curves."""
    ours, theirs = weights(*one), weights(*other)
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        np.testing.assert_array_equal(array, theirs[name], err_msg=name)
    curves, others = one[0].model(one[1]).curves, other[0].model(other[1]).curves
    assert curves.keys() == others.keys()
    for name, curve in curves.items():
        np.testing.assert_array_equal(curve, others[name], err_msg=name)


EVERY_METHOD = sorted(METHODS)
