"""The cache folder: what can be made again, and takes a while."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

from sober.errors import RequestError, brief
from sober.files.arrays import load_arrays, save_arrays


def cache_dir() -> Path:
    """Where rendered worlds are kept: `$SOBER_CACHE`, else `$XDG_CACHE_HOME/sober`, else `~/.cache/sober`."""
    if chosen := os.environ.get("SOBER_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sober"


def cached_array(name: str, key: str, make: Callable[[], np.ndarray], doing: str) -> np.ndarray:
    """An array from the cache folder, made and stored on first use; `name` must change when the array does.

    A damaged file is made again, and a folder that cannot be written to is no reason to stop: both are warnings, and
    the first says what is being done, such as `rendering dsprites`, again.
    """
    path = cache_dir() / f"{name}.safetensors"
    if path.exists():
        try:
            return load_arrays(path)[0][key]
        except RequestError as error:
            warnings.warn(f"{error}; {doing} again", stacklevel=3)
    array = make()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_arrays(path, {key: array}, {"name": name})
    except OSError as error:
        warnings.warn(f"{name} could not be cached in {path.parent} ({brief(error)}): set SOBER_CACHE", stacklevel=3)
    return array
