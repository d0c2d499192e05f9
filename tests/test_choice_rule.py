"""Choosing by a rule: agreement counts only among models that keep nearly as much of a picture as the best one."""

from __future__ import annotations

import json
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import ROOT
from families import BLOCKS, small_runs
from scripts import load_script
from sober.cli import app
from sober.criteria import CRITERIA, Judgement, Ranking
from sober.criteria.choice_rule import AGREEMENT, LOSS, RULES, find_rule, kept_shares
from sober.criteria.ranking import ranking
from sober.errors import RequestError
from sober.requests.results import Results, open_results
from sober.requests.train import train
from sober.types import Run

RUNS = tuple(small_runs("beta_vae", {"beta": [1.0, 2.0]}, seeds=3))
AGREES = [0.9, 0.8, 0.5, 0.4, 0.3, 0.2]
LOSES = [100.0, 90.0, 25.0, 19.0, 14.0, 10.0]
OF_MEAN_PICTURE = np.full(6, 110.0)  # so the models keep 10%, 20%, 85%, 91%, 96% and 100% of what the best one keeps


def words(run: Run) -> str:
    return f"β-VAE, β = {run.hyper['beta']:g}"


def chosen(
    prefer: str,
    agrees: list[float] = AGREES,
    flags: dict[int, str] | None = None,
    loses: list[float] = LOSES,
) -> Ranking:
    model_flags = tuple((flags[m],) if flags and m in flags else () for m in range(6))
    judgements = {
        name: (CRITERIA[name], Judgement(np.array(scores), np.array([scores] * 200), model_flags))
        for name, scores in ((AGREEMENT, agrees), (LOSS, loses))
    }
    return ranking(RUNS, [3] * 6, judgements, words=words, rule=find_rule(prefer), of_mean_picture=OF_MEAN_PICTURE)


@pytest.mark.parametrize(("prefer", "best"), [("few", 0), ("balanced", 3), ("complete", 4)])
def test_the_wish_says_among_which_models_agreement_counts(prefer: str, best: int) -> None:
    assert chosen(prefer).best.run == RUNS[best]


def test_models_that_keep_too_little_come_after_all_others() -> None:
    assert [model.run for model in chosen("balanced").models] == [RUNS[m] for m in (3, 4, 5, 0, 1, 2)]


def test_an_unfit_model_is_not_chosen_and_is_no_measure_for_others() -> None:
    assert chosen("balanced", flags={5: "collapsed", 4: "collapsed"}).best.run == RUNS[2]


def test_a_model_keeps_what_it_loses_less_than_the_mean_picture() -> None:
    losses, of_mean_picture = np.array([10.0, 60.0, 110.0, 160.0]), np.full(4, 110.0)
    np.testing.assert_allclose(kept_shares(losses, of_mean_picture, np.zeros(4, bool)), [1.0, 0.5, 0.0, -0.5])
    unfit = np.array([True, False, False, False])
    np.testing.assert_allclose(kept_shares(losses, of_mean_picture, unfit), [2.0, 1.0, 0.0, -1.0])


def test_if_no_model_keeps_anything_all_count() -> None:
    losses, fit = np.array([120.0, 130.0, 140.0]), np.zeros(3, bool)
    kept = kept_shares(losses, np.full(3, 110.0), fit)
    assert find_rule("complete").ranks(np.array([3.0, 2.0, 1.0]), kept, fit).argmin() == 2
    assert find_rule("complete").most_loss(losses, np.full(3, 110.0), fit) is None


def test_noise_that_no_model_can_keep_does_not_count() -> None:
    """The same nats added to every loss, as by noisy pixels, change nothing."""
    unfit = np.zeros(6, bool)
    plain = kept_shares(np.array(LOSES), OF_MEAN_PICTURE, unfit)
    np.testing.assert_allclose(kept_shares(np.array(LOSES) + 8000, OF_MEAN_PICTURE + 8000, unfit), plain)


def test_settings_that_regularise_little_do_not_push_out_better_ones() -> None:
    """However many models keep a little more, one that keeps enough and agrees most is chosen."""
    agrees, loses = [0.9, *[0.3] * 5], [19.0, *[10.0, 10.5, 11.0, 11.5, 12.0]]
    assert chosen("balanced", agrees, loses=loses).best.run == RUNS[0]


def test_the_verdict_says_how_much_may_be_lost() -> None:
    assert chosen("balanced").verdict.most_loss == pytest.approx(20.0)
    assert chosen("few").verdict.most_loss is None


@given(st.permutations(range(6)), st.sampled_from(sorted(RULES)))
def test_the_order_of_models_does_not_matter(order: list[int], prefer: str) -> None:
    rule, unfit = find_rule(prefer), np.zeros(6, bool)
    kept = kept_shares(np.array(LOSES), OF_MEAN_PICTURE, unfit)
    ranks = rule.ranks(-np.array(AGREES), kept, unfit)
    np.testing.assert_array_equal(rule.ranks(-np.array(AGREES)[order], kept[order], unfit), ranks[order])


def test_the_verdict_says_how_often_such_choices_were_right_and_what_is_given_up() -> None:
    verdict = chosen("balanced").verdict
    assert verdict.kind == "this one"
    by_udr = (
        "By UDR, among the models that keep at least 90% of what the best one keeps of a picture, it came first in 100%"
    )
    assert by_udr in verdict.sentence()
    record = find_rule("balanced").record(1.0)
    assert f"in {record.best_quarter} of {record.families} families with labels" in verdict.sentence()
    assert "agrees most with the other models (UDR 0.90, the chosen one 0.40)" in verdict.gives_up
    assert "keeps only 10% of what the best model keeps of a picture, the chosen one 91%" in verdict.gives_up
    assert "keeps the most, but its UDR is 0.20" in verdict.gives_up


def test_the_best_setting_is_named_beside_a_model_of_another() -> None:
    verdict = chosen("few", [0.9, 0.1, 0.1, 0.5, 0.5, 0.5]).verdict
    assert verdict.kind == "this one"
    assert "the best setting is another, β-VAE, β = 2" in verdict.sentence()


def test_surer_choices_were_right_more_often() -> None:
    records = find_rule("balanced").records
    surest, *_, least_sure = [record.best_quarter / record.families for record in records]
    assert surest > least_sure
    assert [record.at_least for record in records] == [0.75, 0.5, 0.0]


def test_an_unknown_wish_is_refused() -> None:
    with pytest.raises(RequestError, match="'complete'"):
        find_rule("complet")


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Results:
    runs = small_runs("beta_vae", {"beta": [1.0, 2.0]}, seeds=2, steps=60)
    return train(runs, BLOCKS, tmp_path_factory.mktemp("family") / "family")


def test_select_takes_a_wish_or_criteria(family: Results, capsys: pytest.CaptureFixture[str]) -> None:
    app(["select", str(family.folder), "--prefer", "few", "--json"], result_action="return_none")
    plain = json.loads(capsys.readouterr().out)
    assert plain["criteria"] == [AGREEMENT, LOSS]
    assert plain["verdict"]["prefer"] == "few"
    assert family.select(["udr"]).verdict.prefer == ""
    with pytest.raises(RequestError, match="not by both"):
        family.select("udr", prefer="few")


def test_without_weights_the_loss_of_training_stands_in() -> None:
    verdict = open_results("sober_look_dsprites_100k").select().verdict
    assert verdict.loss_of_training
    assert "the loss comes from the last steps of training" in verdict.sentence()


@pytest.fixture(scope="module")
def page_script() -> ModuleType:
    return load_script(ROOT / "docs" / "make_choosing.py")


def test_the_page_says_what_the_results_say(page_script: ModuleType) -> None:
    written = page_script.PAGE.read_text(encoding="utf-8")
    assert written == page_script.page(), "run python docs/make_choosing.py"


def test_the_records_are_those_of_the_results(page_script: ModuleType) -> None:
    counted = page_script.rule_records()
    assert {wish: rule.records for wish, rule in RULES.items()} == counted, "run python docs/make_choosing.py"
