"""The machine that this process runs on, as far as Python can tell."""

from __future__ import annotations

import collections
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def cores() -> int:
    """How many cores this process may use: those it is bound to, where the system can say so, else all."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_order(
    function: Callable[[T], R], items: Iterable[T], workers: int | None = None, *, ahead: int = 0
) -> Iterator[R]:
    """function(item) of one item after the other, several at a time: one for each core unless told otherwise.

    No more items are taken than are being worked on, and `ahead` of them, so they may come from disk one by one.
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
