"""What every world is: factors that make pictures, drawn by key inside a compiled step."""

from __future__ import annotations

import abc
import functools
import math
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, UInt8

from sober.errors import RequestError
from sober.types import Factor

SHARD_BYTES = 2**30  # of pictures on the device, where they do not all fit
SHARD_STEPS = 2000  # that a shard serves

Origin = Literal["drawn", "its files", "you"]
Labels = Int[np.ndarray, "N K"] | Float[np.ndarray, "N K"]  # classes from 0; real numbers where continuous


class Sample(NamedTuple):
    """Labelled pictures: the class of every factor (its value where it is continuous), and the picture, row by row."""

    factors: Labels
    images: UInt8[np.ndarray, "N H W C"]


class World(abc.ABC):
    """Pictures and the factors behind them: a finite set, each picture known by its index.

    A world has two pure functions that run inside the compiled training step, `index` (which pictures) and `pixels`
    (what they look like), and arrays they read, `data`, which live on the device. All else is derived from these.
    Most worlds are a `Grid`, the whole Cartesian product of their factors; a `Continuum` has real-valued factors.

    The common tests and the command line ask a world what applies to it: `origin` (worlds that are drawn are tested as
    they are, others where their files are made), `stochastic`, `absent()`, and `quick()`, what tests look at.
    """

    name: str
    summary: str
    reference: str
    factors: tuple[Factor, ...]
    image_shape: tuple[int, int, int]
    size: int  # how many pictures there are
    stochastic = False  # whether pictures have nuisance, drawn anew each time they are trained on
    uniform = True  # whether all pictures are equally likely
    resident = True  # whether all of `data` fits on the device
    origin: Origin = "drawn"  # where pictures come from
    version = 1  # of the pictures, or of how they are drawn: a change that alters them raises it
    regions: Mapping[str, str] = {}  # conditions on its factors that have a name, as `without` and `only` take them
    question_values: Mapping[str, int] = {}  # of a factor, that questions use, where `tasks/rounding.py` chose badly
    flags: tuple[str, ...] = ()  # what scores of its codes should say (see `sober.metrics.FLAGS`)

    @abc.abstractmethod
    def make_data(self) -> Any:
        """The arrays that `pixels` reads, made once."""

    @abc.abstractmethod
    def pixels(self, data: Any, index: Int[Array, " n"], key: Key[Array, ""]) -> Float[Array, "n H W C"]:
        """Pictures in [0, 1] by index.

        `key` draws what is not a factor, where a world has such nuisance: for each picture by `keys`, so that a picture
        does not depend on its neighbours in a batch.
        """

    @abc.abstractmethod
    def labels(self, index: Int[np.ndarray, " N"]) -> Labels:
        """The class of every factor, or its value where factors are continuous; NaN where it is not known."""

    def vary(self, index: int, factor: int, count: int) -> UInt8[np.ndarray, "n H W C"] | None:
        """Picture `index` with only one factor changing, in at most `count` steps; None where nobody can make them."""
        return None

    @property
    def label(self) -> str:
        """What a run records as its world: the name, a fingerprint where the pictures come from a user's file, and the
        version of the pictures where it is not the first."""
        return self.name if self.version == 1 else f"{self.name}:{self.version}"

    @property
    def spec(self) -> str:
        """How to open this world again with `sober.world`."""
        return self.name

    @functools.cached_property
    def data(self) -> Any:
        """The arrays of `make_data`, on the device."""
        return jax.device_put(self.make_data())

    def index(self, key: Key[Array, ""], n: int) -> Int[Array, " n"]:
        """Which pictures a batch holds: all are equally likely."""
        return jax.random.randint(key, (n,), 0, self.size)

    def draw(self, data: Any, key: Key[Array, ""], n: int) -> Float[Array, "n H W C"]:
        """A training batch, inside a compiled step."""
        which, nuisance = jax.random.split(key)
        return self.pixels(data, self.index(which, n), nuisance)

    def everything(self) -> Int[np.ndarray, " N"]:
        """The pictures that stand for the world when all of it is to be encoded: each once."""
        return np.arange(self.size, dtype=np.int32)

    def gather(self, index: Int[np.ndarray, " n"]) -> tuple[Any, Int[np.ndarray, " n"]]:
        """Data on the device with at least these pictures, and where in it they are."""
        return self.data, index

    def absent(self) -> str | None:
        """Which files its pictures need that are not here, without fetching any; None where none is missing.

        Nothing else is answered: whatever else is wrong with a world is an error of its own. Asking for the pictures of
        a world with missing files raises `MissingError` where they cannot be fetched.
        """
        return None

    def offline(self) -> World:
        """This world, where nothing may be downloaded: what needs a file that is not here raises `MissingError`."""
        return self

    @classmethod
    def quick(cls) -> World:
        """A world of this kind that is drawn in a moment, for the tests that all worlds share.

        By default the world itself. One whose drawing takes long draws less: fewer people, fewer views.
        """
        return cls()

    @property
    def example(self) -> Any:
        """Data of the form that `pixels` takes, for programs that only need to know its form."""
        return self.gather(np.zeros(1, np.int32))[0]

    def shard(self, step: int) -> tuple[Any, int | None]:
        """Data to train on at a step, and the step from which on it is another shard's turn (None: it never is).

        Where not all pictures fit on the device, a shard of them drawn by `index` stands for all. Which, depends on the
        step alone, so that a resumed run sees what an uninterrupted one does.
        """
        if self.resident:
            return self.data, None
        number = step // SHARD_STEPS
        pictures = max(1, SHARD_BYTES // math.prod(self.image_shape))
        index = np.asarray(self.index(jax.random.fold_in(jax.random.key(1), number), pictures))
        return self.gather(np.sort(index))[0], (number + 1) * SHARD_STEPS

    def render(self, index: Int[np.ndarray, " N"]) -> UInt8[np.ndarray, "N H W C"]:
        """Any pictures as bytes, 0 to 255; a single index gives a single picture."""
        checked = self.checked(index)
        data, places = self.gather(np.atleast_1d(checked))
        images = np.asarray(self._bytes(data, places, jax.random.key(0)))
        return images if checked.ndim else images[0]

    def sample(self, key: Key[Array, ""] | int, n: int) -> Sample:
        """`n` labelled pictures drawn by `key` (a JAX key, or a whole number to make one of)."""
        which, nuisance = jax.random.split(key if isinstance(key, jax.Array) else jax.random.key(key))
        index = np.asarray(self.index(which, n))
        data, places = self.gather(index)
        return Sample(self.labels(index), np.asarray(self._bytes(data, places, nuisance)))

    def batches(self, size: int) -> Iterator[tuple[Int[np.ndarray, " n"], UInt8[np.ndarray, "n H W C"]]]:
        """All pictures in order, `size` pictures at a time; the last batch may be shorter."""
        for start in range(0, self.size, size):
            index = np.arange(start, min(start + size, self.size))
            yield index, self.render(index)

    def checked(self, index: Int[np.ndarray, " N"]) -> Int[np.ndarray, " N"]:
        """`index` as whole numbers, or an error where there are no such pictures."""
        index = np.asarray(index)
        if index.size and not np.issubdtype(index.dtype, np.integer):
            raise RequestError(f"an index is a whole number, got {index.dtype}")
        if index.size and not (index.min() >= 0 and index.max() < self.size):
            raise RequestError(f"index out of range: {self.name} has pictures 0 to {self.size - 1}")
        return index.astype(np.int32)

    def keys(self, key: Key[Array, ""], index: Int[Array, " n"]) -> Key[Array, " n"]:
        """A key for the nuisance of each picture."""
        return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, index)

    @functools.cached_property
    def _bytes(self) -> Any:
        return jax.jit(lambda data, index, key: _as_bytes(self.pixels(data, index, key)))


class Grid(World):
    """A world that holds every combination of its axes once, in row-major order: the last axis varies fastest.

    The axes are its factors, and where there are any those that are hidden: they vary too, and nobody asks about them.
    """

    @property
    def axes(self) -> tuple[Factor, ...]:
        """What spans the grid: the factors in their order, among them those that are hidden."""
        return self.factors

    @functools.cached_property
    def size(self) -> int:  # type: ignore[override]
        return math.prod(self._sizes)

    def classes(self, index: Int[np.ndarray, " N"]) -> Int[np.ndarray, "N A"]:
        """The class on every axis for pictures of the grid."""
        return np.stack(np.unravel_index(self.checked(index), self._sizes), axis=-1).astype(np.int32)

    def index_of(self, classes: Int[np.ndarray, "N A"]) -> Int[np.ndarray, " N"]:
        """The pictures with these classes on every axis: the inverse of `classes`."""
        try:
            return np.ravel_multi_index(tuple(np.asarray(classes).T), self._sizes).astype(np.int32)
        except ValueError as error:
            raise RequestError(f"factor classes out of range for {self.name}, sizes {self._sizes}") from error

    def labels(self, index: Int[np.ndarray, " N"]) -> Int[np.ndarray, "N K"]:
        return self.classes(index)[:, self._asked]

    def vary(self, index: int, factor: int, count: int) -> UInt8[np.ndarray, "n H W C"]:
        size = self.factors[factor].size
        values = np.unique(np.linspace(0, size - 1, min(count, size)).round().astype(int))
        classes = np.tile(self.classes(np.array([index])), (len(values), 1))
        classes[:, self._asked[factor]] = values
        return self.render(self.index_of(classes))

    @property
    def hidden(self) -> tuple[Factor, ...]:
        """The axes that nobody asks about."""
        return tuple(axis for axis in self.axes if axis not in self.factors)

    @property
    def _asked(self) -> list[int]:
        """Which axis each factor is."""
        return [self.axes.index(factor) for factor in self.factors]

    @property
    def _sizes(self) -> tuple[int, ...]:
        return tuple(axis.size for axis in self.axes)


class Continuum(World):
    """A world whose factors are real numbers, uniform between `low` and `high`: a fixed random sample of `size`.

    The values of a picture are drawn by its index alone, so any picture can be made again, and encoded, by index.
    """

    size = 200_000  # pictures in the study of Eastwood & Williams (2018)
    low: tuple[float, ...]
    high: tuple[float, ...]

    @abc.abstractmethod
    def paint(self, data: Any, values: Float[Array, "n K"], key: Key[Array, ""]) -> Float[Array, "n H W C"]:
        """Pictures in [0, 1] by the values of their factors, which need not be among those sampled."""

    def values(self, index: Int[Array, " n"]) -> Float[Array, "n K"]:
        """The factors of pictures, inside a compiled step."""
        low, high = jnp.array(self.low), jnp.array(self.high)
        unit = jax.vmap(lambda key: jax.random.uniform(key, low.shape))(self.keys(jax.random.key(0), index))
        return low + (high - low) * unit

    def pixels(self, data: Any, index: Int[Array, " n"], key: Key[Array, ""]) -> Float[Array, "n H W C"]:
        return self.paint(data, self.values(index), key)

    def labels(self, index: Int[np.ndarray, " N"]) -> Float[np.ndarray, "N K"]:
        return np.asarray(self._values(self.checked(index)))

    def vary(self, index: int, factor: int, count: int) -> UInt8[np.ndarray, "n H W C"]:
        values = np.tile(self.labels(np.array([index])), (count, 1))
        values[:, factor] = np.linspace(self.low[factor], self.high[factor], count)
        return np.asarray(self._painted(self.data, values, jax.random.key(0)))

    # Compiled once for a world: a bound method is a new function each time it is named.
    @functools.cached_property
    def _values(self) -> Any:
        return jax.jit(self.values)

    @functools.cached_property
    def _painted(self) -> Any:
        return jax.jit(lambda data, values, key: _as_bytes(self.paint(data, values, key)))


def _as_bytes(pixels: Float[Array, "n H W C"]) -> UInt8[Array, "n H W C"]:
    return jnp.round(255 * pixels).astype(jnp.uint8)
