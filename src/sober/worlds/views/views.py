"""Views of a world: the same pictures, fewer of them or drawn otherwise.

    heads | joint azimuth elevation D             two factors sampled together (Chen et al. 2018, A to D)
    heads | joint azimuth elevation table.csv     likewise, by a table of one's own: a row for each class of the first
    teapots | without red > green + 0.15 and elevation > pi / 4       a region held out
    dsprites | keep x y shape=heart scale=5       factors that vary; the others stay at a class, by default the first
    dsprites | part train 0.8                     a fixed split: `part test 0.8` are the others

A view is a world like any other, so views can follow each other. What a model was trained on is part of its run.
"""

from __future__ import annotations

import csv
import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, UInt8

from sober.errors import RequestError, brief, listed
from sober.types import Factor
from sober.worlds.views.conditions import holds
from sober.worlds.views.joints import JOINTS, joint
from sober.worlds.world import Grid, Labels, World

SAMPLE = 100_000  # pictures that stand for a world whose pictures are not equally likely


class View(World):
    """Some pictures of another world, in an order of their own: `which` holds their indices there."""

    def __init__(self, base: World, text: str, which: Int[np.ndarray, " n"] | None = None) -> None:
        self.base, self.text = base, text
        self.name, self.summary, self.reference = base.name, base.summary, base.reference
        self.factors, self.image_shape = base.factors, base.image_shape
        self.stochastic, self.resident, self.flags = base.stochastic, base.resident, base.flags
        self.which = None if which is None else np.asarray(which, np.int32)
        self.size = base.size if which is None else len(which)
        if not self.size:
            raise RequestError(f"{self.spec}: no picture is left")

    @property
    def label(self) -> str:
        return f"{self.base.label} | {self.text}"

    @property
    def spec(self) -> str:
        return f"{self.base.spec} | {self.text}"

    def absent(self) -> str | None:
        return self.base.absent()

    def make_data(self) -> Any:
        return None if self.which is None else self.which, self.base.data

    def pixels(self, data: Any, index: Int[Array, " n"], key: Key[Array, ""]) -> Float[Array, "n H W C"]:
        which, of_base = data
        return self.base.pixels(of_base, index if which is None else which[index], key)

    def gather(self, index: Int[np.ndarray, " n"]) -> tuple[Any, Int[np.ndarray, " n"]]:
        if self.resident:
            return self.data, index
        of_base, places = self.base.gather(self._there(index))
        return (None, of_base), places

    def labels(self, index: Int[np.ndarray, " N"]) -> Labels:
        return self.base.labels(self._there(self.checked(index)))

    def vary(self, index: int, factor: int, count: int) -> UInt8[np.ndarray, "n H W C"] | None:
        return self.base.vary(int(self._there(np.array([index]))[0]), factor, count)

    def _there(self, index: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        return index if self.which is None else self.which[index]


class Joint(View):
    """A grid whose pictures are drawn by a table over some of its factors; the others are uniform and independent."""

    def __init__(
        self, base: World, factors: Sequence[str], table: Float[np.ndarray, "..."], text: str | None = None
    ) -> None:
        columns = tuple(_column(base, name) for name in factors)
        table = np.asarray(table, np.float64)
        sizes = tuple(base.factors[column].size for column in columns)
        if not isinstance(base, Grid) or len(set(columns)) < len(columns):
            raise RequestError(f"{base.spec}: only different factors of a full grid can be sampled by a table")
        if table.shape != sizes or not (np.isfinite(table).all() and (table >= 0).all() and table.sum() > 0):
            want = " x ".join(map(str, sizes))
            raise RequestError(f"a table over {listed(factors)} holds {want} numbers from 0, got shape {table.shape}")
        self.columns, self.table = columns, table / table.sum()
        digest = hashlib.sha256(np.round(self.table, 9).astype("<f8").tobytes()).hexdigest()[:16]
        self.shown = f"joint {' '.join(factors)} {digest}"  # a file may change; what it held may not
        super().__init__(base, text or self.shown)
        self.flags = tuple(sorted({*base.flags, *([] if self._independent() else ["dependent_factors"])}))

    @property
    def label(self) -> str:
        return f"{self.base.label} | {self.shown}"

    def index(self, key: Key[Array, ""], n: int) -> Int[Array, " n"]:
        for_cell, for_others = jax.random.split(key)
        cumulative = jnp.asarray(np.cumsum(self.table.ravel()), jnp.float32)
        cell = jnp.searchsorted(cumulative, jax.random.uniform(for_cell, (n,)), side="right")
        drawn = jnp.unravel_index(jnp.minimum(cell, self.table.size - 1), self.table.shape)
        sizes = [factor.size for factor in self.factors]
        others = jax.random.randint(for_others, (n, len(sizes)), 0, jnp.array(sizes))
        classes = [others[:, column] for column in range(len(sizes))]
        for column, value in zip(self.columns, drawn, strict=True):
            classes[column] = value
        return functools.reduce(lambda index, at: index * sizes[at] + classes[at], range(len(sizes)), jnp.int32(0))

    def everything(self) -> Int[np.ndarray, " N"]:
        """A fixed sample: scores are of the world as it is sampled, not of the grid."""
        return np.asarray(self.index(jax.random.key(2), SAMPLE))

    def _independent(self) -> bool:
        margins = [self.table.sum(tuple(set(range(self.table.ndim)) - {axis})) for axis in range(self.table.ndim)]
        return np.allclose(functools.reduce(np.multiply.outer, margins), self.table, rtol=1e-6, atol=1e-12)


class Kept(Grid):
    """The smaller grid in which only some factors vary and the others stay at a class."""

    def __init__(self, base: World, names: Sequence[str], at: Mapping[str, int]) -> None:
        if not isinstance(base, Grid) or not names:
            raise RequestError(f"{base.spec}: keep needs the names of factors, of a full grid")
        self.columns = [_column(base, name) for name in names]
        classes = np.zeros(len(base.factors), np.int32)
        for name, value in at.items():
            classes[_column(base, name)] = value
        self.base, self.text = base, " ".join(["keep", *names, *(f"{name}={value}" for name, value in at.items())])
        self.name, self.summary, self.reference = base.name, base.summary, base.reference
        self.factors: tuple[Factor, ...] = tuple(base.factors[column] for column in self.columns)
        self.image_shape, self.stochastic, self.flags = base.image_shape, base.stochastic, base.flags
        rows = np.tile(classes, (self.size, 1))
        rows[:, self.columns] = self.classes(np.arange(self.size))
        self.view = View(base, self.text, base.index_of(rows))
        self.resident = base.resident

    label = property(lambda self: self.view.label)
    spec = property(lambda self: self.view.spec)

    def make_data(self) -> Any:
        return self.view.make_data()

    def pixels(self, data: Any, index: Int[Array, " n"], key: Key[Array, ""]) -> Float[Array, "n H W C"]:
        return self.view.pixels(data, index, key)

    def gather(self, index: Int[np.ndarray, " n"]) -> tuple[Any, Int[np.ndarray, " n"]]:
        return self.view.gather(index)


class Without(View):
    """All pictures but those for which a condition on their factors holds; `held_out` are the others."""

    def __init__(self, base: World, condition: str) -> None:
        held = holds(base, condition)
        super().__init__(base, f"without {condition}", np.flatnonzero(~held))
        self.condition = condition
        self.flags = tuple(sorted({*base.flags, "held_out"})) if held.any() else base.flags

    @functools.cached_property
    def held_out(self) -> View:
        """The pictures that were left out: what a model has never seen."""
        return View(self.base, f"only {self.condition}", np.flatnonzero(holds(self.base, self.condition)))


class Part(View):
    """A share of the pictures, chosen at random once and for all: `train`, or `test` for the others."""

    def __init__(self, base: World, name: str, share: float) -> None:
        if name not in ("train", "test") or not 0 < share < 1:
            raise RequestError(f"a part is train or test and a share between 0 and 1, got {name} {share:g}")
        order = np.random.default_rng(0).permutation(base.size)
        cut = round(share * base.size)
        super().__init__(base, f"part {name} {share:g}", np.sort(order[:cut] if name == "train" else order[cut:]))


def view(base: World, text: str) -> World:
    """The view that a piece of a world's spec asks for, such as `part train 0.8`."""
    verb, _, rest = text.strip().partition(" ")
    words = rest.split()
    if verb not in VIEWS:
        raise RequestError(f"unknown view {verb!r} of {base.spec}: choose one of {listed(VIEWS)}")
    try:
        return VIEWS[verb](base, rest.strip(), words)
    except (ValueError, IndexError) as error:
        raise RequestError(f"{text!r} cannot be read ({brief(error)}): see the page on views for examples") from error


def _joint_of(base: World, text: str, words: list[str]) -> World:
    if len(words) < 3:
        raise RequestError(f"joint takes two factors and {listed(JOINTS)} or a table's file, got {text!r}")
    *names, which = words
    if which in JOINTS:
        rows, columns = (base.factors[_column(base, name)].size for name in names)
        return Joint(base, names, joint(which, rows, columns), f"joint {text}")
    return Joint(base, names, _table(Path(which)), f"joint {' '.join(names)} {Path(which).expanduser().resolve()}")


def _kept_of(base: World, text: str, words: list[str]) -> World:
    fixed = dict(word.split("=", 1) for word in words if "=" in word)
    at = {name: _class(base.factors[_column(base, name)], value) for name, value in fixed.items()}
    return Kept(base, [word for word in words if "=" not in word], at)


VIEWS: dict[str, Callable[[World, str, list[str]], World]] = {
    "joint": _joint_of,
    "keep": _kept_of,
    "without": lambda base, text, words: Without(base, text),
    "only": lambda base, text, words: View(base, f"only {text}", np.flatnonzero(holds(base, text))),
    "part": lambda base, text, words: Part(base, words[0], float(words[1])),
}


def _table(path: Path) -> Float[np.ndarray, "rows columns"]:
    """Numbers of a CSV file, as many in every row."""
    try:
        with open(path, newline="", encoding="utf-8") as file:
            return np.array([[float(cell) for cell in row] for row in csv.reader(file) if row])
    except (OSError, ValueError) as error:
        raise RequestError(f"{path} is not a table of numbers ({brief(error)})") from error


def _column(base: World, name: str) -> int:
    names = [factor.name for factor in base.factors]
    if name not in names:
        raise RequestError(f"{base.spec} has no factor {name!r}: choose from {listed(names)}")
    return names.index(name)


def _class(factor: Factor, text: str) -> int:
    """A class by its number or by its name."""
    if text in map(str, factor.values) and factor.kind == "categorical":
        return [str(value) for value in factor.values].index(text)
    if not text.isdigit() or int(text) >= factor.size:
        known = f" or one of {listed(map(str, factor.values))}" if factor.kind == "categorical" else ""
        raise RequestError(f"factor {factor.name} has classes 0 to {factor.size - 1}{known}, got {text!r}")
    return int(text)
