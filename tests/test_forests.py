"""Random forests against scikit-learn's: the same trees of the same rows, and the same distribution over seeds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from sober.errors import RequestError
from sober.estimators.forest_trees import compiled_loops
from sober.estimators.forests import Forest, SortedColumns, grown

RNG = np.random.default_rng(0)
# Evenly spread rows without noise: far from the leaves no two splits are equally good.
X = RNG.uniform(-2, 2, (2_000, 6)).astype(np.float32)
X_TEST = RNG.uniform(-2, 2, (300, 6)).astype(np.float32)
NUMBERS = np.stack([np.sin(X[:, 0]) + 0.3 * X[:, 1], np.abs(X[:, 3]) + X[:, 2]], axis=1).astype(np.float64)
CLASSES = 2 * np.digitize(X[:, 0] + 0.5 * X[:, 1], [-1, 0, 1]) + 5  # not 0, 1, 2, …
DEPTHS = (1, 2, 3, 40)
TARGETS = {"two numbers": NUMBERS, "a number": NUMBERS[:, 0], "classes": CLASSES}
SORTED = SortedColumns.of(X)

targets = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)


def drawn(seed: int, rows: int) -> np.ndarray:
    """How often each row is in the first tree of a forest."""
    counts = np.zeros(rows, np.int32)
    compiled_loops()[0](np.random.SeedSequence(seed).generate_state(1, np.uint64)[0], counts)
    return counts


def test_rows_are_drawn_with_replacement() -> None:
    counts = np.stack([drawn(seed, 1_000) for seed in range(200)])
    assert (counts.sum(axis=1) == 1_000).all()
    assert (counts == 0).mean() == pytest.approx(np.exp(-1), abs=0.005)
    assert counts.mean(axis=0).std() == pytest.approx(1 / np.sqrt(200), rel=0.15)
    assert abs(np.corrcoef(counts)[np.triu_indices(200, 1)]).max() < 0.2, "trees have rows of their own"


@pytest.mark.parametrize("depth", [1, 2, 5])
@pytest.mark.parametrize("target", [NUMBERS, NUMBERS[:, 0]], ids=["two numbers", "a number"])
def test_a_tree_is_that_of_scikit_learn_on_the_same_rows(target: np.ndarray, depth: int) -> None:
    ours = grown(SORTED, target, trees=1, depth=depth, seed=4)
    theirs = DecisionTreeRegressor(max_depth=depth).fit(X, target, sample_weight=drawn(4, len(X)))
    assert ours.predict(X_TEST) == pytest.approx(theirs.predict(X_TEST).reshape(300, -1), abs=1e-9)
    assert ours.importances(by_splits=False) == pytest.approx(theirs.feature_importances_, abs=1e-9)


def test_a_tree_of_classes_is_that_of_scikit_learn_where_there_is_one_column_to_try() -> None:
    table = SortedColumns.of(X[:, :1])
    ours = grown(table, CLASSES, trees=1, depth=5, seed=4)
    theirs = DecisionTreeClassifier(max_depth=5).fit(X[:, :1], CLASSES, sample_weight=drawn(4, len(X)))
    assert ours.predict(X_TEST[:, :1]) == pytest.approx(theirs.predict_proba(X_TEST[:, :1]), abs=1e-9)
    assert ours.labels.tolist() == theirs.classes_.tolist()
    assert len(ours.trees[0].left) == theirs.tree_.node_count


@targets
def test_a_stopped_forest_is_the_one_that_was_grown_to_that_depth(target: np.ndarray) -> None:
    deep = grown(SORTED, target, trees=5, depth=40, seed=3)
    up, down = deep.predict_at(X_TEST, DEPTHS), deep.predict_at(X_TEST, DEPTHS[::-1])
    assert (up == down[::-1]).all(), "depths come in any order"
    for depth, guess in zip(DEPTHS, up, strict=True):
        shallow = grown(SORTED, target, trees=5, depth=depth, seed=3)
        assert (guess == shallow.predict(X_TEST)).all()
        for by_splits in (False, True):
            assert (deep.importances(by_splits, depth) == shallow.importances(by_splits)).all()


@targets
def test_neither_threads_nor_the_number_of_trees_change_a_tree(target: np.ndarray) -> None:
    alone = grown(SORTED, target, trees=12, depth=9, seed=3, threads=1)
    together = grown(SORTED, target, trees=13, depth=9, seed=3, threads=3)
    for tree, other in zip(alone.trees, together.trees, strict=False):
        for array, other_array in zip(tree, other, strict=True):
            assert np.array_equal(array, other_array)


def test_a_forest_without_a_split_finds_nothing_important() -> None:
    for target in (np.ones(2_000), np.ones(2_000, int)):
        forest = grown(SORTED, target, trees=2, depth=4, seed=0)
        assert forest.importances(by_splits=False).tolist() == [0] * 6
        assert (forest.predict(X_TEST) == 1).all()
    constant = grown(SortedColumns.of(np.zeros((2_000, 3))), NUMBERS[:, 0], trees=2, depth=4, seed=0)
    assert constant.importances(by_splits=True).tolist() == [0] * 3


def test_equal_columns_share_the_importance_by_chance() -> None:
    twins = SortedColumns.of(np.repeat(X[:, :1], 4, axis=1))
    forest = grown(twins, NUMBERS[:, 0], trees=400, depth=1, seed=0)
    assert forest.importances(by_splits=False) == pytest.approx(np.full(4, 0.25), abs=4 * np.sqrt(0.25 * 0.75 / 400))


def test_what_cannot_be_learnt_is_refused() -> None:
    with pytest.raises(RequestError, match="finite numbers"):
        SortedColumns.of(np.full((5, 2), np.nan))
    with pytest.raises(RequestError, match="finite target"):
        grown(SORTED, NUMBERS[:5], trees=1, depth=1, seed=0)
    with pytest.raises(RequestError, match="trees=0"):
        grown(SORTED, NUMBERS, trees=0, depth=1, seed=0)


Fit = Callable[[Any, np.ndarray, int], tuple[np.ndarray, float, int]]
COUNT, ROWS = 60, 400  # seeds, and rows to learn from


def noisy(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows with equal values, a copy of a column and a constant one; and a number that two columns make."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(ROWS, 6)).round(1)
    x[:, 3], x[:, 4] = x[:, 0], 1.0
    return x, np.sin(2 * x[:, 0]) + x[:, 1] + 0.3 * rng.normal(size=ROWS)


def measured(target: str, depth: int) -> tuple[np.ndarray, np.ndarray]:
    """Importances, test error and number of nodes of our forests and of scikit-learn's, seed by seed."""
    make = {
        "number": lambda y: y,
        "numbers": lambda y: np.stack([y, y**2], axis=1),
        "classes": lambda y: np.digitize(y, [-1, 0, 1]),
    }[target]
    (x, y), (x_test, y_test) = noisy(0), noisy(1)
    learnt, truth = make(y), make(y_test).reshape(ROWS, -1)
    ours, theirs = [], []
    for seed in range(COUNT):
        forest: Forest = grown(SortedColumns.of(x), learnt, trees=5, depth=depth, seed=seed)
        kind = RandomForestClassifier if target == "classes" else RandomForestRegressor
        model = kind(5, max_depth=depth, random_state=seed).fit(x, learnt)
        guesses = [forest.predict(x_test), (model.predict_proba if target == "classes" else model.predict)(x_test)]
        if target == "classes":
            guesses = [forest.labels[guess.argmax(axis=1)] for guess in guesses]
        errors = [np.mean((guess.reshape(ROWS, -1) - truth) ** 2) for guess in guesses]
        nodes = [np.mean([len(tree.left) for tree in forest.trees])]
        nodes += [np.mean([tree.tree_.node_count for tree in model.estimators_])]
        ours.append([*forest.importances(by_splits=False), errors[0], nodes[0]])
        theirs.append([*model.feature_importances_, errors[1], nodes[1]])
    return np.array(ours), np.array(theirs)


@pytest.mark.slow
@pytest.mark.parametrize("depth", [3, 30])
@pytest.mark.parametrize("target", ["number", "numbers", "classes"])
def test_importances_errors_and_sizes_have_the_distribution_of_scikit_learn(target: str, depth: int) -> None:
    ours, theirs = measured(target, depth)
    error = np.sqrt((ours.var(axis=0) + theirs.var(axis=0)) / COUNT)
    difference = np.abs(ours.mean(axis=0) - theirs.mean(axis=0))
    assert (difference <= 3.5 * error + 1e-12).all(), (difference / np.maximum(error, 1e-12)).round(1)
    spread = ours.std(axis=0) / np.maximum(theirs.std(axis=0), 1e-12)
    varied = (theirs.mean(axis=0) > 0.05) & (theirs.std(axis=0) > 1e-12)  # columns of noise are rarely split
    assert ((spread[varied] > 0.6) & (spread[varied] < 1.6)).all(), spread.round(2)
