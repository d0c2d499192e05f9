"""Picture files in a folder or a zip archive: their names, in order of their paths, and a way to open each."""

from __future__ import annotations

import contextlib
import io
import os
import stat
import struct
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from sober.errors import RequestError, brief, shell_command

AHEAD = 16  # decoded pictures that may wait for an earlier one
ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".pgm", ".pbm", ".pnm", ".avif")
LARGEST_FILE = 2**29  # bytes of an archive's member, which is read into memory


class PictureFiles(NamedTuple):
    """Picture files by name, in order, each with a stamp that changes when the file does; and a way to open one."""

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
    except (OSError, NotImplementedError, ValueError, struct.error, zipfile.BadZipFile) as error:
        raise RequestError(
            f"{path} cannot be read as a folder or zip archive of pictures ({brief(error)}); if it holds codes, "
            f"{shell_command('sober', 'score', path)} measures them"
        ) from error
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
                    status = file.stat()
                except OSError:
                    stamps[below] = -1, -1  # a broken link: reported with the files that cannot be read
                else:
                    if stat.S_ISREG(status.st_mode):
                        stamps[below] = status.st_size, status.st_mtime_ns
    return dict(sorted(stamps.items()))


def _in_archive(archive: zipfile.ZipFile) -> PictureFiles:
    """The pictures of an archive. Members are read, never extracted, so a name that leads outside does no harm."""
    members = {}
    for member in archive.infolist():
        name = member.filename.replace("\\", "/").lstrip("/")
        if _wanted(name) and not member.is_dir():
            members[name] = member  # of duplicate names the last counts, as when extracting
    archive_lock = threading.Lock()

    def opened(name: str) -> BinaryIO:
        if members[name].file_size > LARGEST_FILE:
            raise ValueError(f"larger than {LARGEST_FILE:,} bytes")
        with archive_lock, archive.open(members[name]) as file:
            # `archive.read` would unpack the whole content before it compares its size with the promised one.
            return io.BytesIO(file.read(members[name].file_size + 1))

    return PictureFiles({name: (members[name].file_size, members[name].CRC) for name in sorted(members)}, opened)


def _wanted(name: str) -> bool:
    """Whether a path leads to a picture: not hidden, not leading upwards, not added to an archive by macOS."""
    skipped = any(folder.startswith(".") or folder == "__MACOSX" for folder in name.split("/"))
    return not skipped and Path(name).suffix.lower() in ENDINGS


def printable(name: str) -> str:
    """A file's name on one line, with odd characters escaped."""
    return name if name.isprintable() else ascii(name)
