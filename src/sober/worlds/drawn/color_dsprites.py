"""Color-dSprites: the object in a random colour, each channel uniform between 0.5 and 1, on black."""

from __future__ import annotations

from typing import Any

import jax
from jaxtyping import Array, Float, Int, Key

from sober.worlds.drawn.sprites import PaintedSprites


class ColorDSprites(PaintedSprites):
    """`color_dsprites`, or `color_dsprites:file=PATH` for the objects of the published npz."""

    name = "color_dsprites"
    summary = "a coloured shape on black: 5 factors, 737,280 pictures of 64 x 64"
    reference = "Locatello et al. (2020): A sober look at the unsupervised learning of disentangled representations"

    def pixels(self, data: Any, index: Int[Array, " n"], key: Key[Array, ""]) -> Float[Array, "n H W 3"]:
        colour = jax.vmap(lambda key: jax.random.uniform(key, (3,), minval=0.5))(self.keys(key, index))
        return self.sprites.pixels(data, index, key) * colour[:, None, None]
