"""The pictures that questions are made of: every combination of rounded values, several times where pictures vary in
more than that. Encoded once, they make a question a look-up."""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from sober.tasks.rounding import MOST, rounded_sizes, true_classes
from sober.worlds.world import Grid, Labels, World

DRAWS = 8  # pictures of a combination that has several, at most


class Panels(World):
    """A picture of each combination, or `draws` of each that differ in what no question is about: nuisance, hidden
    factors, continuous ones. Picture number c · draws + d is draw d of combination c, with nuisance of its own."""

    def __init__(self, world: World) -> None:
        self.base, self.name, self.summary, self.reference = world, world.name, world.summary, world.reference
        self.factors, self.image_shape, self.stochastic = world.factors, world.image_shape, world.stochastic
        self.flags = world.flags
        self.sizes = tuple(size for size in rounded_sizes(world) if size > 1)  # of the factors that questions use
        self.which = self._pictures()  # of the world
        self.size, self.draws = len(self.which), len(self.which) // math.prod(self.sizes)

    @property
    def resident(self) -> bool:  # type: ignore[override]
        return self.base.resident

    def make_data(self) -> Any:
        return self._gathered(self.everything())

    def gather(self, index: Int[np.ndarray, " n"]) -> tuple[Any, Int[np.ndarray, " n"]]:
        if self.resident:
            return self.data, index
        return self._gathered(index), np.arange(len(index), dtype=np.int32)

    def _gathered(self, index: Int[np.ndarray, " n"]) -> Any:
        """The numbers of pictures, where they are in the data of the world, and these data."""
        of_base, places = self.base.gather(self.which[index])
        return jnp.asarray(index), jnp.asarray(places), of_base

    def pixels(self, data: Any, index: Int[Array, " n"], key: Key[Array, ""]) -> Float[Array, "n H W C"]:
        numbers, places, of_base = data
        numbers, places = numbers[index], places[index]
        if not self.stochastic:
            return self.base.pixels(of_base, places, key)

        # A world draws nuisance by key and picture: another key for each lets a picture occur in several guises.
        def one(number: Int[Array, ""], place: Int[Array, ""]) -> Float[Array, "H W C"]:
            return self.base.pixels(of_base, place[None], jax.random.fold_in(key, number))[0]

        return jax.vmap(one)(numbers, places)

    def labels(self, index: Int[np.ndarray, " N"]) -> Labels:
        return self.base.labels(self.which[index])

    def values(self) -> Int[np.ndarray, "N K"]:
        """The rounded values behind each picture, of the factors that questions are about."""
        combination = np.arange(self.size) // self.draws
        return np.stack(np.unravel_index(combination, self.sizes), axis=-1)

    def numbers(self, values: Int[np.ndarray, "*n K"], rng: np.random.Generator) -> Int[np.ndarray, "*n"]:
        """Pictures with these rounded values, one of the draws of each."""
        combination = np.ravel_multi_index(tuple(np.moveaxis(values, -1, 0)), self.sizes)
        return (combination * self.draws + rng.integers(self.draws, size=combination.shape)).astype(np.int32)

    def _pictures(self) -> Int[np.ndarray, " N"]:
        everything = self.base.everything()
        combination = combinations(self.base, everything)
        order = np.argsort(combination, kind="stable")
        ends = np.searchsorted(combination[order], np.arange(math.prod(self.sizes) + 1))
        count = np.diff(ends)  # pictures of each combination
        assert count.all(), "worlds that lack combinations are refused before"
        several = self.stochastic or count.max() > 1
        draws = max(1, min(DRAWS, MOST // len(count))) if several else 1
        lots = np.random.default_rng(0).random((len(count), draws))  # whatever the seed: a picture is not luck
        places = ends[:-1, None] + (lots * count[:, None]).astype(int)
        return everything[order[places.ravel()]].astype(np.int32)


@functools.lru_cache(maxsize=1)
def panels_of(world: World) -> Panels:
    """The same for the same world, so that programs are compiled once."""
    return Panels(world)


def lacking(world: World) -> int:
    """How many combinations of rounded values a world has no picture of."""
    if isinstance(world, Grid):
        return 0
    there = np.unique(combinations(world, world.everything()))
    return math.prod(rounded_sizes(world)) - int((there >= 0).sum())


def combinations(world: World, index: Int[np.ndarray, " N"]) -> Int[np.ndarray, " N"]:
    """Which combination of rounded values each picture has; -1 for those in between."""
    labels, combination = world.labels(index), np.zeros(len(index), np.int64)
    for column, (factor, rounded) in enumerate(zip(world.factors, rounded_sizes(world), strict=True)):
        if rounded > 1:
            value_of = np.full(factor.size + 1, -1)  # the last for labels that are not known
            value_of[true_classes(factor.size, rounded)] = np.arange(rounded)
            known = np.isfinite(labels[:, column])
            value = value_of[np.where(known, labels[:, column], factor.size).astype(int)]
            combination = np.where((value < 0) | (combination < 0), -1, combination * rounded + value)
    return combination
