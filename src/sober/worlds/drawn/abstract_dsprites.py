"""dSprites for abstract reasoning: a coloured object on grey, turned at random (van Steenkiste et al. 2019).

It has the objects of dSprites. Their orientation is not a factor: each picture draws its own, as in the public code
of the paper.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from sober.types import Factor
from sober.worlds.drawn.dsprites import DSprites
from sober.worlds.drawn.sprites import PaintedSprites

GREYS = np.linspace(0, 1, 5)
# Six hues equally far apart in HUSL, the first at 36 degrees, of equal lightness and saturation (69 % each).
COLOURS = np.array([(232, 150, 93), (162, 177, 92), (96, 186, 152), (101, 180, 201), (178, 159, 229), (232, 141, 191)])
NAMES = ("orange", "olive", "green", "blue", "violet", "pink")
SHAPE, SCALE, ORIENTATION, X, Y = DSprites.factors


class AbstractDSprites(PaintedSprites):
    """`abstract_dsprites`, or `abstract_dsprites:file=PATH` for the objects of the published npz."""

    name = "abstract_dsprites"
    summary = "a coloured shape on grey: 6 factors, 552,960 pictures of 64 x 64"
    reference = "van Steenkiste et al. (2019): Are disentangled representations helpful for abstract visual reasoning?"
    version = 2  # version 1 was upright, at 5 x 5 places
    factors = (
        Factor("background", len(GREYS), "ordinal", tuple(GREYS.tolist())),
        Factor("colour", len(COLOURS), "categorical", NAMES),
        SHAPE,
        SCALE,
        X,
        Y,
    )

    def pixels(self, data: Any, index: Int[Array, " n"], key: Key[Array, ""]) -> Float[Array, "n H W 3"]:
        places = X.size * Y.size
        background, colour, form, place = jnp.unravel_index(
            index, (len(GREYS), len(COLOURS), SHAPE.size * SCALE.size, places)
        )
        turn = jax.vmap(lambda key: jax.random.randint(key, (), 0, ORIENTATION.size))(self.keys(key, index))
        object_mask = (
            self.sprites.pixels(data, (form * ORIENTATION.size + turn) * places + place, key) > 0
        )  # (n, H, W, 1)
        grey = jnp.asarray(GREYS, jnp.float32)[background, None]
        paint = jnp.asarray(COLOURS, jnp.float32)[colour] / 255  # (n, channel)
        return jnp.where(object_mask, paint[:, None, None], grey[:, None, None])
