"""Worlds whose pictures lie in a file: bytes that may be mapped from disk, read on the device.

Where they take more than a share of its free memory, they stay on disk and come to the device in shards (see
`World.shard`), so that memory is bounded however large the file is.
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

RESIDENT_SHARE = 0.4  # of the device's free memory that pictures may take


class Stored(World):
    """A world of pictures that exist already: `pictures` holds them all, in order."""

    origin: Origin = "its files"

    @functools.cached_property
    @abc.abstractmethod
    def pictures(self) -> UInt8[np.ndarray, "N H W C"]:
        """Every picture, as bytes; best a `numpy.memmap`, so that opening a world reads nothing."""

    @functools.cached_property
    def fingerprint(self) -> str:
        """16 hexadecimal digits that tell these pictures from others."""
        return fingerprint(self.pictures)[:16]

    @functools.cached_property
    def resident(self) -> bool:  # type: ignore[override]
        # A CPU reads the mapped file where it lies: the system brings in what is used, and drops it again.
        return jax.default_backend() == "cpu" or self.pictures.nbytes <= RESIDENT_SHARE * free_memory()

    def make_data(self) -> UInt8[np.ndarray, "N H W C"]:
        return self.pictures

    def pixels(self, data: Any, index: Int[Array, " n"], key: Key[Array, ""]) -> Float[Array, "n H W C"]:
        # A shard holds as many pictures as fit, drawn as `index` draws: any of them may stand for any other.
        return data[index % len(data)].astype(jnp.float32) / 255

    def gather(self, index: Int[np.ndarray, " n"]) -> tuple[Any, Int[np.ndarray, " n"]]:
        if self.resident:
            return self.data, index
        order = np.argsort(index, kind="stable")  # one way through the file
        places = np.empty(len(index), np.int32)
        places[order] = np.arange(len(index), dtype=np.int32)
        return jax.device_put(np.ascontiguousarray(self.pictures[index[order]])), places
