"""The store: the same table whoever writes it, in whatever order, and whenever a process is killed."""

from __future__ import annotations

import dataclasses
import errno
import io
import itertools
import json
import math
import os
import random
import socket
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import polars
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import sober.results.store
from sober.errors import RequestError
from sober.methods.settings import setting
from sober.results import Folder, Request, table_files
from sober.results.request import Cohort
from sober.results.store import Holder, Store
from sober.results.table_rows import KEY, Key, key_of
from sober.types import Adam, Run, Score
from test_files import ALONE

BETA = Run("dsprites", "beta_vae", {"beta": 4}, seed=1)
DAVA = Run("rooms", "dava", {"gamma": 500, "variant": "paper"}, latents=6)
CRITIC = Run("rooms", "factor_vae", {"gamma": 10, "second_batch": True}, steps=20)
RUNS = {run.identity: run for run in (BETA, DAVA, CRITIC)}

# Columns of the contract that every reader of the table relies on, in order.
BEFORE = [
    *("run", "world", "method", "nets", "latents", "steps", "batch"),
    *("learning_rate", "b1", "b2", "eps", "clip", "precision", "seed", "setting"),
]
AFTER = [
    *("kind", "metric", "preset", "settings", "better", "supervised", "matrix", "rule", "samples_of"),
    *("pictures", "draw", "repeats", "models", "value", "low", "high"),
    *("flags", "seconds", "device", "versions", "scale"),
]


def score(run: Run, metric: str, value: float, **others: Any) -> Score:
    return Score(run.identity, metric, value, **{"preset": "study", **others})


def scores(run: Run, names: Iterable[str], value: float = 0.5) -> list[Score]:
    return [score(run, name, value, settings={"bins": 20.0}, seconds=0.25) for name in names]


def keys(some: Iterable[Score]) -> dict[Key, int]:
    return {key_of(each): each.models for each in some}


def write(store: Store, some: Iterable[Score]) -> None:
    store.write(some, RUNS, in_words=setting, device="cpu", versions={"sober": "0.1"})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path / "store")


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_a_score_comes_back_with_all_that_is_known_of_it(store: Store) -> None:
    known = Score(
        BETA.identity,
        "gbt/mig_sampled",
        0.25,
        kind="metric",
        preset="study",
        settings={"bins": 20.0},
        better="lower",
        supervised=True,
        matrix="gbt",
        rule="mig",
        samples_of="gbt/mig",
        pictures=2000,
        draw=7,
        repeats=3,
        models=5,
        flags=("sampled", "collapsed"),
        interval=(0.2, 0.3),
        seconds=1.5,
        versions={"jax": "0.10"},
    )
    store.write([known], RUNS, in_words=setting, device="H200", versions={"sober": "0.1"}, scale="1/2")
    assert store.table().rows(named=True) == [
        {
            **{"run": BETA.identity, "world": "dsprites", "method": "beta_vae", "nets": "conv", "latents": 10},
            **{"steps": 300_000, "batch": 64, "learning_rate": 1e-4, "b1": 0.9, "b2": 0.999, "eps": 1e-8, "clip": None},
            **{"precision": "float32", "seed": 1, "setting": "beta_vae beta=4", "hyper_beta": 4.0},
            **{"kind": "metric", "metric": "gbt/mig_sampled", "preset": "study", "settings": '{"bins": 20.0}'},
            **{"better": "lower", "supervised": True, "matrix": "gbt", "rule": "mig", "samples_of": "gbt/mig"},
            **{"pictures": 2000, "draw": 7, "repeats": 3, "models": 5, "value": 0.25, "low": 0.2, "high": 0.3},
            **{"flags": ["collapsed", "sampled"], "seconds": 1.5, "device": "H200"},
            **{"versions": '{"jax": "0.10", "sober": "0.1"}', "scale": "1/2"},
        }
    ]


def test_every_hyperparameter_has_a_column_of_its_type_between_run_and_score(store: Store) -> None:
    write(store, scores(BETA, ["mig"]))
    write(store, scores(DAVA, ["mig"]) + scores(CRITIC, ["mig"]))
    table = store.table()
    hyper = ["hyper_beta", "hyper_gamma", "hyper_second_batch", "hyper_variant"]
    assert table.columns == [*BEFORE, *hyper, *AFTER]
    assert [str(table.schema[name]) for name in hyper] == ["Float64", "Float64", "Boolean", "String"]
    assert table.select(hyper).rows() == [
        (4.0, None, None, None),
        (None, 500.0, None, "paper"),
        (None, 10.0, True, None),
    ]


def test_an_empty_store_has_an_empty_table_with_the_columns(store: Store) -> None:
    table = store.table()
    assert table.columns == [*BEFORE, *AFTER]
    assert table.height == 0
    assert store.done() == {}
    assert store.height() == 0
    store.compact()
    write(store, [])
    assert files(store.folder / "parts") == []


pieces = st.lists(
    st.builds(
        score,
        st.sampled_from([BETA, DAVA, CRITIC]),
        st.sampled_from(["mig", "sap", "mi/mig"]),
        st.floats(),
        preset=st.sampled_from(["study", "paper"]),
        settings=st.sampled_from([{}, {"bins": 20.0}]),
        pictures=st.sampled_from([1000, 2000]),
        models=st.integers(1, 3),
        seconds=st.floats(0, 10),
    ),
    max_size=12,
)


@settings(max_examples=25, deadline=None)
@given(pieces=pieces, data=st.data())
def test_any_order_and_any_split_into_writes_and_compactions_give_one_table(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[Score], data: st.DataObject
) -> None:
    # Keys may repeat with other values: which one stays must not depend on the order either.
    stores = [Store.create(tmp_path_factory.mktemp("store")) for _ in range(2)]
    for piece in pieces:
        stores[0].write([piece], RUNS, in_words=setting, device="cpu")
    shuffled = data.draw(st.permutations(pieces))
    while shuffled:
        count = data.draw(st.integers(1, len(shuffled)))
        chunk, shuffled = shuffled[:count], shuffled[count:]
        for group in _without_repeats(chunk):
            stores[1].write(group, RUNS, in_words=setting, device="cpu")
        if data.draw(st.booleans()):
            stores[1].compact()
    one, other = (store.table() for store in stores)
    assert_frame_equal(one, other)
    most: dict[Key, int] = {}
    for piece in pieces:
        most[key_of(piece)] = max(piece.models, most.get(key_of(piece), 0))
    assert stores[0].done() == stores[1].done() == most
    assert one.height == len(most)
    numbers = {key_of(piece) for piece in pieces if math.isfinite(piece.value) and piece.models == most[key_of(piece)]}
    assert set(one.filter(polars.col("value").is_not_null()).select(KEY).rows()) == numbers


def _without_repeats(pieces: Sequence[Score]) -> list[list[Score]]:
    """The pieces in as few lists as it takes to have each key once in each."""
    lists: list[list[Score]] = []
    for piece in pieces:
        free = next((each for each in lists if key_of(piece) not in keys(each)), None)
        if free is None:
            lists.append([piece])
        else:
            free.append(piece)
    return lists


@pytest.mark.parametrize(
    "other", [{"settings": {"bins": 10.0}}, {"pictures": 2000}, {"draw": 1}, {"repeats": 5}, {"preset": "paper"}]
)
@pytest.mark.parametrize("compacted", [False, True])
def test_scores_that_were_not_measured_alike_are_both_kept(
    store: Store, other: dict[str, Any], compacted: bool
) -> None:
    one = score(BETA, "mig", 0.25, settings={"bins": 20.0}, pictures=1000)
    two = dataclasses.replace(one, value=0.75, **other)
    write(store, [one])
    write(store, [two])
    if compacted:
        store.compact()
    assert sorted(store.table()["value"]) == [0.25, 0.75]
    assert store.done() == keys([one, two])
    write(store, [dataclasses.replace(one, settings={"bins": 20}), two])  # the same scores again
    assert store.table().height == 2


@pytest.mark.parametrize("first", ["few", "many"])
@pytest.mark.parametrize("compacted", [False, True])
@pytest.mark.parametrize("value", [0.5, math.nan])
def test_of_two_judgements_the_one_among_more_models_is_kept(
    store: Store, first: str, compacted: bool, value: float
) -> None:
    few = score(BETA, "udr", 0.25, kind="criterion", models=3, seconds=0.1)
    many = score(BETA, "udr", value, kind="criterion", models=6, seconds=9.0)
    for judgement in (few, many) if first == "few" else (many, few):
        write(store, [judgement])
        if compacted:
            store.compact()
    expected = None if math.isnan(value) else value
    assert store.table(["metric", "models", "value"]).rows() == [("udr", 6, expected)]
    assert store.done() == {key_of(many): 6}


def test_of_two_equal_judgements_a_number_goes_before_none_and_then_the_quicker_one(store: Store) -> None:
    for value, seconds in ((math.nan, 0.1), (0.25, 2.0), (0.5, 1.0)):
        write(store, [score(BETA, "mig", value, seconds=seconds)])
    assert store.table(["value", "seconds"]).rows() == [(0.5, 1.0)]


def test_a_compacted_table_is_the_one_file_that_is_left(store: Store) -> None:
    for name in ("mig", "sap", "irs"):
        write(store, scores(DAVA, [name]) + scores(BETA, [name]))
    before = store.table()
    assert len(files(store.folder / "parts")) == 3
    store.compact()
    assert files(store.folder / "parts") == []
    assert_frame_equal(store.table(), before)
    assert before.select("world", "metric").rows() == list(
        itertools.product(["dsprites", "rooms"], ["irs", "mig", "sap"])
    )


def test_the_same_scores_written_twice_are_one_file_in_any_order(store: Store) -> None:
    write(store, scores(BETA, ["mig", "sap"]))
    write(store, scores(BETA, ["sap", "mig"]))
    assert len(files(store.folder / "parts")) == 1


def test_some_columns_are_those_of_the_whole_table(store: Store) -> None:
    write(store, scores(DAVA, ["mig", "sap"]))
    store.compact()
    wanted = ["value", "hyper_gamma", "metric"]
    assert_frame_equal(store.table(wanted), store.table().select(wanted))
    write(store, scores(BETA, ["mig"]))
    assert_frame_equal(store.table(wanted), store.table().select(wanted))
    with pytest.raises(RequestError, match="no column hyper_none: did you mean"):
        store.table(["hyper_none"])


def test_many_parts_are_compacted_by_whoever_writes_the_next(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sober.results.store, "PARTS", 3)
    for index in range(5):
        write(store, scores(BETA, [f"metric_{index}"]))
    assert len(files(store.folder / "parts")) == 1
    assert store.table()["metric"].to_list() == [f"metric_{index}" for index in range(5)]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_null_and_flagged(store: Store, value: float) -> None:
    write(store, [score(BETA, "mig", value, flags=("diverged",)), score(BETA, "sap", 0.5)])
    write(store, [score(BETA, "irs", 0.5, interval=(value, value))])
    rows = store.table(["metric", "value", "low", "high", "flags"]).rows()
    assert rows == [
        ("irs", 0.5, None, None, ["not_finite"]),
        ("mig", None, None, None, ["diverged", "not_finite"]),
        ("sap", 0.5, None, None, []),
    ]


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (score(BETA, "mig", "high"), "could not convert"),  # type: ignore[arg-type]
        (score(BETA, "", 0.5), "no metric is given"),
        (score(BETA, "mig", 0.5, preset=""), "no preset is given"),
        (Score("0" * 16, "mig", 0.5, preset="study"), "that run is not among those given"),
        (score(BETA, "mig", 0.5, kind="guess"), "kind 'guess' is not one of criterion, metric, task, training"),
        (score(BETA, "mig", 0.5, better="more"), "better 'more' is not one of higher, lower, neither"),
        (score(BETA, "mig", 0.5, settings={"bins": math.nan}), "not JSON compliant"),
        (score(BETA, "mig", 0.5, pictures=-1), "pictures must be a whole number from 0"),
        (score(BETA, "mig", 0.5, models=2.5), "models must be a whole number from 0"),
        (score(BETA, "mig", 0.5, draw=2**63), "draw is too large"),
        (score(BETA, "mig", 0.5, flags=("two words",)), "are not words"),
        (score(BETA, "mig", 0.5, flags="collapsed"), "are not words"),
        (score(BETA, "mig", 0.5, interval=(1.0, 0.0)), "ends before it begins"),
        (score(BETA, "mig", 0.5, interval=(1.0,)), "shorter"),
        (score(BETA, "mig", 0.5, seconds=math.nan), "not a time"),
        (score(BETA, "mig", 0.5, seconds=-1.0), "not a time"),
        (score(BETA, 3, 0.5), "metric must be text"),  # type: ignore[arg-type]
        (score(BETA, "sap", 0.25), "has two scores 'sap' with preset 'study' in one write"),
    ],
)
def test_one_bad_score_keeps_all_of_a_write_from_the_disk(store: Store, bad: Score, says: str) -> None:
    with pytest.raises(RequestError, match=says):
        write(store, [score(BETA, "sap", 0.5), bad])
    assert store.table().height == 0
    assert files(store.folder / "parts") == []


def test_a_run_under_another_identity_is_refused(store: Store) -> None:
    with pytest.raises(RequestError, match="not among those given"):
        store.write(scores(BETA, ["mig"]), {BETA.identity: DAVA}, in_words=setting)


def test_a_number_too_large_for_its_column_is_refused(store: Store) -> None:
    run = Run("dsprites", "beta_vae", {"beta": 4}, seed=2**70)
    with pytest.raises(RequestError, match="cannot be stored"):
        store.write(scores(run, ["mig"]), {run.identity: run}, in_words=setting)


@pytest.mark.parametrize("compacted", [False, True])
def test_a_hyperparameter_keeps_its_type(store: Store, compacted: bool) -> None:
    write(store, scores(BETA, ["mig"]))
    if compacted:
        store.compact()
    text = Run("dsprites", "mine", {"beta": "strong"})
    with pytest.raises(RequestError, match="hyper_beta is Float64 in the store and String in these scores"):
        store.write(scores(text, ["mig"]), {text.identity: text}, in_words=setting)
    assert store.table().height == 1


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (BETA, "beta_vae beta=4"),
        (Run("dsprites", "beta_vae", {"beta": 0.1}, nets="small", latents=6), "beta_vae beta=0.1 nets=small latents=6"),
        (Run("rooms", "beta_vae", {"beta": 1}, optimiser=Adam(1e-3)), "beta_vae beta=1 learning_rate=0.001"),
        (
            Run("rooms", "dava", {"delta_c": 4e-5, "gamma": 500, "variant": "reference"}),
            "dava delta_c=4e-05 variant=reference",
        ),
        (Run("rooms", "mine", {"b": True, "a": 3}), "mine a=3 b=true"),
    ],
)
def test_a_setting_is_what_differs_from_the_defaults_in_words(run: Run, words: str) -> None:
    assert setting(run) == words


def test_a_setting_is_shared_by_seeds_and_worlds_and_nothing_else() -> None:
    base = {"method": "beta_vae", "hyper": {"beta": 4}}
    assert setting(Run("rooms", **base, seed=3)) == setting(Run("dsprites", **base)) == "beta_vae beta=4"
    others = [{"steps": 7}, {"batch": 7}, {"nets": "dense"}, {"precision": "bfloat16"}, {"optimiser": Adam(eps=1e-7)}]
    assert len({setting(Run("rooms", **base, **other)) for other in [{}, *others]}) == 1 + len(others)


# Writes and compacts until it has written `sys.argv[2]` chunks of three rows, and says so after each.
WRITING = """
import sys
from sober.methods.settings import setting
from sober.results.store import Store
from sober.types import Run, Score
store, run = Store.open(sys.argv[1]), Run("rooms", "beta_vae", {"beta": 1}, seed=int(sys.argv[3]))
print("ready", flush=True)
sys.stdin.readline()
for chunk in range(int(sys.argv[2])):
    rows = [Score(run.identity, f"{chunk}_{row}", chunk + row / 10, preset="study") for row in range(3)]
    store.write(rows, {run.identity: run}, in_words=setting)
    if chunk % 3 == 2:
        store.compact(wait=chunk % 2 == 0)
print("done", flush=True)
"""


def test_two_processes_that_write_and_compact_at_once_lose_nothing(store: Store, start: Callable) -> None:
    process = start(ALONE + WRITING, store.folder, 40, 7)
    assert process.stdout.readline() == "ready\n"
    process.stdin.write("\n")
    process.stdin.flush()
    for index in range(60):
        write(store, scores(BETA, [f"metric_{index}"], index))
        if index % 5 == 4:
            store.compact()
    assert process.communicate(timeout=60) == ("done\n", None)
    assert process.returncode == 0
    table = store.table()
    ours, theirs = table.filter(world="dsprites"), table.filter(world="rooms")
    assert dict(ours.select("metric", "value").rows()) == {f"metric_{index}": index for index in range(60)}
    assert dict(theirs.select("metric", "value").rows()) == {
        f"{chunk}_{row}": chunk + row / 10 for chunk in range(40) for row in range(3)
    }
    assert table.height == 60 + 120
    assert not (store.folder / "aside").exists()


# For each line it reads it forks a process that writes and compacts until it is killed: by itself at the n-th call that
# changes something on the disk, half-way through where that is a write, or after a random while. Chunks whose write has
# returned are noted in a file of their own.
KILLED = """
import os, signal, sys, time
from pathlib import Path
import sober.files, sober.results.store
from sober.methods.settings import setting
from sober.results.store import Store
from sober.types import Run, Score

left = [0]

def dying(call, first=lambda *arguments: None):
    def instead(*arguments, **named):
        left[0] -= 1
        if left[0] == 0:
            first(*arguments)
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*arguments, **named)
    return instead

def half(path, data):
    with open(path, "wb") as file:
        file.write(data[: len(data) // 2])

def work(number, calls):
    store, run = Store.open(sys.argv[1]), Run("rooms", "beta_vae", {"beta": 1}, seed=number)
    acknowledged = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    left[0] = calls
    os.replace, os.fsync, os.close = dying(os.replace), dying(os.fsync), dying(os.close)
    Path.unlink, Path.write_bytes = dying(Path.unlink), dying(Path.write_bytes, half)
    for chunk in range(10_000):
        rows = [Score(run.identity, f"{chunk}_{row}", number + row / 10, preset="study") for row in range(3)]
        store.write(rows, {run.identity: run}, in_words=setting)
        os.write(acknowledged, f"{number} {chunk}\\n".encode())
        if chunk % 3 == 2:
            store.compact()

for line in sys.stdin:
    number, calls, seconds = line.split()
    child = os.fork()
    if not child:
        work(int(number), int(calls))
    time.sleep(float(seconds))
    if float(seconds):
        os.kill(child, signal.SIGKILL)
    print(os.waitpid(child, 0)[1], flush=True)
"""


@pytest.mark.kill
def test_a_kill_at_any_moment_loses_no_acknowledged_row_and_doubles_none(
    store: Store, tmp_path: Path, start: Callable
) -> None:
    log = tmp_path / "acknowledged"
    process = start(ALONE + KILLED, store.folder, log)
    rng = random.Random(0)
    # Three writes and a compaction make 27 such calls, more where the killed before left parts to remove.
    rounds = [(calls, 0.0) for calls in range(1, 28)] + [(0, rng.uniform(0.05, 0.2)) for _ in range(5)]
    for number, (calls, seconds) in enumerate(rounds):
        process.stdin.write(f"{number} {calls} {seconds}\n")
        process.stdin.flush()
        assert process.stdout.readline() == "9\n"
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            table = store.table(["seed", "metric", "value"])
        found = {tuple(map(int, line.split())) for line in log.read_text().splitlines()} if log.exists() else set()
        rows = {(seed, *map(int, metric.split("_"))): value for seed, metric, value in table.rows()}
        assert table.height == len(rows)
        assert all(value == seed + row / 10 for (seed, _, row), value in rows.items())
        chunks = {(seed, chunk) for seed, chunk, _ in rows}
        assert len(rows) == 3 * len(chunks)  # whole or absent
        assert found <= chunks
        in_flight = chunks - found
        assert all((seed, chunk - 1) in found or chunk == 0 for seed, chunk in in_flight)
        assert len({seed for seed, _ in in_flight}) == len(in_flight)
    assert len(found) > 20
    store.compact()
    assert set(files(store.folder)) == {".compact.lock", ".store.lock", "columns.json", "parts", "scores.parquet"}
    assert files(store.folder / "parts") == []


def test_what_the_first_to_write_left_when_it_was_killed_goes_with_the_next_compaction(
    store: Store, start: Callable
) -> None:
    process = start("pass")
    process.wait()
    folder = store.folder / "parts"
    folder.mkdir(exist_ok=True)
    left, in_progress = (folder / f".0.json.{socket.gethostname()}.{pid}.0.tmp" for pid in (process.pid, os.getpid()))
    left.touch()
    in_progress.touch()
    store.compact()
    assert files(folder) == [in_progress.name]


def damaged(path: Path, how: str) -> None:
    whole = path.read_bytes()
    if how == "truncated":
        path.write_bytes(whole[: len(whole) // 2])
    elif how == "emptied":
        path.write_bytes(b"")
    elif how == "changed":
        path.write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
    elif how == "rewritten by another program":
        if path.suffix == ".json":
            path.write_text(path.read_text().replace('"study"', '"paper"'))
        else:
            polars.read_parquet(path).with_columns(value=polars.lit(1.0)).write_parquet(path)
    else:
        polars.DataFrame({"a": [1]}).write_parquet(path)


@pytest.mark.parametrize("how", ["truncated", "emptied", "changed", "rewritten by another program", "foreign"])
@pytest.mark.parametrize("which", ["part", "table"])
def test_a_file_that_cannot_be_trusted_is_named_and_set_aside_and_the_rest_is_used(
    store: Store, how: str, which: str
) -> None:
    write(store, scores(BETA, ["mig"]))
    if which == "table":
        store.compact()
        path = store.folder / "scores.parquet"
    else:
        (path,) = (store.folder / "parts").iterdir()
    damaged(path, how)
    content = path.read_bytes()
    write(store, scores(DAVA, ["sap"]))
    with pytest.warns(UserWarning, match=f"{path} is damaged, or no file of this store"):
        assert store.done() == keys(scores(DAVA, ["sap"]))
    assert not path.exists()
    (moved,) = (store.folder / "aside").glob(f"*-{path.name}")
    assert moved.read_bytes() == content
    assert f"{moved.name}: {path} is damaged" in (store.folder / "aside" / "notes.txt").read_text()
    write(store, scores(BETA, ["mig"]))  # what is missing can be made again
    store.compact()
    assert store.table()["metric"].to_list() == ["mig", "sap"]


def test_compacting_keeps_what_cannot_be_trusted_out_of_the_table(store: Store) -> None:
    (store.folder / "parts").mkdir()
    (store.folder / "parts" / "readme.txt").write_text("not ours")
    write(store, scores(BETA, ["mig"]))
    with pytest.warns(UserWarning, match="set aside"):
        store.compact()
    assert store.table()["metric"].to_list() == ["mig"]
    assert files(store.folder / "parts") == []


def test_no_changed_byte_of_the_table_goes_unnoticed(store: Store) -> None:
    write(store, scores(BETA, ["mig"]))
    store.compact()
    whole = (store.folder / "scores.parquet").read_bytes()
    for at in range(len(whole)):
        with pytest.raises(table_files.DamagedFileError):
            table_files.check_seal(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        with pytest.raises(table_files.DamagedFileError):
            table_files.check_seal(whole[:at])
    table_files.check_seal(whole)


def test_a_sealed_file_with_other_columns_is_set_aside(store: Store) -> None:
    write(store, scores(BETA, ["mig"]))
    (store.folder / "parts" / "other.parquet").write_bytes(table_files.sealed(store.table().drop("seed", "flags")))
    with pytest.warns(UserWarning, match=r"does not have the columns of a store \(flags, seed\)"):
        assert store.table().height == 1


def test_files_of_another_store_can_be_copied_here_and_their_columns_keep_their_types(
    store: Store, tmp_path: Path
) -> None:
    other = Store.create(tmp_path / "other")
    write(other, scores(BETA, ["mig"]))
    other.compact()
    write(store, scores(DAVA, ["sap"]))
    (store.folder / "scores.parquet").write_bytes((other.folder / "scores.parquet").read_bytes())
    assert store.table(["metric", "hyper_beta", "hyper_gamma"]).rows() == [("mig", 4.0, None), ("sap", None, 500.0)]
    text = Run("dsprites", "mine", {"beta": "strong"})
    with pytest.raises(RequestError, match="hyper_beta is Float64"):
        store.write(scores(text, ["mig"]), {text.identity: text}, in_words=setting)


def test_a_part_compacted_while_it_is_read_is_found_in_the_table(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    write(store, scores(BETA, ["mig"]))
    write(store, scores(BETA, ["sap"]))
    read, compacted = sober.results.store.read, []

    def compacting(path: Path, **arguments: object) -> object:
        found = read(path, **arguments)  # type: ignore[arg-type]
        if not compacted:
            compacted.append(path)
            store.compact()
        return found

    monkeypatch.setattr(sober.results.store, "read", compacting)
    assert store.table()["metric"].to_list() == ["mig", "sap"]
    assert files(store.folder / "parts") == []


def test_a_table_replaced_while_it_seemed_damaged_is_not_set_aside(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(store, scores(BETA, ["mig"]))
    store.compact()
    read, looks = sober.results.store.read, []

    def unsound_once(path: Path, **arguments: object) -> object:
        looks.append(path)
        if len(looks) == 1:
            raise table_files.DamagedFileError("was damaged a moment ago")
        return read(path, **arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(sober.results.store, "read", unsound_once)
    assert store.table().height == 1
    assert not (store.folder / "aside").exists()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("doing", ["writing", "compacting"])
def test_a_full_disk_stops_cleanly_and_the_same_call_goes_on(
    store: Store, monkeypatch: pytest.MonkeyPatch, doing: str, code: int
) -> None:
    write(store, scores(BETA, ["mig"]))
    before = store.table()
    act = store.compact if doing == "compacting" else lambda: write(store, scores(BETA, ["sap"]))

    def half(path: Path, content: bytes) -> None:
        with open(path, "wb") as file:
            file.write(content[: len(content) // 2])
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", half)
        with pytest.raises(
            RequestError, match=r"no room for .*: [\d,]+ bytes needed, .* free; .*the same command goes on"
        ):
            act()
    assert len(files(store.folder / "parts")) == 1  # nothing half-written
    assert not (store.folder / "scores.parquet").exists()
    assert_frame_equal(store.table(), before)
    act()
    assert store.table().height == (1 if doing == "compacting" else 2)


@pytest.fixture
def compacted(store: Store) -> Store:
    write(
        store,
        [
            score(run, name, index / 7)
            for index, (run, name) in enumerate(itertools.product(RUNS.values(), ["mig", "sap"]))
        ],
    )
    write(store, [score(BETA, "irs", math.nan)])
    store.compact()
    return store


def expected(store: Store) -> list[tuple[str, str, str | None, float | None]]:
    return store.table().select("run", "metric", "hyper_variant", "value").rows()


def test_polars_reads_the_table_as_it_lies(compacted: Store) -> None:
    path = compacted.folder / "scores.parquet"
    assert_frame_equal(polars.read_parquet(path), compacted.table())
    high = polars.scan_parquet(path).filter(polars.col("value") > 0.5).collect()
    assert_frame_equal(high, compacted.table().filter(polars.col("value") > 0.5))
    assert high.height == 2


def test_duckdb_reads_the_table_as_it_lies(compacted: Store) -> None:
    duckdb = pytest.importorskip("duckdb")
    path = compacted.folder / "scores.parquet"
    rows = duckdb.sql(f"select run, metric, hyper_variant, value from '{path}'").fetchall()
    assert rows == expected(compacted)
    assert duckdb.sql(f"select count(*) from '{path}' where value > 0.5").fetchall() == [(2,)]


def test_pandas_reads_the_table_as_it_lies(compacted: Store) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.read_parquet(compacted.folder / "scores.parquet")
    assert list(frame.columns) == compacted.table().columns
    rows = frame[["run", "metric", "hyper_variant", "value"]].astype(object).where(frame.notna(), None)
    assert list(rows.itertuples(index=False, name=None)) == expected(compacted)


CLAIMING = """
import sys
from sober.results.store import Store
claim = Store.open(sys.argv[1]).claim("cohort 3")
print(claim is not None, flush=True)
sys.stdin.readline()
"""


@pytest.mark.kill
def test_a_claim_is_held_by_one_process_and_free_again_once_that_is_killed(store: Store, start: Callable) -> None:
    process = start(ALONE + CLAIMING, store.folder)
    assert process.stdout.readline() == "True\n"
    assert store.claim("cohort 3") is None
    assert store.claimed() == [Holder("cohort 3", os.uname().nodename, process.pid)]
    process.kill()
    process.wait()
    assert store.claimed() == []
    claim = store.claim("cohort 3")
    assert claim is not None
    with claim:
        assert [holder.pid for holder in store.claimed()] == [os.getpid()]


def test_claims_are_separate_and_end_with_their_block(store: Store) -> None:
    first, second = store.claim("a/b"), store.claim("β " * 200)
    assert first is not None
    assert second is not None
    with first, second:
        assert [holder.name for holder in store.claimed()] == ["a/b", "β " * 200]
        assert store.claim("a/b") is None
    assert store.claimed() == []
    assert files(store.folder / "claims") == []
    with pytest.raises(ZeroDivisionError), store.claim("a/b") or pytest.fail("still held"):
        raise ZeroDivisionError
    assert store.claim("a/b") is not None


def test_a_store_is_created_once_and_opened_again(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="holds no results"):
        Store.open(tmp_path)
    store = Store.create(tmp_path)
    write(store, scores(BETA, ["mig"]))
    assert Store.create(tmp_path).done() == Store.open(str(tmp_path)).done() == keys(scores(BETA, ["mig"]))


def test_a_store_lies_beside_what_else_a_folder_holds(tmp_path: Path) -> None:
    (tmp_path / "request.json").write_text("{}")
    assert Store.create(tmp_path).table().height == 0
    assert (tmp_path / "request.json").read_text() == "{}"


REQUEST = Request("train", {"steps": 20}, {"dsprites": "dsprites"}, (Cohort.of([BETA]),))


def test_a_folder_of_results_is_new_or_holds_the_same(tmp_path: Path) -> None:
    begun = Folder.begin(tmp_path / "new", REQUEST)
    write(begun.store, scores(BETA, ["mig"]))
    again = Folder.begin(tmp_path / "new", REQUEST)
    assert again.request == Folder.open(tmp_path / "new").request == REQUEST
    assert again.store.done() == keys(scores(BETA, ["mig"]))
    assert again.model_path(BETA) == tmp_path / "new" / "models" / f"{BETA.identity}.safetensors"


@pytest.mark.parametrize(
    ("holds", "says"),
    [
        (None, "is not empty and holds no results: choose another --out"),
        ({"maker": "study"}, "holds a study, not a training"),
        ({"asked": {"steps": 30}}, "holds a training with steps 30, not 20"),
    ],
)
def test_a_folder_that_holds_something_else_is_refused_and_left_as_it_is(
    tmp_path: Path, holds: dict[str, Any] | None, says: str
) -> None:
    folder = tmp_path / "taken"
    if holds is None:
        folder.mkdir()
        (folder / "notes.txt").write_text("mine")
    else:
        Folder.begin(folder, dataclasses.replace(REQUEST, **holds))
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file() and path.name[0] != "."}
    with pytest.raises(RequestError, match=says):
        Folder.begin(folder, REQUEST)
    after = {path: path.read_bytes() for path in folder.iterdir() if path.is_file() and path.name[0] != "."}
    assert after == before


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "cannot be read"),
        ("[]", "does not describe a table"),
        (json.dumps({"format": 99, "hyper": {}}), "another version of Sober"),
    ],
)
def test_a_description_that_is_not_ours_is_refused(store: Store, content: str, says: str) -> None:
    (store.folder / "columns.json").write_text(content)
    with pytest.raises(RequestError, match=says):
        Store.open(store.folder)


def test_a_folder_that_cannot_be_written_to_is_named(store: Store) -> None:
    (store.folder / "parts").write_text("a file where the folder should be")
    with pytest.raises(RequestError, match=f"cannot write {store.folder / 'parts'}"):
        write(store, scores(BETA, ["mig"]))


def test_the_checksum_lies_in_a_gap_before_the_footer() -> None:
    frame = polars.DataFrame({"a": [1.0, 2.0]})
    plain = io.BytesIO()
    frame.write_parquet(plain)
    sealed = table_files.sealed(frame)
    assert len(sealed) == len(plain.getvalue()) + table_files.SEAL
    assert_frame_equal(polars.read_parquet(sealed), frame)
