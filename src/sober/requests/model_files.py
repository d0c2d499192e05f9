"""Files that hold one model each: codes, a dictionary, or both."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sober.agreement.row_names import in_one_order
from sober.errors import RequestError
from sober.files import map_npy, npz_shapes
from sober.files.dictionaries import Dictionary, directions_in, is_dictionary, read_dictionary
from sober.metrics.common.metric_rows import take
from sober.requests.code_files import read_codes

MAPPED = 2**28  # bytes: a larger npy file is mapped, not read


class ModelFiles(NamedTuple):
    """The codes and dictionaries of several files by name; None where no file has any."""

    codes: Mapping[str, Any] | None
    dictionaries: Mapping[str, Dictionary] | None
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        counts = {"codes": self.codes, "dictionaries": self.dictionaries}
        return f"ModelFiles({', '.join(f'{len(models)} {name}' for name, models in counts.items() if models)})"


def read_models(paths: Mapping[str, Path], codes: str | None = None) -> ModelFiles:
    """Reads one model from each file or folder. All must have codes, or all dictionaries."""
    codes_by_name: dict[str, Any] = {}
    dictionaries: dict[str, Dictionary] = {}
    row_names: dict[str, Any] = {}
    notes: list[str] = []
    for name, path in paths.items():
        if path.is_dir():
            dictionaries[name] = read_dictionary(_dictionary_in(path))
            continue
        if is_dictionary(path):
            dictionaries[name] = read_dictionary(path)
            continue
        arrays = npz_shapes(path) if path.suffix.lower() == ".npz" and path.is_file() else {}
        if directions_in(arrays):
            dictionaries[name] = read_dictionary(path)
            if codes is None and "codes" not in arrays:
                continue
        if path.suffix.lower() == ".npy" and path.is_file() and path.stat().st_size > MAPPED:
            codes_by_name[name] = _mapped(path)
            continue
        file = read_codes(path, codes=codes)
        codes_by_name[name] = file.codes
        row_names[name] = file.row_names
        notes += file.notes
    for kind, models in (("codes", codes_by_name), ("directions", dictionaries)):
        lacking = [paths[name] for name in paths if name not in models]
        if models and lacking and len(codes_by_name if kind == "directions" else dictionaries) < len(paths):
            raise RequestError(f"{lacking[0]} has no {kind}, as other files have: compare files that hold the same")
    if len({len(names) for names in row_names.values() if names is not None}) == 1:
        for name, order in in_one_order(row_names).items():
            codes_by_name[name] = take(codes_by_name[name], order)
            notes.append(f"{paths[name]}: its rows are put in the order of the other files, by their names")
    complete = [models if len(models) == len(paths) else None for models in (codes_by_name, dictionaries)]
    return ModelFiles(complete[0], complete[1], tuple(notes))


def _dictionary_in(folder: Path) -> Path:
    """The folder of a dictionary: this one, or the only one inside it, as trainers of several layers nest them."""
    if is_dictionary(folder):
        return folder
    inside = sorted(path for path in folder.rglob("*") if path.is_dir() and is_dictionary(path))
    if not inside:
        raise RequestError(f"{folder} is no dictionary of SAELens or sparsify: name files, or such folders")
    if len(inside) > 1:
        raise RequestError(f"{folder} holds {len(inside)} dictionaries: name one of each folder, such as {inside[0]}")
    return inside[0]


def _mapped(path: Path) -> Any:
    try:
        return map_npy(path)
    except ValueError as error:
        raise RequestError(f"{path} cannot be read as an npy file ({error}): save it again") from error
