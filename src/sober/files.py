"""Files that are whole or absent: atomic writes, arrays with a checksum, and the cache folder.

Every file Sober writes goes to a temporary name in the same folder and is renamed into place, so a reader, a second
writer or a kill at any moment sees the old file or the new one, never a part. Arrays are safetensors whose metadata
carries a checksum of the bytes; nothing is ever unpickled.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import socket
import uuid
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from sober.errors import RequestError, brief


def cache_dir() -> Path:
    """Where rendered worlds are kept: `$SOBER_CACHE`, else `$XDG_CACHE_HOME/sober`, else `~/.cache/sober`."""
    if chosen := os.environ.get("SOBER_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sober"


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


def write_json(path: Path, value: Any) -> None:
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise RequestError(f"{path} cannot be read ({brief(error)}): restore it, or choose another folder") from error


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> None:
    """Writes named arrays and string metadata as one safetensors file with a checksum, atomically."""
    # Little-endian, as safetensors stores them, so that what is hashed is what will be read.
    whole = {name: np.asarray(a, a.dtype.newbyteorder("<"), order="C") for name, a in arrays.items()}
    with replacing(path) as temporary:
        # Not `save_file`: it makes temporary files of its own, which a kill would leave behind.
        temporary.write_bytes(save(whole, {**metadata, "checksum": _checksum(whole, metadata)}))


def load_arrays(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Named arrays and metadata from a file of `save_arrays`, or an error that names the damaged file."""
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = dict(file.metadata() or {})
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except (OSError, SafetensorError) as error:
        raise RequestError(f"{path} is missing or damaged ({brief(error)}): delete it to make it again") from error
    expected = metadata.pop("checksum", None)
    if expected != _checksum(arrays, metadata):
        raise RequestError(f"{path} is damaged (its checksum does not match): delete it to make it again")
    return arrays, metadata


def cached_array(name: str, key: str, make: Callable[[], np.ndarray], doing: str) -> np.ndarray:
    """An array from the cache folder, made and stored on first use; `name` must change when the array does.

    A damaged file is made again, and a folder that cannot be written to is no reason to stop: both are warnings, and
    the first says what is being done, such as `rendering dsprites`, again.
    """
    path = cache_dir() / f"{name}.safetensors"
    if path.exists():
        try:
            return load_arrays(path)[0][key]
        except RequestError as error:
            warnings.warn(f"{error}; {doing} again", stacklevel=3)
    array = make()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_arrays(path, {key: array}, {"name": name})
    except OSError as error:
        warnings.warn(f"{name} could not be cached in {path.parent} ({brief(error)}): set SOBER_CACHE", stacklevel=3)
    return array


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an npz file that anyone may have made; one that holds pickled objects is refused."""
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            raise RequestError(f"{path} holds one array: save several by name, numpy.savez(path, codes=…, factors=…)")
        with loaded:
            return {name: loaded[name] for name in loaded.files}
    except RequestError:
        raise
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise RequestError(f"{path} cannot be read as an npz file ({brief(error)})") from error


def _checksum(arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> str:
    digest = hashlib.sha256(json.dumps(metadata, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.asarray(arrays[name], order="C")
        digest.update(f"{name}:{array.dtype.str}:{array.shape};".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return "sha256:" + digest.hexdigest()


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds `folder` for one process at a time; the lock goes with the process, however it ends."""
    with open(folder / ".lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise RequestError(
                f"{folder} is in use by another process: wait for it, or choose another --out"
            ) from error
        yield


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
