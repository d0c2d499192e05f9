"""Codes and factors from files that people have: CSV, TSV and parquet tables, npy and npz arrays.

    codes.csv                        every column is a latent
    codes.csv, factors="labels.csv"  factors from another file of any of these kinds, with the same rows
    all.csv, factors="shape,colour"  columns of the file itself; the others are latents
    all.npz                          the arrays `codes` and `factors`, and if present `logvar`, `names`, `kinds`, …
    all.npz, codes="z", factors="y"  arrays by other names

`labels.csv:shape,colour` takes some columns or arrays of another file. `*` in a name stands for any letters.
"""

from __future__ import annotations

import fnmatch
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sober.errors import RequestError, brief, choices, counted, listed
from sober.files import check_size, is_table, npz_shapes, read_npy, read_npz, read_table
from sober.metrics.common.arrays import Kinds
from sober.metrics.common.inputs import as_codes
from sober.short_text import as_call
from sober.types import Codes

if TYPE_CHECKING:
    import polars as pl

PICKLES = (".pkl", ".pickle", ".pt", ".pth", ".joblib", ".ckpt")  # endings of files that hold pickled objects
READABLE = "save a table as csv, tsv, txt or parquet, and NumPy arrays as npy or npz"
CODES, FACTORS = "codes", "factors"  # names of the arrays in an npz file, unless a person gives others
OF_ROWS = ("logvar", "groups", "weights")  # arrays that an npz file may have beside codes
OF_FACTORS = ("names", "kinds")  # arrays that it may have beside factors
LISTED = 12  # columns that a note lists at most
PER_END = 32  # bytes that each row and each column of a sparse array takes, at least
SPARSE = {"data", "indices", "indptr", "shape", "format"}  # what scipy.sparse.save_npz writes


class CodeFile(NamedTuple):
    """The codes of a file with their factors, and notes for people about how the file was read."""

    codes: Codes
    notes: tuple[str, ...] = ()
    row_names: np.ndarray | None = None  # from a table that names its rows

    def __repr__(self) -> str:
        return as_call(self)


class _Factors(NamedTuple):
    """Factors as they were read: an array or a data frame, with what describes it."""

    array: Any
    where: str  # what holds them, for messages
    names: Sequence[str] | None = None
    kinds: Kinds = None
    notes: tuple[str, ...] = ()


class _Codes(NamedTuple):
    """Codes as they were read, with the factors that the same file holds."""

    array: Any
    where: str
    factors: _Factors | None = None
    of_rows: Mapping[str, Any] = {}  # by the names in `OF_ROWS`
    notes: tuple[str, ...] = ()
    row_names: np.ndarray | None = None


def read_codes(
    path: Path, *, codes: str | None = None, factors: str | None = None, kinds: Mapping[str, str] | str | None = None
) -> CodeFile:
    """Reads codes, and factors if there are any. Errors name the file.

    `codes` and `factors` name columns or arrays, separated by commas; `factors` may also name a file. `kinds` says
    which kind a factor has, by name or for all factors.
    """
    _check_readable(path)
    factor_file, factor_names = _file_and_names(path, factors)
    own_names = () if factor_file else factor_names
    if path.suffix.lower() == ".npz":
        read = _codes_of_npz(path, _split(codes), own_names, has_factors=factor_file is None)
    elif path.suffix.lower() == ".npy":
        read = _codes_of_npy(path, own_names)
    else:
        read = _codes_of_table(path, _split(codes), own_names)
    in_file = read.factors if factor_file is None else _read_factors(factor_file, factor_names, read.array.shape[0])
    notes = (*read.notes, *(in_file.notes if in_file else ()))
    return CodeFile(_prepared(path, read, in_file, kinds), notes, read.row_names)


def _check_readable(path: Path) -> None:
    if not path.is_file():
        raise RequestError(f"there is no file or folder {path}")
    if path.name.lower().endswith(PICKLES):
        raise RequestError(
            f"{path} holds pickled Python objects, which Sober never loads, because loading them can run code. Save "
            "arrays instead: numpy.savez('codes.npz', codes=codes, factors=factors)"
        )
    if not is_table(path) and path.suffix.lower() not in (".npy", ".npz"):
        raise RequestError(f"{path} is of no kind that Sober reads: {READABLE}")


def _file_and_names(path: Path, factors: str | None) -> tuple[Path | None, tuple[str, ...]]:
    """The other file that holds the factors, if there is one, and the names of columns or arrays to take."""
    if factors is None:
        return None, ()
    for text, names in ((factors, ""), factors.rpartition(":")[::2]):
        file = Path(text)
        if text and (file.is_file() or is_table(file) or file.suffix.lower() in (".npy", ".npz", *PICKLES)):
            if file.is_file() and file.samefile(path):
                if not names:
                    raise RequestError(f"{path} has the codes, too: name its factors, as in --factors shape,colour")
                return None, _split(names)
            return file, _split(names)
    return None, _split(factors)


def _split(names: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in names.split(",") if name.strip()) if names else ()


def _matching(path: Path, noun: str, patterns: Sequence[str], names: Iterable[str]) -> list[str]:
    """The names that a person asked for; `*` and `?` stand for letters."""
    names, matching = list(names), dict[str, None]()
    for pattern in patterns:
        new = [pattern] if pattern in names else fnmatch.filter(names, pattern) if set("*?") & set(pattern) else []
        if not new:
            raise RequestError(f"{path} has no {noun} {pattern!r}: {choices(pattern, names)}")
        matching |= dict.fromkeys(new)
    return list(matching)


# ---------------------------------------------------------------- tables


def _codes_of_table(path: Path, code_names: Sequence[str], factor_names: Sequence[str]) -> _Codes:
    frame, notes, row_names = _frame(path, None)
    factor_columns = _matching(path, "column", factor_names, frame.columns)
    code_columns = _matching(path, "column", code_names, frame.columns)
    if not code_columns and (column := _column_of_names(frame.drop(factor_columns))):
        row_names = frame[column]
        frame = frame.drop(column)
        notes = (*notes, f"{path}: column {column!r} is left out, because it names the rows")
    if factor_columns and not code_columns:
        code_columns = [name for name in frame.columns if name not in factor_columns]
        notes = (*notes, f"{path}: the latents are {_short_list(code_columns)}")
    code_columns = code_columns or frame.columns
    if twice_named := [name for name in code_columns if name in factor_columns]:
        raise RequestError(f"{path}: column {twice_named[0]!r} is named as a latent and as a factor")
    if not code_columns:
        raise RequestError(f"{path}: every column is a factor, and none is left for the codes")
    array = _latents(path, frame.select(code_columns))
    factors = _Factors(frame.select(factor_columns), str(path)) if factor_columns else None
    return _Codes(array, str(path), factors, notes=notes, row_names=None if row_names is None else row_names.to_numpy())


def _column_of_names(frame: pl.DataFrame) -> str | None:
    """The only column of text, if no two rows have the same."""
    import polars as pl  # noqa: PLC0415 -- takes long to import

    text = [name for name, kind in frame.schema.items() if kind == pl.String]
    if len(text) != 1 or frame.width < 2 or frame.height < 2 or frame[text[0]].n_unique() < frame.height:
        return None
    return text[0]


def _short_list(names: Sequence[str]) -> str:
    return ", ".join(names if len(names) <= LISTED else [*names[: LISTED - 2], "…", names[-1]])


def _frame(path: Path, rows: int | None) -> tuple[pl.DataFrame, tuple[str, ...], pl.Series | None]:
    """A table, what a person should know about its first line and first column, and the names of its rows."""
    table = read_table(path, rows)
    columns, notes = table.frame.columns, []
    if not table.named:
        called = f"it is called {columns[0]}" if len(columns) == 1 else f"they are {columns[0]} to {columns[-1]}"
        notes.append(f"{path} names no columns: {called}")
    if table.dropped is not None:
        column = f"column {table.dropped!r}" if table.dropped else "the first column"
        notes.append(f"{path}: {column} is left out, because it only names or numbers the rows")
    return table.frame, tuple(notes), table.row_names


def _latents(path: Path, frame: pl.DataFrame) -> np.ndarray:
    """Columns as numbers; refuses text and missing values by the name of the column."""
    import polars as pl  # noqa: PLC0415 -- takes long to import

    text = [name for name, kind in frame.schema.items() if not (kind.is_numeric() or kind == pl.Boolean)]
    if text:
        noun = "column" if len(text) == 1 else "columns"
        raise RequestError(
            f"{path}: {noun} {', '.join(map(repr, text))} cannot be latents, which are numbers: "
            f"name factors, as in --factors {','.join(text)}, or latents with --codes"
        )
    array = np.column_stack([column.cast(float).to_numpy() for column in frame.get_columns()])
    for place in np.flatnonzero(~np.isfinite(array).all(axis=0))[:1]:
        rows = np.flatnonzero(~np.isfinite(array[:, place]))
        raise RequestError(
            f"{path}: column {frame.columns[place]!r} has {counted(len(rows), 'value')} missing or not finite, the "
            f"first in row {rows[0]} (the first row is 0): codes need every number, so leave such rows out, also "
            "in the factors"
        )
    return array


# ---------------------------------------------------------------- arrays


def _codes_of_npy(path: Path, factor_names: Sequence[str]) -> _Codes:
    if factor_names:
        names = ",".join(factor_names)
        raise RequestError(f"{path} holds one array, and no factors named {names}: --factors FILE names another file")
    return _Codes(_with_columns(read_npy(path)), str(path))


def _codes_of_npz(path: Path, code_names: Sequence[str], factor_names: Sequence[str], has_factors: bool) -> _Codes:
    shapes = npz_shapes(path)
    if set(shapes) >= SPARSE and not code_names:
        return _sparse(path)
    code_array = _code_array(path, shapes, code_names)
    factor_arrays = _matching(path, "array", factor_names, shapes)
    if code_array in factor_arrays:
        raise RequestError(f"{path}: array {code_array!r} is named as codes and as factors")
    arrays = read_npz(path, [code_array, *(name for name in OF_ROWS if name in shapes)])
    factors = None
    if has_factors and (factor_arrays or FACTORS in shapes):
        factors = _factors_of_npz(path, shapes, factor_arrays or [FACTORS])
    array = _with_columns(arrays.pop(code_array))
    return _Codes(array, f"{path}: array {code_array!r}", factors, of_rows=arrays)


def _sparse(path: Path) -> _Codes:
    import scipy  # noqa: PLC0415

    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                check_size(f"{path}: {member.filename}", member.file_size, member.compress_size)
        array = scipy.sparse.load_npz(path)
        ends = PER_END * sum(array.shape)  # a small file can name trillions of columns
        check_size(f"{path}: a sparse array of {array.shape[0]:,} rows and {array.shape[1]:,} columns", ends, ends)
        return _Codes(array, str(path))
    except RequestError:
        raise
    except Exception as error:  # SciPy fails in too many ways to name on what another program wrote
        raise RequestError(f"{path} cannot be read as a sparse array ({brief(error)})") from error


def _code_array(path: Path, shapes: Mapping[str, tuple[int, ...] | None], names: Sequence[str]) -> str:
    """The name of the array of codes in an npz file: as a person named it, or `codes`, or the only array."""
    if names:
        matching = _matching(path, "array", names, shapes)
        if len(matching) > 1:
            raise RequestError(f"{path}: --codes names several arrays, {listed(matching)}: name one, of shape (N, D)")
        return matching[0]
    usual = {CODES, *shapes} - {FACTORS, *OF_ROWS, *OF_FACTORS} if len(shapes) == 1 else {CODES}
    if present := usual & set(shapes):
        return present.pop()
    first, *others = [name for name in shapes if name not in {*OF_ROWS, *OF_FACTORS}] or ("z", "y")
    words = (
        f"codes and factors, as in --codes {first} --factors {others[0]}" if others else f"codes, as in --codes {first}"
    )
    raise RequestError(
        f"{path} has no array 'codes': it has {_with_shapes(shapes) or 'no arrays'}. Say which are {words}"
    )


def _with_shapes(shapes: Mapping[str, tuple[int, ...] | None]) -> str:
    """The arrays of an npz file with their shapes, for messages."""
    return ", ".join(
        f"{name} {shape}" if shape is not None else f"{name}, unreadable" for name, shape in shapes.items()
    )


def _factors_of_npz(path: Path, shapes: Mapping[str, tuple[int, ...] | None], factor_names: Sequence[str]) -> _Factors:
    arrays = read_npz(path, factor_names)
    if len(arrays) == 1:
        [(name, array)] = arrays.items()
        array, where = _with_columns(array), f"{path}: array {name!r}"
        of_factors = read_npz(path, [other for other in OF_FACTORS if other in shapes])
        described = {other: values.astype(str).tolist() for other, values in of_factors.items()}
        if array.shape[1:] == (1,) and name != FACTORS and "names" not in described:
            described["names"] = [name]
        return _Factors(array, where, **described)
    import polars as pl  # noqa: PLC0415

    columns = {name: _with_columns(array) for name, array in arrays.items()}
    rows = len(next(iter(columns.values())))
    for name, column in columns.items():
        if column.shape != (rows, 1):
            raise RequestError(
                f"{path}: array {name!r} has shape {arrays[name].shape}: several arrays of factors need one number "
                f"for each row, as ({rows},)"
            )
    return _Factors(pl.DataFrame({name: column[:, 0] for name, column in columns.items()}), str(path))


def _read_factors(path: Path, names: Sequence[str], rows: int) -> _Factors:
    """The factors in a file of their own. `rows` is how many codes there are."""
    _check_readable(path)
    if path.suffix.lower() == ".npz":
        shapes = npz_shapes(path)
        chosen = _matching(path, "array", names, shapes)
        if not chosen and FACTORS not in shapes and len(shapes) != 1:
            raise RequestError(
                f"{path} has no array 'factors': it has {_with_shapes(shapes) or 'no arrays'}. Say which are factors, "
                f"as in --factors {path}:{next(iter(shapes), 'y')}"
            )
        return _factors_of_npz(path, shapes, chosen or ([FACTORS] if FACTORS in shapes else list(shapes)))
    if path.suffix.lower() == ".npy":
        if names:
            raise RequestError(f"{path} holds one array, and none named {','.join(names)}")
        return _Factors(_with_columns(read_npy(path)), str(path))
    frame, notes, _ = _frame(path, rows)
    columns = _matching(path, "column", names, frame.columns) or frame.columns
    return _Factors(frame.select(columns), str(path), notes=notes)


def _with_columns(array: np.ndarray) -> np.ndarray:
    """An array of one dimension as one column."""
    return array[:, None] if array.ndim == 1 else array


# ---------------------------------------------------------------- both together


def _prepared(path: Path, read: _Codes, factors: _Factors | None, kinds: Mapping[str, str] | str | None) -> Codes:
    """Checks codes first and then factors, so that an error can name the file that it is about."""
    try:
        codes = as_codes(read.array, **read.of_rows)
    except RequestError as error:
        raise RequestError(f"{path}: {error}") from error
    if factors is None:
        if kinds is not None:
            raise RequestError(f"--kinds describes factors, and {path} has none: --factors says where they are")
        return codes
    rows, factor_rows = read.array.shape[0], factors.array.shape[0] if factors.array.shape else 0
    if factor_rows != rows:
        raise RequestError(
            f"{read.where} has {counted(rows, 'row')} and {factors.where} {factor_rows:,}: both need the same rows, in "
            "the same order"
        )
    try:
        return as_codes(read.array, factors.array, names=factors.names, kinds=kinds or factors.kinds, **read.of_rows)
    except RequestError as error:
        raise RequestError(f"{factors.where}: {error}") from error
