"""Panels, the pictures of questions: every combination of rounded values, several times if pictures vary in more.

All panels are encoded once. A question then looks up its codes.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from sober.tasks.rounded_factors import MOST, rounded_sizes, true_classes
from sober.worlds.world import Grid, Labels, World

DRAWS = 8  # pictures of one combination, at most


class Panels(World):
    """The panels of a world: one picture of each combination of rounded values, or `draws` pictures of each.

    These differ in things that no question asks about: nuisance, hidden factors, continuous factors. Picture number
    c · draws + d is draw d of combination c, with its own nuisance.
    """

    def __init__(self, world: World) -> None:
        self.base, self.name, self.summary, self.reference = world, world.name, world.summary, world.reference
        self.factors, self.image_shape, self.stochastic = world.factors, world.image_shape, world.stochastic
        self.flags = world.flags
        self.sizes = tuple(size for size in rounded_sizes(world) if size > 1)  # of the factors that questions use
        self.base_index = self._choose_pictures()  # of each panel, in the world
        self.size, self.draws = len(self.base_index), len(self.base_index) // math.prod(self.sizes)

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
        """The numbers of pictures, their places in the world's data, and these data."""
        base_data, places = self.base.gather(self.base_index[index])
        return jnp.asarray(index), jnp.asarray(places), base_data

    def pixels(self, data: Any, index: Int[Array, " n"], key: Key[Array, ""]) -> Float[Array, "n H W C"]:
        numbers, places, base_data = data
        numbers, places = numbers[index], places[index]
        if not self.stochastic:
            return self.base.pixels(base_data, places, key)

        # The key and the picture determine the nuisance: with a key per panel, the draws of a picture differ.
        def pixels_of_one(number: Int[Array, ""], place: Int[Array, ""]) -> Float[Array, "H W C"]:
            return self.base.pixels(base_data, place[None], jax.random.fold_in(key, number))[0]

        return jax.vmap(pixels_of_one)(numbers, places)

    def labels(self, index: Int[np.ndarray, " N"]) -> Labels:
        return self.base.labels(self.base_index[index])

    def values(self) -> Int[np.ndarray, "N K"]:
        """The rounded values of each picture, for the factors that questions use."""
        combination = np.arange(self.size) // self.draws
        return np.stack(np.unravel_index(combination, self.sizes), axis=-1)

    def numbers(self, values: Int[np.ndarray, "*n K"], rng: np.random.Generator) -> Int[np.ndarray, "*n"]:
        """The numbers of pictures with these rounded values; a random draw of each."""
        combination = np.ravel_multi_index(tuple(np.moveaxis(values, -1, 0)), self.sizes)
        return (combination * self.draws + rng.integers(self.draws, size=combination.shape)).astype(np.int32)

    def _choose_pictures(self) -> Int[np.ndarray, " N"]:
        everything = self.base.everything()
        combination = combinations(self.base, everything)
        order = np.argsort(combination, kind="stable")
        ends = np.searchsorted(combination[order], np.arange(math.prod(self.sizes) + 1))
        count = np.diff(ends)  # pictures of each combination
        assert count.all(), "worlds that lack combinations are refused before"
        varied = self.stochastic or count.max() > 1
        draws = max(1, min(DRAWS, MOST // len(count))) if varied else 1
        random = np.random.default_rng(0).random((len(count), draws))  # the same for all seeds: panels are no luck
        places = ends[:-1, None] + (random * count[:, None]).astype(int)
        return everything[order[places.ravel()]].astype(np.int32)


@functools.lru_cache(maxsize=1)
def panels_of(world: World) -> Panels:
    """The panels of a world, the same object each time, so that programs are compiled once."""
    return Panels(world)


def lacking(world: World) -> int:
    """How many combinations of rounded values have no picture in a world."""
    if isinstance(world, Grid):
        return 0
    present = np.unique(combinations(world, world.everything()))
    return math.prod(rounded_sizes(world)) - int((present >= 0).sum())


def combinations(world: World, index: Int[np.ndarray, " N"]) -> Int[np.ndarray, " N"]:
    """The combination of rounded values of each picture; -1 if a value lies between rounded ones."""
    labels, combination = world.labels(index), np.zeros(len(index), np.int64)
    for column, (factor, rounded) in enumerate(zip(world.factors, rounded_sizes(world), strict=True)):
        if rounded > 1:
            value_of_class = np.full(factor.size + 1, -1)  # the last entry is for missing labels
            value_of_class[true_classes(factor.size, rounded)] = np.arange(rounded)
            labelled = np.isfinite(labels[:, column])
            value = value_of_class[np.where(labelled, labels[:, column], factor.size).astype(int)]
            combination = np.where((value < 0) | (combination < 0), -1, combination * rounded + value)
    return combination
