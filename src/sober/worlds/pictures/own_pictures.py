"""pictures: a user's own, from a folder, a zip archive or arrays, with or without a table of labels.

Every picture is decoded once, in parallel, into one file of the cache that is then mapped from disk. A folder is
decoded again when the path, size or time of any of its files changes.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int, UInt8

from sober.errors import RequestError, brief, counted
from sober.parallel import MemoryBudget, map_in_order
from sober.types import Factor
from sober.worlds.cache import fingerprint
from sober.worlds.pictures.cached_pictures import (
    CachedPictures,
    PictureNotes,
    cache_pictures,
    find_pictures,
    record_path,
    unreadable_path,
)
from sober.worlds.pictures.frame import Frame, pillow
from sober.worlds.pictures.label_table import parse_kinds, read_labels
from sober.worlds.pictures.picture_files import AHEAD, ENDINGS, LARGEST_FILE, PictureFiles, picture_files, printable
from sober.worlds.stored_world import StoredWorld
from sober.worlds.world import Labels

DECODER = "1"  # part of the cache's names: a change that alters any picture raises it
FILE_BYTES = MemoryBudget(LARGEST_FILE)  # of an archive's members, in all threads together
UNREADABLE_SHOWN = 3  # files in a warning


class OwnPictures(StoredWorld):
    """`pictures:folder=PATH`, a folder or zip archive of picture files in order of their paths.

    `size` is a side or `HxW`; `fit` is `crop` (scale the shorter side, cut the middle out), `pad` (scale the longer
    side, black around) or `stretch`; `mode` is `rgb`, `grey`, or `auto`: grey if every pixel of every picture is.
    `labels` is a table, `file` its column of file names, and `kinds` corrects the kinds that `label_table` gives its
    columns. `cache=DIGEST` opens pictures that `from_array`, `from_iterable` or `from_dataset` put into the cache.
    """

    name = "pictures"
    origin = "you"
    summary = "your own pictures: a folder, a zip archive, or arrays"
    reference = "yours"
    factors: tuple[Factor, ...] = ()
    image_shape = (64, 64, 3)
    size = 0

    def __init__(
        self,
        folder: str | Path | None = None,
        size: int | str = 64,
        fit: str = "crop",
        mode: str = "auto",
        labels: str | Path | None = None,
        file: str | None = None,
        kinds: str | None = None,
        cache: str | None = None,
    ) -> None:
        if labels is None and (file or kinds):
            raise RequestError("file and kinds describe a table of labels: add labels=TABLE")
        self._options: dict[str, Any] = {}
        self._cached: CachedPictures | None = None
        if folder is None and cache is None:
            if labels is not None:
                raise RequestError("labels need pictures: pictures:folder=PATH,labels=TABLE")
            return  # the world can be listed; an error asks for a folder when its pictures are needed
        if cache is not None:
            if folder is not None or labels is not None:
                raise RequestError("pictures:cache=DIGEST takes no folder and no labels: it has its own")
            self._options, self._cached = {"cache": cache}, _from_cache(cache)
            picture_labels = self._cached.notes.labels
        else:
            path, frame = Path(folder or "").expanduser().resolve(), Frame.of(size, fit, mode)
            self._options = {"folder": path, "size": size, "fit": fit, "mode": mode}
            self._cached = _from_files(path, frame)
            picture_labels = self._cached.notes.labels
            if labels is not None:
                table = Path(labels).expanduser().resolve()
                self._options |= {"labels": table, "file": file, "kinds": kinds}
                names = self._cached.notes.names
                picture_labels = read_labels(table, names, file=file, kinds=parse_kinds(kinds or ""))
        self.size, self.image_shape = len(self._cached.pictures), self._cached.pictures.shape[1:]
        self.factors, self._label_values = picture_labels
        source = "" if cache else f" from {self._options['folder'].name}"
        shape = " x ".join(map(str, self.image_shape))
        self.summary = f"{counted(self.size, 'picture')} of {shape}{source}: {counted(len(self.factors), 'factor')}"

    @property
    def options(self) -> Mapping[str, object]:
        defaults = {"size": "64", "fit": "crop", "mode": "auto"}
        return {name: value for name, value in self._options.items() if str(value) != defaults.get(name)}

    @functools.cached_property
    def label(self) -> str:
        return f"{self.name}:{self.fingerprint}"

    @functools.cached_property
    def fingerprint(self) -> str:
        return (self._opened.fingerprint or fingerprint(self.pictures))[:16]

    @functools.cached_property
    def pictures(self) -> UInt8[np.ndarray, "N H W C"]:
        return self._opened.pictures

    @property
    def names(self) -> tuple[str, ...]:
        """The path of each picture's file below the folder; empty if the pictures came as arrays."""
        return self._opened.notes.names

    @property
    def unreadable(self) -> tuple[tuple[str, str], ...]:
        """The files that could not be read, each with the reason."""
        return self._opened.notes.unreadable

    def labels(self, index: Int[np.ndarray, " N"]) -> Labels:
        """Classes as whole numbers; real numbers if any factor of the world is continuous or any value missing (NaN).

        The type depends on the whole world, not on the pictures asked for.
        """
        return self._values[self.checked(index)]

    @functools.cached_property
    def _values(self) -> Labels:
        if not self.factors:
            return np.empty((len(self.pictures), 0), np.int32)
        classes = all(factor.kind != "continuous" for factor in self.factors) and not np.isnan(self._label_values).any()
        return self._label_values.astype(np.int32) if classes else self._label_values

    @property
    def _opened(self) -> CachedPictures:
        if self._cached is None:
            raise RequestError("the world 'pictures' needs a folder or zip archive: pictures:folder=PATH")
        return self._cached


def _from_cache(digest: str) -> CachedPictures:
    """Pictures that came from Python."""
    if not re.fullmatch(r"[0-9a-f]{16}", digest):
        raise RequestError(f"pictures:cache={digest}: expected 16 hexadecimal digits, as a world's spec has them")
    cached = find_pictures(digest, "give the pictures")
    if cached is None:
        raise RequestError(
            f"pictures:cache={digest} is not in {record_path(digest).parent}: the cache was emptied, or is on "
            "another machine; pass the same pictures to sober.worlds.from_array, from_iterable or from_dataset again"
        )
    return cached


def _from_files(path: Path, frame: Frame) -> CachedPictures:
    """The pictures of a folder or an archive, from the cache; decoded on first use."""
    with picture_files(path) as files:
        if not files.stamps:
            raise RequestError(f"{path} has no pictures: looked for files ending in {' '.join(sorted(ENDINGS))}")
        source = [DECODER, str(path), frame.height, frame.width, frame.fit, frame.mode, list(files.stamps.items())]
        digest = hashlib.sha256(json.dumps(source).encode()).hexdigest()[:16]
        cached = find_pictures(digest, f"decoding {path}") or _decode(files, path, frame, digest)
    if unreadable := cached.notes.unreadable:
        listing = unreadable_path(digest)
        all_listed = f"; all of them are listed in {listing}" if listing.exists() else ""
        warnings.warn(
            f"{len(unreadable):,} of {counted(len(files.stamps), 'file')} in {path} cannot be read and are left out: "
            f"{_first(unreadable)}{all_listed}",
            stacklevel=2,
        )
    return cached


def _decode(files: PictureFiles, path: Path, frame: Frame, digest: str) -> CachedPictures:
    pillow()
    names: list[str] = []
    unreadable: list[tuple[str, str]] = []

    def decoded(name: str) -> tuple[str, np.ndarray | Exception]:
        try:
            with FILE_BYTES.taking(max(0, files.stamps[name][0])):
                return name, frame.decode(files.open(name))
        except Exception as error:  # a damaged file fails in too many ways to name
            return name, error.with_traceback(None)  # whose frames would keep the picture in memory

    def readable() -> Iterator[np.ndarray]:
        for name, picture in map_in_order(decoded, files.stamps, ahead=AHEAD):
            if isinstance(picture, Exception):
                unreadable.append((name, brief(picture)))
            else:
                names.append(name)
                yield picture

    def notes() -> PictureNotes:
        if not names:
            raise RequestError(
                f"none of {counted(len(unreadable), 'file')} in {path} can be read: {_first(unreadable)}"
            )
        return PictureNotes(tuple(names), tuple(unreadable))

    return cache_pictures(
        readable(), frame.shape, notes, folder=path, digest=digest, grey_if_all_are=frame.mode == "auto"
    )


def _first(unreadable: Sequence[tuple[str, str]]) -> str:
    """The first unreadable files, each with its reason."""
    listing = ", ".join(f"{printable(name)} ({why})" for name, why in unreadable[:UNREADABLE_SHOWN])
    return listing + (", …" if len(unreadable) > UNREADABLE_SHOWN else "")
