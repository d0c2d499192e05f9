"""Showcases of chosen models, on disk: pictures, traversals of each latent, and its responses to the factors.

shown/IDENTITY.safetensors   of one model
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8

from sober.defaults import TRAVERSAL_SPAN as SPAN  # noqa: F401 -- imported from here by others
from sober.errors import RequestError, brief
from sober.files import expecting, folder_names, load_arrays, parse_json, save_arrays
from sober.results.runs import Runs
from sober.results.verdict_files import load_verdicts

STEPS = 11  # pictures along a traversal
MODELS_SHOWN = 6  # models on a page, at most

Pictures = UInt8[np.ndarray, "n H W C"]


def showcase_path(folder: Path, identity: str) -> Path:
    """The file with a run's showcase."""
    return folder / "shown" / f"{identity}.safetensors"


def showcase_runs(folder: Path, runs: Runs) -> list[str]:
    """The runs that have a showcase: first the best placed of saved verdicts, then the best by the leading number."""
    identities = {name.removesuffix(".safetensors") for name in folder_names(folder / "shown", ".safetensors")}
    order = np.ma.argsort(-runs.oriented(runs.headline()))  # runs without the number come last
    by_number = runs.run_column("run")[order].tolist()
    placed = [verdict.run for verdict in load_verdicts(folder).values() if verdict.run in by_number]
    return [run for run in dict.fromkeys([*placed, *by_number]) if run in identities][:MODELS_SHOWN]


def save_showcase(path: Path, arrays: Mapping[str, np.ndarray], description: Mapping[str, Any]) -> None:
    """Writes a model's showcase and its description to one safetensors file, atomically. Pictures become PNG bytes."""
    pictures = {name: array for name, array in arrays.items() if array.dtype == np.uint8 and array.ndim > 3}
    shapes = {name: list(array.shape) for name, array in pictures.items()}
    small = {name: pictures_as_png(array) if name in shapes else array for name, array in arrays.items()}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        metadata = {"kind": "sober.showcase", "about": json.dumps(description), "pictures": json.dumps(shapes)}
        save_arrays(path, small, metadata)
    except OSError as error:
        raise RequestError(f"cannot write {path} ({brief(error)}): choose another folder") from error


def load_showcase(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays and the description from a file that `save_showcase` wrote."""
    arrays, metadata = load_arrays(path)
    if metadata.get("kind") != "sober.showcase":
        raise RequestError(f"{path} is not a showcase saved by Sober: move it elsewhere")
    with expecting(path, "a showcase saved by Sober"):
        shapes = parse_json(metadata.get("pictures", "{}"))  # earlier versions saved pictures as plain arrays
        pictures = {name: pictures_of_png(arrays[name], tuple(shape), path) for name, shape in shapes.items()}
        return {**arrays, **pictures}, parse_json(metadata["about"])


def pictures_as_png(pictures: UInt8[np.ndarray, "*n H W C"]) -> UInt8[np.ndarray, " bytes"]:
    """Pictures as one PNG file, one below the other. Similar pictures together take little room."""
    from PIL import Image  # noqa: PLC0415

    sheet = pictures.reshape(-1, *pictures.shape[-2:])  # (n·H, W, C)
    with io.BytesIO() as file:
        Image.fromarray(sheet if sheet.shape[2] == 3 else sheet[..., 0]).save(file, "PNG", optimize=True)
        return np.frombuffer(file.getvalue(), np.uint8)


def pictures_of_png(data: UInt8[np.ndarray, " bytes"], shape: tuple[int, ...], path: Path) -> Pictures:
    """The pictures from the PNG file of `pictures_as_png`; an error if they do not have this shape."""
    from PIL import Image  # noqa: PLC0415

    try:
        with Image.open(io.BytesIO(data.tobytes()), formats=["PNG"]) as image:
            if image.size != (shape[-2], math.prod(shape[:-2])):  # checked before any pixel is decoded
                raise ValueError(f"pictures of another size, {image.size}")
            return np.asarray(image, np.uint8).reshape(shape)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise RequestError(f"{path} has pictures that cannot be read ({brief(error)})") from error
