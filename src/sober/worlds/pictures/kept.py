"""A user's own pictures in the cache: written as they come, in the memory of a few, and mapped from disk ever after.

Beside an entry's own files lies, for a person to read, DIGEST.unreadable.txt, where there are such files.
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
from sober.worlds.pictures.labelled import UNLABELLED, Labelled
from sober.worlds.pictures.picture_files import printable


@dataclasses.dataclass(frozen=True)
class About:
    """What is kept beside pictures."""

    names: tuple[str, ...] = ()  # of their files, where they have any
    unreadable: tuple[tuple[str, str], ...] = ()  # names, and why
    labels: Labelled = UNLABELLED

    def digest(self) -> str:
        return hashlib.sha256(json.dumps(self.noted()).encode() + self.labels.values.tobytes()).hexdigest()

    def noted(self) -> dict[str, Any]:
        """All but the values of labels, as JSON has it."""
        factors = [dataclasses.asdict(factor) for factor in self.labels.factors]
        return {"names": self.names, "unreadable": self.unreadable, "factors": factors}

    @staticmethod
    def of(entry: Entry) -> About:
        factors = tuple(Factor(**{**each, "values": tuple(each["values"])}) for each in entry.about["factors"])
        labels = UNLABELLED if entry.labels is None else Labelled(factors, np.asarray(entry.labels))
        unreadable = tuple((name, why) for name, why in entry.about["unreadable"])
        return About(tuple(entry.about["names"]), unreadable, labels)


class Kept(NamedTuple):
    """A user's pictures in the cache, and what is kept beside them."""

    digest: str  # the name of their entry
    pictures: UInt8[np.ndarray, "N H W C"]
    about: About
    fingerprint: str | None  # of the pictures alone; None where it is not known without reading them


def record_path(digest: str) -> Path:
    return entry_path("pictures", digest)


def unreadable_path(digest: str) -> Path:
    return record_path(digest).with_suffix(".unreadable.txt")


def find_kept(digest: str, doing: str) -> Kept | None:
    """The pictures of this name, mapped from disk; None where there are none, with a warning where they are damaged."""
    entry = find_entry(record_path(digest), lambda made_from: True, doing)  # the name says what they were made from
    return None if entry is None else _kept(digest, entry)


def keep(
    pictures: Iterable[UInt8[np.ndarray, "H W C"]],
    shape: tuple[int, int, int],
    about: Callable[[], About],
    *,
    folder: Path | None = None,
    digest: str | None = None,
    grey_if_all_are: bool = False,
) -> Kept:
    """Writes pictures of one `shape` into the cache, from a `folder` or given from Python.

    The name of the entry is `digest`, or follows from the pictures and what is known about them: `about`, asked for
    when all pictures have come. With `grey_if_all_are`, three channels that agree in every pixel become one. Pictures
    of a folder can be decoded again, so they may stay in memory where the cache cannot be written to.
    """
    content, count, coloured = hashlib.sha256(str(shape).encode()), 0, False
    # A file without a name: how many pictures there are and whether any has colours is known only at the end, and
    # whatever happens before that, nothing stays behind.
    with tempfile.TemporaryFile(dir=_place(again=folder is not None)) as spool:
        for picture in pictures:
            coloured = coloured or bool((picture != picture[..., :1]).any())
            content.update(np.ascontiguousarray(picture).data)
            with _writing():
                spool.write(np.ascontiguousarray(picture).data)
            count += 1
        found = about()
        content.update(found.digest().encode())
        channels = 1 if grey_if_all_are and not coloured else shape[2]
        content.update(str(channels).encode())
        name = digest or content.hexdigest()[:16]

        def parts() -> Iterator[UInt8[np.ndarray, "n H W C"]]:
            spool.seek(0)
            for rows in raw_rows(spool, (count, *shape)):
                yield rows[..., :channels]

        entry = make_entry(
            record_path(name),
            {"folder": None if folder is None else str(folder)},
            (count, *shape[:2], channels),
            parts,
            labels=found.labels.values if found.labels.factors else None,
            about=found.noted(),
            or_in_memory=folder is not None,
        )
    _list_unreadable(name, found)
    return _kept(name, entry)


def _kept(digest: str, entry: Entry) -> Kept:
    return Kept(digest, entry.pictures, About.of(entry), entry.fingerprint if entry.labels is None else None)


def _list_unreadable(digest: str, about: About) -> None:
    path = unreadable_path(digest)
    if about.unreadable and path.parent.is_dir():
        with _writing(), replacing(path) as temporary:
            lines = [f"{printable(name)}: {why}\n" for name, why in about.unreadable]
            temporary.write_text("".join(lines), encoding="utf-8")


def _place(*, again: bool) -> Path | None:
    """A folder for what is not complete yet: the cache's own, so that room there is noticed early.

    Where that cannot be written to, the system's folder for such files, if the pictures can be had `again`.
    """
    try:
        return writable_folder(record_path("").parent)
    except RequestError:
        if not again:
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
