"""pictures: anyone's own, from a folder, a zip archive or arrays; with labels where there is a table of them.

Every picture is decoded once, in parallel, into one file of the cache that is then mapped from disk. A folder is
decoded again when the path, size or time of any of its files changes.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int, UInt8

from sober.errors import RequestError, brief, counted
from sober.machine import in_order
from sober.types import Factor
from sober.worlds.cache import fingerprint
from sober.worlds.pictures.frame import Frame, pillow
from sober.worlds.pictures.kept import About, Kept, find_kept, keep, record_path, unreadable_path
from sober.worlds.pictures.label_table import parse_kinds, read_labels
from sober.worlds.pictures.picture_files import AHEAD, ENDINGS, PictureFiles, picture_files, printable
from sober.worlds.stored import Stored
from sober.worlds.world import Labels

DECODER = "1"  # part of the cache's names: a change that alters any picture raises it
NAMED = 3  # unreadable files in a warning


class OwnPictures(Stored):
    """`pictures:folder=PATH`, a folder or zip archive of picture files in order of their paths.

    `size` is a side or `HxW`; `fit` is `crop` (scale the shorter side, cut the middle out), `pad` (scale the longer
    side, black around) or `stretch`; `mode` is `rgb`, `grey`, or `auto`: grey if every pixel of every picture is.
    `labels` is a table, `file` its column of file names, `kinds` what its columns are where the rule of `label_table`
    is wrong. `cache=DIGEST` opens pictures that `from_array` and its like have kept.
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
        self._kept: Kept | None = None
        if folder is None and cache is None:
            if labels is not None:
                raise RequestError("labels need pictures: pictures:folder=PATH,labels=TABLE")
            return  # so that worlds can be listed; whoever asks for its pictures is told what to do
        if cache is not None:
            if folder is not None or labels is not None:
                raise RequestError("pictures:cache=DIGEST takes no folder and no labels: it has its own")
            self._options, self._kept = {"cache": cache}, _given(cache)
            labelled = self._kept.about.labels
        else:
            path, frame = Path(folder or "").expanduser().resolve(), Frame.of(size, fit, mode)
            self._options = {"folder": path, "size": size, "fit": fit, "mode": mode}
            self._kept = _decoded(path, frame)
            labelled = self._kept.about.labels
            if labels is not None:
                table = Path(labels).expanduser().resolve()
                self._options |= {"labels": table, "file": file, "kinds": kinds}
                names = self._kept.about.names
                labelled = read_labels(table, names, file=file, kinds=parse_kinds(kinds or ""))
        self.size, self.image_shape = len(self._kept.pictures), self._kept.pictures.shape[1:]
        self.factors, self._labelled = labelled
        of = "" if cache else f" from {self._options['folder'].name}"
        shape = " x ".join(map(str, self.image_shape))
        self.summary = f"{counted(self.size, 'picture')} of {shape}{of}: {counted(len(self.factors), 'factor')}"

    @property
    def spec(self) -> str:
        usual = {"size": "64", "fit": "crop", "mode": "auto", "file": "None", "kinds": "None"}
        options = {name: str(value) for name, value in self._options.items() if str(value) != usual.get(name)}
        for name, value in options.items():
            if re.search(r",\w+=", value):
                raise RequestError(f"{name}={value} cannot be opened again by name: rename it without ',NAME='")
        return ":".join(filter(None, (self.name, ",".join(f"{name}={value}" for name, value in options.items()))))

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
        """The path of each picture's file below the folder; none where pictures came as arrays."""
        return self._opened.about.names

    def labels(self, index: Int[np.ndarray, " N"]) -> Labels:
        """Classes, as whole numbers; real numbers for all factors where one is continuous or a value is missing (NaN).

        Which of the two is a matter of the whole world, not of the pictures asked for.
        """
        return self._values[self.checked(index)]

    @functools.cached_property
    def _values(self) -> Labels:
        if not self.factors:
            return np.empty((len(self.pictures), 0), np.int32)
        classes = all(factor.kind != "continuous" for factor in self.factors) and not np.isnan(self._labelled).any()
        return self._labelled.astype(np.int32) if classes else self._labelled

    @property
    def _opened(self) -> Kept:
        if self._kept is None:
            raise RequestError("the world 'pictures' needs a folder or zip archive: pictures:folder=PATH")
        return self._kept


def _given(digest: str) -> Kept:
    """Pictures that were given from Python."""
    if not re.fullmatch(r"[0-9a-f]{16}", digest):
        raise RequestError(f"pictures:cache={digest}: expected 16 hexadecimal digits, as a world's spec has them")
    kept = find_kept(digest, "give the pictures")
    if kept is None:
        raise RequestError(
            f"pictures:cache={digest} is not in {record_path(digest).parent}: the cache was emptied, or is on "
            "another machine; pass the same pictures to sober.worlds.from_array, from_iterable or from_dataset again"
        )
    return kept


def _decoded(path: Path, frame: Frame) -> Kept:
    """The pictures of a folder or an archive from the cache, decoded and kept on first use."""
    with picture_files(path) as files:
        if not files.stamps:
            raise RequestError(f"{path} has no pictures: looked for files ending in {' '.join(sorted(ENDINGS))}")
        asked = [DECODER, str(path), frame.height, frame.width, frame.fit, frame.mode, list(files.stamps.items())]
        digest = hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:16]
        kept = find_kept(digest, f"decoding {path}") or _decode(files, path, frame, digest)
    if bad := kept.about.unreadable:
        listing = unreadable_path(digest)
        where = f"; all of them are listed in {listing}" if listing.exists() else ""
        warnings.warn(
            f"{len(bad):,} of {counted(len(files.stamps), 'file')} in {path} cannot be read and are left out: "
            f"{_few(bad)}{where}",
            stacklevel=2,
        )
    return kept


def _decode(files: PictureFiles, path: Path, frame: Frame, digest: str) -> Kept:
    pillow()
    names: list[str] = []
    unreadable: list[tuple[str, str]] = []

    def decoded(name: str) -> tuple[str, np.ndarray | Exception]:
        try:
            return name, frame.decode(files.open(name))
        except Exception as error:  # a damaged file fails in too many ways to name
            return name, error

    def readable() -> Iterator[np.ndarray]:
        for name, found in in_order(decoded, files.stamps, ahead=AHEAD):
            if isinstance(found, Exception):
                unreadable.append((name, brief(found)))
            else:
                names.append(name)
                yield found

    def about() -> About:
        if not names:
            raise RequestError(f"none of {counted(len(unreadable), 'file')} in {path} can be read: {_few(unreadable)}")
        return About(tuple(names), tuple(unreadable))

    return keep(readable(), frame.shape, about, folder=path, digest=digest, grey_if_all_are=frame.mode == "auto")


def _few(unreadable: Sequence[tuple[str, str]]) -> str:
    named = ", ".join(f"{printable(name)} ({why})" for name, why in unreadable[:NAMED])
    return named + (", …" if len(unreadable) > NAMED else "")
