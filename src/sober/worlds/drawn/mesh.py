"""Surfaces of triangles: read from a Wavefront .obj or made by formula, and drawn by z-buffer as shades.

Every view is drawn once and cached, not drawn inside the training step: an object has thousands of triangles and a view
has two angles, so a training step only looks a view up. A shade is a byte without colour. From 0 to `FULL` it scales
the object's own colour; from `FULL` to 255 a highlight turns that colour white.

Triangles are drawn row by row. A triangle covers a run of pixels in each row, so the work is one step per covered
pixel, in arrays that hold all triangles at once.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float32, Int, UInt8

from sober.errors import RequestError, brief
from sober.parallel import cores

SIDE = 64
FINER = 2  # drawn at twice the size and averaged, so that edges are smooth
FULL = 192  # the shade of a surface that faces the light
DISTANCE = 4.0  # from the camera to the object's centre, in radii of the object
FOCAL = 0.96 * np.sqrt(DISTANCE**2 - 1)  # the ball around the object fills 96% of the picture
LIGHT = np.array([-0.45, 0.6, 0.66], np.float32)  # from above, left of the camera; a unit vector
HALFWAY = np.array([-0.247, 0.33, 0.911], np.float32)  # between light and camera: the highlight's direction
AMBIENT, GLOSS, SHININESS_DOUBLINGS = 0.22, 110.0, 5  # the highlight is a cosine to the power of 2⁵
CREASE = 0.866  # cosine of 30°, half the bend of an edge: sharper edges stay, the others are shaded as round
TRIANGLES_AT_ONCE = 16_000  # of several views of 64 x 64: they fit in a processor's cache

Points = tuple[np.ndarray, np.ndarray]  # x and y


class Mesh(NamedTuple):
    """A surface inside the unit ball: three corners a triangle, and the direction the surface has at each.

    Axes are x, y or z; the corner; the triangle.
    """

    corners: Float32[np.ndarray, "3 3 T"]
    normals: Float32[np.ndarray, "3 3 T"]
    closed: bool  # whether its inside is never seen, so it is not drawn

    @property
    def size(self) -> int:
        """The number of triangles."""
        return self.corners.shape[2]

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits that identify the surface by its corners."""
        return hashlib.sha256(np.round(self.corners, 5).astype("<f4").tobytes()).hexdigest()[:16]


class Surface(NamedTuple):
    """Points in any unit, y upwards, and the triangles between them, counter-clockwise from outside."""

    vertices: Float[np.ndarray, "V 3"]
    triangles: Int[np.ndarray, "T 3"]


def fitted(surface: Surface, *, closed: bool = False) -> Mesh:
    """The surface centred and scaled: the middle of its bounding box at 0, its farthest point at distance 1.

    A surface without holes whose triangles all face outwards is `closed`: it is drawn in half the time.
    """
    used = np.unique(surface.triangles)
    low, high = surface.vertices[used].min(axis=0), surface.vertices[used].max(axis=0)
    centred = surface.vertices - (low + high) / 2
    radius = np.linalg.norm(centred[used], axis=1).max()
    if not (np.isfinite(radius) and radius > 0):
        raise RequestError("the surface has no extent: its corners must be finite and not all in one place")
    # Merges equal points: files repeat a point where texture or direction changes, formulas where a sheet closes.
    vertices, same = np.unique(np.round(centred / radius, 6), axis=0, return_inverse=True)
    triangles = same.reshape(-1)[surface.triangles]
    corners = vertices[triangles]  # (T, 3, 3)
    facing = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])  # as long as twice the area
    area = np.linalg.norm(facing, axis=1)
    corners, facing, triangles = corners[area > 0], facing[area > 0], triangles[area > 0]
    if not len(corners):
        raise RequestError("the surface has no extent: every triangle is a line or a point")
    around = np.stack([_added(facing[:, axis], triangles, len(vertices)) for axis in range(3)], axis=-1)
    smooth, flat = _unit(around)[triangles], _unit(facing)[:, None]
    round_here = (smooth * flat).sum(axis=-1, keepdims=True) > CREASE
    normals = np.where(round_here, smooth, flat)
    corners, normals = (np.ascontiguousarray(axes.transpose(2, 1, 0), np.float32) for axes in (corners, normals))
    return Mesh(corners, normals, closed)


def _added(values: Float[np.ndarray, " T"], triangles: Int[np.ndarray, "T 3"], points: int) -> np.ndarray:
    return np.bincount(triangles.reshape(-1), np.repeat(values, 3), minlength=points)


def _unit(vectors: Float[np.ndarray, "... 3"]) -> Float[np.ndarray, "... 3"]:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)


def sheet(points: Float[np.ndarray, "R C 3"]) -> Surface:
    """A grid of points as a surface: two triangles for every four neighbours."""
    rows, columns = points.shape[:2]
    index = np.arange(rows * columns).reshape(rows, columns)
    quarters = (index[:-1, :-1], index[:-1, 1:], index[1:, 1:], index[1:, :-1])
    a, b, c, d = (corners.reshape(-1) for corners in quarters)
    triangles = np.concatenate([np.stack([a, b, c], axis=1), np.stack([a, c, d], axis=1)])
    return Surface(points.reshape(-1, 3), triangles)


def joined(*surfaces: Surface) -> Surface:
    """Several surfaces as one; they may pass through each other."""
    starts = np.cumsum([0, *(len(surface.vertices) for surface in surfaces[:-1])])
    triangles = [surface.triangles + start for surface, start in zip(surfaces, starts, strict=True)]
    return Surface(np.concatenate([surface.vertices for surface in surfaces]), np.concatenate(triangles))


def read_obj(path: Path) -> Surface:
    """The surface of a Wavefront .obj file: its points and faces; everything else is ignored.

    A face may have any number of corners, counted from 1 or back from the latest point, with or without texture and
    direction (`7`, `7/2`, `7//3`, `7/2/3`). One with more than three is cut into a fan, so it should be convex.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise RequestError(f"{path} cannot be read ({brief(error)}): give the path of a Wavefront .obj file") from error
    vertices: list[tuple[float, float, float]] = []
    triangles: list[tuple[int, int, int]] = []
    lines: list[int] = []  # of each triangle, for an error about a face that refers to a missing point
    for number, words in _statements(text):
        try:
            if words[0] == "v":
                vertices.append(_point(words[1:]))
            elif words[0] == "f":
                corners = [_corner(word, len(vertices)) for word in words[1:]]
                if len(corners) < 3:
                    raise ValueError(f"a face needs three corners or more, got {len(corners)}")
                triangles += [(corners[0], b, c) for b, c in itertools.pairwise(corners[1:])]
                lines += [number] * (len(corners) - 2)
        except ValueError as error:
            raise RequestError(f"{path}, line {number}: {error}: repair the file, or export it again") from error
    if not triangles:
        raise RequestError(f"{path} holds no faces: give a Wavefront .obj file with lines `v x y z` and `f a b c`")
    faces = np.array(triangles)
    if (beyond := np.flatnonzero((faces >= len(vertices)).any(axis=1))).size:
        raise RequestError(
            f"{path}, line {lines[beyond[0]]}: there is no point {faces[beyond[0]].max() + 1}, only {len(vertices)}: "
            "repair the file, or export it again"
        )
    return Surface(np.array(vertices), faces)


def _statements(text: str) -> Iterator[tuple[int, list[str]]]:
    """The words and the number of each line, without empty lines; a backslash at its end continues a line."""
    start, words = 0, []  # type: tuple[int, list[str]]
    for number, line in enumerate(text.split("\n"), 1):
        content = line.partition("#")[0].rstrip()
        start = start if words else number
        words = words + content.removesuffix("\\").split()
        if not content.endswith("\\"):
            if words:
                yield start, words
            words = []
    if words:
        yield start, words


def _point(words: list[str]) -> tuple[float, float, float]:
    if len(words) < 3:
        raise ValueError(f"a point needs three numbers, got {len(words)}")
    x, y, z = (float(word) for word in words[:3])
    if not np.isfinite([x, y, z]).all():
        raise ValueError(f"a point must be finite, got {' '.join(words[:3])}")
    return x, y, z


def _corner(word: str, points: int) -> int:
    """The index, from 0, of the point that a corner such as `7/2/3` or `-1` refers to."""
    point, *others = word.split("/")
    try:
        number, _ = int(point), [int(other) for other in others if other]
    except ValueError:
        number = 0
    if number == 0 or len(others) > 2:
        raise ValueError(f"{word!r} is no corner: expected 7, 7/2, 7//3 or 7/2/3, counted from 1")
    if number + points < 0:
        raise ValueError(f"corner {word} reaches back further than the {points} points before it")
    return number - 1 if number > 0 else number + points


def draw(
    mesh: Mesh,
    azimuth: Float[np.ndarray, " n"],
    elevation: Float[np.ndarray, " n"],
    *,
    side: int = SIDE,
    workers: int | None = None,
) -> UInt8[np.ndarray, "n H W"]:
    """The shades of an object that turns about its upright axis, seen from above by an elevation; both in radians.

    At azimuth and elevation 0 the camera looks at it along -z, x to the right. Both sides of a surface are drawn.
    """
    turns = _rotations(np.asarray(azimuth, np.float32), np.asarray(elevation, np.float32))
    step = max(1, TRIANGLES_AT_ONCE * SIDE**2 // (mesh.size * side**2))
    blocks = [turns[start : start + step] for start in range(0, len(turns), step)]
    # NumPy releases the interpreter lock inside each operation.
    with ThreadPoolExecutor(workers or min(8, cores())) as pool:
        return np.concatenate(
            [np.empty((0, side, side), np.uint8), *pool.map(lambda block: _views(mesh, block, side), blocks)]
        )


def _rotations(azimuth: Float32[np.ndarray, " n"], elevation: Float32[np.ndarray, " n"]) -> np.ndarray:
    """Matrices (n, 3, 3) that turn about y, then tilt the top towards the camera."""
    c, s, one, zero = np.cos(azimuth), np.sin(azimuth), np.ones_like(azimuth), np.zeros_like(azimuth)
    turn = np.stack([c, zero, s, zero, one, zero, -s, zero, c], axis=-1).reshape(-1, 3, 3)
    c, s = np.cos(elevation), np.sin(elevation)
    tilt = np.stack([one, zero, zero, zero, c, -s, zero, s, c], axis=-1).reshape(-1, 3, 3)
    return tilt @ turn


def _views(mesh: Mesh, turns: Float32[np.ndarray, "n 3 3"], side: int) -> UInt8[np.ndarray, "n H W"]:
    """A few views, drawn as one tall picture with one view below the other."""
    fine_side = FINER * side
    placed, normals = _turned(turns, mesh.corners), _turned(turns, mesh.normals)
    near = 1 / (np.float32(DISTANCE) - placed[2])  # inverse depth, which is linear over the picture
    middle = np.repeat(np.float32(fine_side) * (np.arange(len(turns), dtype=np.float32) + np.float32(0.5)), mesh.size)
    x = np.float32(fine_side / 2) + placed[0] * near * np.float32(fine_side / 2 * FOCAL)
    y = middle - placed[1] * near * np.float32(fine_side / 2 * FOCAL)
    front = (x[1] - x[0]) * (y[2] - y[0]) <= (x[2] - x[0]) * (y[1] - y[0])  # counter-clockwise, while y points down
    drawn = np.flatnonzero(front) if mesh.closed else np.arange(len(front))
    x, y, near = x.take(drawn, axis=1), y.take(drawn, axis=1), near.take(drawn, axis=1)
    triangle, row, column = _covered(x, y)
    second, third = _weights(x, y, triangle, row, column)

    # Depth in the upper bits, position in the list in the lower: the largest number is the nearest surface.
    depth = _between(near, triangle, second, third).view(np.uint32)  # floats above 0 are in the order of their bits
    nearest = np.zeros(len(turns) * fine_side * fine_side, np.uint64)
    candidate = np.arange(len(triangle), dtype=np.uint64)
    np.maximum.at(nearest, row * fine_side + column, depth.astype(np.uint64) << 32 | candidate)
    hit = np.flatnonzero(nearest)
    visible = (nearest.take(hit) & 0xFFFFFFFF).astype(np.intp)

    triangle, second, third = drawn.take(triangle.take(visible)), second.take(visible), third.take(visible)
    normal = np.stack([_between(axis, triangle, second, third) for axis in normals])
    fine = np.zeros(len(nearest), np.float32)
    fine[hit] = _shade(np.where(front.take(triangle), normal, -normal))
    fine = fine.reshape(-1, side, FINER, side, FINER)
    mean = (fine[:, :, 0, :, 0] + fine[:, :, 0, :, 1] + fine[:, :, 1, :, 0] + fine[:, :, 1, :, 1]) / 4
    return np.rint(mean).astype(np.uint8)


def _turned(
    turns: Float32[np.ndarray, "n 3 3"], vectors: Float32[np.ndarray, "3 3 T"]
) -> Float32[np.ndarray, "3 3 nT"]:
    """The vectors of all triangles in the first view, then in the second, and so on."""
    turned = (turns @ vectors.reshape(3, -1)).reshape(len(turns), *vectors.shape)
    return turned.transpose(1, 2, 0, 3).reshape(3, 3, -1)


def _covered(
    x: Float32[np.ndarray, "3 T"], y: Float32[np.ndarray, "3 T"]
) -> tuple[Int[np.ndarray, " P"], Int[np.ndarray, " P"], Int[np.ndarray, " P"]]:
    """Triangle, row and column of every pixel whose centre a triangle covers.

    Two adjacent triangles compute their common edge from the same points in the same order, so no pixel is left out.
    """
    corners = [(x[k], y[k]) for k in range(3)]
    for one, other in ((0, 1), (1, 2), (0, 1)):  # sorted from top to bottom
        corners[one], corners[other] = _in_order(*corners[one], *corners[other])
    top, middle, bottom = corners
    triangle, row = _runs(top[1], bottom[1])
    height = row.astype(np.float32) + np.float32(0.5)
    # On one side the long edge from top to bottom; on the other a short edge, above the middle corner or below it.
    short = np.where(
        height < middle[1].take(triangle),
        _crossing(top, middle, triangle, height),
        _crossing(middle, bottom, triangle, height),
    )
    long = _crossing(top, bottom, triangle, height)
    run, column = _runs(np.minimum(long, short), np.maximum(long, short))
    return triangle.take(run), row.take(run), column


def _in_order(ax: np.ndarray, ay: np.ndarray, bx: np.ndarray, by: np.ndarray) -> tuple[Points, Points]:
    """Two points, the upper one first."""
    swap = ay > by
    return (np.where(swap, bx, ax), np.minimum(ay, by)), (np.where(swap, ax, bx), np.maximum(ay, by))


def _crossing(a: Points, b: Points, edge: Int[np.ndarray, " n"], height: np.ndarray) -> Float32[np.ndarray, " n"]:
    """The x at which edges from a to b cross horizontal lines at these heights."""
    drop = b[1] - a[1]
    slope = (b[0] - a[0]) / np.where(drop == 0, np.float32(np.inf), drop)
    return a[0].take(edge) + (height - a[1].take(edge)) * slope.take(edge)


def _runs(
    low: Float32[np.ndarray, " n"], high: Float32[np.ndarray, " n"]
) -> tuple[Int[np.ndarray, " P"], Int[np.ndarray, " P"]]:
    """Every whole number i with low <= i + 1/2 < high, for each of the n intervals: the interval, and i."""
    begin = np.ceil(low - np.float32(0.5)).astype(np.intp)
    count = np.ceil(high - np.float32(0.5)).astype(np.intp) - begin
    owner = np.repeat(np.arange(len(count)), count)
    offset = begin - (np.cumsum(count) - count)
    return owner, np.arange(len(owner)) + offset.take(owner)


def _weights(
    x: Float32[np.ndarray, "3 T"],
    y: Float32[np.ndarray, "3 T"],
    triangle: Int[np.ndarray, " P"],
    row: Int[np.ndarray, " P"],
    column: Int[np.ndarray, " P"],
) -> tuple[Float32[np.ndarray, " P"], Float32[np.ndarray, " P"]]:
    """The weights of a triangle's second and third corner at each pixel; the first corner has the rest."""
    x1, y1, x2, y2 = x[1] - x[0], y[1] - y[0], x[2] - x[0], y[2] - y[0]
    area = x1 * y2 - x2 * y1  # twice, with a sign
    area = np.where(area == 0, np.float32(np.inf), area)
    right = column.astype(np.float32) + np.float32(0.5) - x[0].take(triangle)
    down = row.astype(np.float32) + np.float32(0.5) - y[0].take(triangle)
    second = right * (y2 / area).take(triangle) - down * (x2 / area).take(triangle)
    third = down * (x1 / area).take(triangle) - right * (y1 / area).take(triangle)
    second = np.minimum(np.maximum(second, 0), 1)  # rounding in a thin triangle may put them outside [0, 1]
    return second, np.minimum(np.maximum(third, 0), 1 - second)


def _between(
    corner: Float32[np.ndarray, "3 T"],
    triangle: Int[np.ndarray, " P"],
    second: Float32[np.ndarray, " P"],
    third: Float32[np.ndarray, " P"],
) -> Float32[np.ndarray, " P"]:
    """Values at the corners, interpolated at pixels."""
    first = corner[0].take(triangle)
    return first + second * (corner[1].take(triangle) - first) + third * (corner[2].take(triangle) - first)


def _shade(normal: Float32[np.ndarray, "3 P"]) -> Float32[np.ndarray, " P"]:
    """The shade of a matt surface with a highlight; normals may have any length."""
    length = np.maximum(np.sqrt((normal * normal).sum(axis=0)), np.float32(1e-6))
    matt, gloss = np.maximum(LIGHT @ normal, 0) / length, np.maximum(HALFWAY @ normal, 0) / length
    for _ in range(SHININESS_DOUBLINGS):
        gloss = gloss * gloss
    return np.minimum(FULL * (AMBIENT + (1 - AMBIENT) * matt) + GLOSS * gloss, 255)
