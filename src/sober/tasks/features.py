"""What a picture is described by, so that sets of pictures can be compared: a function, or the network of an ONNX file.

A function takes pictures (n, H, W, C), floats from 0 to 1, and gives (n, F) numbers. A file is run by ONNX Runtime on
pictures as it takes them: resized to its size, one channel thrice for its three or the mean of three for its one, black
and white at the numbers that it takes them for.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from sober.errors import RequestError, brief, listed

Pictures = Float[np.ndarray, "n H W C"]
Features = Callable[[Pictures], Float[np.ndarray, "n F"]]

BLOCKS = 8  # along each side
DTYPES = {"tensor(float)": "f4", "tensor(float16)": "f2", "tensor(double)": "f8", "tensor(uint8)": "u1"}


def pixels(images: Pictures) -> Float[np.ndarray, "n F"]:
    """Means of 8 x 8 blocks, channel by channel: how a picture looks from far away. Not what the literature uses."""
    for axis in (1, 2):
        edges = np.linspace(0, images.shape[axis], min(BLOCKS, images.shape[axis]) + 1).round().astype(int)
        sums = np.add.reduceat(images, edges[:-1], axis=axis, dtype=np.float64)
        images = sums / np.diff(edges).reshape([-1 if a == axis else 1 for a in range(4)])
    return images.reshape(len(images), -1)


# By name; a study's file may add its own. What is no name here is the path of an ONNX file.
FEATURES: dict[str, Features] = {"pixels": pixels}


def is_file(features: str) -> bool:
    return features not in FEATURES and features.endswith(".onnx")


def check_name(features: str) -> None:
    if features not in FEATURES and not is_file(features):
        raise RequestError(f"fid: features must be {listed(FEATURES)} or the path of an .onnx file, not {features!r}")


def fingerprint(path: str) -> str:
    """The SHA-256 of a file, in hexadecimal; none where there is no such file."""
    file = Path(path).expanduser()
    if not file.is_file():
        return ""
    known = file.stat()
    return _fingerprint(file, known.st_mtime_ns, known.st_size)


@functools.lru_cache(maxsize=16)
def _fingerprint(file: Path, changed: int, size: int) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def why_not(features: str, sha256: str) -> str:
    """Why these features cannot be had here; empty where they can."""
    if not is_file(features):
        return ""
    if not (there := fingerprint(features)):
        return f"there is no file {features}: give the path of an ONNX file that gives features"
    if there != sha256:
        return f"{features} has SHA-256 {there}, not {sha256}: another network's distances would not compare"
    if importlib.util.find_spec("onnxruntime") is None:
        return "features of an ONNX file need the package onnxruntime: pip install 'sober[onnx]'"
    return ""


def features_of(features: str, black: float, white: float) -> Features:
    """The features of pictures, checked: as many for each picture, and finite."""
    compute = network(features, black, white) if is_file(features) else FEATURES[features]

    def checked(images: Pictures) -> Float[np.ndarray, "n F"]:
        rows = np.asarray(compute(images))
        if rows.ndim != 2 or len(rows) != len(images) or not rows.shape[1]:
            raise RequestError(f"fid: {features} gave {rows.shape} for {len(images)} pictures: it must give (n, F)")
        if not np.isfinite(rows).all():
            raise RequestError(f"fid: {features} gave numbers that are not finite: check what range of pixels it takes")
        return rows

    return checked


def network(path: str, black: float, white: float) -> Features:
    """The first result of a network in an ONNX file, whose one input is pictures."""
    try:
        import onnxruntime  # noqa: PLC0415 -- an optional package
    except ImportError as error:
        raise RequestError(why_not(path, fingerprint(path)) or brief(error)) from error
    try:
        session = onnxruntime.InferenceSession(
            str(Path(path).expanduser()), providers=onnxruntime.get_available_providers()
        )
    except Exception as error:  # whatever the runtime finds wrong with a file has a type of its own
        raise RequestError(f"fid: {path} is not a network that ONNX Runtime can run ({brief(error)})") from error
    inputs, first = session.get_inputs(), session.get_outputs()[0].name
    layout = Layout.of(path, inputs)

    def compute(images: Pictures) -> Float[np.ndarray, "n F"]:
        given = layout.arranged(images, black, white)
        size = layout.at_once or len(given)
        parts = []
        for start in range(0, len(given), size):
            part = given[start : start + size]
            filled = np.concatenate([part, np.repeat(part[-1:], size - len(part), axis=0)])
            (rows,) = session.run([first], {inputs[0].name: filled})
            parts.append(rows[: len(part)])
        rows = np.concatenate(parts)
        if rows.ndim > 2 and rows.size != rows.shape[0] * rows.shape[1]:
            raise RequestError(f"fid: {path} gives maps of shape {rows.shape[1:]}: export it up to its last pooling")
        return rows.reshape(len(rows), -1)

    return compute


class Layout:
    """How a network takes pictures. What its file leaves open is as the pictures have it."""

    def __init__(self, shape: list[int | None], dtype: str, first: bool) -> None:
        self.at_once, self.dtype, self.first = shape[0], np.dtype(dtype), first
        self.channels = shape[1] if first else shape[3]
        self.size = (shape[2], shape[3]) if first else (shape[1], shape[2])

    @staticmethod
    def of(path: str, inputs: list[Any]) -> Layout:
        shape = [size if isinstance(size, int) and size > 0 else None for size in inputs[0].shape]
        first = len(shape) == 4 and shape[1] in (1, 3)
        if len(inputs) != 1 or inputs[0].type not in DTYPES or not (first or (len(shape) == 4 and shape[3] in (1, 3))):
            raise RequestError(
                f"fid: {path} takes {[(each.name, each.type, each.shape) for each in inputs]}, and must take pictures "
                "alone: (n, 1 or 3, H, W) or (n, H, W, 1 or 3)"
            )
        return Layout(shape, DTYPES[inputs[0].type], first)

    def arranged(self, images: Pictures, black: float, white: float) -> np.ndarray:
        if images.shape[3] != self.channels:
            images = images.mean(axis=3, keepdims=True) if self.channels == 1 else np.repeat(images[..., :1], 3, axis=3)
        images = black + (white - black) * resized(images, *self.size)
        images = images.transpose(0, 3, 1, 2) if self.first else images
        return np.ascontiguousarray(images.round() if self.dtype.kind == "u" else images, self.dtype)


def resized(images: Pictures, height: int | None, width: int | None) -> Pictures:
    """Pictures of another size, between whose pixels one goes in a straight line; a smaller one takes wider means."""
    for axis, size in ((1, height), (2, width)):
        if size not in (None, images.shape[axis]):
            weights = weights_of(images.shape[axis], size).astype(images.dtype)
            images = np.moveaxis(np.tensordot(weights, images, axes=(1, axis)), 0, axis)
    return images


@functools.lru_cache(maxsize=8)
def weights_of(before: int, after: int) -> Float[np.ndarray, "after before"]:
    """What each new pixel takes of the old ones: a triangle about its middle, as wide as the larger of both pixels.

    Pixels are squares whose middles lie at halves, so the corners of pictures stay where they are.
    """
    step = before / after
    middles = (np.arange(after) + 0.5) * step
    distance = np.abs(middles[:, None] - (np.arange(before) + 0.5)) / max(step, 1.0)
    weights = np.clip(1 - distance, 0, None)
    return weights / weights.sum(axis=1, keepdims=True)
