"""The table on disk: a row for each score, written by any number of processes, beside the models it is about.

columns.json                  the format, and the type of every hyperparameter's column
scores.parquet                the whole table, compacted from the parts now and then
parts/DIGEST.json             what was written since: a file for each write, named by its content
claims/                       who works on what: a locked file for each piece of work
aside/                        files that were not to be trusted; notes.txt says why

Nothing is changed in place: a file is whole or absent, and carries a checksum of itself. Parts are JSON, so that a
machine that only trains can write them; whoever reads or compacts the table needs Polars. Readers take no lock. They
read the parts first and the table last, so a part that is compacted under their eyes is in the table they find. Rows
that are met twice, as after a kill between the two steps of a compaction, are dropped by their key.
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

from sober.errors import RequestError, listed
from sober.files import lock, read_json, sweep, writable_folder
from sober.results.parts import (
    UnsoundError,
    explained,
    import_polars,
    keys_of,
    merged,
    opened_part,
    part_bytes,
    put,
    read,
    sealed,
)
from sober.results.rows import KEY, OF_SCORE, ORDER, Key, Row, hyper_types, joined, run_row, score_row
from sober.results.rows import columns as all_columns
from sober.types import Run, Score

if TYPE_CHECKING:
    import polars

FORMAT = 2
PARTS = 100  # more than these are compacted by whoever writes next


class Holder(NamedTuple):
    """Who holds a claim."""

    name: str
    host: str
    pid: int


T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Store:
    """A folder of results that any number of processes may write to, read and compact at once."""

    folder: Path
    fixed: bool = False  # whether it is only read

    @staticmethod
    def create(folder: str | Path) -> Store:
        """The table in `folder`: new, or the one already there."""
        store = Store(writable_folder(Path(folder)))
        with store._alone():
            if not store._about.exists():
                store._describe({})
        return Store.open(folder)

    @staticmethod
    def open(folder: str | Path, *, fixed: bool = False) -> Store:
        """The table in a folder; with `fixed` nothing is ever written there."""
        store = Store(Path(folder), fixed)
        if not store._about.exists():
            raise RequestError(f"{folder} holds no results: give a folder that sober train, fit, tune or study made")
        store._hyper()
        return store

    def write(
        self,
        scores: Iterable[Score],
        runs: Mapping[str, Run],
        *,
        device: str = "",
        versions: Mapping[str, str] | None = None,
        scale: str = "",
    ) -> None:
        """Adds scores of runs (by identity), all or none; once this returns, no kill takes them away.

        Everything is checked before the disk is touched. A number that is not finite is stored as null and flagged
        `not_finite`. `versions` are those of all scores, to which a score adds its own.
        """
        common = {"device": device, "scale": scale}
        rows = [score_row(score, common, versions or {}) for score in scores]
        if not rows:
            return
        about = [run_row(identity, runs) for identity in sorted({row["run"] for row in rows})]
        hyper = hyper_types(about)
        data = part_bytes(rows, about)
        self._declare(hyper)
        put(self._folder("parts") / f"{hashlib.sha256(data).hexdigest()[:32]}.json", data)
        if len(self._parts()) > PARTS and importlib.util.find_spec("polars") is not None:
            self.compact(wait=False)

    def table(self, columns: Sequence[str] | None = None) -> polars.DataFrame:
        """Every score once, the same rows in the same order however they came to be here; all columns, or some."""
        parts = self._parts()
        needed = {*(columns or ()), *((*ORDER, *OF_SCORE) if parts else ())}  # merging looks at more than is shown
        frames, hyper = self._frames(parts, needed if columns else None)
        known = all_columns(hyper)
        if unknown := needed - known.keys():
            raise RequestError(f"{self.folder} has no column {listed(unknown)}: choose from {listed(known)}")
        kept = {name: kind for name, kind in known.items() if not columns or name in needed}
        return merged(frames.values(), kept).select(columns or list(known))

    def rows(self) -> Iterator[Row]:
        """Every score, perhaps some twice: read without Polars where nothing was compacted."""
        for path in self._parts():
            yield from (self._trusted(path, opened_part) or {"scores": []})["scores"]
        if self._table.exists():
            for frame in self._frames([])[0].values():
                yield from frame.iter_rows(named=True)

    def height(self) -> int:
        """How many scores there are, rows met twice counted twice: a look at what lies there, not at what it says."""
        parts = sum(len(self._trusted(path, keys_of) or ()) for path in self._parts())
        if not self._table.exists():
            return parts
        return parts + int(import_polars().scan_parquet(self._table).select(import_polars().len()).collect().item())

    def done(self) -> dict[Key, int]:
        """What need not be done again, whoever did it: the key of every score, and how many models were compared."""
        done: dict[Key, int] = {}
        for path in self._parts():
            _add(done, self._trusted(path, keys_of) or {})
        if self._table.exists():
            frames, _ = self._frames([], {*KEY, "models"})
            for frame in frames.values():
                _add(done, {row[:-1]: row[-1] for row in frame.select(*KEY, "models").iter_rows()})
        return done

    def compact(self, *, wait: bool = True) -> None:
        """Makes one table of table and parts; where another process is at it, waits, or leaves it to that one."""
        with _held(self.folder / ".compact.lock", wait=wait) as mine:
            if not mine:
                return
            if parts := self._parts():
                frames, hyper = self._frames(parts)
                data = sealed(merged(frames.values(), all_columns(hyper)))
                with self._alone():
                    put(self._table, data)
                for path in frames.keys() - {self._table}:
                    path.unlink(missing_ok=True)
            sweep(self.folder / "parts" / "*")  # even without parts: what was killed may have been the first to write

    def keep(self, frame: polars.DataFrame) -> None:
        """Makes rows in the columns of a table all that there is."""
        hyper = {name: str(kind) for name, kind in frame.schema.items() if name.startswith("hyper_")}
        self._describe(hyper)
        put(self._table, sealed(frame))

    def claim(self, name: str) -> contextlib.ExitStack | None:
        """A claim on a piece of work, to be used in a `with`; None while another process, or this one, holds it.

        The claim is a lock of the operating system, which ends with the process, however that ends.
        """
        path = self._folder("claims") / hashlib.sha256(name.encode()).hexdigest()[:16]
        with self._alone(), explained(path, 0):
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
        """The claims that are held now, by name."""
        if self.fixed:
            return []
        with self._alone():  # else a look at a claim could be taken for its holder
            found = [_holder(path) for path in self._folder("claims").iterdir()]
        return sorted(holder for holder in found if holder is not None)

    @property
    def _about(self) -> Path:
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
        return sorted(path for path in folder.glob("[!.]*") if path.is_file())

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Held for moments: whoever replaces the table, sets a file aside, declares a column or claims work."""
        with _held(self.folder / ".store.lock", wait=True):
            yield

    def _hyper(self) -> dict[str, str]:
        """The types of the hyperparameters' columns."""
        about = read_json(self._about)
        if not isinstance(about, dict) or not isinstance(about.get("hyper"), dict):
            raise RequestError(f"{self._about} does not describe a table: restore it, or choose another folder")
        if about.get("format") != FORMAT:
            raise RequestError(f"{self.folder} was written by another version of Sober (format {about.get('format')})")
        return about["hyper"]

    def _describe(self, hyper: Mapping[str, str]) -> None:
        put(self._about, json.dumps({"format": FORMAT, "hyper": hyper}, indent=1, sort_keys=True).encode() + b"\n")

    def _declare(self, hyper: Mapping[str, str]) -> None:
        """Makes columns known before the first row that has them, so that no two writers give one two types."""
        if self.fixed or not joined(self._hyper(), hyper).keys() - self._hyper().keys():
            return
        with self._alone():
            self._describe(joined(self._hyper(), hyper))

    def _frames(
        self, parts: Sequence[Path], columns: set[str] | None = None
    ) -> tuple[dict[Path, polars.DataFrame], dict[str, str]]:
        """What the parts and then the table hold, where they are sound, and the types of all hyperparameters."""
        hyper, frames = self._hyper(), {}
        for path in [*parts, self._table]:
            if (found := self._trusted(path, functools.partial(read, wanted=columns, hyper=hyper))) is not None:
                frames[path], hyper = found
        self._declare(hyper)  # does nothing unless files were copied here from another store
        return frames, hyper

    def _trusted(self, path: Path, read: Callable[[Path], T]) -> T | None:
        """What a file holds; None where it is gone, or unsound and set aside."""
        try:
            return read(path)
        except FileNotFoundError:
            return None
        except UnsoundError as why:
            if self.fixed:
                raise RequestError(f"{path} {why}: restore it") from why
        with self._alone():  # where nobody replaces it: what is moved is what was looked at
            try:
                return read(path)
            except FileNotFoundError:
                return None
            except UnsoundError as why:
                self.set_aside(path, str(why))
                return None

    def set_aside(self, path: Path, why: str) -> None:
        """Moves a file that is not to be trusted out of the way, with a note of why."""
        aside = self._folder("aside")
        target = aside / f"{uuid.uuid4().hex[:8]}-{path.name}"
        path.rename(target)
        warnings.warn(f"{path} {why}: set aside as {target}; what it held is missing", stacklevel=2)
        with contextlib.suppress(OSError), open(aside / "notes.txt", "a", encoding="utf-8") as notes:
            notes.write(f"{target.name}: {path} {why}\n")

    def _release(self, path: Path, file: IO[str]) -> None:
        with self._alone():
            path.unlink(missing_ok=True)
            file.close()


def _add(done: dict[Key, int], more: Mapping[Key, int]) -> None:
    for key, models in more.items():
        done[key] = max(models, done.get(key, 0))


@contextlib.contextmanager
def _held(path: Path, *, wait: bool) -> Iterator[bool]:
    """Whether `path` is locked for this block; with `wait` it always is."""
    with contextlib.ExitStack() as stack:
        with explained(path, 0):
            file = stack.enter_context(open(path, "a"))
        yield lock(file, wait=wait)


def _holder(path: Path) -> Holder | None:
    """Who holds the claim in a file now, if anyone does."""
    with open(path, encoding="utf-8") as file:
        return None if lock(file, wait=False) else Holder(*json.load(file))
