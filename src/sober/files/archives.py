"""Zip archives of folders, unpacked within bounds."""

from __future__ import annotations

import errno
import lzma
import shutil
import struct
import zipfile
import zlib
from pathlib import Path

from sober.errors import RequestError, brief
from sober.files.memory import check_size

FILES = 100_000  # that an archive may hold
# What reading a damaged or crafted archive raises; a RuntimeError says that it is packed in an unknown way.
UNREADABLE = (EOFError, RuntimeError, ValueError, lzma.LZMAError, struct.error, zipfile.BadZipFile, zlib.error)
IMPOSSIBLE = (errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EINVAL)  # names of no file


def unzip(archive: Path, out: Path) -> None:
    """Unpacks a zip file into a folder. Refuses names that lead out of it, and archives that unpack to too much."""
    try:
        with zipfile.ZipFile(archive) as file:
            members = [member for member in file.infolist() if not member.is_dir()]
            if len(members) > FILES:
                raise RequestError(f"{archive} holds more than {FILES:,} files: not unpacked")
            sizes = [(member.file_size, member.compress_size) for member in members]
            check_size(str(archive), *(sum(column) for column in zip(*sizes, strict=True)) if sizes else (0, 0))
            for member in members:
                target = (out / member.filename).resolve()
                if not target.is_relative_to(out.resolve()) or member.flag_bits & 1:
                    raise RequestError(f"{archive} holds {member.filename!r}, which cannot be unpacked safely")
                target.parent.mkdir(parents=True, exist_ok=True)
                with file.open(member) as source, open(target, "wb") as written:
                    shutil.copyfileobj(source, written)  # zipfile refuses more bytes than the list of contents says
    except RequestError:
        raise
    except UNREADABLE as error:
        raise RequestError(f"{archive} is no archive of results, or damaged ({brief(error)})") from error
    except OSError as error:
        if error.errno not in IMPOSSIBLE:
            raise  # a full disk, say, which is not the archive's fault
        raise RequestError(f"{archive} holds names that no folder can ({brief(error)})") from error
