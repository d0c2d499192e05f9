"""Says what is wrong with folders of results that somebody wants to add to results/. It reads them and changes nothing.

python tools/check_results.py results/NAME …      all of results/ without a name
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src")]

import polars as pl  # noqa: E402

from sober.errors import RequestError, counted  # noqa: E402
from sober.results.folder import Folder  # noqa: E402
from sober.results.judgement_files import load_judgement  # noqa: E402
from sober.results.runs import score_meanings  # noqa: E402
from sober.results.shipped import LARGEST, NOTE, Note, shipped  # noqa: E402

FILES = {NOTE, "request.json", "columns.json", "scores.parquet", "repeats.parquet"}
FOLDERS = {"judged": {".safetensors", ".json"}, "matrices": {".safetensors"}, "shown": {".safetensors"},
           "models": {".safetensors"}, "verdicts": {".json"}}  # fmt: skip
ONE_FOLDER = 4 * 2**20  # bytes, so that there is room for others
SAME = ("run", "metric", "preset", "settings", "pictures", "draw", "repeats")  # a row's key
NEEDED = ("title", "what", "when", "device", "command")
ROUNDING = 1e-6  # scores may end a little outside their range


def faults(folder: Path, others: dict[str, Path]) -> Iterator[str]:
    """What is wrong with a folder, in sentences. `others` are folders that are there already, by name."""
    yield from _files(folder)
    try:
        note, opened = Note.read(folder), Folder.open(folder)
        table = opened.store.table()
    except RequestError as error:
        yield str(error)
        return
    for name in NEEDED:
        if not getattr(note, name):
            yield f"note.json says nothing under {name!r}"
    if table.is_empty():
        yield "scores.parquet has no rows"
        return
    if unknown := set(table["run"]) - {run.identity for run in opened.runs}:
        yield f"scores.parquet has {counted(len(unknown), 'run')} that request.json does not describe: {min(unknown)}"
    if unscored := {run.identity for run in opened.runs} - set(table["run"]):
        yield f"{counted(len(unscored), 'run')} of request.json have no number: {min(unscored)}"
    yield from _values(table)
    yield from _judgements(folder, {run.identity for run in opened.runs})
    for name, path in others.items():
        yield from _differences(table, name, Folder.open(path).store.table())


def _files(folder: Path) -> Iterator[str]:
    """Files that results do not have, links, and too many bytes."""
    size = 0
    for path in sorted(folder.rglob("*")):
        place = path.relative_to(folder)
        if path.is_symlink():
            yield f"{place} is a link: only plain files are taken"
        elif path.is_file():
            size += path.stat().st_size
            is_expected = (
                place.name in FILES if len(place.parts) == 1 else place.suffix in FOLDERS.get(place.parts[0], ())
            )
            if not is_expected or len(place.parts) > 2:
                yield f"{place} is no file of results: tools/ship_results.py copies only files of results"
    if size > ONE_FOLDER:
        yield (
            f"the folder takes {size / 2**20:.1f} MiB of {ONE_FOLDER / 2**20:.0f}: leave out matrices, shown or models"
        )


def _values(table: pl.DataFrame) -> Iterator[str]:
    """Scores that cannot be: not finite without a flag, or outside their range."""
    meanings = score_meanings()
    for (metric,), rows in table.filter(kind="metric").partition_by("metric", as_dict=True).items():
        values = rows.filter(pl.col("flags").list.len() == 0)["value"].to_list()
        if any(value is None or not math.isfinite(value) for value in values):
            yield f"{metric} has values that are not finite and have no flag"
        if (meaning := meanings.get(str(metric))) is not None:
            finite = [value for value in rows["value"].to_list() if value is not None and math.isfinite(value)]
            if finite and not meaning.low - ROUNDING <= min(finite) <= max(finite) <= meaning.high + ROUNDING:
                yield f"{metric} goes from {min(finite):g} to {max(finite):g}, outside its range"


def _judgements(folder: Path, runs: set[str]) -> Iterator[str]:
    for path in sorted((folder / "judged").glob("*.safetensors")):
        try:
            question = load_judgement(path).question
        except RequestError as error:
            yield str(error)
            continue
        if foreign := set(question.runs) - runs:
            yield f"judged/{path.name} is about run {min(foreign)}, which request.json does not describe"


def _differences(table: pl.DataFrame, name: str, other: pl.DataFrame) -> Iterator[str]:
    """Numbers that another folder has, too, with another value."""
    columns = [column for column in SAME if column in table.columns and column in other.columns]
    pairs = table.join(other.select(*columns, "value"), on=columns, nulls_equal=True)
    different = pairs.filter((pl.col("value") - pl.col("value_right")).abs() > ROUNDING)
    if len(different):
        row = different.row(0, named=True)
        yield f"{row['metric']} of run {row['run']} is {row['value']:g} here and {row['value_right']:g} in {name}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path)
    folders = parser.parse_args().folders or list(shipped(ROOT / "results").values())
    wrong = 0
    for folder in folders:
        others = {name: path for name, path in shipped(ROOT / "results").items() if path.resolve() != folder.resolve()}
        sentences = list(faults(folder, others))
        wrong += len(sentences)
        print(f"{folder}: {'nothing wrong' if not sentences else counted(len(sentences), 'fault')}")
        for sentence in sentences:
            print(f"  - {sentence}")
    size = sum(path.stat().st_size for path in (ROOT / "results").rglob("*") if path.is_file())
    if size > LARGEST:
        print(f"all results take {size / 2**20:.1f} MiB of {LARGEST / 2**20:.0f}")
    sys.exit(1 if wrong or size > LARGEST else 0)


if __name__ == "__main__":
    main()
