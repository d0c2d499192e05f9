"""The layers of `desk`: what cameras see of the desk, of the book and of the thing, with the light on them.

Rays are cast for each camera at what stands still, and then at the book in each of its turns and at the thing in
each of its places. Light comes from a window to the left and from a lamp; shadows are soft.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float32, Int, UInt8

from sober.parallel import cores
from sober.worlds.drawn import desk_things
from sober.worlds.drawn.desk_things import AIM, BULB, THINGS
from sober.worlds.drawn.solids import (
    Material,
    Numbers,
    Solid,
    Vectors,
    cast,
    column,
    dot,
    material,
    norm,
    normals,
    openness,
    visible,
)
from sober.worlds.drawn.wood import WOODS, wood

PLACES = np.linspace(-0.51, 0.72, 7)  # of the thing, from left to right
TURNS = np.linspace(-40, 40, 5)  # of the book, in degrees
ANGLES = np.linspace(-18, 18, 5)  # of the camera, in degrees
BEHIND = 0.62  # where the thing stands, away from the camera
WALL = 1.9
DISTANCE, HEIGHT = 4.25, 2.05  # of the camera, from the point it looks at
LOOKED_AT = (-0.01, 0.0, 0.46)
FIELD = np.tan(np.radians(19.8))  # half the picture's width, at distance 1
WINDOW, WINDOW_RADIUS = (-6.0, -3.2, 6.0), 0.75
BULB_RADIUS = 0.13
WINDOW_LIGHT, SKY_LIGHT = 0.78, 0.42  # straight through the window, and from all around
LAMP_LIGHT, GLOW_LIGHT = 3.2, 0.24
SHARPNESS = 60  # of highlights
BRIGHTEST = 2.25  # the largest light that a layer holds
WALL_COLOUR = (0.66, 0.75, 0.74)
PAPER = (0.9, 0.86, 0.75)  # the light from pages and label in red, green and blue, in proportion
SAMPLES = 3  # rays across a pixel, and down
RENDERER = "1"  # planes_of_layer of the cache's name: a change that alters any layer raises it
FAINT = 2e-3  # direct light that is not worth a shadow

Bytes = UInt8[np.ndarray, "..."]


class Layers(NamedTuple):
    """Square roots of light and of colours, and shares of pixels, as bytes, for each camera; a lamp is 0 or 1.

    `left` is the share of each lamp's light that book or thing leave to what is behind them.
    """

    still_light: Bytes  # (camera, lamp, 5, H, W): from the desk top, from the mug, and the rest in red, green and blue
    wood: Bytes  # (camera, wood, 3, H, W): colours of the desk top
    book_light: Bytes  # (camera, turn, lamp, 2, H, W): from the cover and from paper
    book_share: Bytes  # (camera, turn, 1, H, W)
    book_left: Bytes  # (camera, turn, lamp, H, W)
    thing_light: Bytes  # (camera, thing, place, lamp, 3, H, W)
    thing_share: Bytes  # (camera, thing, place, 1, H, W)
    thing_left: Bytes  # (camera, thing, place, lamp, H, W)


BOOKS, ALL_THINGS = (len(ANGLES), len(TURNS)), (len(ANGLES), len(THINGS), len(PLACES))
SHAPES: dict[str, tuple[int, ...]] = {  # of the layers, before height and width
    "still_light": (len(ANGLES), 2, 5),
    "wood": (len(ANGLES), len(WOODS), 3),
    "book_light": (*BOOKS, 2, 2),
    "book_share": (*BOOKS, 1),
    "book_left": (*BOOKS, 2),
    "thing_light": (*ALL_THINGS, 2, 3),
    "thing_share": (*ALL_THINGS, 1),
    "thing_left": (*ALL_THINGS, 2),
}


def layers_of(planes: UInt8[np.ndarray, "planes H W"]) -> Layers:
    """The layers in an array that holds them one after the other, as the cache does; no bytes are copied."""
    ends = np.cumsum([math.prod(shape) for shape in SHAPES.values()])
    parts = zip(SHAPES.items(), np.split(planes, ends[:-1]), strict=True)
    return Layers(
        **{layer: planes_of_layer.reshape(*shape, *planes.shape[1:]) for (layer, shape), planes_of_layer in parts}
    )


def render_planes(side: int, workers: int | None = None) -> UInt8[np.ndarray, "planes H W"]:
    """All layers, one after the other."""
    planes = np.empty((sum(math.prod(shape) for shape in SHAPES.values()), side, side), np.uint8)
    layers = layers_of(planes)

    def render(number: int) -> None:
        for all_cameras, one in zip(layers, render_camera(ANGLES[number], side), strict=True):
            all_cameras[number] = one

    with ThreadPoolExecutor(workers or min(len(ANGLES), cores())) as pool:
        list(pool.map(render, range(len(ANGLES))))  # NumPy releases the interpreter lock inside each operation
    return planes


def render_camera(angle: float, side: int) -> Layers:
    """The layers of one camera."""
    view = View(angle, side)
    woods = np.stack([view.wood(name) for name in WOODS])
    books = [view.book(turn) for turn in np.radians(TURNS)]
    things = [view.thing(name, place) for name in THINGS for place in PLACES]
    by_place = (np.stack(layer) for layer in zip(*things, strict=True))
    return Layers(
        view.still_light(),
        woods,
        *(np.stack(layer) for layer in zip(*books, strict=True)),
        *(layer.reshape(len(THINGS), len(PLACES), *layer.shape[1:]) for layer in by_place),
    )


class Laid(NamedTuple):
    """A layer that lies over what stands still: its light, the share of pixels it covers, and the light it leaves."""

    light: UInt8[np.ndarray, "lamp surface H W"]
    share: UInt8[np.ndarray, "1 H W"]
    left: UInt8[np.ndarray, "lamp H W"]


class Surface(NamedTuple):
    """Points that rays meet, with the light on them from window and lamp."""

    point: Vectors
    normal: Vectors
    around: Float32[np.ndarray, "2 n"]
    direct: Float32[np.ndarray, "2 n"]


STANDING = (desk_things.mug(), desk_things.pencil(), desk_things.lamp_stand(), desk_things.lamp_head())
MUG, HEAD = 0, 3
DESK_TOP, BACK_WALL = -2, -1


class View:
    """What a camera sees of the desk without book and thing, kept for the layers that are laid over it."""

    def __init__(self, angle: float, side: int) -> None:
        self.side = side
        self.eye, self.ray = camera(angle, side)
        desk = -self.eye[2] / np.minimum(self.ray[2], np.float32(-1e-6))
        wall = (np.float32(WALL) - self.eye[1]) / self.ray[1]
        self.length, self.met = np.minimum(desk, wall), np.where(desk < wall, DESK_TOP, BACK_WALL)
        for k, solid in enumerate(STANDING):
            length = cast(solid, self.eye, self.ray)
            closer = length < self.length
            self.length, self.met = np.where(closer, length, self.length), np.where(closer, k, self.met)
        point = self.eye + self.length * self.ray
        normal = np.where(self.met == DESK_TOP, column(0, 0, 1), column(0, -1, 0)) + 0 * point
        self.colour, self.gloss = np.ones_like(point), np.zeros(point.shape[1], np.float32)
        self.tinted = np.zeros(point.shape[1], bool)
        for k, solid in enumerate(STANDING):
            on_solid = self.met == k
            materials = material(solid, point[:, on_solid])
            normal[:, on_solid] = normals(solid, point[:, on_solid])
            self.colour[:, on_solid], self.tinted[on_solid], self.gloss[on_solid] = materials
        wall_here = self.met == BACK_WALL
        self.colour[:, wall_here] = wall_colours(point[:, wall_here])
        self.surface = lit(point, normal, STANDING)
        self.light = self.surface.around + self.surface.direct

    def still_light(self) -> UInt8[np.ndarray, "2 5 H W"]:
        """The light from the desk top and from the mug, both without their colours, and the rest of the light."""
        on_desk = self.met == DESK_TOP
        other_light = self.light[:, None] * self.colour**2 * (~self.tinted & ~on_desk)
        other_light = other_light + highlights(self.surface, self.ray, self.gloss)[:, None]
        other_light[1] += emitted(self.surface.point) * (self.met == HEAD)
        one_colour = np.stack([self.light * on_desk, self.light * self.tinted], axis=1)
        return self.roots(np.concatenate([one_colour, other_light], axis=1))

    def wood(self, name: str) -> UInt8[np.ndarray, "3 H W"]:
        """The colour of the desk top where it is seen, the mean over the rays that meet it."""
        on_desk = self.met == DESK_TOP
        colour = np.zeros_like(self.surface.point)
        colour[:, on_desk] = wood(name, *self.surface.point[:2, on_desk]) ** 2
        share = self.mean(on_desk.astype(np.float32))
        return root_bytes(self.mean(colour) / np.maximum(share, 1e-6))

    def book(self, turn: float) -> Laid:
        """The book with the light from its cover, without the cover's colour, and from its paper."""
        solid = desk_things.book(turn)
        hits, surface, materials = self.over(solid)
        light = surface.around + surface.direct
        paper = (materials.colour**2 / column(*PAPER)).mean(axis=0)
        from_paper = light * paper * ~materials.tinted + highlights(surface, self.ray[:, hits], materials.gloss)
        return self.laid(solid, hits, np.stack([light * materials.tinted, from_paper], axis=1))

    def thing(self, name: str, place: float) -> Laid:
        """A thing at its place, with its light in red, green and blue."""
        solid = desk_things.thing(name, (place, BEHIND))
        hits, surface, materials = self.over(solid)
        light = (surface.around + surface.direct)[:, None] * materials.colour**2
        return self.laid(solid, hits, light + highlights(surface, self.ray[:, hits], materials.gloss)[:, None])

    def over(self, solid: Solid) -> tuple[Int[np.ndarray, " s"], Surface, Material]:
        """The rays that meet a solid first, its surface there, and its material."""
        length = cast(solid, self.eye, self.ray)
        hits = np.flatnonzero(length < self.length)
        point = self.eye + length[hits] * self.ray[:, hits]
        surface = lit(point, normals(solid, point), (*STANDING, solid))
        return hits, surface, material(solid, point)

    def laid(self, solid: Solid, hits: Int[np.ndarray, " s"], light: Float32[np.ndarray, "2 k s"]) -> Laid:
        """The layer of a solid with this light from the rays that meet it first."""
        of_all_rays = np.zeros((*light.shape[:2], self.ray.shape[1]), np.float32)
        of_all_rays[..., hits] = light
        covered = np.zeros(self.ray.shape[1], np.float32)
        covered[hits] = 1
        share = np.rint(255 * self.mean(covered)).astype(np.uint8)
        return Laid(self.roots(of_all_rays), share[None], self.left(solid, covered == 0))

    def left(self, solid: Solid, behind: Bool[np.ndarray, " n"]) -> UInt8[np.ndarray, "2 H W"]:
        """The share of the light from window and lamp that a solid leaves to what stands still, where that is seen."""
        point, normal, around, direct = self.surface
        light = around * openness(solid, point, normal) + past(solid, point, direct * behind)
        before, after = self.mean(self.light * behind), self.mean(light * behind)
        return root_bytes(np.where(before > 1e-6, after / np.maximum(before, 1e-6), 1))

    def mean(self, values: Float32[np.ndarray, "... n"]) -> Float32[np.ndarray, "... H W"]:
        """The mean over the rays of each pixel."""
        return values.reshape(*values.shape[:-1], SAMPLES**2, self.side, self.side).mean(axis=-3)

    def roots(self, light: Float32[np.ndarray, "... n"]) -> UInt8[np.ndarray, "... H W"]:
        """The square root of the light of each pixel."""
        return root_bytes(self.mean(light) / np.float32(BRIGHTEST))


def root_bytes(values: Any) -> Bytes:
    """Square roots of numbers from 0 to 1."""
    return np.rint(255 * np.sqrt(np.clip(values, 0, 1))).astype(np.uint8)


def camera(angle: float, side: int) -> tuple[Float32[np.ndarray, "3 1"], Vectors]:
    """The position of the camera, and its rays: the first ray of every pixel, row by row, then the second ones."""
    turn = np.radians(angle)
    right = np.array([np.cos(turn), np.sin(turn), 0])
    aim = np.array(LOOKED_AT)
    eye = aim + np.array([DISTANCE * np.sin(turn), -DISTANCE * np.cos(turn), HEIGHT])
    ahead = (aim - eye) / np.linalg.norm(aim - eye)
    across = FIELD * ((np.arange(side * SAMPLES) + 0.5) / (side * SAMPLES) * 2 - 1).reshape(side, SAMPLES).T
    u, v = np.broadcast_arrays(across[None, :, None, :], across[:, None, :, None])  # (down, across, row, column)
    ray = ahead[:, None] + right[:, None] * u.reshape(1, -1) - np.cross(right, ahead)[:, None] * v.reshape(1, -1)
    return column(*eye), (ray / np.linalg.norm(ray, axis=0)).astype(np.float32)


def lit(point: Vectors, normal: Vectors, solids: tuple[Solid, ...]) -> Surface:
    """The light that falls on points from window and lamp, past all solids."""
    towards = column(*WINDOW) - point
    facing = np.maximum(dot(towards, normal) / norm(towards), 0)
    sky = np.float32(SKY_LIGHT) * (np.float32(0.8) + np.float32(0.2) * normal[2])
    corner = np.exp(-(np.float32(WALL) - point[1]) / 0.5) * (normal[2] > 0.99) * (point[2] < 0.01)
    corner = corner + np.exp(-point[2] / 0.5) * (normal[1] < -0.99) * (point[1] > WALL - 0.01)
    around = np.stack([sky, np.float32(GLOW_LIGHT) + 0 * sky]) * (1 - np.float32(0.3) * corner)
    direct = np.stack([np.float32(WINDOW_LIGHT) * facing, lamplight(point, normal)])
    for solid in solids:
        around = around * openness(solid, point, normal)
        direct = past(solid, point, direct)
    return Surface(point, normal, around.astype(np.float32), direct.astype(np.float32))


def past(solid: Solid, point: Vectors, direct: Float32[np.ndarray, "2 n"]) -> Float32[np.ndarray, "2 n"]:
    """What a solid lets through of the light from window and lamp to points."""
    lamps = (WINDOW, WINDOW_RADIUS), (BULB, BULB_RADIUS)
    through = direct.copy()
    for light, (place, radius) in zip(through, lamps, strict=True):
        if place is WINDOW or solid is not STANDING[HEAD]:  # the lamp's own shade forms its beam
            bright = np.flatnonzero(light > FAINT)
            light[bright] *= visible(solid, point[:, bright], column(*place), radius)
    return through


def lamplight(point: Vectors, normal: Vectors) -> Numbers:
    """The light of the lamp's beam, which falls with distance and towards its rim."""
    towards = column(*BULB) - point
    far = norm(towards)
    aim = column(*AIM) / norm(column(*AIM))
    inside = np.clip((-dot(towards, aim) / far - np.float32(0.3)) / np.float32(0.45), 0, 1)
    beam = inside * inside * (3 - 2 * inside)
    return np.float32(LAMP_LIGHT) * beam * np.maximum(dot(towards, normal) / far, 0) / (0.35 + 0.65 * far**2)


def highlights(surface: Surface, ray: Vectors, gloss: Numbers) -> Float32[np.ndarray, "2 n"]:
    """The mirror image of window and lamp in glossy surfaces."""
    shine = []
    for lamp, direct in zip((WINDOW, BULB), surface.direct, strict=True):
        towards = column(*lamp) - surface.point
        halfway = towards / norm(towards) - ray
        cosine = np.maximum(dot(halfway, surface.normal) / norm(halfway), 0)
        shine.append(gloss * np.minimum(3 * direct, 1) * cosine**SHARPNESS)
    return np.stack(shine)


def emitted(point: Vectors) -> Vectors:
    """The light of the bulb and of the inner side of its shade."""
    far = norm(column(*BULB) - point)
    return column(1, 0.93, 0.82) * np.where(far < 0.118, BRIGHTEST, 0.0).astype(np.float32)


def wall_colours(point: Vectors) -> Vectors:
    """The colours of the wall: plaster, and a framed picture of hills."""
    x, z = point[0] + np.float32(0.62), point[2] - np.float32(1.32)
    wide, tall = 0.52, 0.4
    colour = column(*WALL_COLOUR) + 0 * point
    outside = np.maximum(np.abs(x) - wide, np.abs(z) - tall)
    colour = np.where(outside < 0, column(0.36, 0.27, 0.2), colour)
    colour = np.where(outside < -0.035, column(0.96, 0.95, 0.92), colour)
    sky = column(0.98, 0.83, 0.62) + (column(0.62, 0.78, 0.9) - column(0.98, 0.83, 0.62)) * np.clip(
        z / 0.28 + 0.2, 0, 1
    )
    art = np.where(np.hypot(x - 0.14, z - 0.06) < 0.085, column(0.98, 0.5, 0.3), sky)
    art = np.where(z < 0.05 * np.sin(x * 7 + 1) - 0.02, column(0.5, 0.62, 0.6), art)
    art = np.where(z < 0.06 * np.sin(x * 5 + 3.2) - 0.12, column(0.25, 0.42, 0.42), art)
    return np.where(outside < -0.12, art, colour).astype(np.float32)
