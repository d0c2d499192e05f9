"""Merges folders of results: what was trained or measured on several machines becomes one folder.

Takes folders, and archives that `tools/train_wanted.py` left. The result is their union. A file or a number that two of
them have must be the same in both. A kill at any point does no harm: the same command goes on, because every file is
whole or absent, and the request, which says what the folder holds, is written last. Until then, a new folder holds a
file `.merging`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from sober.criteria.verdict import Verdict
from sober.errors import RequestError
from sober.files import folder_names, is_there, load_arrays, locked, reading, writable_folder, write_json
from sober.files.archives import unzip
from sober.requests.results import Results
from sober.results.folder import Folder, usable_folder
from sober.results.repeat_files import joined_repeats, load_repeats, save_repeats
from sober.results.request import Cohort, Request, asked_of
from sober.results.store import Store
from sober.results.table_files import put
from sober.results.table_rows import KEY, Key
from sober.results.training_state_files import load_training_states, save_training_states
from sober.results.verdict_files import forget_verdict, load_verdicts, save_verdict

COPIED = ("models", "codes", "judged", "matrices", "shown")  # folders whose files are named by what they hold
MARKS = "judged/training-"  # these files grow, and are merged
UNFINISHED = ".merging"  # a file in a new folder until its request is written


def merge(sources: Sequence[str | Path], out: str | Path) -> Results:
    """Brings the results of folders and archives together in one folder, new or made by an earlier merge.

    >>> sober.merge(["from_gpu/archives", "from_cluster"], out="all")
    """
    if not sources:
        raise RequestError("name at least one folder or archive to merge")
    places = [place for source in sources for place in archives(Path(source))]
    path = writable_folder(Path(out))
    if not is_there(path / UNFINISHED):
        usable_folder(path)
    with locked(path), contextlib.ExitStack() as opened:
        folders = [opened.enter_context(_open(place)) for place in places]
        before = [Folder.open(path)] if is_there(path / "request.json") else []
        request = _union([folder.request for folder in [*before, *folders]])
        _refuse_different_numbers([*before, *folders])
        repeats = joined_repeats([folder.path for folder in [*before, *folders]])
        verdicts = _verdicts_on_all_models(request, folders) | _verdicts_on_all_models(request, before)
        (path / UNFINISHED).touch()
        store = Store.create(path)
        for folder in folders:
            _copy_files(folder.path, path)
            _merge_training_states(folder, path)
            if folder.path != path:
                store.take(folder.store)
        if repeats is not None and not repeats.equals(load_repeats(path)):
            save_repeats(path, repeats)
        _replace_verdicts(path, verdicts)
        write_json(path / "request.json", request.plain())
        (path / UNFINISHED).unlink(missing_ok=True)
    return Results.of(Folder.open(path))


def archives(source: Path) -> list[Path]:
    """The folders of results and the archives that a path names: the path itself, or those inside it."""
    if source.is_file() or (source / "request.json").exists():
        return [source]
    if not source.exists():
        raise RequestError(f"there is no folder or archive {source}")
    places = sorted(source.glob("*.zip")) + sorted(path.parent for path in source.glob("*/request.json"))
    if not places:
        raise RequestError(f"{source} holds neither results nor archives of results (*.zip)")
    return places


@contextlib.contextmanager
def _open(place: Path) -> Iterator[Folder]:
    """The folder of results in a place; an archive is unpacked for as long as the block lasts."""
    if place.is_dir():
        yield Folder.open(place)
        return
    with tempfile.TemporaryDirectory(prefix="sober-merge-") as unpacked:
        unzip(place, Path(unpacked))
        if not is_there(Path(unpacked) / "request.json"):
            raise RequestError(f"{place} holds no results: request.json must be in it, and in none of its folders")
        try:
            folder = Folder.open(unpacked)
        except RequestError as error:
            raise RequestError(f"{place}: {error}") from error
        yield folder


def _refuse_different_numbers(folders: Sequence[Folder]) -> None:
    """Refuses folders that say different things about one number, before anything is copied."""
    first_values: dict[Key, tuple[float | None, Path]] = {}
    for folder in folders:
        for row in folder.store.rows():
            key, value = (*(row[name] for name in KEY), row["models"]), row.get("value")
            other, path = first_values.setdefault(key, (value, folder.path))
            if other != value:
                raise RequestError(
                    f"{row['metric']} of run {row['run']} is {other} in {path} and {value} in {folder.path}: one of "
                    "them is wrong, so nothing was merged"
                )


def _same_arrays(one: Path, other: Path) -> bool:
    """Whether two files hold the same arrays and metadata: their order in a file is another in each process."""
    if one.suffix != ".safetensors":
        return False
    (arrays, metadata), (other_arrays, other_metadata) = load_arrays(one), load_arrays(other)
    same_names = arrays.keys() == other_arrays.keys() and metadata == other_metadata
    return same_names and all(
        array.dtype == other_arrays[name].dtype and np.array_equal(array, other_arrays[name], equal_nan=True)
        for name, array in arrays.items()
    )


def _copy_files(source: Path, out: Path) -> None:
    """Copies what is not there. A model with weights takes the place of its record without them."""
    for name in COPIED:
        for path in [source / name / file for file in folder_names(source / name)]:
            target = out / name / path.name
            if path.is_dir() or path.name.startswith(".") or f"{name}/{path.name}".startswith(MARKS):
                continue
            with reading(path):
                data = path.read_bytes()
            is_new = not is_there(target)
            if name == "models" and (is_new or len(data) > target.stat().st_size):
                load_arrays(path)  # a damaged model takes no sound one's place
            elif not is_new:
                if name in ("codes", "judged") and target.read_bytes() != data and not _same_arrays(path, target):
                    raise RequestError(
                        f"{path} and {target} differ: one of them is damaged, or made by another version"
                    )
                continue
            target.parent.mkdir(exist_ok=True)
            put(target, data)


def _merge_training_states(folder: Folder, out: Path) -> None:
    for world in folder.request.worlds:
        if states := load_training_states(folder.path, world):
            save_training_states(out, world, {**states, **load_training_states(out, world)})


def _verdicts_on_all_models(request: Request, folders: Sequence[Folder]) -> dict[str, Verdict]:
    """The verdicts of folders that have all models of a world that the merged folder has.

    A verdict on some of the models says nothing about all. `sober select` gives one.
    """
    verdicts: dict[str, Verdict] = {}
    for folder in folders:
        for world, verdict in load_verdicts(folder.path).items():
            if _identities(folder.request, world) != _identities(request, world):
                continue
            if verdicts.setdefault(world, verdict) != verdict:
                raise RequestError(
                    f"{folder.path} has another verdict on {world} than a folder before it, so nothing was merged: run "
                    "sober select on both in the same way, and merge again"
                )
    return verdicts


def _identities(request: Request, world: str) -> set[str]:
    return {run.identity for run in request.by_world().get(world, ())}


def _replace_verdicts(out: Path, verdicts: Mapping[str, Verdict]) -> None:
    saved = load_verdicts(out)
    for world in saved.keys() - verdicts.keys():
        forget_verdict(out, world)
    for world, verdict in verdicts.items():
        if saved.get(world) != verdict:
            save_verdict(out, world, verdict)


def _union(requests: Sequence[Request]) -> Request:
    """One request for all: each run once, in the cohort in which it comes first."""
    first = requests[0]
    cohorts: list[Cohort] = []
    identities: set[str] = set()
    for request in requests:
        for cohort in request.cohorts:
            if runs := [run for run in cohort.runs if run.identity not in identities]:
                cohorts.append(Cohort.of(runs))
                identities |= {run.identity for run in runs}
    worlds: dict[str, str] = {}
    for request in requests:
        for label, spec in request.worlds.items():
            if worlds.setdefault(label, spec) != spec:
                raise RequestError(f"the world {label} is {worlds[label]} in one folder and {spec} in another")
    runs = [run for cohort in cohorts for run in cohort.runs]
    alike = all(request.asked == first.asked for request in requests)
    return dataclasses.replace(
        first,
        maker=first.maker if all(request.maker == first.maker for request in requests) else "train",
        asked=first.asked if alike else asked_of(runs),
        worlds=worlds,
        cohorts=tuple(cohorts),
    )
