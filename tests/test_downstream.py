"""The task downstream: what is learned from which rows, known answers, and scikit-learn's numbers on the same rows."""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
from sklearn.linear_model import LogisticRegressionCV, RidgeCV

import sober
from golden import Golden
from sober.errors import RequestError
from sober.estimators.logistic import strengths_between
from sober.metrics import Measured, as_codes
from sober.parallel import one_thread
from sober.tasks import TASKS, Subjects
from sober.tasks.downstream import SIZES, majority, row_scores, training_sets
from sober.types import Codes, Setting

TASK = TASKS["downstream"]
SMALL: dict[str, Setting] = {"test": 500, "largest": 1_000, "strengths": 4, "stages": 20}
VALUES = (3, 4, 6)


def labelled(rows: int, seed: int = 0, values: tuple[int, ...] = VALUES) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(count, size=rows) for count in values], axis=1)


def noisy(rows: int, seed: int = 0, noise: float = 0.5, latents: int = 5) -> Codes:
    """Each factor plus noise in a latent of its own, and latents of noise."""
    rng, factors = np.random.default_rng([seed, 1]), labelled(rows, seed)
    mean = rng.normal(size=(rows, latents))
    mean[:, :3] = factors + noise * mean[:, :3]
    return as_codes(mean, factors)


def measured(codes: Codes, seed: int = 0, **changes: Setting) -> Measured:
    (outcome,) = TASK(Subjects((codes,)), {**SMALL, **changes}, seed=seed)
    return outcome


# ---------------------------------------------------------------- which rows


def test_training_sets_lie_in_each_other_and_none_in_the_test_set() -> None:
    codes = as_codes(np.arange(15_000.0)[:, None], np.arange(15_000)[:, None] % 2)
    learn, check = training_sets(codes, 5_000, 10_000, 0)
    assert tuple(len(rows.mean) for rows in learn) == SIZES
    for small, large in itertools.pairwise(learn):
        np.testing.assert_array_equal(small.mean, large.mean[: len(small.mean)])
    assert len(check.mean) == 5_000
    assert not set(learn[-1].mean[:, 0]) & set(check.mean[:, 0])
    other = training_sets(codes, 5_000, 10_000, 1)[0]
    assert not np.array_equal(other[0].mean, learn[0].mean)


@pytest.mark.parametrize(
    ("rows", "test", "largest", "sizes", "tested"),
    [
        (14_999, 5_000, 10_000, SIZES, 4_999),
        (14_000, 5_000, 10_000, (10, 100, 1_000), 4_666),
        (600, 5_000, 10_000, (10, 100), 200),
        (600, 5_000, 100, (10, 100), 500),
        (15, 5_000, 10_000, (10,), 5),
        (900, 150, 500, (10, 100), 150),
        (10_000, 5_000, 5_000, (10, 100, 1_000, 5_000), 5_000),
        (15_000, 5_000, 9_999, (10, 100, 1_000, 5_000), 5_000),
        (7_000, 5_000, 5_000, (10, 100, 1_000), 2_333),
    ],
)
def test_sizes_that_do_not_fit_are_left_out_and_a_third_is_tested(
    rows: int, test: int, largest: int, sizes: tuple[int, ...], tested: int
) -> None:
    learn, check = training_sets(as_codes(np.eye(1).repeat(rows, 0), np.arange(rows)[:, None] % 2), test, largest, 0)
    assert tuple(len(part.mean) for part in learn) == sizes
    assert len(check.mean) == tested


def test_what_is_left_out_is_not_among_the_values_and_that_is_said() -> None:
    found = measured(noisy(600), test=5_000, largest=10_000)
    sizes = {f"downstream_{name}_{size}" for name in ("logistic", "boosted") for size in (10, 100)}
    assert set(found.values) == set(found.errors) == sizes
    assert "short_of_rows" in found.flags
    assert "short_of_rows" not in measured(noisy(600), test=500, largest=100).flags


def test_too_few_rows_for_anything_are_refused() -> None:
    with pytest.raises(RequestError, match="downstream needs at least 15 rows, and was given 14 rows: encode more"):
        measured(noisy(14))


# ---------------------------------------------------------------- known answers


def test_perfect_codes_reach_1_and_efficiency_is_the_ratio_of_two_accuracies() -> None:
    factors = labelled(15_000)
    one_hot = np.hstack([np.eye(count)[column] for count, column in zip(VALUES, factors.T, strict=True)])
    found = measured(as_codes(one_hot, factors), test=5_000, largest=10_000)
    assert set(found.values) == {score for score in TASK.scores if not score.endswith("_5000")}
    for name in ("logistic", "boosted"):
        assert found.values[f"downstream_{name}_10000"] == 1
        assert found.values[f"downstream_{name}_efficiency"] == found.values[f"downstream_{name}_100"]
    assert found.errors["downstream_logistic_10000"] == 0
    assert found.flags == ()


def test_half_of_10_000_rows_takes_the_place_of_10_000_and_its_numbers_are_named_so() -> None:
    factors = labelled(10_000)
    codes = as_codes(factors + 0.3 * np.random.default_rng(1).normal(size=factors.shape), factors)
    values = measured(codes, test=5_000, largest=5_000, stages=5).values
    assert {score for score in TASK.scores if "10000" not in score and not score.endswith("efficiency")} == set(values)
    for name in ("logistic", "boosted"):
        ratio = values[f"downstream_{name}_100"] / values[f"downstream_{name}_5000"]
        assert values[f"downstream_{name}_efficiency_5000"] == pytest.approx(ratio)


def test_the_factors_themselves_are_read_by_trees_and_by_planes() -> None:
    factors = labelled(2_000)
    found = measured(as_codes(factors.astype(float), factors), strengths=10)
    assert found.values["downstream_boosted_1000"] == 1
    assert found.values["downstream_logistic_1000"] == 1


def test_noise_gets_what_the_most_frequent_value_gets() -> None:
    rng = np.random.default_rng(0)
    factors = np.stack([rng.choice(3, p=p, size=4_000) for p in ([0.6, 0.3, 0.1], [0.2, 0.1, 0.7])], axis=1)
    found = measured(as_codes(rng.normal(size=(4_000, 4)), factors), test=2_000)
    np.testing.assert_allclose(found.parts["majority_per_factor"], [0.6, 0.7], atol=0.03)
    for name, within in (("logistic", 1e-9), ("boosted", 0.04)):
        frequent = found.parts["majority_per_factor"]
        np.testing.assert_allclose(found.parts[f"{name}_1000_per_factor"], frequent, atol=within)


def test_more_rows_and_less_noise_help() -> None:
    clear, dim = measured(noisy(1_500, noise=0.2)).values, measured(noisy(1_500, noise=1.0)).values
    for name in ("logistic", "boosted"):
        assert clear[f"downstream_{name}_10"] < clear[f"downstream_{name}_100"] < clear[f"downstream_{name}_1000"]
        assert dim[f"downstream_{name}_1000"] < clear[f"downstream_{name}_1000"]


def test_the_order_and_the_sign_of_latents_do_not_matter() -> None:
    codes = noisy(1_500)
    turned = as_codes(codes.mean[:, [3, 1, 4, 0, 2]] * [1, -1, 1, 1, -1], codes.factors)
    first, second = measured(codes), measured(turned)
    for size in (10, 100, 1_000):
        part = f"logistic_{size}_per_factor"
        np.testing.assert_allclose(first.parts[part], second.parts[part], atol=1e-9)
    # Of splits that are equally good, of which few rows have many, trees take one by lot.
    assert first.values["downstream_boosted_1000"] == pytest.approx(second.values["downstream_boosted_1000"], abs=0.01)


def test_to_a_linear_model_a_rotated_code_is_the_same_and_to_trees_it_is_not() -> None:
    codes = noisy(1_500, noise=0.2)
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(5, 5)))[0]
    first, second = measured(codes), measured(as_codes(codes.mean @ rotation, codes.factors))
    for size in (10, 100, 1_000):
        part = f"logistic_{size}_per_factor"
        np.testing.assert_allclose(first.parts[part], second.parts[part], atol=1e-9)
    assert second.values["downstream_boosted_1000"] < first.values["downstream_boosted_1000"] - 0.05


def test_a_model_is_measured_as_if_it_were_alone() -> None:
    models = noisy(400, 0), noisy(400, 0, noise=2.0)
    done: list[tuple[int, int]] = []
    together = TASK(Subjects(models), TASK.quick, progress=lambda *now: done.append(now))
    for codes, found in zip(models, together, strict=True):
        (alone,) = TASK(Subjects((codes,)), TASK.quick)
        assert found.values == alone.values
        assert found.errors == alone.errors
    assert done == [(0, 2), (1, 2), (2, 2)]


def test_the_same_seed_gives_the_same_numbers_and_another_others() -> None:
    codes = noisy(700)
    assert measured(codes).values == measured(codes).values
    assert measured(codes, seed=1).values != measured(codes).values


# ---------------------------------------------------------------- scikit-learn on the same rows


def of_sklearn(learn: Codes, check: Codes, k: int, kind: Any, **options: Any) -> Any:
    with warnings.catch_warnings(), one_thread():
        warnings.simplefilter("ignore")
        model = kind(**options).fit(learn.mean, learn.factors[:, k])
    return model, model.score(check.mean, check.factors[:, k])


def test_accuracies_and_strengths_are_those_of_scikit_learn() -> None:
    codes = noisy(1_500)
    found = measured(codes, strengths=10, stages=30)
    learn, check = training_sets(codes, 500, 1_000, 0)
    at_the_end: dict[str, Any] = {"tol": 1e-8, "max_iter": 10_000}
    for size, rows in list(zip((10, 100, 1_000), learn, strict=True))[1:]:
        for k in range(3):
            model, accuracy = of_sklearn(rows, check, k, LogisticRegressionCV, Cs=10, cv=5, **at_the_end)
            assert found.parts[f"logistic_{size}_per_factor"][k] == pytest.approx(accuracy, abs=1e-9)
            assert found.parts[f"logistic_strength_{size}_per_factor"][k] == model.C_[0]
            _, usual = of_sklearn(rows, check, k, LogisticRegressionCV, Cs=10, cv=5)
            assert found.parts[f"logistic_{size}_per_factor"][k] == pytest.approx(usual, abs=0.01)
            _, accuracy = of_sklearn(rows, check, k, GradientBoostingClassifier, n_estimators=30, random_state=0)
            assert found.parts[f"boosted_{size}_per_factor"][k] == pytest.approx(accuracy, abs=0.015)


@pytest.fixture(scope="module")
def golden(shared: Path) -> Golden:
    return Golden(shared)


@pytest.mark.parametrize("name", ["noisy", "rotation", "sincos"])
def test_representations_of_a_world_are_predicted_as_by_scikit_learn(golden: Golden, name: str) -> None:
    codes = golden.first("smallnorb", name, 1_100)
    found = measured(codes, test=1_000, largest=100, strengths=10)
    (_, learn), check = training_sets(codes, 1_000, 100, 0)
    for k in range(4):
        at_the_end: dict[str, Any] = {"tol": 1e-8, "max_iter": 10_000}
        _, accuracy = of_sklearn(learn, check, k, LogisticRegressionCV, Cs=10, cv=5, **at_the_end)
        assert found.parts["logistic_100_per_factor"][k] == pytest.approx(accuracy, abs=1e-9)


def test_scikit_learn_itself_can_be_asked_for() -> None:
    codes = noisy(160)
    learn, check = training_sets(codes, 60, 100, 0)
    found = measured(codes, test=60, largest=100, solver="sklearn", trees="sklearn")
    for k in range(3):
        _, accuracy = of_sklearn(learn[1], check, k, LogisticRegressionCV, Cs=4, cv=5)
        assert found.parts["logistic_100_per_factor"][k] == accuracy
        _, accuracy = of_sklearn(learn[1], check, k, GradientBoostingClassifier, n_estimators=20, random_state=0)
        assert found.parts["boosted_100_per_factor"][k] == accuracy
    assert TASK.configured("sklearn")["solver"] == TASK.configured("sklearn")["trees"] == "sklearn"


# ---------------------------------------------------------------- continuous factors


def mixed(rows: int, noise: float = 0.5) -> Codes:
    """A factor of three values, and one that is a number."""
    rng = np.random.default_rng(5)
    factors = np.stack([rng.integers(3, size=rows), rng.normal(size=rows)], axis=1)
    mean = np.hstack([factors + noise * rng.normal(size=(rows, 2)), rng.normal(size=(rows, 2))])
    return as_codes(mean, factors, kinds=["ordinal", "continuous"])


def test_a_continuous_factor_has_r2_beside_the_accuracies_of_others() -> None:
    codes = mixed(1_500)
    found = measured(codes, strengths=10, stages=100)
    learn, check = training_sets(codes, 500, 1_000, 0)
    _, line = of_sklearn(learn[2], check, 1, RidgeCV, alphas=1 / strengths_between(10), cv=5)
    _, trees = of_sklearn(learn[2], check, 1, GradientBoostingRegressor, random_state=0)
    assert found.parts["logistic_1000_per_factor"][1] == pytest.approx(line, abs=1e-9)
    assert found.parts["boosted_1000_per_factor"][1] == pytest.approx(trees, abs=0.002)
    for name in ("logistic", "boosted"):
        assert found.values[f"downstream_{name}_1000"] == pytest.approx(
            found.parts[f"{name}_1000_per_factor"].mean(), abs=1e-12
        )
    assert "regressed_factor" in found.flags
    assert found.parts["majority_per_factor"][1] == 0


def test_what_is_worse_than_the_mean_counts_0_and_is_kept_as_it_is_in_the_parts() -> None:
    rng = np.random.default_rng(0)
    codes = as_codes(rng.normal(size=(600, 8)), rng.normal(size=(600, 1)), kinds="continuous")
    found = measured(codes)
    assert found.parts["boosted_10_per_factor"][0] < 0
    assert found.values["downstream_boosted_10"] == found.errors["downstream_boosted_10"] == 0
    assert "worse_than_mean" in found.flags


def test_where_nothing_is_learned_there_is_no_efficiency() -> None:
    rng = np.random.default_rng(0)
    codes = as_codes(rng.normal(size=(10_100, 2)), rng.normal(size=(10_100, 1)), kinds="continuous")
    found = measured(codes, test=100, largest=10_000)
    gone = [name for name in ("logistic", "boosted") if found.values[f"downstream_{name}_10000"] == 0]
    assert gone
    assert "nothing_learned" in found.flags
    assert not any(f"downstream_{name}_efficiency" in found.values for name in gone)


# ---------------------------------------------------------------- flags and errors


def test_a_factor_of_which_one_value_is_known_is_guessed_to_have_it() -> None:
    codes = noisy(600)
    learn, check = training_sets(codes, 200, 100, 0)
    where = np.isin(codes.mean[:, 4], learn[0].mean[:, 4])
    factors = codes.factors.copy()
    factors[where, 1] = 2
    found = measured(as_codes(codes.mean, factors), test=200, largest=100)
    assert "one_class" in found.flags
    for name in ("logistic", "boosted"):
        assert found.parts[f"{name}_10_per_factor"][1] == np.mean(check.factors[:, 1] == 2)


def test_a_value_that_the_most_rows_lack_is_rare_and_one_that_ten_rows_lack_is_not() -> None:
    codes = noisy(1_500)
    assert "rare_class" not in measured(codes).flags, "ten rows never have all values of all factors"
    factors = codes.factors.copy()
    learn, _ = training_sets(codes, 500, 1_000, 0)
    once = int(np.flatnonzero(codes.mean[:, 4] == learn[2].mean[900, 4])[0])
    factors[once, 0] = 3
    assert "rare_class" in measured(as_codes(codes.mean, factors)).flags


def test_constant_latents_and_factors_are_said() -> None:
    codes = noisy(600)
    dead = codes.mean.copy()
    dead[:, 3] = 1.5
    assert "dead_latent" in measured(as_codes(dead, codes.factors), largest=100).flags
    nothing = measured(as_codes(np.ones((600, 2)), codes.factors), largest=100)
    assert {"collapsed", "dead_latent"} <= set(nothing.flags)
    learn, check = training_sets(codes, 500, 100, 0)
    np.testing.assert_array_equal(nothing.parts["logistic_100_per_factor"], majority(learn[1], check))
    constant = codes.factors.copy()
    constant[:, 1] = 0
    found = measured(as_codes(codes.mean, constant), largest=100)
    assert "constant_factor" in found.flags
    assert found.parts["logistic_100_per_factor"].shape == (2,)


def test_standard_errors_are_those_of_test_rows_drawn_again() -> None:
    codes = mixed(6_000)
    found = measured(codes, test=2_000)
    single = measured(as_codes(codes.mean, codes.factors[:, :1]), test=2_000)
    accuracy = single.values["downstream_logistic_1000"]
    assert single.errors["downstream_logistic_1000"] == pytest.approx(np.sqrt(accuracy * (1 - accuracy) / 1_999))
    _, check = training_sets(codes, 2_000, 1_000, 0)
    truth, rng = check.factors[:, 1], np.random.default_rng(0)
    guess = truth + 0.5 * rng.standard_t(5, size=2_000)
    draws = []
    for _ in range(400):
        rows = rng.integers(2_000, size=2_000)
        draws.append(1 - np.mean((guess - truth)[rows] ** 2) / np.var(truth[rows]))
    scores = row_scores([guess], as_codes(check.mean, truth[:, None], kinds="continuous"))
    assert scores.mean() == pytest.approx(1 - np.mean((guess - truth) ** 2) / np.var(truth))
    assert scores.std() / np.sqrt(2_000) == pytest.approx(np.std(draws), rel=0.15)
    assert set(found.errors) == set(found.values)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"folds": 11}, "folds must be a whole number from 2 to 10, not 11"),
        ({"test": 2}, "test must be a whole number from 5 on"),
        ({"largest": 9}, "largest must be a whole number from 10 on"),
        ({"strengths": 2.5}, "strengths must be a whole number"),
        ({"stages": 0}, "stages must be"),
        ({"solver": "magic"}, "solver must be optimum or sklearn, not 'magic'"),
        ({"trees": "oak"}, "trees must be boosted or sklearn"),
        ({"rows": 5}, "no setting 'rows'"),
    ],
)
def test_wrong_settings_are_refused(changes: dict[str, Setting], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        TASK(Subjects((noisy(50),)), changes)


def test_arrays_are_enough() -> None:
    codes = noisy(400)
    scores = sober.task("downstream", codes.mean, codes.factors, **TASK.quick)
    assert scores["downstream_logistic_100"] > scores["downstream_logistic_10"]
    assert scores.parts["downstream"]["boosted_100_per_factor"].shape == (3,)
    assert scores.errors["downstream_logistic_100"] > 0


def test_a_plan_knows_what_it_costs() -> None:
    whole, small = (TASK.cost(TASK.configured(changes={"largest": largest}), 10).seconds for largest in (10_000, 100))
    assert 10 < small < whole < 200
