"""Refuses a file whose content would take more memory than there is, or far more than the file itself."""

from __future__ import annotations

import os
from pathlib import Path

from sober.errors import RequestError

MEMINFO = Path("/proc/meminfo")
UNSUSPICIOUS = 2**30  # bytes that a file may unpack to, however small it is
RATIO = 100  # how many times larger than the file its content may be beyond that


def check_size(where: str, size: int, stored: int) -> None:
    """Refuses content of `size` bytes that takes `stored` bytes in its file; `where` names the file."""
    if size > UNSUSPICIOUS and size > RATIO * stored:
        raise RequestError(
            f"{where} would unpack from {stored:,} to {size:,} bytes, more than {RATIO} times as many: "
            "if that is meant, save it without compression"
        )
    if size > (available := available_memory()):
        raise RequestError(f"{where} needs {size:,} bytes of memory, and {available:,} are free: take fewer rows")


def available_memory() -> int:
    """The bytes of memory that programs can still take; all of the machine's where the system does not tell."""
    try:
        lines = MEMINFO.read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
