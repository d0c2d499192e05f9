"""Pictures given from Python: in an array, one by one, or in a dataset.

They are kept in the cache by what they are: giving the same pictures and labels again finds what is there, and a family
trained on them can be opened later, on the same machine.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import UInt8

from sober.errors import RequestError, brief, counted, listed
from sober.machine import in_order
from sober.types import Factor
from sober.worlds.pictures.frame import Frame, pillow
from sober.worlds.pictures.kept import About, keep
from sober.worlds.pictures.label_table import Value, factors_of
from sober.worlds.pictures.labelled import Labelled
from sober.worlds.pictures.own import OwnPictures
from sober.worlds.pictures.picture_files import AHEAD

BLOCK = 256  # pictures of an array at a time


def from_array(
    images: Any, labels: Any = None, names: Sequence[str] | None = None, kinds: Mapping[str, str] | None = None
) -> OwnPictures:
    """A world of pictures in an array: (N, H, W), (N, H, W, 1) or (N, H, W, 3), bytes or floats in [0, 1].

    `labels` is (N, K), or columns by name; `names` and `kinds` describe them. The pictures are kept in the cache, by
    what they are, so that a family trained on them can be opened later on this machine.

    >>> sober.worlds.from_array(images, labels={"species": species, "height": height})
    """
    images = images if hasattr(images, "shape") else np.asarray(images)
    shape = tuple(images.shape)
    if len(shape) not in (3, 4) or (len(shape) == 4 and shape[3] not in (1, 3)) or 0 in shape:
        hint = ": put the channels last" if len(shape) == 4 and shape[1] in (1, 3) else ""
        raise RequestError(f"pictures must be (N, H, W), (N, H, W, 1) or (N, H, W, 3), got shape {shape}{hint}")
    framed = (*shape[1:3], shape[3] if len(shape) == 4 else 1)
    about = About(labels=_labelled(_columns(labels, names), kinds or {}, shape[0]))

    def rows() -> Iterator[UInt8[np.ndarray, "H W C"]]:
        for start in range(0, shape[0], BLOCK):  # what is mapped from disk, or on a device, is never held at once
            yield from _as_bytes(np.asarray(images[start : start + BLOCK]), "the array").reshape(-1, *framed)

    return OwnPictures(cache=keep(_not_all_dark(rows()), framed, lambda: about).digest)


def from_iterable(
    iterable: Iterable[Any],
    size: int | str = 64,
    fit: str = "crop",
    mode: str = "auto",
    labels: Any = None,
    names: Sequence[str] | None = None,
    kinds: Mapping[str, str] | None = None,
) -> OwnPictures:
    """A world of pictures that come one by one, arrays or PIL images of any sizes, in the memory of a few.

    `size`, `fit` and `mode` are those of `OwnPictures`, the rest is that of `from_array`.
    """
    frame = Frame.of(size, fit, mode)
    columns = _columns(labels, names)
    return _kept_as_they_come(iterable, frame, lambda count: _labelled(columns, kinds or {}, count))


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

    `image` names the pictures, `labels` the columns that become factors. A column whose feature has `names` is
    categorical with these names, in their order; -1 then means that the class is not known.
    """
    if not len(dataset):
        raise RequestError("the dataset is empty")
    columns, kinds = list(dataset[0]), kinds or {}
    if missing := {image, *labels}.difference(columns):
        raise RequestError(f"the dataset has no column {listed(missing)}: it has {listed(columns)}")
    features = getattr(dataset, "features", None) or {}
    classes = {name: list(getattr(features.get(name), "names", None) or ()) for name in labels}
    found: dict[str, list[Any]] = {name: [] for name in labels}
    if unknown := kinds.keys() - {name for name in labels if not classes[name]}:
        raise RequestError(f"kinds names {listed(unknown)}, which is not a column of labels, or has its classes named")

    def pictures() -> Iterator[Any]:
        for at in range(len(dataset)):
            row = dataset[at]
            for name in labels:
                found[name].append(row[name])
            yield row[image]

    def labelled(count: int) -> Labelled:
        parts = [
            _class_label(name, classes[name], found[name])
            if classes[name]
            else _labelled(_columns({name: found[name]}, None), {k: v for k, v in kinds.items() if k == name}, count)
            for name in labels
        ]
        factors = tuple(factor for part in parts for factor in part.factors)
        return Labelled(
            factors, np.concatenate([part.values for part in parts], axis=1) if parts else np.empty((count, 0))
        )

    return _kept_as_they_come(pictures(), Frame.of(size, fit, mode), labelled)


def _kept_as_they_come(iterable: Iterable[Any], frame: Frame, labelled: Callable[[int], Labelled]) -> OwnPictures:
    pillow()
    count = 0

    def numbered() -> Iterator[tuple[int, Any]]:
        nonlocal count
        for count, value in enumerate(iterable, start=1):
            yield count - 1, value

    def about() -> About:
        if not count:
            raise RequestError("there are no pictures: the iterable is empty")
        return About(labels=labelled(count))

    pictures = in_order(lambda each: _framed(frame, *each), numbered(), ahead=AHEAD)
    kept = keep(pictures, frame.shape, about, grey_if_all_are=frame.mode == "auto")
    return OwnPictures(cache=kept.digest)


def _framed(frame: Frame, at: int, value: Any) -> UInt8[np.ndarray, "H W C"]:
    """One picture of an iterable: a PIL image, an array, or an undecoded one of a dataset."""
    image_module, _ = pillow()
    if isinstance(value, Mapping) and value.get("bytes"):
        value = io.BytesIO(value["bytes"])
    try:
        if isinstance(value, io.BytesIO):
            return frame.decode(value)
        if isinstance(value, image_module.Image):
            return frame.fitted(value)
    except Exception as error:  # Pillow fails in too many ways to name
        raise RequestError(f"picture {at} cannot be read ({brief(error)})") from error
    array = np.asarray(value)
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if not (array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (3, 4))) or not array.size:
        raise RequestError(f"picture {at} must be (H, W) or (H, W, 1, 3 or 4), or a PIL image; got {_described(value)}")
    return frame.fitted(image_module.fromarray(np.ascontiguousarray(_as_bytes(array, f"picture {at}"))))


def _described(value: Any) -> str:
    shape = getattr(value, "shape", None)
    return type(value).__name__ if shape is None else f"shape {tuple(shape)}"


def _as_bytes(array: np.ndarray, what: str) -> UInt8[np.ndarray, "..."]:
    if array.dtype == np.uint8:
        return array
    if array.dtype.kind != "f":
        raise RequestError(f"{what} holds {array.dtype}: pass bytes (uint8, 0 to 255) or floats in [0, 1]")
    if not (array.min() >= 0 and array.max() <= 1):  # which NaN fails too
        raise RequestError(f"{what} runs from {array.min():g} to {array.max():g}: pass floats in [0, 1], or bytes")
    return np.round(255 * array.astype(np.float32)).astype(np.uint8)


def _not_all_dark(pictures: Iterable[UInt8[np.ndarray, "H W C"]]) -> Iterator[UInt8[np.ndarray, "H W C"]]:
    """The pictures as they are, and a warning if none has a byte above 1, as masks of 0 and 1 do."""
    brightest = 0
    for picture in pictures:
        brightest = max(brightest, int(picture.max()))
        yield picture
    if brightest <= 1:
        warnings.warn("no byte of these pictures is above 1, so all are black: multiply by 255?", stacklevel=2)


def _columns(labels: Any, names: Sequence[str] | None) -> dict[str, list[Value]]:
    """Labels as columns by name: from a mapping or a data frame of columns, or an (N, K) array."""
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


def _labelled(columns: dict[str, list[Value]], kinds: Mapping[str, str], pictures: int) -> Labelled:
    for name, column in columns.items():
        if len(column) != pictures:
            raise RequestError(
                f"labels {name!r} has {counted(len(column), 'value')} for {counted(pictures, 'picture')}"
            )
    if unknown := kinds.keys() - columns.keys():
        raise RequestError(f"kinds names {listed(unknown)}, which is not among the labels: {listed(columns) or 'none'}")
    labelled, notes = factors_of(columns, kinds, pictures)
    if notes:
        warnings.warn(f"labels: {'; '.join(notes)}", stacklevel=2)
    return labelled


def _class_label(name: str, classes: list[Any], values: list[Any]) -> Labelled:
    column = np.array([-1 if value is None else value for value in values], float)
    if not np.isin(column, np.arange(-1, len(classes))).all():
        raise RequestError(f"labels {name!r} must be -1 to {len(classes) - 1}, as the dataset has {len(classes)} names")
    factor = Factor(name, len(classes), "categorical", tuple(map(str, classes)))
    return Labelled((factor,), np.where(column < 0, np.nan, column)[:, None])
