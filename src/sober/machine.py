"""The machine that this process runs on, as far as Python can tell."""

from __future__ import annotations

import os


def cores() -> int:
    """How many cores this process may use: those it is bound to, where the system can say so, else all."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
