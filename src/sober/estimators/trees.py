"""Regression trees that grow on residuals, a forest at a time: the inner loops of boosting, compiled by numba.

Every split is the best there is, not the best of a histogram: cuts between bins alone move DCI by up to 0.05.
Histograms only say where to look. The decrease by a cut is a convex function of the number of rows on its left and of
the sum of their residuals, so that what a bin holds bounds the decrease by any cut inside it. Few bins can hold the
best cut, and only their rows are gone through one by one.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, UInt8

from sober.estimators.ranks import Ranks

NUMBERS, TWO_CLASSES, CLASSES = 0, 1, 2  # what is predicted, and so the loss

LANES = 16  # trees whose first histograms are made in one pass
TILE = 256  # rows that are dealt with while they are in the nearest cache
DEEPEST = 7  # so that a byte holds the number of a node

PURE = float(np.finfo(np.float64).eps)  # a node of less variance is a leaf
FLAT = 1e-150  # a leaf of less curvature stays where it is
SLACK = 1e-9  # a bound may be this much too low, relatively, by rounding


class Forest(NamedTuple):
    """Full binary trees of I inner nodes, numbered by levels. Where a node is not split its rows go left."""

    feature: Int[np.ndarray, "S T I"]
    below: Int[np.ndarray, "S T I"]  # the last training row to the left of a cut, or -1 where there is none
    above: Int[np.ndarray, "S T I"]  # and the first to its right
    value: Float[np.ndarray, "S T I+1"]  # of leaves

    @staticmethod
    def empty(trees: int, stages: int, depth: int) -> Forest:
        """Room for trees that are yet to grow."""
        feature, below, above = np.zeros((3, stages, trees, 2**depth - 1), np.int64)
        return Forest(feature, below, above, np.zeros((stages, trees, 2**depth)))


class Work(NamedTuple):
    """Room for what is written and read while a forest grows."""

    residual: Float[np.ndarray, "T N"]
    lanes: Float[np.ndarray, "tile W"]  # residuals of W trees side by side
    firsts: Float[np.ndarray, "D B W"]  # their sums in each bin
    sums: Float[np.ndarray, "H B*D+D"]  # of the residuals of a node before each bin,
    ups: Float[np.ndarray, "H B*D+D"]  # of those above 0,
    counts: Int[np.ndarray, "H B*D+D"]  # and how many these rows are
    gains: Float[np.ndarray, " B*D"]  # by a cut after each bin
    bounds: Float[np.ndarray, " B*D"]  # on those by a cut there or inside it
    best: Float[np.ndarray, " D"]  # by a cut of each feature
    place: Int[np.ndarray, " D"]  # where that is in the order of rows
    lefts: Int[np.ndarray, " D"]  # how many rows of the node it has on its left
    at: UInt8[np.ndarray, " N"]  # the node of each row
    members: Int[np.ndarray, " N+1"]  # the rows of one node
    size: Int[np.ndarray, " 2I+1"]  # of each node,
    held: Int[np.ndarray, " 2I+1"]  # the place of its histogram,
    total: Float[np.ndarray, " 2I+1"]  # the sum of its residuals,
    square: Float[np.ndarray, " 2I+1"]  # and that of their squares
    steps: Float[np.ndarray, "2I+1 4 2"]  # slope and curvature of the loss in a leaf, by every fourth of the rows
    decrease: Float[np.ndarray, " D"]  # of squared error by each feature
    tile: Float[np.ndarray, "3 tile"]
    bits: Int[np.ndarray, " tile"]  # of tile[2]
    room: Int[np.ndarray, " tile"]

    @staticmethod
    def empty(ranks: Ranks, trees: int, depth: int) -> Work:
        (rows, features), bins, leaves = ranks.rows.shape, ranks.start.shape[1] - 1, 2**depth
        width, tile = min(LANES, -(-trees // 4) * 4), np.zeros((3, TILE))
        sums, ups = np.zeros((2, leaves // 2, bins * features + features))
        size, held = np.zeros((2, 2 * leaves - 1), np.int64)
        return Work(
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
            at=np.empty(rows, np.uint8),
            members=np.empty(rows + 1, np.int32),
            size=size,
            held=held,
            total=np.zeros(len(size)),
            square=np.zeros(len(size)),
            steps=np.zeros((len(size), 4, 2)),
            decrease=np.zeros(features),
            tile=tile,
            bits=tile[2].view(np.int64),
            room=np.empty(TILE, np.int64),
        )


@functools.cache
def compiled() -> tuple[Any, Any]:
    """`_grow_forest` and `_add_forest` as machine code, kept on disk where there is a place for it."""
    import numba  # noqa: PLC0415 -- half a second that only those pay who come here
    from numba.extending import register_jitable  # noqa: PLC0415

    options: dict[str, Any] = {"error_model": "numpy", "fastmath": {"contract"}}
    parts: list[Callable[..., Any]] = [_residuals, _softmax, _exp, _first_histograms, _plant, _accumulate, _subtract]
    parts += [_grow_tree, _divide, _listed, _histogram, _split, _bound, _highest, _mixed, _settle]
    for part in parts:
        register_jitable(**options)(part)
    register_jitable(error_model="numpy", fastmath={"reassoc"})(_moments)  # sums in any order are faster
    compile_ = functools.partial(numba.njit, nogil=True, **options)
    try:
        return compile_(_grow_forest, cache=True), compile_(_add_forest, cache=True)
    except RuntimeError:  # no folder that can be written to
        return compile_(_grow_forest), compile_(_add_forest)


def _grow_forest(
    ranks: Ranks, kind: int, target: np.ndarray, seed: int, rate: float, forest: Forest, raw: np.ndarray, work: Work
) -> None:
    """Fills the forest, brings the scores `raw` (T, N) to its end and adds up the decrease by each feature."""
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
                scores, value, at = raw[tree], forest.value[stage, tree], work.at
                _settle(residual, kind, rate, value, work)
                for i in range(at.size):
                    scores[i] += value[np.uint8(at[i] - inner)]


def _residuals(kind: int, target: np.ndarray, raw: np.ndarray, work: Work) -> None:
    """Where the scores should go: minus the gradient of the loss."""
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
            scores, part = raw[c, start : start + size], out[c, start : start + size]
            for i in range(size):
                part[i] = scores[i] - top[i]
            _exp(part, power, bits)
            for i in range(size):
                total[i] += part[i]
        for i in range(size):
            total[i] = -1.0 / total[i]
        for c in range(raw.shape[0]):
            part = out[c, start : start + size]
            for i in range(size):
                part[i] *= total[i]


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
    """Sums of the residuals of some trees (W, N) in each bin: of all rows, so that trees are added side by side."""
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


def _plant(ranks: Ranks, residual: np.ndarray, lane: int, work: Work) -> None:
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


def _grow_tree(ranks: Ranks, residual: np.ndarray, key: int, forest: Forest, stage: int, tree: int, work: Work) -> None:
    """Splits nodes level by level, from the histogram of the root to where each row's leaf is in `work.at`."""
    feature, below, above = forest.feature[stage, tree], forest.below[stage, tree], forest.above[stage, tree]
    at, size, held, total, square = work.at, work.size, work.held, work.total, work.square
    inner, kept = feature.size, 1
    at[:], size[:], size[0], held[0] = 0, 0, residual.size, 0
    total[0], square[0] = _moments(residual)
    for node in range(inner):
        left, right, here = 2 * node + 1, 2 * node + 2, held[node]
        f = -1
        if size[node] > 1 and square[node] / size[node] - (total[node] / size[node]) ** 2 > PURE:
            f = _split(ranks, residual, node, _mixed(key, node), work)
        if f < 0:
            feature[node], below[node], above[node] = 0, -1, -1
            _divide(at, node, ranks.rank[0], np.int32(residual.size))
            size[left], held[left], total[left], square[left] = size[node], here, total[node], square[node]
            continue
        work.decrease[f] += work.best[f]
        order, last, after = ranks.order[f], work.place[f] - 1, work.place[f]
        while at[order[last]] != node:
            last -= 1
        while at[order[after]] != node:
            after += 1
        feature[node], below[node], above[node] = f, order[last], order[after]
        _divide(at, node, ranks.rank[f], ranks.rank[f, order[last]])
        if left < inner:
            # The smaller child's histogram is made of its rows; the parent's, less that, is its sibling's.
            small, large = (left, right) if 2 * work.lefts[f] <= size[node] else (right, left)
            members = work.members[: _listed(at, small, work.members)]
            total[small], square[small] = _histogram(ranks.rows, residual, members, kept, work)
            size[small], size[large] = members.size, size[node] - members.size
            total[large], square[large] = total[node] - total[small], square[node] - square[small]
            held[small], held[large] = kept, here
            _subtract(work.sums[here], work.sums[kept])
            _subtract(work.ups[here], work.ups[kept])
            _subtract(work.counts[here], work.counts[kept])
            kept += 1


def _moments(residual: np.ndarray) -> tuple[float, float]:
    total, square = 0.0, 0.0
    for i in range(residual.size):
        total += residual[i]
        square += residual[i] * residual[i]
    return total, square


def _divide(at: np.ndarray, node: int, rank: np.ndarray, last: Any) -> None:
    """Sends the rows of a node on: up to the last rank to the left, the others to the right."""
    here, left, right = np.uint8(node), np.uint8(2 * node + 1), np.uint8(2 * node + 2)
    for i in range(at.size):
        side = right if rank[i] > last else left
        at[i] = side if at[i] == here else at[i]


def _listed(at: np.ndarray, node: int, members: np.ndarray) -> int:
    here, found = np.uint8(node), 0
    for i in range(at.size):
        members[found] = i
        found += at[i] == here
    return found


def _histogram(
    rows: np.ndarray, residual: np.ndarray, members: np.ndarray, kept: int, work: Work
) -> tuple[float, float]:
    """Makes the histogram of some rows; the sums of their residuals and of the squares."""
    sums, ups, counts = work.sums[kept], work.ups[kept], work.counts[kept]
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


def _split(ranks: Ranks, residual: np.ndarray, node: int, key: int, work: Work) -> int:
    """The feature with the best cut, or -1 where nothing can be cut; `work` says by how much it is, and where."""
    order, fresh, start, enough, at = ranks.order, ranks.fresh, ranks.start, ranks.enough, work.at
    gains, bounds, best, place, lefts = work.gains, work.bounds, work.best, work.place, work.lefts
    held, size, total = work.held[node], float(work.size[node]), work.total[node]
    sums, counts, features, here = work.sums[held], work.counts[held], best.size, np.uint8(node)
    _bound(enough, size, total, sums, work.ups[held], counts, features, gains, bounds)
    best[:], top = -1.0, _highest(gains)
    bar = top - SLACK * abs(top)
    for i in range(bounds.size):
        if bounds[i] >= bar:
            b, f = i // features, i % features
            if counts[i + features] - counts[i] >= enough[i]:
                left, passed, high, where, lower = sums[i], float(counts[i]), best[f], place[f], lefts[f]
                for q in range(start[f, b], start[f, b + 1]):
                    apart, both = size * left - total * passed, size * passed * (size - passed)
                    if apart * apart > high * both and fresh[f, q] and both > 0:
                        high, where, lower = apart * apart / both, q, int(passed)
                    row = order[f, q]
                    member = 1.0 if at[row] == here else 0.0  # adding 0 for rows of other nodes is faster than a branch
                    left += member * residual[row]
                    passed += member
                best[f], place[f], lefts[f] = high, where, lower
            if gains[i] > best[f]:
                best[f], place[f], lefts[f] = gains[i], start[f, b + 1], counts[i + features]
            if best[f] > top:
                top = best[f]
                bar = top - SLACK * top
    chosen, lowest = -1, key
    for f in range(features):
        if best[f] == top and top >= 0:
            lot = _mixed(key, f)
            if chosen < 0 or lot < lowest:
                chosen, lowest = f, lot
    return chosen


def _bound(
    enough: np.ndarray,
    size: float,
    total: float,
    sums: np.ndarray,
    ups: np.ndarray,
    counts: np.ndarray,
    features: int,
    gains: np.ndarray,
    bounds: np.ndarray,
) -> None:
    """The decrease of squared error by a cut after each bin, and at most by any inside it.

    A cut of n rows with residuals of sum t, after c of them with sum s, decreases it by (n s - t c)² / (n c (n - c)).
    This is convex in s and c, and so largest in a corner of where they can be: inside a bin c is at least one more than
    before it and one less than after it, and s between what it is before plus all that is up and plus all that is down.
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
        inside = counts_after[i] - counts[i] >= enough[i]
        near = near if near < far else far
        near = near if inside else 1.0
        apart, both = size * after - total * last, last * (size - last)
        between = both > 0
        both = both if between else 1.0
        scale = 1.0 / (near * both * size)  # one division instead of two
        gain = apart * apart * (near * scale) if between else -1.0
        bound = reach * reach * (both * scale) if inside else -1.0
        gains[i] = gain
        bounds[i] = gain if gain > bound else bound


def _highest(values: np.ndarray) -> float:
    """The largest value, by quarters: a step need not wait for the one before."""
    a, b, c, d, run = -1.0, -1.0, -1.0, -1.0, values.size // 4
    for i in range(run):
        a, b = max(a, values[i]), max(b, values[run + i])
        c, d = max(c, values[2 * run + i]), max(d, values[3 * run + i])
    for i in range(4 * run, values.size):
        a = max(a, values[i])
    return max(a, b, c, d)


def _mixed(key: Any, number: int) -> Any:
    """A new key for each number: each of its bits depends on all of those of both (splitmix64; Steele et al. 2014)."""
    z = key + np.uint64(number + 1) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _settle(residual: np.ndarray, kind: int, rate: float, value: np.ndarray, work: Work) -> None:
    """The value of each leaf: a Newton step. Where y is 0 or 1 the curvature p (1 - p) is |y - p| - (y - p)²."""
    inner, at, steps = value.size - 1, work.at, work.steps
    steps[:] = 0.0
    for i in range(at.size):
        r = residual[i]
        steps[at[i], i & 3, 0] += r
        steps[at[i], i & 3, 1] += 1.0 if kind == NUMBERS else abs(r) - r * r
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
    """Adds what the trees say about other rows, given by features (D, M), to their scores (T, M)."""
    stages, trees, inner = feature.shape
    for start in range(0, raw.shape[1], TILE):
        stop = min(start + TILE, raw.shape[1])
        at = room[: stop - start]
        for stage in range(stages):
            for tree in range(trees):
                at[:] = 0
                for node in range(inner):
                    column, cut = columns[feature[stage, tree, node], start:stop], threshold[stage, tree, node]
                    for i in range(at.size):
                        side = 2 * node + 2 if column[i] > cut else 2 * node + 1
                        at[i] = side if at[i] == node else at[i]
                scores, leaves = raw[tree, start:stop], value[stage, tree]
                for i in range(at.size):
                    scores[i] += leaves[at[i] - inner]
