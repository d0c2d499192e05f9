"""Named arrays in one safetensors file, whose metadata holds a checksum; nothing is ever unpickled."""

from __future__ import annotations

import contextlib
import hashlib
import json
import lzma
import math
import os
import struct
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from sober.errors import RequestError, brief
from sober.files.atomic import reading, replacing
from sober.files.memory import check_size
from sober.files.npy import PickledObjectsError, npy_header

MAGIC = np.lib.format.MAGIC_PREFIX
# What reading a damaged or crafted npz raises; a RuntimeError says that it is encrypted, or packed in an unknown way.
UNREADABLE = (OSError, EOFError, KeyError, MemoryError, RuntimeError, ValueError, lzma.LZMAError, struct.error,
              zipfile.BadZipFile, zlib.error)  # fmt: skip
RESAVE = "save it again, with numpy.savez('codes.npz', codes=codes, factors=factors)"


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> None:
    """Writes named arrays and string metadata as one safetensors file with a checksum, atomically."""
    # Little-endian, as safetensors stores them, so that the hash is of the bytes that will be read.
    stored = {name: np.asarray(a, a.dtype.newbyteorder("<"), order="C") for name, a in arrays.items()}
    with replacing(path) as temporary:
        # Not `save_file`: a kill would leave its own temporary files behind.
        temporary.write_bytes(save(stored, {**metadata, "checksum": _checksum(stored, metadata)}))


def load_arrays(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Named arrays and metadata of a file of `save_arrays`; an error names a damaged file."""
    try:
        with reading(path), safe_open(path, framework="numpy") as file:
            metadata = dict(file.metadata() or {})
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except RequestError:
        raise
    except (FileNotFoundError, SafetensorError, AttributeError, TypeError, ValueError) as error:
        raise RequestError(f"{path} is missing, damaged or not a file of Sober's ({brief(error)})") from error
    expected = metadata.pop("checksum", None)
    if expected != _checksum(arrays, metadata):
        raise RequestError(f"{path} is damaged, or not a file of Sober's (its checksum does not match)")
    return arrays, metadata


def npz_shapes(path: Path) -> dict[str, tuple[int, ...] | None]:
    """The shapes of the arrays in an npz file from any source; None for an array that cannot be read."""
    shapes: dict[str, tuple[int, ...] | None] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.namelist():
                name = member.removesuffix(".npy")
                if name != member:
                    shapes[name] = None
                    with archive.open(member) as file, contextlib.suppress(ValueError):
                        shapes[name] = npy_header(file).shape
    except UNREADABLE as error:
        raise RequestError(f"{path} cannot be read as an npz file ({brief(error)}): {RESAVE}") from error
    return shapes


def read_npz(path: Path, names: Iterable[str]) -> dict[str, np.ndarray]:
    """Arrays of an npz file from any source, by name. Refuses pickled objects."""
    try:
        with zipfile.ZipFile(path) as archive:
            return {name: _read_member(archive, path, name) for name in names}
    except UNREADABLE as error:
        if isinstance(error, RequestError):
            raise
        raise RequestError(f"{path} cannot be read as an npz file ({brief(error)}): {RESAVE}") from error


def _read_member(archive: zipfile.ZipFile, path: Path, name: str) -> np.ndarray:
    member = archive.getinfo(f"{name}.npy")
    check_size(f"{path}: array {name!r}", member.file_size, member.compress_size)
    with archive.open(member) as file:
        return _plain_array(file, f"{path}: array {name!r}", member.file_size)


def read_npy(path: Path) -> np.ndarray:
    """The array of an npy file from any source. Refuses pickled objects."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            check_size(str(path), size, size)
            return _plain_array(file, str(path), size)
    except UNREADABLE as error:
        if isinstance(error, RequestError):
            raise
        raise RequestError(f"{path} cannot be read as an npy file ({brief(error)}): {RESAVE}") from error


def _plain_array(file: IO[bytes], where: str, size: int) -> np.ndarray:
    """Reads an array in NumPy's format from a file of `size` bytes.

    What is in another format, such as a pickle, never reaches NumPy's reader.
    """
    if file.read(len(MAGIC)) != MAGIC:
        raise ValueError("it does not begin as NumPy's arrays do")
    file.seek(0)
    try:
        header = npy_header(file)
    except PickledObjectsError as error:
        advice = "save numbers, or text made with .astype(str)"
        raise RequestError(f"{where} holds Python objects, which Sober never loads: {advice}") from error
    # NumPy would take the memory before it reads. Elements without bytes count, too: a small file can name billions.
    if max(1, header.dtype.itemsize) * math.prod(header.shape) > size:
        raise ValueError("it ends too early")
    file.seek(0)
    return np.lib.format.read_array(file, allow_pickle=False)


def _checksum(arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> str:
    digest = hashlib.sha256(json.dumps(metadata, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.asarray(arrays[name], order="C")
        digest.update(f"{name}:{array.dtype.str}:{array.shape};".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return "sha256:" + digest.hexdigest()
