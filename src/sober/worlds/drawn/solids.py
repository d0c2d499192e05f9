"""Solids given by signed distances: where rays meet them, and how much of a wide lamp a point sees past them.

A signed distance says how far a point is from a surface, below 0 inside. A ray walks by that distance until it is 0.
The clearance of a ray towards a lamp, compared with the lamp's apparent size, gives a soft shadow without any sampling.
Each solid lies in a ball, and rays that miss the ball cost nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float32

Vectors = Float32[np.ndarray, "3 n"]
Numbers = Float32[np.ndarray, " n"]
Colour = tuple[float, float, float]
Paint = Callable[[Vectors], Vectors]  # colours at points

STEPS = 48  # of a ray that walks towards a surface
CLOSE = 1e-3  # a ray this close to a surface has met it
SHADOW_STEPS = 32  # at which the clearance of a ray towards a lamp is looked at


class Part(NamedTuple):
    """A surface of one material. Without a colour it is tinted: a factor of the world gives its colour."""

    distance: Callable[[Vectors], Numbers]
    colour: Colour | Paint | None
    gloss: float = 0.0


class Solid(NamedTuple):
    """Parts in coordinates of their own, inside a ball; the solid stands at `place`, turned about its upright axis."""

    parts: tuple[Part, ...]
    middle: Colour  # of the ball, in the solid's own coordinates
    radius: float
    place: tuple[float, float] = (0.0, 0.0)
    turn: float = 0.0  # in radians
    outline: Callable[[Vectors], Numbers] | None = None  # a simpler distance, for its shadow; by default its own

    @property
    def centre(self) -> Float32[np.ndarray, "3 1"]:
        """The middle of the ball in the world."""
        x, y, z = self.middle
        c, s = np.cos(self.turn), np.sin(self.turn)
        return column(self.place[0] + c * x - s * y, self.place[1] + s * x + c * y, z)

    def local(self, point: Vectors) -> Vectors:
        """Points of the world in the solid's own coordinates."""
        x, y = point[0] - np.float32(self.place[0]), point[1] - np.float32(self.place[1])
        c, s = np.float32(np.cos(self.turn)), np.float32(np.sin(self.turn))
        return np.stack([c * x + s * y, c * y - s * x, point[2]])

    def distance(self, point: Vectors) -> Numbers:
        """The signed distance of points of the world."""
        inside = self.local(point)
        return functools.reduce(np.minimum, (piece.distance(inside) for piece in self.parts))

    def shadow_distance(self, point: Vectors) -> Numbers:
        """The signed distance of points of the world from what throws the solid's shadow."""
        return self.outline(self.local(point)) if self.outline else self.distance(point)


class Material(NamedTuple):
    """What points on a solid are made of; `colour` is 0 where a factor gives the colour."""

    colour: Vectors
    tinted: Bool[np.ndarray, " n"]
    gloss: Numbers


def material(solid: Solid, point: Vectors) -> Material:
    """The material of the part that is nearest to each point."""
    inside = solid.local(point)
    nearest = np.stack([piece.distance(inside) for piece in solid.parts]).argmin(axis=0)
    colour = np.zeros_like(inside)
    for k, piece in enumerate(solid.parts):
        of_part = nearest == k
        if piece.colour is not None and of_part.any():
            colour[:, of_part] = piece.colour(inside[:, of_part]) if callable(piece.colour) else column(*piece.colour)
    tinted = np.array([piece.colour is None for piece in solid.parts])[nearest]
    return Material(colour, tinted, np.array([piece.gloss for piece in solid.parts], np.float32)[nearest])


def cast(solid: Solid, origin: Vectors, ray: Vectors) -> Numbers:
    """The length at which rays of length 1 enter a solid from outside; infinite if they miss it."""
    from_centre = origin - solid.centre
    along = -dot(from_centre, ray)
    inside = np.float32(solid.radius**2) - (dot(from_centre, from_centre) - along**2)
    length = np.full(ray.shape[1], np.inf, np.float32)
    walking = np.flatnonzero((inside > 0) & (along + solid.radius > 0))
    half = np.sqrt(inside[walking])
    reached, limit = np.maximum(along[walking] - half, 0), along[walking] + half
    origin = np.broadcast_to(origin, ray.shape)[:, walking]
    ray = ray[:, walking]
    for _ in range(STEPS):
        step = solid.distance(origin + reached * ray)
        arrived = step < CLOSE
        length[walking[arrived]] = reached[arrived]
        reached = reached + step
        still = ~arrived & (reached < limit)
        if not still.any():
            break
        walking, reached, limit = walking[still], reached[still], limit[still]
        origin, ray = origin[:, still], ray[:, still]
    return length


def normals(solid: Solid, point: Vectors) -> Vectors:
    """The outward directions of a surface, of length 1, from distances at the corners of a small tetrahedron."""
    total = np.zeros_like(point)
    for corner in ((1, -1, -1), (-1, -1, 1), (-1, 1, -1), (1, 1, 1)):
        total += column(*corner) * solid.distance(point + column(*corner) * np.float32(2e-3))
    return total / np.maximum(np.sqrt(dot(total, total)), np.float32(1e-9))


def visible(solid: Solid, point: Vectors, lamp: Float32[np.ndarray, "3 1"], lamp_radius: float) -> Numbers:
    """The share of a round lamp that points see past a solid, by the clearance of the ray to the lamp's middle."""
    share = np.ones(point.shape[1], np.float32)
    towards = lamp - point
    far = np.sqrt(dot(towards, towards))
    to_centre = solid.centre - point
    along = dot(to_centre, towards) / far
    apart = np.sqrt(np.maximum(dot(to_centre, to_centre) - along**2, 0))
    spread = np.float32(lamp_radius) / far  # the half-shadow's half-width for each length of the way
    near_by = (along + solid.radius > 0) & (apart < solid.radius + spread * (np.abs(along) + solid.radius))
    close_by = np.flatnonzero(near_by)
    if not close_by.size:
        return share
    far, along, spread = far[close_by], along[close_by], spread[close_by]
    ray = towards[:, close_by] / far
    radius = np.float32(solid.radius) * (1 + spread)
    first = np.maximum(along - radius, np.float32(0.02))
    step = np.maximum(np.minimum(along + radius, far * np.float32(0.98)) - first, 0) / np.float32(SHADOW_STEPS)
    reached, start = first + step / 2, point[:, close_by]
    clear = np.ones(len(close_by), np.float32)
    for _ in range(SHADOW_STEPS):
        clear = np.minimum(clear, solid.shadow_distance(start + reached * ray) / (reached * spread))
        reached = reached + step
    clear_share = np.clip(0.5 + 0.5 * clear, 0, 1)
    share[close_by] = clear_share * clear_share * (3 - 2 * clear_share)
    return share


def openness(solid: Solid, point: Vectors, normal: Vectors) -> Numbers:
    """The share of the light from all around that a solid lets through to points on any surface."""
    share = np.ones(point.shape[1], np.float32)
    reach = (0.05, 0.16, 0.4)
    to_centre = point - solid.centre
    close_by = np.flatnonzero(dot(to_centre, to_centre) < (solid.radius + reach[-1]) ** 2)
    if close_by.size:
        point, normal = point[:, close_by], normal[:, close_by]
        for height, weight in zip(reach, (0.22, 0.26, 0.3), strict=True):
            clearance = np.clip(solid.shadow_distance(point + np.float32(height) * normal) / height, 0, 1)
            share[close_by] -= np.float32(weight) * (1 - clearance)
    return share


# Signed distances of simple shapes. Points are (3, n), z upwards.


def ball(point: Vectors, centre: Colour, radius: float) -> Numbers:
    return norm(point - column(*centre)) - np.float32(radius)


def ellipsoid(point: Vectors, centre: Colour, radii: Colour) -> Numbers:
    """Right at the surface, near enough elsewhere."""
    from_centre = point - column(*centre)
    scaled = norm(from_centre / column(*radii))
    slope = norm(from_centre / column(*(r * r for r in radii)))
    return scaled * (scaled - 1) / np.maximum(slope, np.float32(1e-6))


def capsule(point: Vectors, start: Colour, end: Colour, radius: float, end_radius: float | None = None) -> Numbers:
    """A rod with round ends, which may be thicker at one of them."""
    way = column(*end) - column(*start)
    from_start = point - column(*start)
    share = np.clip(dot(from_start, way) / dot(way, way), 0, 1)
    thick = np.float32(radius) + np.float32((radius if end_radius is None else end_radius) - radius) * share
    return norm(from_start - share * way) - thick


def box(point: Vectors, centre: Colour, half: Colour, rounding: float = 0.0) -> Numbers:
    outside = np.abs(point - column(*centre)) - column(*(side - rounding for side in half))
    return norm(np.maximum(outside, 0)) + np.minimum(outside.max(axis=0), 0) - np.float32(rounding)


def drum(point: Vectors, bottom: float, top: float, radius: float, rounding: float = 0.0) -> Numbers:
    """An upright cylinder around the z axis."""
    across = across_axis(point) - np.float32(radius - rounding)
    along = np.abs(point[2] - np.float32((bottom + top) / 2)) - np.float32((top - bottom) / 2 - rounding)
    outside = np.sqrt(np.maximum(across, 0) ** 2 + np.maximum(along, 0) ** 2)
    return outside + np.minimum(np.maximum(across, along), 0) - np.float32(rounding)


def ring(point: Vectors, radius: float, thickness: float) -> Numbers:
    """A torus around the z axis; with a radius smaller than its thickness, an apple."""
    return np.sqrt((across_axis(point) - np.float32(radius)) ** 2 + point[2] ** 2) - np.float32(thickness)


def blend(one: Numbers, other: Numbers, width: float) -> Numbers:
    """The union of two shapes, rounded where they meet."""
    share = np.clip(0.5 + 0.5 * (other - one) / np.float32(width), 0, 1)
    return other + (one - other) * share - np.float32(width) * share * (1 - share)


def across_axis(point: Vectors) -> Numbers:
    """Distances from the z axis."""
    return np.sqrt(point[0] ** 2 + point[1] ** 2)


def column(*entries: Any) -> Float32[np.ndarray, "k 1"]:
    return np.array(entries, np.float32)[:, None]


def norm(vectors: Any) -> Numbers:
    return np.sqrt(dot(vectors, vectors))


def dot(one: Any, other: Any) -> Any:
    return one[0] * other[0] + one[1] * other[1] + one[2] * other[2]
