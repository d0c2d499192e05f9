"""The ranking that judgements amount to: places, shares, settings, and models that no one should use."""

from __future__ import annotations

import json

import numpy as np
import pytest

from families import small_runs
from sober.criteria import CRITERIA, Judgement, Ranking
from sober.criteria.criterion import REPLICATES, halves
from sober.criteria.ranking import ranking
from sober.criteria.verdict import Verdict
from sober.errors import RequestError
from sober.types import Run

RUNS = tuple(small_runs("beta_vae", {"beta": [1.0, 2.0]}, seeds=3))
INFORMATIVE = (3, 1, 2, 2, 3, 1)  # latents of each


def words(run: Run) -> str:
    return f"{run.method} beta={run.hyper['beta']:g}"


def judged(scores: list[float], spread: float = 0.0, flags: dict[int, str] | None = None) -> Judgement:
    values = np.array(scores)
    noise = np.random.default_rng(0).normal(0, spread, (400, len(values)))
    every = tuple((flags[m],) if flags and m in flags else () for m in range(len(values)))
    return Judgement(values, values + noise, every)


def ranked(**judgements: Judgement) -> Ranking:
    labelled = {name: (CRITERIA[name], judgement) for name, judgement in judgements.items()}
    return ranking(RUNS, INFORMATIVE, labelled, words=words)


def places(found: Ranking) -> list[int]:
    by_run = {model.run: model.place for model in found.models}
    return [by_run[run] for run in RUNS]


def test_without_noise_the_highest_score_is_always_first() -> None:
    found = ranked(udr=judged([0.1, 0.5, 0.3, 0.9, 0.2, 0.4]))
    assert places(found) == [6, 2, 4, 1, 5, 3]
    assert found.best.first == 1
    assert found.best.places == (1, 1)
    assert sum(model.first for model in found.models) == pytest.approx(1)


def test_where_lower_is_better_the_lowest_is_first() -> None:
    assert places(ranked(kl=judged([6, 5, 4, 3, 2, 1]))) == [6, 5, 4, 3, 2, 1]


def test_criteria_that_disagree_meet_in_the_middle() -> None:
    found = ranked(udr=judged([6, 5, 4, 3, 2, 1]), pipe=judged([1, 5.5, 3, 4, 5, 6]))
    assert found.best.run == RUNS[1]  # second with both
    assert found.best.rank == 2


def test_certainty_is_how_often_noise_changes_the_first_place() -> None:
    sure = ranked(udr=judged([0.9, 0.1, 0.1, 0.1, 0.1, 0.1], spread=0.01)).best
    torn = ranked(udr=judged([0.9, 0.89, 0.1, 0.1, 0.1, 0.1], spread=0.1)).best
    lost = ranked(udr=judged([0.5] * 6, spread=0.1)).best
    assert sure.first == 1
    assert 0.4 < torn.first < 0.65
    assert torn.places == (1, 2)
    assert lost.first < 0.35
    assert lost.places[1] == 6


@pytest.mark.parametrize("flag", ["collapsed", "ignores_codes"])
def test_models_that_are_unfit_come_last_whatever_their_score(flag: str) -> None:
    found = ranked(pipe=judged([1.0, 0.5, 0.4, 0.3, 0.2, 0.1], spread=0.01, flags={0: flag}))
    assert found.models[-1].run == RUNS[0]
    assert found.models[-1].flags == (flag,)
    assert found.models[-1].first == 0
    everyone = ranked(pipe=judged([0.5] * 6, flags=dict.fromkeys(range(6), flag)))
    assert everyone.verdict.kind == "undecided"
    assert f"no model is fit to be used, as even the best placed is flagged {flag}" in everyone.verdict.sentence()


def test_a_setting_is_judged_by_its_median_and_a_model_by_itself() -> None:
    found = ranked(udr=judged([0.1, 0.2, 0.9, 0.5, 0.5, 0.5]))  # three seeds of β = 1, three of β = 2
    assert found.best.run == RUNS[2]
    assert found.settings[0].words == "beta_vae beta=2"
    assert found.settings[0].scores["udr"] == 0.5
    assert found.settings[1].scores["udr"] == 0.2
    assert 0.6 < found.settings[0].first < 0.9  # β = 1 wins where 0.9 is drawn twice or more of three: 7 in 27
    assert found.verdict.kind == "undecided"
    assert found.verdict.run == RUNS[2].identity
    assert "the best setting is another, beta_vae beta=2" in found.sentences()[0]


def test_the_best_for_each_number_of_informative_latents() -> None:
    found = ranked(udr=judged([0.1, 0.2, 0.9, 0.5, 0.6, 0.4]))
    assert [model.informative for model in found.models] == [2, 3, 2, 1, 1, 3]
    assert list(found.by_latents()) == [1, 2, 3]
    for count, best in found.by_latents().items():
        assert best.place == min(model.place for model in found.models if model.informative == count)


def test_a_criterion_may_judge_twice_with_other_settings() -> None:
    udr = CRITERIA["udr"]
    found = ranking(
        RUNS,
        INFORMATIVE,
        {
            "udr": (udr, judged([6, 5, 4, 3, 2, 1])),
            "udr similarity=spearman": (udr, judged([1, 5.5, 3, 4, 5, 6])),
        },
        words=words,
    )
    assert found.best.run == RUNS[1]
    assert found.best.scores == {"udr": 5, "udr similarity=spearman": 5.5}
    assert found.plain()["criteria"] == ["udr", "udr similarity=spearman"]
    assert found.verdict.criteria == ("udr", "udr similarity=spearman")


def test_what_json_holds_is_all_there_is() -> None:
    left_out = small_runs(seeds=[7])
    judgements = {"kl": (CRITERIA["kl"], judged([6, 5, 4, 3, 2, 1], spread=0.1))}
    found = ranking(RUNS, INFORMATIVE, judgements, words=words, left_out=left_out)
    plain = json.loads(json.dumps(found.plain()))
    assert plain["criteria"] == ["kl"]
    assert [model["run"] for model in plain["models"]] == [run.identity for run in RUNS[::-1]]
    assert [model["place"] for model in plain["models"]] == [1, 2, 3, 4, 5, 6]
    assert plain["settings"][0]["runs"] == [run.identity for run in RUNS[3:]]
    assert plain["settings"][0]["words"] == "beta_vae beta=2"
    assert plain["left_out"] == [left_out[0].identity]
    assert plain["sentences"] == found.sentences()
    assert Verdict.of(plain["verdict"]) == found.verdict
    assert f"KL: {CRITERIA['kl'].sees} {CRITERIA['kl'].blind}" in plain["sentences"]


def test_a_ranking_by_nothing_is_refused() -> None:
    with pytest.raises(RequestError, match="at least one criterion"):
        ranking(RUNS, INFORMATIVE, {}, words=words)


def test_the_same_seed_gives_the_same_ranking() -> None:
    torn = {"udr": (CRITERIA["udr"], judged([0.9, 0.89, 0.1, 0.1, 0.1, 0.1], spread=0.1))}
    first, again, other = (ranking(RUNS, INFORMATIVE, torn, words=words, seed=seed) for seed in (0, 0, 1))
    assert first.models == again.models
    assert first.settings == again.settings
    assert first.best.first != other.best.first
    assert first.best.first * REPLICATES == pytest.approx(round(first.best.first * REPLICATES))


def test_halves_vary_as_much_as_samples_do() -> None:
    values = np.random.default_rng(0).normal(size=400)
    means = [values[rows].mean() for rows in halves(400, 0, 4000)]
    assert np.std(means) == pytest.approx(values.std() / np.sqrt(400), rel=0.1)
