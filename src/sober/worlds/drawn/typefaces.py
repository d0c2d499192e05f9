"""Capital letters in three typefaces, drawn with a pen of any width along lines and arcs; no font file is needed.

A letter is a list of strokes in a square from (0, 0), at its foot on the left, to (1, 1). The square is stretched to
the letter's width and drawn in by half a pen, so that heavier letters stay as large. The height of a letter is 1. Slab
letters have heavy feet. Serif letters have thin horizontals, and their diagonals are thin where a pen goes upwards.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float32

TYPEFACES = ("sans", "serif", "slab")
WEIGHTS = (0.075, 0.115, 0.16, 0.21)  # widths of upright strokes
REACH = 0.75  # of a distance field: from the letter's middle to each side
FIELD_SIDE = 120
SLABS = {"sans": 0.0, "serif": 0.22, "slab": 0.72}  # heights of feet, in widths of the pen
THINNEST = {"sans": 0.88, "serif": 0.34, "slab": 0.62}  # horizontal strokes, in widths of upright ones


class Line(NamedTuple):
    """A straight stroke; thick or thin where that does not follow from its direction."""

    start: tuple[float, float]
    end: tuple[float, float]
    thick: bool | None = None


class Arc(NamedTuple):
    """A stroke along an ellipse, between two angles in degrees."""

    centre: tuple[float, float]
    radii: tuple[float, float]
    begin: float
    finish: float


class Letter(NamedTuple):
    """Strokes, and where feet are: a foot reaches to the left, to the right or both ways of the end of a stroke."""

    width: float
    strokes: tuple[Line | Arc, ...]
    feet: tuple[tuple[float, float, str], ...] = ()
    tips: tuple[tuple[float, float, float], ...] = ()  # ends of arms, and how far their serif reaches up or down


STEM, CAP, BASE = Line((0, 0), (0, 1)), Line((0, 1), (1, 1)), Line((0, 0), (1, 0))
LEFT_FEET = ((0.0, 0.0, "<"), (0.0, 1.0, "<"))
BOTH_FEET = ((0.0, 0.0, "<>"), (0.0, 1.0, "<>"))
RIGHT_FEET = ((1.0, 0.0, "<>"), (1.0, 1.0, "<>"))
BOWL = (Line((0, 1), (0.5, 1)), Arc((0.5, 0.73), (0.5, 0.27), 90, -90), Line((0, 0.46), (0.5, 0.46)))

LETTERS = {
    "A": Letter(
        0.8,
        (Line((0, 0), (0.5, 1)), Line((0.5, 1), (1, 0)), Line((0.18, 0.34), (0.82, 0.34))),
        ((0, 0, "<>"), (1, 0, "<>")),
    ),
    "B": Letter(
        0.64,
        (
            STEM,
            Line((0, 1), (0.5, 1)),
            Arc((0.5, 0.765), (0.42, 0.235), 90, -90),
            Line((0, 0.53), (0.52, 0.53)),
            Arc((0.52, 0.265), (0.48, 0.265), 90, -90),
            Line((0, 0), (0.52, 0)),
        ),
        LEFT_FEET,
    ),
    "C": Letter(0.76, (Arc((0.52, 0.5), (0.52, 0.5), 46, 314),), (), ((0.9, 0.98, -0.26), (0.9, 0.02, 0.24))),
    "D": Letter(
        0.76,
        (STEM, Line((0, 1), (0.42, 1)), Arc((0.42, 0.5), (0.58, 0.5), 90, -90), Line((0, 0), (0.42, 0))),
        LEFT_FEET,
    ),
    "E": Letter(0.58, (STEM, CAP, Line((0, 0.52), (0.86, 0.52)), BASE), LEFT_FEET, ((1, 1, -0.2), (1, 0, 0.22))),
    "F": Letter(0.56, (STEM, CAP, Line((0, 0.5), (0.86, 0.5))), ((0, 0, "<>"), (0, 1, "<")), ((1, 1, -0.2),)),
    "G": Letter(
        0.79,
        (Arc((0.5, 0.5), (0.5, 0.5), 46, 355), Line((0.58, 0.46), (1, 0.46), thick=False)),
        (),
        ((0.87, 0.98, -0.26),),
    ),
    "H": Letter(0.76, (STEM, Line((1, 0), (1, 1)), Line((0, 0.52), (1, 0.52))), BOTH_FEET + RIGHT_FEET),
    "I": Letter(0.22, (Line((0.5, 0), (0.5, 1)),), ((0.5, 0, "<>"), (0.5, 1, "<>"))),
    "J": Letter(0.5, (Line((1, 0.3), (1, 1)), Arc((0.5, 0.3), (0.5, 0.3), 0, -165)), ((1, 1, "<>"),)),
    "K": Letter(
        0.72, (STEM, Line((0, 0.34), (1, 1)), Line((0.32, 0.51), (1, 0))), (*BOTH_FEET, (1, 0, "<>"), (0.96, 1, "<>"))
    ),
    "L": Letter(0.56, (STEM, BASE), ((0, 0, "<"), (0, 1, "<>")), ((1, 0, 0.24),)),
    "M": Letter(
        0.94,
        (Line((0, 0), (0, 1), thick=False), Line((0.05, 1), (0.5, 0)), Line((0.5, 0), (0.95, 1)), Line((1, 0), (1, 1))),
        ((0, 0, "<>"), (0, 1, "<"), (1, 0, "<>"), (1, 1, ">")),
    ),
    "N": Letter(
        0.76,
        (Line((0, 0), (0, 1), thick=False), Line((0.05, 1), (0.95, 0)), Line((1, 0), (1, 1), thick=False)),
        ((0, 0, "<>"), (0, 1, "<"), (1, 1, "<>")),
    ),
    "O": Letter(0.84, (Arc((0.5, 0.5), (0.5, 0.5), 0, 370),)),
    "P": Letter(0.62, (STEM, *BOWL), ((0, 0, "<>"), (0, 1, "<"))),
    "Q": Letter(0.84, (Arc((0.5, 0.5), (0.5, 0.5), 0, 370), Line((0.56, 0.32), (1, 0)))),
    "R": Letter(0.68, (STEM, *BOWL, Line((0.47, 0.42), (1, 0))), ((0, 0, "<>"), (0, 1, "<"), (1, 0, "<>"))),
    "S": Letter(
        0.62,
        (Arc((0.5, 0.75), (0.46, 0.25), 28, 270), Arc((0.5, 0.25), (0.5, 0.25), 90, -152)),
        (),
        ((0.92, 0.98, -0.26), (0.06, 0.02, 0.26)),
    ),
    "T": Letter(0.7, (Line((0.5, 0), (0.5, 1)), CAP), ((0.5, 0, "<>"),), ((0, 1, -0.22), (1, 1, -0.22))),
    "U": Letter(
        0.74,
        (Line((0, 0.36), (0, 1)), Line((1, 0.36), (1, 1)), Arc((0.5, 0.36), (0.5, 0.36), 180, 360)),
        ((0, 1, "<>"), (1, 1, "<>")),
    ),
    "V": Letter(0.78, (Line((0, 1), (0.5, 0)), Line((0.5, 0), (1, 1))), ((0, 1, "<>"), (1, 1, "<>"))),
    "W": Letter(
        1.1,
        (
            Line((0, 1), (0.26, 0)),
            Line((0.26, 0), (0.5, 1)),
            Line((0.5, 1), (0.74, 0)),
            Line((0.74, 0), (1, 1)),
        ),
        ((0, 1, "<>"), (1, 1, "<>")),
    ),
    "X": Letter(
        0.76, (Line((0, 1), (1, 0)), Line((0, 0), (1, 1))), ((0, 0, "<>"), (0, 1, "<>"), (1, 0, "<>"), (1, 1, "<>"))
    ),
    "Y": Letter(
        0.76,
        (Line((0, 1), (0.5, 0.46)), Line((1, 1), (0.5, 0.46)), Line((0.5, 0), (0.5, 0.46))),
        ((0, 1, "<>"), (1, 1, "<>"), (0.5, 0, "<>")),
    ),
    "Z": Letter(0.66, (CAP, Line((0, 0), (1, 1), thick=True), BASE), (), ((0, 1, -0.2), (1, 0, 0.2))),
}

Points = Float[np.ndarray, "2 H W"]
Distances = Float[np.ndarray, "H W"]


def distance_fields(side: int = FIELD_SIDE) -> Float32[np.ndarray, "letter typeface weight H W"]:
    """The signed distance to the outline of every letter, typeface and weight, below 0 in the ink; upwards first."""
    place = ((np.arange(side) + 0.5) / side * 2 - 1) * REACH
    fields = [distance(letter, face, weight, place) for letter in LETTERS for face in TYPEFACES for weight in WEIGHTS]
    return np.stack(fields).reshape(len(LETTERS), len(TYPEFACES), len(WEIGHTS), side, side).astype(np.float32)


def distance(letter: str, face: str, weight: float, place: Float[np.ndarray, " n"]) -> Distances:
    """The signed distance at a square grid of places, counted from the letter's middle."""
    return _Pen(LETTERS[letter], face, weight, place).draw()


class _Pen:
    """A pen of one typeface and weight, and the places where the distance to its strokes is asked for."""

    def __init__(self, letter: Letter, face: str, weight: float, place: Float[np.ndarray, " n"]) -> None:
        self.letter, self.face, self.thick = letter, face, weight / 2
        self.thin = max(THINNEST[face] * weight, 0.03) / 2
        self.point = np.stack(np.meshgrid(place + letter.width / 2, place + 0.5))

    def draw(self) -> Distances:
        strokes = [
            self.line(stroke) if isinstance(stroke, Line) else self.arc(stroke) for stroke in self.letter.strokes
        ]
        within = np.abs(self.point[1] - 0.5) - 0.5  # diagonals are cut off at the foot and at the top of the letter
        ink = np.maximum(np.min(strokes, axis=0), within)
        return np.min([ink, *self.serifs()], axis=0)

    def placed(self, x: float, y: float) -> Float[np.ndarray, " 2"]:
        """A point of the square where the pen's middle goes."""
        across = self.thick + x * (self.letter.width - 2 * self.thick)
        return np.array([across, self.thin + y * (1 - 2 * self.thin)])

    def line(self, stroke: Line) -> Distances:
        flat = stroke.start[1] == stroke.end[1]
        start, end = self.placed(*stroke.start), self.placed(*stroke.end)
        if not flat:  # it reaches the foot or the top of the letter
            start[1], end[1] = stroke.start[1], stroke.end[1]
        along = (end - start) / np.linalg.norm(end - start)
        thick = stroke.thick if stroke.thick is not None else not flat and along[0] * along[1] <= 1e-9
        half = self.thick if thick else self.thin

        def longer(x: float, y: float) -> float:
            """How far the stroke goes on: to the letter's side, beyond its foot and top, or into another stroke."""
            outer = x in (0, 1) if flat else y in (0, 1)
            return outer * self.thick * (1 if flat else 2) + (not outer) * 0.03

        return self.bar(start - longer(*stroke.start) * along, end + longer(*stroke.end) * along, half)

    def arc(self, stroke: Arc) -> Distances:
        steps = max(6, round(abs(stroke.finish - stroke.begin) / 9))
        angle = np.radians(np.linspace(stroke.begin, stroke.finish, steps + 1))
        around = np.array(stroke.centre)[:, None] + np.array(stroke.radii)[:, None] * [np.cos(angle), np.sin(angle)]
        curve = np.stack([self.placed(x, y) for x, y in around.T])
        along = np.gradient(curve, axis=0)
        along /= np.linalg.norm(along, axis=1, keepdims=True)
        half = np.hypot(self.thick * along[:, 1], self.thin * along[:, 0])
        bars = [self.bar(curve[k], curve[k + 1], (half[k] + half[k + 1]) / 2) for k in range(steps)]
        joints = [np.hypot(*(self.point - curve[k, :, None, None])) - half[k] for k in range(1, steps)]
        return np.min([*bars, *joints], axis=0)

    def serifs(self) -> list[Distances]:
        tall = SLABS[self.face] * 2 * self.thick
        if not tall:
            return []
        tall, bars = max(tall, 0.035), []
        for x, y, sides in self.letter.feet:
            middle, level = self.placed(x, y)[0], abs(y - tall / 2)
            left, right = (self.thick + 0.1 * (side in sides) for side in "<>")
            bars.append(self.bar(np.array([middle - left, level]), np.array([middle + right, level]), tall / 2))
        for x, y, reach in self.letter.tips:
            across = self.placed(x, y)[0] if 0 < x < 1 else abs(x * self.letter.width - tall / 2)
            bars.append(self.bar(np.array([across, y]), np.array([across, y + reach]), tall / 2))
        return bars

    def bar(self, start: Float[np.ndarray, " 2"], end: Float[np.ndarray, " 2"], half: float) -> Distances:
        """The distance to a bar with flat ends."""
        length = max(float(np.linalg.norm(end - start)), 1e-9)
        along = (end - start) / length
        x, y = self.point - ((start + end) / 2)[:, None, None]
        beyond, aside = np.abs(x * along[0] + y * along[1]) - length / 2, np.abs(y * along[0] - x * along[1]) - half
        return np.hypot(np.maximum(beyond, 0), np.maximum(aside, 0)) + np.minimum(np.maximum(beyond, aside), 0)
