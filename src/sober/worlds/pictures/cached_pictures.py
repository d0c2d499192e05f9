"""A user's own pictures in the cache: written one at a time, in little memory, and then mapped from disk.

DIGEST.unreadable.txt, beside the files of an entry, lists for people the picture files that could not be read.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import hashlib
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import UInt8

from sober.errors import FullDiskError, RequestError, brief
from sober.files import raw_rows, replacing, writable_folder
from sober.types import Factor
from sober.worlds.cache import Entry, entry_path, find_entry, make_entry
from sober.worlds.pictures.label_table import NO_LABELS, PictureLabels
from sober.worlds.pictures.picture_files import printable


@dataclasses.dataclass(frozen=True)
class PictureNotes:
    """Notes that are kept with pictures: the names of their files, unreadable files, labels."""

    names: tuple[str, ...] = ()  # of the files, if the pictures come from files
    unreadable: tuple[tuple[str, str], ...] = ()  # names and reasons
    labels: PictureLabels = NO_LABELS

    def digest(self) -> str:
        return hashlib.sha256(json.dumps(self.record()).encode() + self.labels.values.tobytes()).hexdigest()

    def record(self) -> dict[str, Any]:
        """The notes as JSON, without the values of labels."""
        factors = [dataclasses.asdict(factor) for factor in self.labels.factors]
        return {"names": self.names, "unreadable": self.unreadable, "factors": factors}

    @staticmethod
    def of(entry: Entry) -> PictureNotes:
        factors = tuple(Factor(**{**fields, "values": tuple(fields["values"])}) for fields in entry.notes["factors"])
        labels = NO_LABELS if entry.labels is None else PictureLabels(factors, np.asarray(entry.labels))
        unreadable = tuple((name, why) for name, why in entry.notes["unreadable"])
        return PictureNotes(tuple(entry.notes["names"]), unreadable, labels)


class CachedPictures(NamedTuple):
    """A user's pictures in the cache, with the notes on them."""

    digest: str  # the name of their entry
    pictures: UInt8[np.ndarray, "N H W C"]
    notes: PictureNotes
    fingerprint: str | None  # of the pictures alone; None if only reading them would tell


def record_path(digest: str) -> Path:
    return entry_path("pictures", digest)


def unreadable_path(digest: str) -> Path:
    return record_path(digest).with_suffix(".unreadable.txt")


def find_pictures(digest: str, activity: str) -> CachedPictures | None:
    """The pictures of an entry, mapped from disk; None if there are none, and a warning if they are damaged."""
    entry = find_entry(record_path(digest), lambda made_from: True, activity)  # the digest identifies the source
    return None if entry is None else _cached(digest, entry)


def cache_pictures(
    pictures: Iterable[UInt8[np.ndarray, "H W C"]],
    shape: tuple[int, int, int],
    make_notes: Callable[[], PictureNotes],
    *,
    folder: Path | None = None,
    digest: str | None = None,
    grey_if_all_are: bool = False,
) -> CachedPictures:
    """Writes pictures of one `shape` into the cache; `folder` is their source, None if they come from Python.

    The entry is named `digest`, or else by a hash of the pictures and notes. `make_notes` is called after the last
    picture. With `grey_if_all_are`, three channels that agree in every pixel of every picture become one. Pictures of a
    folder can be decoded again, so they may stay in memory if the cache cannot be written to.
    """
    content, count, coloured = hashlib.sha256(str(shape).encode()), 0, False
    # The number of pictures, and whether any has colours, is known only at the end. Until then they are in a file
    # without a name, which leaves nothing behind if the process ends.
    with tempfile.TemporaryFile(dir=_spool_folder(repeatable=folder is not None)) as spool:
        for picture in pictures:
            coloured = coloured or bool((picture != picture[..., :1]).any())
            content.update(np.ascontiguousarray(picture).data)
            with _writing():
                spool.write(np.ascontiguousarray(picture).data)
            count += 1
        notes = make_notes()
        content.update(notes.digest().encode())
        channels = 1 if grey_if_all_are and not coloured else shape[2]
        content.update(str(channels).encode())
        name = digest or content.hexdigest()[:16]

        def blocks() -> Iterator[UInt8[np.ndarray, "n H W C"]]:
            spool.seek(0)
            for rows in raw_rows(spool, (count, *shape)):
                yield rows[..., :channels]

        entry = make_entry(
            record_path(name),
            {"folder": None if folder is None else str(folder)},
            (count, *shape[:2], channels),
            blocks,
            labels=notes.labels.values if notes.labels.factors else None,
            notes=notes.record(),
            or_in_memory=folder is not None,
        )
    _list_unreadable(name, notes)
    return _cached(name, entry)


def _cached(digest: str, entry: Entry) -> CachedPictures:
    return CachedPictures(
        digest, entry.pictures, PictureNotes.of(entry), entry.fingerprint if entry.labels is None else None
    )


def _list_unreadable(digest: str, notes: PictureNotes) -> None:
    path = unreadable_path(digest)
    if notes.unreadable and path.parent.is_dir():
        with _writing(), replacing(path) as temporary:
            lines = [f"{printable(name)}: {why}\n" for name, why in notes.unreadable]
            temporary.write_text("".join(lines), encoding="utf-8")


def _spool_folder(*, repeatable: bool) -> Path | None:
    """The folder for incomplete files: that of the cache, so that a full disk is noticed early.

    If the cache cannot be written to, it is the system's temporary folder (None), provided that the pictures are
    `repeatable`: they can be decoded again.
    """
    try:
        return writable_folder(record_path("").parent)
    except RequestError:
        if not repeatable:
            raise
        return None


@contextlib.contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        kind = FullDiskError if error.errno == errno.ENOSPC else RequestError
        folder = record_path("").parent
        raise kind(f"pictures cannot be kept in {folder} ({brief(error)}): set SOBER_CACHE") from error
