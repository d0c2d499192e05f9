"""Codes of every shape as tables (N, D): vector units, sparse arrays, and arrays on disk or too large to copy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy
from jaxtyping import Float

from sober.errors import NotMeasuredError, RequestError
from sober.estimators.wide import wide_tables
from sober.estimators.wide.wide_tables import BLOCK, Picked, by_column, spread, taken
from sober.metrics.common.arrays import check_real
from sober.types import Codes

LARGEST = 1e50  # fourth powers of larger numbers do not fit into a float64


def flattened(codes: Any) -> tuple[Any, int]:
    """Codes (N, units, dims) as (N, units · dims), and dims; other codes unchanged, and 1."""
    shape = np.shape(codes)
    if len(shape) != 3 or not all(shape):
        return codes, 1
    return np.asarray(codes).reshape(shape[0], -1), shape[2]


def tabled(name: str, array: Any) -> Any:
    """Checks large arrays: sparse ones become CSR, dense ones `Picked`. Small sparse arrays become dense."""
    if isinstance(array, Picked):
        return array
    if not isinstance(array, np.ndarray):
        if not scipy.sparse.issparse(array):
            return array
        if array.ndim != 2 or not np.prod(array.shape):
            raise RequestError(f"{name} must be an (N, D) array with rows and columns, got shape {array.shape}")
        check_real(name, array)
        if array.shape[1] <= wide_tables.WIDE and np.prod(array.shape, dtype=float) <= wide_tables.COPIED:
            return array.toarray()
        return _checked_sparse(name, array)
    if array.ndim != 2 or array.size <= wide_tables.COPIED or array.dtype.kind not in "fiub":
        return array
    return _checked_dense(name, np.asarray(array))


def is_large(array: Any) -> bool:
    """Whether `tabled` turned the array into a table that is read some columns at a time."""
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
    for first in range(0, len(array), rows):  # some rows at a time
        block = array[first : first + rows]
        if not np.isfinite(block).all():
            row, column = np.argwhere(~np.isfinite(block))[0]
            raise RequestError(
                f"{name} has values that are not finite, the first in row {first + row}, column {column} (both count "
                "from 0): a metric of such numbers would mean nothing; leave those rows out"
            )
        largest = max(largest, float(np.abs(block).max()))
    _check_size(name, largest)
    return Picked(array)


def _check_size(name: str, largest: float) -> None:
    if largest > LARGEST:
        raise RequestError(f"{name} has numbers as large as {largest:.0e}, and is too large to be rescaled: divide it")


def unit_spread(codes: Codes) -> Float[np.ndarray, " U"]:
    """The range of each latent; for a vector unit, the largest range of its numbers."""
    return spread(codes.mean).reshape(-1, codes.unit).max(axis=1)


def whole_units(codes: Codes) -> Iterator[tuple[slice, Float[np.ndarray, "N w"]]]:
    """All latents, some at a time: their numbers, and their columns as float64. A unit's columns stay together."""
    rows, width = codes.mean.shape
    count = max(1, BLOCK // (rows * codes.unit))
    table = by_column(codes.mean)
    for first in range(0, width // codes.unit, count):
        units = slice(first, min(first + count, width // codes.unit))
        columns_of_units = slice(units.start * codes.unit, units.stop * codes.unit)
        yield units, np.asarray(taken(table, columns_of_units), np.float64)


def at_most(codes: Codes, limit: int, reason: str) -> None:
    """Refuses codes with more columns than `limit`, for metrics whose work grows faster than the number of latents."""
    if codes.mean.shape[1] > limit:
        raise NotMeasuredError(
            f"{reason}, and {codes.mean.shape[1]:,} are more than {limit:,}: pass fewer latents, such as the latents "
            "that best_latent names"
        )


def unit_sums(columns: Float[np.ndarray, "*n D"], unit: int) -> Float[np.ndarray, "*n U"]:
    """Sums the columns of each unit."""
    return columns if unit == 1 else columns.reshape(*columns.shape[:-1], -1, unit).sum(axis=-1)


def unit_lengths(columns: Float[np.ndarray, "*n D"], unit: int) -> Float[np.ndarray, "*n U"]:
    """The length of each unit's vector; for a single number, its absolute value."""
    return np.abs(columns) if unit == 1 else np.sqrt(unit_sums(columns**2, unit))
