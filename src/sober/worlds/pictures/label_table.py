"""A table of labels with a row for each picture: finds the row of each picture, and the kind of factor in each column.

The rule for a column, unless `kinds` says otherwise:

text, true and false                   categorical, values sorted
at most 100 different whole numbers    ordinal, values sorted (1.0 is whole: tables with gaps are often written so)
more different whole numbers           continuous
other numbers                          continuous
one value only                         left out
text or whole numbers, all different   left out: these are names and numbers of pictures
"""

from __future__ import annotations

import math
import re
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
from jaxtyping import Float, Int

from sober.errors import RequestError, brief, choices, counted, listed
from sober.types import Factor, Kind
from sober.worlds.pictures.picture_files import ENDINGS, printable

Value = str | float | None  # None is missing
Columns = dict[str, list[Value]]

MISSING = frozenset({"", "na", "n/a", "nan", "null"})  # cells of a CSV file, in small letters
MOST_CLASSES = 100  # distinct whole numbers that still are classes
KINDS = (*get_args(Kind), "ignore")


class PictureLabels(NamedTuple):
    """Factors, and a row of values for each picture: classes from 0, NaN where a value is not known."""

    factors: tuple[Factor, ...]
    values: Float[np.ndarray, "N K"]


NO_LABELS = PictureLabels((), np.empty((0, 0)))


def parse_kinds(text: str) -> dict[str, str]:
    """`height:continuous;species:categorical` to `{"height": "continuous", "species": "categorical"}`."""
    kinds = {}
    for assignment in filter(None, text.split(";")):
        name, colon, kind = assignment.rpartition(":")
        if not colon or not name:
            raise RequestError(f"kinds={text} is not of the form COLUMN:KIND;COLUMN:KIND")
        kinds[name] = kind
    return kinds


def read_labels(
    path: Path, pictures: Sequence[str], *, file: str | None = None, kinds: Mapping[str, str] | None = None
) -> PictureLabels:
    """The factors of a table for `pictures`, which are the paths of files below their folder.

    `file` is the column that names the pictures; the default is the column that names the most pictures. One warning
    tells which columns are left out and how many pictures have no row.
    """
    table = _read(path)
    column, row_of = _matched(path, table, pictures, file)  # (N,)
    kinds = kinds or {}
    if unknown := kinds.keys() - table.keys() or kinds.keys() & {column}:
        advice = choices(min(unknown), [name for name in table if name != column])
        raise RequestError(f"{path} has no column {listed(unknown)} to be a factor: {advice}")
    columns: Columns = {}
    for name, cells in table.items():
        if name != column and kinds.get(name) != "ignore":
            # Cells of a CSV file have been text until here: a picture may be named 007.
            values = cells if path.suffix.lower() == ".parquet" else _typed(cells)
            columns[name] = [None if row < 0 else values[row] for row in row_of]
            if any(value in (math.inf, -math.inf) for value in columns[name]):
                raise RequestError(
                    f"{path} has an infinite value in column {name!r}: leave it empty if it is not known"
                )
    labels, notes = factors_of(columns, kinds, len(pictures))
    used = len(set(row_of[row_of >= 0].tolist()))
    if without := int(np.sum(row_of < 0)):
        notes.append(f"{without:,} of {counted(len(pictures), 'picture')} without a row")
    if spare := len(table[column]) - used:
        notes.append(f"{counted(spare, 'row')} without a picture")
    if notes:
        warnings.warn(f"{path.name}, by its column {column!r}: {'; '.join(notes)}", stacklevel=2)
    return labels


def factors_of(columns: Columns, kinds: Mapping[str, str], pictures: int) -> tuple[PictureLabels, list[str]]:
    """Columns of values as factors, and notes on the columns that are left out."""
    for name, kind in kinds.items():
        if kind not in KINDS:
            raise RequestError(f"column {name!r} cannot be {kind!r}: choose one of {listed(KINDS)}")
    factors, label_columns, left_out = [], [], []
    for name, values in columns.items():
        distinct = {value for value in values if value is not None}
        kind = kinds.get(name) or _kind(distinct, sum(value is not None for value in values))
        if kind in KINDS[:-1]:
            factor, column = _factor(name, values, distinct, kind)  # type: ignore[arg-type]
            factors.append(factor)
            label_columns.append(column)
        elif kind != "ignore":
            left_out.append(f"{name} ({kind})")
    notes = [f"left out {', '.join(left_out)}"] if left_out else []
    return PictureLabels(
        tuple(factors), np.stack(label_columns, axis=1) if label_columns else np.empty((pictures, 0))
    ), notes


def _kind(distinct: set[Any], rows: int) -> str:
    """The kind of a column with these distinct values in `rows` rows, or the reason why it is no factor."""
    if len(distinct) < 2:
        return "one value" if distinct else "no values"
    numbers = all(isinstance(value, float) for value in distinct)
    integers = numbers and all(value.is_integer() for value in distinct)
    if len(distinct) == rows and (integers or not numbers):
        return "another value for each picture"
    if not numbers:
        return "categorical"
    return "ordinal" if integers and len(distinct) <= MOST_CLASSES else "continuous"


def _factor(name: str, values: list[Value], distinct: set[Any], kind: Kind) -> tuple[Factor, Float[np.ndarray, " N"]]:
    numbers = all(isinstance(value, float) for value in distinct)
    if kind == "continuous":
        if not numbers or not distinct:
            odd = next((value for value in values if isinstance(value, str)), "nothing")
            raise RequestError(f"column {name!r} cannot be continuous: it holds {odd!r}")
        return Factor(name, 0, kind), np.array([math.nan if value is None else value for value in values], float)
    if not distinct:
        raise RequestError(f"column {name!r} cannot be {kind}: it holds nothing")
    # A column of numbers and text is text; whole numbers in it are written without a decimal point.
    ordered = sorted(distinct) if numbers else sorted({_text(value) for value in distinct})
    class_of = {value: float(number) for number, value in enumerate(ordered)}
    column = [math.nan if v is None else class_of[v if numbers else _text(v)] for v in values]
    class_values = tuple(ordered) if numbers and kind != "categorical" else tuple(_text(value) for value in ordered)
    return Factor(name, len(ordered), kind, class_values), np.array(column)


def _text(value: str | float) -> str:
    if isinstance(value, str):
        return value
    return str(int(value)) if value.is_integer() else repr(value)


def _read(path: Path) -> Columns:
    if not path.is_file():
        raise RequestError(f"there is no table of labels at {path}")
    table = _read_parquet(path) if path.suffix.lower() == ".parquet" else _read_csv(path)
    if not table or not len(next(iter(table.values()))):
        raise RequestError(f"{path} has no rows: expected a line of column names, then a row for each picture")
    return table


def _polars(path: Path) -> Any:
    try:
        import polars  # noqa: PLC0415
    except ImportError as error:
        raise RequestError(f"reading {path.name} needs polars: pip install polars") from error
    return polars


def _read_csv(path: Path) -> Columns:
    polars = _polars(path)
    try:
        text = path.read_text(encoding="utf-8-sig").replace("\r\n", "\n").replace("\r", "\n").strip("\n")
        if not text:
            return {}
        # The separator is a comma, semicolon or tab: the most frequent one in the line of names.
        separator = max(",;\t", key=text.partition("\n")[0].count)
        rows = _without_quoted(text, separator)
        _check_widths(path, rows, separator)
        # Cells stay text: a picture may be named 007. Names are read as a row, since polars would rename duplicates.
        frame = polars.read_csv(text.encode(), separator=separator, has_header=False, infer_schema_length=0)
        frame = frame.filter(polars.Series([bool(row) for row in rows]))  # a blank line is no row
    except (OSError, UnicodeDecodeError, polars.exceptions.PolarsError) as error:
        raise RequestError(f"{path} cannot be read as CSV in UTF-8 ({brief(error)})") from error
    frame = frame.with_columns(polars.all().str.strip_chars())
    names = [name or f"column {number}" for number, name in enumerate(frame.row(0), start=1)]
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise RequestError(f"{path} has several columns named {listed(twice)}: rename them")
    return {
        name: [None if cell is None or cell.lower() in MISSING else cell for cell in column[1:]]
        for name, column in zip(names, frame, strict=True)
    }


def _without_quoted(text: str, separator: str) -> list[str]:
    """The rows of a CSV file with quoted cells emptied, since these may hold separators and line ends."""
    quoted = rf'(^|{separator})"[^"]*(?:""[^"]*)*"'
    return re.sub(quoted, r"\1", text, flags=re.MULTILINE).split("\n")


def _check_widths(path: Path, rows: list[str], separator: str) -> None:
    """Refuses a row with more or fewer cells than there are names; polars would fill up a short one."""
    columns = rows[0].count(separator) + 1
    for number, row in enumerate(filter(None, rows[1:]), start=1):
        cells = row.count(separator) + 1
        if cells != columns:
            raise RequestError(f"{path}, row {number}: {counted(cells, 'value')} for {counted(columns, 'column')}")


def _typed(cells: list[Value]) -> list[Value]:
    """Cells of text as numbers, if all cells that are not missing are numbers."""
    try:
        return [None if cell is None else _number(str(cell)) for cell in cells]
    except ValueError:
        return cells


def _number(text: str) -> float:
    if "_" in text:  # Python would read it as a separator of digits
        raise ValueError(text)
    return float(text)


def _read_parquet(path: Path) -> Columns:
    polars = _polars(path)
    try:
        schema = polars.read_parquet_schema(path)
        usable = [name for name, kind in schema.items() if kind.is_numeric() or kind in _texts(polars)]
        frame = polars.read_parquet(path, columns=usable, glob=False)
    except (OSError, polars.exceptions.PolarsError) as error:
        raise RequestError(f"{path} cannot be read as parquet ({brief(error)})") from error
    if unusable := [name for name in schema if name not in usable]:
        warnings.warn(f"{path.name}: left out {listed(unusable)} (neither text nor numbers)", stacklevel=2)
    columns: Columns = {}
    for name in usable:
        column = frame[name]
        if column.dtype.is_numeric():
            columns[name] = column.cast(polars.Float64).fill_nan(None).to_list()
        else:
            columns[name] = column.cast(polars.String).to_list()
    return columns


def _texts(polars: Any) -> tuple[Any, ...]:
    return polars.String, polars.Boolean, polars.Categorical, polars.Enum


def _matched(
    path: Path, table: Columns, pictures: Sequence[str], file: str | None
) -> tuple[str, Int[np.ndarray, " N"]]:
    """The column that names pictures, and the row of each picture; -1 for a picture without a row."""
    if file is not None and file not in table:
        raise RequestError(f"{path} has no column {file!r}: {choices(file, table)}")
    candidates = table if file is None else [file]
    distinct = {name: {_text(value) for value in table[name] if value is not None} for name in candidates}
    best, most = None, (0, 0)
    for form in FORMS:
        pictures_of = Counter(form(picture) for picture in pictures)
        for name in candidates:
            values_of = Counter(form(value) for value in distinct[name])
            shared = pictures_of.keys() & values_of.keys()
            # Names of exactly one picture count first, then names of several.
            score = (sum(pictures_of[key] == values_of[key] == 1 for key in shared), len(shared))
            if score > most:
                best, most = (name, form), score
    if best is None:
        where = f"column {file!r}" if file else "no column"
        raise RequestError(
            f"{path}: {where} names {'none' if file else 'any'} of the pictures, such as {printable(pictures[0])}: "
            "a picture is named by its path in the folder or its file name, with or without ending"
        )
    return best[0], _rows(path, table[best[0]], pictures, *best)


def _rows(
    path: Path, cells: list[Value], pictures: Sequence[str], column: str, form: Callable[[str], str]
) -> Int[np.ndarray, " N"]:
    row_of: dict[str, int] = {}
    for row, cell in enumerate(cells):
        key = None if cell is None else form(_text(cell))
        if key in row_of:
            raise RequestError(
                f"{path} has two rows for {printable(key)} in column {column!r}, "
                f"rows {row_of[key] + 1} and {row + 1}: keep one"
            )
        if key is not None:
            row_of[key] = row
    keys = [form(picture) for picture in pictures]
    shared = [key for key, count in Counter(keys).items() if count > 1 and key in row_of]
    if shared:
        first, second = [picture for picture in pictures if form(picture) == shared[0]][:2]
        raise RequestError(
            f"{path} has one row for {printable(shared[0])}, but there are {printable(first)} and "
            f"{printable(second)}: write their paths in column {column!r}"
        )
    return np.array([row_of.get(key, -1) for key in keys])


def _path(name: str) -> str:
    return name.replace("\\", "/").removeprefix("./")


def _without_ending(name: str) -> str:
    head, dot, ending = name.rpartition(".")
    return head if dot and f".{ending.lower()}" in ENDINGS else name


# How a table may name a picture, the strictest form first: it wins a tie.
FORMS: tuple[Callable[[str], str], ...] = (
    _path,
    lambda name: _without_ending(_path(name)),
    lambda name: _path(name).rpartition("/")[2],
    lambda name: _without_ending(_path(name).rpartition("/")[2]),
)
