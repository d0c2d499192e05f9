"""Pictures kept in the cache: written as they come, in the memory of a few, and mapped from disk ever after.

pictures/DIGEST.npy              all pictures, (N, H, W, C) bytes: written last, so where it is the rest is too
pictures/DIGEST.safetensors      the names of their files, which files could not be read, and labels, if there are any
pictures/DIGEST.unreadable.txt   for a person to read, where there are such files
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, UInt8

from sober.errors import RequestError, brief
from sober.files import cache_dir, load_arrays, replacing, save_arrays, writable_folder
from sober.types import Factor
from sober.worlds.pictures.picture_files import printable

COPIED = 3 * 2**20  # values at a time: whole pixels, of one channel or three


class Labelled(NamedTuple):
    """What is known about pictures: factors, and a row of values for each; classes from 0, NaN where not known."""

    factors: tuple[Factor, ...]
    values: Float[np.ndarray, "N K"]


UNLABELLED = Labelled((), np.empty((0, 0)))


@dataclasses.dataclass(frozen=True)
class About:
    """What is kept beside pictures."""

    names: tuple[str, ...] = ()  # of their files, where they have any
    unreadable: tuple[tuple[str, str], ...] = ()  # names, and why
    labels: Labelled = UNLABELLED

    def digest(self) -> str:
        return hashlib.sha256(self._text().encode() + self.labels.values.tobytes()).hexdigest()

    def save(self, path: Path) -> None:
        text = np.frombuffer(self._text().encode(), np.uint8)  # an array: metadata has a limit, and names may be many
        save_arrays(path, {"about": text, "labels": self.labels.values}, {"kind": "sober.pictures"})
        if self.unreadable:
            with replacing(unreadable_path(path)) as temporary:
                lines = [f"{printable(name)}: {why}\n" for name, why in self.unreadable]
                temporary.write_text("".join(lines), encoding="utf-8")

    @staticmethod
    def load(path: Path) -> About:
        arrays, _ = load_arrays(path)
        text = json.loads(arrays["about"].tobytes())
        factors = tuple(Factor(**{**each, "values": tuple(each["values"])}) for each in text["factors"])
        unreadable = tuple((name, why) for name, why in text["unreadable"])
        return About(tuple(text["names"]), unreadable, Labelled(factors, arrays["labels"]))

    def _text(self) -> str:
        factors = [dataclasses.asdict(factor) for factor in self.labels.factors]
        return json.dumps({"names": self.names, "unreadable": self.unreadable, "factors": factors})


class Entry(NamedTuple):
    """Pictures in the cache, and what is kept beside them."""

    pictures: UInt8[np.ndarray, "N H W C"]
    about: About


def entry_path(digest: str) -> Path:
    return cache_dir() / "pictures" / f"{digest}.npy"


def unreadable_path(path: Path) -> Path:
    return path.with_suffix(".unreadable.txt")


def open_entry(digest: str) -> Entry | None:
    """The pictures of this name, mapped from disk; None where there are none, an error where they are damaged."""
    path = entry_path(digest)
    if not path.exists():
        return None
    try:
        pictures = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:  # a file that is cut short is refused here too
        raise RequestError(f"{path} is damaged ({brief(error)}): delete it to make it again") from error
    return Entry(pictures, About.load(path.with_suffix(".safetensors")))


def keep(
    pictures: Iterable[UInt8[np.ndarray, "H W C"]],
    shape: tuple[int, int, int],
    about: Callable[[], About],
    *,
    digest: str | None = None,
    grey_if_all_are: bool = False,
) -> str:
    """Writes pictures of one `shape` into the cache and returns the name of their entry.

    The name is `digest`, or follows from the pictures and what is known about them: `about`, asked for when all
    pictures have come. With `grey_if_all_are`, three channels that agree in every pixel become one.
    """
    folder = writable_folder(entry_path("").parent)
    content, count, coloured = hashlib.sha256(str(shape).encode()), 0, False
    # A file without a name: how many pictures there are and whether any has colours is known only at the end, and
    # whatever happens before that, nothing stays behind.
    with tempfile.TemporaryFile(dir=folder) as spool:
        for picture in pictures:
            coloured = coloured or bool((picture != picture[..., :1]).any())
            content.update(np.ascontiguousarray(picture).data)
            with _written(folder):
                spool.write(np.ascontiguousarray(picture).data)
            count += 1
        found = about()
        content.update(found.digest().encode())
        channels = 1 if grey_if_all_are and not coloured else shape[2]
        content.update(str(channels).encode())
        digest = digest or content.hexdigest()[:16]
        path = entry_path(digest)
        with _written(folder):
            spool.seek(0)
            found.save(path.with_suffix(".safetensors"))
            with replacing(path) as temporary, open(temporary, "wb") as file:
                header = {"descr": "|u1", "fortran_order": False, "shape": (count, *shape[:2], channels)}
                np.lib.format.write_array_header_1_0(file, header)
                while block := spool.read(COPIED):
                    file.write(np.frombuffer(block, np.uint8).reshape(-1, shape[2])[:, :channels].tobytes())
    return digest


@contextlib.contextmanager
def _written(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RequestError(f"pictures cannot be kept in {folder} ({brief(error)}): set SOBER_CACHE") from error
