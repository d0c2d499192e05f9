"""Locks of the operating system, which end with the process that holds them, however it ends."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from sober.errors import RequestError


def lock(file: IO[str], *, wait: bool) -> bool:
    """Whether an open file is locked for this process now; with `wait` it always is, in the end."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def locked(folder: Path, name: str = ".lock", *, wait: bool = False) -> Iterator[None]:
    """Holds the lock of this name in `folder`; with `wait` once it is free, else a folder in use is refused."""
    with open(folder / name, "w") as file:
        if not lock(file, wait=wait):
            raise RequestError(f"{folder} is in use by another process: wait for it, or choose another --out")
        yield
