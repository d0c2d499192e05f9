"""Features that somebody saved: an array for each layer, with one row for each picture.

    features.npy                 one layer, named after the file
    features.npz, .safetensors   a layer for each array
    features.csv, .parquet       one layer, of all columns; in parquet, also a layer for each column of lists

They belong to the pictures that they were made of; no other picture can be encoded.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from safetensors import SafetensorError, safe_open

from sober.encoders.callables import name_of
from sober.encoders.encoder import Pooling
from sober.encoders.outputs import as_numpy, pooled
from sober.errors import RequestError, brief, choices, counted
from sober.files import is_table, npz_shapes, read_npy, read_npz, read_table
from sober.files.dictionaries import read_safetensors
from sober.short_text import as_table

if TYPE_CHECKING:
    import polars as pl

PICKLES = (".pkl", ".pickle", ".pt", ".pth", ".joblib", ".ckpt", ".bin")  # endings of files with pickled objects
MODEL_KIND = "sober.model"  # in the head of a file of `Model.save`
# Arrays that files have beside features.
NO_LAYERS = ("factors", "names", "kinds", "logvar", "groups", "weights", "index", "labels")


@dataclasses.dataclass(frozen=True)
class SavedFeatures:
    """Features of fixed pictures: for each layer an array (N, ...) in float32, checked."""

    layers: Mapping[str, Float[np.ndarray, "N ..."]]
    name: str = "features"
    first_patch: int = 0  # as in `Encoder`

    def __post_init__(self) -> None:
        layers = {str(layer): self._checked(str(layer), array) for layer, array in self.layers.items()}
        if not layers:
            raise RequestError(f"{self.name} has no features: give an array (N, D), or one for each layer by its name")
        rows = {layer: len(array) for layer, array in layers.items()}
        if len(set(rows.values())) > 1:
            first, other = min(rows, key=lambda layer: rows[layer]), max(rows, key=lambda layer: rows[layer])
            raise RequestError(
                f"{self.name}: layer {first} has {counted(rows[first], 'row')} and layer {other} {rows[other]:,}: all "
                "layers need one row for each picture"
            )
        object.__setattr__(self, "layers", layers)

    def __repr__(self) -> str:
        rows = [{"layer": layer, "shape": str(array.shape[1:])} for layer, array in self.layers.items()]
        return as_table(f"Saved features {self.name} of {counted(self.rows, 'picture')}", rows)

    @property
    def rows(self) -> int:
        """How many pictures there are."""
        return len(next(iter(self.layers.values())))

    def only(self, layers: tuple[str, ...]) -> SavedFeatures:
        """The features of some layers."""
        for layer in layers:
            if layer not in self.layers:
                raise RequestError(f"{self.name} has no layer {layer!r}: {choices(layer, self.layers)}")
        return dataclasses.replace(self, layers={layer: self.layers[layer] for layer in self.layers if layer in layers})

    def features(self, pooling: Pooling = "mean") -> dict[str, Float[np.ndarray, "N D"]]:
        """The features of each layer, a row for each picture."""
        try:
            return {layer: pooled(array, pooling, self.first_patch) for layer, array in self.layers.items()}
        except RequestError as error:
            raise RequestError(f"{self.name}: {error}") from error

    def _checked(self, layer: str, values: Any) -> Float[np.ndarray, "N ..."]:
        try:
            array = as_numpy(values)
        except (RequestError, TypeError, ValueError) as error:
            raise RequestError(f"{self.name}, layer {layer}: {brief(error)}") from error
        array = array[:, None] if array.ndim == 1 else array
        if array.ndim not in (2, 3, 4) or not array.size:
            raise RequestError(
                f"{self.name}, layer {layer} has shape {array.shape}: give features (N, D), tokens (N, T, D) or maps "
                "(N, H, W, D)"
            )
        if not np.isfinite(array).all():
            row = int(np.flatnonzero(~np.isfinite(array).reshape(len(array), -1).all(axis=1))[0])
            raise RequestError(
                f"{self.name}, layer {layer}: some features are not finite in float32, the first in row {row} (the "
                "first row is 0)"
            )
        return array


def holds_features(source: object) -> bool:
    """Whether a source is a file of features, or an array, or a mapping of arrays."""
    if isinstance(source, str | Path):
        path = Path(source)
        if path.suffix.lower() == ".safetensors" and path.is_file():
            return kind_of_file(path) != MODEL_KIND
        return is_table(path) or path.suffix.lower() in (".npy", ".npz")
    if isinstance(source, Mapping):
        return bool(source) and all(hasattr(value, "shape") for value in source.values())
    return isinstance(source, SavedFeatures) or (hasattr(source, "shape") and not callable(source))


def kind_of_file(path: Path) -> str:
    """What Sober wrote into the head of a safetensors file; empty if it is somebody else's, or cannot be read."""
    try:
        with safe_open(path, framework="numpy") as file:
            return (file.metadata() or {}).get("kind", "")
    except (OSError, SafetensorError):
        return ""


def saved_features(source: Any) -> SavedFeatures:
    """Features from a file, an array, or a mapping from layers to arrays."""
    if isinstance(source, SavedFeatures):
        return source
    if isinstance(source, Mapping):
        return SavedFeatures(source)
    if not isinstance(source, str | Path):
        return SavedFeatures({"features": source}, name_of(source) if callable(source) else "features")
    path = Path(source)
    if not path.is_file():
        raise RequestError(f"there is no file {path}")
    if path.name.lower().endswith(PICKLES):
        raise RequestError(
            f"{path} holds pickled Python objects, which Sober never loads: save arrays, as npz or safetensors"
        )
    return SavedFeatures(_arrays_of(path), str(path))


def _arrays_of(path: Path) -> dict[str, np.ndarray]:
    suffix = path.suffix.lower()
    if suffix == ".npy":
        return {path.stem: read_npy(path)}
    if suffix == ".npz":
        return read_npz(path, [name for name in npz_shapes(path) if name not in NO_LAYERS])
    if suffix == ".safetensors":
        return {name: array for name, array in read_safetensors(path).items() if name not in NO_LAYERS}
    if is_table(path):
        return _of_table(path, read_table(path).frame)
    raise RequestError(f"{path} is of no kind that Sober reads: save features as npy, npz, csv, parquet or safetensors")


def _of_table(path: Path, frame: pl.DataFrame) -> dict[str, np.ndarray]:
    """A layer for each column of lists; or all columns side by side, named after the file."""
    lists = [name for name, kind in frame.schema.items() if kind.is_nested()]
    if lists:
        return {name: _rows(path, name, frame[name].to_list()) for name in lists if name not in NO_LAYERS}
    text = [name for name, kind in frame.schema.items() if not kind.is_numeric()]
    if text:
        raise RequestError(f"{path}: column {text[0]!r} holds no numbers: leave it out, or save the features as npz")
    return {path.stem: np.column_stack([column.cast(float).to_numpy() for column in frame.get_columns()])}


def _rows(path: Path, name: str, rows: list[Any]) -> np.ndarray:
    try:
        return np.array(rows, np.float32)
    except (TypeError, ValueError) as error:
        raise RequestError(
            f"{path}: column {name!r} has lists of different lengths, or without numbers: each row needs the same "
            "number of features"
        ) from error
