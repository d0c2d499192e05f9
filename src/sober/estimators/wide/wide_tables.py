"""Wide tables of numbers that are read a stretch of columns at a time: dense, sparse, or on disk.

A table is an array, a sparse array (CSR), or `Picked` rows of a large dense one. It is never made dense as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy
from jaxtyping import Float, Int

if TYPE_CHECKING:
    import scipy.sparse

WIDE = 512  # columns beyond which estimators use methods whose memory and time grow no faster than the columns
BLOCK = 2**22  # numbers in a dense stretch: 32 MiB
COPIED = 2**25  # most numbers of a table that may be dense as a whole: 256 MiB
LISTED = 2**18  # numbers of a sparse table in one `ColumnLists`: few, so that all cores have work


class Picked:
    """Rows of a large dense table, in memory or on disk, that are not copied but read a few columns at a time."""

    ndim = 2

    def __init__(self, table: np.ndarray, rows: Int[np.ndarray, " n"] | None = None) -> None:
        self.table, self.rows = table, rows

    @property
    def shape(self) -> tuple[int, int]:
        return (len(self.table) if self.rows is None else len(self.rows)), self.table.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the table if it is float32 or float64, else float64."""
        usual = self.table.dtype.kind == "f" and self.table.dtype.itemsize in (4, 8)
        return self.table.dtype if usual else np.dtype(np.float64)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: np.ndarray) -> Picked:
        return Picked(self.table, np.arange(len(self))[rows] if self.rows is None else self.rows[rows])

    def columns(self, selection: slice | Int[np.ndarray, " w"]) -> np.ndarray:
        """Some columns of these rows."""
        values = self.table[:, selection]
        return np.asarray(values if self.rows is None else values[self.rows], self.dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self.table if self.rows is None else self.table[self.rows]
        return np.array(array, dtype=dtype or self.dtype, copy=copy)


Table = Any  # np.ndarray | scipy.sparse.csr_array | Picked, (N, D)


def is_sparse(x: Table) -> bool:
    return not isinstance(x, np.ndarray | Picked) and scipy.sparse.issparse(x)


def in_memory(x: Table) -> Table:
    """A table of at most `COPIED` numbers as one array; a larger table unchanged."""
    if isinstance(x, np.ndarray) or np.prod(x.shape, dtype=float) > COPIED:
        return x
    return x.toarray() if is_sparse(x) else np.asarray(x)


def is_wide(x: Table) -> bool:
    """Whether a table has more than `WIDE` columns, or is not one array in memory."""
    return not isinstance(x, np.ndarray) or x.shape[1] > WIDE


def stretches(x: Table) -> Iterator[slice]:
    """Slices of the columns that have at most `BLOCK` numbers each."""
    rows, columns = x.shape
    width = max(1, BLOCK // max(rows, 1))
    return (slice(first, min(first + width, columns)) for first in range(0, columns, width))


def taken(x: Table, columns: slice | Int[np.ndarray, " w"]) -> np.ndarray:
    """Some columns, dense."""
    if isinstance(x, Picked):
        return x.columns(columns)
    return x[:, columns].toarray() if is_sparse(x) else x[:, columns]


def by_column(x: Table) -> Table:
    """The table. A sparse table comes in CSC order, where taking columns is quick."""
    return x.tocsc() if is_sparse(x) else x


def dense_stretches(x: Table) -> Iterator[tuple[slice, np.ndarray]]:
    """Every column, dense, a stretch at a time."""
    table = by_column(x)
    return ((columns, taken(table, columns)) for columns in stretches(x))


def spread(x: Table) -> Float[np.ndarray, " D"]:
    """The range of each column: its largest value less its smallest."""
    low, high = ends(x)
    return high - low


def ends(x: Table) -> tuple[Float[np.ndarray, " D"], Float[np.ndarray, " D"]]:
    """The smallest and the largest value of each column."""
    if is_sparse(x):
        return x.min(axis=0).toarray().ravel(), x.max(axis=0).toarray().ravel()
    if isinstance(x, Picked):
        extremes = [(values.min(axis=0), values.max(axis=0)) for _, values in dense_stretches(x)]
        return np.concatenate([low for low, _ in extremes]), np.concatenate([high for _, high in extremes])
    return x.min(axis=0), x.max(axis=0)


class ColumnMoments(NamedTuple):
    """The mean of each column, and its variance over the rows (divided by N)."""

    mean: Float[np.ndarray, " D"]
    variance: Float[np.ndarray, " D"]


def moments(x: Table) -> ColumnMoments:
    if is_sparse(x):
        rows, by_column = x.shape[0], x.tocsc().astype(np.float64)
        mean = by_column.sum(axis=0) / rows
        count = np.diff(by_column.indptr)
        by_column.data = (by_column.data - np.repeat(mean, count)) ** 2
        return ColumnMoments(mean, (by_column.sum(axis=0) + (rows - count) * mean**2) / rows)
    means_and_variances = [
        (values.mean(axis=0, dtype=float), values.var(axis=0, dtype=float)) for _, values in dense_stretches(x)
    ]
    return ColumnMoments(*(np.concatenate(blocks) for blocks in zip(*means_and_variances, strict=True)))


class ColumnLists(NamedTuple):
    """Columns as lists of rows and values, in rising order of value. Rows that are not listed have the value 0."""

    start: Int[np.ndarray, " w+1"]  # of the list of each column
    row: Int[np.ndarray, " n"]
    value: Float[np.ndarray, " n"]
    rows: int  # of the table


def column_lists(x: Table) -> Iterator[tuple[slice, ColumnLists]]:
    """Every column as a list, a stretch at a time, without the zeros of sparse columns."""
    if not is_sparse(x):
        for columns, values in dense_stretches(x):
            yield columns, _dense_lists(np.asarray(values, np.float64))
        return
    table = x.tocsc()
    table.eliminate_zeros()
    starts, first = table.indptr.astype(np.int64), 0
    while first < x.shape[1]:
        last = max(first + 1, int(np.searchsorted(starts, starts[first] + LISTED, "right")) - 1)
        inside = slice(starts[first], starts[last])
        start = starts[first : last + 1] - starts[first]
        order = np.lexsort((table.data[inside], np.repeat(np.arange(last - first), np.diff(start))))
        row, value = table.indices[inside][order].astype(np.int32), table.data[inside][order].astype(np.float64)
        yield slice(first, last), ColumnLists(start, row, value, x.shape[0])
        first = last


def _dense_lists(table: Float[np.ndarray, "N w"]) -> ColumnLists:
    rows, width = table.shape
    order = np.argsort(table, axis=0, kind="stable")
    value = np.take_along_axis(table, order, axis=0).T.ravel()
    return ColumnLists(np.arange(width + 1, dtype=np.int64) * rows, order.T.ravel().astype(np.int32), value, rows)


class Standardised:
    """Products with a table whose columns count as having mean 0 and variance 1. Zeros stay zeros in memory.

    Columns that do not vary are 0. Give the moments of another table as `by` to standardise both alike.
    """

    def __init__(self, x: Table, by: ColumnMoments | None = None) -> None:
        centre, variance = moments(x) if by is None else by
        self.by = ColumnMoments(centre, variance)
        self.scale = np.where(variance > 0, 1 / np.sqrt(np.where(variance > 0, variance, 1.0)), 0.0)
        self.table = x.astype(np.float64).tocsr() if is_sparse(x) else x
        self.transposed = self.table.T.tocsr() if is_sparse(x) else None
        self.shape = x.shape
        self.dense = None  # for arrays that are small enough for a copy
        if isinstance(x, np.ndarray) and x.size <= COPIED:
            self.dense = (np.asarray(x, np.float64) - centre) * self.scale

    def times(self, weight: Float[np.ndarray, "g D"]) -> Float[np.ndarray, "g N"]:
        """The sums of the columns with some weights."""
        if self.dense is not None:
            return weight @ self.dense.T
        scaled = weight * self.scale
        if self.transposed is not None:
            out = (self.table @ np.ascontiguousarray(scaled.T)).T
        else:
            out = np.zeros((len(weight), self.shape[0]))
            for columns, values in dense_stretches(self.table):
                out += scaled[:, columns] @ np.asarray(values, np.float64).T
        return out - (scaled @ self.by.mean)[:, None]

    def against(self, rows: Float[np.ndarray, "g N"]) -> Float[np.ndarray, "g D"]:
        """The sums of the rows with some weights."""
        if self.dense is not None:
            return rows @ self.dense
        if self.transposed is not None:
            out = (self.transposed @ np.ascontiguousarray(rows.T)).T
        else:
            out = np.empty((len(rows), self.shape[1]))
            for columns, values in dense_stretches(self.table):
                out[:, columns] = rows @ np.asarray(values, np.float64)
        return (out - rows.sum(axis=1)[:, None] * self.by.mean) * self.scale
