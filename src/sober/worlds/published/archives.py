"""Reads archives of published data sets, member by member: nothing is unpacked to disk, and nothing is unpickled."""

from __future__ import annotations

import contextlib
import io
import itertools
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import IO

import numpy as np
from jaxtyping import UInt8

from sober.errors import RequestError, brief
from sober.installation import needing_extra
from sober.parallel import cores

LARGEST = 64 * 2**20  # bytes of one member: published ones are far smaller, a malicious one may be endless


@contextlib.contextmanager
def reading(path: Path, world: str) -> Iterator[None]:
    """Turns any error of a damaged file into one error that names the file."""
    try:
        yield
    except RequestError:
        raise
    except Exception as error:  # decompression, headers, encodings, pictures: too many kinds to name
        reason = f"not found: {error.args[0]}" if isinstance(error, KeyError) else brief(error)
        raise RequestError(f"{path} cannot be read as {world} ({reason}): expected the file as published") from error


def zip_members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The members of a zip file by name."""
    return {_inside(member.filename): member for member in archive.infolist()}


def zip_bytes(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    with archive.open(member) as file:
        return _bounded(file, member.filename)


def tar_members(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """The plain files of a tar file, in its own order; links and devices are skipped."""
    for member in archive:
        _inside(member.name)
        if member.isreg():
            yield member


def tar_bytes(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    if file is None:
        raise ValueError(f"{member.name!r} is not a plain file")
    content = _bounded(file, member.name)
    if len(content) != member.size:
        raise ValueError(f"{member.name!r} ends too early")
    return content


def _bounded(file: IO[bytes], name: str) -> bytes:
    content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ValueError(f"{name!r} holds more than {LARGEST:,} bytes")
    return content


def _inside(name: str) -> str:
    """Refuses a member's name that leads outside: nothing is unpacked, but such an archive is not the published one."""
    if name.startswith("/") or "\\" in name or ".." in PurePosixPath(name).parts:
        raise ValueError(f"member {name!r} points outside the archive")
    return name


def picture(
    content: bytes,
    mode: str,
    *,
    size: tuple[int, int] | None = None,
    crop: int | None = None,
    side: int = 64,
) -> UInt8[np.ndarray, "side side C"]:
    """A JPEG or PNG, its central square resized with Pillow's Lanczos filter; transparent pixels become white.

    `size` is the required width and height, `crop` the side of the square, by default the shorter of the two.
    """
    with needing_extra("reading pictures"):
        from PIL import Image  # noqa: PLC0415

    with Image.open(io.BytesIO(content), formats=("JPEG", "PNG")) as file:
        width, height = file.size
        if size is not None and (width, height) != size:
            raise ValueError(f"a picture of {width} x {height} pixels, not {size[0]} x {size[1]}")
        square = crop or min(width, height)
        left, top = (width - square) // 2, (height - square) // 2
        opaque: Image.Image = file
        if "A" in file.getbands():
            paper = Image.new("RGBA", file.size, "white")
            opaque = Image.alpha_composite(paper, file.convert("RGBA"))
        # Cropped first: given a box, Pillow's filter would look beyond its edges.
        middle = opaque.convert(mode).crop((left, top, left + square, top + square))
        small = middle.resize((side, side), Image.Resampling.LANCZOS)
    return np.asarray(small).reshape(side, side, -1)


def pictures(
    contents: Iterable[tuple[str, bytes]], decode: Callable[[bytes], UInt8[np.ndarray, "H W C"]]
) -> Iterator[UInt8[np.ndarray, "n H W C"]]:
    """Decodes named picture files on all cores, in blocks and in order."""

    def decode_named(named: tuple[str, bytes]) -> UInt8[np.ndarray, "H W C"]:
        name, content = named
        try:
            return decode(content)
        except Exception as error:  # Pillow raises errors of many types
            raise ValueError(f"{name}: {brief(error)}") from error

    remaining = iter(contents)
    with ThreadPoolExecutor(cores()) as pool:  # Pillow lets go of the interpreter lock
        while block := list(itertools.islice(remaining, 256)):
            yield np.stack(list(pool.map(decode_named, block)))
