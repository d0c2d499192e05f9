"""Published data sets: finding the file, checking it, and converting its pictures once, into the cache."""

from __future__ import annotations

import abc
import copy
import dataclasses
import functools
import hashlib
import os
import sys
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int, UInt8

from sober.errors import MissingError, RequestError, brief
from sober.files import cache_dir
from sober.worlds.cache import Entry, entry_path, find_entry, make_entry, stamp
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

    @staticmethod
    def of(entry: Entry) -> Converted:
        values = tuple(map(tuple, entry.about["values"]))
        table = None if entry.labels is None else Table(np.asarray(entry.labels), values)
        return Converted(entry.pictures, table, entry.fingerprint, entry.about["verified"])


def data_dir() -> Path:
    """Where published files are looked for and downloaded to: `$SOBER_DATA`, else `data` in the cache folder."""
    return Path(os.environ.get("SOBER_DATA") or cache_dir() / "data")


class Published(Stored):
    """`NAME` reads the files of `sources` in the data folder, `NAME:file=PATH` a file, or a folder that holds them."""

    sources: tuple[Source, ...]
    conversion = 1  # part of the cache's name: a change that alters any picture raises it
    fetches = True  # whether a missing file may be downloaded

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
        return self.cached() or self._make()

    def cached(self) -> Converted | None:
        """What the cache holds of this world, if that is whole and its files are still the same."""
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

    def offline(self) -> Published:
        alone = copy.copy(self)
        alone.fetches = False
        return alone

    def paths(self, *, fetch: bool = True) -> tuple[Path, ...]:
        """Where the published files lie; those that are missing are downloaded, unless `fetch` is off."""
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
            lambda: self._parts(paths, count),
            labels=None if table is None else table.labels,
            about={"verified": all(checks), "values": [] if table is None else table.values},
        )
        return Converted.of(entry)

    def _parts(self, paths: tuple[Path, ...], count: int) -> Iterator[UInt8[np.ndarray, "n H W C"]]:
        """The pictures of the published files, which must be so many and of the form of this world."""
        done = 0
        with reading(paths[0], self.name):
            for part in self.convert(*paths):
                if part.dtype != np.uint8 or part.shape[1:] != self.image_shape:
                    expected = f"uint8 {self.image_shape}"
                    raise RequestError(f"{paths[0]} holds {part.dtype} images of {part.shape[1:]}, not {expected}")
                done += len(part)
                yield part
        if done != count:
            raise RequestError(f"{paths[0]} holds {done:,} pictures, not {count:,}: is it the published file?")

    def _record(self) -> Path:
        """Where the cache keeps this world."""
        named = "" if self.file is None else "-" + hashlib.sha256(str(self.file).encode()).hexdigest()[:12]
        return entry_path("published", f"{self.name}-{self.conversion}{named}")

    def _same_files(self, files: list[Any]) -> bool:
        # Files in the data folder may be deleted once they are converted; one that was named must be there.
        return all(
            stamp(Path(path)) == [size, time] if Path(path).exists() else self.file is None
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
            raise MissingError(f"{self.file} is not there, or is a folder without {source}: see {source.url}")
        why = ""
        if fetch and source.direct:
            try:
                return _download(source, folder / source.file)
            except Exception as error:  # no network, a full disk, a checksum: all have the same remedy
                why = f" (no download: {brief(error)})"
        raise MissingError(
            f"{self.name} needs {source}{why}: get it from {source.url} and put it in {folder}, "
            f"or say where it is with {self.name}:file=PATH"
        )


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
