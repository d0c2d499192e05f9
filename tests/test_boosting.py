"""Boosted trees: those of scikit-learn, whatever the scale, the threads and the company.

Small nodes often have several splits that are equally good, and both break such ties at random: that is all the
tolerances here are for.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

from sober.errors import RequestError
from sober.metrics.aggregate import disentanglement_rows, shares
from sober.metrics.boosting import Boosted, boosted


def codes(rows: int, features: int = 4, seed: int = 0, *, decimals: int | None = None) -> np.ndarray:
    x = np.random.default_rng(seed).normal(size=(rows, features))
    return x if decimals is None else np.round(x, decimals)


def classes_of(x: np.ndarray, count: int, seed: int = 0) -> np.ndarray:
    """Classes that depend on two features and on chance."""
    noisy = x[:, 0] + 0.7 * x[:, 1] ** 2 + 0.3 * np.random.default_rng(seed).normal(size=len(x))
    return np.digitize(noisy, np.quantile(noisy, np.arange(1, count) / count))


def one(x: np.ndarray, y: np.ndarray, test: np.ndarray, **settings: int) -> Boosted:
    return boosted(x, [y], test, **settings)[0]


@pytest.mark.parametrize("count", [2, 3, 8])
@pytest.mark.parametrize("decimals", [1, None])
def test_they_are_scikit_learns_classifier(count: int, decimals: int | None) -> None:
    x, test = codes(400, decimals=decimals), codes(300, seed=1, decimals=decimals)
    y = classes_of(x, count)
    ours, theirs = one(x, y, test), GradientBoostingClassifier(random_state=0).fit(x, y)
    np.testing.assert_allclose(ours.importances, theirs.feature_importances_, atol=5e-3)
    assert np.mean(ours.train == theirs.predict(x)) > 0.99
    assert np.mean(ours.test == theirs.predict(test)) > 0.9  # with another seed scikit-learn agrees with itself on 0.93


def test_they_are_scikit_learns_regressor() -> None:
    x, test = codes(400), codes(300, seed=1)
    y = x[:, 0] ** 2 + np.sin(x[:, 1])
    ours, theirs = one(x, y, test), GradientBoostingRegressor(random_state=0).fit(x, y)
    np.testing.assert_allclose(ours.importances, theirs.feature_importances_, atol=1e-3)
    assert np.quantile(np.abs(ours.train - theirs.predict(x)), 0.9) < 0.01
    assert np.quantile(np.abs(ours.test - theirs.predict(test)), 0.9) < 0.05


def test_representations_are_ranked_as_by_scikit_learn() -> None:
    """Thirty mixtures of latents, from one factor each to all in all."""
    rng = np.random.default_rng(0)
    factors = np.stack(np.unravel_index(np.arange(216), (4, 6, 9)), axis=1)
    found, expected = [], []
    for mixing in np.linspace(0, 1, 30):
        turn, _ = np.linalg.qr(np.eye(3) + mixing * rng.normal(size=(3, 3)))
        x = (factors / factors.std(axis=0)) @ turn + 0.1 * rng.normal(size=factors.shape)
        ours = np.stack([each.importances for each in boosted(x, list(factors.T), x[:1], stages=20)], axis=1)
        fit = [GradientBoostingClassifier(n_estimators=20, random_state=0).fit(x, y) for y in factors.T]
        for matrix, into in ((ours, found), (np.stack([f.feature_importances_ for f in fit], axis=1), expected)):
            into.append(shares(matrix.sum(axis=1)) @ disentanglement_rows(matrix))
    np.testing.assert_allclose(found, expected, atol=0.02)
    assert spearmanr(found, expected)[0] >= 0.99


@pytest.mark.parametrize("scale", [1e-12, 1e12, 1e-300])
def test_scale_does_not_matter(scale: float) -> None:
    x, test = codes(200), codes(100, seed=1)
    y = classes_of(x, 3)
    plain, scaled = one(x, y, test), one(x * scale, y, test * scale)
    np.testing.assert_array_equal(plain.importances, scaled.importances)
    np.testing.assert_array_equal(plain.test, scaled.test)


def test_copies_share_the_importance() -> None:
    x = codes(300, 1)
    found = one(np.repeat(x, 3, axis=1), np.digitize(x[:, 0], [-1, 0, 1]), x[:1].repeat(3, axis=1))
    assert (found.importances > 0.15).all()


def test_threads_and_company_change_nothing_and_a_seed_repeats() -> None:
    x, test = codes(200, decimals=1), codes(50, seed=1, decimals=1)
    targets = [classes_of(x, 2), classes_of(x, 5), x[:, 2] * 2.0]
    together = boosted(x, targets, test, seed=3, threads=2)
    alone = [boosted(x, [target], test, seed=3, threads=1)[0] for target in targets]
    for ours, theirs in zip(together, alone, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(a, b)


def test_labels_need_not_be_in_a_row() -> None:
    x = codes(100)
    y = np.array([-5, 7, 1000])[classes_of(x, 3)]
    assert set(one(x, y, x).test) <= {-5, 7, 1000}


def test_one_class_and_constant_features() -> None:
    x = codes(30)
    only = one(x, np.full(30, 4), x)
    assert not only.importances.any()
    assert (only.test == 4).all()
    constant = one(np.ones((30, 2)), np.arange(30) % 3, np.ones((5, 2)))
    assert not constant.importances.any()


@pytest.mark.parametrize("rows", [2, 3, 7])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_few_rows_of_any_precision(rows: int, dtype: type) -> None:
    x = codes(rows).astype(dtype)
    found = one(x, np.arange(rows), x)
    assert np.isfinite(found.importances).all()
    assert found.importances.sum() == pytest.approx(1)


def test_many_features_and_classes() -> None:
    x = codes(600, 300)
    found = one(x, np.digitize(x[:, 17], np.linspace(-2, 2, 60)), x[:10], stages=5)
    assert found.importances.argmax() == 17


@pytest.mark.parametrize("bad", [np.full((3, 2), np.nan), np.zeros(3), np.zeros((0, 2))])
def test_what_cannot_be_fitted_is_refused(bad: np.ndarray) -> None:
    with pytest.raises(RequestError):
        one(bad, np.zeros(len(bad), int), np.zeros((1, 2)))
