"""Lassos between the columns of models: the same numbers as scikit-learn's, and the conditions that define them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Lasso, LassoCV, MultiTaskLassoCV

from sober.errors import RequestError
from sober.estimators.lasso import ModelColumns, lasso, lasso_cv, regressions


def problem(kind: str, rows: int = 1_000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, 8))
    if kind == "mixed":
        x = x @ rng.standard_normal((8, 8)) + 3
    if kind == "constant and copy":
        x[:, 3], x[:, 4] = 2.0, x[:, 5]
    y = x @ rng.standard_normal((8, 4)) * [1, 0.1, 0.01, 0] + rng.standard_normal((rows, 4)) + [0, 5, 0, 0]
    return x, -x[:, :4] if kind == "copies" else y


@pytest.mark.parametrize("kind", ["independent", "mixed", "constant and copy", "copies"])
@pytest.mark.parametrize("folds", [3, 5])
def test_strength_and_coefficients_are_those_of_scikit_learn(kind: str, folds: int) -> None:
    x, y = problem(kind, rows=1_003)
    found = lasso_cv(x, y, folds=folds, strengths=40)
    for t in range(y.shape[1]):
        theirs = LassoCV(alphas=40, cv=folds, tol=1e-10, max_iter=100_000).fit(x, y[:, t])
        assert found.strength[t] == pytest.approx(theirs.alpha_, rel=1e-9)
        np.testing.assert_allclose(found.coefficients[t], theirs.coef_, atol=1e-6)


def test_for_one_target_it_is_also_the_lasso_that_shares_its_features_among_targets() -> None:
    x, y = problem("mixed")
    found = lasso_cv(x, y, strengths=40)
    for t in range(y.shape[1]):
        theirs = MultiTaskLassoCV(alphas=40, cv=5, tol=1e-10, max_iter=100_000).fit(x, y[:, [t]])
        assert found.strength[t] == pytest.approx(theirs.alpha_, rel=1e-9)
        np.testing.assert_allclose(found.coefficients[t], theirs.coef_[0], atol=1e-6)


def test_a_given_strength_gives_the_lasso_of_scikit_learn() -> None:
    x, y = problem("mixed")
    np.testing.assert_allclose(lasso(x, y, 0.1), Lasso(alpha=0.1, tol=1e-12, max_iter=10**6).fit(x, y).coef_, atol=1e-6)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 9), st.sampled_from([1, 2, 5, 100]), st.floats(1e-4, 2))
def test_no_coefficient_can_be_bettered(seed: int, D: int, levels: int, strength: float) -> None:
    rng = np.random.default_rng(seed)
    x, y = (rng.integers(-levels, levels + 1, (30, n)).astype(float) for n in (D, 3))  # few levels: copies and ties
    x[:, rng.integers(D)] = x[:, 0] * rng.choice([-1, 1, 2])
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    coefficients = lasso(x, y, strength)
    left = (y - x @ coefficients.T).T @ x / 30  # (T, D)
    assert (np.abs(left) <= strength + 1e-8).all()
    used = coefficients != 0
    np.testing.assert_allclose(left[used], strength * np.sign(coefficients[used]), atol=1e-8)


def test_many_pairs_are_as_each_by_itself() -> None:
    rng = np.random.default_rng(1)
    base = rng.standard_normal((500, 20))
    models = [base[:, rng.permutation(20)[:width]] + rng.standard_normal((500, width)) for width in [3, 20, 1] * 20]
    pairs = np.array([(i, j) for i in range(60) for j in range(60) if i != j and (i < 20 or (i + j) % 31 == 0)])
    found, strength = regressions(ModelColumns.of(models), pairs)
    for at in rng.integers(len(pairs), size=40):
        target, features = (models[m] for m in pairs[at])
        alone = lasso_cv(features, target)
        T, D = alone.coefficients.shape
        np.testing.assert_allclose(found[at, :T, :D], alone.coefficients, atol=1e-10)
        np.testing.assert_allclose(strength[at, :T], alone.strength, rtol=1e-9)
        assert not found[at, T:].any()
        assert not found[at, :, D:].any()


@pytest.mark.parametrize(
    ("x", "y", "says"),
    [
        (np.zeros((9, 2)), np.zeros((9, 1)), "at least 10 rows, got 9"),
        (np.zeros((20, 2)), np.zeros((19, 1)), "got shapes"),
        (np.full((20, 2), np.nan), np.zeros((20, 1)), "finite"),
    ],
)
def test_what_cannot_be_fitted_is_refused(x: np.ndarray, y: np.ndarray, says: str) -> None:
    with pytest.raises(RequestError, match=says):
        lasso_cv(x, y)


def test_nothing_to_explain_has_no_coefficients() -> None:
    x, _ = problem("independent")
    assert not lasso_cv(x, np.full((len(x), 2), 3.0)).coefficients.any()
    assert not lasso_cv(np.ones_like(x), x).coefficients.any()
