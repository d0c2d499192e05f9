"""The objects of dSprites, shared by all worlds that paint them in other colours."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from jaxtyping import Array, UInt32

from sober.types import Factor
from sober.worlds.drawn.dsprites import DSprites
from sober.worlds.drawn.sized import Sized
from sober.worlds.world import Grid


@functools.lru_cache(maxsize=1)
def sprites(file: str | None, size: int | str | None = None) -> DSprites:
    """dSprites, rendered or from the published file. The one used last stays in memory: 377 MB."""
    return DSprites(file, size)


class PaintedSprites(Sized, Grid):
    """A stochastic variant of dSprites: its objects in other colours, by default with its factors."""

    factors: tuple[Factor, ...] = DSprites.factors
    image_shape = (64, 64, 3)
    question_values = DSprites.question_values
    stochastic = True

    def __init__(self, file: str | None = None, size: int | str | None = None) -> None:
        super().__init__(size)
        self.sprites = sprites(file, size)

    @property
    def options(self) -> Mapping[str, object]:
        return self.sprites.options

    @property
    def label(self) -> str:
        return self.label_with(*self.sprites.file_fingerprint)

    def absent(self) -> str | None:
        return self.sprites.absent()

    def make_data(self) -> UInt32[Array, "737280 128"] | tuple[()]:
        return self.sprites.data
