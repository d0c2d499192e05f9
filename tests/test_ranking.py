"""The ranking that judgements amount to: places, shares, settings, and models that no one should use."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from families import BLOCKS, small_runs
from sober.cli import app
from sober.criteria import CRITERIA, Evidence, Judgement, Ranking
from sober.criteria.criterion import halves
from sober.criteria.ranking import ranking
from sober.models.family import Family
from sober.training.train import train

pytestmark = pytest.mark.usefixtures("quick_compiler")


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Family:
    runs = small_runs("beta_vae", {"beta": [1.0, 2.0]}, seeds=3, steps=60)
    return train(runs, BLOCKS, tmp_path_factory.mktemp("family") / "family", cohort=2)


@pytest.fixture(scope="module")
def evidence(family: Family) -> Evidence:
    return Evidence.of(family)[0]


def judged(scores: list[float], spread: float = 0.0, flags: dict[int, str] | None = None) -> Judgement:
    values = np.array(scores)
    noise = np.random.default_rng(0).normal(0, spread, (400, len(values)))
    every = tuple((flags[m],) if flags and m in flags else () for m in range(len(values)))
    return Judgement(values, values + noise, every)


def ranked(evidence: Evidence, **judgements: Judgement) -> Ranking:
    return ranking(evidence, [CRITERIA[name] for name in judgements], judgements)


def places(found: Ranking, evidence: Evidence) -> list[int]:
    by_run = {model.run: model.place for model in found.models}
    return [by_run[run] for run in evidence.runs]


def test_without_noise_the_highest_score_is_always_first(evidence: Evidence) -> None:
    found = ranked(evidence, udr=judged([0.1, 0.5, 0.3, 0.9, 0.2, 0.4]))
    assert places(found, evidence) == [6, 2, 4, 1, 5, 3]
    assert found.best.first == 1
    assert found.best.places == (1, 1)
    assert sum(model.first for model in found.models) == pytest.approx(1)


def test_where_lower_is_better_the_lowest_is_first(evidence: Evidence) -> None:
    assert places(ranked(evidence, kl=judged([6, 5, 4, 3, 2, 1])), evidence) == [6, 5, 4, 3, 2, 1]


def test_criteria_that_disagree_meet_in_the_middle(evidence: Evidence) -> None:
    found = ranked(evidence, udr=judged([6, 5, 4, 3, 2, 1]), pipe=judged([1, 5.5, 3, 4, 5, 6]))
    assert found.best.run == evidence.runs[1]  # second with both
    assert found.best.rank == 2


def test_certainty_is_how_often_noise_changes_the_first_place(evidence: Evidence) -> None:
    sure = ranked(evidence, udr=judged([0.9, 0.1, 0.1, 0.1, 0.1, 0.1], spread=0.01)).best
    torn = ranked(evidence, udr=judged([0.9, 0.89, 0.1, 0.1, 0.1, 0.1], spread=0.1)).best
    lost = ranked(evidence, udr=judged([0.5] * 6, spread=0.1)).best
    assert sure.first == 1
    assert 0.4 < torn.first < 0.65
    assert torn.places == (1, 2)
    assert lost.first < 0.35
    assert lost.places[1] == 6


@pytest.mark.parametrize("flag", ["collapsed", "ignores_codes"])
def test_models_that_are_unfit_come_last_whatever_their_score(flag: str, evidence: Evidence) -> None:
    found = ranked(evidence, pipe=judged([1.0, 0.5, 0.4, 0.3, 0.2, 0.1], spread=0.01, flags={0: flag}))
    assert found.models[-1].run == evidence.runs[0]
    assert found.models[-1].flags == (flag,)
    assert found.models[-1].first == 0
    everyone = ranked(evidence, pipe=judged([0.5] * 6, flags=dict.fromkeys(range(6), flag)))
    assert any("No model is fit" in sentence for sentence in everyone.sentences())


def test_a_setting_is_judged_by_its_median_and_a_model_by_itself(evidence: Evidence) -> None:
    found = ranked(evidence, udr=judged([0.1, 0.2, 0.9, 0.5, 0.5, 0.5]))  # three seeds of β = 1, three of β = 2
    assert found.best.run == evidence.runs[2]
    assert found.settings[0].words == "beta_vae beta=2"
    assert found.settings[0].scores["udr"] == 0.5
    assert found.settings[1].scores["udr"] == 0.2
    assert 0.6 < found.settings[0].first < 0.9  # β = 1 wins where 0.9 is drawn twice or more of three: 7 in 27
    said = " ".join(found.sentences())
    assert "of 2, is beta_vae beta=2" in said
    assert evidence.runs[2].identity[:8] in said


def test_the_best_for_each_number_of_informative_latents(evidence: Evidence) -> None:
    found = ranked(evidence, udr=judged([0.1, 0.2, 0.9, 0.5, 0.6, 0.4]))
    counts = {model.informative for model in found.models}
    assert set(found.by_latents()) == counts
    for count, best in found.by_latents().items():
        assert best.place == min(model.place for model in found.models if model.informative == count)


def test_halves_vary_as_much_as_samples_do() -> None:
    values = np.random.default_rng(0).normal(size=400)
    means = [values[rows].mean() for rows in halves(400, 0, 4000)]
    assert np.std(means) == pytest.approx(values.std() / np.sqrt(400), rel=0.1)


def test_select_prints_models_settings_and_what_was_seen(family: Family, capsys: pytest.CaptureFixture[str]) -> None:
    app([str(each) for each in ("select", family.folder, "--top", "2")], result_action="return_none")
    said = " ".join(capsys.readouterr().out.split())
    assert "the model to use: 2 of 6" in said
    assert "the setting to train with" in said
    assert CRITERIA["udr"].sees in said
    assert CRITERIA["udr"].blind in said


def test_select_in_json_holds_every_model(family: Family, capsys: pytest.CaptureFixture[str]) -> None:
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
    assert "the model to use: 2 of 2" in said
    assert all(run.identity in said for run in runs[2:])
