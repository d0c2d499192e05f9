"""Features of pictures, to compare sets of pictures: from a function, or from the network of an ONNX file.

A function takes pictures (n, H, W, C), floats from 0 to 1, and returns (n, F) numbers. ONNX Runtime runs a file.
Pictures are adapted to the network: resized, one channel repeated for three or three averaged for one, black and white
scaled to the numbers that the network expects.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
from collections.abc import Callable
from pathlib import Path

import numpy as np
from jaxtyping import Float

from sober.encoders.onnx_files import Network
from sober.encoders.pictures import block_means
from sober.errors import RequestError, listed
from sober.installation import needs_extra

Pictures = Float[np.ndarray, "n H W C"]
Features = Callable[[Pictures], Float[np.ndarray, "n F"]]

BLOCKS = 8  # along each side


def pixels(images: Pictures) -> Float[np.ndarray, "n F"]:
    """Means over 8 x 8 blocks of each channel: a picture from far away. The literature uses other features."""
    return block_means(images, BLOCKS).reshape(len(images), -1)


# By name; a study's file may add its own. Any other word is the path of an ONNX file.
FEATURES: dict[str, Features] = {"pixels": pixels}


def is_file(features: str) -> bool:
    return features not in FEATURES and features.endswith(".onnx")


def check_name(features: str) -> None:
    if features not in FEATURES and not is_file(features):
        raise RequestError(f"fid: features must be {listed(FEATURES)} or the path of an .onnx file, not {features!r}")


def fingerprint(path: str) -> str:
    """The SHA-256 of a file, in hexadecimal; empty if there is no such file."""
    file = Path(path).expanduser()
    if not file.is_file():
        return ""
    status = file.stat()
    return _fingerprint(file, status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=16)
def _fingerprint(file: Path, changed: int, size: int) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def why_not(features: str, sha256: str) -> str:
    """Why these features cannot be computed here; empty if they can."""
    if not is_file(features):
        return ""
    if not (actual := fingerprint(features)):
        return f"there is no file {features}: give the path of an ONNX file that gives features"
    if actual != sha256:
        return f"{features} has SHA-256 {actual}, not {sha256}: another network's distances would not compare"
    if importlib.util.find_spec("onnxruntime") is None:
        return needs_extra("a network in an ONNX file", "onnx")
    return ""


def features_of(features: str, black: float, white: float) -> Features:
    """The function that computes features, checked: equally many for each picture, and finite."""
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
    """The first output of a network in an ONNX file. Its only input must be pictures."""
    opened = Network(path, str(Path(path).expanduser()))

    def compute(images: Pictures) -> Float[np.ndarray, "n F"]:
        (rows,) = opened.run(opened.outputs[:1], opened.layout.arranged(images, black, white))
        if rows.ndim > 2 and rows.size != rows.shape[0] * rows.shape[1]:
            raise RequestError(f"fid: {path} gives maps of shape {rows.shape[1:]}: export it up to its last pooling")
        return rows.reshape(len(rows), -1)

    return compute
