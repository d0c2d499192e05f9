"""Picture files in a folder or a zip archive: which there are, in order of their paths, and how to open each."""

from __future__ import annotations

import contextlib
import io
import os
import stat
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from sober.errors import RequestError, brief

AHEAD = 16  # pictures that may wait, decoded, for those before them
ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".pgm", ".pbm", ".pnm", ".avif")
LARGEST_FILE = 2**29  # bytes in a member of an archive, which is read whole


class PictureFiles(NamedTuple):
    """Picture files by name, in order, each with what changes when it does; and how to open one."""

    stamps: dict[str, tuple[int, int]]
    open: Callable[[str], Path | BinaryIO]


@contextlib.contextmanager
def picture_files(path: Path) -> Iterator[PictureFiles]:
    if path.is_dir():
        yield PictureFiles(_in_folder(path), lambda name: path / name)
        return
    if not path.is_file():
        raise RequestError(f"there is no folder or zip archive at {path}")
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError) as error:
        raise RequestError(f"{path} cannot be read as a folder or zip archive ({brief(error)})") from error
    with archive:
        yield _in_archive(archive)


def _in_folder(folder: Path) -> dict[str, tuple[int, int]]:
    def refuse(error: OSError) -> None:
        raise RequestError(f"{error.filename} cannot be read ({brief(error)})") from error

    stamps = {}
    for parent, _, names in os.walk(folder, onerror=refuse):
        for name in names:
            file = Path(parent, name)
            below = file.relative_to(folder).as_posix()
            if _wanted(below):
                try:
                    about = file.stat()
                except OSError:
                    stamps[below] = -1, -1  # a link to nowhere: told with the files that cannot be read
                else:
                    if stat.S_ISREG(about.st_mode):
                        stamps[below] = about.st_size, about.st_mtime_ns
    return dict(sorted(stamps.items()))


def _in_archive(archive: zipfile.ZipFile) -> PictureFiles:
    """Members are read, never extracted, so where their names point to does not matter."""
    members = {}
    for member in archive.infolist():
        name = member.filename.replace("\\", "/").lstrip("/")
        if _wanted(name) and not member.is_dir():
            members[name] = member  # of two with one name the last counts, as when extracting
    one_at_a_time = threading.Lock()

    def opened(name: str) -> BinaryIO:
        if members[name].file_size > LARGEST_FILE:
            raise ValueError(f"larger than {LARGEST_FILE:,} bytes")
        with one_at_a_time:
            return io.BytesIO(archive.read(members[name]))

    return PictureFiles({name: (members[name].file_size, members[name].CRC) for name in sorted(members)}, opened)


def _wanted(name: str) -> bool:
    """Whether a path is a picture's: neither hidden (nor leading upwards), nor what macOS puts into archives."""
    parts = name.split("/")
    return (
        not any(part.startswith(".") or part == "__MACOSX" for part in parts) and Path(name).suffix.lower() in ENDINGS
    )


def printable(name: str) -> str:
    """A file's name on one line, whatever characters it has."""
    return name if name.isprintable() else ascii(name)
