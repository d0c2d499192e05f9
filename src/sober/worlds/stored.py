"""Worlds whose pictures lie in a file: bytes that may be mapped from disk, read on the device."""

from __future__ import annotations

import abc
import functools
import hashlib
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, UInt8

from sober.worlds.world import World


class Stored(World):
    """A world of pictures that exist already: `pictures` holds them all, in order."""

    @functools.cached_property
    @abc.abstractmethod
    def pictures(self) -> UInt8[np.ndarray, "N H W C"]:
        """Every picture, as bytes; best a `numpy.memmap`, so that opening a world reads nothing."""

    @functools.cached_property
    def fingerprint(self) -> str:
        """16 hexadecimal digits that tell these pictures from others."""
        digest = hashlib.sha256(str(self.pictures.shape).encode())
        for start in range(0, len(self.pictures), 4096):
            digest.update(np.ascontiguousarray(self.pictures[start : start + 4096]).data)
        return digest.hexdigest()[:16]

    def make_data(self) -> UInt8[np.ndarray, "N H W C"]:
        return self.pictures

    def pixels(self, data: Any, index: Int[Array, " n"], key: Key[Array, ""]) -> Float[Array, "n H W C"]:
        return jnp.asarray(data)[index].astype(jnp.float32) / 255
