"""Atomic writes: a file is complete or absent.

Sober writes every file to a temporary name in the same folder and renames it into place. A reader, a second writer or a
kill at any moment leaves the old file or the new one, never a part.
"""

from __future__ import annotations

import contextlib
import glob
import os
import socket
import uuid
from collections.abc import Iterator
from pathlib import Path

from sober.errors import ReadFaultError, RequestError, brief


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path`: renamed to `path` if the block ends without an error, else removed."""
    remove_stale(path)
    # The name holds host and process, so that `remove_stale` knows a killed process's file from work in progress.
    temporary = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        yield temporary
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def is_there(path: Path) -> bool:
    """Whether a file is there; an error if the system cannot tell."""
    with reading(path):
        try:
            path.stat()
        except (FileNotFoundError, NotADirectoryError, ValueError):  # a name with a zero is no name of a file
            return False
        return True


def folder_names(folder: Path, ending: str = "") -> list[str]:
    """The names in a folder with this ending, sorted; none if there is no folder, an error if it cannot be listed.

    `Path.glob` takes a folder that it may not read for an empty one.
    """
    with reading(folder):
        try:
            return sorted(name for name in os.listdir(folder) if name.endswith(ending))
        except FileNotFoundError:
            return []


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turns a system error about reading `path` into a `ReadFaultError`, except that the file is missing."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ReadFaultError(f"{path} cannot be read ({brief(error)}): nothing was changed; try again") from error


def remove_stale(path: Path, *, any_name: bool = False) -> None:
    """Removes temporary files for `path`, of processes of this host that no longer run.

    With `any_name`, `path` is a folder, and temporary files for any name in it are removed.
    """
    folder, name = (path, "*") if any_name else (path.parent, glob.escape(path.name))
    for stale in folder.glob(f".{name}.{socket.gethostname()}.*.tmp"):
        try:
            os.kill(int(stale.name.split(".")[-3]), 0)
        except ProcessLookupError:
            stale.unlink(missing_ok=True)
        except (ValueError, PermissionError):
            continue


def writable_folder(path: Path) -> Path:
    """`path` as an existing folder that can be written to, or an error with the reason why not."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / f".probe.{uuid.uuid4().hex}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise RequestError(f"cannot write to {path} ({brief(error)}): choose another folder") from error
    return path
