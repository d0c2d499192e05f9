"""rooms: an object in the middle of a coloured room, seen by a camera that moves around it; after 3D Shapes.

The colours of floor, walls and object only multiply: a pixel is the sum, over these three surfaces, of the light from
the surface times its colour. So only 8 scales x 4 shapes x 15 orientations = 480 views are ray-cast, once and in closed
form, and a picture costs three multiplications per pixel and channel. Large views are kept in the cache.
"""

from __future__ import annotations

import colorsys
import functools
import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32, Int, Key, UInt8
from scipy import ndimage

from sober.types import Factor
from sober.worlds.cache import cached_array
from sober.worlds.drawn.sized import Sized
from sober.worlds.world import Grid

SIDE = 64
HUES = np.arange(10) / 10
SCALES = np.linspace(0.75, 1.25, 8)
SHAPES = ("cube", "cylinder", "sphere", "capsule")
ANGLES = np.linspace(-30, 30, 15)  # degrees
COLOURS = np.array([colorsys.hsv_to_rgb(hue, 1, 1) for hue in HUES], np.float32)

# Lengths are in widths of the cube at scale 1. The floor is z = 0; the object stands on it at the origin.
RADIUS = {"cube": 0.5, "cylinder": 0.5, "sphere": 0.56, "capsule": 0.4}
TALL = {"cube": 1.0, "cylinder": 1.0, "sphere": 1.12, "capsule": 1.3}
WALL = 2.75  # from the middle of the room to each of its four walls
DISTANCE, HEIGHT = 2.6, 1.45  # of the camera: from the object's axis, and above the floor
AIM = 0.52  # the height it looks at
FIELD = np.tan(np.radians(25))  # half the picture's width, at distance 1
LAMP = (-1.6, -2.6, 5.0)  # nearer to the camera than the object, to the left and above
LAMP_RADIUS = 0.8  # a wide lamp makes soft shadows
AMBIENT = 0.5  # the share of light from all directions
EXPOSURE = 0.93  # the share of the brightest light that counts as 1: a few pixels are overexposed
FLOOR_CORNER, FLOOR_WIDTH = (-1.2, -1.2), 3.95  # a square of the floor with the whole shadow of any object
LAMP_POINTS = 64  # for the shadows of pictures larger than 64 x 64
RENDERER = "2"  # part of the cache's name: a change that alters any view raises it
SAMPLES = 3  # rays across a pixel, and down

Vectors = Float32[np.ndarray, "3 n"]
Lights = Float32[np.ndarray, " n"]


class Rooms(Sized, Grid):
    """`rooms`, or `rooms:size=SIDE` with any other side."""

    name = "rooms"
    summary = "an object in a coloured room: 6 factors, 480,000 pictures of 64 x 64"
    reference = "After Burgess & Kim (2018): 3D Shapes dataset"
    factors = (
        Factor("floor_hue", 10, "cyclic", tuple(HUES.tolist())),
        Factor("wall_hue", 10, "cyclic", tuple(HUES.tolist())),
        Factor("object_hue", 10, "cyclic", tuple(HUES.tolist())),
        Factor("scale", 8, "ordinal", tuple(SCALES.tolist())),
        Factor("shape", 4, "categorical", SHAPES),
        Factor("orientation", 15, "ordinal", tuple(ANGLES.tolist())),
    )
    image_shape = (SIDE, SIDE, 3)

    def make_data(self) -> UInt8[np.ndarray, "480 3 H W"]:
        if self.side <= SIDE:
            return render_views(self.side)
        make = functools.partial(render_views, self.side)
        return cached_array("drawn", f"{self.name}-{RENDERER}-{self.side}", make, f"drawing {self.name}")

    def pixels(
        self, data: UInt8[Array, "480 3 H W"], index: Int[Array, " n"], key: Key[Array, ""]
    ) -> Float[Array, "n H W 3"]:
        *hues, view = jnp.unravel_index(index, (10, 10, 10, len(data)))
        light = data[view].astype(jnp.float32) / 255  # (n, surface, H, W)
        colour = jnp.asarray(COLOURS)[jnp.stack(hues)]  # (surface, n, channel)
        surfaces = (light[:, k, :, :, None] * colour[k, :, None, None] for k in range(3))
        # Two surfaces share a pixel at an edge, and rounding may make their sum a little larger than 1.
        return jnp.minimum(sum(surfaces), 1)


class Hit(NamedTuple):
    """Where rays enter a surface: `distance` in lengths of the ray, infinite if the ray misses it."""

    distance: Float32[np.ndarray, " n"]
    normal: Vectors


def render_views(side: int = SIDE, workers: int = 2) -> UInt8[np.ndarray, "480 3 H W"]:
    """The light that floor, walls and object send to every pixel of every view: scale, shape, orientation fastest."""
    objects = zip(*itertools.product(SCALES, SHAPES), strict=True)  # scales, shapes
    with ThreadPoolExecutor(workers) as pool:  # NumPy releases the interpreter lock inside each operation
        # Lamp, object and floor do not move with the camera, so large views share one finer shadow of each object.
        shadows = list(pool.map(functools.partial(floor_shadow, side=2 * side), *objects)) if side > SIDE else None
        render = functools.partial(render_orientation, side=side, shadows=shadows)
        light = np.stack(list(pool.map(render, ANGLES)), axis=1)
    exposed = np.minimum(light / (EXPOSURE * light.max()), 1)
    return np.rint(255 * exposed).astype(np.uint8).reshape(-1, 3, side, side)


def render_orientation(
    angle: float, side: int = SIDE, shadows: list[Float32[np.ndarray, "R R"]] | None = None
) -> Float32[np.ndarray, "32 3 H W"]:
    """The light that floor, walls and object send to every pixel, for each scale and shape. The room is lit once.

    Without `shadows`, of `floor_shadow`, each ray of a pixel asks whether it sees one point of the lamp.
    """
    eye, ray = camera(angle, side)
    room = cast_room(eye, ray)
    point = eye + room.distance * ray
    lamp = np.repeat(lamp_points(), side * side, axis=1)  # each ray of a pixel sees another point of the lamp
    direct, around = falling(lamp, point, room.normal), openness(point)
    floor = room.normal[2] > 0
    ground, upwards = point[:, floor], (lamp - point)[:, floor]

    def render(number: int, scale: float, shape: str) -> Float32[np.ndarray, "3 H W"]:
        light = brightness(around, direct)
        if shadows is None:
            unshaded = np.isinf(cast_object(shape, scale, ground, upwards).distance)
        else:
            unshaded = on_floor(shadows[number], ground)
        light[floor] = brightness(around[floor] * beside(ground, scale * RADIUS[shape]), direct[floor] * unshaded)
        hit = cast_object(shape, scale, eye, ray)
        visible = np.isfinite(hit.distance)
        hit_point = eye + hit.distance[visible] * ray[:, visible]
        direct_light = falling(lamp[:, visible], hit_point, hit.normal[:, visible])
        light[visible] = brightness(openness(hit_point), direct_light)
        surfaces = np.stack([floor & ~visible, ~floor & ~visible, visible]) * light  # (3, n)
        return surfaces.reshape(3, SAMPLES**2, side, side).mean(axis=1)

    return np.stack([render(number, *one) for number, one in enumerate(itertools.product(SCALES, SHAPES))])


def floor_shadow(scale: float, shape: str, side: int) -> Float32[np.ndarray, "R R"]:
    """The share of the lamp that points of the floor see past an object, on a square grid: row by row, y upwards."""
    place = (np.arange(side) + 0.5) / side * FLOOR_WIDTH
    x, y = np.meshgrid(FLOOR_CORNER[0] + place, FLOOR_CORNER[1] + place)
    floor = np.stack([x.ravel(), y.ravel(), 0 * x.ravel()]).astype(np.float32)
    sees = np.zeros(side * side, np.float32)
    for point in lamp_points(LAMP_POINTS).T:
        sees += np.isinf(cast_object(shape, scale, floor, point[:, None] - floor).distance)
    return (sees / LAMP_POINTS).reshape(side, side)


def on_floor(grid: Float32[np.ndarray, "R R"], floor: Vectors) -> Lights:
    """The values of a grid of the floor at points of the floor, between its rows and columns."""
    column, row = ((floor[k] - FLOOR_CORNER[k]) * (len(grid) / FLOOR_WIDTH) - 0.5 for k in range(2))
    return ndimage.map_coordinates(grid, [row, column], order=1, mode="nearest")


def brightness(around: Lights, direct: Lights) -> Lights:
    """The sum of ambient light and light from the lamp, as a screen shows it."""
    return np.sqrt(AMBIENT * around + (1 - AMBIENT) * direct)


def camera(angle: float, side: int = SIDE) -> tuple[Vectors, Vectors]:
    """The position of the camera, and its rays: the first ray of every pixel, row by row, then the second ones."""
    turn = np.radians(angle)
    right = np.array([np.cos(turn), np.sin(turn), 0])
    eye = np.array([DISTANCE * np.sin(turn), -DISTANCE * np.cos(turn), HEIGHT])
    ahead = np.array([0, 0, AIM]) - eye
    ahead /= np.linalg.norm(ahead)
    across = FIELD * ((np.arange(side * SAMPLES) + 0.5) / (side * SAMPLES) * 2 - 1).reshape(side, SAMPLES).T
    u, v = np.broadcast_arrays(across[None, :, None, :], across[:, None, :, None])  # (down, across, row, column)
    ray = ahead[:, None] + right[:, None] * u.reshape(1, -1) - np.cross(right, ahead)[:, None] * v.reshape(1, -1)
    return eye[:, None].astype(np.float32), ray.astype(np.float32)


def cast_room(origin: Vectors, ray: Vectors) -> Hit:
    """The floor or the wall that rays from inside the room meet first."""
    bound = np.sign(ray) * np.float32(WALL)
    bound[2] = np.where(ray[2] > 0, np.inf, 0)  # no ceiling: the camera never sees one
    distance = (bound - origin) / ray  # (3, n)
    first = distance.argmin(axis=0)
    normal = np.where(np.arange(3)[:, None] == first, -np.sign(ray), 0)
    return Hit(distance.min(axis=0), normal)


def cast_object(shape: str, scale: float, origin: Vectors, ray: Vectors) -> Hit:
    """Where rays from outside the object enter it. Each shape is convex, so a ray enters at most once."""
    enter = {"cube": _enter_cube, "cylinder": _enter_cylinder, "sphere": _enter_capsule, "capsule": _enter_capsule}
    near, far, normal = enter[shape](RADIUS[shape], TALL[shape], origin / np.float32(scale), ray / np.float32(scale))
    return Hit(np.where((near <= far) & (near >= 0), near, np.inf), normal)


Entry = tuple[Float32[np.ndarray, " n"], Float32[np.ndarray, " n"], Vectors]  # enters, leaves, the normal on entering


def _enter_cube(radius: float, tall: float, origin: Vectors, ray: Vectors) -> Entry:
    low, high = _column(-radius, -radius, 0), _column(radius, radius, tall)
    near, far = _slab(low, high, origin, ray)  # (3, n)
    last = np.arange(3)[:, None] == near.argmax(axis=0)  # inside once it has passed one face of each pair
    return near.max(axis=0), far.min(axis=0), np.where(last, -np.sign(ray), 0)


def _enter_cylinder(radius: float, tall: float, origin: Vectors, ray: Vectors) -> Entry:
    side_near, side_far = _ball(radius, origin[:2], ray[:2])
    end_near, end_far = _slab(np.float32(0), np.float32(tall), origin[2], ray[2])
    near = np.maximum(side_near, end_near)
    normal = (origin + near * ray) / radius
    normal = np.where(side_near > end_near, normal * _column(1, 1, 0), -np.sign(ray) * _column(0, 0, 1))
    return near, np.minimum(side_far, end_far), normal


def _enter_capsule(radius: float, tall: float, origin: Vectors, ray: Vectors) -> Entry:
    """A capsule is swept by a ball that moves along an axis; a sphere is a capsule with an axis of length 0.

    A ray first meets the ball at the height of the point where the ray enters the cylinder around the capsule.
    """
    level = origin[2] + _ball(radius, origin[:2], ray[:2])[0] * ray[2]
    from_centre = origin - np.clip(level, radius, tall - radius) * _column(0, 0, 1)
    near, far = _ball(radius, from_centre, ray)
    return near, far, (from_centre + near * ray) / radius


def _ball(radius: float, origin: Any, ray: Any) -> tuple[Any, Any]:
    """Where lines enter and leave a ball, or a circle in 2D; a line that misses it leaves at minus infinity."""
    a, b = _dot(ray, ray), _dot(origin, ray)
    inside = b**2 - a * (_dot(origin, origin) - radius**2)
    root = np.sqrt(np.maximum(inside, 0))
    return (-b - root) / a, np.where(inside < 0, -np.inf, (-b + root) / a)


def _slab(low: Any, high: Any, origin: Any, ray: Any) -> tuple[Any, Any]:
    """Where lines enter and leave the space between two parallel planes."""
    one, other = (low - origin) / ray, (high - origin) / ray
    return np.minimum(one, other), np.maximum(one, other)


def lamp_points(count: int = SAMPLES**2) -> Vectors:
    """Points spread evenly over the lamp, a flat disc; by default one for each ray of a pixel."""
    k = np.arange(count)
    reach, turn = LAMP_RADIUS * np.sqrt((k + 0.5) / len(k)), k * np.pi * (3 - np.sqrt(5))  # as in a sunflower
    return _column(*LAMP) + np.stack([reach * np.cos(turn), reach * np.sin(turn), 0 * k]).astype(np.float32)


def falling(lamp: Vectors, point: Vectors, normal: Vectors) -> Lights:
    """The lamp's light on a matt surface, 1 where it falls straight from the lamp's height."""
    towards = lamp - point
    squared = _dot(towards, towards)
    return np.maximum(_dot(towards, normal), 0) * LAMP[2] ** 2 / (squared * np.sqrt(squared))


def openness(point: Vectors) -> Lights:
    """The share of the ambient light that reaches a point: less near the floor and the walls."""
    gaps = np.stack([WALL - np.abs(point[0]), WALL - np.abs(point[1]), point[2]])
    return np.prod(1 - 0.35 * np.exp(-gaps / 0.4), axis=0)


def beside(floor: Vectors, radius: float) -> Lights:
    """The share of the ambient light that the object lets through to the floor around it."""
    gap = np.maximum(np.hypot(floor[0], floor[1]) / radius - 1, 0)
    return 1 - 0.6 * np.exp(-gap / 0.35)


def _dot(one: Any, other: Any) -> Any:
    return np.einsum("kn,kn->n", one, other)


def _column(*entries: float) -> Float32[np.ndarray, "k 1"]:
    return np.array(entries, np.float32)[:, None]
