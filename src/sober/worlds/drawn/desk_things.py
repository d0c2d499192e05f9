"""What stands on the desk: a mug, a lamp, a pencil, a book, and five things, one in each picture.

Lengths are in heights of a picture frame of 20 cm; z is upwards and the desk top is z = 0. Colours are as a screen
shows them, 0 to 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sober.worlds.drawn.solids import (
    Numbers,
    Part,
    Solid,
    Vectors,
    ball,
    blend,
    box,
    capsule,
    column,
    drum,
    ellipsoid,
    norm,
    ring,
)
from sober.worlds.drawn.wood import noise

THINGS = ("apple", "ball", "cactus", "dice", "duck")
BULB = (0.83, 0.66, 1.3)  # of the lamp
AIM = (-0.42, -0.3, -0.86)  # of the lamp's light: to the left, to the camera and down


def thing(name: str, place: tuple[float, float]) -> Solid:
    """One of `THINGS` at a place on the desk."""
    return {"apple": apple, "ball": beach_ball, "cactus": cactus, "dice": dice, "duck": duck}[name]()._replace(
        place=place
    )


def mug() -> Solid:
    """A mug with coffee; the glaze is tinted."""

    def body(point: Vectors) -> Numbers:
        wall = np.maximum(drum(point, 0, 0.76, 0.33, 0.035), -drum(point, 0.08, 1.2, 0.285, 0.02))
        lying = np.stack([point[0] + 0.35, (point[2] - 0.38) * np.float32(0.86), point[1]])
        handle = np.maximum(ring(lying, 0.2, 0.05), -drum(point, -1, 2, 0.3))
        return blend(wall, handle, 0.03) * np.float32(0.95)

    def coffee(point: Vectors) -> Numbers:
        return drum(point, 0.1, 0.64, 0.287)

    parts = Part(body, None, gloss=0.55), Part(coffee, (0.32, 0.19, 0.11), gloss=0.3)
    return Solid(parts, (-0.12, 0, 0.38), 0.63, place=(-0.95, -0.32), turn=0.7)


def pencil() -> Solid:
    """A yellow pencil with a red end."""
    start, end = (-0.42, 0.06, 0.035), (0.42, -0.06, 0.035)
    tip = (0.52, -0.075, 0.03)

    def wood(point: Vectors) -> Numbers:
        return capsule(point, start, end, 0.036)

    def stripes(point: Vectors) -> Vectors:
        rubber = point[0] < -0.35
        band = (point[0] >= -0.35) & (point[0] < -0.29)
        colour = np.where(rubber, column(0.85, 0.42, 0.4), column(0.96, 0.74, 0.16))
        return np.where(band, column(0.72, 0.72, 0.7), colour)

    def point_of_pencil(point: Vectors) -> Numbers:
        return capsule(point, end, tip, 0.033, 0.004)

    def sharpened(point: Vectors) -> Vectors:
        return np.where(point[0] > 0.495, column(0.2, 0.2, 0.22), column(0.9, 0.74, 0.53))

    parts = Part(wood, stripes, gloss=0.2), Part(point_of_pencil, sharpened)
    return Solid(parts, (0.05, 0, 0.03), 0.6, place=(-0.55, -1.02), turn=-0.3)


def lamp_stand() -> Solid:
    """The foot and the arms of the lamp."""
    joint, top = (1.42, 0.98, 0.95), (0.98, 0.77, 1.5)

    def metal(point: Vectors) -> Numbers:
        foot = drum(point - column(1.3, 0.95, 0), 0, 0.07, 0.3, 0.03)
        arms = np.minimum(capsule(point, (1.3, 0.95, 0), joint, 0.035), capsule(point, joint, top, 0.035))
        return np.minimum(np.minimum(foot, arms), ball(point, joint, 0.065))

    return Solid((Part(metal, (0.24, 0.3, 0.33), gloss=0.5),), (1.2, 0.88, 0.72), 0.98)


def lamp_head() -> Solid:
    """A shade open at its lower end, with the bulb in it."""
    axis = column(*AIM) / norm(column(*AIM))
    apex = column(*BULB) - np.float32(0.2) * axis

    def shade(point: Vectors) -> Numbers:
        along = np.einsum("kn,kn->n", point - apex, np.broadcast_to(axis, point.shape))
        across = norm(point - apex - along * axis)
        # A bell: its radius grows along its axis.
        wide = 0.1 + 0.26 * np.sqrt(np.clip(along / 0.4, 0, 1))
        shell = np.abs(across - wide) * np.float32(0.72) - np.float32(0.014)
        closed = np.maximum(np.abs(along) - np.float32(0.02), across - np.float32(0.11))
        cut = np.maximum(shell, np.maximum(-along, along - np.float32(0.38)))
        return np.minimum(cut, closed)

    def bulb(point: Vectors) -> Numbers:
        return ball(point, BULB, 0.115)

    middle = tuple((apex + 0.19 * axis)[:, 0].tolist())
    parts = Part(shade, (0.83, 0.35, 0.22), gloss=0.35), Part(bulb, (1.0, 0.97, 0.9))
    return Solid(parts, middle, 0.44)


def book(turn: float) -> Solid:
    """A closed book; the cover is tinted and has a label, which shows how the book is turned."""
    wide, deep, tall, board = 0.5, 0.36, 0.2, 0.014

    def cover(point: Vectors) -> Numbers:
        below = box(point, (0, 0, board), (wide, deep, board), 0.008)
        above = box(point, (0, 0, tall - board), (wide, deep, board), 0.008)
        spine = box(point, (-wide + board, 0, tall / 2), (board, deep, tall / 2), 0.008)
        return np.minimum(np.minimum(below, above), spine)

    def pages(point: Vectors) -> Numbers:
        return box(point, (0, 0, tall / 2), (wide - 0.03, deep - 0.025, tall / 2 - board))

    def paper(point: Vectors) -> Vectors:
        lines = 0.5 + 0.5 * np.cos(point[2] * np.float32(2 * np.pi / 0.018))
        return column(0.95, 0.92, 0.84) * (1 - 0.12 * lines)

    def label(point: Vectors) -> Numbers:
        return box(point, (0.06, 0.08, tall), (0.27, 0.14, 0.004))

    def printed(point: Vectors) -> Vectors:
        title = (np.abs(point[1] - 0.13) < 0.028) & (np.abs(point[0] - 0.06) < 0.2)
        author = (np.abs(point[1] - 0.035) < 0.016) & (np.abs(point[0] - 0.06) < 0.12)
        return np.where(title | author, column(0.3, 0.27, 0.25), column(0.96, 0.93, 0.85))

    def block(point: Vectors) -> Numbers:
        return box(point, (0, 0, tall / 2), (wide, deep, tall / 2))

    parts = Part(cover, None, gloss=0.12), Part(pages, paper), Part(label, printed)
    return Solid(parts, (0, 0, tall / 2), 0.64, place=(0.5, -0.72), turn=turn, outline=block)


def apple() -> Solid:
    def flesh(point: Vectors) -> Numbers:
        inside = point - column(0, 0, 0.34)
        narrow = 1 + 0.16 * np.clip(-inside[2] / 0.3, -1, 1)  # towards its foot
        return ring(np.stack([inside[0] * narrow, inside[1] * narrow, inside[2] * np.float32(0.96)]), 0.14, 0.255) * (
            np.float32(0.85)
        )

    def skin(point: Vectors) -> Vectors:
        around = np.arctan2(point[1], point[0])
        streaks = noise(around * 24 + 99, point[2] * 4)
        blush = np.clip(1.25 + 0.5 * np.cos(around + 2.2) - 1.5 * np.clip(point[2] - 0.33, 0, 1) - 0.25 * streaks, 0, 1)
        return column(0.93, 0.78, 0.3) * (1 - blush) + column(0.8, 0.1, 0.1) * blush

    def stem(point: Vectors) -> Numbers:
        return capsule(point, (0, 0, 0.46), (0.05, 0.02, 0.72), 0.016, 0.024)

    def leaf(point: Vectors) -> Numbers:
        c, s = np.float32(np.cos(0.5)), np.float32(np.sin(0.5))
        x, z = point[0] - np.float32(0.17), point[2] - np.float32(0.7)
        return ellipsoid(np.stack([c * x + s * z, point[1] - 0.02, c * z - s * x]), (0, 0, 0), (0.15, 0.075, 0.014))

    parts = (
        Part(flesh, skin, gloss=0.5),
        Part(stem, (0.36, 0.24, 0.13)),
        Part(leaf, (0.35, 0.62, 0.22), gloss=0.2),
    )
    return Solid(parts, (0, 0, 0.38), 0.5)


def beach_ball() -> Solid:
    def shell(point: Vectors) -> Numbers:
        return ball(point, (0, 0, 0.38), 0.38)

    def panels(point: Vectors) -> Vectors:
        x, y, z = point[0], point[1], point[2] - np.float32(0.38)
        c, s = np.float32(np.cos(0.6)), np.float32(np.sin(0.6))
        y, z = c * y + s * z, c * z - s * y  # its axis leans towards the camera
        x, z = c * x - s * z, c * z + s * x
        panel = np.floor((np.arctan2(y, x) / (2 * np.pi) * 6 + 6) % 6).astype(int)
        colours = np.array(
            [
                [0.93, 0.93, 0.9],
                [0.88, 0.2, 0.18],
                [0.93, 0.93, 0.9],
                [0.16, 0.42, 0.76],
                [0.93, 0.93, 0.9],
                [1, 0.76, 0.1],
            ]
        )
        cap = np.hypot(x, y) < 0.09
        return np.where(cap, 0.93, colours[panel].T).astype(np.float32)

    return Solid((Part(shell, panels, gloss=0.5),), (0, 0, 0.38), 0.4)


def cactus() -> Solid:
    def pot(point: Vectors) -> Numbers:
        lower = np.maximum(drum(point, 0, 0.34, 0.3), np.hypot(point[0], point[1]) - (0.2 + 0.22 * point[2]))
        return np.maximum(np.minimum(lower, drum(point, 0.25, 0.36, 0.31, 0.02)), -drum(point, 0.32, 1, 0.25)) * (
            np.float32(0.9)
        )

    def soil(point: Vectors) -> Numbers:
        return drum(point, 0.2, 0.325, 0.25)

    def plant(point: Vectors) -> Numbers:
        trunk = ribbed(point, (0, 0, 0.3), (0, 0, 0.86), 0.155)
        left = np.minimum(
            ribbed(point, (-0.1, 0, 0.5), (-0.27, -0.02, 0.52), 0.07),
            ribbed(point, (-0.27, -0.02, 0.52), (-0.29, -0.02, 0.72), 0.075),
        )
        right = np.minimum(
            ribbed(point, (0.1, 0, 0.62), (0.25, 0, 0.64), 0.06), ribbed(point, (0.25, 0, 0.64), (0.27, 0, 0.8), 0.065)
        )
        return np.minimum(trunk, blend(left, right, 0.02))

    def ribbed(point: Vectors, start: Any, end: Any, radius: float) -> Numbers:
        middle = np.float32((start[0] + end[0]) / 2)
        ribs = np.cos(9 * np.arctan2(point[1], point[0] - middle))
        return (capsule(point, start, end, radius) - np.float32(0.09 * radius) * ribs) * np.float32(0.85)

    def green(point: Vectors) -> Vectors:
        ribs = 0.5 + 0.5 * np.cos(9 * np.arctan2(point[1], point[0]))
        return column(0.2, 0.42, 0.22) * (1 - ribs) + column(0.36, 0.62, 0.3) * ribs

    def flower(point: Vectors) -> Numbers:
        return ellipsoid(point, (0.03, -0.03, 1.02), (0.075, 0.075, 0.05))

    parts = (
        Part(pot, (0.8, 0.42, 0.27), gloss=0.1),
        Part(soil, (0.27, 0.19, 0.14)),
        Part(plant, green),
        Part(flower, (0.95, 0.4, 0.6)),
    )
    return Solid(parts, (0, 0, 0.52), 0.62)


def dice() -> Solid:
    half = 0.29
    c, s = np.float32(np.cos(0.6)), np.float32(np.sin(0.6))
    dots = np.array([(-1, -1), (1, 1), (-1, 1), (1, -1), (0, 0)], np.float32) * 0.145
    faces = {2: dots, 0: dots[[0, 1, 4]], 1: dots[[0, 1, 2, 3]]}  # five on top, three and four at the sides

    def turned(point: Vectors) -> Vectors:
        return np.stack([c * point[0] + s * point[1], c * point[1] - s * point[0], point[2] - np.float32(half)])

    def cube(point: Vectors) -> Numbers:
        return box(turned(point), (0, 0, 0), (half, half, half), 0.06)

    def spots(point: Vectors) -> Vectors:
        inside = turned(point)
        dark = np.zeros(point.shape[1], bool)
        for axis, places in faces.items():
            u, v = (inside[k] for k in range(3) if k != axis)
            on_face = np.abs(inside[axis]) > half - 0.02
            for place in places:
                dark |= on_face & (np.hypot(u - place[0], v - place[1]) < 0.058)
        return np.where(dark, column(0.14, 0.14, 0.17), column(0.95, 0.94, 0.9))

    return Solid((Part(cube, spots, gloss=0.4),), (0, 0, half), 0.5)


def duck() -> Solid:
    """It looks to the right and to the camera."""
    c, s = np.float32(np.cos(-0.5)), np.float32(np.sin(-0.5))

    def turned(shape: Callable[[Vectors], Any]) -> Callable[[Vectors], Any]:
        return lambda point: shape(np.stack([c * point[0] + s * point[1], c * point[1] - s * point[0], point[2]]))

    def body(point: Vectors) -> Numbers:
        belly = ellipsoid(point, (-0.04, 0, 0.25), (0.37, 0.29, 0.25))
        tail = capsule(point, (-0.25, 0, 0.3), (-0.43, 0, 0.46), 0.13, 0.03)
        head = ball(point, (0.16, 0, 0.62), 0.2)
        sides = np.stack([point[0], np.abs(point[1]), point[2]])
        wing = ellipsoid(sides, (-0.09, 0.26, 0.29), (0.21, 0.07, 0.13))
        return blend(blend(blend(belly, tail, 0.1), head, 0.09), wing, 0.02) * np.float32(0.9)

    def beak(point: Vectors) -> Numbers:
        return ellipsoid(point, (0.37, 0, 0.585), (0.13, 0.11, 0.045))

    def eyes(point: Vectors) -> Numbers:
        return ball(np.stack([point[0], np.abs(point[1]), point[2]]), (0.295, 0.105, 0.685), 0.04)

    parts = (
        Part(turned(body), (0.98, 0.8, 0.13), gloss=0.35),
        Part(turned(beak), (0.95, 0.45, 0.1), gloss=0.3),
        Part(turned(eyes), (0.08, 0.08, 0.09), gloss=0.8),
    )
    return Solid(parts, (0, 0, 0.4), 0.55)
