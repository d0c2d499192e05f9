"""dSprites for abstract reasoning: coloured objects on grey, upright, at 5 x 5 places (van Steenkiste et al. 2019).

The outlines are those of dSprites. Places are whole pixels apart, so each shape and size is drawn once and then moved.
"""

from __future__ import annotations

import itertools

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from sober.types import Factor
from sober.worlds.drawn.dsprites import SCALES, SHAPES, outline
from sober.worlds.world import Grid

SIDE = 64
GREYS = np.linspace(0, 1, 5)
PLACES = 16 + 8 * np.arange(5)  # centres of objects, in pixels, across and down
# Six hues equally far apart in HUSL, the first at 36 degrees, of equal lightness and saturation (69 % each).
COLOURS = np.array([(232, 150, 93), (162, 177, 92), (96, 186, 152), (101, 180, 201), (178, 159, 229), (232, 141, 191)])
NAMES = ("orange", "olive", "green", "blue", "violet", "pink")


class AbstractDSprites(Grid):
    name = "abstract_dsprites"
    summary = "a coloured shape on grey: 6 factors, 13,500 pictures of 64 x 64"
    reference = "van Steenkiste et al. (2019): Are disentangled representations helpful for abstract visual reasoning?"
    factors = (
        Factor("background", len(GREYS), "ordinal", tuple(GREYS.tolist())),
        Factor("colour", len(COLOURS), "categorical", NAMES),
        Factor("shape", len(SHAPES), "categorical", SHAPES),
        Factor("scale", len(SCALES), "ordinal", tuple(SCALES.tolist())),
        Factor("x", len(PLACES), "ordinal", tuple(np.linspace(0, 1, len(PLACES)).tolist())),
        Factor("y", len(PLACES), "ordinal", tuple(np.linspace(0, 1, len(PLACES)).tolist())),
    )
    image_shape = (SIDE, SIDE, 3)

    def make_data(self) -> Bool[np.ndarray, "450 64 64"]:
        drawn = [inside(scale * outline(shape)) for shape, scale in itertools.product(range(len(SHAPES)), SCALES)]
        moves = list(itertools.product(PLACES - SIDE // 2, repeat=2))  # no object reaches the edge
        return np.stack([np.roll(each, (y, x), axis=(0, 1)) for each in drawn for x, y in moves])

    def pixels(
        self, data: Bool[Array, "450 64 64"], index: Int[Array, " n"], key: Key[Array, ""]
    ) -> Float[Array, "n 64 64 3"]:
        background, colour, form = jnp.unravel_index(index, (len(GREYS), len(COLOURS), len(data)))
        grey = jnp.asarray(GREYS, jnp.float32)[background, None]
        paint = jnp.asarray(COLOURS, jnp.float32)[colour] / 255  # (n, channel)
        return jnp.where(data[form][..., None], paint[:, None, None], grey[:, None, None])


def inside(corners: Float[np.ndarray, "V 2"]) -> Bool[np.ndarray, "64 64"]:
    """The pixels inside a polygon around the middle of the picture: an odd number of edges passes left of them."""
    centre = np.arange(SIDE) + 0.5 - SIDE // 2
    (x0, y0), (x1, y1) = corners.T, np.roll(corners, -1, axis=0).T
    row, edge = np.nonzero((y0 > centre[:, None]) != (y1 > centre[:, None]))
    at = x0[edge] + (centre[row] - y0[edge]) / (y1 - y0)[edge] * (x1 - x0)[edge]
    crossings = np.zeros((SIDE, SIDE), int)
    np.add.at(crossings, row, at[:, None] < centre)
    return crossings % 2 == 1
