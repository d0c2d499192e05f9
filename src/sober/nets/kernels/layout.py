"""The layout of a run of layers: its grids, from the pictures to the coarsest, and the tiles of a batch."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Literal, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

Kind = Literal["down", "up"]
Layers = Sequence[tuple[Float[Array, "i o"], Float[Array, " bias"]]]

ROWS = 64  # of a tile; all launch settings were measured with it


class Grids(NamedTuple):
    """The two grids of a layer: coarse, (h, w) with b channels, and fine, (2h, 2w) with a channels; for `rows` of the
    batch."""

    h: int
    w: int
    rows: int
    a: int
    b: int

    @property
    def blocks(self) -> int:
        return (self.h + 1) * (self.w + 1)

    @property
    def fine(self) -> int:
        """How many numbers the fine grid has."""
        return 4 * self.h * self.w * self.rows * self.a

    @property
    def coarse(self) -> int:
        return self.h * self.w * self.rows * self.b

    @property
    def taps(self) -> int:
        """How many numbers of a picture a coarse pixel covers, rounded up to a power of two."""
        return power_of_two(16 * self.a)


@dataclasses.dataclass(frozen=True)
class KernelLayout:
    """A run of layers between pictures (height, width, channels) and the coarsest grid, for one model."""

    kind: Kind
    batch: int
    picture: tuple[int, int, int]
    widths: tuple[int, ...]  # channels of the grids below the pictures, fine to coarse
    interpret: bool = False

    @staticmethod
    def of(kind: Kind, x: Float[Array, "B H W C"], layers: Layers, interpret: bool) -> KernelLayout:
        widths = tuple(bias.shape[0] for _, bias in layers)
        batch, h, w, c = x.shape
        if kind == "down":
            return KernelLayout(kind, batch, (h, w, c), widths, interpret)
        scale = 2 ** len(layers)
        return KernelLayout(kind, batch, (scale * h, scale * w, widths[-1]), (*widths[-2::-1], c), interpret)

    @property
    def rows(self) -> int:
        """Rows of a tile: a power of two, and at least 16 for a product."""
        return min(ROWS, max(16, power_of_two(self.batch)))

    @property
    def tiles(self) -> int:
        return -(-self.batch // self.rows)

    @property
    def grids(self) -> list[Grids]:
        """The grids of all layers, fine to coarse."""
        h, w, channels = self.picture
        pairs = itertools.pairwise((channels, *self.widths))
        return [Grids(h >> k, w >> k, self.rows, a, b) for k, (a, b) in enumerate(pairs, start=1)]

    def tiled(self, x: Float[Array, "B h w c"]) -> Float[Array, "tiles flat"]:
        """The batch cut into tiles and padded with rows of zeros, which add nothing to any gradient: the slopes of the
        loss are 0 there."""
        _, h, w, c = x.shape
        x = jnp.pad(x, ((0, self.tiles * self.rows - self.batch), (0, 0), (0, 0), (0, 0)))
        x = x.reshape(self.tiles, self.rows, h, w, c)
        order = (0, 2, 3, 4, 1) if self._is_picture(h, w) else (0, 2, 3, 1, 4)
        return x.transpose(order).reshape(self.tiles, -1)

    def untiled(self, x: Float[Array, "tiles flat"], h: int, w: int) -> Float[Array, "B h w c"]:
        if self._is_picture(h, w):
            x = x.reshape(self.tiles, h, w, -1, self.rows).transpose(0, 4, 1, 2, 3)
        else:
            x = x.reshape(self.tiles, h, w, self.rows, -1).transpose(0, 3, 1, 2, 4)
        return x.reshape(-1, *x.shape[2:])[: self.batch]

    def _is_picture(self, h: int, w: int) -> bool:
        return (h, w) == self.picture[:2]


def power_of_two(n: int) -> int:
    """The smallest power of two that is at least n."""
    return 1 << (n - 1).bit_length()
