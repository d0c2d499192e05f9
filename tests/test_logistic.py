"""Cross-validated regressions: scikit-learn's folds, strengths and coefficients, where it is run for long enough."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.model_selection import KFold, StratifiedKFold

import sober
from sober.errors import RequestError
from sober.estimators import logistic
from sober.estimators.folds import contiguous, stratified
from sober.estimators.logistic import CrossValidated, cross_validated, strengths_between
from sober.estimators.ridge import ridge
from sober.parallel import one_thread

Data = tuple[np.ndarray, np.ndarray]


def noisy(rows: int = 150, columns: int = 4, classes: int = 5, seed: int = 0) -> Data:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, columns))
    logits = 2 * x @ rng.normal(size=(columns, classes)) + rng.gumbel(size=(rows, classes))
    return x, np.argmax(logits, axis=1)


def in_order() -> Data:
    """Classes that follow each other along one column: no plane cuts off those in the middle."""
    x, _ = noisy(120, 3)
    return x, np.digitize(x[:, 0] + 0.2 * x[:, 1], np.linspace(-1.2, 1.2, 7))


def separable() -> Data:
    x, _ = noisy(80, 3)
    return x, np.digitize(x[:, 0], [-0.5, 0.5])


def rare() -> Data:
    """Classes with fewer rows than there are folds: some folds learn from rows that lack one."""
    x, y = noisy(60)
    return x, np.where(np.arange(60) == 7, 90, np.where(np.isin(np.arange(60), [3, 44]), 80, y % 2))


def dependent() -> Data:
    x, y = noisy(100)
    return np.hstack([x, x[:, :2], np.full((100, 1), 3.0)]), y


DATA: dict[str, Callable[[], Data]] = {
    "noisy": noisy,
    "in_order": in_order,
    "separable": separable,
    "rare": rare,
    "dependent": dependent,
    "few rows": lambda: noisy(12, 3, 3),
    "two classes": lambda: noisy(90, 4, 2),
    "far from 0": lambda: (noisy()[0] * [1, 30, 0.01, 1] + [100, 0, 0, -3], noisy()[1]),
}


def of_sklearn(x: np.ndarray, y: np.ndarray, long: bool = True) -> LogisticRegressionCV:
    """By a solver that ends at the optimum, or by the usual one, which ends after 100 iterations, wherever it is."""
    long_enough = {"tol": 1e-10, "max_iter": 20_000, "solver": "newton-cg"} if long else {}
    with warnings.catch_warnings(), one_thread():
        warnings.simplefilter("ignore")
        return LogisticRegressionCV(Cs=10, cv=5, scoring="accuracy", **long_enough).fit(x, y)


def chances(found: CrossValidated, x: np.ndarray) -> np.ndarray:
    return softmax(found.model.scores(x), axis=1)


@pytest.mark.parametrize("data", [name for name in DATA if name != "far from 0"])
def test_folds_strengths_and_probabilities_are_those_of_scikit_learn(data: str) -> None:
    x, y = DATA[data]()
    theirs, ours = of_sklearn(x, y), cross_validated(x, y)
    np.testing.assert_array_equal(ours.model.classes, theirs.classes_)
    np.testing.assert_allclose(ours.accuracy, next(iter(theirs.scores_.values())), atol=1e-12)
    assert ours.strength == theirs.C_[0]
    np.testing.assert_allclose(chances(ours, x), theirs.predict_proba(x), atol=2e-5)


@pytest.mark.parametrize("seed", range(3))
def test_the_usual_scikit_learn_which_stops_early_comes_near_on_noisy_codes(seed: int) -> None:
    x, y = noisy(1_300, 5, 8, seed)
    theirs, ours = of_sklearn(x[:300], y[:300], long=False), cross_validated(x[:300], y[:300])
    assert np.mean(ours.model.predict(x[300:]) == y[300:]) == pytest.approx(theirs.score(x[300:], y[300:]), abs=0.005)


@pytest.mark.parametrize("data", DATA)
def test_it_is_at_the_optimum(data: str) -> None:
    x, y = DATA[data]()
    found = cross_validated(x, y)
    residual = chances(found, x) - (y[:, None] == found.model.classes)
    penalty = (2 if residual.shape[1] == 2 else 1) / found.strength
    gradient = x.T @ residual + penalty * found.model.weight
    assert np.abs(gradient).max() < 1e-6 * np.abs(x).sum(axis=0).max()
    assert np.abs(residual.sum(axis=0)).max() < 1e-6


@pytest.mark.parametrize("data", ["noisy", "in_order", "rare", "two classes"])
def test_what_it_divides_by_makes_no_difference(data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = DATA[data]()
    first = cross_validated(x, y)
    for name, value in (("DENSE", 0), ("LONG", 0)):  # the diagonal alone; each fold's own Hessian after every step
        with monkeypatch.context() as patch:
            patch.setattr(logistic, name, value)
            again = cross_validated(x, y)
        np.testing.assert_array_equal(again.accuracy, first.accuracy)
        np.testing.assert_allclose(chances(again, x), chances(first, x), atol=1e-6)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(0, 3), min_size=6, max_size=25), st.integers(0, 2**32 - 1), st.sampled_from([1e-3, 1.0, 1e3])
)
def test_any_labels_give_finite_scores_the_same_in_any_order_of_columns(
    labels: list[int], seed: int, scale: float
) -> None:
    x, y = scale * np.random.default_rng(seed).normal(size=(len(labels), 3)), np.array(labels)
    found, turned = cross_validated(x, y, strengths=4), cross_validated(x[:, [2, 0, 1]], y, strengths=4)
    assert np.isfinite(found.model.scores(x)).all()
    np.testing.assert_array_equal(found.accuracy, turned.accuracy)
    np.testing.assert_allclose(chances(found, x), chances(turned, x[:, [2, 0, 1]]), atol=1e-5)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=5, max_size=40), st.integers(2, 5))
def test_folds_are_those_of_scikit_learn_or_contiguous_where_it_refuses(labels: list[int], folds: int) -> None:
    y = np.array(labels)
    x = np.zeros((len(y), 1))
    splitter = StratifiedKFold(folds) if np.bincount(y).max() >= folds else KFold(folds)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        splits = list(splitter.split(x, y))
    for fold, (_, out) in enumerate(splits):
        np.testing.assert_array_equal(np.flatnonzero(stratified(y, folds) == fold), out)


@pytest.mark.parametrize("seed", range(6))
def test_curvature_below_rounding_makes_no_step(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for latents in (1, 3, 5):
        codes, labels = np.sign(rng.normal(size=(10, latents))) * 1e50, rng.integers(0, 3, 10)
        with np.errstate(over="raise", invalid="raise", divide="raise"):
            found = cross_validated(codes, labels, strengths=3, folds=2)
        assert np.isfinite(found.model.weight).all()


def test_one_class_leaves_nothing_to_learn() -> None:
    found = cross_validated(np.eye(6), np.full(6, 3))
    assert found.strength == strengths_between(10)[0] == 1e-4
    assert found.model.predict(np.eye(6)).tolist() == [3] * 6


def test_a_class_that_a_fold_does_not_know_is_not_predicted_there() -> None:
    x = np.vstack([np.eye(3)[[0] * 8 + [1] * 8], [[0, 0, 50.0]]])
    y = np.array([0] * 8 + [1] * 8 + [2])
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # and the search for an optimum at infinity ends
        found = cross_validated(x, y)
    left_out = stratified(y, 5)[16]
    assert (found.accuracy[left_out, :] <= (np.sum(stratified(y, 5) == left_out) - 1) / 4).all()
    assert found.model.predict(x)[16] == 2


def test_codes_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(RequestError, match="finite"):
        cross_validated(np.array([[1.0], [np.nan]]), np.array([0, 1]))


@pytest.mark.parametrize("noise", [0.1, 3.0, 100.0])
@pytest.mark.parametrize("rows", [10, 83])
def test_ridge_is_that_of_scikit_learn(rows: int, noise: float) -> None:
    rng = np.random.default_rng(rows)
    x = rng.normal(size=(rows, 6)) * [1, 10, 0.1, 1, 1, 0] + 4
    y = x @ rng.normal(size=6) + noise * rng.normal(size=rows)
    theirs, ours = RidgeCV(alphas=1 / strengths_between(10), cv=5).fit(x, y), ridge(x, y)
    assert ours.strength == pytest.approx(1 / theirs.alpha_)
    np.testing.assert_allclose(ours.predict(x), theirs.predict(x), rtol=1e-7, atol=1e-7)


def test_contiguous_folds_differ_by_a_row_at_most() -> None:
    assert contiguous(7, 3).tolist() == [0, 0, 0, 1, 1, 2, 2]


def test_rows_that_are_too_large_for_a_step_end_without_a_warning() -> None:
    """The fit stops at coefficients that are finite, and says that it did not converge."""
    rng = np.random.default_rng(3)
    codes = rng.normal(size=(60, 2)) * np.array([1e60, 1e-60])
    with np.errstate(all="raise", under="ignore"):
        scores = sober.task("downstream", codes, rng.integers(0, 3, size=(60, 1)), largest=100)
    assert np.isfinite(list(scores.values())).all()
