"""Takes packs of the queue into a folder of results: checked first, every number once, and none that differs.

All packs are looked at before anything is written. Files are written whole, the request last but for the note: killed
on the way, the same merge ends the same.
"""

from __future__ import annotations

import tempfile
from collections.abc import Container, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sober.criteria import find_criterion
from sober.errors import RequestError, brief, listed
from sober.files import replacing, write_json
from sober.files.packs import read_packs
from sober.models.model import load
from sober.report.pair import pair_of
from sober.report.showcase import load_showcase
from sober.results.folder import Folder
from sober.results.judged import load_judged
from sober.results.parts import import_polars, merged
from sober.results.request import Cohort
from sober.results.rows import KEY, columns, run_of
from sober.results.rows import OF_RUN as OF_RUN_COLUMNS
from sober.results.runs import as_runs
from sober.results.shipped import LARGEST, Note, shipped
from sober.results.store import Store
from sober.workflows.carried import OF_RUN, Carried, carried_in
from sober.workflows.evaluate import versions
from sober.workflows.wanted import Entry, find_entry

if TYPE_CHECKING:
    import polars as pl

SAID = ("value", "low", "high", "flags")  # what must be the same of a number that is there twice
# Bytes in one folder: of what is shown beyond the first two models, and of what metrics found, if it is kept.
MOST_SHOWN, MOST_MATRICES = 2**21, 2**21


class Added(NamedTuple):
    """What a merge brought to one folder of results."""

    name: str
    models: int
    rows: int
    skipped: int  # rows that were there


class _Checked(NamedTuple):
    entry: Entry
    piece: Carried
    table: pl.DataFrame


def merge(paths: Iterable[Path], results: Path, entries: Sequence[Entry]) -> list[Added]:
    """Takes what is finished in these packs into `results`, or refuses all of it in one line."""
    packs, wrong = read_packs(paths)
    if wrong:
        raise RequestError(wrong[0])
    if not packs:
        raise RequestError("there are no packs in what was given: name files that end in .pack, or their folder")
    by_name: dict[str, list[_Checked]] = {}
    for pack in packs:
        for piece in carried_in(pack, "done"):
            where = pack.paths[0].name if pack.paths else "a pack"
            checked = _checked(where, piece, entries)
            by_name.setdefault(checked.entry.name, []).append(checked)
    tables = {name: _joined(results / name, pieces) for name, pieces in by_name.items()}
    return [_write(results / name, pieces, *tables[name]) for name, pieces in by_name.items()]


# Looking.


def _checked(where: str, piece: Carried, entries: Sequence[Entry]) -> _Checked:
    entry = find_entry(entries, piece.entry, piece.runs)
    made, here = dict(piece.about.get("versions", {})).get("sober"), versions().get("sober")
    if made != here:
        raise RequestError(f"{where} was made with Sober {made}, and this is {here}: merge it with that version")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        _unpack(piece, folder)
        try:
            _check_files(piece, folder)
            table = _table(piece, folder)
        except (RequestError, KeyError, TypeError, ValueError, AttributeError) as error:
            said = str(error) if isinstance(error, RequestError) else f"it cannot be used ({error!r})"
            raise RequestError(f"{where} is refused: {said.replace(f'{folder}/', '')}") from error
    return _Checked(entry, piece, table)


def _unpack(piece: Carried, folder: Path) -> None:
    """Into a folder that is thrown away; names were looked at when the pack was read."""
    for name, data in piece.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def _check_files(piece: Carried, folder: Path) -> None:
    """That files are what their names say, and about runs of the piece."""
    for name in piece.files:
        of = OF_RUN.fullmatch(name)
        about = {of[2]} if of else set()
        if name.startswith("judged/"):
            question = load_judged(folder / name).question
            find_criterion(question.criterion)
            about |= set(question.runs)
        if of and of[1] == "models":
            about |= {load(folder / name).run.identity}
        if of and of[1] == "shown":
            about |= {load_showcase(folder / name)[1]["run"]}
        if strange := about - set(piece.runs):
            raise RequestError(f"{name} is about run {listed(strange)}, which the pack does not name")


def _table(piece: Carried, folder: Path) -> pl.DataFrame:
    """The rows of a piece, about its runs, which are those that the rows describe."""
    if not (folder / "columns.json").exists():
        raise RequestError("it has no table")
    whole = Store.open(folder, fixed=True).table()
    table = whole.filter(whole["run"].is_in(list(piece.runs)))
    if lacking := set(piece.runs) - set(table["run"]):
        raise RequestError(f"it has no rows of run {listed(lacking)}")
    of_run = [name for name in table.columns if name in OF_RUN_COLUMNS or name.startswith("hyper_")]
    for row in table.select(of_run).unique().iter_rows(named=True):
        try:
            identity = run_of(row).identity
        except (TypeError, ValueError) as error:
            raise RequestError(f"its rows of run {row['run']} describe none ({brief(error)})") from error
        if identity != row["run"]:
            raise RequestError(f"its rows of run {row['run']} describe another")
    return table


def _joined(folder: Path, pieces: Sequence[_Checked]) -> tuple[pl.DataFrame, int, int]:
    """All rows, those that are there and those that come; how many are new, and how many were there."""
    pl = import_polars()
    there = Store.open(folder, fixed=True).table() if (folder / "columns.json").exists() else None
    before = 0 if there is None else len(there)
    whole, skipped = there, 0
    for checked in pieces:
        if whole is None:
            whole = checked.table
            continue
        both = checked.table.join(whole, on=KEY, how="inner", suffix="_there")
        differs = both.filter(pl.any_horizontal(pl.col(name).ne_missing(pl.col(f"{name}_there")) for name in SAID))
        if len(differs):
            row = differs.row(0, named=True)
            raise RequestError(
                f"{folder.name}: {row['metric']} of run {row['run']} is {row['value_there']} there and {row['value']} "
                "in the packs: nothing was merged; find out which is right"
            )
        skipped += len(both)
        types = {name: str(kind) for frame in (whole, checked.table) for name, kind in frame.schema.items()}
        hyper = {name: kind for name, kind in types.items() if name.startswith("hyper_")}
        whole = merged([whole, checked.table], columns(hyper))
    assert whole is not None
    return whole, len(whole) - before, skipped


# Writing.


def _write(folder: Path, pieces: Sequence[_Checked], table: pl.DataFrame, rows: int, skipped: int) -> Added:
    before = Folder.open(folder) if (folder / "request.json").exists() else None
    known = set(before.runs) if before else set()
    new = [checked for checked in pieces if not set(checked.piece.runs) <= known]
    folder.mkdir(parents=True, exist_ok=True)
    for checked in new:
        _put(folder, checked)
    _keep_few(folder, table)
    entry = pieces[-1].entry
    scale = entry.plan.request.scale  # of the list as it is now: it may have grown since the packs were made
    Store(folder).keep(table.with_columns(import_polars().lit(scale).alias("scale")))
    cohorts = [_cohort(checked, known) for checked in new]
    if cohorts:
        request = entry.request(cohorts, str(new[-1].piece.about.get("command", "")))
        write_json(folder / "request.json", (before.request.grown(request, known) if before else request).plain())
        _note(folder, entry, [checked.piece for checked in new])
    return Added(folder.name, sum(len(cohort.runs) for cohort in cohorts), rows, skipped)


def _cohort(checked: _Checked, known: set[str]) -> Cohort:
    """The runs of a piece that were not there, which then are."""
    runs = [checked.entry.plan.runs[run] for run in checked.piece.runs if run not in known]
    known |= {run.identity for run in runs}
    return Cohort.of(runs)


def _put(folder: Path, checked: _Checked) -> None:
    """What is kept beside the table; of judgements those of criteria that may speak for the others."""
    left_out = ("parts/",) if checked.entry.models else ("parts/", "models/")
    for name, data in checked.piece.files.items():
        if "/" in name and not name.startswith(left_out):
            (folder / name).parent.mkdir(exist_ok=True)
            with replacing(folder / name) as temporary:
                temporary.write_bytes(data)
        if name.startswith("judged/") and not _speaks(folder / name):
            (folder / name).unlink()


def _speaks(path: Path) -> bool:
    """Whether a judgement is of a criterion that may speak for the others."""
    return find_criterion(load_judged(path).question.criterion).headline


def _keep_few(folder: Path, table: pl.DataFrame) -> None:
    """Leaves of what is shown two models of each world, as far as they are small together; of matrices all or none."""
    shown = {path.stem: path for path in (folder / "shown").glob("*.safetensors")}
    kept: set[str] = set()
    room = MOST_SHOWN
    for pair in _pairs(table, shown):
        room -= sum(shown[run].stat().st_size for run in pair)
        kept |= set(pair) if room >= 0 or not kept else set()
    for path in [*shown.values(), *(folder / "models").glob("*.safetensors")]:
        if path.stem not in kept:
            path.unlink()
    matrices = list((folder / "matrices").glob("*.safetensors"))
    if sum(path.stat().st_size for path in matrices) > MOST_MATRICES:
        for path in matrices:
            path.unlink()


def _pairs(table: pl.DataFrame, shown: Container[str]) -> list[tuple[str, ...]]:
    """Of each world the two models that a report would begin with, those of the whole table first."""
    runs = as_runs(table)
    there = runs.where(np.array([run in shown for run in runs.labels("run")], bool))
    if not len(there.about):
        return []
    first = pair_of(there)
    each = [pair_of(there.where(there.labels("world") == world)) for world in there.different("world")]
    return list(dict.fromkeys(pair for pair in [first, *each] if pair))


def _note(folder: Path, entry: Entry, pieces: Sequence[Carried]) -> None:
    """Says what is there now, and adds a record of what came."""
    there = Note.read(folder) if folder.name in shipped(folder.parent) else None
    made = [_record(piece) for piece in pieces]
    every = [*(there.made if there else ()), *made]
    devices = sorted({str(each["device"]) for each in every})
    latest = max(every, key=lambda each: each["when"])
    Note(
        entry.study.title,
        entry.what,
        latest["when"],
        ", ".join(devices),
        latest["command"],
        latest["versions"],
        tuple(every),
    ).write(folder)


def _record(piece: Carried) -> dict[str, Any]:
    about = piece.about
    return {
        **{name: str(about.get(name, "")) for name in ("when", "device", "command")},
        "versions": {str(name): str(version) for name, version in dict(about.get("versions", {})).items()},
        "models": len(piece.runs),
        "pace": {str(name): float(value) for name, value in dict(about.get("pace", {})).items()},
        "failed": [str(each) for each in about.get("failed", ())],
    }


def too_large(results: Path) -> str:
    """In words that the results have become too many for a repository; nothing while they have not."""
    size = sum(path.stat().st_size for path in results.rglob("*") if path.is_file())
    if size <= LARGEST:
        return ""
    return f"{results} has {size / 2**20:.0f} MiB, more than the {LARGEST / 2**20:.0f} that a wheel should carry"
