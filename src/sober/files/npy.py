"""npy files: one array each, its form checked before a byte of it is read; one that holds objects is never loaded."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from jaxtyping import UInt8

from sober.errors import brief

ROWS, AT_ONCE = 1024, 2**22  # at most so many rows, of so many bytes together, are held at a time


class NpyHeader(NamedTuple):
    """What an npy file says about its array."""

    shape: tuple[int, ...]
    dtype: np.dtype
    row_major: bool

    def __str__(self) -> str:
        order = "" if self.row_major else ", column by column"
        return f"{self.dtype} images of shape {self.shape}{order}"


def npy_header(file: IO[bytes]) -> NpyHeader:
    """The header of an npy file, which is then at its first element; an array of objects is a `ValueError`."""
    readers: dict[tuple[int, int], Any] = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    version = np.lib.format.read_magic(file)
    if version not in readers:
        raise ValueError(f"npy version {version} is not known")
    try:
        shape, column_major, dtype = readers[version](file)
    except Exception as error:  # a header is read as a piece of Python, which can be wrong in too many ways to name
        raise ValueError(f"its npy header cannot be read ({brief(error)})") from error
    if dtype.hasobject:
        raise ValueError("it holds pickled objects, which are never loaded")
    return NpyHeader(shape, dtype, not column_major)


def npy_rows(file: IO[bytes], shape: tuple[int, ...]) -> Iterator[UInt8[np.ndarray, "n ..."]]:
    """The bytes of an npy file that must have this shape, some rows at a time."""
    header = npy_header(file)
    if header != NpyHeader(shape, np.dtype(np.uint8), True):
        raise ValueError(f"it holds {header}, not uint8 {shape}")
    yield from raw_rows(file, shape)
    if file.read(1):  # reading to the end is also what makes zipfile compare the checksum
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
    """The array of an npy file, mapped and not read; a file of another length than it says is a `ValueError`."""
    with open(path, "rb") as file:
        header, start, size = npy_header(file), file.tell(), os.fstat(file.fileno()).st_size
        expected = start + header.dtype.itemsize * math.prod(header.shape)
        if size != expected:
            raise ValueError(f"{path.name} has {size:,} bytes, not {expected:,}")
        order: Any = "C" if header.row_major else "F"
        if size == start:
            return np.empty(header.shape, header.dtype, order)  # nothing cannot be mapped
        return np.memmap(file, header.dtype, "r", start, header.shape, order)


def write_npy(path: Path, shape: tuple[int, ...], dtype: np.dtype, parts: Iterable[np.ndarray]) -> None:
    """Writes an array of known shape as its rows come, in the memory of one part; other rows are a `ValueError`.

    Whole or absent is up to the caller: see `replacing`.
    """
    done = 0
    with open(path, "wb") as file:
        about = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, about)
        for part in parts:
            if part.dtype != dtype or part.shape[1:] != shape[1:]:
                raise ValueError(f"rows of {part.dtype} {part.shape[1:]} for an array of {dtype} {shape}")
            file.write(np.ascontiguousarray(part).data)
            done += len(part)
    if done != shape[0]:
        raise ValueError(f"{done:,} rows for an array of {shape[0]:,}")
