"""The table on disk, in the folder of the models: a row for each score. Any number of processes may write to it.

columns.json                  the format, the type of every hyperparameter's column, and a checksum of both
scores.parquet                the compacted table
parts/DIGEST.json             scores that are not compacted yet: a file for each write, named by its content
claims/                       which process works on what: a locked file for each piece of work
aside/                        damaged files; notes.txt gives the reason for each

No file is changed in place: it is whole or absent, and carries a checksum of itself. Parts are JSON, so that a machine
without Polars can write them; reading or compacting the table needs Polars. Readers take no lock. They read the parts
first and the table last: if another process compacts a part in between, the table has its rows. A row may be in a part
and in the table, for example after a kill between the two steps of a compaction; readers keep one row for each key.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import importlib.util
import json
import os
import socket
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple, TypeVar

from sober.errors import RequestError, choices, listed
from sober.files import expecting, is_there, lock, parse_json, read_json, reading, remove_stale, writable_folder
from sober.results.table_files import (
    DamagedFileError,
    explained,
    keys_of,
    merged,
    part_bytes,
    put,
    read,
    read_part,
    sealed,
)
from sober.results.table_rows import HYPER, KEY, ORDER, SCORE_COLUMNS, Key, Row, hyper_types, joined, run_row, score_row
from sober.results.table_rows import columns as all_columns
from sober.short_text import as_call
from sober.types import Run, Score

if TYPE_CHECKING:
    import polars

FORMAT = 2
PARTS = 100  # if there are more, the next write compacts them


class Holder(NamedTuple):
    """The process that holds a claim."""

    name: str
    host: str
    pid: int

    def __repr__(self) -> str:
        return as_call(self)


T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Store:
    """A folder of results that any number of processes may write to, read and compact at once."""

    folder: Path
    fixed: bool = False  # whether the folder is only read

    def __repr__(self) -> str:
        return as_call(self)

    @staticmethod
    def create(folder: str | Path) -> Store:
        """Opens the table in a folder. Makes an empty table if there is none."""
        store = Store(writable_folder(Path(folder)))
        with store._locked():
            if not is_there(store._columns_file):
                store._write_columns({})
        return Store.open(folder)

    @staticmethod
    def open(folder: str | Path, *, fixed: bool = False) -> Store:
        """Opens the table in a folder. With `fixed`, Sober writes nothing there."""
        store = Store(Path(folder), fixed)
        if not is_there(store._columns_file):
            raise RequestError(f"{folder} holds no results: give a folder that sober train, fit, tune or study made")
        store._hyper()
        return store

    def write(
        self,
        scores: Iterable[Score],
        runs: Mapping[str, Run],
        *,
        in_words: Callable[[Run], str],
        device: str = "",
        versions: Mapping[str, str] | None = None,
        scale: str = "",
    ) -> None:
        """Adds all scores or none. When this returns, the scores are on the disk and survive a kill.

        `runs` are by identity. Every score is checked before anything is written. A number that is not finite is stored
        as null and flagged `not_finite`. `in_words` gives a run's setting in words. Each row stores `versions` and
        the score's own versions.
        """
        common = {"device": device, "scale": scale}
        rows = [score_row(score, common, versions or {}) for score in scores]
        if not rows:
            return
        run_rows = [run_row(identity, runs, in_words) for identity in sorted({row["run"] for row in rows})]
        hyper = hyper_types(run_rows)
        data = part_bytes(rows, run_rows)
        self._declare(hyper)
        self._seal()
        put(self._folder("parts") / f"{hashlib.sha256(data).hexdigest()[:32]}.json", data)
        if len(self._parts()) > PARTS and importlib.util.find_spec("polars") is not None:
            self.compact(wait=False)

    def table(self, columns: Sequence[str] | None = None) -> polars.DataFrame:
        """Every score once, with all columns or some. The order of rows does not depend on the order of writes."""
        parts = self._parts()
        needed = {*(columns or ()), *((*ORDER, *SCORE_COLUMNS) if parts else ())}  # merging parts needs these columns
        frames, hyper = self._frames(parts, needed if columns else None)
        types = all_columns(hyper)
        if unknown := needed - types.keys():
            advice = choices(min(unknown), types, "sober.open(folder).table() has them all")
            raise RequestError(f"{self.folder} has no column {listed(unknown)}: {advice}")
        needed_types = {name: kind for name, kind in types.items() if not columns or name in needed}
        return merged(frames.values(), needed_types).select(columns or list(types))

    def rows(self) -> Iterator[Row]:
        """Every score; a score may come twice. Needs Polars only if there is a compacted table."""
        for path in self._parts():
            yield from (self._trusted(path, read_part) or {"scores": []})["scores"]
        if is_there(self._table):
            for frame in self._frames([])[0].values():
                yield from frame.iter_rows(named=True)

    def height(self) -> int:
        """The number of scores in all files. A score that is in two files counts twice."""
        parts = sum(len(self._trusted(path, keys_of) or ()) for path in self._parts())
        if not is_there(self._table):
            return parts
        return parts + sum(frame.height for frame in self._frames([], {"run"})[0].values())

    def done(self) -> dict[Key, int]:
        """The work that need not be done again: by the key of each score, how many models were compared for it."""
        done: dict[Key, int] = {}
        for path in self._parts():
            _add(done, self._trusted(path, keys_of) or {})
        if is_there(self._table):
            frames, _ = self._frames([], {*KEY, "models"})
            for frame in frames.values():
                _add(done, {row[:-1]: row[-1] for row in frame.select(*KEY, "models").iter_rows()})
        return done

    def compact(self, *, wait: bool = True) -> None:
        """Merges the parts into the table. While another process compacts, waits; without `wait`, does nothing."""
        with _lock_file(self.folder / ".compact.lock", wait=wait) as has_lock:
            if not has_lock:
                return
            if parts := self._parts():
                frames, hyper = self._frames(parts)
                data = sealed(merged(frames.values(), all_columns(hyper)))
                with self._locked():
                    put(self._table, data)
                for path in frames.keys() - {self._table}:
                    path.unlink(missing_ok=True)
            # Also without parts: a kill during the first write leaves a temporary file and no part.
            remove_stale(self.folder / "parts", any_name=True)

    def take(self, other: Store) -> None:
        """Adds every row of another store: its parts as they are, and its table as one more part."""
        self._declare(other._hyper())
        contents = []
        for path in other._parts():
            with reading(path):
                contents.append(path.read_bytes())
        if is_there(other._table):
            contents.append(_as_part(other._frames([])[0][other._table]))
        for data in contents:
            place = self._folder("parts") / f"{hashlib.sha256(data).hexdigest()[:32]}.json"
            if not is_there(place):
                put(place, data)

    def keep(self, frame: polars.DataFrame) -> None:
        """Replaces the compacted table by a frame with the same columns."""
        hyper = {name: str(kind) for name, kind in frame.schema.items() if name.startswith("hyper_")}
        self._write_columns(hyper)
        put(self._table, sealed(frame))

    def claim(self, name: str) -> contextlib.ExitStack | None:
        """Claims a piece of work until the end of a `with` block; None if this or another process already holds it.

        The claim is a lock of the operating system. It also ends when the process ends or is killed.
        """
        path = self._folder("claims") / hashlib.sha256(name.encode()).hexdigest()[:16]
        with self._locked(), explained(path, 0):
            file = open(path, "a+", encoding="utf-8")  # noqa: SIM115 (open as long as the claim is held)
            if not lock(file, wait=False):
                file.close()
                return None
            file.truncate(0)
            file.write(json.dumps(Holder(name, socket.gethostname(), os.getpid())))
            file.flush()
        claim = contextlib.ExitStack()
        claim.callback(self._release, path, file)
        return claim

    def claimed(self) -> list[Holder]:
        """The processes that hold a claim now, sorted by the claim's name."""
        if self.fixed:
            return []
        with self._locked():  # _holder locks each claim for a moment, which must not make `claim` fail
            holders = [_holder(path) for path in self._folder("claims").iterdir()]
        return sorted(holder for holder in holders if holder is not None)

    @property
    def _columns_file(self) -> Path:
        return self.folder / "columns.json"

    @property
    def _table(self) -> Path:
        return self.folder / "scores.parquet"

    def _folder(self, name: str) -> Path:
        folder = self.folder / name
        with explained(folder, 0):
            folder.mkdir(exist_ok=True)
        return folder

    def _parts(self) -> list[Path]:
        folder = self.folder / "parts"
        with reading(folder):  # `Path.glob` would leave out, in silence, what it cannot read
            try:
                return sorted(Path(file) for file in os.scandir(folder) if file.name[0] != "." and file.is_file())
            except FileNotFoundError:
                return []

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Lets one process at a time replace the table, set a file aside, declare a column or claim work."""
        with _lock_file(self.folder / ".store.lock", wait=True):
            yield

    def _hyper(self) -> dict[str, str]:
        """The types of the hyperparameters' columns."""
        path, advice = self._columns_file, "restore it, or choose another folder"
        columns = read_json(path)
        if not isinstance(columns, dict) or not isinstance(columns.get("hyper"), dict):
            raise RequestError(f"{path} does not describe a table: {advice}")
        if (version := columns.get("format")) != FORMAT:
            raise RequestError(f"{self.folder} was written by another version of Sober (format {version})")
        hyper = columns["hyper"]
        if columns.get("checksum", _checksum(hyper)) != _checksum(hyper):  # earlier versions wrote none
            raise RequestError(f"{path} is damaged (its checksum does not match): {advice}")
        if odd := [name for name, kind in hyper.items() if kind not in HYPER.values() or not name.startswith("hyper_")]:
            raise RequestError(f"{path} is damaged (columns or types that no table has: {listed(odd)}): {advice}")
        return hyper

    def _write_columns(self, hyper: Mapping[str, str]) -> None:
        columns = {"checksum": _checksum(hyper), "format": FORMAT, "hyper": hyper}
        put(self._columns_file, json.dumps(columns, indent=1, sort_keys=True).encode() + b"\n")

    def _seal(self) -> None:
        """Adds the checksum to the columns of an earlier version, which wrote none."""
        if "checksum" not in read_json(self._columns_file):
            with self._locked():
                self._write_columns(self._hyper())

    def _declare(self, hyper: Mapping[str, str]) -> None:
        """Saves the types of new columns before the rows, so that two processes never write one column in two types."""
        if self.fixed or not joined(self._hyper(), hyper).keys() - self._hyper().keys():
            return
        with self._locked():
            self._write_columns(joined(self._hyper(), hyper))

    def _frames(
        self, parts: Sequence[Path], columns: set[str] | None = None
    ) -> tuple[dict[Path, polars.DataFrame], dict[str, str]]:
        """The rows of each sound part and of the table, by file, and the types of all hyperparameters."""
        hyper, frames = self._hyper(), {}
        for path in [*parts, self._table]:
            if (content := self._trusted(path, functools.partial(read, wanted=columns, hyper=hyper))) is not None:
                frames[path], hyper = content
        self._declare(hyper)  # does nothing unless files were copied here from another store
        return frames, hyper

    def _trusted(self, path: Path, read: Callable[[Path], T]) -> T | None:
        """The content of a file; None if the file is gone, or damaged and now set aside."""
        try:
            return read(path)
        except FileNotFoundError:
            return None
        except DamagedFileError as why:
            if self.fixed:
                raise RequestError(f"{path} {why}: restore it") from why
        with self._locked():  # reads again: another process may have replaced the file, and now none can
            try:
                return read(path)
            except FileNotFoundError:
                return None
            except DamagedFileError as why:
                self.set_aside(path, str(why))
                return None

    def set_aside(self, path: Path, why: str) -> None:
        """Moves a damaged file to `aside/` and notes the reason there."""
        aside = self._folder("aside")
        target = aside / f"{uuid.uuid4().hex[:8]}-{path.name}"
        with explained(path, 0):
            path.rename(target)
        warnings.warn(f"{path} {why}: set aside as {target}; what it held is missing", stacklevel=2)
        with contextlib.suppress(OSError), open(aside / "notes.txt", "a", encoding="utf-8") as notes:
            notes.write(f"{target.name}: {path} {why}\n")

    def _release(self, path: Path, file: IO[str]) -> None:
        with self._locked():
            path.unlink(missing_ok=True)
            file.close()


def _as_part(frame: polars.DataFrame) -> bytes:
    """The rows of a table as a part."""
    rows = frame.select("run", *SCORE_COLUMNS).to_dicts()
    run_rows = frame.drop(SCORE_COLUMNS).unique("run", maintain_order=True).to_dicts()
    return part_bytes([_without_nulls(row) for row in rows], [_without_nulls(row) for row in run_rows])


def _without_nulls(row: Row) -> Row:
    return {name: value for name, value in row.items() if value is not None}


def _checksum(hyper: Mapping[str, str]) -> str:
    return "sha256:" + hashlib.sha256(json.dumps([FORMAT, hyper], sort_keys=True).encode()).hexdigest()


def _add(done: dict[Key, int], more: Mapping[Key, int]) -> None:
    for key, models in more.items():
        done[key] = max(models, done.get(key, 0))


@contextlib.contextmanager
def _lock_file(path: Path, *, wait: bool) -> Iterator[bool]:
    """Locks a file for a block. Without `wait`, gives False if another process has the lock."""
    with contextlib.ExitStack() as stack:
        with explained(path, 0):
            file = stack.enter_context(open(path, "a"))
        yield lock(file, wait=wait)


def _holder(path: Path) -> Holder | None:
    """The process that holds the claim in a file; None if no process does."""
    with open(path, encoding="utf-8") as file:
        if lock(file, wait=False):
            return None
        with expecting(path, "a claim"):
            return Holder(*parse_json(file.read()))
