"""letters: a capital letter in one of three typefaces, in any weight, slant, size and place, in coloured ink on paper.

The distances to the outline of each letter, typeface and weight are computed once. A picture looks them up at its
pixels, moved, scaled and slanted; how far a pixel is from the outline says how much of it is ink.
"""

from __future__ import annotations

import colorsys

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32, Int, Key

from sober.types import Factor
from sober.worlds.cache import cached_array
from sober.worlds.drawn.sized import Sized
from sober.worlds.drawn.typefaces import LETTERS, REACH, TYPEFACES, WEIGHTS, distance_fields
from sober.worlds.world import Grid

SIDE = 64
SLANTS = np.array([0.0, 9.0, 18.0])  # degrees
SIZES = np.linspace(0.3, 0.48, 4)  # heights of letters, in heights of the picture
PLACES = np.linspace(0.35, 0.65, 4)  # of the letter's middle
HUES = np.arange(6) / 6
PAPERS = {"white": (1.0, 1.0, 1.0), "sand": (0.96, 0.89, 0.76), "sky": (0.78, 0.89, 0.97), "black": (0.07, 0.07, 0.08)}
INK_LUMINANCE = 0.17  # of every ink: readable on light paper and on black
RENDERER = "1"  # part of the cache's name: a change that alters any outline raises it


class Letters(Sized, Grid):
    """`letters`, or `letters:size=SIDE` with any other side."""

    name = "letters"
    summary = "capital letters in three typefaces: 9 factors, 1,437,696 pictures of 64 x 64"
    reference = "made for Sober"
    factors = (
        Factor("letter", len(LETTERS), "categorical", tuple(LETTERS)),
        Factor("typeface", len(TYPEFACES), "categorical", TYPEFACES),
        Factor("weight", len(WEIGHTS), "ordinal", WEIGHTS),
        Factor("slant", len(SLANTS), "ordinal", tuple(SLANTS.tolist())),
        Factor("size", len(SIZES), "ordinal", tuple(SIZES.tolist())),
        Factor("x", len(PLACES), "ordinal", tuple(PLACES.tolist())),
        Factor("y", len(PLACES), "ordinal", tuple(PLACES.tolist())),
        Factor("ink_hue", len(HUES), "cyclic", tuple(HUES.tolist())),
        Factor("paper", len(PAPERS), "categorical", tuple(PAPERS)),
    )
    image_shape = (SIDE, SIDE, 3)

    def make_data(self) -> Float32[np.ndarray, "letter typeface weight H W"]:
        return cached_array("drawn", f"{self.name}-{RENDERER}", distance_fields, f"drawing {self.name}")

    def pixels(
        self, data: Float32[Array, "letter typeface weight H W"], index: Int[Array, " n"], key: Key[Array, ""]
    ) -> Float[Array, "n H W 3"]:
        letter, typeface, weight, slant, size, x, y, ink, paper = jnp.unravel_index(index, self._sizes)
        fields = data[letter, typeface, weight]
        slope = jnp.tan(jnp.radians(jnp.asarray(SLANTS, jnp.float32)))[slant]
        height, places = jnp.asarray(SIZES, jnp.float32)[size], jnp.asarray(PLACES, jnp.float32)
        share = jax.vmap(self.ink)(fields, slope, height, places[x], places[y])[..., None]
        inks, papers = jnp.asarray(ink_colours()), jnp.asarray(list(PAPERS.values()), jnp.float32)
        return papers[paper][:, None, None] * (1 - share) + inks[ink][:, None, None] * share

    def ink(
        self,
        field: Float[Array, "R R"],
        slope: Float[Array, ""],
        height: Float[Array, ""],
        x: Float[Array, ""],
        y: Float[Array, ""],
    ) -> Float[Array, "H W"]:
        """The share of ink in every pixel."""
        middle = (jnp.arange(self.side, dtype=jnp.float32) + 0.5) / self.side
        up = ((y - middle) / height)[:, None]  # from the letter's middle, in heights of letters
        right = (middle - x) / height - slope * up
        texels = field.shape[0]
        row, column = ((place / REACH + 1) * (texels / 2) - 0.5 for place in (jnp.broadcast_to(up, right.shape), right))
        outside = jnp.maximum(jnp.maximum(jnp.abs(up), jnp.abs(right)) - REACH, 0)
        row, column = (jnp.clip(place, 0, texels - 1.001) for place in (row, column))
        low, left = jnp.floor(row).astype(jnp.int32), jnp.floor(column).astype(jnp.int32)
        above, aside = row - low, column - left
        flat, corner = field.reshape(-1), low * texels + left
        lower = flat[corner] * (1 - aside) + flat[corner + 1] * aside
        upper = flat[corner + texels] * (1 - aside) + flat[corner + texels + 1] * aside
        distance = lower * (1 - above) + upper * above + outside
        return jnp.clip(0.5 - distance * height * self.side, 0, 1)


def ink_colours() -> Float32[np.ndarray, "hue 3"]:
    """Inks of every hue with the same luminance."""
    colours = []
    for hue in HUES:
        light = np.array(colorsys.hsv_to_rgb(hue, 0.9, 1)) ** 2.2
        luminance = float(light @ (0.2126, 0.7152, 0.0722))
        if luminance > INK_LUMINANCE:
            light = light * INK_LUMINANCE / luminance
        else:
            light = light + (1 - light) * (INK_LUMINANCE - luminance) / (1 - luminance)
        colours.append(light ** (1 / 2.2))
    return np.array(colours, np.float32)
