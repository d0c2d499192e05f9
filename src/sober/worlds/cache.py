"""The cache of pictures: whatever takes a while to draw, convert or decode is made once and then mapped from disk.

    KIND/NAME.npy          the pictures, uncompressed: mapped, not read, so a world opens at once however large it is
    KIND/NAME.labels.npy   a row of labels for each, where there are any
    KIND/NAME.json         what they were made from and what is known about them; their fingerprint, and the size and
                           time of both files

The record is written last and has a checksum, so an entry is whole or absent. Files that still have the size and time
of the record are believed; others, as in a copied cache, are read once and must have the fingerprint. A damaged entry
is made again, with a warning.
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

IN_MEMORY = 2**31  # bytes of pictures that are held in memory where the cache cannot be written to
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
AT_ONCE = 2**22  # bytes that are read at a time
BYTES = np.dtype(np.uint8)

Stamp = list[int]  # of a file: its size and its time, which change when it does


class Entry(NamedTuple):
    """Pictures in the cache, and what was kept beside them."""

    pictures: np.ndarray  # (N, …)
    labels: np.ndarray | None  # (N, K)
    about: Any  # what their maker noted, as JSON has it
    fingerprint: str  # of pictures and labels, 64 hexadecimal digits


def entry_path(kind: str, name: str) -> Path:
    """Where the record of an entry lies; its arrays lie beside it."""
    return cache_dir() / kind / f"{name}.json"


def find_entry(path: Path, fits: Callable[[Any], bool], doing: str) -> Entry | None:
    """The entry at `path`, if it is whole and `fits` what it was made from; else None.

    Where it is damaged, a warning says what is being done, such as `converting shapes3d`, again.
    """
    if not path.exists():
        return None
    try:
        record = _read_record(path)
        if not fits(record["made_from"]):
            return None
        arrays = {end: map_npy(path.with_suffix(end)) for end in record["stamps"]}
        pictures, labels = arrays[".npy"], arrays.get(".labels.npy")
        stamps = {end: stamp(path.with_suffix(end)) for end in arrays}
        if stamps != record["stamps"]:
            if fingerprint(pictures, labels) != record["fingerprint"]:
                raise ValueError(f"{path.stem}.npy does not have its fingerprint")
            with contextlib.suppress(OSError):  # a cache that cannot be written to is read again next time
                _write_record(path, {**record, "stamps": stamps})
        return Entry(pictures, labels, record["about"], record["fingerprint"])
    except (RequestError, OSError, ValueError, LookupError, TypeError, EOFError) as error:
        warnings.warn(f"{path} or what it describes is damaged ({brief(error)}): {doing} again", stacklevel=3)
        return None


def make_entry(
    path: Path,
    made_from: Any,
    shape: tuple[int, ...],
    parts: Callable[[], Iterable[np.ndarray]],
    *,
    dtype: np.dtype = BYTES,
    labels: np.ndarray | None = None,
    about: Any = None,
    or_in_memory: bool = True,
) -> Entry:
    """Writes pictures into the cache as they come, `parts()` after part, and returns them mapped.

    Where the cache cannot be written to, pictures that fit are held in memory, with a warning, if that will do; else
    it is an error. `parts` is then called once more.
    """
    size = dtype.itemsize * math.prod(shape)
    try:
        return _written(path, made_from, shape, dtype, parts(), labels, about)
    except OSError as error:
        why = f"{path.stem} could not be cached in {path.parent} ({brief(error)})"
        if not or_in_memory or size > IN_MEMORY:
            kind = FullDiskError if error.errno in FULL else RequestError
            raise kind(f"{why}: free some space, or set SOBER_CACHE to another folder") from error
        warnings.warn(f"{why}: set SOBER_CACHE", stacklevel=3)
    held = list(parts())
    pictures = held[0] if len(held) == 1 else np.concatenate(held)
    return Entry(pictures, labels, about, fingerprint(pictures, labels))


def cached_array(kind: str, name: str, make: Callable[[], np.ndarray], doing: str) -> np.ndarray:
    """An array from the cache, made and kept on first use; `name` must change when the array does."""
    path = entry_path(kind, name)
    entry = find_entry(path, lambda made_from: made_from == name, doing)
    if entry is None:
        array = make()
        entry = make_entry(path, name, array.shape, lambda: [array], dtype=array.dtype)
    return entry.pictures


def stamp(path: Path) -> Stamp:
    about = path.stat()
    return [about.st_size, about.st_mtime_ns]


def fingerprint(pictures: np.ndarray, labels: np.ndarray | None = None) -> str:
    """64 hexadecimal digits that tell these pictures and labels from others."""
    digest = _digest(pictures.shape, labels)
    rows = max(1, AT_ONCE * len(pictures) // max(1, pictures.nbytes))
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
    parts: Iterable[np.ndarray],
    labels: np.ndarray | None,
    about: Any,
) -> Entry:
    path.parent.mkdir(parents=True, exist_ok=True)
    needed = dtype.itemsize * math.prod(shape)
    if shutil.disk_usage(path.parent).free < needed:
        raise OSError(errno.ENOSPC, f"{needed:,} bytes are needed")
    path.unlink(missing_ok=True)  # the record of what was there before would not describe what comes now
    digest, stamps = _digest(shape, labels), {}

    def read_by() -> Iterator[np.ndarray]:
        for part in parts:
            digest.update(np.ascontiguousarray(part).data)
            yield part

    # Stamps and maps are those of the files written here, not of what another process may put in their place.
    with replacing(path.with_suffix(".npy")) as temporary:
        write_npy(temporary, shape, dtype, read_by())
        pictures, stamps[".npy"] = map_npy(temporary), stamp(temporary)
    if labels is not None:
        with replacing(path.with_suffix(".labels.npy")) as temporary:
            write_npy(temporary, labels.shape, labels.dtype, [labels])
            stamps[".labels.npy"] = stamp(temporary)
    record = {"made_from": made_from, "about": about, "fingerprint": digest.hexdigest(), "stamps": stamps}
    _write_record(path, record)
    return Entry(pictures, labels, about, record["fingerprint"])


def _write_record(path: Path, record: dict[str, Any]) -> None:
    write_json(path, {**record, "checksum": _checksum(record)})


def _read_record(path: Path) -> dict[str, Any]:
    record = dict(read_json(path))
    if record.pop("checksum", None) != _checksum(record):
        raise ValueError("its checksum does not match")
    return record


def _checksum(record: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()
