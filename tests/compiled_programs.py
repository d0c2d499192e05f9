"""The folder of programs that JAX compiled for these tests, kept between runs and shared by checkouts."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import os
from collections.abc import Iterator
from pathlib import Path

LARGEST = 2 * 2**30  # bytes that are kept; a run of every test leaves about a quarter of this


def folder() -> Path:
    """`~/.cache/sober-tests/NAME`, where NAME stands for the version of JAX and the instructions of the processor."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "sober-tests" / f"jaxlib-{importlib.metadata.version('jaxlib')}-{_processor()}"


def _processor() -> str:
    """Eight digits that differ between processors: a program is compiled for the instructions of one."""
    table = Path("/proc/cpuinfo")
    lines = table.read_text().splitlines() if table.exists() else []
    flags = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return hashlib.sha256(flags.encode()).hexdigest()[:8]


def remove_oldest(programs: Path, largest: int = LARGEST) -> None:
    """Removes the programs that were used longest ago until the others take at most `largest` bytes."""
    kept = 0
    for path, status in sorted(_status(programs), key=lambda file: _last_used(file[1]), reverse=True):
        kept += status.st_size
        if kept > largest:
            path.unlink(missing_ok=True)


def _status(programs: Path) -> Iterator[tuple[Path, os.stat_result]]:
    for path in programs.glob("*-cache"):
        with contextlib.suppress(FileNotFoundError):  # removed by another run in the meantime
            yield path, path.stat()


def _last_used(status: os.stat_result) -> float:
    return max(status.st_atime, status.st_mtime)
