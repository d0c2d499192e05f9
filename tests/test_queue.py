"""The queue that fills results/: cut anywhere it goes on elsewhere, packs that are not sound are refused."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from conftest import ROOT
from families import small_runs
from sober.errors import RequestError
from sober.files.packs import pack_bytes, pieces, read_packs
from sober.results.folder import Folder
from sober.results.shipped import Note, home, shipped
from sober.training.progress import Progress
from sober.types import Run
from sober.workflows import call as call_module
from sober.workflows.call import Call, brought
from sober.workflows.carried import _counts, as_pack, begin, begun_in, carried_in, unfinished
from sober.workflows.merge import merge
from sober.workflows.opened import open_results
from sober.workflows.pace import Pace, estimated_training
from sober.workflows.queue import ROOM, Queue, runs_in
from sober.workflows.wanted import Entry, named, read_wanted
from test_imports import ALLOWED, TRAINING_MACHINE

TIMES = ("seconds", "device", "versions")
STUDY = """
from sober import Adam, Product, Scale, Study, Training

STRENGTHS = {"beta": [1.0, 2.0, 4.0]}
TRAINING = Training(steps=4_000, latents=3, optimiser=Adam(1e-3))
study = Study(
    name="small",
    title="Two methods on blocks",
    paper="nobody's",
    products=[Product(["blocks"], {"beta_vae": STRENGTHS, "beta_tcvae": STRENGTHS, "vae": {}}, 3, TRAINING)],
    metrics=["mig"],
    criteria={"udr": {}, "elbo": {}},
)
"""
LIST = """
precision = "float32"
together = 2
metrics = ["mig", "sap", "modularity", "active_latents"]

[criteria]
udr = { among = "settings" }

[[entry]]
name = "small_blocks"
what = "two methods on blocks, hardly trained"
study = "STUDY"
methods = ["beta_vae", "beta_tcvae"]
strengths = 2
seeds = 2
steps = 60
batch = 16
pictures = 300
models = true
"""


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("list") / "wanted.toml"
    (path.parent / "small.py").write_text(STUDY)
    path.write_text(LIST.replace("STUDY", str(path.parent / "small.py")))
    return path


@pytest.fixture(scope="module")
def entries(listed: Path) -> tuple[Entry, ...]:
    return read_wanted(listed)


def work(entries: Sequence[Entry], folder: Path, *packs: Path, **settings: Any) -> list[str]:
    """A call in a folder of its own, with packs brought along; what it said."""
    said: list[str] = []
    limit = settings.pop("limit", float("inf"))
    call = Call(Queue(entries, limit=limit), folder / "work", folder / "packs", say=said.append, **settings)
    call.bring(brought([*packs, folder / "packs"], said.append))
    call.all()
    return said


@pytest.fixture(scope="module")
def packs(entries: tuple[Entry, ...], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Those of the whole list, done in one go."""
    folder = tmp_path_factory.mktemp("whole")
    said = work(entries, folder)
    assert [line.split(":")[0] for line in said] == ["next", "done", "next", "done", "8 models finished; in "
            + f"{folder / 'packs'}"]  # fmt: skip
    assert not list((folder / "work").iterdir())
    return folder / "packs"


@pytest.fixture(scope="module")
def results(packs: Path, entries: tuple[Entry, ...], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    (added,) = merge([packs], folder, entries)
    assert (added.name, added.models, added.skipped) == ("small_blocks", 8, 0)
    assert added.rows == len(open_results(folder / "small_blocks").table())
    return folder


def table(results: Path) -> pl.DataFrame:
    return open_results(results / "small_blocks").table().drop(TIMES)


# What is in.


def test_what_is_merged_is_a_folder_of_the_usual_layout_with_a_note(results: Path) -> None:
    folder = results / "small_blocks"
    kept = {path.relative_to(folder).parts[0] for path in folder.rglob("*") if path.is_file()}
    assert kept == {"request.json", "columns.json", "scores.parquet", "note.json", "judged", "matrices", "shown",
                    "models"}  # fmt: skip
    note = Note.read(folder)
    assert note.what == "two methods on blocks, hardly trained"
    assert note.title == "Two methods on blocks"
    assert {"sober", "jax", "numpy"} <= note.versions.keys()
    assert [made["models"] for made in note.made] == [4, 4]
    opened = open_results(folder)
    assert opened.request.title == note.what  # above a report, so that nobody takes it for the whole study
    assert len(opened.runs) == 8
    assert {"mig", "sap", "udr", "elbo", "train_loss"} <= set(opened.table()["metric"])
    assert runs_in(results) == {run.identity for run in opened.runs}
    shown = [path.stem for path in sorted((folder / "shown").iterdir())]
    assert len(shown) == 2
    assert shown == [path.stem for path in sorted((folder / "models").iterdir())]
    assert len({opened.run(name).seedless for name in shown}) == 1


def digest(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*"))
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "" for path in files}


def test_reading_writes_nothing_into_it(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from sober.cli import main  # noqa: PLC0415

    monkeypatch.chdir(tmp_path)
    folder, before = results / "small_blocks", digest(results)
    for name in ("report", "tables", "select", "traverse"):
        main([name, str(folder)])
    main(["study", "status", str(folder)])
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("small_blocks-report.html", "small_blocks-tables", "small_blocks-traversals.png")
    ]
    page = (tmp_path / "small_blocks-report.html").read_text(encoding="utf-8")
    assert page.count('class="pair"') == 1
    assert page.count('<figure style="--aspect') == 2
    assert "the model to use: 8 of 8" in capsys.readouterr().out
    assert digest(results) == before


@pytest.mark.parametrize("command", [["score"], ["encode"], ["select", "--criterion", "model_centrality"]])
def test_what_needs_models_or_changes_it_is_refused_in_a_line(
    command: list[str], results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from sober.cli import main  # noqa: PLC0415

    before = digest(results)
    with pytest.raises(SystemExit) as ended:
        main([command[0], str(results / "small_blocks"), *command[1:]])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "is only read" in said or "keeps no models" in said
    assert digest(results) == before


def test_a_folder_that_cannot_be_written_to_is_opened(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As root every folder can be: so what the system says is replaced, and the note taken away."""
    folder = shutil.copytree(results / "small_blocks", tmp_path / "copy")
    (folder / "note.json").unlink()
    shutil.rmtree(folder / "models")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "access", lambda path, mode: not Path(path).is_relative_to(folder))
    before = digest(folder)
    opened = open_results(folder)
    assert_frame_equal(opened.table().drop(TIMES), table(results))
    assert opened.report() == Path("copy-report.html")
    assert opened.select("udr").best.run in opened.runs
    with pytest.raises(RequestError, match="keeps no models, which this needs"):
        opened.score(["mig"])
    assert digest(folder) == before


def test_a_damaged_table_that_is_only_read_is_named_and_left(results: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(results / "small_blocks", tmp_path / "copy")
    (folder / "scores.parquet").write_bytes((folder / "scores.parquet").read_bytes()[:-9])
    before = digest(folder)
    with pytest.raises(RequestError, match=r"scores.parquet .*: restore it"):
        open_results(folder).table()
    assert digest(folder) == before


def test_results_that_come_with_sober_are_opened_by_name(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sober  # noqa: PLC0415
    import sober.results.store  # noqa: PLC0415 -- a module of the room, which can still be imported
    from sober.cli import main  # noqa: PLC0415

    monkeypatch.setattr("sober.results.shipped.home", lambda: results)
    assert_frame_equal(sober.results("small_blocks").table().drop(TIMES), table(results))  # type: ignore[operator]
    assert len(sober.open("small_blocks").runs) == 8
    assert sober.results.store.Store is not None
    with pytest.raises(RequestError, match="no results named 'mine' come with Sober: choose from small_blocks"):
        sober.results("mine")  # type: ignore[operator]
    main(["results"])


def test_the_command_lists_them(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from sober.cli import main  # noqa: PLC0415

    main(["results"])
    monkeypatch.setattr("sober.cli.results.shipped", lambda: shipped(results))
    main(["results"])
    said = " ".join(capsys.readouterr().out.split())
    assert "small_blocks 8 blocks" in said
    assert Note.read(results / "small_blocks").when in said


# Cut, and going on.


class Clock:
    """Stands still until a training has come to a step, and is then behind the end of a call."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, limit: float, until: Callable[[Progress], bool]) -> None:
        self.now, watched = 0.0, call_module._Watch.progress

        def progress(watch: Any, progress: Progress) -> None:
            if until(progress):
                self.now = limit
            watched(watch, progress)

        monkeypatch.setattr(call_module._Watch, "progress", progress)

    def __call__(self) -> float:
        return self.now


def test_cut_by_its_time_it_goes_on_elsewhere_and_ends_the_same(
    entries: tuple[Entry, ...], results: Path, tmp_path: Path
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        clock = Clock(patch, 1000.0, lambda progress: progress.step >= 40)
        said = work(entries, tmp_path / "first", limit=1000.0, clock=clock, end=lambda code: None)
    assert "done" not in " ".join(said).split("; in")[0].split("finished")[0]
    (pack,), wrong = read_packs([tmp_path / "first" / "packs"])
    assert wrong == []
    (begun,) = carried_in(pack, "begun")
    assert begun.entry == "small_blocks"
    assert any(name.startswith("checkpoints/") for name in begun.files)
    work(entries, tmp_path / "second", tmp_path / "first" / "packs")
    merge([tmp_path / "second" / "packs"], tmp_path / "results", entries)
    assert_frame_equal(table(tmp_path / "results"), table(results))


def test_cut_while_it_scores_it_keeps_what_was_found(entries: tuple[Entry, ...], results: Path, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        clock = Clock(patch, 1000.0, lambda progress: progress.step == progress.steps)
        work(entries, tmp_path / "first", limit=1000.0, clock=clock, end=lambda code: None)
    (pack,), _ = read_packs([tmp_path / "first" / "packs"])
    (begun,) = carried_in(pack, "begun")
    assert sum(name.startswith("models/") for name in begun.files) == 4
    said = work(entries, tmp_path / "second", tmp_path / "first" / "packs")
    assert said[0].startswith("next: small_blocks: 4 models of 2 settings, beta_vae on blocks")
    merge([tmp_path / "second" / "packs"], tmp_path / "results", entries)
    assert_frame_equal(table(tmp_path / "results"), table(results))


QUEUE = """
import runpy, sys
import sober.workflows.call as call
call.PACKED, call.SAVED = 0.3, 0.1
path = sys.argv[1]
sys.argv = sys.argv[1:]
runpy.run_path(path, run_name="__main__")
"""
SCRIPT = ROOT / "benchmarks" / "results_queue.py"


def options(listed: Path, folder: Path) -> list[Path | str]:
    return ["--wanted", listed, "--out", folder / "packs", "--work", folder / "work", "--results", folder / "results"]


def test_killed_without_a_word_it_goes_on_from_its_packs(
    listed: Path, entries: tuple[Entry, ...], tmp_path: Path, start: Callable[..., subprocess.Popen[str]]
) -> None:
    longer = tmp_path / "wanted.toml"
    longer.write_text(
        listed.read_text().replace("steps = 60", "steps = 200000").replace("strengths = 2", "strengths = 1")
    )
    process = start(QUEUE, SCRIPT, *options(longer, tmp_path))
    until = time.monotonic() + 120
    begun: list[Any] = []
    while not begun and time.monotonic() < until and process.poll() is None:
        time.sleep(0.1)
        packed, _ = read_packs([path for path in (tmp_path / "packs").glob("*.pack") if path.exists()])
        begun = [piece for pack in packed for piece in carried_in(pack, "begun")
                 if any(name.endswith(".safetensors") for name in piece.files)]  # fmt: skip
    process.kill()
    process.wait()
    assert begun, process.stdout and process.stdout.read()
    packed, _ = read_packs([tmp_path / "packs"])
    (piece,) = [piece for pack in packed for piece in carried_in(pack, "begun")]
    call = Call(Queue(read_wanted(longer)), tmp_path / "elsewhere", tmp_path / "new", say=lambda text: None)
    call.bring(packed)
    ((_, folder),) = begun_in(tmp_path / "elsewhere", call.queue.entries)
    assert tuple(folder.runs) == piece.runs
    (cohort,) = folder.request.cohorts
    assert list(folder.checkpoints(cohort).glob("*.safetensors"))
    following = call._next()
    assert following is not None
    assert following.runs == cohort.runs


def test_it_runs_on_a_machine_that_has_little_and_its_packs_are_merged(
    listed: Path, packs: Path, results: Path, entries: tuple[Entry, ...], tmp_path: Path,
    start: Callable[..., subprocess.Popen[str]],
) -> None:  # fmt: skip
    """Without Polars, the command line, and the like; with what is done before brought along as packs."""
    allowed = ",".join({*ALLOWED, "numba", "llvmlite", "h5py"})
    code = TRAINING_MACHINE + "del sys.argv[1]\n" + QUEUE
    process = start(code, allowed, SCRIPT, *options(listed, tmp_path), "--minutes", "30")
    said = process.communicate(timeout=240)[0]
    assert process.returncode == 0, said
    assert "8 models finished" in said
    (added,) = merge([tmp_path / "packs"], tmp_path / "results", entries)
    assert added.models == 8
    assert_frame_equal(table(tmp_path / "results"), table(results))


def test_too_much_to_be_carried_is_carried_in_part(entries: tuple[Entry, ...], tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        clock = Clock(patch, 1000.0, lambda progress: progress.step >= 40)
        work(entries, tmp_path / "first", limit=1000.0, clock=clock, end=lambda code: None)
    ((_, folder),) = begun_in(tmp_path / "first" / "work", entries)
    whole = unfinished(folder.path, ROOM)
    assert whole is not None
    assert len(whole.runs) == 4
    size = sum(map(len, whole.files.values()))
    part = unfinished(folder.path, int(0.7 * size))
    assert part is not None
    assert part.runs == whole.runs[:2]
    assert sum(map(len, part.files.values())) <= 0.7 * size
    assert unfinished(folder.path, 100) is None
    data = pack_bytes(*as_pack("begun", [part]))
    (tmp_path / "part").mkdir()
    for name, content in pieces("begun", data).items():
        (tmp_path / "part" / name).write_bytes(content)
    work(entries, tmp_path / "second", tmp_path / "part")
    merge([tmp_path / "second" / "packs"], tmp_path / "results", entries)
    assert len(open_results(tmp_path / "results" / "small_blocks").runs) == 8


@pytest.mark.parametrize(("most", "counts"), [(9, [8, 4, 3, 2, 1]), (4, [4, 3, 2, 1]), (3, [3, 2, 1]), (0, [])])
def test_whole_settings_are_carried_where_there_is_room_for_one(most: int, counts: list[int]) -> None:
    runs = small_runs(sweep={"beta": [1, 2, 4]}, seeds=4)
    assert list(_counts(runs, most)) == counts


def test_a_piece_that_was_finished_elsewhere_is_not_done_again(
    entries: tuple[Entry, ...], packs: Path, tmp_path: Path
) -> None:
    (first, *_) = entries[0].groups
    begin(tmp_path / "work", entries[0], first)
    said = work(entries, tmp_path, packs)
    assert len(said) == 1
    assert said[0].startswith("0 models finished")
    assert not list((tmp_path / "work").iterdir())


# What is next.


def pace_of(entry: Entry, runs: Sequence[Run], training: float, measuring: float) -> Pace:
    """One at which these runs take so many seconds."""
    pace = Pace()
    seconds = estimated_training(entry.plan, runs)
    pace.trained(entry.plan, runs, runs[0].steps * len(runs) / training)
    pace.measured(entry, runs, measuring)
    assert pace.training(entry.plan, runs) == pytest.approx(training)
    assert pace.measuring(entry, runs) == pytest.approx(measuring)
    assert seconds > 0
    return pace


def queued(entry: Entry, training: float, measuring: float = 1.0, **settings: Any) -> Queue:
    """As if a group took so long; on a CPU more models take longer in proportion."""
    return Queue([entry], (), pace_of(entry, entry.groups[0], training, measuring), **settings)


@pytest.mark.parametrize(
    ("training", "room", "models", "finishes"),
    [
        (1.0, ROOM, 4, True),  # all strengths of a method
        (300.0, ROOM, 2, True),  # one strength
        (3_000.0, ROOM, 4, False),  # nothing is finished: what can be carried
        (600.0, 0, 1, True),  # nothing can be carried: one seed is finished
        (900_000.0, 0, 0, False),
    ],
)
def test_a_piece_is_as_large_as_its_time_or_its_packs_allow(
    training: float, room: int, models: int, finishes: bool, entries: tuple[Entry, ...]
) -> None:
    queue = queued(entries[0], training, room=room, limit=540.0)
    queue.left_out = {run.identity for group in entries[0].groups for run in group if run.method == "beta_tcvae"}
    said: list[str] = []
    piece = queue.next(queue.limit, said.append)
    assert (0 if piece is None else len(piece.runs)) == models
    if piece is None:
        assert "give more --minutes" in said[0]
    else:
        assert piece.finishes == finishes
        assert ("to go on elsewhere" in piece.words()) != finishes


def test_where_little_time_is_left_a_group_is_not_cut(entries: tuple[Entry, ...]) -> None:
    queue = queued(entries[0], 300.0, room=0, limit=540.0)
    assert queue.next(100.0) is None
    assert not queue.left_out


def test_what_was_not_seen_yet_is_tried_once(entries: tuple[Entry, ...]) -> None:
    queue = Queue(entries, room=0, limit=0.01)
    piece = queue.next(queue.limit)
    assert piece is not None
    assert piece.runs == entries[0].groups[0]


def test_training_that_is_seen_to_be_too_slow_is_begun_again_with_fewer(
    entries: tuple[Entry, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_module, "LOOK", -1.0)
    queue = Queue(entries, room=0, limit=540.0)
    call = Call(queue, tmp_path / "work", tmp_path / "packs", say=lambda text: None)
    piece = queue.next(queue.limit)
    assert piece is not None
    watch = call_module._Watch(call, piece)
    slow = Progress(4, 4 * 10**6, 10.0, 4e5, 1, 10**6, 4, 1, 1, 0.0)
    with pytest.raises(call_module.TooSlow, match="begun again with fewer models"):
        watch.progress(slow)
    assert queue.pace.knows(piece.entry.plan, piece.runs[0])


# Packs that are not sound.


def write(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def remade(
    packs: Path, folder: Path, files: Callable[[dict[str, bytes]], dict[str, bytes]] = dict, **about: Any
) -> Path:
    """The pack with other files, or another word about its pieces, and checksums that are right."""
    (pack,), _ = read_packs([packs])
    known = {name: {**each, **about} for name, each in pack.about["pieces"].items()}
    return write(folder, pieces("done", pack_bytes({**pack.about, "pieces": known}, files(dict(pack.files)))))


@pytest.mark.parametrize("place", [0, 30, 400, -400, -2])
def test_a_damaged_pack_is_refused(place: int, packs: Path, entries: tuple[Entry, ...], tmp_path: Path) -> None:
    (path,) = packs.iterdir()
    data = bytearray(path.read_bytes())
    data[place] ^= 0x55
    (tmp_path / path.name).write_bytes(data)
    with pytest.raises(RequestError, match=r"damaged|not here|another version"):
        merge([tmp_path], tmp_path / "results", entries)
    assert not (tmp_path / "results").exists()
    said: list[str] = []
    assert brought([tmp_path], said.append) == []
    assert said[0].startswith("left out: ")


@pytest.mark.parametrize("length", [0, 10, 500])
def test_a_pack_that_was_cut_off_is_refused(
    length: int, packs: Path, entries: tuple[Entry, ...], tmp_path: Path
) -> None:
    (path,) = packs.iterdir()
    (tmp_path / path.name).write_bytes(path.read_bytes()[:length])
    with pytest.raises(RequestError, match="damaged"):
        merge([tmp_path], tmp_path / "results", entries)


def test_a_pack_in_pieces_needs_all_of_them(tmp_path: Path) -> None:
    content = {"models/x.safetensors": os.urandom(5000)}
    files = pieces("begun", pack_bytes({"kind": "begun"}, content), size=1500)
    assert len(files) > 3
    assert all(len(data) <= 1500 for data in files.values())
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789.-") for name in files)
    (pack,), wrong = read_packs([write(tmp_path / "whole", files)])
    assert (pack.files, wrong) == (content, [])
    first, *_ = files
    write(tmp_path / "part", {name: data for name, data in files.items() if name != first})
    found, (said,) = read_packs([tmp_path / "part"])
    assert found == []
    assert "piece 1 is not here" in said


@pytest.mark.parametrize(
    "name", ["../outside.json", "/tmp/outside.json", "parts/../../outside.json", "a\\..\\b", ".hidden", "x/.y", ""]
)
def test_no_name_leads_out_of_a_folder(name: str, packs: Path, entries: tuple[Entry, ...], tmp_path: Path) -> None:
    folder = remade(packs, tmp_path / "in" / "bad", lambda files: files | {name: b"{}"})
    with pytest.raises(RequestError, match=r"leads out of a folder|is no pack|manifest"):
        merge([folder], tmp_path / "in" / "results", entries)
    assert {path.name for path in tmp_path.rglob("*")} == {"in", "bad", *(path.name for path in folder.iterdir())}


@pytest.mark.parametrize("name", ["code.py", "models/x.pkl", "0123456789ab/run.py", "0123456789ab/note.json"])
def test_a_pack_holds_nothing_but_files_of_the_queue(
    name: str, packs: Path, entries: tuple[Entry, ...], tmp_path: Path
) -> None:
    folder = remade(packs, tmp_path / "bad", lambda files: files | {name: b"x"})
    with pytest.raises(RequestError, match="which is no file of the queue"):
        merge([folder], tmp_path / "results", entries)


def test_an_archive_that_grows_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sober.files.packs.LARGEST", 10_000)
    data = pack_bytes({"kind": "done"}, {"parts/x.json": bytes(200_000)})
    assert len(data) < 10_000
    found, (said,) = read_packs([write(tmp_path, pieces("done", data))])
    assert found == []
    assert "holds more than a pack can" in said


def of_name(files: dict[str, bytes], part: str) -> str:
    return next(name for name in files if part in name)


def changed(part: str, change: Callable[[bytes], bytes]) -> Callable[[dict[str, bytes]], dict[str, bytes]]:
    def change_file(files: dict[str, bytes]) -> dict[str, bytes]:
        name = of_name(files, part)
        return files | {name: change(files[name])}

    return change_file


def other_row(data: bytes) -> bytes:
    """A part whose first score has another number, and a checksum that is right."""
    part = json.loads(data.partition(b"\n")[2])
    row = next(row for row in part["scores"] if row.get("value") is not None)
    row["value"] += 1.0
    return sealed_part(part)


def other_type(data: bytes) -> bytes:
    part = json.loads(data.partition(b"\n")[2])
    part["scores"][0]["value"] = "high"
    return sealed_part(part)


def other_run(data: bytes) -> bytes:
    part = json.loads(data.partition(b"\n")[2])
    part["runs"][0]["steps"] += 1
    return sealed_part(part)


def sealed_part(part: dict[str, Any]) -> bytes:
    data = json.dumps(part).encode()
    return hashlib.sha256(data).hexdigest().encode() + b"\n" + data


@pytest.mark.parametrize(
    ("files", "about", "says"),
    [
        (dict, {"versions": {"sober": "99"}}, "was made with Sober 99, and this is"),
        (dict, {"entry": "other"}, "nothing named 'other' is wanted"),
        (dict, {"runs": ["0" * 16]}, "is none of those that the list has under small_blocks"),
        (dict, {"runs": ["../../../x"]}, "is no pack of the queue"),
        (dict, {"runs": []}, "is no pack of the queue"),
        (changed("/parts/", lambda data: data[:-1] + b" "), {}, "is refused: .*checksum"),
        (changed("/parts/", other_run), {}, "describe another"),
        (changed("/parts/", other_type), {}, "is refused: .*cannot be used"),
        (changed("/judged/", lambda data: data[:-1]), {}, "is refused: judged/"),
        (changed("/shown/", lambda data: data[:-1]), {}, "is refused: shown/"),
        (changed("/models/", lambda data: data[:-1]), {}, "is refused: models/"),
        (lambda files: {k: v for k, v in files.items() if "columns" not in k}, {}, "has no table"),
    ],
)
def test_a_pack_that_is_not_what_it_says_is_refused(
    files: Any, about: dict[str, Any], says: str, packs: Path, entries: tuple[Entry, ...], tmp_path: Path
) -> None:
    folder = remade(packs, tmp_path / "bad", files, **about)
    with pytest.raises(RequestError, match=says):
        merge([folder], tmp_path / "results", entries)
    assert not (tmp_path / "results").exists()


def test_the_same_again_is_skipped_and_a_different_number_refused(
    packs: Path, results: Path, entries: tuple[Entry, ...], tmp_path: Path
) -> None:
    here = shutil.copytree(results, tmp_path / "results")
    before, rows = digest(here), len(table(here))
    (added,) = merge([packs], here, entries)
    assert added == ("small_blocks", 0, 0, rows)
    assert digest(here) == before
    other = remade(packs, tmp_path / "other", changed("/parts/", other_row))
    with pytest.raises(RequestError, match=r"small_blocks: \w+ of run [0-9a-f]{16} is .* there and .* in the packs"):
        merge([other], here, entries)
    assert digest(here) == before


def test_what_comes_later_joins_what_is_there(
    packs: Path, results: Path, entries: tuple[Entry, ...], tmp_path: Path
) -> None:
    (pack,), _ = read_packs([packs])
    for number, piece in enumerate(carried_in(pack, "done")):
        data = pack_bytes(*as_pack("done", [piece]))
        (added,) = merge([write(tmp_path / str(number), pieces("done", data))], tmp_path / "results", entries)
        assert added.models == 4
    assert_frame_equal(table(tmp_path / "results"), table(results))
    assert runs_in(tmp_path / "results") == runs_in(results)
    assert len(list((tmp_path / "results" / "small_blocks" / "shown").iterdir())) == 2
    assert [made["models"] for made in Note.read(tmp_path / "results" / "small_blocks").made] == [4, 4]


# The list that comes with Sober.


@pytest.fixture(scope="module")
def wanted() -> tuple[Entry, ...]:
    return read_wanted()


FOR_A_GPU = 9  # entries; those after them are for a CPU


def test_the_list_has_what_the_papers_have(wanted: tuple[Entry, ...]) -> None:
    counts = [(entry.name, len(entry.plan.runs)) for entry in wanted]
    assert counts == [
        ("sober_look_dsprites_100k", 180),
        ("sober_look_dsprites", 180),
        ("dava", 3 * 125),
        ("rooms", 50),
        ("sober_look_color", 180),
        ("beta_tcvae_dsprites", 100),
        ("beta_tcvae_biased", 120),
        ("dci_teapots", 20),
        ("sober_look_dsprites", 1800),
        ("dsprites_small_nets", 40),
        ("rooms_on_a_cpu", 3),
        ("abstract_dsprites_small_nets", 30),
    ]
    steps = {entry.name: {run.steps for run in entry.plan.runs.values()} for entry in wanted}
    assert steps["sober_look_dsprites_100k"] == {100_000}
    assert steps["sober_look_dsprites"] == {300_000}
    assert steps["dava"] == steps["rooms"] == {150_000}
    for place, entry in enumerate(wanted):
        assert {run.precision for run in entry.plan.runs.values()} == {"bfloat16" if place < FOR_A_GPU else "float32"}
    assert {run.batch for run in wanted[2].plan.runs.values()} == {128}
    assert {run.nets for run in wanted[5].plan.runs.values()} == {"dense"}


@pytest.mark.parametrize("place", range(12))
def test_every_group_is_the_seeds_of_a_setting(place: int, wanted: tuple[Entry, ...]) -> None:
    entry = wanted[place]
    assert sum(map(len, entry.groups)) == len(entry.plan.runs)
    for group in entry.groups:
        assert len({run.seedless for run in group}) == 1
        assert [run.seed for run in group] == list(range(group[0].seed, group[0].seed + len(group)))
        assert len(group) == {"rooms_on_a_cpu": 3}.get(entry.name, 2 if entry.name.endswith("small_nets") else 5)
    own, every = entry.measures
    assert every.metrics == ("all",)
    assert own.among == "cohort"
    assert all(dict(settings).get("among", "settings") == "settings" for _, settings in own.criteria)


def test_the_list_is_shown_with_what_it_costs(wanted: tuple[Entry, ...]) -> None:
    queue = Queue(wanted, set(wanted[0].plan.runs))
    lines = list(queue.lines())
    assert [line.done for line in lines] == [180, *[0] * (len(wanted) - 1)]
    assert lines[0].gpu_hours == 0
    assert all(line.gpu_hours > 0.3 for line in lines[1:FOR_A_GPU])
    assert lines[FOR_A_GPU - 1].models == 1620  # those of the entry of the same name are counted there


def test_an_entry_may_say_what_its_study_says_otherwise(listed: Path) -> None:
    text = listed.read_text().replace('["beta_vae", "beta_tcvae"]', "{ beta_vae = { beta = [3] } }")
    text += 'precision = "bfloat16"\ncriteria = ["elbo"]\ntasks = { downstream = { largest = 1_000 } }\n'
    path = listed.with_name("otherwise.toml")
    path.write_text(text)
    (entry,) = read_wanted(path)
    own, _ = entry.measures
    assert {run.precision for run in entry.plan.runs.values()} == {"bfloat16"}
    assert {(run.method, run.hyper["beta"]) for run in entry.plan.runs.values()} == {("beta_vae", 3.0)}
    assert [name for name, _ in own.criteria] == ["elbo"]
    assert [(name, dict(settings)["largest"]) for name, settings in own.tasks] == [("downstream", 1_000)]


def test_a_part_of_the_list_is_chosen_by_its_name(wanted: tuple[Entry, ...]) -> None:
    command = [sys.executable, ROOT / "benchmarks" / "results_queue.py", "--list", "--only"]
    shown = subprocess.run([*command, "rooms"], capture_output=True, text=True, check=True)
    assert "| rooms |" in shown.stdout
    assert shown.stdout.count("\n| ") == 1  # and the head
    assert [entry.name for entry in named(wanted, "sober_look_dsprites")] == ["sober_look_dsprites"] * 2
    with pytest.raises(RequestError, match=r"nothing named 'room' is wanted: the list has .*, beta_tcvae_biased, "):
        named(wanted, "room")


def test_a_list_that_is_wrong_is_refused_in_a_line(tmp_path: Path) -> None:
    path = tmp_path / "wanted.toml"
    for text, says in (
        ("precision = 3", "no list of wanted results"),
        (LIST.replace("steps = 60", "step = 60").replace("STUDY", "demo"), "small_blocks has no setting step"),
        (LIST.replace("STUDY", "demos"), "unknown study 'demos'"),
        (LIST.replace("STUDY", "demo").replace('"beta_tcvae"', '"tcvae"'), "demo has no method tcvae"),
    ):
        path.write_text(text)
        with pytest.raises(RequestError, match=says):
            read_wanted(path)
    with pytest.raises(RequestError, match="no list of wanted results"):
        read_wanted(tmp_path / "absent.toml")


INSTALLED = """
import sys
from pathlib import Path
import sober
from sober.results.shipped import home, shipped
from sober.workflows.wanted import read_wanted
assert Path(sober.__file__).is_relative_to(sys.argv[1]), sober.__file__
assert home().is_relative_to(sys.argv[1])
print(len(read_wanted()), *shipped(), len(sober.results("small_blocks").runs))
"""


def test_an_installed_package_has_them_too(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: Callable[..., subprocess.Popen[str]]
) -> None:
    """The package as a wheel lays it out, which pyproject.toml says, far from any checkout."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = settings["tool"]["hatch"]["build"]["targets"]["wheel"]
    (package,) = wheel["packages"]
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / package, tmp_path / "site" / Path(package).name, ignore=ignored)
    for source, target in wheel["force-include"].items():
        shutil.copytree(ROOT / source, tmp_path / "site" / target, ignore=ignored)
    for name, path in shipped(results).items():
        shutil.copytree(path, tmp_path / "site" / wheel["force-include"]["results"] / name)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    monkeypatch.chdir(tmp_path)
    said = start(INSTALLED, tmp_path / "site").communicate(timeout=120)[0].split()
    assert (said[0], said[-1]) == (str(len(read_wanted())), "8"), said
    assert "small_blocks" in said


def test_results_are_small_and_every_one_of_them_opens() -> None:
    from sober.results.shipped import LARGEST  # noqa: PLC0415

    files = [path for path in home().rglob("*") if path.is_file()]
    assert home() / "wanted.toml" in files
    assert sum(path.stat().st_size for path in files) < LARGEST
    for path in shipped().values():
        assert len(open_results(path).table())
        assert set(Folder.open(path).runs) == set(open_results(path).table()["run"])
