"""The cache folder: what can be made again, and takes a while."""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir() -> Path:
    """Where pictures are kept: `$SOBER_CACHE`, else `$XDG_CACHE_HOME/sober`, else `~/.cache/sober`."""
    if chosen := os.environ.get("SOBER_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sober"
