"""Worlds whose pictures are stored as bytes, usually in a file that is mapped from disk.

Pictures that would take more than a share of the device's free memory stay on disk and are copied to the device in
shards (see `World.shard`), so memory is bounded for files of any size.
"""

from __future__ import annotations

import abc
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, UInt8

from sober.device import free_memory
from sober.worlds.cache import fingerprint
from sober.worlds.world import Origin, World

RESIDENT_SHARE = 0.4  # the largest share of the device's free memory for pictures


class StoredWorld(World):
    """A world whose pictures exist already: `pictures` holds all of them, in order."""

    origin: Origin = "its files"

    @functools.cached_property
    @abc.abstractmethod
    def pictures(self) -> UInt8[np.ndarray, "N H W C"]:
        """Every picture as bytes; preferably a `numpy.memmap`, so that opening a world reads nothing."""

    @functools.cached_property
    def fingerprint(self) -> str:
        """16 hexadecimal digits that identify the pictures by their content."""
        return fingerprint(self.pictures)[:16]

    @functools.cached_property
    def resident(self) -> bool:  # type: ignore[override]
        # A CPU reads the mapped file directly: the operating system loads the pages in use and drops them again.
        return jax.default_backend() == "cpu" or self.pictures.nbytes <= RESIDENT_SHARE * free_memory()

    def make_data(self) -> UInt8[np.ndarray, "N H W C"]:
        return self.pictures

    def pixels(self, data: Any, index: Int[Array, " n"], key: Key[Array, ""]) -> Float[Array, "n H W C"]:
        # A shard is a random draw of pictures by `index`, so any picture in it may replace any other.
        return data[index % len(data)].astype(jnp.float32) / 255

    def gather(self, index: Int[np.ndarray, " n"]) -> tuple[Any, Int[np.ndarray, " n"]]:
        if self.resident:
            return self.data, index
        order = np.argsort(index, kind="stable")  # so that the file is read from front to back
        places = np.empty(len(index), np.int32)
        places[order] = np.arange(len(index), dtype=np.int32)
        return jax.device_put(np.ascontiguousarray(self.pictures[index[order]])), places
