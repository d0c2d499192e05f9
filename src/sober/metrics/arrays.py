"""Arrays of any framework as NumPy has them: tensors, JAX arrays, frames with named columns, lists.

Each is known by what it can do, so that none of those libraries is imported. What NumPy itself has, masked arrays among
it, and what it cannot hold, such as sparse matrices, is handed on as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sober.errors import RequestError, brief
from sober.types import Kind

Kinds = str | Sequence[str] | Mapping[str, str] | None


class Columns(NamedTuple):
    """Factors as an array (N, K), and what is known of its columns: from a frame, or as given."""

    array: Any
    names: Sequence[str] | None
    kinds: Kinds


def as_array(name: str, value: Any) -> Any:
    """`value` as a NumPy array; a frame as the numbers in its columns."""
    if isinstance(value, np.ndarray):
        return _widened(value)
    if _is_frame(value):
        return _numeric(name, value)
    if _is_sparse(value):
        return value
    try:
        return _widened(_from_tensor(value) if _is_tensor(value) else np.asarray(_opened(value)))
    except (TypeError, ValueError, RuntimeError) as error:
        raise RequestError(f"{name} cannot be made a NumPy array, from a {_kind_of(value)}: {brief(error)}") from error


def as_columns(factors: Any, names: Sequence[str] | None, kinds: Kinds) -> Columns:
    """Factors as an array. A frame names its columns, and those of text or categories are categorical.

    Ordered categories are ordinal, numbered in their order. Nothing is taken for continuous unasked. What a frame does
    not know is masked.
    """
    if not _is_frame(factors):
        return Columns(factors if factors is None else as_array("factors", factors), names, kinds)
    labels = _labels("factors", factors)
    columns = [_column(f"factors column {str(label)!r}", factors[label]) for label in labels]
    names = [str(label) for label in labels] if names is None else names
    if len(names) == len(labels) and (kinds is None or isinstance(kinds, Mapping)):
        known = {str(name): column.kind for name, column in zip(names, columns, strict=True)}
        kinds = {**known, **(kinds or {})}
    return Columns(_side_by_side(columns, len(factors)), names, kinds)


class _Column(NamedTuple):
    values: np.ndarray
    missing: np.ndarray
    kind: Kind


def _is_frame(value: Any) -> bool:
    return hasattr(value, "columns") and hasattr(value, "__getitem__") and hasattr(value, "__len__")


def _is_sparse(value: Any) -> bool:
    return hasattr(value, "tocsr")


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "detach") and hasattr(value, "cpu")


def _kind_of(value: Any) -> str:
    return f"{type(value).__module__.partition('.')[0]} {type(value).__name__}"


def _from_tensor(tensor: Any) -> np.ndarray:
    """A tensor on any device, also one that carries gradients or has numbers of two bytes, which NumPy may not know."""
    tensor = tensor.detach()
    if tensor.is_floating_point() and tensor.element_size() < 4:
        tensor = tensor.float()
    return tensor.cpu().numpy()


def _opened(value: Any) -> Any:
    """A list of tensors as one of arrays; anything else as it is."""
    if isinstance(value, list | tuple) and value and _is_tensor(value[0]):
        return [_from_tensor(each) for each in value]
    return value


def _widened(array: np.ndarray) -> np.ndarray:
    """Numbers of a type that NumPy does not know by itself, such as bfloat16, as float32, which holds each of them."""
    foreign = array.dtype.kind == "V" and array.dtype.type is not np.void
    return array.astype(np.float32) if foreign else array


def _labels(name: str, frame: Any) -> list[Any]:
    labels = list(getattr(frame, "column_names", frame.columns))
    seen = [str(label) for label in labels]
    for label in seen:
        if seen.count(label) > 1:
            raise RequestError(f"{name} has two columns named {label!r}: rename one")
    return labels


def _numeric(name: str, frame: Any) -> np.ndarray:
    """The columns of a frame, all of which must hold numbers; those that are missing are not finite."""
    arrays = []
    for label in _labels(name, frame):
        column = _column(f"{name} column {str(label)!r}", frame[label])
        if column.kind == "categorical" or column.values.dtype.kind not in "biufO":
            raise RequestError(f"{name} column {str(label)!r} does not hold numbers: pass the columns that do")
        arrays.append(np.where(column.missing, np.nan, column.values).astype(np.float64))
    return np.stack(arrays, axis=1) if arrays else np.zeros((len(frame), 0))


def _column(name: str, series: Any) -> _Column:
    """A column of a frame, of pandas, Polars or Arrow: its values, which of them are missing, and its kind."""
    missing = np.asarray(series.isna() if hasattr(series, "isna") else series.is_null(), dtype=bool)
    if getattr(getattr(series, "dtype", None), "ordered", False):  # of pandas
        return _Column(np.asarray(series.cat.codes), missing, "ordinal")
    values = np.asarray(series)
    if missing.any() and values.dtype.kind == "O":  # values of the type that those have that are there
        present = np.array(values[~missing].tolist())
        values = np.full(len(values), present[0] if len(present) else 0, present.dtype)
        values[~missing] = present
    elif values.dtype.kind == "O":
        values = np.array(values.tolist())
    if values.dtype.kind not in "biufUST" or values.ndim != 1:
        raise RequestError(f"{name} holds neither numbers nor text, but {getattr(series, 'dtype', values.dtype)}")
    if values.dtype.kind == "f":
        missing = missing | np.isnan(values)
    categorical = values.dtype.kind in "UST" or str(getattr(series, "dtype", "")) == "category"
    return _Column(values, missing, "categorical" if categorical else "ordinal")


def _side_by_side(columns: Sequence[_Column], rows: int) -> np.ndarray:
    """Columns as one array: of numbers where all are, else of objects; masked where something is missing."""
    if not columns:
        return np.zeros((rows, 0))
    missing = np.stack([column.missing for column in columns], axis=1)
    if any(column.kind == "categorical" for column in columns):
        array = np.empty(missing.shape, object)
        for k, column in enumerate(columns):
            array[:, k] = column.values
    else:
        array = np.stack([column.values for column in columns], axis=1)
    return np.ma.array(array, mask=missing) if missing.any() else array
