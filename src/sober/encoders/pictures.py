"""Pictures as encoders take them: floats, another number of channels, another size, means over blocks."""

from __future__ import annotations

import functools

import numpy as np
from jaxtyping import Float, UInt8

Floats = Float[np.ndarray, "n H W C"]


def as_floats(pictures: UInt8[np.ndarray, "n H W C"]) -> Floats:
    """Bytes as float32 from 0 to 1."""
    return pictures.astype(np.float32) / np.float32(255)


def with_channels(pictures: np.ndarray, channels: int | None) -> np.ndarray:
    """Pictures of 1 or 3 channels: grey is repeated, colours are averaged. None leaves them alone."""
    if channels is None or pictures.shape[3] == channels:
        return pictures
    if channels == 1:
        means = pictures.mean(axis=3, keepdims=True, dtype=np.float32)
        return (means.round() if pictures.dtype == np.uint8 else means).astype(pictures.dtype)
    return np.repeat(pictures[..., :1], channels, axis=3)


def with_side(pictures: UInt8[np.ndarray, "n H W C"], side: int | None) -> UInt8[np.ndarray, "n S S C"]:
    """Bytes resized to a square; None leaves them alone."""
    if side is None or pictures.shape[1:3] == (side, side):
        return pictures
    return resized(pictures.astype(np.float32), side, side).round().clip(0, 255).astype(np.uint8)


def resized(pictures: Floats, height: int | None, width: int | None) -> Floats:
    """Pictures of another size: linear interpolation if larger, means over several pixels if smaller."""
    for axis, size in ((1, height), (2, width)):
        if size not in (None, pictures.shape[axis]):
            weights = weights_of(pictures.shape[axis], size).astype(pictures.dtype)
            pictures = np.moveaxis(np.tensordot(weights, pictures, axes=(1, axis)), 0, axis)
    return pictures


@functools.lru_cache(maxsize=8)
def weights_of(before: int, after: int) -> Float[np.ndarray, "after before"]:
    """The weight of each old pixel in each new one: a triangle about its middle, as wide as the larger of both pixels.

    Pixels are squares whose middles lie at halves, so the corners of pictures stay in place.
    """
    step = before / after
    middles = (np.arange(after) + 0.5) * step
    distance = np.abs(middles[:, None] - (np.arange(before) + 0.5)) / max(step, 1.0)
    weights = np.clip(1 - distance, 0, None)
    return weights / weights.sum(axis=1, keepdims=True)


def block_means(maps: Float[np.ndarray, "n H W C"], most: int) -> Float[np.ndarray, "n h w C"]:
    """Means over blocks of pixels, so that at most `most` x `most` remain in each channel."""
    for axis in (1, 2):
        edges = np.linspace(0, maps.shape[axis], min(most, maps.shape[axis]) + 1).round().astype(int)
        sums = np.add.reduceat(maps, edges[:-1], axis=axis, dtype=np.float64)
        maps = sums / np.diff(edges).reshape([-1 if a == axis else 1 for a in range(4)])
    return maps
