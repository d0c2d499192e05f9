"""heads: a head that turns and nods, with two factors: a stand-in for the faces of Chen et al. (2018), section 6.2.1.

The paper's toy has the azimuth (21 values) and elevation (11 values) of a 3D face model's heads (Paysan et al. 2009)
under fixed light; 50 identities are noise, not a factor. Here a head is an ellipsoid with bumps and hollows, and 50
draws of their sizes are 50 people. Everyone is shown in every pose; the identity is hidden, not a factor.

Pictures of up to 64 x 64 are all drawn once and cached. Larger ones are drawn when they are asked for.
"""

from __future__ import annotations

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, UInt8

from sober.types import Factor
from sober.worlds.cache import cached_array
from sober.worlds.drawn.mesh import SIDE, Mesh, Surface, draw, fitted, joined, sheet
from sober.worlds.drawn.on_demand import drawn_on_demand
from sober.worlds.drawn.sized import Sized
from sober.worlds.world import Grid

PEOPLE = 50
AZIMUTHS = np.linspace(-np.pi / 2, np.pi / 2, 21)
ELEVATIONS = np.linspace(-np.pi / 5, np.pi / 5, 11)
POSES = len(AZIMUTHS) * len(ELEVATIONS)
RENDERER = "1"  # part of the cache's name: a change that alters any picture raises it

# Place on the head (x to the side, y up, z forward), height or depth, width, height. Bumps at a side come in pairs.
BUMPS = {
    "nose": ((0, -0.15, 1.0), 0.17, 0.11, 0.1),
    "bridge": ((0, 0.06, 1.0), 0.1, 0.08, 0.2),
    "brow": ((0.3, 0.27, 0.92), 0.07, 0.2, 0.07),
    "socket": ((0.32, 0.1, 0.94), -0.13, 0.14, 0.09),
    "eye": ((0.32, 0.09, 0.94), 0.07, 0.08, 0.05),
    "cheek": ((0.52, -0.15, 0.84), 0.06, 0.18, 0.16),
    "lips": ((0, -0.46, 0.88), 0.12, 0.16, 0.08),
    "mouth": ((0, -0.46, 0.88), -0.1, 0.19, 0.03),
    "chin": ((0, -0.8, 0.6), 0.14, 0.18, 0.14),
    "jaw": ((0.6, -0.62, 0.4), 0.09, 0.25, 0.2),
    "ear": ((0.98, 0, -0.14), 0.15, 0.09, 0.17),
    "crown": ((0, 0.45, -0.9), 0.12, 0.5, 0.5),
}


class Heads(Sized, Grid):
    """`heads`, or `heads:size=SIDE` with any other side."""

    name = "heads"
    summary = "a head that turns and nods, of 50 people: 2 factors, 11,550 pictures of 64 x 64"
    reference = "Chen, Li, Grosse & Duvenaud (2018): Isolating sources of disentanglement in variational autoencoders"
    version = 2  # version 1 had 231 pictures and drew the identity at random
    factors = (
        Factor("azimuth", len(AZIMUTHS), "ordinal", tuple(AZIMUTHS.tolist())),
        Factor("elevation", len(ELEVATIONS), "ordinal", tuple(ELEVATIONS.tolist())),
    )
    image_shape = (SIDE, SIDE, 1)
    people = PEOPLE

    @classmethod
    def quick(cls) -> Heads:
        few = cls()
        few.people = 4
        return few

    @property
    def axes(self) -> tuple[Factor, ...]:
        return (Factor("identity", self.people, "categorical"), *self.factors)

    def make_data(self) -> UInt8[np.ndarray, "people 231 H W"] | tuple[()]:
        if self.side > SIDE:
            return ()
        side = "" if self.own_size else f"-{self.side}"
        name = f"{self.name}-{RENDERER}-{self.people}{side}"
        return cached_array("drawn", name, lambda: all_heads(self.people, self.side), f"drawing {self.name}")

    def pixels(self, data: Any, index: Int[Array, " n"], key: Key[Array, ""]) -> Float[Array, "n H W 1"]:
        person, pose = jnp.divmod(index, POSES)
        if self.side > SIDE:
            shade = drawn_on_demand(functools.partial(draw_heads, side=self.side), self.side, person, pose)
        else:
            shade = data[person, pose]
        return shade[..., None].astype(jnp.float32) / 255


def all_heads(people: int, side: int = SIDE) -> UInt8[np.ndarray, "people 231 H W"]:
    return np.stack([draw(head(person), *_angles(np.arange(POSES)), side=side) for person in range(people)])


def draw_heads(person: Int[np.ndarray, " n"], pose: Int[np.ndarray, " n"], side: int) -> UInt8[np.ndarray, "n H W"]:
    """Any people in any poses; each person's head is made once."""
    shades = np.empty((len(person), side, side), np.uint8)
    for one in np.unique(person):
        rows = np.flatnonzero(person == one)
        shades[rows] = draw(_detailed_head(int(one)), *_angles(pose[rows]), side=side)
    return shades


@functools.lru_cache(maxsize=PEOPLE)
def _detailed_head(person: int) -> Mesh:
    return head(person, detail=2)


def _angles(pose: Int[np.ndarray, " n"]) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Azimuth and elevation of poses by number, elevation fastest."""
    azimuth, elevation = np.divmod(pose, len(ELEVATIONS))
    return AZIMUTHS[azimuth], ELEVATIONS[elevation]


def head(person: int, detail: int = 1) -> Mesh:
    """The head of a person; 0 is the plain head that the others vary. A large picture needs more `detail`."""
    vary = np.random.default_rng(person).standard_normal(len(BUMPS) + 3) if person else np.zeros(len(BUMPS) + 3)
    size = np.array([0.74, 1.0, 0.86]) * (1 + 0.06 * vary[-3:])
    towards = _directions(rows=42 * detail, columns=56 * detail)
    out = np.zeros(towards.shape[:2])
    for (place, amount, wide, high), change in zip(BUMPS.values(), vary, strict=False):
        for side in (-1, 1) if place[0] else (1,):
            centre = np.array(place) * [side, 1, 1]
            away = (towards - centre / np.linalg.norm(centre)) / [wide, high, wide]
            out += amount * (1 + 0.25 * change) * np.exp(-(away**2).sum(axis=-1) / 2)
    skull = towards * size + towards * out[..., None]
    return fitted(joined(sheet(skull), _neck(24 * detail)), closed=True)


def _directions(rows: int, columns: int) -> Float[np.ndarray, "rows columns 3"]:
    """Directions all around, from below to above; twice as dense in front, where the face is."""
    height = np.linspace(-np.pi / 2, np.pi / 2, rows)[:, None]
    turn = np.linspace(-np.pi, np.pi, columns)
    turn = turn - 0.5 * np.sin(turn)
    return np.stack([np.cos(height) * np.sin(turn), np.sin(height) + 0 * turn, np.cos(height) * np.cos(turn)], axis=-1)


def _neck(around: int) -> Surface:
    """The neck, from the shoulders up into the head."""
    height = np.array([-1.3, -1.3, -1.15, -0.9, -0.5, -0.5])[:, None]
    radius = np.array([0, 0.5, 0.42, 0.4, 0.4, 0])[:, None]
    turn = np.linspace(-np.pi, np.pi, around + 1)
    return sheet(np.stack([radius * np.sin(turn), height + 0 * turn, radius * np.cos(turn) - 0.1], axis=-1))
