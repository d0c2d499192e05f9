"""Pieces of the queue that are carried from machine to machine: what of their folders goes along, and back again.

A finished piece is its rows, what criteria said, what metrics found, and what is shown of two models. One that is not
finished is all of that, its models, and the checkpoint of those in training. Where that is too much, as many of its
first runs are carried as there is room for.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sober.errors import RequestError
from sober.files import read_json, replacing, write_json
from sober.files.packs import Pack
from sober.results.folder import Folder
from sober.results.request import Cohort
from sober.training.checkpoints import Checkpoints
from sober.types import Run
from sober.workflows.wanted import Entry, find_entry

RESULT = r"scores\.parquet|columns\.json|parts/[0-9a-f]{32}\.json|(matrices|judged|shown)/[0-9a-f]{16}\.safetensors"
MODEL = r"models/[0-9a-f]{16}\.safetensors"
CHECKPOINT = r"checkpoints/[0-9a-f]{12}/(cohorts\.json|[0-9a-f]{16}-\d+\.safetensors)"
OF_RUN = re.compile(r"(models|matrices|shown)/([0-9a-f]{16})\.safetensors")
PIECE = "piece.json"  # in a folder of work: which entry of the list it is for
TRIES = 3  # at reading files that are being replaced


class Carried(NamedTuple):
    """A piece of the queue: which runs of which entry, what there is to know of it, and its files."""

    name: str  # of the cohort
    about: Mapping[str, Any]
    files: Mapping[str, bytes]

    @property
    def entry(self) -> str:
        return str(self.about["entry"])

    @property
    def runs(self) -> tuple[str, ...]:
        return tuple(self.about["runs"])


def as_pack(kind: str, pieces: Sequence[Carried]) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Pieces as the content of one pack."""
    about = {"kind": kind, "pieces": {piece.name: dict(piece.about) for piece in pieces}}
    return about, {f"{piece.name}/{name}": data for piece in pieces for name, data in piece.files.items()}


def carried_in(pack: Pack, kind: str) -> list[Carried]:
    """The pieces of that kind in a pack; one that holds something else is refused."""
    where = pack.paths[0] if pack.paths else "a pack"
    allowed = re.compile("|".join([RESULT, MODEL, *([CHECKPOINT] if pack.about.get("kind") == "begun" else [])]))
    pieces: dict[str, dict[str, bytes]] = {}
    for path, data in pack.files.items():
        name, _, file = path.partition("/")
        if not re.fullmatch(r"[0-9a-f]{12}", name) or not allowed.fullmatch(file):
            raise RequestError(f"{where} holds {path}, which is no file of the queue: it is refused")
        pieces.setdefault(name, {})[file] = data
    try:
        known = {name: about for name, about in pack.about["pieces"].items() if _is_about(about)}
        if known.keys() != pack.about["pieces"].keys() or not pieces.keys() <= known.keys():
            raise TypeError("pieces that are not described")
        if pack.about["kind"] not in ("done", "begun"):
            raise TypeError(f"the kind {pack.about['kind']!r}")
    except (KeyError, TypeError, AttributeError) as error:
        raise RequestError(f"{where} is no pack of the queue ({error}): it is refused") from error
    if pack.about["kind"] != kind:
        return []
    return [Carried(name, about, pieces.get(name, {})) for name, about in known.items()]


def _is_about(about: Any) -> bool:
    if not isinstance(about, dict) or not isinstance(runs := about.get("runs"), list) or not runs:
        return False
    named = all(isinstance(run, str) and re.fullmatch(r"[0-9a-f]{16}", run) for run in runs)
    return named and isinstance(about.get("entry"), str) and len(set(runs)) == len(runs)


# From a folder.


def finished_files(folder: Path, models: Sequence[str] = ()) -> dict[str, bytes]:
    """The results in a folder of work, with some of its models."""
    files = _read(folder, RESULT)
    return files | {name: data for name, data in _read(folder, MODEL).items() if Path(name).stem in models}


def unfinished(folder: Path, room: int) -> Carried | None:
    """A folder of work as it is now, as many of its first runs as there is room for; None where that is none."""
    piece = read_json(folder / PIECE)
    runs = list(Folder.open(folder).runs.values())
    files = _read(folder, f"{RESULT}|{MODEL}|{CHECKPOINT}")
    if sum(map(len, files.values())) <= room:
        return Carried(folder.name, piece, files)
    for count in _counts(runs, room * len(runs) // sum(map(len, files.values()))):
        part = _first(folder, files, runs, count)
        if sum(map(len, part.values())) <= room:
            kept = runs[:count]
            about = {**piece, "runs": [run.identity for run in kept]}
            return Carried(Cohort.of(kept).name, about, part)
    return None


def _counts(runs: Sequence[Run], most: int) -> Iterator[int]:
    """How many of the first runs there may be room for, the most first: of whole settings where there is for one."""
    together = sum(run.seedless == runs[0].seedless for run in runs)
    yield from range(most - most % together, 0, -together)
    yield from range(min(most, together - 1), 0, -1)


def _first(folder: Path, files: Mapping[str, bytes], runs: list[Run], count: int) -> dict[str, bytes]:
    """The files about the first runs of a piece, their part of its checkpoint among them."""
    kept = {run.identity for run in runs[:count]}
    part = {
        name: data
        for name, data in files.items()
        if not name.startswith("checkpoints/") and (not (of := OF_RUN.fullmatch(name)) or of[2] in kept)
    }
    whole = Checkpoints(folder / "checkpoints" / Cohort.of(runs).name)
    if whole.path(runs).exists():
        with tempfile.TemporaryDirectory() as temporary:
            first = Checkpoints(Path(temporary) / "checkpoints" / Cohort.of(runs[:count]).name)
            first.keep_cohorts([runs[:count]])
            whole.keep_first(runs, count, first)
            part |= _read(Path(temporary), CHECKPOINT)
    return part


def _read(folder: Path, allowed: str) -> dict[str, bytes]:
    """Files whose names are of that form. They are whole, and may be gone or new when they are looked at again."""
    for tries in range(TRIES):
        try:
            names = [path.relative_to(folder).as_posix() for path in folder.rglob("[!.]*") if path.is_file()]
            return {name: (folder / name).read_bytes() for name in sorted(names) if re.fullmatch(allowed, name)}
        except FileNotFoundError:
            if tries == TRIES - 1:
                raise
    raise AssertionError("there is at least one try")


# Into a folder.


def begin(work: Path, entry: Entry, runs: Sequence[Run], command: str = "") -> Folder:
    """The folder in which a piece is worked on: new, or as it was left."""
    cohort = Cohort.of(runs)
    folder = Folder.begin(work / cohort.name, entry.request([cohort], command))
    write_json(folder.path / PIECE, {"entry": entry.name, "runs": [run.identity for run in runs]})
    return folder


def restore(work: Path, entries: Sequence[Entry], piece: Carried, command: str = "") -> Folder:
    """Makes the folder of a piece that was brought along; what its runs are, the list says."""
    entry = find_entry(entries, piece.entry, piece.runs)
    folder = begin(work, entry, [entry.plan.runs[identity] for identity in piece.runs], command)
    for name, data in piece.files.items():
        path = folder.path / name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as temporary:
                temporary.write_bytes(data)
    return folder


def begun_in(work: Path, entries: Sequence[Entry]) -> Iterator[tuple[Entry, Folder]]:
    """The pieces that were begun in a folder of work."""
    for path in sorted(work.glob(f"*/{PIECE}")):
        folder = Folder.open(path.parent)
        try:
            entry = find_entry(entries, read_json(path)["entry"], list(folder.runs))
        except RequestError as error:
            raise RequestError(f"{folder.path} was begun for another list ({error}): choose another --work") from error
        yield entry, folder
