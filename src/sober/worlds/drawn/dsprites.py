"""dSprites: a white square, ellipse or heart on black, in six sizes, forty orientations and 32 x 32 places.

Rendered here from its geometry, not downloaded. A shape is a polygon, turned, scaled and placed in float32, its corners
snapped to 1/256 of a pixel as a graphics card does, and a pixel is white when its centre is inside. Of 46,080 published
images three come out with one pixel different.

A row of 64 pixels is one 64-bit word. An edge that crosses the row's centre line at column c flips every pixel from c
on, so the row is the exclusive or of one mask per crossing. Which edges cross which rows depends on the vertical
position alone, so all 32 horizontal positions share the search: 47 million rows cost some 40 million masks.
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

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32, Int, Key, UInt32, UInt64

from sober.errors import MissingError, RequestError, brief
from sober.files import npy_rows
from sober.types import Factor
from sober.worlds.cache import cached_array
from sober.worlds.world import Grid

SCALES = np.linspace(0.5, 1.0, 6)
ANGLES = 2 * np.pi * np.arange(40) / 39
CENTRES = 16 + 32 * np.arange(32) / 31  # in pixels
SHAPES = ("square", "ellipse", "heart")
SUBPIXELS = 256
RENDERER = "1"  # part of the cache's name: a change that alters any pixel raises it
PUBLISHED = (737280, 64, 64)
ADVICE = "expected dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz as published"


class DSprites(Grid):
    """`dsprites`, or `dsprites:file=PATH` for the pictures of the published npz."""

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
    # Thirds of a turn look different on all shapes; on a square, quarters do not.
    question_values: Mapping[str, int] = MappingProxyType({"orientation": 3})

    def __init__(self, file: str | None = None) -> None:
        self.file = None if file is None else Path(file).expanduser().resolve()

    @property
    def spec(self) -> str:
        return self.name if self.file is None else f"{self.name}:file={self.file}"

    def absent(self) -> str | None:
        return None if self.file is None or self.file.exists() else _not_there(self.file)

    @functools.cached_property
    def label(self) -> str:
        if self.file is None:
            return self.name
        return f"{self.name}:{hashlib.sha256(self._rows.data).hexdigest()[:16]}"

    def make_data(self) -> UInt32[np.ndarray, "737280 128"]:
        return self._rows.view("<u4").reshape(-1, 128)

    def pixels(
        self, data: UInt32[Array, "737280 128"], index: Int[Array, " n"], key: Key[Array, ""]
    ) -> Float[Array, "n 64 64 1"]:
        words = data[index]  # (n, 128): two words a row, the lowest bit leftmost
        bits = (words[..., None] >> jnp.arange(32, dtype=jnp.uint32)) & 1
        return bits.astype(jnp.float32).reshape(-1, 64, 64, 1)

    @functools.cached_property
    def _rows(self) -> UInt64[np.ndarray, "737280 64"]:
        return _cached() if self.file is None else _published(self.file)


def _cached() -> UInt64[np.ndarray, "737280 64"]:
    """All pictures from the cache, rendered and stored on first use."""
    return cached_array("drawn", f"dsprites-{RENDERER}", render_all, "rendering dsprites")


def render_all(workers: int = 2) -> UInt64[np.ndarray, "737280 64"]:
    """Every picture, in the published order: shape, scale, orientation, x, y with y fastest."""
    poses = list(itertools.product(range(3), range(6), range(40)))
    rows = np.empty((len(poses), 32, 32, 64), np.uint64)  # (pose, x, y, row)

    def fill(pose: int) -> None:
        shape, scale, angle = poses[pose]
        rows[pose] = _render_pose(*_corners(outline(shape), SCALES[scale], ANGLES[angle]))

    with ThreadPoolExecutor(workers) as pool:  # NumPy lets go of the interpreter lock inside each operation
        list(pool.map(fill, range(len(poses))))
    return rows.reshape(-1, 64)


def outline(shape: int) -> Float[np.ndarray, "V 2"]:
    """The corners of a shape at scale 1, in pixels from its centre."""
    half = 9.6
    if SHAPES[shape] == "square":
        return half * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
    if SHAPES[shape] == "ellipse":
        t = 2 * np.pi * np.arange(100) / 100
        return half * np.stack([1.33 * np.cos(t), np.sin(t) / 1.33], axis=1)
    t = 2 * np.pi * np.arange(150) / 150
    lobes = 13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)
    return half * np.stack([np.sin(t) ** 3, -(lobes / 14.5 + 0.15)], axis=1)


def _corners(
    shape: Float[np.ndarray, "V 2"], scale: float, angle: float
) -> tuple[Int[np.ndarray, "32 V"], Int[np.ndarray, "32 V"]]:
    """The corners at every x and every y position, in 1/256 pixel, y downwards.

    The arithmetic is that of a float32 graphics pipeline, operation by operation: model and projection in one matrix,
    clip space from -1 to 1 with y upwards, then the viewport. Another order of the same sums changes pixels.
    """
    f = np.float32
    # The cosine of the rounded angle, rounded once more: the same on every machine, whatever its float32 library says.
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


def _not_there(path: Path) -> str:
    return f"{path} is not there: {ADVICE}"


def _published(path: Path) -> UInt64[np.ndarray, "737280 64"]:
    """The pictures of the published npz, packed as they stream past: the 3 GB of bytes are never held at once."""
    if not path.exists():
        raise MissingError(_not_there(path))
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
