"""What every world is: factors that make pictures, drawn by key inside a compiled step."""

from __future__ import annotations

import abc
import functools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, UInt8

from sober.errors import RequestError
from sober.types import Factor


class Sample(NamedTuple):
    """Labelled pictures: the class of every factor, and the picture, row by row."""

    factors: Int[np.ndarray, "N K"]
    images: UInt8[np.ndarray, "N H W C"]


class World(abc.ABC):
    """Pictures made by factors: the whole Cartesian product, each picture known by its row-major index.

    A world has two pure functions that run inside the compiled training step, `index` (which pictures) and `pixels`
    (what they look like), and arrays they read, `data`, which live on the device. All else is derived from these.
    """

    name: str
    summary: str
    reference: str
    factors: tuple[Factor, ...]
    image_shape: tuple[int, int, int]

    @abc.abstractmethod
    def make_data(self) -> Any:
        """The arrays that `pixels` reads, made once."""

    @abc.abstractmethod
    def pixels(self, data: Any, index: Int[Array, " n"], key: Key[Array, ""]) -> Float[Array, "n H W C"]:
        """Pictures in [0, 1] by index. `key` draws what is not a factor, where a world has such nuisance."""

    @property
    def label(self) -> str:
        """What a run records as its world: the name, and a fingerprint where the pictures come from a user's file."""
        return self.name

    @property
    def spec(self) -> str:
        """How to open this world again with `sober.world`."""
        return self.name

    @functools.cached_property
    def size(self) -> int:
        """How many pictures the grid holds."""
        return math.prod(self._sizes)

    @functools.cached_property
    def data(self) -> Any:
        """The arrays of `make_data`, on the device."""
        return jax.device_put(self.make_data())

    def index(self, key: Key[Array, ""], n: int) -> Int[Array, " n"]:
        """Which pictures a batch holds: uniform over the grid."""
        return jax.random.randint(key, (n,), 0, self.size)

    def draw(self, data: Any, key: Key[Array, ""], n: int) -> Float[Array, "n H W C"]:
        """A training batch, inside a compiled step."""
        which, nuisance = jax.random.split(key)
        return self.pixels(data, self.index(which, n), nuisance)

    def classes(self, index: Int[np.ndarray, " N"]) -> Int[np.ndarray, "N K"]:
        """The class of every factor for pictures of the grid."""
        return np.stack(np.unravel_index(self.checked(index), self._sizes), axis=-1).astype(np.int32)

    def index_of(self, classes: Int[np.ndarray, "N K"]) -> Int[np.ndarray, " N"]:
        """The pictures with these factor classes: the inverse of `classes`."""
        try:
            return np.ravel_multi_index(tuple(np.asarray(classes).T), self._sizes).astype(np.int32)
        except ValueError as error:
            raise RequestError(f"factor classes out of range for {self.name}, sizes {self._sizes}") from error

    def render(self, index: Int[np.ndarray, " N"]) -> UInt8[np.ndarray, "N H W C"]:
        """Any pictures of the grid as bytes, 0 to 255; a single index gives a single picture."""
        checked = self.checked(index)
        images = np.asarray(self._bytes(self.data, np.atleast_1d(checked), jax.random.key(0)))
        return images if checked.ndim else images[0]

    def sample(self, key: Key[Array, ""] | int, n: int) -> Sample:
        """`n` labelled pictures drawn by `key` (a JAX key, or a whole number to make one of)."""
        which, nuisance = jax.random.split(key if isinstance(key, jax.Array) else jax.random.key(key))
        index = np.asarray(self.index(which, n))
        return Sample(self.classes(index), np.asarray(self._bytes(self.data, index, nuisance)))

    def batches(self, size: int) -> Iterator[tuple[Int[np.ndarray, " n"], UInt8[np.ndarray, "n H W C"]]]:
        """The whole grid in order, `size` pictures at a time; the last batch may be shorter."""
        for start in range(0, self.size, size):
            index = np.arange(start, min(start + size, self.size))
            yield index, self.render(index)

    @property
    def _sizes(self) -> tuple[int, ...]:
        return tuple(factor.size for factor in self.factors)

    def checked(self, index: Int[np.ndarray, " N"]) -> Int[np.ndarray, " N"]:
        """`index` as whole numbers, or an error where the grid has no such pictures."""
        index = np.asarray(index)
        if index.size and not np.issubdtype(index.dtype, np.integer):
            raise RequestError(f"an index is a whole number, got {index.dtype}")
        if index.size and not (index.min() >= 0 and index.max() < self.size):
            raise RequestError(f"index out of range: {self.name} has pictures 0 to {self.size - 1}")
        return index.astype(np.int32)

    @functools.cached_property
    def _bytes(self) -> Any:
        return jax.jit(lambda data, index, key: jnp.round(255 * self.pixels(data, index, key)).astype(jnp.uint8))
