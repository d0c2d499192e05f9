"""blocks: four blocks slide up and down, each in its own lane of a small picture.

A world on which a family of small nets trains in seconds on a CPU and models differ enough to be worth choosing among.
The lanes are 6, 3, 2 and 2 pixels wide, because factors of equal strength can rotate into each other and no method
then separates them. Suits β from 1 to 4 (a β made for 64 x 64 pictures is too strong here) and Adam at 1e-3.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from sober.types import Factor
from sober.worlds.world import Grid

SIDE = 16
HEIGHT = 9  # of every block
PLACES = 8
LANES = ((0, 6), (7, 3), (11, 2), (14, 2))  # left edge and width of each lane
_COLUMN = np.arange(SIDE)
COLUMN_LANE = np.searchsorted([left for left, _ in LANES], _COLUMN, side="right") - 1
COLUMN_TAKEN = np.array([c < LANES[lane][0] + LANES[lane][1] for c, lane in enumerate(COLUMN_LANE)])


class Blocks(Grid):
    name = "blocks"
    summary = "four blocks, each sliding in its own lane: 4 factors, 4,096 pictures of 16 x 16"
    reference = "Sober"
    factors = tuple(
        Factor(f"block_{lane}", PLACES, "ordinal", tuple(np.linspace(0, 1, PLACES).tolist()))
        for lane in range(1, len(LANES) + 1)
    )
    image_shape = (SIDE, SIDE, 1)

    def make_data(self) -> tuple[()]:
        return ()

    def pixels(self, data: tuple[()], index: Int[Array, " n"], key: Key[Array, ""]) -> Float[Array, "n 16 16 1"]:
        classes = jnp.stack(jnp.unravel_index(index, self._sizes), axis=-1)  # (n, 4)
        top = (SIDE - HEIGHT) * classes / (PLACES - 1)  # in pixels, fractions included
        top = top[:, None, COLUMN_LANE]  # (n, 1, column)
        row = jnp.arange(SIDE)[:, None]
        # The share of each pixel that its block covers: edges between pixels come out grey.
        cover = jnp.clip(jnp.minimum(row + 1, top + HEIGHT) - jnp.maximum(row, top), 0, 1)
        return jnp.where(COLUMN_TAKEN, cover, 0)[..., None]
