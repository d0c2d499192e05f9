"""The information of wide tables about classes, by nearest neighbours, where many values are equal (sparse columns).

Ross (2014) gave the estimator. In `neighbours.py` a little noise puts equal numbers in some order. Here the mean over
all such orders is computed, so nothing is random, and equal numbers are handled together.

Say T rows have one value, and t of them belong to the class. In random order, the r-th of these t is at place M, and

    E ψ(M) = ψ(r) + ψ(T + 1) - ψ(t + 1)

If A rows are nearer than all of these, E ψ(A + M) is expanded to third order in M / (A + M), which is exact for A = 0.
"""

from __future__ import annotations

import math

import numpy as np
import scipy
from jaxtyping import Float, Int

from sober.estimators.compiled import compiled
from sober.estimators.wide.wide_tables import ColumnLists, Table, column_lists
from sober.parallel import map_in_order

NEAR = 1e-10  # share of a column's range: distances that differ by less are equal


def tied_class_information(x: Table, y: Int[np.ndarray, "N K"], neighbours: int) -> Float[np.ndarray, "D K"]:
    """The information of each column of numbers about each column of classes; never below 0."""
    information = compiled(_information, _levels, _class_levels, _estimate, _between, digamma, tied_mean)
    labels = np.ascontiguousarray(y.T, np.int64)
    counts = np.zeros((len(labels), int(labels.max(initial=0)) + 1), np.int64)
    for k, label in enumerate(labels):
        counts[k] = np.bincount(label, minlength=counts.shape[1])
    table = scipy.special.digamma(np.maximum(np.arange(x.shape[0] + 2), 1))

    def information_of_block(block: tuple[slice, ColumnLists]) -> Float[np.ndarray, "w K"]:
        columns = block[1]
        out = np.empty((len(columns.start) - 1, len(labels)))
        information(columns.start, columns.row, columns.value, columns.rows, labels, counts, neighbours, table, out)
        return out

    return np.concatenate(list(map_in_order(information_of_block, column_lists(x))))


def _information(
    start: np.ndarray,
    row: np.ndarray,
    value: np.ndarray,
    rows: int,
    labels: np.ndarray,
    counts: np.ndarray,
    neighbours: int,
    psi: np.ndarray,
    out: np.ndarray,
) -> None:
    longest = 0
    for j in range(len(start) - 1):
        longest = max(longest, start[j + 1] - start[j])
    level, size, upto = np.empty(longest + 1), np.empty(longest + 1, np.int64), np.zeros(longest + 2, np.int64)
    place = np.empty(longest, np.int64)
    class_level, class_size = np.empty(longest + 1, np.int64), np.empty(longest + 1, np.int64)
    for j in range(len(start) - 1):
        column_row, column_value = row[start[j] : start[j + 1]], value[start[j] : start[j + 1]]
        for k in range(len(labels)):
            levels, zero = _levels(column_row, column_value, labels[k], counts[k], level, size, place)
            for g in range(levels):
                upto[g + 1] = upto[g] + size[g]
            total, estimate = upto[levels], 0.0
            for c in range(counts.shape[1]):
                if counts[k, c] > 1:
                    class_levels = _class_levels(
                        column_row, labels[k], place, c, counts[k, c], zero, class_level, class_size
                    )
                    wanted = min(neighbours, counts[k, c] - 1)
                    estimate += _estimate(level, size, upto, levels, class_level, class_size, class_levels, wanted, psi)
                    estimate += counts[k, c] * (psi[wanted] - psi[counts[k, c]])
            out[j, k] = max(0.0, psi[total] + estimate / total) if total else 0.0


def _levels(
    row: np.ndarray,
    value: np.ndarray,
    label: np.ndarray,
    count: np.ndarray,
    level: np.ndarray,
    size: np.ndarray,
    place: np.ndarray,
) -> tuple[int, int]:
    """Fills the distinct values of a column and their numbers of rows, without rows that are alone in their class.

    Fills `place` with the place of each listed row's value among them. Returns the number of values, and the place of
    the value 0 of unlisted rows.
    """
    zeros = 0
    for c in range(len(count)):
        zeros += count[c] if count[c] > 1 else 0
    for n in range(len(row)):
        zeros -= count[label[row[n]]] > 1
    levels, zero = 0, -1
    for n in range(len(row)):
        if zeros and zero < 0 and value[n] >= 0:
            zero, level[levels], size[levels] = levels, 0.0, zeros
            levels += 1
        place[n] = -1
        if count[label[row[n]]] > 1:
            if levels == 0 or level[levels - 1] != value[n]:
                level[levels], size[levels] = value[n], 0
                levels += 1
            size[levels - 1] += 1
            place[n] = levels - 1
    if zeros and zero < 0:
        zero, level[levels], size[levels] = levels, 0.0, zeros
        levels += 1
    return levels, zero


def _class_levels(
    row: np.ndarray,
    label: np.ndarray,
    place: np.ndarray,
    c: int,
    count: int,
    zero: int,
    class_level: np.ndarray,
    class_size: np.ndarray,
) -> int:
    """Fills the levels of the rows of one class, in rising order, and their numbers of rows; returns their count."""
    zeros = count
    for n in range(len(row)):
        zeros -= label[row[n]] == c
    class_levels, waiting = 0, zeros > 0  # unlisted rows are on the level of 0
    for n in range(len(row)):
        if label[row[n]] == c:
            if waiting and place[n] >= zero:
                class_level[class_levels], class_size[class_levels], waiting = zero, zeros, False
                class_levels += 1
            if class_levels == 0 or class_level[class_levels - 1] != place[n]:
                class_level[class_levels], class_size[class_levels] = place[n], 0
                class_levels += 1
            class_size[class_levels - 1] += 1
    if waiting:
        class_level[class_levels], class_size[class_levels] = zero, zeros
        class_levels += 1
    return class_levels


def _estimate(
    level: np.ndarray,
    size: np.ndarray,
    upto: np.ndarray,
    levels: int,
    class_level: np.ndarray,
    class_size: np.ndarray,
    class_levels: int,
    wanted: int,
    psi: np.ndarray,
) -> float:
    """Minus the sum over the rows of a class of ψ(rows nearer than the `wanted`-th neighbour of the class)."""
    out, near = 0.0, NEAR * (level[levels - 1] - level[0])
    for g in range(class_levels):
        home = class_level[g]
        if class_size[g] > wanted:
            out -= class_size[g] * (psi[wanted] + psi[size[home]] - psi[class_size[g]])
            continue
        left, right, missing = g - 1, g + 1, wanted - (class_size[g] - 1)
        distance, class_tied = 0.0, 0
        while missing > 0:  # outward, until `wanted` rows of the class are passed
            low = level[home] - level[class_level[left]] if left >= 0 else np.inf
            high = level[class_level[right]] - level[home] if right < class_levels else np.inf
            distance, class_tied = min(low, high), 0
            if low - distance <= near:
                class_tied += class_size[left]
                left -= 1
            if high - distance <= near:
                class_tied += class_size[right]
                right += 1
            missing -= class_tied
        nearer, tied = _between(level, size, upto, levels, home, distance, near)
        out -= class_size[g] * tied_mean(nearer - 1, missing + class_tied, tied, class_tied, psi)
    return out


def _between(
    level: np.ndarray, size: np.ndarray, upto: np.ndarray, levels: int, home: int, distance: float, near: float
) -> tuple[int, int]:
    """How many rows are nearer than `distance` to the level `home` (its own rows are), and how many are at it."""
    low, high = 0, home
    while low < high:  # the first level that is nearer
        middle = (low + high) // 2
        if level[home] - level[middle] < distance - near:
            high = middle
        else:
            low = middle + 1
    first, low, high = low, home, levels - 1
    while low < high:  # the last level that is nearer
        middle = (low + high + 1) // 2
        if level[middle] - level[home] < distance - near:
            low = middle
        else:
            high = middle - 1
    tied = 0
    if first > 0 and level[home] - level[first - 1] <= distance + near:
        tied += size[first - 1]
    if low + 1 < levels and level[low + 1] - level[home] <= distance + near:
        tied += size[low + 1]
    return upto[low + 1] - upto[first], tied


def tied_mean(before: int, rank: int, tied: int, class_tied: int, psi: np.ndarray) -> float:
    """E ψ(before + M), where M is the place of the `rank`-th of `class_tied` rows among `tied` rows in random order."""
    if tied == class_tied:
        return float(psi[before + rank])
    mean = rank * (tied + 1) / (class_tied + 1)
    # Divided by the mean, squared.
    variance = (tied - class_tied) * (class_tied - rank + 1) / (rank * (tied + 1) * (class_tied + 2))
    second, third = -variance / 2, 2 * variance * variance / 3
    remainder = psi[rank] + psi[tied + 1] - psi[class_tied + 1] - digamma(mean) - second - third
    share = mean / (before + mean)
    return digamma(before + mean) + share * share * (second + share * (third + share * remainder))


def digamma(x: float) -> float:
    shift = 0.0
    while x < 8:
        shift -= 1 / x
        x += 1
    inverse = 1 / (x * x)
    return shift + math.log(x) - 0.5 / x - inverse * (1 / 12 - inverse * (1 / 120 - inverse / 252))
