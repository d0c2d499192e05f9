"""Published data sets: finding the file, checking it, and converting its pictures once.

The converted pictures lie in the cache as an uncompressed npy file, which is mapped and not read, so a world opens at
once however large it is. Beside it a small json file says which files it was made from and what it must contain.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import hashlib
import json
import os
import shutil
import sys
import urllib.parse
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int, UInt8

from sober.errors import RequestError, brief
from sober.files import cache_dir, load_arrays, read_json, replacing, save_arrays, write_json
from sober.worlds.published.archives import reading
from sober.worlds.stored import Stored


@dataclasses.dataclass(frozen=True)
class Source:
    """A file as published: what it is called, where it is, how to know it, and under what terms."""

    file: str
    url: str
    size: int | None = None  # bytes; None where it is not known
    checksum: str | None = None  # `md5:…` or `sha256:…`; None where it is not known
    licence: str = ""
    citation: str = ""  # BibTeX
    direct: bool = True  # the URL is the file itself, not a page on which to ask for it
    unpacked: str | None = None  # the name under which its content, unpacked, is read as well

    def __str__(self) -> str:
        size = "size not known" if self.size is None else f"{self.size:,} bytes"
        return f"{self.file} ({size}, {self.checksum or 'checksum not known'})"


class Table(NamedTuple):
    """What is known about pictures that form no grid: a row for each, and the names of each factor's classes."""

    labels: Int[np.ndarray, "N K"]
    values: tuple[tuple[str, ...], ...] = ()


class Converted(NamedTuple):
    """A world's pictures in the cache."""

    pictures: UInt8[np.ndarray, "N H W C"]
    table: Table | None
    fingerprint: str  # of pictures and table
    verified: bool  # whether every file they were made from had its published checksum


def data_dir() -> Path:
    """Where published files are looked for and downloaded to: `$SOBER_DATA`, else `data` in the cache folder."""
    return Path(os.environ.get("SOBER_DATA") or cache_dir() / "data")


class Published(Stored):
    """`NAME` reads the files of `sources` in the data folder, `NAME:file=PATH` a file, or a folder that holds them."""

    sources: tuple[Source, ...]
    conversion = 1  # part of the cache's name: a change that alters any picture raises it

    def __init__(self, file: str | None = None) -> None:
        self.file = None if file is None else Path(file).expanduser().resolve()

    @abc.abstractmethod
    def convert(self, *paths: Path) -> Iterator[UInt8[np.ndarray, "n H W C"]]:
        """Every picture in the order of the world, some at a time, from the files of `sources`."""

    def table(self, *paths: Path) -> Table | None:
        """The labels of all pictures, where they form no grid."""
        return None

    @property
    def spec(self) -> str:
        return self.name if self.file is None else f"{self.name}:file={self.file}"

    @functools.cached_property
    def label(self) -> str:
        return self.name if self.converted.verified else f"{self.name}:{self.fingerprint}"

    @functools.cached_property
    def fingerprint(self) -> str:
        return self.converted.fingerprint[:16]

    @functools.cached_property
    def pictures(self) -> UInt8[np.ndarray, "N H W C"]:
        return self.converted.pictures

    @functools.cached_property
    def converted(self) -> Converted:
        """The pictures, from the cache or, the first time, from the published files."""
        return self.kept() or self._make()

    def kept(self) -> Converted | None:
        """What the cache holds of this world, if that is whole and its files are still the same."""
        npy, about, table = self._cache()
        if not about.exists():
            return None
        try:
            record = read_json(about)
            if not self._same_files(record["files"]):
                return None
            pictures = np.load(npy, mmap_mode="r", allow_pickle=False)
            labels = _load_table(table) if record["table"] else None
            count = len(labels.labels) if labels else self.size
            if pictures.shape != (count, *self.image_shape) or pictures.dtype != np.uint8:
                raise ValueError(f"{npy} holds other pictures")
            # An unchanged size and time are as good as reading it all; a copy of the cache is read once.
            if record["stamp"] != _stamp(npy) or npy.stat().st_size != pictures.offset + pictures.nbytes:
                if _fingerprint(pictures, labels) != record["fingerprint"]:
                    raise ValueError(f"{npy} does not have its checksum")
                write_json(about, {**record, "stamp": _stamp(npy)})
            return Converted(pictures, labels, record["fingerprint"], record["verified"])
        except (RequestError, OSError, ValueError, LookupError, TypeError, EOFError) as error:
            warnings.warn(f"{about} or what it describes is damaged ({brief(error)}): made again", stacklevel=2)
            return None

    def absent(self) -> str | None:
        try:
            return None if self.kept() is not None or self.paths(fetch=False) else ""
        except RequestError as error:
            return brief(error)

    def paths(self, *, fetch: bool = True) -> tuple[Path, ...]:
        """Where the published files lie; those that are missing are downloaded, unless `fetch` is off."""
        return tuple(self._path(source, fetch) for source in self.sources)

    def _make(self) -> Converted:
        paths = self.paths()
        files = [[str(path), *_stamp(path)] for path in paths]
        checks = [_verify(path, source) for path, source in zip(paths, self.sources, strict=True)]
        table = self.table(*paths)
        shape = (self.size if table is None else len(table.labels), *self.image_shape)
        npy, about, labels = self._cache()
        try:
            npy.parent.mkdir(parents=True, exist_ok=True)
            if shutil.disk_usage(npy.parent).free < np.prod(shape):
                raise OSError(f"{np.prod(shape):,} bytes are needed")
            about.unlink(missing_ok=True)  # it would describe other pictures until it is written again
            fingerprint = self._write(npy, shape, table, paths)
            if table is not None:
                save_arrays(labels, {"labels": table.labels}, {"values": json.dumps(table.values)})
            record = {"files": files, "verified": all(checks), "table": table is not None}
            write_json(about, {**record, "fingerprint": fingerprint, "stamp": _stamp(npy)})
        except OSError as error:
            raise RequestError(
                f"{self.name} could not be converted into {npy.parent} ({brief(error)}): free some space, "
                "or set SOBER_CACHE to another folder"
            ) from error
        return Converted(np.load(npy, mmap_mode="r", allow_pickle=False), table, fingerprint, all(checks))

    def _write(self, npy: Path, shape: tuple[int, ...], table: Table | None, paths: tuple[Path, ...]) -> str:
        """Writes the pictures as they stream past, and returns their fingerprint."""
        digest, done = _digest(shape, table), 0
        with replacing(npy) as temporary, open(temporary, "wb") as file:
            about = {"descr": "|u1", "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, about)
            for part in self._parts(paths):
                if part.dtype != np.uint8 or part.shape[1:] != shape[1:]:
                    raise RequestError(f"{paths[0]} holds {part.dtype} images of {part.shape[1:]}, not uint8 {shape}")
                content = np.ascontiguousarray(part).data
                file.write(content)
                digest.update(content)
                done += len(part)
            if done != shape[0]:
                raise RequestError(f"{paths[0]} holds {done:,} pictures, not {shape[0]:,}: is it the published file?")
        return digest.hexdigest()

    def _parts(self, paths: tuple[Path, ...]) -> Iterator[UInt8[np.ndarray, "n H W C"]]:
        with reading(paths[0], self.name):
            yield from self.convert(*paths)

    def _cache(self) -> tuple[Path, Path, Path]:
        """The files of this world in the cache: pictures, what they were made from, labels."""
        of = "" if self.file is None else "-" + hashlib.sha256(str(self.file).encode()).hexdigest()[:12]
        stem = cache_dir() / "published" / f"{self.name}-{self.conversion}{of}"
        return tuple(stem.with_name(stem.name + end) for end in (".npy", ".json", ".safetensors"))  # type: ignore[return-value]

    def _same_files(self, files: list[Any]) -> bool:
        # Files in the data folder may be deleted once they are converted; one that was named must be there.
        return all(
            _stamp(Path(path)) == [size, time] if Path(path).exists() else self.file is None
            for path, size, time in files
        )

    def _path(self, source: Source, fetch: bool) -> Path:
        folder = data_dir() / self.name if self.file is None else self.file
        if folder.is_file():  # the first of the files was named: the others lie beside it
            if source == self.sources[0]:
                return folder
            folder = folder.parent
        names = [source.file, *([source.unpacked] if source.unpacked else [])]
        for name in names:
            if (folder / name).exists():
                return folder / name
        if self.file is not None and self.file.is_dir() and source.unpacked and len(self.sources) == 1:
            return self.file  # the unpacked folder itself
        if self.file is not None:
            raise RequestError(f"{self.file} is not there, or is a folder without {source}: see {source.url}")
        why = ""
        if fetch and source.direct:
            try:
                return _download(source, folder / source.file)
            except Exception as error:  # no network, a full disk, a checksum: all have the same remedy
                why = f" (no download: {brief(error)})"
        raise RequestError(
            f"{self.name} needs {source}{why}: get it from {source.url} and put it in {folder}, "
            f"or say where it is with {self.name}:file=PATH"
        )


def _stamp(path: Path) -> list[int]:
    """What changes when a file does: its size and its time."""
    about = path.stat()
    return [about.st_size, about.st_mtime_ns]


def _verify(path: Path, source: Source) -> bool:
    """Whether a file has its published checksum: False where that is not known, an error where it has another."""
    if path.is_dir() or path.name == source.unpacked or source.checksum is None:
        return False
    advice = "it is damaged, or another file"
    if source.size is not None and path.stat().st_size != source.size:
        raise RequestError(f"{path} has {path.stat().st_size:,} bytes, the published {source}: {advice}")
    kind, _, expected = source.checksum.partition(":")
    try:
        with open(path, "rb") as file:
            found = hashlib.file_digest(file, lambda: hashlib.new(kind, usedforsecurity=False)).hexdigest()
    except OSError as error:
        raise RequestError(f"{path} cannot be read ({brief(error)})") from error
    if found != expected:
        raise RequestError(f"{path} has checksum {kind}:{found}, the published {source}: {advice}")
    return True


def _digest(shape: tuple[int, ...], table: Table | None) -> Any:
    digest = hashlib.sha256(str(shape).encode())
    if table is not None:
        digest.update(np.ascontiguousarray(table.labels, "<i4").data)
    return digest


def _fingerprint(pictures: UInt8[np.ndarray, "N H W C"], table: Table | None) -> str:
    digest = _digest(pictures.shape, table)
    for start in range(0, len(pictures), 4096):
        digest.update(np.ascontiguousarray(pictures[start : start + 4096]).data)
    return digest.hexdigest()


def _load_table(path: Path) -> Table:
    arrays, metadata = load_arrays(path)
    return Table(arrays["labels"], tuple(map(tuple, json.loads(metadata["values"]))))


def _download(source: Source, path: Path) -> Path:
    import pooch  # noqa: PLC0415
    import requests  # noqa: PLC0415

    pooch.get_logger().setLevel("WARNING")
    path.parent.mkdir(parents=True, exist_ok=True)
    downloader = pooch.HTTPDownloader(progressbar=_Progress(source.file), chunk_size=2**20, timeout=30)
    try:
        pooch.retrieve(source.url, source.checksum, path.name, path.parent, downloader=downloader)
    except (requests.ConnectionError, requests.Timeout) as error:
        raise OSError(f"{urllib.parse.urlsplit(source.url).netloc} cannot be reached") from error
    return path


class _Progress:
    """One line on a terminal that says how far a download is, in the form that pooch asks for."""

    def __init__(self, file: str) -> None:
        self.file, self.total, self.done, self.shown = file, 0, 0, ""

    def update(self, count: int) -> None:
        self.done += count
        share = f" of {self.total / 1e6:,.0f}" if self.total else ""
        line = f"downloading {self.file}: {self.done / 1e6:,.0f}{share} MB"
        if line != self.shown and sys.stderr.isatty():
            print(f"\r{line}", end="", file=sys.stderr, flush=True)
        self.shown = line

    def reset(self) -> None:
        self.done = 0

    def close(self) -> None:
        if sys.stderr.isatty():
            print(file=sys.stderr)
