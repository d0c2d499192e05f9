"""npy files: one array each. Checks the header before it reads the array, and never loads objects."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from jaxtyping import UInt8

from sober.errors import brief

ROWS, AT_ONCE = 1024, 2**22  # the most rows, and the most bytes, that are read at a time

LONGEST_HEADER = 10_000  # bytes; NumPy's own limit
MOST_AXES, LONGEST_AXIS = 32, 2**63 - 1  # of an array


class PickledObjectsError(ValueError):
    """An npy file holds Python objects, whose loading could run code."""


class NpyHeader(NamedTuple):
    """An npy file's description of its array."""

    shape: tuple[int, ...]
    dtype: np.dtype
    row_major: bool

    def __str__(self) -> str:
        order = "" if self.row_major else ", column by column"
        return f"{self.dtype} images of shape {self.shape}{order}"


def npy_header(file: IO[bytes]) -> NpyHeader:
    """Reads the header of an npy file, up to the first element; an array of objects is a `PickledObjectsError`."""
    readers: dict[tuple[int, int], Any] = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    version = np.lib.format.read_magic(file)
    if version not in readers:
        raise ValueError(f"npy version {version} is not known")
    if version == (2, 0):  # NumPy would read a header of any length before it refuses a long one
        length = int.from_bytes(file.read(4), "little")
        if length > LONGEST_HEADER:
            raise ValueError(f"its npy header has {length:,} bytes")
        file.seek(-4, os.SEEK_CUR)
    try:
        shape, column_major, dtype = readers[version](file)
    except Exception as error:  # NumPy parses the header as Python code, which can raise any error
        raise ValueError(f"its npy header cannot be read ({brief(error)})") from error
    if len(shape) > MOST_AXES or not all(type(n) is int and 0 <= n <= LONGEST_AXIS for n in shape):
        raise ValueError("its npy header has the shape of no array")
    if dtype.hasobject:
        raise PickledObjectsError("it holds pickled objects, which are never loaded")
    return NpyHeader(shape, dtype, not column_major)


def npy_rows(file: IO[bytes], shape: tuple[int, ...]) -> Iterator[UInt8[np.ndarray, "n ..."]]:
    """The bytes of an npy file of this shape, some rows at a time; another shape is a `ValueError`."""
    header = npy_header(file)
    if header != NpyHeader(shape, np.dtype(np.uint8), True):
        raise ValueError(f"it holds {header}, not uint8 {shape}")
    yield from raw_rows(file, shape)
    if file.read(1):  # reading to the end also makes zipfile compare the checksum
        raise ValueError("more data than its header says")


def raw_rows(file: IO[bytes], shape: tuple[int, ...]) -> Iterator[UInt8[np.ndarray, "n ..."]]:
    """The next bytes of a file as an array of this shape, some rows at a time."""
    row = math.prod(shape[1:])
    most = min(ROWS, max(1, AT_ONCE // max(1, row)))
    for start in range(0, shape[0], most):
        rows = min(most, shape[0] - start)
        content = file.read(rows * row)
        if len(content) < rows * row:
            raise ValueError("it ends too early")
        yield np.frombuffer(content, np.uint8).reshape(rows, *shape[1:])


def map_npy(path: Path) -> np.ndarray:
    """The array of an npy file, memory-mapped; a file of another length than its header says is a `ValueError`."""
    with open(path, "rb") as file:
        header, start, size = npy_header(file), file.tell(), os.fstat(file.fileno()).st_size
        expected = start + header.dtype.itemsize * math.prod(header.shape)
        if size != expected:
            raise ValueError(f"{path.name} has {size:,} bytes, not {expected:,}")
        order: Any = "C" if header.row_major else "F"
        if size == start:
            return np.empty(header.shape, header.dtype, order)  # an empty file cannot be mapped
        return np.memmap(file, header.dtype, "r", start, header.shape, order)


def write_npy(path: Path, shape: tuple[int, ...], dtype: np.dtype, blocks: Iterable[np.ndarray]) -> None:
    """Writes an array, one block of rows after another. A block of another type or shape is a `ValueError`.

    The write is not atomic: see `replacing`.
    """
    rows = 0
    with open(path, "wb") as file:
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for block in blocks:
            if block.dtype != dtype or block.shape[1:] != shape[1:]:
                raise ValueError(f"rows of {block.dtype} {block.shape[1:]} for an array of {dtype} {shape}")
            file.write(np.ascontiguousarray(block).data)
            rows += len(block)
    if rows != shape[0]:
        raise ValueError(f"{rows:,} rows for an array of {shape[0]:,}")
