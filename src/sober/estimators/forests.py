"""Random forests (Breiman 2001) that can be stopped at any depth, so that one forest serves for all depths.

The forests of scikit-learn's `RandomForestRegressor` and `RandomForestClassifier` with their defaults, but for the
number of trees and the depth; equal to them in distribution, and several times as fast. Each tree has rows of its own,
drawn with replacement, and grows until its leaves are pure. A regressor cuts the best column in each node; a classifier
chooses among √D columns that are drawn at random. `forest_trees.py` grows the trees.

A tree of limited depth is the upper part of a deeper one, because the random draws of a node are its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float32, Int

from sober.errors import RequestError
from sober.estimators.forest_trees import CLASSES, NUMBER, NUMBERS, GrowingTree, Scratch, TreeRows, compiled_loops
from sober.parallel import cores

ROUNDING = 1e-14  # share of a target's squared error that a split must remove to count
SMALL = 20_000  # with fewer rows in all trees, starting threads takes longer than growing the trees
LARGEST = np.uint64(2**64 - 1)


class SortedColumns(NamedTuple):
    """A table whose rows are sorted by each column, for all forests that learn from it."""

    columns: Float32[np.ndarray, "D N"]
    order: Int[np.ndarray, "D N"]

    @staticmethod
    def of(x: Float[np.ndarray, "N D"]) -> SortedColumns:
        """Sorts a table of finite numbers. They are compared in single precision, as scikit-learn does."""
        columns = np.ascontiguousarray(x.T, np.float32)
        if columns.ndim != 2 or not columns.size or not np.isfinite(columns).all():
            raise RequestError("a forest needs a table of finite numbers, a row for each picture")
        return SortedColumns(columns, np.argsort(columns, axis=1, kind="stable").astype(np.int32))


class Forest(NamedTuple):
    """Trees that can be stopped at any depth, up to the depth that they were grown to."""

    trees: tuple[GrowingTree, ...]
    columns: int
    depth: int
    labels: Int[np.ndarray, " C"]  # of a classifier

    def predict(self, x: Float[np.ndarray, "N D"], depth: int | None = None) -> Float[np.ndarray, "N m"]:
        """The mean of the trees' values, if every tree is stopped at `depth`: numbers, or shares of classes."""
        return self.predict_at(x, [self.depth if depth is None else depth])[0]

    def predict_at(self, x: Float[np.ndarray, "N D"], depths: Sequence[int]) -> Float[np.ndarray, "C N m"]:
        """The same at several depths."""
        _, _, add = compiled_loops()
        rows, rising = np.ascontiguousarray(x, np.float32), np.unique(np.asarray(depths, np.int64))
        sums = np.zeros((len(rising), len(x), self.trees[0].value.shape[1]))
        for tree in self.trees:
            add(rows, rising, tree, sums)
        return sums[np.searchsorted(rising, depths)] / len(self.trees)

    def importances(self, by_splits: bool, depth: int | None = None) -> Float[np.ndarray, " D"]:
        """The share of each column in the decrease of impurity, or in the number of splits; see `importances_at`."""
        return self.importances_at([self.depth if depth is None else depth], by_splits)[0]

    def importances_at(self, depths: Sequence[int], by_splits: bool = False) -> Float[np.ndarray, "C D"]:
        """Importances of the columns at several depths: means over the trees that have a split, which sum to 1.

        They are all 0 where no tree has a split.
        """
        sums = np.zeros((len(depths), self.columns))
        for tree in self.trees:
            splits = np.flatnonzero(tree.left >= 0)
            amount = tree.weight * tree.impurity
            decrease = amount[splits] - amount[tree.left[splits]] - amount[tree.right[splits]]
            # Two rows of nearly equal values may differ by rounding only. Such a split does not count.
            counted = decrease > ROUNDING * amount[0] if by_splits else np.maximum(decrease, 0.0)
            levels = int(tree.depth.max()) + 1
            by_level = np.zeros((levels, self.columns))
            np.add.at(by_level, (tree.depth[splits], tree.feature[splits]), counted)
            up_to = np.cumsum(by_level, axis=0)[np.minimum(depths, levels) - 1]  # (C, D)
            total = up_to.sum(axis=1, keepdims=True)
            sums += np.divide(up_to, total, out=np.zeros_like(up_to), where=total > 0)
        total = sums.sum(axis=1, keepdims=True)
        return np.divide(sums, total, out=np.zeros_like(sums), where=total > 0)


def grown(
    x: SortedColumns, target: np.ndarray, *, trees: int, depth: int, seed: int, threads: int | None = None
) -> Forest:
    """A forest that predicts a target: integers (N,) are classes, floats (N,) or (N, m) are regressed on.

    The result does not depend on the number of threads. A forest with another seed, or a tree with another number, is
    independent of this one.
    """
    target = np.asarray(target)
    if len(target) != x.columns.shape[1] or not np.isfinite(target).all():
        raise RequestError(f"a forest needs a finite target for each of {x.columns.shape[1]} rows")
    if min(trees, depth) < 1:
        raise RequestError(f"a forest needs trees with splits: got trees={trees} and depth={depth}")
    goal = _goal(target)
    compiled_loops()  # before threads start
    keys = np.random.SeedSequence(seed).generate_state(trees, np.uint64)
    workers = (threads or cores()) if trees * len(target) > SMALL else 1
    if workers == 1:
        grown_trees = tuple(_grown_tree(x, goal, depth, key) for key in keys)
    else:
        with ThreadPoolExecutor(workers) as pool:
            grown_trees = tuple(pool.map(lambda key: _grown_tree(x, goal, depth, key), keys))
    return Forest(grown_trees, len(x.columns), depth, goal.labels)


class _Goal(NamedTuple):
    """The target as numbers around their mean, or as the places of its classes among `labels`."""

    kind: int
    values: Float[np.ndarray, "N m"]
    places: Int[np.ndarray, " N"]
    mean: Float[np.ndarray, " m"]
    labels: Int[np.ndarray, " C"]

    @property
    def outputs(self) -> int:
        return len(self.labels) if self.kind == CLASSES else self.values.shape[1]


def _goal(target: np.ndarray) -> _Goal:
    none = np.zeros(0, np.int64)
    if target.dtype.kind == "f":
        values = target.reshape(len(target), -1).astype(np.float64)
        mean = values.mean(axis=0)
        return _Goal(NUMBER if values.shape[1] == 1 else NUMBERS, values - mean, none, mean, none)
    labels, places = np.unique(target, return_inverse=True)
    return _Goal(CLASSES, np.zeros((len(target), 0)), places.astype(np.int32), np.zeros(len(labels)), labels)


def _grown_tree(x: SortedColumns, goal: _Goal, depth: int, key: np.uint64) -> GrowingTree:
    draw, grow, _ = compiled_loops()
    counts = np.zeros(x.columns.shape[1], np.int32)
    draw(key, counts)
    drawn = np.flatnonzero(counts)
    place = (np.cumsum(counts > 0) - 1).astype(np.int32)
    rows = TreeRows(
        np.ascontiguousarray(x.columns[:, drawn]),
        place[x.order[counts[x.order] > 0]].reshape(len(x.order), -1),
        counts[drawn],
        goal.values[drawn],
        goal.places[drawn] if goal.kind == CLASSES else goal.places,
    )
    tried = max(1, math.isqrt(len(x.columns))) if goal.kind == CLASSES else len(x.columns)
    most = 2 * len(drawn) - 1 if depth > 30 else min(2 * len(drawn) - 1, 2 ** (depth + 1) - 1)
    tree = GrowingTree.empty(most, goal.outputs)
    scratch = Scratch.empty(rows, len(counts), goal.outputs)
    nodes = grow(rows, goal.kind, tried, depth, key ^ LARGEST, tree, scratch)
    tree = GrowingTree(*(array[:nodes].copy() for array in tree))
    tree.value[:] += goal.mean
    return tree
