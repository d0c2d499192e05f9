"""The pictures that an encoder is probed with: a sample of a world, and pictures that differ in a known way."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, UInt8

from sober.models.encode import Index, picture_index, sample_of
from sober.probing import label_free, moves
from sober.probing.knowledge import Number
from sober.probing.moves import Moves
from sober.probing.readout import Scaling
from sober.types import Factor
from sober.worlds import World
from sober.worlds.world import Labels

BATCH = 256  # pictures drawn at once
NUISANCE = 512  # pictures of a stochastic world that are drawn twice

Images = UInt8[np.ndarray, "n H W C"]
Draw = Callable[[Int[np.ndarray, " n"]], Images]  # pictures of a block by their places in it


class Block(NamedTuple):
    """Pictures that are encoded one after the other."""

    size: int  # how many
    draw: Draw

    def draws(self) -> Iterator[Callable[[], Images]]:
        """Functions that draw its pictures, at most `BATCH` each. All batches have one size, so one program."""
        step = min(BATCH, self.size)
        for start in range(0, self.size, step or 1):
            yield functools.partial(self._batch, np.arange(start, min(start + step, self.size)), step)

    def _batch(self, places: Int[np.ndarray, " n"], step: int) -> Images:
        return self.draw(np.pad(places, (0, step - len(places)), mode="edge"))[: len(places)]


class ProbedPictures:
    """The pictures of one world: a sample, moves, altered versions, and pictures that differ by nuisance alone."""

    def __init__(self, world: World, count: int, seed: int) -> None:
        self.world, self.seed = world, seed
        self.pictures = sample_of(world, count, seed)
        self.index = picture_index(world, self.pictures)

    @functools.cached_property
    def labelled(self) -> tuple[Index, Labels, tuple[Factor, ...]]:
        """The places in the sample of pictures whose factors are all known, those factors, and what they are.

        Factors with one value are left out.
        """
        factors = self.world.labels(self.index)
        places = np.flatnonzero(np.isfinite(np.asarray(factors, float)).all(axis=1))
        varying = [k for k, column in enumerate(factors[places].T) if len(np.unique(column)) > 1]
        return places, factors[places][:, varying], tuple(self.world.factors[k] for k in varying)

    @functools.cached_property
    def moves(self) -> Moves | None:
        """The pictures in which one factor moves, or two; None where pictures cannot be asked for by their factors."""
        values = self.world.axis_values(self.index)
        if values is None:
            return None
        columns = [place for place, axis in enumerate(self.world.axes) if axis in self.world.factors]
        plan = moves.planned(values, self.seed, columns)
        return plan if plan.moving else None

    def sample_block(self, rows: int | None = None) -> Block:
        """The sample, or its first rows."""
        index = self.index[:rows]
        return Block(len(index), lambda places: self.world.render(index[places]))

    def further_blocks(self) -> dict[str, Block]:
        """What is encoded beside the sample, by what it is for."""
        blocks = {}
        if (plan := self.moves) is not None:
            blocks["moves"] = Block(len(plan.factors), lambda places: self.world.pictures_of(plan.factors[places]))
        few = self.index[: label_free.OBJECTS]
        if len(few) == label_free.OBJECTS:
            images = label_free.altered(self.world.render(few), self.seed)
            blocks["altered"] = Block(len(images), lambda places: images[places])
        if self.world.stochastic:
            twice = self.index[:NUISANCE]
            for name, nuisance in (("nuisance", 1), ("other nuisance", 2)):
                draw = functools.partial(self._with_nuisance, twice, nuisance)
                blocks[name] = Block(len(twice), draw)
        return blocks

    def _with_nuisance(self, index: Int[np.ndarray, " n"], nuisance: int, places: Int[np.ndarray, " m"]) -> Images:
        return self.world.render(index[places], nuisance)

    def numbers(
        self, features: Float[np.ndarray, "N D"], further: dict[str, Float[np.ndarray, "n D"]]
    ) -> Iterator[Number]:
        """The numbers that need more than the sample, from the features of the further blocks."""
        if "moves" in further and self.moves is not None:
            yield from moves.movement(self.moves, further["moves"], Scaling.of(features), self.world.axes)
        if "altered" in further:
            yield label_free.lidar(further["altered"])
        if "nuisance" in further:
            yield label_free.nuisance(further["nuisance"], further["other nuisance"])
