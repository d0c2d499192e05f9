"""Dictionaries from files: one direction for each feature, and the encoder where the file has it.

Read as they are: safetensors files, npy and npz files, and folders that SAELens (`cfg.json`, `sae_weights.safetensors`)
and sparsify (`cfg.json`, `sae.safetensors`) save. Nothing is ever unpickled.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from sober.errors import FEW, RequestError, brief, listed
from sober.files.arrays import npz_shapes, read_npy, read_npz, save_arrays
from sober.files.atomic import reading, writable_folder
from sober.files.memory import check_size
from sober.files.records import parse_json, read_json, write_json

SAELENS, SPARSIFY, SETTINGS = "sae_weights.safetensors", "sae.safetensors", "cfg.json"
SAELENS_FORMAT = "6.0.0"  # the version of SAELens that first read settings in the form that is saved here
TWO_SIDED = ("abstopk",)  # architectures of SAELens whose features may be negative
LONGEST_HEADER = 100 * 2**20  # bytes; the limit of the safetensors library
TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4"}
# Names of arrays that hold directions, in the order of preference, and whether a row is a direction.
DIRECTIONS = {
    "W_dec": True,
    "directions": True,
    "dictionary": True,
    "components_": True,
    "decoder.weight": False,  # a layer of PyTorch: a column is a direction
}
ENCODERS = {"W_enc": False, "encoder.weight": True}  # whether a row is a feature


class Dictionary(NamedTuple):
    """Directions of D features in a space of P dimensions, and the encoder that goes with them if it is known.

    An encoder's activations are f(x · encoder + encoder_bias), for x less the decoder's bias if `centred`. A transcoder
    reads another space than it writes, of Q dimensions; for others Q is P.
    """

    directions: Float[np.ndarray, "D P"]
    encoder: Float[np.ndarray, "Q D"] | None = None
    encoder_bias: Float[np.ndarray, " D"] | None = None
    decoder_bias: Float[np.ndarray, " P"] | None = None
    one_sided: bool = False  # features fire or are 0, so a direction and its opposite are two features
    centred: bool = True  # whether the decoder's bias is subtracted before the encoder reads

    def __repr__(self) -> str:
        count, space = self.directions.shape
        encoder = "" if self.encoder is None else ", with its encoder"
        return f"Dictionary({count:,} directions in {space:,} dimensions{encoder})"


def is_dictionary(path: Path) -> bool:
    """Whether a path is a folder of SAELens or sparsify, or a safetensors file."""
    if path.is_dir():
        return any((path / name).is_file() for name in (SAELENS, SPARSIFY))
    return path.suffix.lower() == ".safetensors"


def read_dictionary(path: Path) -> Dictionary:
    """The dictionary in a file or folder. An error names the path and what to do."""
    if path.is_dir():
        for name in (SAELENS, SPARSIFY):
            if (path / name).is_file():
                settings = read_json(path / SETTINGS)
                if not isinstance(settings, Mapping):
                    raise RequestError(f"{path / SETTINGS} does not hold the settings of a dictionary: save it again")
                return _of_arrays(path / name, read_safetensors(path / name))._replace(
                    one_sided=settings.get("architecture") not in TWO_SIDED,
                    centred=bool(settings.get("apply_b_dec_to_input", not settings.get("transcode"))),
                )
        raise RequestError(f"{path} is no folder of SAELens ({SAELENS}) or sparsify ({SPARSIFY})")
    if path.suffix.lower() == ".safetensors":
        return _of_arrays(path, read_safetensors(path))
    if path.suffix.lower() == ".npy":
        return Dictionary(read_npy(path))
    shapes = npz_shapes(path)
    wanted = {*DIRECTIONS, *ENCODERS, "b_enc", "b_dec", "encoder.bias"} & set(shapes)
    return _of_arrays(path, read_npz(path, wanted or shapes))


def directions_in(names: Mapping[str, Any]) -> bool:
    """Whether arrays of these names hold directions."""
    return any(name in names for name in DIRECTIONS)


def _of_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> Dictionary:
    name = next((name for name in DIRECTIONS if name in arrays), None)
    if name is None:
        tables = [other for other, array in arrays.items() if array.ndim == 2]
        if len(tables) != 1:
            raise RequestError(
                f"{path} has no array of a known name ({listed(DIRECTIONS)}) and {len(tables):,} tables "
                f"({listed(tables[:FEW])}): name the directions W_dec, a row for each feature"
            )
        return Dictionary(arrays[tables[0]])
    directions = arrays[name] if DIRECTIONS[name] else arrays[name].T
    encoder_name = next((other for other in ENCODERS if other in arrays), None)
    encoder = None
    if encoder_name is not None:
        encoder = arrays[encoder_name].T if ENCODERS[encoder_name] else arrays[encoder_name]
        if encoder.shape[1:] != directions.shape[:1]:
            raise RequestError(
                f"{path}: {encoder_name} has shape {arrays[encoder_name].shape} and {name} {arrays[name].shape}: "
                "an encoder and a decoder of one dictionary have the same features"
            )
    return Dictionary(
        directions,
        encoder,
        arrays.get("b_enc", arrays.get("encoder.bias")),
        arrays.get("b_dec"),
        one_sided=encoder is not None,
    )


def read_safetensors(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a safetensors file, memory-mapped; bfloat16 becomes float32, which NumPy knows."""
    try:
        with reading(path), path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if not 2 <= length <= min(LONGEST_HEADER, path.stat().st_size):
                raise ValueError("it does not begin as safetensors files do")
            header = parse_json(file.read(length))
        content = np.memmap(path, np.uint8, "r", 8 + length) if path.stat().st_size > 8 + length else b""
        entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
        if sum(end - start for start, end in (entry["data_offsets"] for entry in entries.values())) > len(content):
            raise ValueError("its arrays share bytes, or it ends too early")  # a small file could fill the memory
        return {name: _array(path, content, entry) for name, entry in entries.items()}
    except FileNotFoundError:
        raise RequestError(f"there is no file {path}") from None
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, RequestError):
            raise
        raise RequestError(f"{path} cannot be read as a safetensors file ({brief(error)}): save it again") from error


def _array(path: Path, content: Any, entry: Mapping[str, Any]) -> np.ndarray:
    kind, shape, (start, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
    if kind not in TYPES:
        raise ValueError(f"numbers of type {kind} are not known")
    dtype = np.dtype(TYPES[kind])
    if not 0 <= start <= end <= len(content) or end - start != dtype.itemsize * math.prod(shape):
        raise ValueError("it ends too early")
    array = np.frombuffer(content, np.uint8, end - start, start).view(dtype).reshape(shape)
    if kind == "BF16":
        check_size(str(path), 4 * array.size, 2 * array.size)
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array


def save_saelens(folder: Path, dictionary: Dictionary, notes: Mapping[str, Any]) -> Path:
    """Saves a dictionary as SAELens does a standard one, or a transcoder; without an encoder, the directions encode.

    `notes` go into the metadata of the settings.
    """
    writable_folder(folder)
    directions = np.asarray(dictionary.directions, np.float32)
    count, space = directions.shape
    encoder = directions.T if dictionary.encoder is None else dictionary.encoder
    biases = {"b_enc": (dictionary.encoder_bias, count), "b_dec": (dictionary.decoder_bias, space)}
    arrays = {name: np.zeros(size) if bias is None else bias for name, (bias, size) in biases.items()}
    arrays |= {"W_enc": encoder, "W_dec": directions}
    stored = {name: np.ascontiguousarray(array, np.float32) for name, array in arrays.items()}
    save_arrays(folder / SAELENS, stored, {"made_by": "sober agree"})
    settings = {
        "architecture": "standard" if len(encoder) == space else "transcoder",
        "d_in": len(encoder),
        "d_sae": count,
        "dtype": "float32",
        "device": "cpu",
        "apply_b_dec_to_input": dictionary.centred,
        "normalize_activations": "none",
        "reshape_activations": "none",
        "metadata": {"sae_lens_version": SAELENS_FORMAT, **notes},
    }
    if len(encoder) != space:
        settings["d_out"] = space
    write_json(folder / SETTINGS, settings)
    return folder
