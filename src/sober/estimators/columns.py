"""Wide tables of numbers, a stretch of columns at a time: dense, sparse, or on disk.

A table is an array, a sparse array (CSR), or `Picked` rows of a large dense one. None is ever made dense as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy
from jaxtyping import Float, Int

if TYPE_CHECKING:
    import scipy.sparse

WIDE = 512  # columns; estimators whose memory or time grows faster than the columns have another way beyond this
BLOCK = 2**22  # numbers that are dense at once: 32 MiB
COPIED = 2**25  # numbers of a table that may be dense as a whole: 256 MiB
LISTED = 2**18  # numbers of a sparse table that are listed at once: few, so that all cores have some


class Picked:
    """Rows of a large dense table, in memory or on disk, without a copy: read a stretch of columns at a time."""

    ndim = 2

    def __init__(self, table: np.ndarray, rows: Int[np.ndarray, " n"] | None = None) -> None:
        self.table, self.rows = table, rows

    @property
    def shape(self) -> tuple[int, int]:
        return (len(self.table) if self.rows is None else len(self.rows)), self.table.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Whole numbers and short ones are read as float64."""
        usual = self.table.dtype.kind == "f" and self.table.dtype.itemsize in (4, 8)
        return self.table.dtype if usual else np.dtype(np.float64)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: np.ndarray) -> Picked:
        return Picked(self.table, np.arange(len(self))[rows] if self.rows is None else self.rows[rows])

    def columns(self, which: slice | Int[np.ndarray, " w"]) -> np.ndarray:
        """Some columns of these rows."""
        part = self.table[:, which]
        return np.asarray(part if self.rows is None else part[self.rows], self.dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        whole = self.table if self.rows is None else self.table[self.rows]
        return np.array(whole, dtype=dtype or self.dtype, copy=copy)


Table = Any  # np.ndarray | scipy.sparse.csr_array | Picked, (N, D)


def is_sparse(x: Table) -> bool:
    return not isinstance(x, np.ndarray | Picked) and scipy.sparse.issparse(x)


def in_memory(x: Table) -> Table:
    """A table as one array, where it has no more than `COPIED` numbers; others as they are."""
    if isinstance(x, np.ndarray) or np.prod(x.shape, dtype=float) > COPIED:
        return x
    return x.toarray() if is_sparse(x) else np.asarray(x)


def is_wide(x: Table) -> bool:
    """Whether a table has more columns than fit beside each other, or is not one array in memory."""
    return not isinstance(x, np.ndarray) or x.shape[1] > WIDE


def stretches(x: Table) -> Iterator[slice]:
    """Its columns, so many at a time that they may be dense."""
    rows, columns = x.shape
    width = max(1, BLOCK // max(rows, 1))
    return (slice(first, min(first + width, columns)) for first in range(0, columns, width))


def taken(x: Table, columns: slice | Int[np.ndarray, " w"]) -> np.ndarray:
    """Some columns, dense."""
    if isinstance(x, Picked):
        return x.columns(columns)
    return x[:, columns].toarray() if is_sparse(x) else x[:, columns]


def by_column(x: Table) -> Table:
    """The same table, sparse ones in an order in which columns are quick to take."""
    return x.tocsc() if is_sparse(x) else x


def dense_stretches(x: Table) -> Iterator[tuple[slice, np.ndarray]]:
    """Every column, dense, a stretch at a time."""
    table = by_column(x)
    return ((which, taken(table, which)) for which in stretches(x))


def spread(x: Table) -> Float[np.ndarray, " D"]:
    """The largest value of each column less the smallest."""
    low, high = ends(x)
    return high - low


def ends(x: Table) -> tuple[Float[np.ndarray, " D"], Float[np.ndarray, " D"]]:
    """The smallest and the largest value of each column."""
    if is_sparse(x):
        return x.min(axis=0).toarray().ravel(), x.max(axis=0).toarray().ravel()
    if isinstance(x, Picked):
        parts = [(part.min(axis=0), part.max(axis=0)) for _, part in dense_stretches(x)]
        return np.concatenate([low for low, _ in parts]), np.concatenate([high for _, high in parts])
    return x.min(axis=0), x.max(axis=0)


class Moments(NamedTuple):
    """The mean of each column, and its variance (that of the rows themselves, not of what they were drawn from)."""

    mean: Float[np.ndarray, " D"]
    variance: Float[np.ndarray, " D"]


def moments(x: Table) -> Moments:
    if is_sparse(x):
        rows, by_column = x.shape[0], x.tocsc().astype(np.float64)
        mean = by_column.sum(axis=0) / rows
        count = np.diff(by_column.indptr)
        by_column.data = (by_column.data - np.repeat(mean, count)) ** 2
        return Moments(mean, (by_column.sum(axis=0) + (rows - count) * mean**2) / rows)
    found = [(part.mean(axis=0, dtype=float), part.var(axis=0, dtype=float)) for _, part in dense_stretches(x)]
    return Moments(*(np.concatenate(kind) for kind in zip(*found, strict=True)))


class Listed(NamedTuple):
    """Columns as lists of rows and values, in rising order of value. Rows that are not listed have 0."""

    start: Int[np.ndarray, " w+1"]  # where the list of each column begins
    row: Int[np.ndarray, " n"]
    value: Float[np.ndarray, " n"]
    rows: int  # in all


def listed(x: Table) -> Iterator[tuple[slice, Listed]]:
    """Every column as a list, a stretch at a time. Of sparse columns the zeros are not listed."""
    if not is_sparse(x):
        for which, part in dense_stretches(x):
            yield which, _listed_dense(np.asarray(part, np.float64))
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
        yield slice(first, last), Listed(start, row, value, x.shape[0])
        first = last


def _listed_dense(part: Float[np.ndarray, "N w"]) -> Listed:
    rows, width = part.shape
    order = np.argsort(part, axis=0, kind="stable")
    value = np.take_along_axis(part, order, axis=0).T.ravel()
    return Listed(np.arange(width + 1, dtype=np.int64) * rows, order.T.ravel().astype(np.int32), value, rows)


class Standardised:
    """A table as if its columns had mean 0 and variance 1, for products alone: zeros stay zeros in memory.

    Columns that do not vary are 0. Rows of other tables are measured by the same rule.
    """

    def __init__(self, x: Table, by: Moments | None = None) -> None:
        centre, variance = moments(x) if by is None else by
        self.by = Moments(centre, variance)
        self.scale = np.where(variance > 0, 1 / np.sqrt(np.where(variance > 0, variance, 1.0)), 0.0)
        self.table = x.astype(np.float64).tocsr() if is_sparse(x) else x
        self.turned = self.table.T.tocsr() if is_sparse(x) else None
        self.shape = x.shape
        self.whole = None  # of arrays that are small enough for a copy
        if isinstance(x, np.ndarray) and x.size <= COPIED:
            self.whole = (np.asarray(x, np.float64) - centre) * self.scale

    def times(self, weight: Float[np.ndarray, "g D"]) -> Float[np.ndarray, "g N"]:
        """The columns added up with these weights."""
        if self.whole is not None:
            return weight @ self.whole.T
        scaled = weight * self.scale
        if self.turned is not None:
            out = (self.table @ np.ascontiguousarray(scaled.T)).T
        else:
            out = np.zeros((len(weight), self.shape[0]))
            for which, part in dense_stretches(self.table):
                out += scaled[:, which] @ np.asarray(part, np.float64).T
        return out - (scaled @ self.by.mean)[:, None]

    def against(self, rows: Float[np.ndarray, "g N"]) -> Float[np.ndarray, "g D"]:
        """The products of each column with numbers for each row."""
        if self.whole is not None:
            return rows @ self.whole
        if self.turned is not None:
            out = (self.turned @ np.ascontiguousarray(rows.T)).T
        else:
            out = np.empty((len(rows), self.shape[1]))
            for which, part in dense_stretches(self.table):
                out[:, which] = rows @ np.asarray(part, np.float64)
        return (out - rows.sum(axis=1)[:, None] * self.by.mean) * self.scale
