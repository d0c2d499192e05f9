"""Probed layers on disk, in a folder of results.

probe/RUN.safetensors               a layer: its numbers, guesses about the test rows, and which pictures show it
probe/pictures-DIGEST.safetensors   small versions of these pictures; the digest is the world's
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int, UInt8

from sober.errors import RequestError
from sober.files import expecting, load_arrays, parse_json, save_arrays
from sober.probing.knowledge import Number
from sober.probing.layer import Layer
from sober.types import Factor

FOLDER = "probe"
VERSION = 1  # a change of how a number is computed raises it, and layers are measured again
TEXTS = ("world", "encoder", "name", "pooling", "place", "width", "rows", "reference", "run")
ARRAYS = ("guesses", "truth", "nearest", "along")


def layer_path(folder: Path, run: str) -> Path:
    return folder / FOLDER / f"{run}.safetensors"


def save_layer(folder: Path, layer: Layer, settings: Mapping[str, object]) -> None:
    """Writes a layer. `settings` say how it was measured."""
    path = layer_path(folder, layer.run)
    path.parent.mkdir(exist_ok=True)
    header = {
        **{name: getattr(layer, name) for name in TEXTS},
        "about": [dataclasses.asdict(factor) for factor in layer.about],
        "numbers": [[_plain(value) for value in number] for number in layer.numbers],
    }
    metadata = {"kind": "sober.layer", "layer": json.dumps(header), "settings": _settings_text(settings)}
    save_arrays(path, {name: getattr(layer, name) for name in ARRAYS}, metadata)


def load_layer(folder: Path, run: str, settings: Mapping[str, object] | None = None) -> Layer | None:
    """The layer of a run; None if there is none, or if it was measured with other settings."""
    path = layer_path(folder, run)
    if not path.exists():
        return None
    arrays, metadata = load_arrays(path)
    with expecting(path, "a file of a probed layer"):
        if settings is not None and metadata["settings"] != _settings_text(settings):
            return None
        header = parse_json(metadata["layer"])
        all_factors = tuple(Factor(**{**factor, "values": tuple(factor["values"])}) for factor in header["about"])
        numbers = tuple(_number(fields) for fields in header["numbers"])
        fields: dict[str, Any] = {name: header[name] for name in TEXTS} | {name: arrays[name] for name in ARRAYS}
        return Layer(about=all_factors, numbers=numbers, **fields)


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def _number(fields: Sequence[Any]) -> Number:
    return Number(*(math.nan if value is None else value for value in fields))  # type: ignore[arg-type]


def _settings_text(settings: Mapping[str, object]) -> str:
    return json.dumps({"version": VERSION, **settings}, sort_keys=True)


def save_pictures(
    folder: Path, digest: str, index: Int[np.ndarray, " P"], images: UInt8[np.ndarray, "P H W C"]
) -> None:
    """Writes small versions of pictures of a world. They replace earlier ones."""
    (folder / FOLDER).mkdir(exist_ok=True)
    save_arrays(_pictures_path(folder, digest), {"index": index, "images": images}, {"kind": "sober.pictures"})


def load_pictures(folder: Path, digest: str) -> dict[int, UInt8[np.ndarray, "H W C"]]:
    """The small pictures of a world, by index."""
    path = _pictures_path(folder, digest)
    if not path.exists():
        return {}
    arrays, _ = load_arrays(path)
    with expecting(path, "a file of pictures"):
        if arrays["images"].ndim != 4 or arrays["images"].dtype != np.uint8:
            raise RequestError(f"{path} holds no pictures")
        return dict(zip(arrays["index"].tolist(), arrays["images"], strict=True))


def _pictures_path(folder: Path, digest: str) -> Path:
    return folder / FOLDER / f"pictures-{digest}.safetensors"
