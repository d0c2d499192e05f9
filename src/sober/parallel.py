"""Cores and threads of this process."""

from __future__ import annotations

import collections
import contextlib
import ctypes
import functools
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import threadpoolctl

T = TypeVar("T")
R = TypeVar("R")


def cores() -> int:
    """How many cores this process may use: those it is bound to where the system tells, else all of the machine."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class MemoryBudget:
    """The bytes that threads may use together. Work that needs more than all of them waits until it is alone."""

    def __init__(self, size: int) -> None:
        self.size, self.free = size, size
        self._changed = threading.Condition()

    @contextlib.contextmanager
    def taking(self, size: int) -> Iterator[None]:
        """Waits until `size` bytes are free, and uses them for a block."""
        needed = min(size, self.size)
        with self._changed:
            self._changed.wait_for(lambda: self.free >= needed)
            self.free -= needed
        try:
            yield
        finally:
            with self._changed:
                self.free += needed
                self._changed.notify_all()


def give_memory_back() -> None:
    """Gives freed memory back to the system where the C library keeps it, for each thread its own."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # GNU's library has it
    if trim is not None:
        trim(0)


class _OneThread:
    """Limits matrix products to one thread while any block that needs it runs, in whichever threads the blocks run."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._blocks = 0
        self._limit = contextlib.ExitStack()

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            if not self._blocks:
                self._limit.enter_context(_product_libraries().limit(limits=1))
            self._blocks += 1
        try:
            yield
        finally:
            with self._lock:
                self._blocks -= 1
                if not self._blocks:
                    self._limit.close()


@functools.cache
def _product_libraries() -> threadpoolctl.ThreadpoolController:
    """The libraries that multiply matrices: NumPy's, and SciPy's, which scikit-learn uses too."""
    import scipy.linalg  # noqa: F401, PLC0415 -- a library can be limited only after it is loaded
    import threadpoolctl  # noqa: PLC0415

    return threadpoolctl.ThreadpoolController().select(user_api="blas")


# `with one_thread():` for products too small to share among cores, and for workers that have a core each: waiting for
# a busy core costs more than sharing saves. Nothing in Sober uses OpenMP, which has its own limit in each thread.
one_thread = _OneThread()


def map_in_order(
    function: Callable[[T], R], items: Iterable[T], workers: int | None = None, *, ahead: int = 0
) -> Iterator[R]:
    """function(item) of every item, in the order of the items, computed by several threads: by default one per core.

    Takes at most `workers + ahead` items before it yields the first result, so items may come from disk one by one.
    """
    workers = workers or cores()
    waiting: collections.deque[Future[R]] = collections.deque()
    with ThreadPoolExecutor(workers) as pool:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) >= workers + ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
