"""dSprites: a white square, ellipse or heart on black, in six sizes, forty orientations and 32 x 32 places.

Rendered here from its geometry, not downloaded. A shape is a polygon, turned, scaled and placed in float32, its corners
snapped to 1/256 of a pixel as a graphics card does, and a pixel is white when its centre is inside. Among 46,080
published images, three differ in one pixel each.

A row of 64 pixels is one 64-bit word. An edge that crosses the row's centre line at column c flips every pixel from c
on, so the row is the exclusive or of one mask per crossing. Which edges cross which rows depends on the vertical
position alone, so all 32 horizontal positions share the search: 47 million rows cost some 40 million masks.

At another size nothing is stored. A pixel's centre is turned back into the shape's own axes, where a formula says
whether it is inside.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import zipfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32, Int, Key, UInt32, UInt64

from sober.errors import MissingError, RequestError, brief
from sober.files import npy_rows
from sober.types import Factor
from sober.worlds.cache import cached_array
from sober.worlds.drawn.sized import Sized
from sober.worlds.world import Grid

SCALES = np.linspace(0.5, 1.0, 6)
ANGLES = 2 * np.pi * np.arange(40) / 39
CENTRES = 16 + 32 * np.arange(32) / 31  # in pixels
SHAPES = ("square", "ellipse", "heart")
HALF = 9.6  # of the square's side, in pixels
LONG = 1.33  # the ellipse's half axes are LONG and 1 / LONG
LOBES, SINK = 14.5, 0.15  # the heart's height, and how far it lies above the middle
SUBPIXELS = 256
RENDERER = "1"  # part of the cache's name: a change that alters any pixel raises it
PUBLISHED = (737280, 64, 64)
ADVICE = "expected dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz as published"


class DSprites(Sized, Grid):
    """`dsprites`, `dsprites:size=SIDE`, or `dsprites:file=PATH` for the pictures of the published npz."""

    name = "dsprites"
    summary = "a white shape on black: 5 factors, 737,280 pictures of 64 x 64"
    reference = "Matthey, Higgins, Hassabis & Lerchner (2017): dSprites, disentanglement testing sprites dataset"
    factors = (
        Factor("shape", 3, "categorical", SHAPES),
        Factor("scale", 6, "ordinal", tuple(SCALES.tolist())),
        Factor("orientation", 40, "cyclic", tuple(ANGLES.tolist())),
        Factor("x", 32, "ordinal", tuple((np.arange(32) / 31).tolist())),
        Factor("y", 32, "ordinal", tuple((np.arange(32) / 31).tolist())),
    )
    image_shape = (64, 64, 1)
    # Thirds of a turn look different on all shapes; quarters look alike on a square.
    question_values: Mapping[str, int] = MappingProxyType({"orientation": 3})

    def __init__(self, file: str | None = None, size: int | str | None = None) -> None:
        super().__init__(size)
        self.file = None if file is None else Path(file).expanduser().resolve()
        if self.file is not None and not self.own_size:
            raise RequestError(f"{self.file} holds pictures of 64 x 64: give file=PATH or size={self.side}, not both")

    @property
    def options(self) -> Mapping[str, object]:
        return {"file": self.file, **super().options}

    def absent(self) -> str | None:
        return None if self.file is None or self.file.exists() else _missing_message(self.file)

    @functools.cached_property
    def label(self) -> str:
        return self.label_with(*self.file_fingerprint)

    @property
    def file_fingerprint(self) -> tuple[str, ...]:
        """16 hexadecimal digits of the published pictures; empty if they are drawn."""
        return () if self.file is None else (hashlib.sha256(self._rows.data).hexdigest()[:16],)

    def make_data(self) -> UInt32[np.ndarray, "737280 128"] | tuple[()]:
        return self._rows.view("<u4").reshape(-1, 128) if self.own_size else ()

    def pixels(self, data: Any, index: Int[Array, " n"], key: Key[Array, ""]) -> Float[Array, "n H W 1"]:
        if not self.own_size:
            return draw(*jnp.unravel_index(index, self._sizes), side=self.side)
        words = data[index]  # (n, 128): two words a row, the lowest bit leftmost
        bits = (words[..., None] >> jnp.arange(32, dtype=jnp.uint32)) & 1
        return bits.astype(jnp.float32).reshape(-1, 64, 64, 1)

    @functools.cached_property
    def _rows(self) -> UInt64[np.ndarray, "737280 64"]:
        return _cached() if self.file is None else _published(self.file)


def _cached() -> UInt64[np.ndarray, "737280 64"]:
    """All pictures from the cache; rendered on first use."""
    return cached_array("drawn", f"dsprites-{RENDERER}", render_all, "rendering dsprites")


def render_all(workers: int = 2) -> UInt64[np.ndarray, "737280 64"]:
    """Every picture, in the published order: shape, scale, orientation, x, y with y fastest."""
    poses = list(itertools.product(range(3), range(6), range(40)))
    rows = np.empty((len(poses), 32, 32, 64), np.uint64)  # (pose, x, y, row)

    def fill(pose: int) -> None:
        shape, scale, angle = poses[pose]
        rows[pose] = _render_pose(*_corners(outline(shape), SCALES[scale], ANGLES[angle]))

    with ThreadPoolExecutor(workers) as pool:  # NumPy releases the interpreter lock inside each operation
        list(pool.map(fill, range(len(poses))))
    return rows.reshape(-1, 64)


def draw(
    shape: Int[Array, " n"],
    scale: Int[Array, " n"],
    orientation: Int[Array, " n"],
    x: Int[Array, " n"],
    y: Int[Array, " n"],
    *,
    side: int,
) -> Float[Array, "n H W 1"]:
    """Pictures of any side by formula: a pixel is white when its centre is inside the shape's smooth outline."""
    centre, size, turn = jnp.asarray(CENTRES), jnp.asarray(SCALES)[scale], jnp.asarray(ANGLES)[orientation]
    place = (jnp.arange(side) + 0.5) * (64 / side)
    right = ((place - centre[x][:, None]) / size[:, None])[:, None, :]
    down = ((place - centre[y][:, None]) / size[:, None])[:, :, None]
    cosine, sine = jnp.cos(turn)[:, None, None], jnp.sin(turn)[:, None, None]
    across, below = (cosine * right - sine * down) / HALF, (sine * right + cosine * down) / HALF  # (n, H, W)
    square = jnp.maximum(jnp.abs(across), jnp.abs(below)) < 1
    ellipse = (across / LONG) ** 2 + (below * LONG) ** 2 < 1
    # At a distance u³ from the heart's axis, its outline has cosines ±√(1 - u²); the lobes are a polynomial of these.
    cosine_squared = jnp.maximum(1 - jnp.cbrt(jnp.abs(across)) ** 2, 0)
    even = 4 - 2 * cosine_squared - 8 * cosine_squared**2
    odd = jnp.sqrt(cosine_squared) * (19 - 8 * cosine_squared)
    heart = jnp.abs(-LOBES * (below + SINK) - even) < odd
    inside = jnp.select([shape[:, None, None] == 0, shape[:, None, None] == 1], [square, ellipse], heart)
    return inside.astype(jnp.float32)[..., None]


def outline(shape: int) -> Float[np.ndarray, "V 2"]:
    """The corners of a shape at scale 1, in pixels from its centre."""
    if SHAPES[shape] == "square":
        return HALF * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
    if SHAPES[shape] == "ellipse":
        t = 2 * np.pi * np.arange(100) / 100
        return HALF * np.stack([LONG * np.cos(t), np.sin(t) / LONG], axis=1)
    t = 2 * np.pi * np.arange(150) / 150
    lobes = 13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)
    return HALF * np.stack([np.sin(t) ** 3, -(lobes / LOBES + SINK)], axis=1)


def _corners(
    shape: Float[np.ndarray, "V 2"], scale: float, angle: float
) -> tuple[Int[np.ndarray, "32 V"], Int[np.ndarray, "32 V"]]:
    """The corners at every x and every y position, in 1/256 pixel, y downwards.

    The arithmetic follows a float32 graphics pipeline, operation by operation: model and projection in one matrix,
    clip space from -1 to 1 with y upwards, then the viewport. The same sums in another order change pixels.
    """
    f = np.float32
    # The cosine of the rounded angle in float64, rounded to float32: the same on every machine.
    turn = float(f(angle))
    a, b = f(f(np.cos(turn)) * f(scale)), f(f(np.sin(turn)) * f(scale))
    unit = f(2 / 64)
    x, y = shape[:, 0].astype(f), shape[:, 1].astype(f)
    left = (CENTRES.astype(f) * unit - f(1))[:, None]
    up = (f(1) - CENTRES.astype(f) * unit)[:, None]
    return _snap((a * unit) * x + (b * unit) * y + left), 64 * SUBPIXELS - _snap((b * unit) * x + (-a * unit) * y + up)


def _snap(clip: Float32[np.ndarray, "32 V"]) -> Int[np.ndarray, "32 V"]:
    return np.rint((clip * np.float32(32) + np.float32(32)).astype(np.float64) * SUBPIXELS).astype(np.int64)


def _render_pose(xs: Int[np.ndarray, "32 V"], ys: Int[np.ndarray, "32 V"]) -> UInt64[np.ndarray, "32 32 64"]:
    """One polygon at all 32 x 32 places: (x, y, row), each row a word with its leftmost pixel in the lowest bit."""
    centres = np.arange(64) * SUBPIXELS + SUBPIXELS // 2
    above = ys[:, :, None] < centres  # (32, V, 64): is the corner above the row's centre line?
    # A crossing is an edge whose two ends lie on different sides; sorted by place and row, so that equal rows adjoin.
    place, row, edge = np.nonzero((above != np.roll(above, -1, axis=1)).transpose(0, 2, 1))
    after = (edge + 1) % xs.shape[1]
    y0, rise = ys[place, edge], ys[place, after] - ys[place, edge]
    # The crossing is at x0 + run·t/|rise|, t its signed height above y0; the first pixel whose centre is not left of it
    # is the ceiling of (x - half a pixel) in whole pixels, in integers throughout.
    height = np.sign(rise) * (centres[row] - y0)
    rise = np.abs(rise)
    x0 = xs[:, edge]  # (32, crossings)
    scaled = (x0 - SUBPIXELS // 2) * rise + (xs[:, after] - x0) * height
    column = np.clip(-((-scaled) // (rise * SUBPIXELS)), 0, 64)
    mask = _FROM_COLUMN[column]
    start = np.flatnonzero(np.diff(place * 64 + row, prepend=-1))
    words = np.zeros((len(xs), 32, 64), np.uint64)
    words[:, place[start], row[start]] = np.bitwise_xor.reduceat(mask, start, axis=1)
    return words


_FROM_COLUMN = np.array([(2**64 - 1) << c & (2**64 - 1) for c in range(65)], np.uint64)


def _missing_message(path: Path) -> str:
    return f"{path} is not there: {ADVICE}"


def _published(path: Path) -> UInt64[np.ndarray, "737280 64"]:
    """The pictures of the published npz, packed block by block: the 3 GB of bytes are never in memory at once."""
    if not path.exists():
        raise MissingError(_missing_message(path))
    try:
        with zipfile.ZipFile(path) as archive, archive.open("imgs.npy") as file:
            rows = np.empty((PUBLISHED[0], 64), np.uint64)
            done = 0
            for images in npy_rows(file, PUBLISHED):
                packed = np.packbits(images, axis=-1, bitorder="little")  # (n, 64, 8)
                rows[done : done + len(images)] = packed.view("<u8")[..., 0]
                done += len(images)
    except Exception as error:  # a damaged archive fails in too many ways to name: decompression, header, encoding
        raise RequestError(f"{path} cannot be read as dSprites ({brief(error)}): {ADVICE}") from error
    return rows
