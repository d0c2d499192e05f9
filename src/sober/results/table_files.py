"""The files of the table: parts as JSON, which a machine without Polars can write, and the compacted table as parquet.

Each carries a checksum of itself. In a parquet file the checksum stands before the footer. Readers of parquet skip it:
they find the footer from the end of the file, and data by their distance from its start.
"""

from __future__ import annotations

import collections
import contextlib
import errno
import hashlib
import io
import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sober.errors import FullDiskError, RequestError, brief, listed
from sober.files import parse_json, reading, replacing
from sober.results.table_rows import (
    HYPER,
    KEY,
    ORDER,
    RUN_COLUMNS,
    SCORE_COLUMNS,
    Key,
    Row,
    columns,
    hyper_types,
    joined,
)

if TYPE_CHECKING:
    import polars

RUN_TYPES, SCORE_TYPES = RUN_COLUMNS, {"run": "String", **SCORE_COLUMNS}
SEAL = hashlib.sha256().digest_size
Read = tuple["polars.DataFrame", dict[str, str]]  # rows, and the types of its hyperparameters


class DamagedFileError(Exception):
    """A file of the table is damaged. The message says how, and follows the file's path in a sentence."""


# Parts.


def part_bytes(rows: Sequence[Row], run_rows: Sequence[Row]) -> bytes:
    """A part with scores and their runs: a line with the checksum of the rest, in hexadecimal digits, then JSON."""
    counts = collections.Counter(tuple(row[name] for name in KEY) for row in rows)
    if len(counts) < len(rows):
        run, metric, preset = counts.most_common(1)[0][0][:3]
        raise RequestError(f"run {run} has two scores {metric!r} with preset {preset!r} in one write")
    for row in run_rows:
        if large := [name for name, value in row.items() if isinstance(value, int) and abs(value) >= 2**63]:
            raise RequestError(f"run {row['run']} cannot be stored: {listed(large)} is too large")
    try:
        ordered = sorted(rows, key=lambda row: [row[name] for name in KEY])
        data = json.dumps({"runs": run_rows, "scores": ordered}, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, UnicodeError, ValueError) as error:
        raise RequestError(f"the scores cannot be stored ({brief(error)})") from error
    return hashlib.sha256(data).hexdigest().encode() + b"\n" + data


def read_part(path: Path) -> dict[str, list[Row]]:
    """The rows of scores and runs in a part."""
    with reading(path):
        digest, _, data = path.read_bytes().partition(b"\n")
    if hashlib.sha256(data).hexdigest().encode() != digest:
        raise DamagedFileError("is damaged, or no file of this store (its checksum does not match)")
    try:
        content = parse_json(data)
        rows = {name: list(content[name]) for name in ("runs", "scores")}
        for row in rows["scores"]:
            _check_types(row, SCORE_TYPES, (*KEY, "models"))
        for row in rows["runs"]:
            _check_types(row, RUN_TYPES, ("run",))
        return rows
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedFileError(f"cannot be used ({brief(error)})") from error


def _check_types(row: Any, types: Mapping[str, str], needed: Iterable[str]) -> None:
    """Raises an error if a row of a part lacks a needed value, or if a column cannot hold its value."""
    if not isinstance(row, dict):
        raise TypeError(f"a row is {type(row).__name__}")
    for name in needed:
        if row.get(name) is None:
            raise ValueError(f"a row has no {name}")
    for name, value in row.items():
        kind = types.get(name)
        if name.startswith("hyper_") and type(value) not in HYPER:
            raise ValueError(f"{name} is {type(value).__name__}, which no hyperparameter is")
        if value is not None and kind is not None and not _holds(kind, value):
            raise ValueError(f"{name} is {type(value).__name__}, and the column holds {kind}")


def _holds(kind: str, value: Any) -> bool:
    """Whether a column of a type can hold a value from JSON."""
    if kind == "List(String)":
        return isinstance(value, list) and all(isinstance(text, str) for text in value)
    if kind == "Int64":
        return type(value) is int and -(2**63) <= value < 2**63
    if kind == "Float64":
        return type(value) in (int, float) and abs(value) <= sys.float_info.max
    return isinstance(value, bool if kind == "Boolean" else str)


def keys_of(path: Path) -> dict[Key, int]:
    """The keys of a part's scores, each with how many models were compared."""
    return {tuple(row[name] for name in KEY): row["models"] for row in read_part(path)["scores"]}


# Frames.


def merged(frames: Iterable[polars.DataFrame], types: Mapping[str, str]) -> polars.DataFrame:
    """All rows in the table's order, with each key once. The order of the frames makes no difference.

    Among rows with one key, keeps the row that compared the most models; then a number before a null; then the row that
    took the fewest seconds.
    """
    pl, several = import_polars(), list(frames)
    table = pl.concat([pl.DataFrame(schema=schema(types)), *several], how="diagonal")
    if len(several) < 2:  # the rows of a single file are in order already
        return table
    if table.select(KEY).is_duplicated().any():
        others = [name for name in SCORE_COLUMNS if name not in (*KEY, "value", "seconds", "models", "flags")]
        worse = [-pl.col("models"), pl.col("value").is_null(), "seconds", *others, pl.col("flags").list.join(" ")]
        table = table.sort([*worse, "value"], nulls_last=True)
        table = table.unique(KEY, keep="first", maintain_order=True)
    return table.sort(ORDER, maintain_order=True)  # there are no ties; a stable sort is the faster one


def frame_of(rows: Sequence[Row], run_rows: Sequence[Row], hyper: Mapping[str, str]) -> polars.DataFrame:
    """Scores joined with their runs, in the table's order."""
    pl = import_polars()
    scores = pl.DataFrame(rows, schema({"run": "String", **SCORE_COLUMNS}))
    runs = pl.DataFrame(run_rows, schema({**RUN_COLUMNS, **hyper}))
    return scores.join(runs, on="run").select(*columns(hyper)).sort(ORDER)


def schema(types: Mapping[str, str]) -> dict[str, Any]:
    pl = import_polars()
    return {name: pl.List(pl.String) if kind == "List(String)" else getattr(pl, kind) for name, kind in types.items()}


def import_polars() -> Any:
    try:
        import polars  # noqa: PLC0415
    except ImportError as error:
        raise RequestError("reading the table of results needs polars: pip install polars") from error
    return polars


# Parquet.


def sealed(frame: polars.DataFrame) -> bytes:
    """A parquet file with its checksum before the footer."""
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    data = buffer.getvalue()
    footer = _footer(data)
    return b"".join([data[:footer], hashlib.sha256(data).digest(), data[footer:]])


def check_seal(data: bytes) -> None:
    footer = _footer(data)
    if footer < SEAL:
        raise DamagedFileError("is damaged, or no file of this store")
    view = memoryview(data)
    digest = hashlib.sha256(view[: footer - SEAL])
    digest.update(view[footer:])
    if digest.digest() != data[footer - SEAL : footer]:
        raise DamagedFileError("is damaged, or no file of this store (its checksum does not match)")


def _footer(data: bytes) -> int:
    return len(data) - 8 - int.from_bytes(data[-8:-4], "little")


def read(path: Path, wanted: set[str] | None, hyper: Mapping[str, str]) -> Read:
    """A file's rows in the wanted columns, and its types of hyperparameters added to `hyper`."""
    pl = import_polars()
    try:
        frame, types = (_read_table if path.suffix == ".parquet" else _read_part)(path, wanted)
    except RequestError:
        raise  # a fault of reading, which says nothing about the file
    except (KeyError, TypeError, ValueError, OverflowError, pl.exceptions.PolarsError) as error:
        raise DamagedFileError(f"cannot be used ({brief(error)})") from error
    try:
        return frame, joined(hyper, types)
    except RequestError as error:
        raise RequestError(f"{path}: {error}") from error


def _read_part(path: Path, wanted: set[str] | None) -> Read:
    rows = read_part(path)
    types = hyper_types(rows["runs"])
    frame = frame_of(rows["scores"], rows["runs"], types)
    return frame.select(name for name in frame.columns if wanted is None or name in wanted), types


def _read_table(path: Path, wanted: set[str] | None) -> Read:
    pl = import_polars()
    with reading(path):
        data = path.read_bytes()
    check_seal(data)
    column_types = {name: str(kind) for name, kind in pl.read_parquet_schema(io.BytesIO(data)).items()}
    types = {name: kind for name, kind in column_types.items() if name.startswith("hyper_")}
    if column_types != columns(types) or not set(types.values()) <= set(HYPER.values()):
        odd = {name for name, _ in column_types.items() ^ columns(types).items()}
        raise DamagedFileError(f"does not have the columns of a store ({listed(odd)})")
    selected = [name for name in column_types if wanted is None or name in wanted]
    return pl.read_parquet(io.BytesIO(data), columns=selected), types


# Writing.


def put(path: Path, data: bytes) -> None:
    """Writes a file so that, after a kill or a loss of power, it is whole or absent."""
    with explained(path, len(data)):
        with replacing(path) as temporary:
            temporary.write_bytes(data)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


@contextlib.contextmanager
def explained(path: Path, size: int) -> Iterator[None]:
    """Turns a system error about writing to `path` into an error that says what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            free = shutil.disk_usage(path.parent).free
            raise FullDiskError(
                f"no room for {path}: {size:,} bytes needed, {free:,} free; "
                "what was written before is safe: make room, and the same command goes on"
            ) from error
        raise RequestError(f"cannot write {path} ({brief(error)})") from error
