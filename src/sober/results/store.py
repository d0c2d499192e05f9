"""A study's results on disk: one long table with a row per score, beside the models the scores are about.

store.json                    the format, and the type of every hyperparameter's column
scores.parquet                the whole table, compacted from the parts now and then
parts/DIGEST.json             what was written since: a file for each write, named by its content
models/IDENTITY.safetensors   trained models
codes/                        their codes, where asked for
claims/                       who works on what: a locked file for each piece of work
aside/                        files that were not to be trusted; notes.txt says why

Nothing is changed in place: a file is whole or absent, and carries a checksum of itself. Parts are JSON, so that a
machine that only trains can write them; whoever reads or compacts the table needs Polars. Readers take no lock. They
read the parts first and the table last, so a part that is compacted under their eyes is in the table they find. Rows
that are met twice, as after a kill between the two steps of a compaction, are dropped by their key.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import errno
import functools
import hashlib
import importlib.util
import io
import json
import math
import os
import shutil
import socket
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, get_args

from sober.errors import RequestError, brief, listed
from sober.files import lock, read_json, replacing, sweep, writable_folder
from sober.methods import METHODS
from sober.types import Run, Score, Setting

if TYPE_CHECKING:
    import polars

FORMAT = 1
PARTS = 100  # more than these are compacted by whoever writes next
SEAL = hashlib.sha256().digest_size

Kind = Literal["metric", "criterion", "training"]  # measured with labels, without, or while it trained
Key = tuple[str, str, str]  # run, metric, preset: unique in the table

# Columns by the name of their Polars type. Those of the hyperparameters stand between the two groups.
OF_RUN = {
    **dict.fromkeys(("run", "world", "method", "nets"), "String"),
    **dict.fromkeys(("latents", "steps", "batch"), "Int64"),
    **dict.fromkeys(("learning_rate", "b1", "b2", "eps"), "Float64"),
    **{"precision": "String", "seed": "Int64", "setting": "String"},
}
OF_SCORE = {
    **dict.fromkeys(("kind", "metric", "preset", "settings"), "String"),
    **dict.fromkeys(("value", "low", "high"), "Float64"),
    **{"flags": "String", "seconds": "Float64", "device": "String", "versions": "String", "scale": "String"},
}
HYPER: dict[type, str] = {bool: "Boolean", str: "String", float: "Float64"}
KEY = ("run", "metric", "preset")
ORDER = ("world", "method", "setting", "seed", *KEY)


class Holder(NamedTuple):
    """Who holds a claim."""

    name: str
    host: str
    pid: int


class UnsoundError(Exception):
    """Why a file is not to be trusted."""


T = TypeVar("T")
_Found = tuple["polars.DataFrame", dict[str, str]]  # rows, and the types of all hyperparameters met so far


@dataclasses.dataclass(frozen=True)
class Store:
    """A folder of results that any number of processes may write to, read and compact at once."""

    folder: Path

    @staticmethod
    def create(folder: str | Path) -> Store:
        """The store in `folder`: new, or the one already there. A family's folder may hold one too."""
        folder = writable_folder(Path(folder))
        store = Store(folder)
        with store._alone():
            if not store._about.exists():
                visible = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
                if visible and "family.json" not in visible:
                    raise RequestError(f"{folder} is not empty and holds no store: choose another folder")
                store._describe({})
        return Store.open(folder)

    @staticmethod
    def open(folder: str | Path) -> Store:
        """The store in a folder."""
        store = Store(Path(folder))
        if not store._about.exists():
            raise RequestError(f"{folder} holds no store: give the folder of a study")
        store._hyper()
        return store

    def write(
        self,
        scores: Iterable[Score],
        runs: Mapping[str, Run],
        *,
        kind: Kind,
        preset: str,
        device: str = "",
        versions: Mapping[str, str] | None = None,
        scale: str = "",
    ) -> None:
        """Adds scores of runs (by identity), all or none; once this returns, no kill takes them away.

        Everything is checked before the disk is touched. A number that is not finite is stored as null and flagged
        `not_finite`. `versions` are those of all scores, to which a score adds its own.
        """
        common = {"kind": kind, "preset": preset, "device": device, "scale": scale}
        rows = [_score_row(score, common, versions or {}) for score in scores]
        if not rows:
            return
        about = [_run_row(identity, runs) for identity in sorted({row["run"] for row in rows})]
        hyper = _hyper_types(about)
        data = _part(rows, about)
        self._declare(hyper)
        _put(self._folder("parts") / f"{hashlib.sha256(data).hexdigest()[:32]}.json", data)
        if len(self._parts()) > PARTS and importlib.util.find_spec("polars") is not None:
            self.compact(wait=False)

    def table(self, columns: Sequence[str] | None = None) -> polars.DataFrame:
        """Every score once, the same rows in the same order however they came to be here; all columns, or some."""
        parts = self._parts()
        needed = {*(columns or ()), *((*ORDER, *OF_SCORE) if parts else ())}  # merging looks at more than is shown
        frames, hyper = self._frames(parts, needed if columns else None)
        known = _columns(hyper)
        if unknown := needed - known.keys():
            raise RequestError(f"{self.folder} has no column {listed(unknown)}: choose from {listed(known)}")
        kept = {name: kind for name, kind in known.items() if not columns or name in needed}
        return _merged(frames.values(), kept).select(columns or list(known))

    def height(self) -> int:
        """How many scores there are, rows met twice counted twice: a look at what lies there, not at what it says."""
        parts = sum(len(self._trusted(path, _keys) or ()) for path in self._parts())
        if not self._table.exists():
            return parts
        return parts + int(_polars().scan_parquet(self._table).select(_polars().len()).collect().item())

    def done(self) -> set[Key]:
        """What need not be done again, whoever did it: (run, metric, preset) of every score."""
        done: set[Key] = set()
        for path in self._parts():
            done.update(self._trusted(path, _keys) or ())
        if self._table.exists():
            frames, _ = self._frames([], set(KEY))
            done.update(key for frame in frames.values() for key in frame.select(KEY).iter_rows())
        return done

    def compact(self, *, wait: bool = True) -> None:
        """Makes one table of table and parts; where another process is at it, waits, or leaves it to that one."""
        with _held(self.folder / ".compact.lock", wait=wait) as mine:
            if not mine:
                return
            if parts := self._parts():
                frames, hyper = self._frames(parts)
                data = _sealed(_merged(frames.values(), _columns(hyper)))
                with self._alone():
                    _put(self._table, data)
                for path in frames.keys() - {self._table}:
                    path.unlink(missing_ok=True)
            sweep(self.folder / "parts" / "*")  # even without parts: what was killed may have been the first to write

    def claim(self, name: str) -> contextlib.ExitStack | None:
        """A claim on a piece of work, to be used in a `with`; None while another process, or this one, holds it.

        The claim is a lock of the operating system, which ends with the process, however that ends.
        """
        path = self._folder("claims") / hashlib.sha256(name.encode()).hexdigest()[:16]
        with self._alone(), _explained(path, 0):
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
        with self._alone():  # else a look at a claim could be taken for its holder
            found = [_holder(path) for path in self._folder("claims").iterdir()]
        return sorted(holder for holder in found if holder is not None)

    def model_path(self, run: Run) -> Path:
        return self.folder / "models" / f"{run.identity}.safetensors"

    @property
    def _about(self) -> Path:
        return self.folder / "store.json"

    @property
    def _table(self) -> Path:
        return self.folder / "scores.parquet"

    def _folder(self, name: str) -> Path:
        folder = self.folder / name
        with _explained(folder, 0):
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
            raise RequestError(f"{self._about} does not describe a store: restore it, or choose another folder")
        if about.get("format") != FORMAT:
            raise RequestError(f"{self.folder} was written by another version of Sober (format {about.get('format')})")
        return about["hyper"]

    def _describe(self, hyper: Mapping[str, str]) -> None:
        _put(self._about, json.dumps({"format": FORMAT, "hyper": hyper}, indent=1, sort_keys=True).encode() + b"\n")

    def _declare(self, hyper: Mapping[str, str]) -> None:
        """Makes columns known before the first row that has them, so that no two writers give one two types."""
        if not _joined(self._hyper(), hyper).keys() - self._hyper().keys():
            return
        with self._alone():
            self._describe(_joined(self._hyper(), hyper))

    def _frames(
        self, parts: Sequence[Path], columns: set[str] | None = None
    ) -> tuple[dict[Path, polars.DataFrame], dict[str, str]]:
        """What the parts and then the table hold, where they are sound, and the types of all hyperparameters."""
        hyper, frames = self._hyper(), {}
        for path in [*parts, self._table]:
            if (found := self._trusted(path, functools.partial(_read, columns=columns, hyper=hyper))) is not None:
                frames[path], hyper = found
        self._declare(hyper)  # does nothing unless files were copied here from another store
        return frames, hyper

    def _trusted(self, path: Path, read: Callable[[Path], T]) -> T | None:
        """What a file holds; None where it is gone, or unsound and set aside."""
        try:
            return read(path)
        except FileNotFoundError:
            return None
        except UnsoundError:
            pass
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


def setting(run: Run) -> str:
    """What a run shares with those that differ from it only in the seed or the world, in words: `beta_vae beta=4`.

    Named are the method's first hyperparameter and whatever is not at its default.
    """
    known = {hyper.name: hyper.default for hyper in METHODS[run.method].hyper} if run.method in METHODS else {}
    main = next(iter(known), None)
    ordered = sorted(run.hyper.items(), key=lambda item: (item[0] != main, item[0]))
    hyper = [(name, value) for name, value in ordered if name == main or value != known.get(name)]
    usual = _flat(Run("", run.method, {}))
    others = [(n, v) for n, v in _flat(run).items() if n not in ("world", "seed") and v != usual[n]]
    return " ".join([run.method, *(f"{name}={_word(value)}" for name, value in [*hyper, *others])])


def _flat(run: Run) -> dict[str, Any]:
    """A run's own fields and its optimiser's, without the hyperparameters."""
    fields = run.canonical()
    del fields["hyper"]
    return {**fields.pop("optimiser"), **fields}


def _word(value: Any) -> str:
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


def _run_row(identity: str, runs: Mapping[str, Run]) -> dict[str, Any]:
    run = runs.get(identity)
    if run is None or run.identity != identity:
        raise RequestError(f"there are scores of run {identity}, but that run is not among those given")
    return {"run": identity, "setting": setting(run), **_flat(run), **{f"hyper_{k}": v for k, v in run.hyper.items()}}


def _score_row(score: Score, common: Mapping[str, str], versions: Mapping[str, str]) -> dict[str, Any]:
    """A score as a row, checked."""
    try:
        bounds = (
            dict(zip(("low", "high"), map(float, score.interval), strict=True)) if score.interval is not None else {}
        )
        numbers = {"value": float(score.value), **bounds}
        finite = {name: number + 0.0 for name, number in numbers.items() if math.isfinite(number)}
        row = {
            **common,
            **finite,
            "run": score.run,
            "metric": score.metric,
            "settings": json.dumps(dict(score.settings), sort_keys=True, allow_nan=False),
            "flags": " ".join(sorted({*score.flags, *(["not_finite"] if len(finite) < len(numbers) else [])})),
            "seconds": float(score.seconds),
            "versions": json.dumps({**versions, **score.versions}, sort_keys=True),
        }
        _check(score, row)
    except (TypeError, ValueError) as error:
        raise RequestError(f"{score.metric!r} of run {score.run} cannot be stored: {brief(error)}") from error
    return row


def _check(score: Score, row: Mapping[str, Any]) -> None:
    """Refuses what has the right type and makes no sense."""
    if odd := [name for name in (*KEY, "device", "scale") if not isinstance(row[name], str)]:
        raise TypeError(f"{listed(odd)} must be text")
    if empty := [name for name in KEY if not row[name]]:
        raise ValueError(f"no {listed(empty)} is given")
    if row["kind"] not in get_args(Kind):
        raise ValueError(f"kind {row['kind']!r} is not one of {listed(get_args(Kind))}")
    if isinstance(score.flags, str) or any(flag.split() != [flag] for flag in score.flags):
        raise ValueError(f"flags {score.flags!r} are not words")
    if not 0 <= row["seconds"] < math.inf:
        raise ValueError(f"seconds {row['seconds']} is not a time")
    if "low" in row and "high" in row and row["low"] > row["high"]:
        raise ValueError(f"interval {score.interval} ends before it begins")


def _hyper_types(about: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    types: dict[str, str] = {}
    for row in about:
        types = _joined(types, {name: _kind(value) for name, value in row.items() if name.startswith("hyper_")})
    return types


def _kind(value: Setting) -> str:
    return next(kind for of, kind in HYPER.items() if isinstance(value, of))


def _joined(hyper: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """Both, where no column has two types."""
    for name in hyper.keys() & more.keys():
        if hyper[name] != more[name]:
            raise RequestError(
                f"column {name} is {hyper[name]} in the store and {more[name]} in these scores: "
                "give the hyperparameter one type, or use another store"
            )
    return {**hyper, **more}


def _columns(hyper: Mapping[str, str]) -> dict[str, str]:
    """Every column with its type, in the table's order."""
    return {**OF_RUN, **dict(sorted(hyper.items())), **OF_SCORE}


def _part(rows: Sequence[Mapping[str, Any]], about: Sequence[Mapping[str, Any]]) -> bytes:
    """Scores and their runs as a file: the checksum of what follows it, in hexadecimal digits, and JSON."""
    if len({tuple(row[name] for name in KEY) for row in rows}) < len(rows):
        counts = collections.Counter(tuple(row[name] for name in KEY) for row in rows)
        run, metric, preset = counts.most_common(1)[0][0]
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


def _opened_part(path: Path) -> dict[str, list[dict[str, Any]]]:
    """What `_part` was given."""
    digest, _, data = _bytes(path).partition(b"\n")
    if hashlib.sha256(data).hexdigest().encode() != digest:
        raise UnsoundError("is damaged, or no file of this store (its checksum does not match)")
    try:
        part = json.loads(data)
        return {name: list(part[name]) for name in ("runs", "scores")}
    except (KeyError, TypeError, ValueError) as error:
        raise UnsoundError(f"cannot be used ({brief(error)})") from error


def _keys(path: Path) -> set[Key]:
    return {(row["run"], row["metric"], row["preset"]) for row in _opened_part(path)["scores"]}


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise RequestError(f"{path} cannot be read ({brief(error)})") from error


def _frame(
    rows: Sequence[Mapping[str, Any]], about: Sequence[Mapping[str, Any]], hyper: Mapping[str, str]
) -> polars.DataFrame:
    """Scores joined with their runs, in order."""
    pl = _polars()
    scores = pl.DataFrame(rows, _schema({"run": "String", **OF_SCORE}))
    runs = pl.DataFrame(about, _schema({**OF_RUN, **hyper}))
    return scores.join(runs, on="run").select(*_columns(hyper)).sort(ORDER)


def _merged(frames: Iterable[polars.DataFrame], types: Mapping[str, str]) -> polars.DataFrame:
    """One frame, in order, each key once, whichever came first.

    Of two a number goes before a null, a judgement among more models before one among fewer, and the quicker score.
    """
    pl, several = _polars(), list(frames)
    whole = pl.concat([pl.DataFrame(schema=_schema(types)), *several], how="diagonal")
    if len(several) < 2:  # one file by itself is in order
        return whole
    if whole.select(KEY).is_duplicated().any():
        rest = [name for name in OF_SCORE if name not in (*KEY, "value", "seconds")]
        fewer = -pl.col("settings").str.extract(r'"models": (\d+)').cast(pl.Int64).fill_null(0)
        whole = whole.sort([pl.col("value").is_null(), fewer, "seconds", *rest, "value"], nulls_last=True)
        whole = whole.unique(KEY, keep="first", maintain_order=True)
    return whole.sort(ORDER, maintain_order=True)  # no ties are left, and this is the faster sort


def _sealed(frame: polars.DataFrame) -> bytes:
    """A parquet file with its checksum before the footer: a gap that readers of parquet never look into.

    The format finds the footer from the end of the file and data by their distance from its start.
    """
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    data = buffer.getvalue()
    footer = _footer(data)
    return b"".join([data[:footer], hashlib.sha256(data).digest(), data[footer:]])


def _check_seal(data: bytes) -> None:
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


def _read(path: Path, columns: set[str] | None, hyper: Mapping[str, str]) -> _Found:
    """A file's rows, and the types of its hyperparameters with those of `hyper`; or why it is unsound."""
    pl = _polars()
    try:
        return (_read_table if path.suffix == ".parquet" else _read_part)(path, columns, hyper)
    except (KeyError, TypeError, ValueError, OverflowError, pl.exceptions.PolarsError) as error:
        raise UnsoundError(f"cannot be used ({brief(error)})") from error


def _read_part(path: Path, columns: set[str] | None, hyper: Mapping[str, str]) -> _Found:
    part = _opened_part(path)
    theirs = _hyper_types(part["runs"])
    frame = _frame(part["scores"], part["runs"], theirs)
    return frame.select(name for name in frame.columns if columns is None or name in columns), _joined(hyper, theirs)


def _read_table(path: Path, columns: set[str] | None, hyper: Mapping[str, str]) -> _Found:
    pl, data = _polars(), _bytes(path)
    _check_seal(data)
    has = {name: str(kind) for name, kind in pl.read_parquet_schema(io.BytesIO(data)).items()}
    theirs = {name: kind for name, kind in has.items() if name.startswith("hyper_")}
    if has != _columns(theirs) or not set(theirs.values()) <= set(HYPER.values()):
        odd = {name for name, _ in has.items() ^ _columns(theirs).items()}
        raise UnsoundError(f"does not have the columns of a store ({listed(odd)})")
    kept = [name for name in has if columns is None or name in columns]
    return pl.read_parquet(io.BytesIO(data), columns=kept), _joined(hyper, theirs)


def _put(path: Path, data: bytes) -> None:
    """Writes a file that is whole or absent and outlasts a loss of power."""
    with _explained(path, len(data)):
        with replacing(path) as temporary:
            temporary.write_bytes(data)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


@contextlib.contextmanager
def _explained(path: Path, size: int) -> Iterator[None]:
    """Turns what the system says when `path` cannot be written into what a person can do."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            free = shutil.disk_usage(path.parent).free
            raise RequestError(
                f"no room for {path}: {size:,} bytes needed, {free:,} free; "
                "what was written before is safe: make room, and the same command goes on"
            ) from error
        raise RequestError(f"cannot write {path} ({brief(error)})") from error


@contextlib.contextmanager
def _held(path: Path, *, wait: bool) -> Iterator[bool]:
    """Whether `path` is locked for this block; with `wait` it always is."""
    with contextlib.ExitStack() as stack:
        with _explained(path, 0):
            file = stack.enter_context(open(path, "a"))
        yield lock(file, wait=wait)


def _holder(path: Path) -> Holder | None:
    """Who holds the claim in a file now, if anyone does."""
    with open(path, encoding="utf-8") as file:
        return None if lock(file, wait=False) else Holder(*json.load(file))


def _schema(types: Mapping[str, str]) -> dict[str, Any]:
    return {name: getattr(_polars(), kind) for name, kind in types.items()}


def _polars() -> Any:
    try:
        import polars  # noqa: PLC0415
    except ImportError as error:
        raise RequestError("reading a store needs polars: pip install polars") from error
    return polars
