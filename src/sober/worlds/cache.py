"""The cache of pictures: pictures that are slow to draw, convert or decode are made once and then mapped from disk.

    KIND/NAME.npy          the pictures, uncompressed: mapped, not read, so a large world opens at once
    KIND/NAME.labels.npy   a row of labels for each picture, if there are labels
    KIND/NAME.json         the record: the source of the pictures, notes on them, their fingerprint, and the size and
                           time of both files

The record is written last and has a checksum, so an entry is whole or absent. A file whose size and time are those in
the record is trusted. Any other file, as in a copied cache, is read once and must have the recorded fingerprint. A
damaged entry is made again, with a warning.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sober.errors import FullDiskError, RequestError, brief
from sober.files import cache_dir, map_npy, read_json, replacing, write_json, write_npy

IN_MEMORY = 2**31  # the most bytes of pictures to hold in memory if the cache cannot be written to
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
READ_BYTES = 2**22  # bytes to read at a time
BYTES = np.dtype(np.uint8)

Stamp = list[int]  # the size and time of a file, which change when the file changes


class Entry(NamedTuple):
    """Pictures in the cache, with their labels and notes."""

    pictures: np.ndarray  # (N, …)
    labels: np.ndarray | None  # (N, K)
    notes: Any  # the writer's notes, as JSON
    fingerprint: str  # of pictures and labels, 64 hexadecimal digits


def entry_path(kind: str, name: str) -> Path:
    """The path of an entry's record; its arrays are files beside it."""
    return cache_dir() / kind / f"{name}.json"


def find_entry(path: Path, fits: Callable[[Any], bool], activity: str) -> Entry | None:
    """The entry at `path` if it is whole and `fits` accepts its source; else None.

    A warning about a damaged entry says which `activity` starts again, such as `converting shapes3d`.
    """
    if not path.exists():
        return None
    try:
        record = _read_record(path)
        if not fits(record["made_from"]):
            return None
        arrays = {suffix: map_npy(path.with_suffix(suffix)) for suffix in record["stamps"]}
        pictures, labels = arrays[".npy"], arrays.get(".labels.npy")
        stamps = {suffix: stamp(path.with_suffix(suffix)) for suffix in arrays}
        if stamps != record["stamps"]:
            if fingerprint(pictures, labels) != record["fingerprint"]:
                raise ValueError(f"{path.stem}.npy does not have its fingerprint")
            with contextlib.suppress(OSError):  # if the cache is read-only, the files are read again next time
                _write_record(path, {**record, "stamps": stamps})
        return Entry(pictures, labels, record["about"], record["fingerprint"])
    except (RequestError, OSError, ValueError, LookupError, TypeError, EOFError) as error:
        warnings.warn(f"{path} or a file beside it is damaged ({brief(error)}): {activity} again", stacklevel=3)
        return None


def make_entry(
    path: Path,
    made_from: Any,
    shape: tuple[int, ...],
    blocks: Callable[[], Iterable[np.ndarray]],
    *,
    dtype: np.dtype = BYTES,
    labels: np.ndarray | None = None,
    notes: Any = None,
    or_in_memory: bool = True,
) -> Entry:
    """Writes pictures into the cache, block by block, and returns them mapped from disk.

    If the cache cannot be written to, `or_in_memory` allows to hold up to `IN_MEMORY` bytes in memory, with a warning;
    `blocks` is then called a second time. Otherwise that is an error.
    """
    size = dtype.itemsize * math.prod(shape)
    try:
        return _written(path, made_from, shape, dtype, blocks(), labels, notes)
    except OSError as error:
        problem = f"{path.stem} could not be cached in {path.parent} ({brief(error)})"
        if not or_in_memory or size > IN_MEMORY:
            kind = FullDiskError if error.errno in DISK_FULL else RequestError
            raise kind(f"{problem}: free some space, or set SOBER_CACHE to another folder") from error
        warnings.warn(f"{problem}: set SOBER_CACHE", stacklevel=3)
    in_memory = list(blocks())
    pictures = in_memory[0] if len(in_memory) == 1 else np.concatenate(in_memory)
    return Entry(pictures, labels, notes, fingerprint(pictures, labels))


def cached_array(kind: str, name: str, make: Callable[[], np.ndarray], activity: str) -> np.ndarray:
    """An array from the cache, made on first use; `name` must change when the array does."""
    path = entry_path(kind, name)
    entry = find_entry(path, lambda made_from: made_from == name, activity)
    if entry is None:
        array = make()
        entry = make_entry(path, name, array.shape, lambda: [array], dtype=array.dtype)
    return entry.pictures


def stamp(path: Path) -> Stamp:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]


def fingerprint(pictures: np.ndarray, labels: np.ndarray | None = None) -> str:
    """64 hexadecimal digits that identify pictures and labels by their content."""
    digest = _digest(pictures.shape, labels)
    rows = max(1, READ_BYTES * len(pictures) // max(1, pictures.nbytes))
    for start in range(0, len(pictures), rows):
        digest.update(np.ascontiguousarray(pictures[start : start + rows]).data)
    return digest.hexdigest()


def _digest(shape: tuple[int, ...], labels: np.ndarray | None) -> Any:
    digest = hashlib.sha256(str(tuple(shape)).encode())
    if labels is not None:
        digest.update(np.ascontiguousarray(labels, labels.dtype.newbyteorder("<")).data)
    return digest


def _written(
    path: Path,
    made_from: Any,
    shape: tuple[int, ...],
    dtype: np.dtype,
    blocks: Iterable[np.ndarray],
    labels: np.ndarray | None,
    notes: Any,
) -> Entry:
    path.parent.mkdir(parents=True, exist_ok=True)
    needed = dtype.itemsize * math.prod(shape)
    if shutil.disk_usage(path.parent).free < needed:
        raise OSError(errno.ENOSPC, f"{needed:,} bytes are needed")
    path.unlink(missing_ok=True)  # an older record would not describe the new files
    digest, stamps = _digest(shape, labels), {}

    def hashed() -> Iterator[np.ndarray]:
        for block in blocks:
            digest.update(np.ascontiguousarray(block).data)
            yield block

    # Stamps and maps are taken before the files get their names: another process may replace them right after.
    with replacing(path.with_suffix(".npy")) as temporary:
        write_npy(temporary, shape, dtype, hashed())
        pictures, stamps[".npy"] = map_npy(temporary), stamp(temporary)
    if labels is not None:
        with replacing(path.with_suffix(".labels.npy")) as temporary:
            write_npy(temporary, labels.shape, labels.dtype, [labels])
            stamps[".labels.npy"] = stamp(temporary)
    record = {"made_from": made_from, "about": notes, "fingerprint": digest.hexdigest(), "stamps": stamps}
    _write_record(path, record)
    return Entry(pictures, labels, notes, record["fingerprint"])


def _write_record(path: Path, record: dict[str, Any]) -> None:
    write_json(path, {**record, "checksum": _checksum(record)})


def _read_record(path: Path) -> dict[str, Any]:
    record = dict(read_json(path))
    if record.pop("checksum", None) != _checksum(record):
        raise ValueError("its checksum does not match")
    return record


def _checksum(record: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()
