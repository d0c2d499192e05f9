"""`sober select`: what is printed of a family's ranking without labels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from families import BLOCKS, small_runs
from sober.cli import app
from sober.criteria import CRITERIA
from sober.requests.results import Results
from sober.requests.train import train


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Results:
    runs = small_runs("beta_vae", {"beta": [1.0, 2.0]}, seeds=3, steps=60)
    return train(runs, BLOCKS, tmp_path_factory.mktemp("family") / "family", cohort=2)


def test_select_prints_models_settings_and_what_was_seen(family: Results, capsys: pytest.CaptureFixture[str]) -> None:
    app([str(each) for each in ("select", family.folder, "--top", "2")], result_action="return_none")
    said = " ".join(capsys.readouterr().out.split())
    assert "models: the first 2 of 6" in said
    assert "settings: medians over seeds" in said
    assert CRITERIA["udr"].sees in said
    assert CRITERIA["udr"].blind in said


def test_select_in_json_holds_every_model(family: Results, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--criterion", "udr,elbo", "--set", "similarity=spearman", "--json"]
    app(["select", str(family.folder), *options], result_action="return_none")
    found = json.loads(capsys.readouterr().out)
    assert [model["place"] for model in found["models"]] == [1, 2, 3, 4, 5, 6]
    assert found["criteria"] == ["udr", "elbo"]
    assert len(found["settings"]) == 2


def test_a_diverged_model_is_left_out_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = small_runs("beta_vae", {"beta": [1.0, 1e38]}, seeds=2, steps=20)
    folder = train(runs, BLOCKS, tmp_path / "family").folder
    app(["select", str(folder)], result_action="return_none")
    said = " ".join(capsys.readouterr().out.split())
    assert "models: the first 2 of 2" in said
    assert all(run.identity in said for run in runs[2:])
