"""One tree of a random forest: the inner loops, compiled by numba.

The rows in a tree are sorted by each column once. A node is a stretch of these orders, the same stretch in all of them.
A split divides each stretch in two and keeps its order, so that no node sorts again. All random draws are hashes of a
node's key, and the keys of its children are hashes of it. So a draw depends neither on other nodes nor on how deep the
tree grows: a tree that stops earlier is the upper part of this one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Float32, Int, UInt8

from sober.estimators.compiled import compiled
from sober.estimators.trees import _mixed as mixed

SAME = np.float32(1e-7)  # values of a column that differ by no more are one value, as in scikit-learn
PURE = float(np.finfo(np.float64).eps)  # a node of less impurity is not split
NUMBER, NUMBERS, CLASSES = 0, 1, 2  # the kind of target


class TreeRows(NamedTuple):
    """The rows in one tree, with the sum of their weights in T."""

    columns: Float32[np.ndarray, "D n"]
    order: Int[np.ndarray, "D n"]  # rows by rising value of each column, within each node
    weight: Int[np.ndarray, " n"]  # how often a row was drawn
    values: Float[np.ndarray, "n m"]  # the target as numbers; no columns if it has classes
    labels: Int[np.ndarray, " n"]  # the target as classes from 0 on


class GrowingTree(NamedTuple):
    """The nodes of a tree, in the order in which they came up. Children of a leaf are -1."""

    feature: Int[np.ndarray, " S"]
    threshold: Float[np.ndarray, " S"]  # rows with at most this value go left
    left: Int[np.ndarray, " S"]
    right: Int[np.ndarray, " S"]
    depth: Int[np.ndarray, " S"]
    value: Float[np.ndarray, "S m"]  # the mean of the target, or the share of each class
    weight: Float[np.ndarray, " S"]
    impurity: Float[np.ndarray, " S"]  # variance of the target, averaged over its numbers; or Gini's
    begin: Int[np.ndarray, " S"]  # the stretch of a node in the orders
    end: Int[np.ndarray, " S"]
    key: Int[np.ndarray, " S"]

    @staticmethod
    def empty(nodes: int, outputs: int) -> GrowingTree:
        """Arrays for at most this many nodes."""
        feature, left, right, depth, begin, end = np.zeros((6, nodes), np.int64)
        threshold, weight, impurity = np.zeros((3, nodes))
        value = np.zeros((nodes, outputs))
        return GrowingTree(
            feature, threshold, left, right, depth, value, weight, impurity, begin, end, np.zeros(nodes, np.uint64)
        )


class Scratch(NamedTuple):
    """Arrays that are written and read while a tree grows."""

    inverse: Float[np.ndarray, " T+1"]  # 1 / weight
    features: Int[np.ndarray, " D"]
    goes_left: UInt8[np.ndarray, " n"]
    moved: Int[np.ndarray, " n"]
    sums: Float[np.ndarray, "2 m"]  # of the target on the left of a cut, and in the node

    @staticmethod
    def empty(rows: TreeRows, total: int, outputs: int) -> Scratch:
        """Arrays for these rows."""
        inverse = np.zeros(total + 1)
        inverse[1:] = 1 / np.arange(1, total + 1)
        columns, count = rows.order.shape
        return Scratch(
            inverse, np.zeros(columns, np.int64), np.zeros(count, np.uint8), np.zeros(count, np.int32),
            np.zeros((2, outputs)),
        )  # fmt: skip


def compiled_loops() -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """`_draw_rows`, `_grow` and `_add_predictions` as machine code."""
    fused = frozenset({"contract"})
    callees = (_describe, _find_cut, _cut_of_number, _cut_of_numbers, _cut_of_classes, _divide, _shuffle, mixed)
    return (
        compiled(_draw_rows, mixed),
        compiled(_grow, *callees, fastmath=fused),
        compiled(_add_predictions, fastmath=fused),
    )


def _draw_rows(key: int, counts: np.ndarray) -> None:
    """Counts how often each row is drawn, in as many draws with replacement as there are rows."""
    rows = np.uint64(counts.size)
    for draw in range(counts.size):
        counts[np.int64(((mixed(key, draw) >> np.uint64(32)) * rows) >> np.uint64(32))] += 1


def _grow(rows: TreeRows, kind: int, tried: int, deepest: int, key: int, tree: GrowingTree, scratch: Scratch) -> int:
    """Grows a tree in the arrays of `tree`, and returns the number of its nodes.

    A split is the best cut of `tried` columns that are drawn at random, and of further ones if all of these are
    constant in the node. Nodes are split in the order in which they came up.
    """
    tree.begin[0], tree.end[0], tree.depth[0], tree.key[0] = 0, rows.weight.size, 0, key
    _describe(rows, kind, rows.order[0], 0, tree, scratch)
    nodes, node = 1, 0
    while node < nodes:
        begin, end, depth = tree.begin[node], tree.end[node], tree.depth[node]
        tree.left[node], tree.right[node], tree.feature[node] = -1, -1, -1
        if end - begin > 1 and depth < deepest and tree.impurity[node] > PURE:
            feature, cut = _find_cut(rows, kind, tried, node, tree, scratch)
            if feature >= 0:
                column, order = rows.columns[feature], rows.order[feature]
                below, above = np.float64(column[order[cut - 1]]), np.float64(column[order[cut]])
                middle = below / 2 + above / 2
                tree.feature[node], tree.threshold[node] = feature, below if middle == above else middle
                tree.left[node], tree.right[node] = nodes, nodes + 1
                goes_on = False
                for child in (nodes, nodes + 1):
                    is_right = child - nodes
                    tree.begin[child], tree.end[child] = (cut, end) if is_right else (begin, cut)
                    tree.depth[child], tree.key[child] = depth + 1, mixed(tree.key[node], is_right)
                    _describe(rows, kind, order, child, tree, scratch)
                    size = tree.end[child] - tree.begin[child]
                    goes_on |= size > 1 and depth + 1 < deepest and tree.impurity[child] > PURE
                if goes_on:
                    _divide(rows.order, feature, begin, cut, end, scratch)
                nodes += 2
        node += 1
    return nodes


def _describe(rows: TreeRows, kind: int, order: np.ndarray, node: int, tree: GrowingTree, scratch: Scratch) -> None:
    """Weight, value and impurity of a node, from its rows in some order."""
    value = tree.value[node]
    weight, outputs = 0, value.size
    value[:] = 0.0
    for i in range(tree.begin[node], tree.end[node]):
        row = order[i]
        times = rows.weight[row]
        weight += times
        if kind == CLASSES:
            value[rows.labels[row]] += times
        else:
            for j in range(outputs):
                value[j] += times * rows.values[row, j]
    impurity = 0.0
    if kind == CLASSES:
        for j in range(outputs):
            value[j] /= weight
            impurity += value[j] * (1.0 - value[j])
    else:
        for j in range(outputs):
            value[j] /= weight
        for i in range(tree.begin[node], tree.end[node]):
            row = order[i]
            square = 0.0
            for j in range(outputs):
                square += (rows.values[row, j] - value[j]) ** 2
            impurity += rows.weight[row] * square
        impurity /= weight * outputs
    tree.weight[node], tree.impurity[node] = weight, impurity


def _find_cut(rows: TreeRows, kind: int, tried: int, node: int, tree: GrowingTree, scratch: Scratch) -> tuple[int, int]:
    """The column with the best cut, and the first place on its right; -1 if all columns are constant.

    Columns come in random order, and the first of equally good cuts counts.
    """
    begin, end, key, features = tree.begin[node], tree.end[node], tree.key[node], scratch.features
    weight, value, sums = int(tree.weight[node]), tree.value[node], scratch.sums
    for j in range(value.size):
        sums[1, j] = np.rint(value[j] * weight) if kind == CLASSES else value[j] * weight
    for f in range(features.size):
        features[f] = f
    best, feature, cut, varied = -np.inf, -1, -1, False
    for place in range(features.size):
        if place >= tried and varied:
            break
        f = _shuffle(features, place, key)
        column, order = rows.columns[f], rows.order[f]
        if column[order[end - 1]] <= column[order[begin]] + SAME:
            continue
        varied = True
        if kind == CLASSES:
            gain, where = _cut_of_classes(column, order, begin, end, rows, weight, scratch, best)
        elif kind == NUMBER:
            gain, where = _cut_of_number(column, order, begin, end, rows, weight, scratch, best)
        else:
            gain, where = _cut_of_numbers(column, order, begin, end, rows, weight, scratch, best)
        if where >= 0:
            best, feature, cut = gain, f, where
    return feature, cut


def _shuffle(features: np.ndarray, place: int, key: int) -> int:
    """Draws the feature for a place among the features without one."""
    left = np.uint64(features.size - place)
    drawn = place + np.int64(((mixed(key, 2 + place) >> np.uint64(32)) * left) >> np.uint64(32))
    features[place], features[drawn] = features[drawn], features[place]
    return features[place]


# Each search goes through the cuts of one column. What a cut gains is Σ (sum of the target)² / weight over both sides,
# up to a constant of the node.


def _cut_of_number(
    column: np.ndarray,
    order: np.ndarray,
    begin: int,
    end: int,
    rows: TreeRows,
    weight: int,
    scratch: Scratch,
    best: float,
) -> tuple[float, int]:
    inverse, weights, values, where = scratch.inverse, rows.weight, rows.values, -1
    total, left, passed = scratch.sums[1, 0], 0.0, 0
    row = order[begin]
    for i in range(begin + 1, end):
        times = weights[row]
        passed += times
        left += times * values[row, 0]
        following = order[i]
        if column[following] > column[row] + SAME:
            right = total - left
            gain = left * left * inverse[passed] + right * right * inverse[weight - passed]
            if gain > best:
                best, where = gain, i
        row = following
    return best, where


def _cut_of_numbers(
    column: np.ndarray,
    order: np.ndarray,
    begin: int,
    end: int,
    rows: TreeRows,
    weight: int,
    scratch: Scratch,
    best: float,
) -> tuple[float, int]:
    inverse, weights, values, where = scratch.inverse, rows.weight, rows.values, -1
    total, left, passed = scratch.sums[1], scratch.sums[0], 0
    left[:] = 0.0
    row = order[begin]
    for i in range(begin + 1, end):
        times = weights[row]
        passed += times
        for j in range(left.size):
            left[j] += times * values[row, j]
        following = order[i]
        if column[following] > column[row] + SAME:
            squares, others = 0.0, 0.0
            for j in range(left.size):
                right = total[j] - left[j]
                squares += left[j] * left[j]
                others += right * right
            gain = squares * inverse[passed] + others * inverse[weight - passed]
            if gain > best:
                best, where = gain, i
        row = following
    return best, where


def _cut_of_classes(
    column: np.ndarray,
    order: np.ndarray,
    begin: int,
    end: int,
    rows: TreeRows,
    weight: int,
    scratch: Scratch,
    best: float,
) -> tuple[float, int]:
    inverse, weights, labels, where = scratch.inverse, rows.weight, rows.labels, -1
    total, left, passed, squares, others = scratch.sums[1], scratch.sums[0], 0, 0.0, 0.0
    for j in range(left.size):
        left[j] = 0.0
        others += total[j] * total[j]
    row = order[begin]
    for i in range(begin + 1, end):
        times, label = weights[row], labels[row]
        passed += times
        before = left[label]
        after = before + times
        squares += after * after - before * before
        others += (total[label] - after) ** 2 - (total[label] - before) ** 2
        left[label] = after
        following = order[i]
        if column[following] > column[row] + SAME:
            gain = squares * inverse[passed] + others * inverse[weight - passed]
            if gain > best:
                best, where = gain, i
        row = following
    return best, where


def _divide(order: np.ndarray, feature: int, begin: int, cut: int, end: int, scratch: Scratch) -> None:
    """Puts the rows on the left of a cut first in all orders, and keeps the order on both sides."""
    goes_left, moved, sorted_rows = scratch.goes_left, scratch.moved, order[feature]
    for i in range(begin, end):
        goes_left[sorted_rows[i]] = i < cut
    for f in range(order.shape[0]):
        if f == feature:
            continue
        rows, lefts, rights = order[f], begin, 0
        for i in range(begin, end):
            row = rows[i]
            is_left = int(goes_left[row])
            rows[lefts] = row
            moved[rights] = row
            lefts += is_left
            rights += 1 - is_left
        for i in range(rights):
            rows[lefts + i] = moved[i]


def _add_predictions(x: np.ndarray, depths: np.ndarray, tree: GrowingTree, sums: np.ndarray) -> None:
    """Adds the value that each row (N, D) has at each depth to the sums (C, N, m). Depths rise."""
    for i in range(x.shape[0]):
        node = 0
        for c in range(depths.size):
            while tree.left[node] >= 0 and tree.depth[node] < depths[c]:
                node = tree.left[node] if x[i, tree.feature[node]] <= tree.threshold[node] else tree.right[node]
            for j in range(sums.shape[2]):
                sums[c, i, j] += tree.value[node, j]
