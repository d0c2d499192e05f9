"""The objects of dSprites, for the worlds that paint them anew: read once, however many of these worlds are open."""

from __future__ import annotations

import functools

from jaxtyping import Array, UInt32

from sober.types import Factor
from sober.worlds.drawn.dsprites import DSprites
from sober.worlds.world import Grid


@functools.lru_cache(maxsize=1)
def sprites(file: str | None) -> DSprites:
    """dSprites, rendered or from the published file; the 377 MB of the one asked for last stay in memory."""
    return DSprites(file)


class PaintedSprites(Grid):
    """A stochastic variant of dSprites: its objects, painted anew; its factors, unless a variant has others."""

    factors: tuple[Factor, ...] = DSprites.factors
    image_shape = (64, 64, 3)
    question_values = DSprites.question_values
    stochastic = True

    def __init__(self, file: str | None = None) -> None:
        self.sprites = sprites(file)

    @property
    def spec(self) -> str:
        return self.name + self.sprites.spec.removeprefix(self.sprites.name)

    @property
    def label(self) -> str:
        return super().label + self.sprites.label.removeprefix(self.sprites.name)

    def absent(self) -> str | None:
        return self.sprites.absent()

    def make_data(self) -> UInt32[Array, "737280 128"]:
        return self.sprites.data
