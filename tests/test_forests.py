"""Forests that are stopped at some depth, against scikit-learn's that were grown to it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from sober.estimators.forests import Forest

RNG = np.random.default_rng(0)
# Evenly spread rows without noise: far from the leaves no two splits are equally good.
X = RNG.uniform(-2, 2, (2_000, 6)).astype(np.float32)
X_TEST = RNG.uniform(-2, 2, (300, 6)).astype(np.float32)
NUMBERS = np.stack([np.sin(X[:, 0]) + 0.3 * X[:, 1], np.abs(X[:, 3]) + X[:, 2]], axis=1)
CLASSES = 2 * np.digitize(X[:, 0] + 0.5 * X[:, 1], [-1, 0, 1]) + 5  # not 0, 1, 2, …
DEPTHS = (1, 2, 3, 40)


def grown(kind: Any, target: np.ndarray, depth: int) -> Any:
    return kind(20, max_depth=depth, random_state=3).fit(X, target)


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("target", [NUMBERS, NUMBERS[:, 0]], ids=["two numbers", "a number"])
def test_a_stopped_regressor_is_the_one_that_was_grown_to_that_depth(depth: int, target: np.ndarray) -> None:
    theirs, ours = grown(RandomForestRegressor, target, depth), Forest.of(grown(RandomForestRegressor, target, 40))
    (guess,) = ours.predict_at(X_TEST, [depth])
    assert guess == pytest.approx(theirs.predict(X_TEST).reshape(300, -1), abs=1e-9)
    assert ours.importances(by_splits=False, depth=depth) == pytest.approx(theirs.feature_importances_, abs=1e-9)


def test_a_classifier_is_the_same_at_its_own_depth_and_as_good_at_others() -> None:
    fitted = grown(RandomForestClassifier, CLASSES, 40)
    ours = Forest.of(fitted)
    assert ours.predict(X_TEST) == pytest.approx(fitted.predict_proba(X_TEST), abs=1e-12)
    assert ours.importances(by_splits=False) == pytest.approx(fitted.feature_importances_, abs=1e-12)
    truth = 2 * np.digitize(X_TEST[:, 0] + 0.5 * X_TEST[:, 1], [-1, 0, 1]) + 5
    for depth, shares in zip(DEPTHS, ours.predict_at(X_TEST, DEPTHS), strict=True):
        right = np.mean(fitted.classes_[shares.argmax(axis=1)] == truth)
        assert right == pytest.approx(grown(RandomForestClassifier, CLASSES, depth).score(X_TEST, truth), abs=0.06)
        assert shares.sum(axis=1) == pytest.approx(1)


def test_depths_come_in_any_order() -> None:
    forest = Forest.of(grown(RandomForestRegressor, NUMBERS, 40))
    up, down = forest.predict_at(X_TEST, DEPTHS), forest.predict_at(X_TEST, DEPTHS[::-1])
    assert (up == down[::-1]).all()
    assert (forest.predict(X_TEST) == up[-1]).all()


def test_a_forest_without_a_split_finds_nothing_important() -> None:
    forest = Forest.of(grown(RandomForestRegressor, np.ones(2_000), 4))
    assert forest.importances(by_splits=False).tolist() == [0] * 6
    assert (forest.predict(X_TEST) == 1).all()
