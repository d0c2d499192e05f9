"""One folder: whoever made it, every command works on it, and what was computed is not computed again."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import polars as pl
import pytest

import sober
from families import BLOCKS, small_runs
from sober.criteria import CRITERIA
from sober.errors import RequestError
from sober.evaluation import score_step
from sober.models import encode as encoding
from sober.requests.fit.fit import fit
from sober.requests.results import Results
from sober.requests.study.study_engines import run_study
from sober.requests.train import train
from sober.requests.tune.search_space import Range
from sober.requests.tune.tune import tune
from sober.results.folder import Folder
from sober.results.request import Request, differences
from test_cli import run as command

QUICK: dict[str, Any] = {"latents": 3, "batch": 16, "learning_rate": 1e-3, "steps": 20}
STUDY = """
from sober import Product, Study, Training
training = Training().but(latents=3, batch=16, learning_rate=1e-3, steps=20)
products = [Product(["blocks"], {"beta_vae": {"beta": [1.0, 4.0]}}, seeds=2, training=training)]
study = Study("mine", "Mine", "none", products, metrics=["mig"], criteria={"udr": {}}, pictures=600)
"""


def a_training(out: Path) -> None:
    train(small_runs(sweep={"beta": [1.0, 4.0]}), BLOCKS, out)


def a_fit(out: Path) -> None:
    fit(BLOCKS, out=out, method="beta_vae", seeds=2, criteria=["elbo"], **QUICK)


def a_search(out: Path) -> None:
    tune(BLOCKS, "beta_vae", {"beta": Range(choices=(1.0, 4.0))}, out=out, trials=2, together=2, seeds=2, **QUICK)


def a_study(out: Path) -> None:
    file = out.with_suffix(".py")
    file.write_text(STUDY)
    run_study(file, out)


MAKERS: dict[str, Callable[[Path], None]] = {"train": a_training, "fit": a_fit, "tune": a_search, "study": a_study}


@pytest.fixture(scope="module", params=MAKERS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp("made") / "out"
    MAKERS[request.param](folder)
    return request.param, folder


@pytest.fixture
def folder(made: tuple[str, Path], tmp_path: Path) -> Path:
    """A copy, to write into."""
    return shutil.copytree(made[1], tmp_path / "out")


def test_every_command_works_on_every_folder(folder: Path, made: tuple[str, Path], tmp_path: Path) -> None:
    assert command("score", folder, "--metrics", "mig,sap", "--pictures", 600) == 0
    assert command("select", folder, "--criterion", "udr") == 0
    assert command("encode", folder, "--pictures", 300) == 0
    assert command("tables", folder, "--resamples", 20) == 0
    assert command("report", folder) == 0
    assert command("traverse", folder) == 0
    assert command("explore", folder, "--out", tmp_path / "explorer.html") == 0
    assert command("study", "status", folder) == 0
    page = (folder / "report.html").read_text()
    first = "How it compares" if made[0] == "study" else "No model to use yet"
    for part in (first, "All settings and models", "What each latent does", "Move the latents yourself", "MIG", "UDR"):
        assert part in page, part
    results = sober.open(folder)
    assert results.request.maker == made[0]
    assert {"mig", "sap", "udr", "train_loss"} <= set(results.table()["metric"])
    assert (folder / "tables" / "leaderboard.md").exists()


def test_what_was_computed_is_not_computed_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = sober.open(folder)
    rows = results.score(["mig", "sap"], pictures=600)
    ranking = results.select(["udr", "elbo"])

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("computed again")

    monkeypatch.setattr(encoding, "encode_and_store", refuse)
    monkeypatch.setattr(score_step, "_scores", refuse)
    for name in ("udr", "elbo"):
        monkeypatch.setitem(CRITERIA, name, dataclasses.replace(CRITERIA[name], judge=refuse))
    again = sober.open(folder)
    assert again.score(["mig", "sap"], pictures=600).equals(rows)
    assert again.select(["udr", "elbo"]).plain() == ranking.plain()


def test_train_score_select_and_report_give_what_a_study_gives(tmp_path: Path) -> None:
    a_study(tmp_path / "study")
    a_training(tmp_path / "trained")
    trained, studied = sober.open(tmp_path / "trained"), sober.open(tmp_path / "study")
    assert {r.identity for r in trained.runs} == {r.identity for r in studied.runs}
    trained.score(["mig"], pictures=600)
    trained.select("udr")
    ours, theirs = (_comparable(results) for results in (trained, studied))
    assert ours.drop("value").equals(theirs.drop("value"))
    np.testing.assert_allclose(ours["value"], theirs["value"], atol=1e-3)
    pages = [results.report().read_text() for results in (trained, studied)]
    sections = [[part.partition('"')[0] for part in page.split('<section id="')[1:]] for page in pages]
    assert "recurs" in sections[0]  # the training kept its codes, and the study did not
    assert [name for name in sections[0] if name != "recurs"] == sections[1]


def _comparable(results: Results) -> pl.DataFrame:
    table = results.table(["run", "metric", "preset", "settings", "kind", "better", "models", "draw", "value"])
    return table.filter(table["kind"] != "training").sort("run", "metric")


def test_a_model_whose_codes_are_no_numbers_disturbs_no_other(tmp_path: Path) -> None:
    results = train(small_runs(seeds=3), BLOCKS, tmp_path / "out")
    broken, *others = results.runs
    model = results.model(broken)
    nothing = jax.tree.map(lambda leaf: np.full_like(leaf, np.nan), model.autoencoder)
    dataclasses.replace(model, autoencoder=nothing).save(results.model_path(broken))
    rows = results.score(["mig", "sap"])
    lost = rows.filter(run=broken.identity)
    assert lost["value"].to_list() == [None, None]
    assert lost["flags"].to_list() == [["not_finite"]] * 2
    assert rows.filter(pl.col("run") != broken.identity)["value"].null_count() == 0
    ranking = results.select("udr")
    assert ranking.left_out == (broken,)
    assert {model.run for model in ranking.models} == set(others)
    assert results.report().exists()


def test_a_world_that_is_a_sample_itself_is_encoded_once_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of blocks that depend on each other all pictures are a fixed sample, of which metrics see fewer than criteria."""
    monkeypatch.setattr("sober.worlds.views.joint.SAMPLE", 3000)
    passes: list[int] = []
    compute = encoding.encode_and_store

    def counting(family: Any, runs: list[Any], *rest: Any) -> None:
        passes.append(len(runs))
        compute(family, runs, *rest)

    monkeypatch.setattr(encoding, "encode_and_store", counting)
    file = tmp_path / "mine.py"
    file.write_text(STUDY.replace('["blocks"]', '["blocks | joint block_1 block_2 D"]'))
    results, failed = run_study(file, tmp_path / "out")
    assert not failed
    assert sum(passes) == len(results.runs) == 4
    assert set(results.table().filter(metric="mig")["pictures"]) == {600}
    assert set(results.table().filter(metric="udr")["pictures"]) == {3000}


def test_a_folder_of_another_maker_or_request_is_refused_in_words(folder: Path, made: tuple[str, Path]) -> None:
    for name, maker in MAKERS.items():
        if name != made[0]:
            with pytest.raises(RequestError, match=r"holds a \w+, not a \w+: choose another --out"):
                maker(folder)
    before = (folder / "request.json").read_bytes()
    with pytest.raises(RequestError, match="choose another --out"):
        train(small_runs(steps=33), BLOCKS, folder)
    assert (folder / "request.json").read_bytes() == before


def test_a_criterion_that_had_too_few_models_in_a_study_says_so_to_those_who_ask(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(STUDY.replace("[1.0, 4.0]", "[4.0]").replace("seeds=2", "seeds=1"))
    results, failed = run_study(file, tmp_path / "out")
    assert not failed
    assert "udr" not in set(results.table()["metric"])
    with pytest.raises(RequestError, match=r"too few models of blocks .* train more seeds"):
        results.select("udr")


def test_runs_that_are_finished_stay_and_new_ones_join_them(tmp_path: Path) -> None:
    file, out = tmp_path / "mine.py", tmp_path / "out"
    file.write_text(STUDY)
    first, _ = run_study(file, out)
    file.write_text(STUDY.replace("[1.0, 4.0]", "[4.0, 8.0]"))
    then, _ = run_study(file, out)
    betas = sorted({each.hyper["beta"] for each in then.runs})
    assert betas == [1.0, 4.0, 8.0]
    assert len(then.finished) == 6
    assert set(first.runs) < set(then.runs)


def test_what_differs_is_named() -> None:
    assert differences({"steps": [20], "beta": [1.0, 4.0]}, {"steps": [21], "beta": [1.0, 4.0]}) == "steps 20, not 21"
    assert differences({"a": 1}, {"a": 1}) == ""
    assert differences({"space": {"beta": "1..2"}}, {}) == "space (beta 1..2), not none"


def test_a_request_is_read_as_it_was_written(folder: Path) -> None:
    request = Folder.open(folder).request
    assert Request.of(request.plain()).plain() == request.plain()


def test_a_file_that_is_not_sobers_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = tmp_path / "thesis.safetensors"
    mine.write_text("years of work")
    assert command("explore", mine) == 2
    said = capsys.readouterr().err
    assert "not a file of Sober's" in said
    assert "delete" not in said
    assert mine.read_text() == "years of work"
