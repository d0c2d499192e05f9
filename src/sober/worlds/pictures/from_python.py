"""Worlds made of pictures from Python: an array, an iterable, or a dataset.

The pictures are kept in the cache under a hash of their content. The same pictures and labels are found there again,
and a family trained on them can be opened later on the same machine.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8

from sober.errors import RequestError, brief, choices, counted, listed
from sober.parallel import map_in_order
from sober.types import Factor
from sober.worlds.pictures.cached_pictures import PictureNotes, cache_pictures
from sober.worlds.pictures.frame import Frame, pillow
from sober.worlds.pictures.label_table import PictureLabels, Value, factors_of
from sober.worlds.pictures.own_pictures import OwnPictures
from sober.worlds.pictures.picture_files import AHEAD

BLOCK = 256  # pictures of an array to read at a time
CHANNELS = (1, 3, 4)  # of a picture: grey, colours, colours with transparency


def from_array(
    images: Any, labels: Any = None, names: Sequence[str] | None = None, kinds: Mapping[str, str] | None = None
) -> OwnPictures:
    """A world of pictures in an array: (N, H, W), (N, H, W, 1) or (N, H, W, 3), bytes or floats in [0, 1].

    `labels` is (N, K), or columns by name; `names` and `kinds` describe them. The pictures are kept in the cache, so a
    family trained on them can be opened later on this machine.

    >>> sober.worlds.from_array(images, labels={"species": species, "height": height})
    """
    images = images if hasattr(images, "shape") else np.asarray(images)
    shape = tuple(images.shape)
    if len(shape) not in (3, 4) or (len(shape) == 4 and shape[3] not in (1, 3)) or 0 in shape:
        hint = ": put the channels last" if len(shape) == 4 and shape[1] in (1, 3) else ""
        raise RequestError(f"pictures must be (N, H, W), (N, H, W, 1) or (N, H, W, 3), got shape {shape}{hint}")
    framed = (*shape[1:3], shape[3] if len(shape) == 4 else 1)
    notes = PictureNotes(labels=_labels_of(_columns(labels, names), kinds or {}, shape[0]))

    def rows() -> Iterator[UInt8[np.ndarray, "H W C"]]:
        for start in range(0, shape[0], BLOCK):  # a mapped or device array is never copied as a whole
            yield from as_bytes(np.asarray(images[start : start + BLOCK]), "the array").reshape(-1, *framed)

    return OwnPictures(cache=cache_pictures(_not_all_dark(rows()), framed, lambda: notes).digest)


def from_iterable(
    iterable: Iterable[Any],
    size: int | str = 64,
    fit: str = "crop",
    mode: str = "auto",
    labels: Any = None,
    names: Sequence[str] | None = None,
    kinds: Mapping[str, str] | None = None,
) -> OwnPictures:
    """A world of arrays, PIL images or picture files of any sizes, in an iterable; only a few are in memory at a time.

    `size`, `fit` and `mode` are described at `OwnPictures`, the other arguments at `from_array`.
    """
    frame = Frame.of(size, fit, mode)
    columns = _columns(labels, names)
    return _from_frames(iterable, frame, lambda count: _labels_of(columns, kinds or {}, count))


def from_dataset(
    dataset: Any,
    image: str = "image",
    labels: Sequence[str] = (),
    *,
    size: int | str = 64,
    fit: str = "crop",
    mode: str = "auto",
    kinds: Mapping[str, str] | None = None,
) -> OwnPictures:
    """A world from a Hugging Face dataset, or anything with a length whose items are dictionaries.

    `image` is the column of pictures, `labels` the columns that become factors. A column whose feature has `names` is
    categorical with these classes, in their order; -1 then means that the class is not known.
    """
    if not len(dataset):
        raise RequestError("the dataset is empty")
    columns, kinds = list(dataset[0]), kinds or {}
    if missing := {image, *labels}.difference(columns):
        raise RequestError(f"the dataset has no column {listed(missing)}: {choices(min(missing), columns)}")
    features = getattr(dataset, "features", None) or {}
    classes = {name: list(getattr(features.get(name), "names", None) or ()) for name in labels}
    values: dict[str, list[Any]] = {name: [] for name in labels}
    if unknown := kinds.keys() - {name for name in labels if not classes[name]}:
        raise RequestError(f"kinds names {listed(unknown)}, which is not a column of labels, or has its classes named")

    def pictures() -> Iterator[Any]:
        for number in range(len(dataset)):
            row = dataset[number]
            for name in labels:
                values[name].append(row[name])
            yield row[image]

    def make_labels(count: int) -> PictureLabels:
        columns = [
            _class_labels(name, classes[name], values[name])
            if classes[name]
            else _labels_of(_columns({name: values[name]}, None), {k: v for k, v in kinds.items() if k == name}, count)
            for name in labels
        ]
        factors = tuple(factor for column in columns for factor in column.factors)
        return PictureLabels(
            factors, np.concatenate([column.values for column in columns], axis=1) if columns else np.empty((count, 0))
        )

    return _from_frames(pictures(), Frame.of(size, fit, mode), make_labels)


def _from_frames(iterable: Iterable[Any], frame: Frame, make_labels: Callable[[int], PictureLabels]) -> OwnPictures:
    """A world of pictures that are framed and cached one by one; labels are made when their number is known."""
    pillow()
    count = 0

    def numbered() -> Iterator[tuple[int, Any]]:
        nonlocal count
        for count, value in enumerate(iterable, start=1):
            yield count - 1, value

    def notes() -> PictureNotes:
        if not count:
            raise RequestError("there are no pictures: the iterable is empty")
        return PictureNotes(labels=make_labels(count))

    pictures = map_in_order(lambda picture: in_frame(frame, *picture), numbered(), ahead=AHEAD)
    cached = cache_pictures(pictures, frame.shape, notes, grey_if_all_are=frame.mode == "auto")
    return OwnPictures(cache=cached.digest)


def in_frame(frame: Frame, number: int, value: Any) -> UInt8[np.ndarray, "H W C"]:
    """One picture of an iterable in its frame: from a file, a PIL image, an array, or a dataset's encoded bytes."""
    image_module, _ = pillow()
    if isinstance(value, Mapping) and value.get("bytes"):
        value = io.BytesIO(value["bytes"])
    if isinstance(value, str) and Path(value).is_file():
        value = Path(value)
    try:
        if isinstance(value, io.BytesIO | Path):
            return frame.decode(value)
        if isinstance(value, image_module.Image):
            return frame.fitted(value)
    except Exception as error:  # Pillow fails in too many ways to name
        raise RequestError(f"picture {number} cannot be read ({brief(error)})") from error
    array = np.asarray(value)
    if channels_are_first((1, *array.shape)):
        array = np.moveaxis(array, 0, -1)
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if not (array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (3, 4))) or not array.size:
        raise RequestError(
            f"picture {number} must be (H, W) or (H, W, 1, 3 or 4), a PIL image or a file; got {_described(value)}"
        )
    return frame.fitted(image_module.fromarray(np.ascontiguousarray(as_bytes(array, f"picture {number}"))))


def channels_are_first(shape: Sequence[int]) -> bool:
    """Whether an array of this shape is (N, C, H, W). Its sides must be longer than the channels are many."""
    return len(shape) == 4 and shape[1] in CHANNELS and min(shape[2:]) > max(CHANNELS)


class ChannelsLast:
    """An array (N, C, H, W) read as (N, H, W, C), some pictures at a time."""

    def __init__(self, images: Any) -> None:
        count, channels, height, width = images.shape
        self._images, self.shape = images, (count, height, width, channels)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> np.ndarray:
        return np.moveaxis(np.asarray(self._images[rows]), 1, -1)


def _described(value: Any) -> str:
    if isinstance(value, str):
        return f"str {value!r}, which is no file"
    shape = getattr(value, "shape", None)
    return type(value).__name__ if shape is None else f"shape {tuple(shape)}"


def as_bytes(array: np.ndarray, noun: str) -> UInt8[np.ndarray, "..."]:
    if array.dtype == np.uint8:
        return array
    if array.dtype.kind != "f":
        raise RequestError(f"{noun} holds {array.dtype}: pass bytes (uint8, 0 to 255) or floats in [0, 1]")
    least, most = array.min(), array.max()
    if not np.isfinite([least, most]).all():
        raise RequestError(f"{noun} has values that are missing or infinite: pass floats in [0, 1], or bytes")
    if not (least >= 0 and most <= 1):
        example = f", as in pictures / {most:g}" if least >= 0 else ""
        raise RequestError(f"{noun} runs from {least:g} to {most:g}: pass floats in [0, 1]{example}, or bytes")
    return np.round(255 * array.astype(np.float32)).astype(np.uint8)


def _not_all_dark(pictures: Iterable[UInt8[np.ndarray, "H W C"]]) -> Iterator[UInt8[np.ndarray, "H W C"]]:
    """The pictures unchanged, with a warning if none has a byte above 1: masks of 0 and 1 would be black."""
    brightest = 0
    for picture in pictures:
        brightest = max(brightest, int(picture.max()))
        yield picture
    if brightest <= 1:
        warnings.warn("no byte of these pictures is above 1, so all are black: multiply by 255?", stacklevel=2)


def _columns(labels: Any, names: Sequence[str] | None) -> dict[str, list[Value]]:
    """Labels as columns by name, from a mapping, a data frame, or an (N, K) array."""
    if labels is None:
        if names:
            raise RequestError("names describe labels, and none were passed")
        return {}
    if not isinstance(labels, Mapping):
        names = [str(name) for name in labels.columns] if names is None and hasattr(labels, "columns") else names
        array = np.asarray(labels)
        if array.ndim != 2:
            hint = ": for one factor pass labels[:, None]" if array.ndim == 1 else ""
            raise RequestError(f"labels must be an (N, K) array or columns by name, got shape {array.shape}{hint}")
        names = [f"factor_{k}" for k in range(array.shape[1])] if names is None else list(names)
        if len(names) != array.shape[1] or len(set(names)) < len(names):
            raise RequestError(f"names must name each of the {counted(array.shape[1], 'column')} once, got {names}")
        labels = dict(zip(names, array.T, strict=True))
    return {
        str(name): [_value(str(name), value) for value in np.asarray(column, object)] for name, column in labels.items()
    }


def _value(name: str, value: Any) -> Value:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool | np.bool_):
        return str(bool(value)).lower()
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise RequestError(f"labels {name!r} hold {type(value).__name__}: pass numbers or text") from error
    if math.isinf(number):
        raise RequestError(f"labels {name!r} hold an infinite value: pass NaN where it is not known")
    return None if math.isnan(number) else number


def _labels_of(columns: dict[str, list[Value]], kinds: Mapping[str, str], pictures: int) -> PictureLabels:
    for name, column in columns.items():
        if len(column) != pictures:
            raise RequestError(
                f"labels {name!r} has {counted(len(column), 'value')} for {counted(pictures, 'picture')}"
            )
    if unknown := kinds.keys() - columns.keys():
        raise RequestError(f"kinds names {listed(unknown)}, which is not among the labels: {listed(columns) or 'none'}")
    picture_labels, left_out = factors_of(columns, kinds, pictures)
    if left_out:
        warnings.warn(f"labels: {'; '.join(left_out)}", stacklevel=2)
    return picture_labels


def _class_labels(name: str, classes: list[Any], values: list[Any]) -> PictureLabels:
    column = np.array([-1 if value is None else value for value in values], float)
    if not np.isin(column, np.arange(-1, len(classes))).all():
        raise RequestError(f"labels {name!r} must be -1 to {len(classes) - 1}, as the dataset has {len(classes)} names")
    factor = Factor(name, len(classes), "categorical", tuple(map(str, classes)))
    return PictureLabels((factor,), np.where(column < 0, np.nan, column)[:, None])
