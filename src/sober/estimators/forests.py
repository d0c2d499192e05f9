"""Random forests that can be stopped at any depth: one that is grown serves for all depths.

A tree that was stopped at some depth is the upper part of one that was not, but for what is drawn: one of the splits
that are equally good, and the columns that a classifier tries at a node. These draws are independent of each other, so
the upper part is such a tree, if not always the same one. The trees are scikit-learn's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

ROUNDING = 1e-14  # of a target's squared error


class Tree(NamedTuple):
    """A tree, node by node; node 0 is its root, and the children of a leaf are -1."""

    feature: Int[np.ndarray, " n"]
    left: Int[np.ndarray, " n"]
    right: Int[np.ndarray, " n"]
    depth: Int[np.ndarray, " n"]
    parent: Int[np.ndarray, " n"]
    value: Float[np.ndarray, "n m"]  # the mean of the target, or the share of each class
    weight: Float[np.ndarray, " n"]  # training rows in a node
    impurity: Float[np.ndarray, " n"]  # variance of the target there, or Gini's
    apply: Callable[[Any], Int[np.ndarray, " N"]]  # the leaf of each row

    @staticmethod
    def of(fitted: Any, shares: bool) -> Tree:
        """That of scikit-learn; `shares`: its values are counts or shares of classes, by version."""
        left, right = fitted.children_left, fitted.children_right
        parent, depth = np.zeros(len(left), np.int64), np.zeros(len(left), np.int64)
        level = np.zeros(1, np.int64)
        while len(split := level[left[level] >= 0]):
            for children in (left[split], right[split]):
                parent[children], depth[children] = split, depth[split] + 1
            level = np.concatenate([left[split], right[split]])
        value = fitted.value.reshape(len(left), -1)
        return Tree(
            fitted.feature, left, right, depth, parent, value / value.sum(axis=1, keepdims=True) if shares else value,
            fitted.weighted_n_node_samples, fitted.impurity, fitted.apply,
        )  # fmt: skip

    def stopped(self, nodes: Int[np.ndarray, " N"], depth: int) -> Int[np.ndarray, " N"]:
        """Where rows in these nodes are, if the tree ends at some depth."""
        while (deeper := self.depth[nodes] > depth).any():
            nodes = np.where(deeper, self.parent[nodes], nodes)
        return nodes

    def splits(self, depth: int) -> Bool[np.ndarray, " n"]:
        """Which nodes have children, if the tree ends at some depth."""
        return (self.left >= 0) & (self.depth < depth)

    def importances(self, by_splits: bool, columns: int, depth: int) -> Float[np.ndarray, " D"]:
        """Shares of the columns: of the splits, or of the decrease of impurity by them."""
        nodes = np.flatnonzero(self.splits(depth))
        amount = self.weight * self.impurity
        decrease = amount[nodes] - amount[self.left[nodes]] - amount[self.right[nodes]]
        # Where a node holds one value alone, rounding can leave it a variance, which is then split at random.
        counted = decrease > ROUNDING * amount[0] if by_splits else decrease
        sums = np.bincount(self.feature[nodes], counted, minlength=columns)
        return sums / sums.sum() if sums.sum() > 0 else sums


class Forest(NamedTuple):
    """Trees that can be stopped at any depth up to that they were grown to."""

    trees: tuple[Tree, ...]
    columns: int
    depth: int

    @staticmethod
    def of(fitted: Any) -> Forest:
        """That of scikit-learn, a regressor's or a classifier's."""
        shares = hasattr(fitted, "classes_")
        trees = tuple(Tree.of(tree.tree_, shares) for tree in fitted.estimators_)
        return Forest(trees, fitted.n_features_in_, fitted.max_depth)

    def predict(self, x: Float[np.ndarray, "N D"], depth: int | None = None) -> Float[np.ndarray, "N m"]:
        """The mean of the trees' values, all stopped at some depth."""
        return self.predict_at(x, [self.depth if depth is None else depth])[0]

    def predict_at(self, x: Float[np.ndarray, "N D"], depths: Sequence[int]) -> Float[np.ndarray, "C N m"]:
        """The same for several depths."""
        rows = x.astype(np.float32)  # as scikit-learn compares them
        sums = np.zeros((len(depths), len(x), self.trees[0].value.shape[1]))
        deepest_first = sorted(range(len(depths)), key=lambda place: -depths[place])  # from there it goes upwards
        for tree in self.trees:
            nodes = tree.apply(rows)
            for place in deepest_first:
                nodes = tree.stopped(nodes, depths[place])
                sums[place] += tree.value[nodes]
        return sums / len(self.trees)

    def importances(self, by_splits: bool, depth: int | None = None) -> Float[np.ndarray, " D"]:
        """The mean over trees that have a split, as shares; all 0 where none has."""
        depth = self.depth if depth is None else depth
        split = [tree for tree in self.trees if tree.splits(depth).any()]
        if not split:
            return np.zeros(self.columns)
        mean = np.mean([tree.importances(by_splits, self.columns, depth) for tree in split], axis=0)
        return mean / mean.sum() if mean.sum() > 0 else mean
