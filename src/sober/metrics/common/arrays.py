"""Turns arrays of any framework into NumPy arrays: tensors, JAX arrays, frames with named columns, lists.

Frameworks are recognised by the methods of their arrays, so none of them is imported. NumPy arrays, masked arrays and
sparse matrices are passed on unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sober.errors import RequestError, brief, counted, shown
from sober.types import Kind

Kinds = str | Sequence[str] | Mapping[str, str] | None


class Columns(NamedTuple):
    """Factors as an array (N, K), with the names and kinds of its columns."""

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
        return _sound(name, value)
    try:
        array = _widened(_from_tensor(value) if _is_tensor(value) else np.asarray(_tensors_to_arrays(value)))
        if array.dtype.kind == "O" and not array.ndim:
            raise RequestError(f"{name} must be an array, not {shown(value)}")
        return array
    except RequestError:
        raise
    except (TypeError, ValueError, RuntimeError) as error:
        raise RequestError(f"{name} cannot be made a NumPy array, from a {_kind_of(value)}: {brief(error)}") from error


def _sound(name: str, array: Any) -> Any:
    """The sparse array. Refuses places outside its shape: compiled loops would read and write other memory there."""
    if hasattr(array, "check_format"):
        try:
            array.check_format(full_check=True)
        except (TypeError, ValueError) as error:
            raise RequestError(f"{name} is a sparse array that contradicts itself: {brief(error)}") from error
    return array


def check_real(name: str, array: Any) -> None:
    """Refuses an array or sparse array of anything but real numbers, and says what to pass instead."""
    kind = array.dtype.kind
    if kind in "fiub":
        return
    if array.dtype.names:
        advice = f"records with the fields {', '.join(array.dtype.names)}: pass their columns side by side"
    elif kind == "c":
        advice = "complex numbers: pass real and imaginary parts as columns of their own"
    elif kind in "mM":
        advice = "dates or times: pass numbers, such as seconds since a day"
    elif kind in "USTO":
        advice = f"{'objects' if kind == 'O' else 'text'}: make them numbers, as with .astype(float)"
    else:
        advice = f"an array of {array.dtype}"
    raise RequestError(f"{name} must hold real numbers, not {advice}")


def unmasked(name: str, array: Any) -> Any:
    """A masked array as a plain one. Refuses values that are masked."""
    if not np.ma.isMaskedArray(array):
        return array
    masked = np.argwhere(np.ma.getmaskarray(array))
    if len(masked):
        raise RequestError(
            f"{name} has {counted(len(masked), 'masked value')}, the first at {tuple(masked[0].tolist())}: leave those "
            "rows out"
        )
    return np.ma.getdata(array)


def as_columns(factors: Any, names: Sequence[str] | None, kinds: Kinds) -> Columns:
    """Factors as an array. A frame names its columns, and columns of text or categories are categorical.

    Ordered categories are ordinal, numbered in their order. No column is taken as continuous unless asked. Missing
    values are masked.
    """
    if names is not None and not isinstance(names, Iterable):
        raise RequestError(f"names must be a list with a name for each factor, not {shown(names)}")
    names = None if names is None else list(names)
    if kinds is not None and not isinstance(kinds, Iterable):
        raise RequestError(f"kinds must be a kind, a list of kinds, or kinds by factor, not {shown(kinds)}")
    kinds = list(kinds) if kinds is not None and not isinstance(kinds, str | Mapping) else kinds
    if not _is_frame(factors):
        return Columns(factors if factors is None else as_array("factors", factors), names, kinds)
    labels = _labels("factors", factors)
    columns = [_column(f"factors column {str(label)!r}", factors[label]) for label in labels]
    names = [str(label) for label in labels] if names is None else names
    if len(names) == len(labels) and (kinds is None or isinstance(kinds, Mapping)):
        column_kinds = {str(name): column.kind for name, column in zip(names, columns, strict=True)}
        kinds = {**column_kinds, **(kinds or {})}
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
    """A tensor as a NumPy array, from any device, with or without gradients; 16-bit floats become float32."""
    tensor = tensor.detach()
    if tensor.is_floating_point() and tensor.element_size() < 4:
        tensor = tensor.float()
    return tensor.cpu().numpy()


def _tensors_to_arrays(value: Any) -> Any:
    """A list of tensors as a list of arrays; anything else unchanged."""
    if isinstance(value, list | tuple) and value and _is_tensor(value[0]):
        return [_from_tensor(tensor) for tensor in value]
    return value


def _widened(array: np.ndarray) -> np.ndarray:
    """Converts number types that NumPy lacks, such as bfloat16, to float32, which holds all their values."""
    foreign = array.dtype.kind == "V" and array.dtype.names is None and array.dtype.type is not np.void
    return array.astype(np.float32) if foreign else array


def _labels(name: str, frame: Any) -> list[Any]:
    labels = list(getattr(frame, "column_names", frame.columns))
    names = [str(label) for label in labels]
    for column_name in names:
        if names.count(column_name) > 1:
            raise RequestError(f"{name} has two columns named {column_name!r}: rename one")
    return labels


def _numeric(name: str, frame: Any) -> np.ndarray:
    """A frame of numbers as an array; missing values become NaN."""
    arrays = []
    for label in _labels(name, frame):
        column = _column(f"{name} column {str(label)!r}", frame[label])
        if column.kind == "categorical" or column.values.dtype.kind not in "biufO":
            raise RequestError(f"{name} column {str(label)!r} does not hold numbers: pass the columns that do")
        arrays.append(np.where(column.missing, np.nan, column.values).astype(np.float64))
    return np.stack(arrays, axis=1) if arrays else np.zeros((len(frame), 0))


def _column(name: str, series: Any) -> _Column:
    """A column of a pandas, Polars or Arrow frame: its values, which values are missing, and its kind."""
    missing = np.asarray(series.isna() if hasattr(series, "isna") else series.is_null(), dtype=bool)
    if getattr(getattr(series, "dtype", None), "ordered", False):  # only pandas has ordered categories
        return _Column(np.asarray(series.cat.codes), missing, "ordinal")
    values = np.asarray(series)
    if missing.any() and values.dtype.kind == "O":  # the present values decide the type
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
    """Columns as one array: of numbers if all columns are, else of objects; masked where values are missing."""
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
