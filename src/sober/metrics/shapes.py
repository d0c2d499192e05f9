"""Codes of every shape as tables (N, D): vector units, sparse arrays, and arrays too large to copy, or on disk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy
from jaxtyping import Float

from sober.errors import RequestError
from sober.estimators import columns
from sober.estimators.columns import BLOCK, Picked, by_column, spread, taken
from sober.metrics.metric import NotMeasuredError
from sober.types import Codes

LARGEST = 1e50  # beyond which squares of squares do not fit into a float64


def flattened(codes: Any) -> tuple[Any, int]:
    """Codes (N, units, dims) as (N, units · dims), and dims; anything else as it is, and 1."""
    shape = np.shape(codes)
    if len(shape) != 3 or not all(shape):
        return codes, 1
    return np.asarray(codes).reshape(shape[0], -1), shape[2]


def tabled(name: str, array: Any) -> Any:
    """A sparse array as CSR and a large one as `Picked`, both checked; a small narrow one dense, others as they are."""
    if isinstance(array, Picked):
        return array
    if not isinstance(array, np.ndarray):
        if not scipy.sparse.issparse(array):
            return array
        if array.ndim != 2 or not np.prod(array.shape):
            raise RequestError(f"{name} must be an (N, D) array with rows and columns, got shape {array.shape}")
        if array.dtype.kind not in "fiub":
            raise RequestError(f"{name} must hold real numbers, got a sparse array of {array.dtype}")
        if array.shape[1] <= columns.WIDE and np.prod(array.shape, dtype=float) <= columns.COPIED:
            return array.toarray()
        return _checked_sparse(name, array)
    if array.ndim != 2 or array.size <= columns.COPIED or array.dtype.kind not in "fiub":
        return array
    return _checked_dense(name, np.asarray(array))


def is_large(array: Any) -> bool:
    """Whether `tabled` made it a table that is read a stretch of columns at a time."""
    return isinstance(array, Picked) or (not isinstance(array, np.ndarray) and scipy.sparse.issparse(array))


def _checked_sparse(name: str, array: Any) -> Any:
    table = scipy.sparse.csr_array(array)
    if table.dtype.kind != "f" or table.dtype.itemsize not in (4, 8):
        table = table.astype(np.float64)
    table.sum_duplicates()
    if not np.isfinite(table.data).all():
        raise RequestError(f"{name} has values that are not finite: a metric of such numbers would mean nothing")
    _check_size(name, float(np.abs(table.data).max(initial=0.0)))
    return table


def _checked_dense(name: str, array: np.ndarray) -> Picked:
    rows = max(1, BLOCK // array.shape[1])
    largest = 0.0
    for first in range(0, len(array), rows):  # a stretch of rows is read in one go
        part = array[first : first + rows]
        if not np.isfinite(part).all():
            row, column = np.argwhere(~np.isfinite(part))[0]
            raise RequestError(
                f"{name} has values that are not finite, the first in row {first + row}, column {column}: a metric of "
                "such numbers would mean nothing; leave those rows out"
            )
        largest = max(largest, float(np.abs(part).max()))
    _check_size(name, largest)
    return Picked(array)


def _check_size(name: str, largest: float) -> None:
    if largest > LARGEST:
        raise RequestError(f"{name} has numbers as large as {largest:.0e}, and is too large to be rescaled: divide it")


def unit_spread(codes: Codes) -> Float[np.ndarray, " U"]:
    """The largest value of each latent less the smallest; of a vector unit, the most that any of its numbers has."""
    return spread(codes.mean).reshape(-1, codes.unit).max(axis=1)


def whole_units(codes: Codes) -> Iterator[tuple[slice, Float[np.ndarray, "N w"]]]:
    """All latents, some at a time: which, and their columns as float64. A unit is never taken apart."""
    rows, columns = codes.mean.shape
    several = max(1, BLOCK // (rows * codes.unit))
    table = by_column(codes.mean)
    for first in range(0, columns // codes.unit, several):
        which = slice(first, min(first + several, columns // codes.unit))
        inside = slice(which.start * codes.unit, which.stop * codes.unit)
        yield which, np.asarray(taken(table, inside), np.float64)


def at_most(codes: Codes, most: int, because: str) -> None:
    """Refuses codes of more columns, for metrics whose work grows faster than their number."""
    if codes.mean.shape[1] > most:
        raise NotMeasuredError(
            f"{because}, and {codes.mean.shape[1]:,} are more than {most:,}: pass fewer latents, such as those that "
            "best_latent names"
        )


def unit_sums(columns: Float[np.ndarray, "*n D"], unit: int) -> Float[np.ndarray, "*n U"]:
    """What belongs to the columns of a unit, added up."""
    return columns if unit == 1 else columns.reshape(*columns.shape[:-1], -1, unit).sum(axis=-1)


def unit_lengths(columns: Float[np.ndarray, "*n D"], unit: int) -> Float[np.ndarray, "*n U"]:
    """The length of the vector of each unit; of a single number its size."""
    return np.abs(columns) if unit == 1 else np.sqrt(unit_sums(columns**2, unit))
