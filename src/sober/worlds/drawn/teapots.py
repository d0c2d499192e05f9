"""teapots: one teapot seen from any side, at any height, in any colour (Eastwood & Williams 2018, section 4.1).

Five independent uniform factors: azimuth in [0, 2π], elevation in [0, π/2], and red, green and blue in [0, 1]. The
camera looks at the middle of the object, the background is black, and the light does not move. The teapot is made by
formula; any other object comes from a Wavefront .obj file.

The shape depends on two angles alone, so views at 160 x 41 pairs of angles are drawn once. A picture is the mean of the
four nearest views, weighted by nearness, so it changes continuously with the angles. Between neighbouring views, no
point of the object moves by much more than a pixel. Pictures larger than 64 x 64 are drawn when they are asked for, at
exactly their angles.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, UInt8

from sober.types import Factor
from sober.worlds.cache import cached_array
from sober.worlds.drawn.mesh import FULL, SIDE, Mesh, Surface, draw, fitted, joined, read_obj, sheet
from sober.worlds.drawn.on_demand import drawn_on_demand
from sober.worlds.drawn.sized import Sized
from sober.worlds.world import Continuum

AZIMUTHS, ELEVATIONS = 160, 41  # views drawn; the steps of both are π/80
RENDERER = "1"  # part of the cache's name: a change that alters any view raises it


class Teapots(Sized, Continuum):
    """`teapots`, `teapots:size=SIDE`, or `teapots:mesh=PATH` for the object of a Wavefront .obj file."""

    name = "teapots"
    summary = "a teapot from any side: 5 continuous factors, 64 x 64 x 3"
    reference = (
        "Eastwood & Williams (2018): A framework for the quantitative evaluation of disentangled representations"
    )
    factors = tuple(Factor(name, 0, "continuous") for name in ("azimuth", "elevation", "red", "green", "blue"))
    low = (0.0, 0.0, 0.0, 0.0, 0.0)
    high = (2 * np.pi, np.pi / 2, 1.0, 1.0, 1.0)
    image_shape = (SIDE, SIDE, 3)
    # Red teapots from above: z2 > z3 + 0.15, z2 > z4 + 0.15 and z1 > π/4 (appendix B.2 of the paper).
    regions = MappingProxyType({"gap": "red > green + 0.15 and red > blue + 0.15 and elevation > pi / 4"})
    azimuths, elevations = AZIMUTHS, ELEVATIONS

    @classmethod
    def quick(cls) -> Teapots:
        coarse = cls()
        coarse.azimuths, coarse.elevations = 80, 21
        return coarse

    def __init__(self, mesh: str | None = None, size: int | str | None = None) -> None:
        super().__init__(size)
        self.file = None if mesh is None else Path(mesh).expanduser().resolve()

    @property
    def options(self) -> Mapping[str, object]:
        return {"mesh": self.file, **super().options}

    @functools.cached_property
    def label(self) -> str:
        return self.label_with(*() if self.file is None else (self.object.fingerprint,))

    @functools.cached_property
    def object(self) -> Mesh:
        """The object in the pictures, scaled to the unit ball."""
        return (
            fitted(teapot(1 if self.side <= SIDE else 2), closed=True)
            if self.file is None
            else fitted(read_obj(self.file))
        )

    def make_data(self) -> UInt8[np.ndarray, "azimuths elevations H W"] | tuple[()]:
        if self.side > SIDE:
            return ()
        name = f"{re.sub('[:,=]', '-', self.label)}-{RENDERER}-{self.azimuths}x{self.elevations}"
        make = functools.partial(all_views, self.object, self.azimuths, self.elevations, self.side)
        return cached_array("drawn", name, make, f"drawing {self.name}")

    def paint(self, data: Any, values: Float[Array, "n 5"], key: Key[Array, ""]) -> Float[Array, "n H W 3"]:
        if self.side > SIDE:
            draw_views = functools.partial(draw, self.object, side=self.side)
            shade = drawn_on_demand(draw_views, self.side, values[:, 0], values[:, 1]).astype(jnp.float32)
        else:
            shade = _blended(data, values)
        shade, colour = shade[..., None], values[:, None, None, 2:]
        colour_share, white = jnp.minimum(shade / FULL, 1), jnp.maximum(shade - FULL, 0) / (255 - FULL)
        return jnp.clip(colour_share * colour + white * (1 - colour), 0, 1)


def _blended(data: UInt8[Array, "azimuths elevations H W"], values: Float[Array, "n 5"]) -> Float[Array, "n H W"]:
    """The mean of the four views that are nearest to the angles, weighted by nearness."""
    azimuths, elevations = data.shape[:2]
    azimuth = values[:, 0] * (azimuths / (2 * jnp.pi))
    elevation = values[:, 1] * ((elevations - 1) / (jnp.pi / 2))
    left, below = jnp.floor(azimuth), jnp.clip(jnp.floor(elevation), 0, elevations - 2)
    shade = jnp.zeros(())
    for a, near_a in ((left, 1 - (azimuth - left)), (left + 1, azimuth - left)):
        for e, near_e in ((below, 1 - (elevation - below)), (below + 1, elevation - below)):
            view = data[a.astype(jnp.int32) % azimuths, e.astype(jnp.int32)]  # (n, H, W)
            shade = shade + (near_a * near_e)[:, None, None] * view
    return shade


def all_views(
    mesh: Mesh, azimuths: int, elevations: int, side: int = SIDE
) -> UInt8[np.ndarray, "azimuths elevations H W"]:
    azimuth = 2 * np.pi * np.arange(azimuths) / azimuths
    elevation = np.pi / 2 * np.arange(elevations) / (elevations - 1)
    views = draw(mesh, np.repeat(azimuth, elevations), np.tile(elevation, azimuths), side=side)
    return views.reshape(azimuths, elevations, side, side)


def teapot(detail: int = 1) -> Surface:
    """A teapot: body, lid and knob turned on a wheel, spout and handle bent tubes. The body's radius is 1, y is up.

    A large picture needs more `detail`.
    """
    body = [(0, 0), (0.66, 0), (0.72, 0.05), (1.04, 0.3), (1, 0.7), (0.8, 1.06), (0.68, 1.1), (0.66, 1.04), (0, 1.04)]
    lid = [(0, 1.04), (0.68, 1.04), (0.6, 1.14), (0.3, 1.24), (0.06, 1.2)]
    knob = [(0.05, 1.34), (0.24, 1.34), (0.2, 1.5), (0, 1.5)]
    spout = [(0.72, 0.34), (1.2, 0.34), (1.28, 0.75), (1.4, 1.06), (1.74, 1.14)]
    handle = [(-0.78, 0.95), (-1.2, 1.04), (-1.62, 1.0), (-1.5, 0.45), (-0.9, 0.25)]
    wide, narrow = [0.33, 0.28, 0.16, 0.11, 0.13], [0.09] * len(handle)
    return joined(
        _turned(_rounded(np.array(body, float)), 28 * detail),
        _turned(_rounded(np.array(lid + knob, float)), 28 * detail),
        _tube(_rounded(np.column_stack([spout, wide])), 10 * detail),
        _tube(_rounded(np.column_stack([handle, narrow])), 10 * detail),
    )


def _rounded(points: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "N d"]:
    """A smooth curve along a broken line, from its first point to its last: Chaikin's corner cutting, twice."""
    for _ in range(2):
        cut = np.stack([0.75 * points[:-1] + 0.25 * points[1:], 0.25 * points[:-1] + 0.75 * points[1:]], axis=1)
        points = np.concatenate([points[:1], cut.reshape(-1, points.shape[1])[1:-1], points[-1:]])
    return points


def _turned(profile: Float[np.ndarray, "n 2"], around: int) -> Surface:
    """The surface that a profile (radius, height), from bottom to top, sweeps about the y axis."""
    angle = 2 * np.pi * np.arange(around + 1) / around
    radius, height = profile[:, :1], profile[:, 1:]
    return sheet(np.stack([radius * np.sin(angle), height + 0 * angle, radius * np.cos(angle)], axis=-1))


def _tube(path: Float[np.ndarray, "n 3"], around: int) -> Surface:
    """A tube with closed ends along a path (x, y, radius) in the plane z = 0."""
    along = np.gradient(path[:, :2], axis=0)
    along = along / np.linalg.norm(along, axis=1, keepdims=True)
    along, path = np.pad(along, ((1, 1), (0, 0)), "edge"), np.pad(path, ((1, 1), (0, 0)), "edge")
    path[[0, -1], 2] = 0
    angle = 2 * np.pi * np.arange(around + 1) / around
    x, y, radius = path[:, :1], path[:, 1:2], path[:, 2:]
    aside = radius * np.cos(angle)
    return sheet(np.stack([x - aside * along[:, 1:], y + aside * along[:, :1], radius * np.sin(angle)], axis=-1))
