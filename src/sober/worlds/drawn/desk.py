"""desk: a mug, a book, a lamp and a changing thing on a wooden desk, from daylight to lamplight.

Hues, wood and daylight only multiply light, so a picture is put together when it is asked for from layers that are cast
once: the desk with its fixed things, for each camera; the book, for each of its turns; the thing, for each kind
and place. A layer holds light from the window and light from the lamp. Book and thing also say how much of either
light they leave to what is behind them. The thing is always behind the book, and what stands still is compared with
both ray by ray, so layers lie over each other in a fixed order.
"""

from __future__ import annotations

import colorsys
import functools
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32, Int, Key, UInt8

from sober.types import Factor
from sober.worlds.cache import cached_array
from sober.worlds.drawn.desk_things import THINGS
from sober.worlds.drawn.desk_views import (
    ANGLES,
    BRIGHTEST,
    PAPER,
    PLACES,
    RENDERER,
    TURNS,
    Layers,
    layers_of,
    render_planes,
)
from sober.worlds.drawn.sized import Sized
from sober.worlds.drawn.wood import WOODS
from sober.worlds.world import Grid

SIDE = 64
HUES = np.arange(8) / 8
DAYLIGHT = np.linspace(0, 1, 5)
DAY, EVENING, LAMPLIGHT = (1.0, 0.985, 0.95), (0.085, 0.115, 0.19), (1.0, 0.76, 0.48)
GLAZES = np.array([colorsys.hsv_to_rgb(hue, 0.8, 0.92) for hue in HUES], np.float32) ** 2
COVERS = np.array([colorsys.hsv_to_rgb(hue, 0.72, 0.8) for hue in HUES], np.float32) ** 2


class Desk(Sized, Grid):
    """`desk`, or `desk:size=SIDE` with any other side."""

    name = "desk"
    summary = "a mug, a book, a lamp and a thing on a desk: 8 factors, 1,120,000 pictures of 64 x 64"
    reference = "made for Sober"
    factors = (
        Factor("mug_hue", len(HUES), "cyclic", tuple(HUES.tolist())),
        Factor("book_hue", len(HUES), "cyclic", tuple(HUES.tolist())),
        Factor("wood", len(WOODS), "categorical", WOODS),
        Factor("daylight", len(DAYLIGHT), "ordinal", tuple(DAYLIGHT.tolist())),
        Factor("thing", len(THINGS), "categorical", THINGS),
        Factor("place", len(PLACES), "ordinal", tuple(PLACES.tolist())),
        Factor("book_turn", len(TURNS), "ordinal", tuple(TURNS.tolist())),
        Factor("camera", len(ANGLES), "ordinal", tuple(ANGLES.tolist())),
    )
    image_shape = (SIDE, SIDE, 3)

    def make_data(self) -> Layers:
        make = functools.partial(render_planes, self.side)
        return layers_of(cached_array("drawn", f"{self.name}-{RENDERER}-{self.side}", make, f"drawing {self.name}"))

    def pixels(self, data: Layers, index: Int[Array, " n"], key: Key[Array, ""]) -> Float[Array, "n H W 3"]:
        mug, book, grain, daylight, thing, place, turn, camera = jnp.unravel_index(index, self._sizes)
        still, wood = _light(data.still_light[camera]), _squared(data.wood[camera, grain])
        books, things = _light(data.book_light[camera, turn]), _light(data.thing_light[camera, thing, place])
        left = _squared(data.book_left[camera, turn]) * _squared(data.thing_left[camera, thing, place])
        behind_book = 1 - _share(data.book_share[camera, turn, 0])
        behind_both = behind_book * (1 - _share(data.thing_share[camera, thing, place, 0]))
        glaze, cover = (jnp.asarray(hues)[hue][..., None, None] for hues, hue in ((GLAZES, mug), (COVERS, book)))
        lamps = jnp.asarray(lamp_colours())[daylight][..., None, None]  # (n, lamp, channel, 1, 1)

        def channel(c: int, lamp: int) -> Float[Array, "n H W"]:
            """The light of one lamp in one colour."""
            far = still[:, lamp, 0] * wood[:, c] + still[:, lamp, 1] * glaze[:, c] + still[:, lamp, 2 + c]
            near = books[:, lamp, 0] * cover[:, c] + books[:, lamp, 1] * PAPER[c]
            light = far * left[:, lamp] * behind_both + things[:, lamp, c] * behind_book + near
            return lamps[:, lamp, c] * light

        # Lamps and channels are written out, because a compiled program runs through them at once.
        channels = [jnp.sqrt(channel(c, 0) + channel(c, 1)) for c in range(3)]
        return jnp.minimum(jnp.stack(channels, axis=-1), 1)


def lamp_colours() -> Float32[np.ndarray, "daylight 2 3"]:
    """The light of window and lamp in red, green and blue, for each value of daylight."""
    day = DAYLIGHT[:, None].astype(np.float32)
    window = np.array(EVENING, np.float32) * (1 - day) + np.array(DAY, np.float32) * day
    return np.stack([window, np.array(LAMPLIGHT, np.float32) * (1 - day)], axis=1)


def _share(byte: UInt8[Array, "..."]) -> Any:
    return byte.astype(jnp.float32) / 255


def _squared(byte: UInt8[Array, "..."]) -> Any:
    return _share(byte) ** 2


def _light(byte: UInt8[Array, "..."]) -> Any:
    return _squared(byte) * np.float32(BRIGHTEST)
