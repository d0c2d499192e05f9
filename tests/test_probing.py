"""Numbers about layers: closed forms against brute force, and known answers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

import sober
from sober.estimators.predictors import points
from sober.probing.combinations import unseen_combinations
from sober.probing.knowledge import Number, Rows, knowledge, scored
from sober.probing.label_free import ALTERED, OBJECTS, altered, effective_rank, lidar, nuisance, ranks
from sober.probing.moves import _mean_cosine, movement, planned
from sober.probing.readout import STRENGTHS, Scaling, fit
from sober.types import Factor

ABOUT = (Factor("hue", 8, "cyclic"), Factor("size", 6, "ordinal"), Factor("shape", 4, "categorical"))


def labels(rows: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, [factor.size for factor in ABOUT], (rows, len(ABOUT)))


def ideal(factors: np.ndarray) -> np.ndarray:
    """Features that hold each factor's points, turned by a rotation, so that no unit holds one factor."""
    blocks = [points(factor, column) for factor, column in zip(ABOUT, factors.T, strict=True)]
    features = np.concatenate(blocks, axis=1)
    return features @ np.linalg.qr(np.random.default_rng(9).standard_normal((features.shape[1],) * 2))[0]


def by_name(numbers: Sequence[Number]) -> dict[tuple[str, str, int], Number]:
    return {(number.factor, number.name, number.labels): number for number in numbers}


def test_the_interval_of_a_mean_cosine_holds_it() -> None:
    """Moves along one direction, with noise: the true mean cosine of two moves is 0.6113, from many draws."""
    held = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        steps = np.array([1.0] + [0.0] * 63) + 0.1 * rng.standard_normal((48, 64))
        units = steps / np.linalg.norm(steps, axis=1, keepdims=True)
        value, low, high = _mean_cosine(units)
        brute = (units @ units.T)[~np.eye(48, dtype=bool)].mean()
        assert value == pytest.approx(brute, abs=1e-9)
        held += low <= 0.6113 <= high
    assert held >= 180


def unseen(rows: Rows) -> list[Number]:
    return list(unseen_combinations(rows, knowledge(rows)))


@pytest.mark.parametrize(("rows", "width"), [(40, 6), (12, 30)])
def test_a_readout_has_the_strength_with_the_least_error_on_rows_left_out(rows: int, width: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, width)) * 3 + 1
    y = x[:, :2] + rng.standard_normal((rows, 2))
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    errors = []
    for strength in STRENGTHS:
        left_out = [np.arange(rows) != row for row in range(rows)]
        guesses = [Ridge(alpha=strength * rows).fit(z[kept], y[kept]).predict(z[~kept])[0] for kept in left_out]
        errors.append(np.sum((np.array(guesses) - y) ** 2))
    readout = fit(x, [y])
    assert readout.strengths[0] == STRENGTHS[int(np.argmin(errors))]
    best = Ridge(alpha=readout.strengths[0] * rows).fit(z, y).predict(z)
    np.testing.assert_allclose(readout.predict(x), best, atol=1e-4)


def test_each_factor_has_a_strength_of_its_own() -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((60, 20))
    readout = fit(x, [x[:, :1], rng.standard_normal((60, 1))])
    assert readout.strengths[0] < readout.strengths[1]


def test_everything_is_read_from_features_that_hold_it() -> None:
    factors = labels(800)
    numbers = by_name(knowledge(Rows(ideal(factors), factors, ABOUT)).numbers)
    for factor in ABOUT:
        for name in ("linear readout", "nonlinear readout"):
            number = numbers[factor.name, name, 600]
            assert number.value > 0.98
            assert number.low <= number.value <= number.high
            assert number.chance_high < 0.5
        assert (
            numbers[factor.name, "nonlinear readout", 10].value < numbers[factor.name, "nonlinear readout", 600].value
        )
        assert numbers[factor.name, "best unit", 600].value < number.value
    assert numbers["shape", "linear readout", 600].unit == "accuracy"
    assert numbers["hue", "linear readout", 600].unit == "R²"


def test_nothing_is_read_from_noise() -> None:
    factors = labels(800)
    features = np.random.default_rng(2).standard_normal((800, 12))
    for number in knowledge(Rows(features, factors, ABOUT)).numbers:
        chance = 0.25 if number.unit == "accuracy" else 0.0
        assert number.value == pytest.approx(chance, abs=0.1)


def test_a_product_is_read_by_the_nonlinear_readout_alone() -> None:
    rng = np.random.default_rng(3)
    about = (Factor("sign", 2, "ordinal"),)
    features = rng.standard_normal((1200, 2))
    factors = (features[:, :1] * features[:, 1:] > 0).astype(int)
    numbers = by_name(knowledge(Rows(features, factors, about)).numbers)
    assert numbers["sign", "linear readout", 900].value < 0.1
    assert numbers["sign", "nonlinear readout", 900].value > 0.5


def test_intervals_hold_the_value_of_many_rows() -> None:
    rng = np.random.default_rng(4)
    factor, held = Factor("size", 6, "ordinal"), 0
    truth = rng.integers(0, 6, 200_000)[:, None].astype(float)
    guess = truth + rng.standard_normal(truth.shape)
    whole = scored(factor, guess, truth, truth.mean(axis=0))[0]
    for draw in range(400):
        rows = slice(draw * 500, draw * 500 + 500)
        value, error = scored(factor, guess[rows], truth[rows], truth.mean(axis=0))
        held += abs(value - whole) < 1.96 * error
    assert 0.92 < held / 400 < 0.98


def test_linear_features_extend_to_unseen_combinations_and_tangled_ones_do_not() -> None:
    factors = labels(3000)
    linear = by_name(unseen(Rows(ideal(factors), factors, ABOUT)))
    one_hot = np.eye(8 * 6 * 4)[np.ravel_multi_index(tuple(factors.T), (8, 6, 4))]  # a unit for each combination
    tangled = by_name(unseen(Rows(one_hot, factors, ABOUT)))
    for factor in ABOUT:
        assert linear[factor.name, "unseen", 2250].value > 0.95
        assert tangled[factor.name, "unseen", 2250].value < tangled[factor.name, "seen", 2250].value - 0.3


def test_unseen_combinations_have_a_chance_of_their_own() -> None:
    about = (Factor("kind", 4, "categorical"), Factor("size", 6, "ordinal"))
    factors = np.random.default_rng(0).integers(0, [4, 6], (3000, 2))
    noise = np.random.default_rng(1).standard_normal((3000, 12))
    guessed = by_name(unseen(Rows(noise, factors, about)))
    known = by_name(unseen(Rows(np.concatenate([noise, np.eye(4)[factors[:, 0]], factors[:, 1:]], 1), factors, about)))
    for factor in about:
        for name in ("unseen", "seen"):
            assert guessed[factor.name, name, 2250].value <= guessed[factor.name, name, 2250].chance_high
            assert known[factor.name, name, 2250].value > known[factor.name, name, 2250].chance_high
    # The rows to learn from have few of the kinds that make up the unseen ones, so guesses hardly name these.
    assert guessed["kind", "unseen", 2250].chance < 0.1
    assert guessed["kind", "seen", 2250].chance > 0.2


def test_moves_of_linear_features_have_one_direction_and_add_up() -> None:
    about = (Factor("a", 5, "ordinal"), Factor("b", 5, "ordinal"), Factor("still", 1, "ordinal"))
    factors = np.random.default_rng(5).integers(0, [5, 5, 1], (200, 3))
    moves = planned(factors)
    assert moves.moving == (0, 1)
    turned = moves.factors[:, :2] @ np.array([[1.0, 2.0, 0.5], [-2.0, 1.0, 0.0]])
    numbers = by_name(list(movement(moves, turned, Scaling(np.zeros(3), np.ones(3)), about)))
    for name in ("a", "b"):
        assert numbers[name, "same direction", 0].value == pytest.approx(1)
        assert numbers[name, "own direction", 0].value == pytest.approx(1, abs=1e-6)
        assert numbers[name, "additive", 0].value == pytest.approx(1)


def test_moves_of_tangled_features_do_not_add_up() -> None:
    about = (Factor("a", 5, "ordinal"), Factor("b", 5, "ordinal"))
    moves = planned(np.random.default_rng(6).integers(0, 5, (200, 2)))
    units = np.random.default_rng(7).standard_normal((25, 60))[moves.factors[:, 0] * 5 + moves.factors[:, 1]]
    numbers = by_name(list(movement(moves, units, Scaling.of(units), about)))
    assert numbers["a", "additive", 0].value < 0.4
    assert numbers["a", "same direction", 0].value < 0.6


def test_only_one_or_two_factors_differ_between_blocks() -> None:
    moves = planned(labels(100))
    for before, after in moves.blocks(moves.factors)[0]:
        assert ((before != after).any(axis=0)).sum() == 1
    for (k, other), (neither, first, second, both) in zip(moves.pairs, moves.blocks(moves.factors)[1], strict=True):
        assert set(np.flatnonzero((neither != both).any(axis=0))) == {k, other}
        assert list(np.flatnonzero((neither != first).any(axis=0))) == [k]
        assert list(np.flatnonzero((neither != second).any(axis=0))) == [other]


def test_factors_that_never_change_have_no_moves() -> None:
    moves = planned(np.zeros((10, 2), int))
    assert (len(moves.factors), moves.moving) == (0, ())
    assert not list(movement(moves, np.zeros((0, 3)), Scaling(np.zeros(3), np.ones(3)), ABOUT[:2]))


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 30), st.integers(0, 2**32 - 1))
def test_the_effective_rank_is_the_number_of_equal_axes(axes: int, seed: int) -> None:
    sizes = np.zeros(40)
    sizes[:axes] = np.random.default_rng(seed).uniform(1, 9)
    assert effective_rank(sizes) == pytest.approx(axes, rel=1e-3)


def test_ranks_of_features_without_numbers_are_zero() -> None:
    assert [number.value for number in ranks(np.zeros((10, 4)))] == [0, 0]


def test_lidar_counts_the_axes_that_tell_objects_apart() -> None:
    rng = np.random.default_rng(8)
    objects = np.repeat(rng.standard_normal((OBJECTS, 3)), ALTERED, axis=0)
    features = np.concatenate([objects, np.zeros((len(objects), 5))], axis=1)
    assert lidar(features + 0.01 * rng.standard_normal(features.shape)).value == pytest.approx(3, abs=0.4)


def test_altered_pictures_look_alike() -> None:
    images = np.random.default_rng(0).integers(0, 255, (3, 32, 32, 3), np.uint8)
    versions = altered(images)
    assert versions.shape == (3 * ALTERED, 32, 32, 3)
    assert versions.dtype == np.uint8
    assert np.array_equal(versions, altered(images))


def test_nuisance_is_the_share_of_variance_that_labels_leave() -> None:
    rng = np.random.default_rng(10)
    known = rng.standard_normal((4000, 3))
    first, second = (known + 0.5 * rng.standard_normal(known.shape) for _ in range(2))
    assert nuisance(known, known).value == 0
    assert nuisance(first, second).value == pytest.approx(0.25 / 1.25, abs=0.02)


def test_features_of_noise_are_rarely_above_their_shuffles() -> None:
    """R² of most shuffles is below 0: they count as they are, or nearly any R² would be above chance."""
    above, numbers = 0, 0
    for seed in range(120):
        rng = np.random.default_rng(seed)
        features, factors = rng.normal(size=(300, 6)).astype(np.float32), rng.integers(0, 8, (300, 2))
        rows = Rows(features, factors, (Factor("a", 8), Factor("b", 8)))
        for number in knowledge(rows, seed=seed, labels=(100,)).numbers:
            if not np.isnan(number.chance_high):
                above, numbers = above + (number.value > number.chance_high), numbers + 1
    assert numbers > 400
    assert above <= 0.05 * numbers


def test_a_name_with_an_end_of_line_stays_in_its_sentence() -> None:
    factors = np.random.default_rng(0).integers(0, 3, size=(60, 2))
    findings = sober.probe(factors + 0.1, factors=factors, names=["a\nb", "\x1b[2Jc"]).findings
    assert all(sentence.isprintable() for sentence in findings)
    assert "a b (" in findings[0]
