"""blocks: four blocks slide up and down, each in its own lane of a small picture.

A family of small nets trains on it in seconds on a CPU, and its models differ enough to make a choice worthwhile. The
lanes are 6, 3, 2 and 2 pixels wide, because factors of equal strength can rotate into each other, and then no method
separates them. Suits β from 1 to 4 (a β made for 64 x 64 pictures is too strong here) and Adam at 1e-3. Lengths are in
pixels of the 16 x 16 picture; with another `size` they scale.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from sober.types import Factor
from sober.worlds.drawn.sized import Sized
from sober.worlds.world import Grid

SIDE = 16
HEIGHT = 9  # of every block
PLACES = 8
LANES = ((0, 6), (7, 3), (11, 2), (14, 2))  # left edge and width of each lane
_COLUMN = np.arange(SIDE)
COLUMN_LANE = np.searchsorted([left for left, _ in LANES], _COLUMN, side="right") - 1
COLUMN_TAKEN = np.array([c < LANES[lane][0] + LANES[lane][1] for c, lane in enumerate(COLUMN_LANE)])


class Blocks(Sized, Grid):
    """`blocks`, or `blocks:size=SIDE` with any other side."""

    name = "blocks"
    summary = "four blocks, each sliding in its own lane: 4 factors, 4,096 pictures of 16 x 16"
    reference = "Sober"
    factors = tuple(
        Factor(f"block_{lane}", PLACES, "ordinal", tuple(np.linspace(0, 1, PLACES).tolist()))
        for lane in range(1, len(LANES) + 1)
    )
    image_shape = (SIDE, SIDE, 1)
    drawn_once = True

    def make_data(self) -> tuple[()]:
        return ()

    def pixels(self, data: tuple[()], index: Int[Array, " n"], key: Key[Array, ""]) -> Float[Array, "n H W 1"]:
        classes = jnp.stack(jnp.unravel_index(index, self._sizes), axis=-1)  # (n, 4)
        top = (SIDE - HEIGHT) * classes / (PLACES - 1)
        edges = jnp.arange(self.side + 1) * (SIDE / self.side)  # of rows and of columns
        picture = jnp.zeros(())
        for lane, (left, width) in enumerate(LANES):
            rows = _covered(edges, top[:, lane, None], HEIGHT)  # (n, row)
            picture = picture + rows[:, :, None] * _covered(edges, left, width)
        return picture[..., None]


def _covered(edges: Float[Array, " n+1"], start: Any, length: float) -> Float[Array, "... n"]:
    """The share of each row or column that an interval covers: an edge inside a pixel makes it grey."""
    overlap = jnp.minimum(edges[1:], start + length) - jnp.maximum(edges[:-1], start)
    return jnp.clip(overlap / (edges[1] - edges[0]), 0, 1)
