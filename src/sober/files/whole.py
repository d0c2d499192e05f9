"""Files that are whole or absent.

Every file Sober writes goes to a temporary name in the same folder and is renamed into place, so a reader, a second
writer or a kill at any moment sees the old file or the new one, never a part.
"""

from __future__ import annotations

import contextlib
import os
import socket
import uuid
from collections.abc import Iterator
from pathlib import Path

from sober.errors import RequestError, brief


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that becomes `path` when the block ends well, and vanishes when it does not."""
    sweep(path)
    # Host and process are in the name so that what a killed process left behind can be told from work in progress.
    temporary = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        yield temporary
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def sweep(path: Path) -> None:
    """Removes what processes of this host that no longer run left half-written beside `path`."""
    for stale in path.parent.glob(f".{path.name}.{socket.gethostname()}.*.tmp"):
        try:
            os.kill(int(stale.name.split(".")[-3]), 0)
        except ProcessLookupError:
            stale.unlink(missing_ok=True)
        except (ValueError, PermissionError):
            continue


def writable_folder(path: Path) -> Path:
    """`path` as an existing folder that can be written to, or an error that says why it is not."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / f".probe.{uuid.uuid4().hex}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise RequestError(f"cannot write to {path} ({brief(error)}): choose another folder") from error
    return path
