"""Locks of the operating system. A lock ends with the process that holds it, however that ends."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from sober.errors import RequestError


def lock(file: IO[str], *, wait: bool) -> bool:
    """Tries to lock an open file for this process and says whether it could; with `wait` it waits until it can."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def locked(folder: Path, name: str = ".lock", *, wait: bool = False) -> Iterator[None]:
    """Holds the lock of this name in `folder`. Refuses a folder in use, or waits for it with `wait`."""
    with open(folder / name, "w") as file:
        if not lock(file, wait=wait):
            raise RequestError(f"{folder} is in use by another process: wait for it, or choose another --out")
        yield
