"""The base classes of worlds: factors that make pictures, drawn by key inside a compiled step."""

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

from sober.errors import RequestError, counted
from sober.short_text import as_call, as_table, cut, in_words
from sober.types import Factor, WorldSpec

SHARD_BYTES = 2**30  # pictures on the device at a time, if not all fit
SHARD_STEPS = 2000  # training steps per shard
BLOCK_NUMBERS = 2**28  # numbers in the pictures that are drawn at a time, outside training

Origin = Literal["drawn", "its files", "you"]
Labels = Int[np.ndarray, "N K"] | Float[np.ndarray, "N K"]  # classes from 0; real numbers where continuous


class Sample(NamedTuple):
    """Labelled pictures: a row per picture with the class of every factor, or its value if it is continuous."""

    factors: Labels
    images: UInt8[np.ndarray, "N H W C"]

    def __repr__(self) -> str:
        return as_call(self)


class World(abc.ABC):
    """A finite set of pictures, each with an index, and the factors behind them.

    A world has two pure functions that run inside the compiled training step: `index` chooses pictures, and `pixels`
    makes them from `data`, arrays on the device. All other methods are derived from these. Most worlds are a `Grid`,
    the whole Cartesian product of their factors; a `Continuum` has real-valued factors.

    The common tests and the command line ask a world what applies to it: `origin` (drawn worlds are tested directly,
    others with stand-in files), `stochastic`, `absent()`, and `quick()`, the world that tests draw.
    """

    name: str
    summary: str
    reference: str
    factors: tuple[Factor, ...]
    image_shape: tuple[int, int, int]
    size: int  # the number of pictures
    stochastic = False  # whether pictures have a nuisance, drawn anew at each training step
    uniform = True  # whether all pictures are equally likely
    resident = True  # whether all of `data` fits on the device
    origin: Origin = "drawn"  # where pictures come from
    version = 1  # of the pictures: a change that alters them raises it
    regions: Mapping[str, str] = {}  # named conditions on its factors, for `without` and `only`
    question_values: Mapping[str, int] = {}  # numbers of values of factors for questions, if `tasks/rounding.py` errs
    flags: tuple[str, ...] = ()  # for every score of its codes (see `sober.metrics.FLAGS`)
    # Whether a step on a CPU draws its pictures once, and not again in each loop that reads them. This is faster, but
    # may round otherwise: for a world that has it from the start, or where no bit of a model changes.
    drawn_once: bool = False

    def __repr__(self) -> str:
        try:
            sides = " × ".join(map(str, self.image_shape))
            heading = f"World {cut(self.spec, 60)}: {counted(self.size, 'picture')} of {sides}"
            return as_table(heading, [_factor_row(factor) for factor in self.factors])
        except RequestError as error:  # its files are missing, or its options have no written form
            return cut(f"World {self.name}: {error}")

    @abc.abstractmethod
    def make_data(self) -> Any:
        """The arrays that `pixels` reads, made once."""

    @abc.abstractmethod
    def pixels(self, data: Any, index: Int[Array, " n"], key: Key[Array, ""]) -> Float[Array, "n H W C"]:
        """Pictures in [0, 1] by index.

        `key` draws the nuisance of a stochastic world, for each picture with its own key of `keys`: a picture does not
        depend on its neighbours in a batch.
        """

    @abc.abstractmethod
    def labels(self, index: Int[np.ndarray, " N"]) -> Labels:
        """The class of every factor, or its value if factors are continuous; NaN if it is not known."""

    @property
    def axes(self) -> tuple[Factor, ...]:
        """All that determines a picture: its factors, and the hidden ones of a grid."""
        return self.factors

    def axis_values(self, index: Int[np.ndarray, " N"]) -> Labels | None:
        """The class or value on every axis; None if pictures cannot be asked for by these values."""
        return None

    def pictures_of(self, values: Labels) -> UInt8[np.ndarray, "N H W C"]:
        """The pictures with these values on every axis, of a world that has `axis_values`."""
        raise NotImplementedError(f"pictures of {self.name} have an index alone")

    def vary(self, index: int, factor: int, count: int) -> UInt8[np.ndarray, "n H W C"] | None:
        """Picture `index` with only one factor changing, in at most `count` steps; None if they do not exist."""
        return None

    @property
    def label(self) -> str:
        """The world as a run records it: its name, with a fingerprint if the pictures come from a user's file, and with
        the version of the pictures if it is not 1."""
        return self.name if self.version == 1 else f"{self.name}:{self.version}"

    @property
    def options(self) -> Mapping[str, object]:
        """The options that `sober.world` needs to open this world again; None keeps a default."""
        return {}

    @property
    def spec(self) -> str:
        """The written form that opens this world again with `sober.world`."""
        return str(WorldSpec(self.name, {name: str(v) for name, v in self.options.items() if v is not None}))

    @functools.cached_property
    def data(self) -> Any:
        """The arrays of `make_data`, on the device."""
        return jax.device_put(self.make_data())

    def index(self, key: Key[Array, ""], n: int) -> Int[Array, " n"]:
        """The pictures of a batch, all equally likely."""
        return jax.random.randint(key, (n,), 0, self.size)

    def draw(self, data: Any, key: Key[Array, ""], n: int) -> Float[Array, "n H W C"]:
        """A training batch, inside a compiled step."""
        index_key, nuisance_key = jax.random.split(key)
        return self.pixels(data, self.index(index_key, n), nuisance_key)

    def everything(self) -> Int[np.ndarray, " N"]:
        """The pictures that represent the whole world when it is encoded: by default each once."""
        return np.arange(self.size, dtype=np.int32)

    def gather(self, index: Int[np.ndarray, " n"]) -> tuple[Any, Int[np.ndarray, " n"]]:
        """Data on the device with at least these pictures, and their places in it."""
        return self.data, index

    def absent(self) -> str | None:
        """Names the missing files that the pictures need, without fetching any; None if no file is missing.

        Other problems of a world are errors elsewhere. Asking for pictures whose files are missing and cannot be
        fetched raises `MissingError`.
        """
        return None

    def offline(self) -> World:
        """This world without downloads: pictures whose files are missing raise `MissingError`."""
        return self

    @classmethod
    def quick(cls) -> World:
        """A world of this kind that is quick to draw, for the tests that all worlds share.

        By default the world itself. A world that is slow to draw has fewer people or views here.
        """
        return cls()

    @property
    def example(self) -> Any:
        """Data with the shapes that `pixels` takes, for programs that only need the shapes."""
        return self.gather(np.zeros(1, np.int32))[0]

    def shard(self, step: int) -> tuple[Any, int | None]:
        """Data to train on at a step, and the step at which the next shard begins (None: this is the only shard).

        If not all pictures fit on the device, a shard is a random draw of pictures by `index`. The step alone
        determines the shard, so a resumed run sees the same pictures as an uninterrupted one.
        """
        if self.resident:
            return self.data, None
        number = step // SHARD_STEPS
        pictures = max(1, SHARD_BYTES // math.prod(self.image_shape))
        index = np.asarray(self.index(jax.random.fold_in(jax.random.key(1), number), pictures))
        return self.gather(np.sort(index))[0], (number + 1) * SHARD_STEPS

    def render(self, index: Int[np.ndarray, " N"], nuisance: int = 0) -> UInt8[np.ndarray, "N H W C"]:
        """Any pictures as bytes, 0 to 255; a single index gives a single picture.

        In a stochastic world, `nuisance` is the seed of what varies beside the factors.
        """
        checked = self.checked(index)
        images = self._drawn(np.atleast_1d(checked), jax.random.key(nuisance))
        return images if checked.ndim else images[0]

    def sample(self, key: Key[Array, ""] | int, n: int) -> Sample:
        """`n` labelled pictures drawn by `key`: a JAX key, or a whole number as the seed of one."""
        index_key, nuisance_key = jax.random.split(key if isinstance(key, jax.Array) else jax.random.key(key))
        index = np.asarray(self.index(index_key, n))
        return Sample(self.labels(index), self._drawn(index, nuisance_key))

    def batches(self, size: int) -> Iterator[tuple[Int[np.ndarray, " n"], UInt8[np.ndarray, "n H W C"]]]:
        """All pictures in order, `size` pictures at a time; the last batch may be shorter."""
        for start in range(0, self.size, size):
            index = np.arange(start, min(start + size, self.size))
            yield index, self.render(index)

    def checked(self, index: Int[np.ndarray, " N"]) -> Int[np.ndarray, " N"]:
        """`index` as whole numbers; refuses an index out of range."""
        index = np.asarray(index)
        if index.size and not np.issubdtype(index.dtype, np.integer):
            raise RequestError(f"an index is a whole number, got {index.dtype}")
        if index.size and not (index.min() >= 0 and index.max() < self.size):
            raise RequestError(f"index out of range: {self.name} has pictures 0 to {self.size - 1}")
        return index.astype(np.int32)

    def keys(self, key: Key[Array, ""], index: Int[Array, " n"]) -> Key[Array, " n"]:
        """A key for the nuisance of each picture."""
        return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, index)

    def _drawn(self, index: Int[np.ndarray, " n"], key: Key[Array, ""]) -> UInt8[np.ndarray, "n H W C"]:
        """Pictures as bytes, drawn in blocks that fit in memory."""
        block = max(1, BLOCK_NUMBERS // math.prod(self.image_shape))
        if len(index) <= block:
            data, places = self.gather(index)
            return np.asarray(self._bytes(data, places, key))
        images = np.empty((len(index), *self.image_shape), np.uint8)
        for start in range(0, len(index), block):
            # The last block overlaps the one before, so all blocks run the same program.
            rows = slice(min(start, len(index) - block), min(start, len(index) - block) + block)
            data, places = self.gather(index[rows])
            images[rows] = self._bytes(data, places, key)
        return images

    @functools.cached_property
    def _bytes(self) -> Any:
        return jax.jit(lambda data, index, key: _as_bytes(self.pixels(data, index, key)))


class Grid(World):
    """A world that holds every combination of its axes once, in row-major order: the last axis varies fastest.

    The axes are its factors and its hidden factors, which vary too but are not among the labels.
    """

    @property
    def axes(self) -> tuple[Factor, ...]:
        """All factors that span the grid, in order, hidden ones included."""
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

    def axis_values(self, index: Int[np.ndarray, " N"]) -> Int[np.ndarray, "N A"]:
        return self.classes(index)

    def pictures_of(self, values: Labels) -> UInt8[np.ndarray, "N H W C"]:
        return self.render(self.index_of(values))

    def labels(self, index: Int[np.ndarray, " N"]) -> Int[np.ndarray, "N K"]:
        return self.classes(index)[:, self._label_axes]

    def vary(self, index: int, factor: int, count: int) -> UInt8[np.ndarray, "n H W C"]:
        size = self.factors[factor].size
        values = np.unique(np.linspace(0, size - 1, min(count, size)).round().astype(int))
        classes = np.tile(self.classes(np.array([index])), (len(values), 1))
        classes[:, self._label_axes[factor]] = values
        return self.render(self.index_of(classes))

    @property
    def hidden(self) -> tuple[Factor, ...]:
        """The axes that are not among the labels."""
        return tuple(axis for axis in self.axes if axis not in self.factors)

    @property
    def _label_axes(self) -> list[int]:
        """The axis of each factor."""
        return [self.axes.index(factor) for factor in self.factors]

    @property
    def _sizes(self) -> tuple[int, ...]:
        return tuple(axis.size for axis in self.axes)


class Continuum(World):
    """A fixed random sample of `size` pictures whose factors are real numbers, uniform between `low` and `high`.

    The index of a picture determines its values, so any picture can be made again by its index.
    """

    size = 200_000  # pictures in the study of Eastwood & Williams (2018)
    low: tuple[float, ...]
    high: tuple[float, ...]

    @abc.abstractmethod
    def paint(self, data: Any, values: Float[Array, "n K"], key: Key[Array, ""]) -> Float[Array, "n H W C"]:
        """Pictures in [0, 1] for any values of the factors, inside the sample or not."""

    def values(self, index: Int[Array, " n"]) -> Float[Array, "n K"]:
        """The factors of pictures, computed inside a compiled step."""
        low, high = jnp.array(self.low), jnp.array(self.high)
        unit = jax.vmap(lambda key: jax.random.uniform(key, low.shape))(self.keys(jax.random.key(0), index))
        return low + (high - low) * unit

    def pixels(self, data: Any, index: Int[Array, " n"], key: Key[Array, ""]) -> Float[Array, "n H W C"]:
        return self.paint(data, self.values(index), key)

    def axis_values(self, index: Int[np.ndarray, " N"]) -> Float[np.ndarray, "N K"]:
        return self.labels(index)

    def pictures_of(self, values: Labels) -> UInt8[np.ndarray, "N H W C"]:
        return np.asarray(self._painted(self.data, values, jax.random.key(0)))

    def labels(self, index: Int[np.ndarray, " N"]) -> Float[np.ndarray, "N K"]:
        return np.asarray(self._values(self.checked(index)))

    def vary(self, index: int, factor: int, count: int) -> UInt8[np.ndarray, "n H W C"]:
        values = np.tile(self.labels(np.array([index])), (count, 1))
        values[:, factor] = np.linspace(self.low[factor], self.high[factor], count)
        return self.pictures_of(values)

    # Compiled once for each world: a bound method is a new function at each access.
    @functools.cached_property
    def _values(self) -> Any:
        return jax.jit(self.values)

    @functools.cached_property
    def _painted(self) -> Any:
        return jax.jit(lambda data, values, key: _as_bytes(self.paint(data, values, key)))


def _factor_row(factor: Factor) -> dict[str, object]:
    values = f"{in_words(factor.values[0])} to {in_words(factor.values[-1])}" if factor.values else ""
    return {"factor": factor.name, "kind": factor.kind, "size": factor.size or "", "values": values}


def _as_bytes(pixels: Float[Array, "n H W C"]) -> UInt8[Array, "n H W C"]:
    return jnp.round(255 * pixels).astype(jnp.uint8)
