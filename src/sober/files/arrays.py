"""Named arrays in one file: safetensors whose metadata carries a checksum of the bytes; nothing is ever unpickled."""

from __future__ import annotations

import hashlib
import json
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from sober.errors import RequestError, brief
from sober.files.whole import replacing


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
        raise RequestError(f"{path} is missing, damaged or not a file of Sober's ({brief(error)})") from error
    expected = metadata.pop("checksum", None)
    if expected != _checksum(arrays, metadata):
        raise RequestError(f"{path} is damaged, or not a file of Sober's (its checksum does not match)")
    return arrays, metadata


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
