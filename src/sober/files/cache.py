"""The cache folder, for files that can be made again in a while."""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir() -> Path:
    """The cache folder: `$SOBER_CACHE`, else `$XDG_CACHE_HOME/sober`, else `~/.cache/sober`."""
    if chosen := os.environ.get("SOBER_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sober"
