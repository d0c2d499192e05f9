"""Columns that are scaled so that their products are correlations, or cosines, whatever holds them.

    r(a, b) = Σ_n (a_n − ā)(b_n − b̄) / (|a − ā| · |b − b̄|) = a′ · b′ − shift_a · shift_b

a′ is column a divided by |a − ā|. A dense column is centred first, so its shift is 0. A sparse column stays sparse, and
its shift is √N · ā / |a − ā|.
"""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import scipy
import scipy.sparse
from jaxtyping import Float, Int

from sober.agreement.features import Features, Statistics, lengths_of, row_chunks
from sober.agreement.options import Measure
from sober.estimators.compiled import compiled
from sober.parallel import cores
from sober.short_text import as_call

EXACT = 2**26  # numbers in all codes beyond this, products are in float32


@dataclasses.dataclass(frozen=True, eq=False)
class Columns:
    """D columns of N numbers, dense, sparse, or dense on disk."""

    values: Any  # (N, D): an array, a `csc_array`, or a memory map with `centre` and `scale`
    shift: Float[np.ndarray, " D"]
    by_row: Any = None  # sparse values as a `csr_array`
    centre: Float[np.ndarray, " D"] | None = None  # of a memory map: subtracted as its rows are read
    scale: Float[np.ndarray, " D"] | None = None  # of a memory map: multiplied after that

    def __repr__(self) -> str:
        return as_call(self)

    @property
    def shape(self) -> tuple[int, int]:
        return self.values.shape

    @property
    def is_sparse(self) -> bool:
        return self.by_row is not None

    def read(self, rows: slice, span: slice) -> np.ndarray:
        """Some rows of some dense columns, centred and scaled."""
        values = self.values[rows, span]
        if self.centre is None or self.scale is None:
            return values
        return ((values - self.centre[span]) * self.scale[span]).astype(np.float32)

    def dense(self, chosen: Int[np.ndarray, " n"]) -> np.ndarray:
        """Some columns as a dense array; what was not centred stays so."""
        values = self.values[:, chosen]
        if self.is_sparse:
            return values.toarray()
        if self.centre is None or self.scale is None:
            return values
        return ((values - self.centre[chosen]) * self.scale[chosen]).astype(np.float32)

    def only(self, chosen: Int[np.ndarray, " n"]) -> Columns:
        """Some of the columns, as columns of their own."""
        if self.is_sparse:
            values = self.values[:, chosen]
            return Columns(values, self.shift[chosen], scipy.sparse.csr_array(values))
        return Columns(self.dense(chosen), self.shift[chosen])


def of_codes(features: Features, facts: Statistics, measure: Measure, dtype: Any = np.float64) -> Columns:
    """The codes of a model for correlations; ranks take the place of codes for `spearman`."""
    codes = features.codes
    if scipy.sparse.issparse(codes):
        return scaled_sparse(_sparse_ranks(codes) if measure == "spearman" else codes, facts.constant, dtype)
    if measure == "spearman":
        return scaled(scipy.stats.rankdata(codes, axis=0), facts.constant, dtype)
    if isinstance(codes, np.memmap):
        spread = np.sqrt(_squared_distances(codes, facts.mean))
        inverse = np.divide(1, spread, out=np.zeros_like(spread), where=~facts.constant & (spread > 0))
        return Columns(codes, np.zeros(codes.shape[1]), centre=facts.mean, scale=inverse)
    return scaled(codes, facts.constant, dtype)


def _squared_distances(codes: np.ndarray, mean: Float[np.ndarray, " D"]) -> Float[np.ndarray, " D"]:
    total = np.zeros(codes.shape[1])
    for rows in row_chunks(codes):
        total += ((np.asarray(codes[rows], float) - mean) ** 2).sum(axis=0)
    return total


def scaled(codes: np.ndarray, constant: Any = None, dtype: Any = np.float64) -> Columns:
    """Dense columns, centred and divided by their length; columns that do not vary become 0."""
    values = np.array(codes, np.float64)
    largest = np.abs(values).max(axis=0)
    values /= np.where((largest > 1e100) | ((largest > 0) & (largest < 1e-100)), largest, 1)  # so that squares fit
    flat = np.ptp(values, axis=0) == 0 if constant is None else constant
    values -= values.mean(axis=0)
    values[:, flat] = 0
    length = np.linalg.norm(values, axis=0)
    values /= np.where(length > 0, length, 1)
    return Columns(values.astype(dtype, copy=False), np.zeros(values.shape[1]))


def scaled_sparse(codes: Any, constant: Any = None, dtype: Any = np.float64) -> Columns:
    """Sparse columns divided by the length that they would have if they were centred."""
    codes = scipy.sparse.csc_array(codes)
    rows, columns = codes.shape
    counts = np.diff(codes.indptr)
    column = np.repeat(np.arange(columns), counts)
    data = codes.data.astype(float)
    mean = np.bincount(column, data, columns) / rows
    squares = np.bincount(column, (data - mean[column]) ** 2, columns) + (rows - counts) * mean**2
    flat = squares <= 0 if constant is None else constant | (squares <= 0)
    inverse = np.where(flat, 0, 1 / np.sqrt(np.where(flat, 1, squares)))
    values = scipy.sparse.csc_array(((data * inverse[column]).astype(dtype), codes.indices, codes.indptr), codes.shape)
    return Columns(values, np.sqrt(rows) * mean * inverse, scipy.sparse.csr_array(values))


def _sparse_ranks(codes: Any) -> Any:
    """Ranks less the rank that all zeros share, so that zeros stay zeros."""
    rows = codes.shape[0]
    ranks = np.empty(len(codes.data))
    for start, end in zip(codes.indptr[:-1], codes.indptr[1:], strict=True):
        data = codes.data[start:end]
        negative, zeros = (data < 0).sum(), rows - np.count_nonzero(data)
        rank = scipy.stats.rankdata(data)
        rank[data > 0] += zeros - (data == 0).sum()
        ranks[start:end] = np.where(data == 0, 0, rank - (negative + (zeros + 1) / 2))
    return scipy.sparse.csc_array((ranks, codes.indices, codes.indptr), codes.shape)


def of_directions(directions: Float[np.ndarray, "D P"], dtype: Any = np.float64) -> Columns:
    """The directions of a model for cosines: each of length 1, or 0 if it is 0."""
    values = np.asarray(directions, dtype)
    length = lengths_of(values)[:, None]
    return Columns((values / np.where(length > 0, length, 1)).T, np.zeros(len(values)))


def products(first: Columns, span: slice, second: Columns) -> Float[np.ndarray, "n D"]:
    """The correlations of some columns of `first` with all columns of `second`."""
    if first.is_sparse and second.is_sparse:
        return _sparse_products(first, span, second)
    if first.is_sparse:
        out = np.asarray(first.values[:, span].T @ second.read(slice(None), slice(None)))
    elif second.is_sparse:
        out = np.asarray(second.values.T @ first.read(slice(None), span)).T
    elif first.centre is None and second.centre is None:
        out = first.values[:, span].T @ second.values
    else:
        out = np.zeros((len(range(*span.indices(first.shape[1]))), second.shape[1]), np.float32)
        for rows in row_chunks(second.values):
            out += first.read(rows, span).T @ second.read(rows, slice(None))
    return out  # dense columns are centred, so their shift is 0


def _sparse_products(first: Columns, span: slice, second: Columns) -> np.ndarray:
    start, stop, _ = span.indices(first.shape[1])
    out = np.zeros((stop - start, second.shape[1]), np.result_type(first.values.data, second.values.data))
    multiply = compiled(_multiply)
    arguments = (first.values.indptr, first.values.indices, first.values.data, first.shift,
                 second.by_row.indptr, second.by_row.indices, second.by_row.data, second.shift)  # fmt: skip
    bounds = np.linspace(0, stop - start, cores() + 1).astype(int)
    with ThreadPoolExecutor(cores()) as pool:
        halves = zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
        list(pool.map(lambda ends: multiply(*arguments, start + ends[0], out[ends[0] : ends[1]]), halves))
    return out


def _multiply(
    column_start: np.ndarray,
    row: np.ndarray,
    value: np.ndarray,
    shift: np.ndarray,
    row_start: np.ndarray,
    column: np.ndarray,
    other: np.ndarray,
    other_shift: np.ndarray,
    first: int,
    out: np.ndarray,
) -> None:
    """For each column, adds up its rows of the other table, row by row: one line of `out` stays in the cache."""
    for place in range(len(out)):
        line = out[place]
        for entry in range(column_start[first + place], column_start[first + place + 1]):
            factor = value[entry]
            for cell in range(row_start[row[entry]], row_start[row[entry] + 1]):
                line[column[cell]] += factor * other[cell]
        for cell in range(len(line)):
            line[cell] -= shift[first + place] * other_shift[cell]
