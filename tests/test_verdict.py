"""The verdict on models: whether they can be chosen from, whether one stands out, and what is said of it."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sober
from families import small_runs
from sober.criteria import CRITERIA, Judgement
from sober.criteria.ranking import ranking
from sober.criteria.verdict import MOST_LONGER, TrainingState, Verdict, two_digits, why_not_trained
from sober.evaluation.mean_picture import MeanPicture
from sober.evaluation.training_states import last_fifth
from sober.models.model import Model
from sober.nets import Autoencoder
from sober.requests.train import train
from sober.results.verdict_files import load_verdicts
from sober.types import Run, Training

RUNS = tuple(small_runs("beta_vae", {"beta": [1.0, 2.0]}, seeds=3))
TRAINED = TrainingState(5000, 0.8, 0.01, 4)
LEARNING = TRAINED._replace(last_fifth=0.2)
SMEAR = TRAINED._replace(explained=0.002, last_fifth=0.5)
COLLAPSED = TrainingState(5000, -0.003, 0.01, 0)

states = st.builds(
    TrainingState, st.integers(1, 300_000), st.floats(-2, 1), st.floats(-1, 1) | st.just(math.nan), st.integers(0, 10)
)


def verdict(
    scores: list[float], training: list[TrainingState] | None = None, spread: float = 0.0, fewest: int = 0
) -> Verdict:
    noise = np.random.default_rng(0).normal(0, spread, (400, len(scores)))
    judgement = Judgement(np.array(scores), np.array(scores) + noise, ((),) * len(scores))
    by_run = None if training is None else dict(zip([run.identity for run in RUNS], training, strict=True))
    judgements = {"udr": (CRITERIA["udr"], judgement)}
    return ranking(RUNS, [3] * 6, judgements, words=_words, training=by_run, fewest_steps=fewest).verdict


def _words(run: Run) -> str:
    return f"β-VAE, β = {run.hyper['beta']:g}"


def test_a_trained_model_that_always_comes_first_is_the_one_to_use() -> None:
    found = verdict([0.1, 0.1, 0.1, 0.9, 0.8, 0.7], [TRAINED] * 6)
    assert found.kind == "this one"
    assert found.certainty == 1
    assert found.sentence() == (
        f"Use this one, of 6 models: β-VAE, β = 2, seed {RUNS[3].seed} (run {RUNS[3].identity[:8]}). By UDR it came "
        "first in 100% of 200 draws of pictures and partners."
    )


def test_where_the_best_model_is_not_of_the_best_setting_it_is_undecided() -> None:
    found = verdict([0.9, 0.1, 0.1, 0.5, 0.5, 0.5], [TRAINED] * 6)
    assert found.kind == "undecided"
    assert "the best setting is another, β-VAE, β = 2" in found.sentence()


def test_where_no_model_stands_out_it_is_undecided() -> None:
    found = verdict([0.5] * 6, [TRAINED] * 6, spread=0.1)
    assert found.kind == "undecided"
    assert "no model came first in half of the draws" in found.sentence()
    assert f"{found.certainty:.0%}" in found.sentence()


@pytest.mark.parametrize(
    ("training", "why"),
    [
        (
            [LEARNING] * 6,
            "all 6 models were still learning when training ended: the last fifth brought 20%",
        ),
        ([SMEAR] * 6, "the reconstructions of all 6 models are no better than the mean picture"),
        ([LEARNING] * 4 + [TRAINED] * 2, "4 of 6 models were still learning"),
        ([TRAINED._replace(informative=0)] * 6, "try weaker regularisation"),
        ([COLLAPSED] * 6, "try weaker regularisation"),
    ],
)
def test_models_that_are_not_trained_far_enough_cannot_be_chosen_from(training: list[TrainingState], why: str) -> None:
    found = verdict([0.1, 0.1, 0.1, 0.9, 0.8, 0.7], training)
    assert found.kind == "not trained far enough"
    assert found.certainty is None
    assert why in found.sentence()
    assert "draws" not in found.sentence()
    assert not found.sentence().startswith("Use")


def test_a_minority_of_untrained_models_does_not_hide_a_trained_one() -> None:
    assert verdict([0.1, 0.1, 0.1, 0.9, 0.8, 0.7], [LEARNING] * 3 + [TRAINED] * 3).kind == "this one"
    found = verdict([0.9, 0.8, 0.7, 0.1, 0.1, 0.1], [LEARNING] * 3 + [TRAINED] * 3)
    assert found.kind == "undecided"
    assert "the best placed model was still learning when training ended" in found.sentence()


def test_models_that_collapsed_for_good_do_not_count() -> None:
    assert (
        verdict([0.1, 0.1, 0.1, 0.9, 0.8, 0.7], [COLLAPSED] * 4 + [TRAINED] * 2).kind != "this one"
    )  # the best is not trained
    assert verdict([0.9, 0.8, 0.1, 0.1, 0.1, 0.1], [TRAINED] * 2 + [COLLAPSED] * 4).kind == "this one"


def test_too_few_steps_are_too_few_whatever_models_do() -> None:
    found = verdict([0.1, 0.1, 0.1, 0.9, 0.8, 0.7], [TRAINED] * 6, fewest=8000)
    assert found.kind == "not trained far enough"
    assert "models trained for 5,000 steps, and need some 8,000" in found.sentence()
    assert found.sentence().endswith("About 8,000 steps would do.")
    with_minutes = dataclasses.replace(found, minutes=12.0)
    assert with_minutes.sentence().endswith("About 12 minutes would do.")


def test_where_training_could_not_be_seen_it_says_so() -> None:
    found = verdict([0.1, 0.1, 0.1, 0.9, 0.8, 0.7])
    assert found.kind == "this one"
    assert "How far the models are trained" in found.sentence()


@settings(deadline=None)
@given(st.lists(states, min_size=1, max_size=8), st.integers(0, 10_000))
def test_why_models_are_not_trained_always_has_words_or_half_of_them_are(
    found: list[TrainingState], fewest: int
) -> None:
    reasons = why_not_trained(found, fewest)
    assert all(reasons)
    if not reasons:
        counting = [state for state in found if not state.is_collapsed]
        assert 2 * sum(state.is_trained for state in counting) >= len(counting)
    assert 1.5 * found[0].steps <= found[0].steps_that_would_do <= MOST_LONGER * found[0].steps or math.isnan(
        found[0].last_fifth
    )


@settings(deadline=None)
@given(st.floats(1, 1e9))
def test_two_digits_round_up_and_never_far(number: float) -> None:
    assert number <= two_digits(number) <= max(1.1 * number, number + 1)


def test_a_verdict_comes_back_from_json() -> None:
    found = verdict([0.5] * 6, [LEARNING] * 6)
    assert Verdict.of({**found.plain(), "world": "blocks", "of a later version": 1}) == found


def test_the_mean_picture_costs_what_the_closed_form_says() -> None:
    pictures = np.random.default_rng(0).integers(0, 2, (2000, 4, 4, 1)).astype(np.float32)
    mean_picture = MeanPicture.of(pictures)
    assert mean_picture.squared_error == pytest.approx(0.25, abs=0.01)
    assert mean_picture.nats({}) == pytest.approx(16 * math.log(2), rel=0.01)
    gaussian = mean_picture.nats({"likelihood": "gaussian", "variance": 0.5})
    assert gaussian == pytest.approx(16 * (0.25 + 0.5 * math.log(math.pi)), rel=0.01)


def test_the_last_fifth_is_its_share_of_all_progress() -> None:
    pictures = np.random.default_rng(0).integers(0, 2, (2000, 4, 4, 1)).astype(np.float32)
    mean_picture = MeanPicture.of(pictures)
    reference = mean_picture.nats({})
    fell = Model(
        RUNS[0],
        (4, 4, 1),
        cast("Autoencoder", None),
        curves={"reconstruction": np.repeat([9, 8, 7, reference - 4, reference - 5], 20)},
    )
    assert last_fifth(fell, mean_picture) == pytest.approx(0.2)
    assert math.isnan(last_fifth(dataclasses.replace(fell, curves={}), mean_picture))
    flat = dataclasses.replace(fell, curves={"reconstruction": np.full(100, reference)})
    assert last_fifth(flat, mean_picture) == 0


@pytest.fixture(scope="module")
def hardly_trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    world = sober.world("blocks")
    training = Training().but(steps=30, nets="small", learning_rate=1e-3)
    runs = sober.grid(world, "beta_vae", {"beta": [1.0, 4.0]}, seeds=2, training=training)
    return train(runs, world, tmp_path_factory.mktemp("hardly")).folder


def test_models_of_a_few_steps_are_not_chosen_from_and_the_folder_keeps_that(hardly_trained: Path) -> None:
    results = sober.open(hardly_trained)
    found = results.select("udr").verdict
    assert found.kind == "not trained far enough"
    assert found.steps is not None
    assert found.steps > 30
    assert load_verdicts(results.path) == {"blocks": found}


def test_a_longer_training_can_be_chosen_from(tmp_path: Path) -> None:
    world = sober.world("blocks")
    training = Training().but(steps=3000, nets="small", learning_rate=1e-3)
    runs = sober.grid(world, "beta_vae", {"beta": [1.0, 2.0]}, seeds=2, training=training)
    assert train(runs, world, tmp_path / "longer").select("udr").verdict.kind != "not trained far enough"
