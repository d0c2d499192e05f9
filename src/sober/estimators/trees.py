"""Regression trees that grow on residuals, a forest at a time: the inner loops of boosting, compiled by numba.

Every split is the best of all cuts. Trees that only cut between the bins of a histogram move DCI by up to 0.05. Here
histograms say where to look. The decrease by a cut is a convex function of the number of rows on its left and of
the sum of their residuals, so the sums of a bin bound the decrease by any cut inside it. Few bins can hold the best
cut, and only their rows are searched one by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, UInt8

from sober.estimators.compiled import Callee, compiled
from sober.estimators.ranks import Ranks

NUMBERS, TWO_CLASSES, CLASSES = 0, 1, 2  # the kind of target, which decides the loss

LANES = 16  # trees whose first histograms are made in one pass
TILE = 256  # rows in a tile that fits into the nearest cache
DEEPEST = 7  # so that a byte holds the number of a node

PURE = float(np.finfo(np.float64).eps)  # a node of less variance is not split
FLAT = 1e-150  # a leaf of less curvature has the value 0
SLACK = 1e-9  # relative amount that rounding may take off a bound


class BoostedForest(NamedTuple):
    """Full binary trees of I inner nodes, numbered by levels. Rows of a node that is not split go left."""

    feature: Int[np.ndarray, "S T I"]
    below: Int[np.ndarray, "S T I"]  # the last training row to the left of each cut, or -1 without a cut
    above: Int[np.ndarray, "S T I"]  # the first training row to its right
    value: Float[np.ndarray, "S T I+1"]  # value of each leaf

    @staticmethod
    def empty(trees: int, stages: int, depth: int) -> BoostedForest:
        """Arrays for trees that are yet to grow."""
        feature, below, above = np.zeros((3, stages, trees, 2**depth - 1), np.int64)
        return BoostedForest(feature, below, above, np.zeros((stages, trees, 2**depth)))


class Workspace(NamedTuple):
    """Arrays that are written and read while a forest grows."""

    residual: Float[np.ndarray, "T N"]
    lanes: Float[np.ndarray, "tile W"]  # residuals of W trees side by side
    firsts: Float[np.ndarray, "D B W"]  # their sums in each bin
    sums: Float[np.ndarray, "H B*D+D"]  # sum of a node's residuals before each bin
    ups: Float[np.ndarray, "H B*D+D"]  # sum of its positive residuals before each bin
    counts: Int[np.ndarray, "H B*D+D"]  # number of its rows before each bin
    gains: Float[np.ndarray, " B*D"]  # decrease by a cut after each bin
    bounds: Float[np.ndarray, " B*D"]  # upper bound of the decrease by a cut there or inside the bin
    best: Float[np.ndarray, " D"]  # largest decrease by a cut of each feature
    place: Int[np.ndarray, " D"]  # place of that cut in the order of rows
    lefts: Int[np.ndarray, " D"]  # rows of the node on its left
    node_of_row: UInt8[np.ndarray, " N"]
    members: Int[np.ndarray, " N+1"]  # the rows of one node
    size: Int[np.ndarray, " 2I+1"]  # rows of each node
    histogram_of_node: Int[np.ndarray, " 2I+1"]  # its place in `sums`, `ups` and `counts`
    total: Float[np.ndarray, " 2I+1"]  # sum of a node's residuals
    square: Float[np.ndarray, " 2I+1"]  # sum of their squares
    steps: Float[np.ndarray, "2I+1 4 2"]  # slope and curvature of the loss in a leaf, in four sums of every fourth row
    decrease: Float[np.ndarray, " D"]  # decrease of squared error by each feature
    tile: Float[np.ndarray, "3 tile"]
    bits: Int[np.ndarray, " tile"]  # of tile[2]
    room: Int[np.ndarray, " tile"]

    @staticmethod
    def empty(ranks: Ranks, trees: int, depth: int) -> Workspace:
        (rows, features), bins, leaves = ranks.rows.shape, ranks.start.shape[1] - 1, 2**depth
        width, tile = min(LANES, -(-trees // 4) * 4), np.zeros((3, TILE))
        sums, ups = np.zeros((2, leaves // 2, bins * features + features))
        size, histogram_of_node = np.zeros((2, 2 * leaves - 1), np.int64)
        return Workspace(
            residual=np.empty((trees, rows)),
            lanes=np.zeros((TILE, width)),
            firsts=np.empty((features, bins, width)),
            sums=sums,
            ups=ups,
            counts=np.zeros(sums.shape, np.int32),
            gains=np.empty(bins * features),
            bounds=np.empty(bins * features),
            best=np.empty(features),
            place=np.zeros(features, np.int64),
            lefts=np.zeros(features, np.int64),
            node_of_row=np.empty(rows, np.uint8),
            members=np.empty(rows + 1, np.int32),
            size=size,
            histogram_of_node=histogram_of_node,
            total=np.zeros(len(size)),
            square=np.zeros(len(size)),
            steps=np.zeros((len(size), 4, 2)),
            decrease=np.zeros(features),
            tile=tile,
            bits=tile[2].view(np.int64),
            room=np.empty(TILE, np.int64),
        )


def compiled_loops() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """`_grow_trees` and `_add_forest` as machine code."""
    fused = frozenset({"contract"})
    sums = Callee(_sum_and_squares, frozenset({"reassoc"}))  # adding up in any order is faster
    callees = [_residuals, _softmax, _exp, _first_histograms, _plant, _accumulate, _subtract, _grow_tree, _divide]
    callees += [_list_members, _histogram, _split, _bound, _highest, _mixed, _settle]
    return compiled(_grow_trees, *callees, sums, fastmath=fused), compiled(_add_forest, fastmath=fused)


def _grow_trees(
    ranks: Ranks,
    kind: int,
    target: np.ndarray,
    seed: int,
    rate: float,
    forest: BoostedForest,
    raw: np.ndarray,
    work: Workspace,
) -> None:
    """Fills the forest, adds its values to the scores `raw` (T, N), and sums up the decrease by each feature."""
    stages, trees, inner = forest.feature.shape
    rate = rate * (trees - 1) / trees if kind == CLASSES else rate
    for stage in range(stages):
        _residuals(kind, target, raw, work)
        for first in range(0, trees, LANES):
            block = work.residual[first : first + LANES]
            _first_histograms(ranks.columns, block, work.lanes, work.firsts)
            for lane in range(block.shape[0]):
                tree, residual = first + lane, block[lane]
                _plant(ranks, residual, lane, work)
                _grow_tree(ranks, residual, _mixed(seed, stage * trees + tree), forest, stage, tree, work)
                scores, value, node_of_row = raw[tree], forest.value[stage, tree], work.node_of_row
                _settle(residual, kind, rate, value, work)
                for i in range(node_of_row.size):
                    scores[i] += value[np.uint8(node_of_row[i] - inner)]


def _residuals(kind: int, target: np.ndarray, raw: np.ndarray, work: Workspace) -> None:
    """Minus the gradient of the loss by the scores."""
    residual = work.residual
    if kind == CLASSES:
        _softmax(raw, residual, work.tile, work.bits)
        for i in range(target.size):
            residual[int(target[i]), i] += 1.0
    elif kind == TWO_CLASSES:
        for i in range(target.size):
            residual[0, i] = target[i] - 1.0 / (1.0 + math.exp(-raw[0, i]))
    else:
        for i in range(target.size):
            residual[0, i] = target[i] - raw[0, i]


def _softmax(raw: np.ndarray, out: np.ndarray, tile: np.ndarray, bits: np.ndarray) -> None:
    """Minus the probability of each class."""
    top, total, power = tile[0], tile[1], tile[2]
    for start in range(0, raw.shape[1], TILE):
        size = min(TILE, raw.shape[1] - start)
        top[:], total[:] = -np.inf, 0.0
        for c in range(raw.shape[0]):
            scores = raw[c, start : start + size]
            for i in range(size):
                top[i] = scores[i] if scores[i] > top[i] else top[i]
        for c in range(raw.shape[0]):
            scores, terms = raw[c, start : start + size], out[c, start : start + size]
            for i in range(size):
                terms[i] = scores[i] - top[i]
            _exp(terms, power, bits)
            for i in range(size):
                total[i] += terms[i]
        for i in range(size):
            total[i] = -1.0 / total[i]
        for c in range(raw.shape[0]):
            terms = out[c, start : start + size]
            for i in range(size):
                terms[i] *= total[i]


LN2 = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # in two parts: small multiples of the first are exact
TAYLOR = tuple(1 / math.factorial(k) for k in range(14))


def _exp(x: np.ndarray, power: np.ndarray, bits: np.ndarray) -> None:
    """exp(x) in place, for x up to 0: 2^k exp(r) with |r| < 0.35, in vector instructions where `math.exp` is a call."""
    for i in range(x.size):
        z = x[i] if x[i] > -700.0 else -700.0
        k = np.int32(z * (1 / LN2[0]) - 0.5)
        r = (z - k * LN2[0]) - k * LN2[1]
        series = TAYLOR[13]
        for j in range(12, -1, -1):
            series = series * r + TAYLOR[j]
        x[i] = series
        bits[i] = (np.int64(k) + 1023) << 52
    for i in range(x.size):
        x[i] *= power[i]


def _first_histograms(columns: np.ndarray, block: np.ndarray, lanes: np.ndarray, firsts: np.ndarray) -> None:
    """Sums of the residuals of some trees (W, N) over all rows in each bin, with the trees side by side."""
    firsts[:] = 0.0
    for start in range(0, columns.shape[1], TILE):
        stop = min(start + TILE, columns.shape[1])
        for lane in range(block.shape[0]):
            residual = block[lane]
            for i in range(start, stop):
                lanes[i - start, lane] = residual[i]
        for f in range(columns.shape[0]):
            column, sums = columns[f], firsts[f]
            for i in range(start, stop):
                total = sums[column[i]]
                row = lanes[i - start]
                for lane in range(row.size):
                    total[lane] += row[lane]


def _plant(ranks: Ranks, residual: np.ndarray, lane: int, work: Workspace) -> None:
    """The histogram of the root."""
    rows, first_counts, firsts = ranks.rows, ranks.counts, work.firsts
    sums, ups, counts = work.sums[0], work.ups[0], work.counts[0]
    features, bins = firsts.shape[:2]
    for f in range(features):
        for b in range(bins):
            sums[(b + 1) * features + f] = firsts[f, b, lane]
    for i in range(counts.size):
        counts[i] = first_counts[i]
    ups[:] = 0.0
    for i in range(residual.size):
        if residual[i] > 0:
            for f in range(features):
                ups[(np.int64(rows[i, f]) + 1) * features + f] += residual[i]
    _accumulate(sums, features)
    _accumulate(ups, features)


def _accumulate(histogram: np.ndarray, features: int) -> None:
    for i in range(features, histogram.size):
        histogram[i] += histogram[i - features]


def _subtract(histogram: np.ndarray, other: np.ndarray) -> None:
    for i in range(histogram.size):
        histogram[i] -= other[i]


def _grow_tree(
    ranks: Ranks, residual: np.ndarray, key: int, forest: BoostedForest, stage: int, tree: int, work: Workspace
) -> None:
    """Splits nodes level by level from the histogram of the root. Leaves each row's leaf in `work.node_of_row`."""
    feature, below, above = forest.feature[stage, tree], forest.below[stage, tree], forest.above[stage, tree]
    node_of_row, histogram_of_node = work.node_of_row, work.histogram_of_node
    size, total, square = work.size, work.total, work.square
    inner, histograms = feature.size, 1
    node_of_row[:], size[:], size[0], histogram_of_node[0] = 0, 0, residual.size, 0
    total[0], square[0] = _sum_and_squares(residual)
    for node in range(inner):
        left, right, histogram = 2 * node + 1, 2 * node + 2, histogram_of_node[node]
        f = -1
        if size[node] > 1 and square[node] / size[node] - (total[node] / size[node]) ** 2 > PURE:
            f = _split(ranks, residual, node, _mixed(key, node), work)
        if f < 0:
            feature[node], below[node], above[node] = 0, -1, -1
            _divide(node_of_row, node, ranks.rank[0], np.int32(residual.size))
            size[left], total[left], square[left] = size[node], total[node], square[node]
            histogram_of_node[left] = histogram
            continue
        work.decrease[f] += work.best[f]
        order, last, after = ranks.order[f], work.place[f] - 1, work.place[f]
        while node_of_row[order[last]] != node:
            last -= 1
        while node_of_row[order[after]] != node:
            after += 1
        feature[node], below[node], above[node] = f, order[last], order[after]
        _divide(node_of_row, node, ranks.rank[f], ranks.rank[f, order[last]])
        if left < inner:
            # The smaller child's histogram is summed over its rows; the larger's is the parent's minus the smaller's.
            small, large = (left, right) if 2 * work.lefts[f] <= size[node] else (right, left)
            members = work.members[: _list_members(node_of_row, small, work.members)]
            total[small], square[small] = _histogram(ranks.rows, residual, members, histograms, work)
            size[small], size[large] = members.size, size[node] - members.size
            total[large], square[large] = total[node] - total[small], square[node] - square[small]
            histogram_of_node[small], histogram_of_node[large] = histograms, histogram
            _subtract(work.sums[histogram], work.sums[histograms])
            _subtract(work.ups[histogram], work.ups[histograms])
            _subtract(work.counts[histogram], work.counts[histograms])
            histograms += 1


def _sum_and_squares(residual: np.ndarray) -> tuple[float, float]:
    total, square = 0.0, 0.0
    for i in range(residual.size):
        total += residual[i]
        square += residual[i] * residual[i]
    return total, square


def _divide(node_of_row: np.ndarray, node: int, rank: np.ndarray, last: Any) -> None:
    """Moves rows of a node up to the rank `last` to its left child, and its other rows to its right child."""
    parent, left, right = np.uint8(node), np.uint8(2 * node + 1), np.uint8(2 * node + 2)
    for i in range(node_of_row.size):
        child = right if rank[i] > last else left
        node_of_row[i] = child if node_of_row[i] == parent else node_of_row[i]


def _list_members(node_of_row: np.ndarray, node: int, members: np.ndarray) -> int:
    own_node, count = np.uint8(node), 0
    for i in range(node_of_row.size):
        members[count] = i
        count += node_of_row[i] == own_node
    return count


def _histogram(
    rows: np.ndarray, residual: np.ndarray, members: np.ndarray, histogram: int, work: Workspace
) -> tuple[float, float]:
    """Fills a histogram from the rows `members`; returns the sums of their residuals and of the squares."""
    sums, ups, counts = work.sums[histogram], work.ups[histogram], work.counts[histogram]
    sums[:], ups[:], counts[:] = 0.0, 0.0, 0
    features, one = np.uint32(rows.shape[1]), np.uint32(1)
    total, square = 0.0, 0.0
    for i in members:
        value = residual[i]
        total += value
        square += value * value
        for f in range(rows.shape[1]):
            slot = (np.uint32(rows[i, f]) + one) * features + np.uint32(f)
            sums[slot] += value
            counts[slot] += 1
        if value > 0:
            for f in range(rows.shape[1]):
                ups[(np.uint32(rows[i, f]) + one) * features + np.uint32(f)] += value
    _accumulate(sums, rows.shape[1])
    _accumulate(ups, rows.shape[1])
    _accumulate(counts, rows.shape[1])
    return total, square


def _split(ranks: Ranks, residual: np.ndarray, node: int, key: int, work: Workspace) -> int:
    """The feature with the best cut, or -1 if no cut is possible. Writes its decrease and place into `work`."""
    order, fresh, start, needed_rows = ranks.order, ranks.fresh, ranks.start, ranks.needed_rows
    gains, bounds, best, place, lefts = work.gains, work.bounds, work.best, work.place, work.lefts
    node_of_row = work.node_of_row
    histogram, size, total = work.histogram_of_node[node], float(work.size[node]), work.total[node]
    sums, counts, features, own_node = work.sums[histogram], work.counts[histogram], best.size, np.uint8(node)
    _bound(needed_rows, size, total, sums, work.ups[histogram], counts, features, gains, bounds)
    best[:], top = -1.0, _highest(gains)
    least_bound = top - SLACK * abs(top)
    for i in range(bounds.size):
        if bounds[i] >= least_bound:
            b, f = i // features, i % features
            if counts[i + features] - counts[i] >= needed_rows[i]:
                left, passed, high, where, lower = sums[i], float(counts[i]), best[f], place[f], lefts[f]
                for q in range(start[f, b], start[f, b + 1]):
                    difference, product = size * left - total * passed, size * passed * (size - passed)
                    if difference * difference > high * product and fresh[f, q] and product > 0:
                        high, where, lower = difference * difference / product, q, int(passed)
                    row = order[f, q]
                    member = 1.0 if node_of_row[row] == own_node else 0.0  # adding 0 is faster than a branch
                    left += member * residual[row]
                    passed += member
                best[f], place[f], lefts[f] = high, where, lower
            if gains[i] > best[f]:
                best[f], place[f], lefts[f] = gains[i], start[f, b + 1], counts[i + features]
            if best[f] > top:
                top = best[f]
                least_bound = top - SLACK * top
    chosen, lowest = -1, key
    for f in range(features):
        if best[f] == top and top >= 0:
            lot = _mixed(key, f)
            if chosen < 0 or lot < lowest:
                chosen, lowest = f, lot
    return chosen


def _bound(
    needed_rows: np.ndarray,
    size: float,
    total: float,
    sums: np.ndarray,
    ups: np.ndarray,
    counts: np.ndarray,
    features: int,
    gains: np.ndarray,
    bounds: np.ndarray,
) -> None:
    """The decrease of squared error by a cut after each bin, and its upper bound for cuts inside the bin.

    A cut of n rows with residuals of sum t, after c of them with sum s, decreases it by (n s - t c)² / (n c (n - c)).
    This is convex in s and c, so it is largest in a corner of their range. For a cut inside a bin, c is at least
    one more than before the bin, and at most one less than after it. And s lies between its value before the bin plus
    all negative residuals of the bin, and its value before the bin plus all positive residuals.
    """
    sums_after, ups_after, counts_after = sums[features:], ups[features:], counts[features:]
    for i in range(gains.size):
        before, after, up = sums[i], sums_after[i], ups_after[i] - ups[i]
        first, last = float(counts[i]), float(counts_after[i])
        low, high = total * (first + 1), total * (last - 1)
        low, high = (low, high) if low < high else (high, low)
        above, beneath = size * (before + up) - low, high - size * (after - up)
        reach = above if above > beneath else beneath
        near, far = (first + 1) * (size - first - 1), (last - 1) * (size - last + 1)
        inside = counts_after[i] - counts[i] >= needed_rows[i]
        near = near if near < far else far
        near = near if inside else 1.0
        difference, product = size * after - total * last, last * (size - last)
        between = product > 0
        product = product if between else 1.0
        scale = 1.0 / (near * product * size)  # one division instead of two
        gain = difference * difference * (near * scale) if between else -1.0
        bound = reach * reach * (product * scale) if inside else -1.0
        gains[i] = gain
        bounds[i] = gain if gain > bound else bound


def _highest(values: np.ndarray) -> float:
    """The largest value. Four maxima grow side by side, so that no step waits for the step before it."""
    a, b, c, d, run = -1.0, -1.0, -1.0, -1.0, values.size // 4
    for i in range(run):
        a, b = max(a, values[i]), max(b, values[run + i])
        c, d = max(c, values[2 * run + i]), max(d, values[3 * run + i])
    for i in range(4 * run, values.size):
        a = max(a, values[i])
    return max(a, b, c, d)


def _mixed(key: Any, number: int) -> Any:
    """A new key for each number. Each bit depends on all bits of both (splitmix64; Steele et al. 2014)."""
    z = key + np.uint64(number + 1) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _settle(residual: np.ndarray, kind: int, rate: float, value: np.ndarray, work: Workspace) -> None:
    """The value of each leaf: a Newton step. Where y is 0 or 1 the curvature p (1 - p) is |y - p| - (y - p)²."""
    inner, node_of_row, steps = value.size - 1, work.node_of_row, work.steps
    steps[:] = 0.0
    for i in range(node_of_row.size):
        r = residual[i]
        steps[node_of_row[i], i & 3, 0] += r
        steps[node_of_row[i], i & 3, 1] += 1.0 if kind == NUMBERS else abs(r) - r * r
    for leaf in range(value.size):
        step = steps[inner + leaf]
        slope = step[0, 0] + step[1, 0] + step[2, 0] + step[3, 0]
        curve = step[0, 1] + step[1, 1] + step[2, 1] + step[3, 1]
        value[leaf] = rate * slope / curve if curve > FLAT else 0.0


def _add_forest(
    feature: np.ndarray,
    threshold: np.ndarray,
    value: np.ndarray,
    columns: np.ndarray,
    raw: np.ndarray,
    room: np.ndarray,
) -> None:
    """Adds the trees' values for other rows, whose features are `columns` (D, M), to their scores `raw` (T, M)."""
    stages, trees, inner = feature.shape
    for start in range(0, raw.shape[1], TILE):
        stop = min(start + TILE, raw.shape[1])
        node_of_row = room[: stop - start]
        for stage in range(stages):
            for tree in range(trees):
                node_of_row[:] = 0
                for node in range(inner):
                    column, cut = columns[feature[stage, tree, node], start:stop], threshold[stage, tree, node]
                    for i in range(node_of_row.size):
                        child = 2 * node + 2 if column[i] > cut else 2 * node + 1
                        node_of_row[i] = child if node_of_row[i] == node else node_of_row[i]
                scores, leaves = raw[tree, start:stop], value[stage, tree]
                for i in range(node_of_row.size):
                    scores[i] += leaves[node_of_row[i] - inner]
