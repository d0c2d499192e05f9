"""Codes of new pictures: they are prepared as `fit` prepared the pictures that it trained on.

Arrays, files, PIL images and the pictures of an iterable get the size and colours of the model's pictures, and their
aspect ratio is fitted as it was for `fit`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8

from sober.errors import RequestError, UnknownError
from sober.models.encode import encode_pictures
from sober.models.model import BATCH, Model
from sober.requests.fit.given_pictures import is_array
from sober.types import WorldSpec
from sober.worlds import World, world
from sober.worlds.pictures.frame import Frame
from sober.worlds.pictures.from_python import as_bytes, in_frame
from sober.worlds.pictures.own_pictures import OwnPictures


def codes_of_new(model: Model, trained_on: str, pictures: Any) -> Float[np.ndarray, "N D"]:
    """The mean of each picture's codes. `trained_on` is the written form of the world that the model was trained on."""
    frame = _frame_of(WorldSpec.parse(trained_on), model)
    if isinstance(pictures, str | Path):
        pictures = _opened(pictures, frame)
    if isinstance(pictures, World):
        (codes,) = encode_pictures(pictures, [model], pictures.everything())
        return codes.mean
    batches = _batches(pictures, frame, model.image_shape)
    means = [model.encode(batch)[0] for batch in batches]
    return np.concatenate(means) if means else np.empty((0, model.run.latents), np.float32)


def pictures_for(model: Model, name: str | Path, trained_on: str | None = None) -> World:
    """The pictures of a folder or archive in the size and colours of a model's pictures, or the world of this name.

    `trained_on` is the written form of the world that the model was trained on, if it is known.
    """
    return _opened(name, _frame_of(WorldSpec.parse(trained_on or model.run.world), model))


def _frame_of(spec: WorldSpec, model: Model) -> Frame:
    """The size and colours of the model's pictures."""
    height, width, channels = model.image_shape
    fit = spec.options.get("fit", "crop") if spec.name == OwnPictures.name else "crop"
    return Frame.of(f"{height}x{width}", fit, "grey" if channels == 1 else "rgb")


def _opened(name: str | Path, frame: Frame) -> World:
    """The pictures of a folder or archive in this frame, or the world of this name."""
    path = Path(name).expanduser()
    try:
        if path.exists():
            return OwnPictures(path, size=f"{frame.height}x{frame.width}", fit=frame.fit, mode=frame.mode)
        return world(str(name))
    except UnknownError as error:
        raise RequestError(f"{name} is neither a folder or archive of pictures nor a world") from error


def _batches(pictures: Any, frame: Frame, shape: tuple[int, int, int]) -> Iterator[UInt8[np.ndarray, "n H W C"]]:
    """The pictures as bytes, a few at a time."""
    if not is_array(pictures):
        return _framed_batches(pictures, frame)
    if len(pictures.shape) not in (3, 4):
        raise RequestError(f"pictures must be (N, H, W), (N, H, W, C) or (N, C, H, W), got {tuple(pictures.shape)}")
    if (*pictures.shape[1:], 1)[:3] != shape:
        return _framed_batches(pictures, frame)
    starts = range(0, len(pictures), BATCH)
    return (as_bytes(np.asarray(pictures[start : start + BATCH]), "the array") for start in starts)


def _framed_batches(pictures: Iterable[Any], frame: Frame) -> Iterator[UInt8[np.ndarray, "n H W C"]]:
    batch: list[np.ndarray] = []
    for number, picture in enumerate(pictures):
        batch.append(in_frame(frame, number, picture))
        if len(batch) == BATCH:
            yield np.stack(batch)
            batch = []
    if batch:
        yield np.stack(batch)
