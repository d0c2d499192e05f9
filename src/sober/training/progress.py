"""Where training stands, for whoever watches, and how it is asked to stop."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol


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


@contextlib.contextmanager
def stop_requests() -> Iterator[threading.Event]:
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
