"""Published data sets: finds their files, checks them, and converts their pictures once, into the cache."""

from __future__ import annotations

import abc
import copy
import dataclasses
import functools
import hashlib
import os
import sys
import urllib.parse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int, UInt8

from sober.errors import MissingError, RequestError, brief
from sober.files import cache_dir
from sober.installation import needing_extra
from sober.worlds.cache import Entry, entry_path, find_entry, make_entry, stamp
from sober.worlds.published.archives import reading
from sober.worlds.stored_world import StoredWorld


@dataclasses.dataclass(frozen=True)
class Source:
    """A published file: its name, address, size, checksum and licence."""

    file: str
    url: str
    size: int | None = None  # bytes; None if it is not known
    checksum: str | None = None  # `md5:…` or `sha256:…`; None if it is not known
    licence: str = ""
    citation: str = ""  # BibTeX
    direct: bool = True  # whether the URL is the file itself, not a page on which to request it
    unpacked: str | None = None  # the name of its unpacked content, which can be read instead

    @property
    def offered(self) -> bool:
        """Whether Sober downloads it: only what it can check, and over http only with a checksum nobody can forge."""
        checksum = self.checksum or ""
        return self.direct and (checksum.startswith("sha256:") or (bool(checksum) and self.url.startswith("https:")))

    def __str__(self) -> str:
        size = "size not known" if self.size is None else f"{self.size:,} bytes"
        return f"{self.file} ({size}, {self.checksum or 'checksum not known'})"


class Table(NamedTuple):
    """The labels of pictures that form no grid, a row for each, and the names of each factor's classes."""

    labels: Int[np.ndarray, "N K"]
    values: tuple[tuple[str, ...], ...] = ()


class Converted(NamedTuple):
    """A world's pictures in the cache."""

    pictures: UInt8[np.ndarray, "N H W C"]
    table: Table | None
    fingerprint: str  # of pictures and table
    verified: bool  # whether every source file had its published checksum

    @staticmethod
    def of(entry: Entry) -> Converted:
        values = tuple(map(tuple, entry.notes["values"]))
        table = None if entry.labels is None else Table(np.asarray(entry.labels), values)
        return Converted(entry.pictures, table, entry.fingerprint, entry.notes["verified"])


def data_dir() -> Path:
    """The folder of published files and of downloads: `$SOBER_DATA`, else `data` in the cache folder."""
    return Path(os.environ.get("SOBER_DATA") or cache_dir() / "data")


class PublishedWorld(StoredWorld):
    """`NAME` reads the files of `sources` in the data folder; `NAME:file=PATH` reads a file, or a folder of files."""

    sources: tuple[Source, ...]
    conversion = 1  # part of the cache's name: a change that alters any picture raises it
    fetches = True  # whether a missing file may be downloaded

    def __init__(self, file: str | None = None) -> None:
        self.file = None if file is None else Path(file).expanduser().resolve()

    @abc.abstractmethod
    def convert(self, *paths: Path) -> Iterator[UInt8[np.ndarray, "n H W C"]]:
        """Every picture in the order of the world, in blocks, from the files of `sources`."""

    def table(self, *paths: Path) -> Table | None:
        """The labels of all pictures; None if the world is a grid."""
        return None

    @property
    def options(self) -> Mapping[str, object]:
        return {"file": self.file}

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
        """The pictures, from the cache; the first time they are converted from the published files."""
        return self.cached() or self._make()

    def cached(self) -> Converted | None:
        """The pictures in the cache, if the entry is whole and its source files have not changed."""
        entry = find_entry(self._record(), self._same_files, f"converting {self.name}")
        return None if entry is None else Converted.of(entry)

    def absent(self) -> str | None:
        if self.cached() is not None:
            return None
        try:
            self.paths(fetch=False)
        except MissingError as error:
            return brief(error)
        return None

    def offline(self) -> PublishedWorld:
        offline = copy.copy(self)
        offline.fetches = False
        return offline

    def paths(self, *, fetch: bool = True) -> tuple[Path, ...]:
        """The paths of the published files; missing ones are downloaded unless `fetch` is off."""
        return tuple(self._path(source, fetch and self.fetches) for source in self.sources)

    def _make(self) -> Converted:
        paths = self.paths()
        files = [[str(path), *stamp(path)] for path in paths]
        checks = [_verify(path, source) for path, source in zip(paths, self.sources, strict=True)]
        table = self.table(*paths)
        count = self.size if table is None else len(table.labels)
        entry = make_entry(
            self._record(),
            files,
            (count, *self.image_shape),
            lambda: self._blocks(paths, count),
            labels=None if table is None else table.labels,
            notes={"verified": all(checks), "values": [] if table is None else table.values},
        )
        return Converted.of(entry)

    def _blocks(self, paths: tuple[Path, ...], count: int) -> Iterator[UInt8[np.ndarray, "n H W C"]]:
        """The pictures of the published files; refuses a wrong number, type or shape."""
        done = 0
        with reading(paths[0], self.name):
            for block in self.convert(*paths):
                if block.dtype != np.uint8 or block.shape[1:] != self.image_shape:
                    expected = f"uint8 {self.image_shape}"
                    raise RequestError(f"{paths[0]} holds {block.dtype} images of {block.shape[1:]}, not {expected}")
                done += len(block)
                yield block
        if done != count:
            raise RequestError(f"{paths[0]} holds {done:,} pictures, not {count:,}: is it the published file?")

    def _record(self) -> Path:
        """The path of this world's record in the cache."""
        file_digest = "" if self.file is None else "-" + hashlib.sha256(str(self.file).encode()).hexdigest()[:12]
        return entry_path("published", f"{self.name}-{self.conversion}{file_digest}")

    def _same_files(self, files: list[Any]) -> bool:
        # Files in the data folder may be deleted after conversion; a file that the user named must exist.
        return all(
            stamp(Path(path)) == [size, time] if Path(path).exists() else self.file is None
            for path, size, time in files
        )

    def _path(self, source: Source, fetch: bool) -> Path:
        folder = data_dir() / self.name if self.file is None else self.file
        if folder.is_file():  # the user named the first file: the others are beside it
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
            raise MissingError(f"{self.file} is not there, or is a folder without {source}: see {source.url}")
        failure = ""
        if fetch and source.offered:
            try:
                return _download(source, folder / source.file)
            except Exception as error:  # no network, a full disk, a wrong checksum: the remedy is the same
                failure = f" (no download: {brief(error)})"
        raise MissingError(
            f"{self.name} needs {source}{failure}: get it from {source.url} and put it in {folder}, "
            f"or say where it is with {self.name}:file=PATH"
        )


def _verify(path: Path, source: Source) -> bool:
    """Whether a file has its published checksum: False if that is not known; another checksum is an error."""
    if path.is_dir() or path.name == source.unpacked or source.checksum is None:
        return False
    advice = "it is damaged, or another file"
    if source.size is not None and path.stat().st_size != source.size:
        raise RequestError(f"{path} has {path.stat().st_size:,} bytes, the published {source}: {advice}")
    kind, _, expected = source.checksum.partition(":")
    try:
        with open(path, "rb") as file:
            checksum = hashlib.file_digest(file, lambda: hashlib.new(kind, usedforsecurity=False)).hexdigest()
    except OSError as error:
        raise RequestError(f"{path} cannot be read ({brief(error)})") from error
    if checksum != expected:
        raise RequestError(f"{path} has checksum {kind}:{checksum}, the published {source}: {advice}")
    return True


def _download(source: Source, path: Path) -> Path:
    with needing_extra(f"downloading {source.file}"):
        import pooch  # noqa: PLC0415
        import requests  # noqa: PLC0415

    pooch.get_logger().setLevel("WARNING")
    path.parent.mkdir(parents=True, exist_ok=True)
    downloader = pooch.HTTPDownloader(progressbar=_DownloadLine(source.file), chunk_size=2**20, timeout=30)
    try:
        pooch.retrieve(source.url, source.checksum, path.name, path.parent, downloader=downloader)
    except (requests.ConnectionError, requests.Timeout) as error:
        raise OSError(f"{urllib.parse.urlsplit(source.url).netloc} cannot be reached") from error
    return path


class _DownloadLine:
    """One line on a terminal with the megabytes downloaded so far; a progress bar for pooch."""

    def __init__(self, file: str) -> None:
        self.file, self.total, self.done, self.printed = file, 0, 0, ""

    def update(self, count: int) -> None:
        self.done += count
        share = f" of {self.total / 1e6:,.0f}" if self.total else ""
        line = f"downloading {self.file}: {self.done / 1e6:,.0f}{share} MB"
        if line != self.printed and sys.stderr.isatty():
            print(f"\r{line}", end="", file=sys.stderr, flush=True)
        self.printed = line

    def reset(self) -> None:
        self.done = 0

    def close(self) -> None:
        if sys.stderr.isatty():
            print(file=sys.stderr)
