"""Tables that people have: CSV, TSV and parquet files, as data frames. No value is ever unpickled.

The first line of a text file names its columns, unless it looks like the other lines. Some writers number the columns
from 0: such numbers are names, too. An empty cell, NA, NaN and null are missing values. The columns of a file without
names are `column_0`, `column_1`, and so on.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sober.errors import RequestError, brief
from sober.files.memory import check_size

if TYPE_CHECKING:
    import polars as pl

TEXT_ENDINGS = (".csv", ".tsv", ".txt")
TABLE_ENDINGS = (*TEXT_ENDINGS, *(f"{ending}.gz" for ending in TEXT_ENDINGS), ".parquet")
MISSING = ["", "NA", "N/A", "NaN", "nan", "-nan", "null", "NULL"]  # how writers of text write a missing value
LARGEST_TEXT = 2**30  # bytes that a compressed file may unpack to
PANDAS_NUMBERS, PANDAS_INDEX = "Unnamed: 0", "__index_level_0__"  # how pandas names a frame's index as a column
SEPARATORS = ("\t", ";", "|", ",")


class TableFile(NamedTuple):
    """A table as it was read from a file."""

    frame: pl.DataFrame
    named: bool  # whether the file names its columns
    dropped: str | None  # the column that was left out because it only names or numbers the rows
    row_names: pl.Series | None = None  # that column


def is_table(path: Path) -> bool:
    """Whether a file's name ends as the names of tables do."""
    return path.name.lower().endswith(TABLE_ENDINGS)


def read_table(path: Path, rows: int | None = None) -> TableFile:
    """Reads a table. `rows` is how many it should have, which helps to tell names of columns from numbers."""
    import polars as pl  # noqa: PLC0415 -- takes long to import, and training needs no tables

    try:
        if path.name.lower().endswith(".parquet"):
            lazy = pl.scan_parquet(path, glob=False)
            unpacked = 8 * lazy.select(pl.len()).collect().item() * len(lazy.collect_schema())
            check_size(str(path), unpacked, unpacked)  # equal rows take almost no room in a file
            frame, named = pl.read_parquet(path, glob=False), True
        else:
            frame, named = _read_text(path, rows)
    except UnicodeDecodeError as error:
        raise RequestError(f"{path} is no text in UTF-8: save it as UTF-8") from error
    except (OSError, EOFError, zlib.error, csv.Error, pl.exceptions.PolarsError) as error:
        raise RequestError(f"{path} cannot be read as a table ({brief(error)})") from error
    if not frame.width or not frame.height:
        raise RequestError(f"{path} is a table without {'rows' if frame.width else 'columns'}")
    dropped = _row_names(frame)
    if dropped is None:
        return TableFile(frame, named, None)
    return TableFile(frame.drop(dropped), named, dropped, frame[dropped])


def _row_names(frame: pl.DataFrame) -> str | None:
    """The column that only names or numbers the rows, if there is one: without a name, or with the name of an index."""
    first = frame.columns[0]
    if first == "" or (first == PANDAS_NUMBERS and _counts_up(frame[first])):
        return first
    return PANDAS_INDEX if PANDAS_INDEX in frame.columns else None


def _read_text(path: Path, rows: int | None) -> tuple[pl.DataFrame, bool]:
    """The frame of a text file, and whether its first line names the columns."""
    import polars as pl  # noqa: PLC0415

    content = path.read_bytes()
    if path.name.lower().endswith(".gz"):
        with gzip.open(io.BytesIO(content)) as file:
            unpacked = file.read(LARGEST_TEXT + 1)
        if len(unpacked) > LARGEST_TEXT:
            raise RequestError(f"{path} unpacks to more than {LARGEST_TEXT:,} bytes: save it as parquet")
        content = unpacked
    lines = content.decode("utf-8-sig").lstrip("\r\n").removeprefix("# ")  # numpy.savetxt puts # before names
    first_line = lines.partition("\n")[0].rstrip("\r")
    if not first_line.strip():
        raise RequestError(f"{path} is empty")
    separator = _separator(path, first_line)
    if separator == " ":
        lines = re.sub(r" +", " ", re.sub(r"(?m)^ +| +$", "", lines))
        first_line = lines.partition("\n")[0]
    names = [name.strip() for name in next(csv.reader([first_line], delimiter=separator))]
    frame = pl.read_csv(
        io.BytesIO(lines.encode()),
        has_header=False,
        skip_rows=1,
        separator=separator,
        null_values=MISSING,
        infer_schema_length=None,
        raise_if_empty=False,
    )
    if frame.width not in (0, len(names)):
        raise RequestError(f"{path} has {len(names)} cells in its first line and {frame.width} in others")
    named = _names_columns(names, frame, rows)
    if not named:
        frame = pl.read_csv(
            io.BytesIO(lines.encode()),
            has_header=False,
            separator=separator,
            null_values=MISSING,
            infer_schema_length=None,
        )
        names = [f"column_{place}" for place in range(len(names))]
    elif not frame.width:
        frame = pl.DataFrame(schema=[f"column_{place}" for place in range(len(names))])
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise RequestError(f"{path} has two columns named {repeated!r}: rename one")
    columns = zip(names, frame.get_columns(), strict=True)
    return pl.DataFrame({name: _as_numbers(column, separator == ";") for name, column in columns}), named


def _separator(path: Path, line: str) -> str:
    """What stands between the cells of a line: the tab of a TSV file, or the first of `SEPARATORS` in the line."""
    if path.name.lower().removesuffix(".gz").endswith(".tsv"):
        return "\t"
    unquoted = re.sub(r'"[^"]*"', "", line)
    for separator in SEPARATORS:
        if separator in unquoted:
            return separator
    return " " if " " in unquoted.strip() and not path.name.lower().removesuffix(".gz").endswith(".csv") else ","


def _names_columns(cells: list[str], others: pl.DataFrame, rows: int | None) -> bool:
    """Whether the cells of the first line name the columns; `others` are the other lines.

    A name is text above numbers, or text that is no value of its column. Numbers are names if they count up from 0.
    """
    columns: Sequence[pl.Series | None] = others.get_columns() or [None] * len(cells)
    pairs = list(zip(cells, columns, strict=True))
    text = [(cell, column) for cell, column in pairs if cell not in MISSING and not _is_number(cell)]
    if any(column is None or column.dtype.is_numeric() for _, column in text):
        return True
    if any(_is_number(cell) and not cell.isdigit() for cell in cells if cell not in MISSING):
        return False
    if text:
        return not any(column is not None and cell in column.cast(str).str.strip_chars() for cell, column in text)
    numbers = cells[1:] if cells[0] == "" else cells
    if numbers != [str(place) for place in range(len(numbers))]:
        return False
    return rows is None or others.height != rows - 1


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _as_numbers(column: pl.Series, decimal_comma: bool) -> pl.Series:
    """A column of text as numbers, if it has nothing else. Between semicolons, numbers may have a decimal comma."""
    import polars as pl  # noqa: PLC0415

    if column.dtype != pl.String:
        return column
    text = column.str.strip_chars()
    text = text.set(text.is_in(MISSING), None)
    numbers = (text.str.replace(",", ".", literal=True) if decimal_comma else text).cast(pl.Float64, strict=False)
    return numbers if numbers.null_count() == text.null_count() else text


def _counts_up(column: pl.Series) -> bool:
    """Whether a column holds the numbers of the rows, from 0 or from 1."""
    if not column.dtype.is_integer():
        return False
    return column.null_count() == 0 and column.to_list() == list(range(column[0], column[0] + len(column)))
