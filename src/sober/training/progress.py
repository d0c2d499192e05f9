"""The progress of a training, and requests to stop it."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol


class TrainingProgress(NamedTuple):
    """How far a training is."""

    done: int  # model-steps
    total: int
    rate: float  # model-steps per second without compilation; 0 before the first measurement
    seconds_left: float
    step: int
    steps: int
    models: int  # in this cohort
    cohort: int  # counted from 1
    cohorts: int
    loss: float  # mean over the cohort's models that have not diverged


class Watcher(Protocol):
    """Receives the progress of a training: the command line draws a bar, a test may count."""

    def progress(self, progress: TrainingProgress) -> None: ...

    def note(self, text: str) -> None: ...


class SilentWatcher:
    """Ignores all progress."""

    def progress(self, progress: TrainingProgress) -> None: ...

    def note(self, text: str) -> None: ...


class Stopped(KeyboardInterrupt):
    """Training stopped at a checkpoint, as requested."""


@contextlib.contextmanager
def stop_requests() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set. A second Ctrl-C interrupts immediately."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    previous = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def handle(number: int, frame: Any) -> None:
        stop.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    for number in previous:
        signal.signal(number, handle)
    try:
        yield stop
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
