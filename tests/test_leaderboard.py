"""Methods by world: the numbers, what the command prints, the pages, and the check of folders that others add."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from conftest import ROOT
from scripts import load_script
from sober.cli import app
from sober.errors import RequestError
from sober.files import read_json, write_json
from sober.requests.results import open_results
from sober.results.method_board import boards
from sober.results.runs import as_runs
from sober.results.shipped import shipped
from sober.results.table_files import sealed

NAME = "dsprites_small_nets"
CHECK = load_script(ROOT / "tools" / "check_results.py")


@pytest.fixture(scope="module")
def table() -> pl.DataFrame:
    return open_results(NAME).table()


def test_a_method_has_the_mean_of_its_models_and_its_best_setting(table: pl.DataFrame) -> None:
    [board] = boards({NAME: table}, ["mig"])
    runs = as_runs(table)
    values = np.asarray(runs.number_columns(runs.numbers_of(["mig"]))[:, 0])
    for standing in board.standings:
        here = runs.run_column("method") == standing.method
        assert standing.models == here.sum()
        assert standing.mean.value == pytest.approx(values[here].mean())
        assert standing.mean.low <= standing.mean.value <= standing.mean.high
        of_setting = values[here & (runs.run_column("setting") == standing.best_setting)]
        assert standing.best.value == pytest.approx(of_setting.mean())
        assert 0 <= standing.best.low <= standing.best.high <= 1
    means = [standing.mean.value for standing in board.standings]
    assert means == sorted(means, reverse=True)


def test_where_lower_is_better_the_lowest_comes_first(table: pl.DataFrame) -> None:
    [board] = boards({NAME: table}, ["elbo"])
    means = [standing.mean.value for standing in board.standings]
    assert means == sorted(means)
    assert board.better == "lower"


def test_unknown_scores_and_worlds_are_answered_with_the_nearest(table: pl.DataFrame) -> None:
    with pytest.raises(RequestError, match="did you mean 'mig'"):
        boards({NAME: table}, ["mgi"])
    with pytest.raises(RequestError, match=r"no results of 'dsprite'.*'dsprites'"):
        boards({NAME: table}, ["mig"], "dsprite")


def test_results_without_the_usual_scores_name_the_option_that_takes_another(table: pl.DataFrame) -> None:
    without = table.filter(pl.col("metric").is_in(["udr", "elbo"]))
    with pytest.raises(RequestError, match=r"no results have mig or .*: --score takes any of these: elbo, udr"):
        boards({NAME: without})
    with_one = table.filter(pl.col("metric").is_in(["udr", "mig"]))
    assert [board.score for board in boards({NAME: with_one})] == ["mig"]


def test_the_command_prints_a_table_for_each_world_and_folder(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    app(["leaderboard", NAME, "--score", "mig"], result_action="return_none")
    printed = " ".join(capsys.readouterr().out.split())
    assert f"dsprites: {NAME}, 15,000 steps" in printed
    assert "MIG ↑" in printed
    assert "β = 4" in printed
    assert "beta=4" not in printed
    app(["leaderboard", NAME, "--score", "mig", "--json"], result_action="return_none")
    plain = json.loads(capsys.readouterr().out)
    assert {row["world"] for row in plain["mig"]} == {"dsprites"}


def test_the_longest_training_comes_first_and_every_table_shows_all_scores(
    capsys: pytest.CaptureFixture[str],
) -> None:
    app(["leaderboard"], result_action="return_none")
    lines = capsys.readouterr().out.splitlines()
    steps = [
        int(line.split(", ")[-1].removesuffix(" steps").replace(",", "")) for line in lines if " steps" in line[-6:]
    ]
    assert steps == sorted(steps, reverse=True)
    heads = [line for line in lines if line.startswith("method")]
    assert len(heads) == len(steps)
    assert all("MIG ↑" in head and "DCI disentanglement ↑" in head and "FactorVAE score ↑" in head for head in heads)
    assert max(map(len, lines)) <= 80


def test_the_pages_say_what_the_results_say() -> None:
    made = load_script(ROOT / "docs" / "make_leaderboard.py")
    for path, text in made.pages().items():
        assert path.read_text(encoding="utf-8") == text, "run python docs/make_leaderboard.py"
    assert {path.stem for path in made.FOLDER.glob("*.md")} == set(shipped())


@pytest.mark.parametrize("name", shipped())
def test_results_that_come_with_sober_have_no_fault(name: str) -> None:
    assert list(CHECK.faults(shipped()[name], {})) == []


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(shipped()[NAME], tmp_path / "mine"))


def _changed(copy: Path, *expressions: pl.Expr) -> None:
    path = copy / "scores.parquet"
    path.write_bytes(sealed(pl.read_parquet(path).with_columns(*expressions)))


def test_the_same_numbers_in_two_folders_are_no_fault(copy: Path) -> None:
    assert list(CHECK.faults(copy, {NAME: shipped()[NAME]})) == []


def test_another_value_of_the_same_number_is_a_fault(copy: Path) -> None:
    is_mig = (pl.col("metric") == "mig") & (pl.col("kind") == "metric")
    _changed(copy, pl.when(is_mig).then(pl.col("value") / 2).otherwise(pl.col("value")).alias("value"))
    assert any("mig of run" in fault for fault in CHECK.faults(copy, {NAME: shipped()[NAME]}))


def test_a_score_outside_its_range_is_a_fault(copy: Path) -> None:
    _changed(copy, pl.when(pl.col("metric") == "mig").then(2.0).otherwise(pl.col("value")).alias("value"))
    assert any("outside its range" in fault for fault in CHECK.faults(copy, {}))


def test_a_run_that_nobody_described_is_a_fault(copy: Path) -> None:
    _changed(copy, pl.col("run").replace({pl.read_parquet(copy / "scores.parquet")["run"][0]: "0" * 16}))
    said = " ".join(CHECK.faults(copy, {}))
    assert "request.json does not describe" in said
    assert "have no number" in said


def test_strange_files_links_and_an_empty_note_are_faults(copy: Path) -> None:
    (copy / "model.pkl").write_bytes(b"")
    (copy / "judged" / "link.json").symlink_to(copy / "note.json")
    write_json(copy / "note.json", {**read_json(copy / "note.json"), "command": ""})
    said = " ".join(CHECK.faults(copy, {}))
    assert "model.pkl is no file of results" in said
    assert "link.json is a link" in said
    assert "note.json says nothing under 'command'" in said
