"""The files of the table: parts as JSON, which a machine that only trains can write, and the whole as parquet.

Each carries a checksum of itself. In a parquet file it stands before the footer, in a gap that readers of parquet never
look into: the format finds the footer from the end of the file and data by their distance from its start.
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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sober.errors import FullDiskError, RequestError, brief, listed
from sober.files import replacing
from sober.results.rows import HYPER, KEY, OF_RUN, OF_SCORE, ORDER, Key, Row, columns, hyper_types, joined

if TYPE_CHECKING:
    import polars

SEAL = hashlib.sha256().digest_size
Read = tuple["polars.DataFrame", dict[str, str]]  # rows, and the types of all hyperparameters met so far


class UnsoundError(Exception):
    """Why a file is not to be trusted."""


# Parts.


def part_bytes(rows: Sequence[Row], about: Sequence[Row]) -> bytes:
    """Scores and their runs as a file: the checksum of what follows it, in hexadecimal digits, and JSON."""
    counts = collections.Counter(tuple(row[name] for name in KEY) for row in rows)
    if len(counts) < len(rows):
        run, metric, preset = counts.most_common(1)[0][0][:3]
        raise RequestError(f"run {run} has two scores {metric!r} with preset {preset!r} in one write")
    for row in about:
        if large := [name for name, value in row.items() if isinstance(value, int) and abs(value) >= 2**63]:
            raise RequestError(f"run {row['run']} cannot be stored: {listed(large)} is too large")
    try:
        ordered = sorted(rows, key=lambda row: [row[name] for name in KEY])
        data = json.dumps({"runs": about, "scores": ordered}, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, UnicodeError, ValueError) as error:
        raise RequestError(f"the scores cannot be stored ({brief(error)})") from error
    return hashlib.sha256(data).hexdigest().encode() + b"\n" + data


def opened_part(path: Path) -> dict[str, list[Row]]:
    """What `part_bytes` was given."""
    digest, _, data = _bytes(path).partition(b"\n")
    if hashlib.sha256(data).hexdigest().encode() != digest:
        raise UnsoundError("is damaged, or no file of this store (its checksum does not match)")
    try:
        part = json.loads(data)
        return {name: list(part[name]) for name in ("runs", "scores")}
    except (KeyError, TypeError, ValueError) as error:
        raise UnsoundError(f"cannot be used ({brief(error)})") from error


def keys_of(path: Path) -> dict[Key, int]:
    """The keys of a part's scores, each with how many models were compared."""
    return {tuple(row[name] for name in KEY): row["models"] for row in opened_part(path)["scores"]}


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise RequestError(f"{path} cannot be read ({brief(error)})") from error


# Frames.


def merged(frames: Iterable[polars.DataFrame], types: Mapping[str, str]) -> polars.DataFrame:
    """One frame, in order, each key once, whichever came first.

    Of two a judgement among more models goes before one among fewer, a number before a null, and the quicker score.
    """
    pl, several = import_polars(), list(frames)
    whole = pl.concat([pl.DataFrame(schema=schema(types)), *several], how="diagonal")
    if len(several) < 2:  # one file by itself is in order
        return whole
    if whole.select(KEY).is_duplicated().any():
        rest = [name for name in OF_SCORE if name not in (*KEY, "value", "seconds", "models", "flags")]
        worse = [-pl.col("models"), pl.col("value").is_null(), "seconds", *rest, pl.col("flags").list.join(" ")]
        whole = whole.sort([*worse, "value"], nulls_last=True)
        whole = whole.unique(KEY, keep="first", maintain_order=True)
    return whole.sort(ORDER, maintain_order=True)  # no ties are left, and this is the faster sort


def frame_of(rows: Sequence[Row], about: Sequence[Row], hyper: Mapping[str, str]) -> polars.DataFrame:
    """Scores joined with their runs, in order."""
    pl = import_polars()
    scores = pl.DataFrame(rows, schema({"run": "String", **OF_SCORE}))
    runs = pl.DataFrame(about, schema({**OF_RUN, **hyper}))
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


# The whole.


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
        raise UnsoundError("is damaged, or no file of this store")
    view = memoryview(data)
    digest = hashlib.sha256(view[: footer - SEAL])
    digest.update(view[footer:])
    if digest.digest() != data[footer - SEAL : footer]:
        raise UnsoundError("is damaged, or no file of this store (its checksum does not match)")


def _footer(data: bytes) -> int:
    return len(data) - 8 - int.from_bytes(data[-8:-4], "little")


def read(path: Path, wanted: set[str] | None, hyper: Mapping[str, str]) -> Read:
    """A file's rows, and the types of its hyperparameters with those of `hyper`; or why it is unsound."""
    pl = import_polars()
    try:
        return (_read_table if path.suffix == ".parquet" else _read_part)(path, wanted, hyper)
    except (KeyError, TypeError, ValueError, OverflowError, pl.exceptions.PolarsError) as error:
        raise UnsoundError(f"cannot be used ({brief(error)})") from error


def _read_part(path: Path, wanted: set[str] | None, hyper: Mapping[str, str]) -> Read:
    part = opened_part(path)
    theirs = hyper_types(part["runs"])
    frame = frame_of(part["scores"], part["runs"], theirs)
    return frame.select(name for name in frame.columns if wanted is None or name in wanted), joined(hyper, theirs)


def _read_table(path: Path, wanted: set[str] | None, hyper: Mapping[str, str]) -> Read:
    pl, data = import_polars(), _bytes(path)
    check_seal(data)
    has = {name: str(kind) for name, kind in pl.read_parquet_schema(io.BytesIO(data)).items()}
    theirs = {name: kind for name, kind in has.items() if name.startswith("hyper_")}
    if has != columns(theirs) or not set(theirs.values()) <= set(HYPER.values()):
        odd = {name for name, _ in has.items() ^ columns(theirs).items()}
        raise UnsoundError(f"does not have the columns of a store ({listed(odd)})")
    kept = [name for name in has if wanted is None or name in wanted]
    return pl.read_parquet(io.BytesIO(data), columns=kept), joined(hyper, theirs)


# Writing.


def put(path: Path, data: bytes) -> None:
    """Writes a file that is whole or absent and outlasts a loss of power."""
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
    """Turns what the system says when `path` cannot be written into what a person can do."""
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
