"""The information of wide tables about classes, by nearest neighbours, where many values are equal (sparse columns).

The estimator is that of Ross (2014), as in `neighbours.py`. There, equal numbers are put in some order by a little
noise. Here the mean over all such orders is taken, so that nothing is drawn and equal numbers are dealt with at once.

Of T rows with one value, t are of the class. In random order the r-th of these comes at place M, and

    E ψ(M) = ψ(r) + ψ(T + 1) - ψ(t + 1)

Where A rows are nearer than all of those, E ψ(A + M) is taken to third order in M / (A + M), and made exact for A = 0.
"""

from __future__ import annotations

import math

import numpy as np
import scipy
from jaxtyping import Float, Int

from sober.estimators.columns import Listed, Table, listed
from sober.estimators.machine_code import machine_code
from sober.machine import in_order

NEAR = 1e-10  # of the range of a column: distances that differ by less are equal, but for rounding


def tied_class_information(x: Table, y: Int[np.ndarray, "N K"], neighbours: int) -> Float[np.ndarray, "D K"]:
    """The information of each column of numbers about each column of classes; never below 0."""
    compiled = machine_code(_information, _levels, _class_levels, _estimate, _between, digamma, tied_mean)
    labels = np.ascontiguousarray(y.T, np.int64)
    counts = np.zeros((len(labels), int(labels.max(initial=0)) + 1), np.int64)
    for k, label in enumerate(labels):
        counts[k] = np.bincount(label, minlength=counts.shape[1])
    table = scipy.special.digamma(np.maximum(np.arange(x.shape[0] + 2), 1))

    def found(part: tuple[slice, Listed]) -> Float[np.ndarray, "w K"]:
        columns = part[1]
        out = np.empty((len(columns.start) - 1, len(labels)))
        compiled(columns.start, columns.row, columns.value, columns.rows, labels, counts, neighbours, table, out)
        return out

    return np.concatenate(list(in_order(found, listed(x))))


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
    own_level, own_size = np.empty(longest + 1, np.int64), np.empty(longest + 1, np.int64)
    for j in range(len(start) - 1):
        own_row, own_value = row[start[j] : start[j + 1]], value[start[j] : start[j + 1]]
        for k in range(len(labels)):
            levels, zero = _levels(own_row, own_value, labels[k], counts[k], level, size, place)
            for g in range(levels):
                upto[g + 1] = upto[g] + size[g]
            total, estimate = upto[levels], 0.0
            for c in range(counts.shape[1]):
                if counts[k, c] > 1:
                    own = _class_levels(own_row, labels[k], place, c, counts[k, c], zero, own_level, own_size)
                    wanted = min(neighbours, counts[k, c] - 1)
                    estimate += _estimate(level, size, upto, levels, own_level, own_size, own, wanted, psi)
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
    """The distinct values of a column and how many rows have each, of classes that more than one row has.

    Says how many there are, and which is that of the rows that are not listed; `place` is where each listed row is.
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
    own_level: np.ndarray,
    own_size: np.ndarray,
) -> int:
    """The levels that rows of one class are on, in rising order, and how many are. Says how many levels there are."""
    zeros = count
    for n in range(len(row)):
        zeros -= label[row[n]] == c
    own, waiting = 0, zeros > 0  # rows that are not listed are on the level of 0
    for n in range(len(row)):
        if label[row[n]] == c:
            if waiting and place[n] >= zero:
                own_level[own], own_size[own], waiting = zero, zeros, False
                own += 1
            if own == 0 or own_level[own - 1] != place[n]:
                own_level[own], own_size[own] = place[n], 0
                own += 1
            own_size[own - 1] += 1
    if waiting:
        own_level[own], own_size[own] = zero, zeros
        own += 1
    return own


def _estimate(
    level: np.ndarray,
    size: np.ndarray,
    upto: np.ndarray,
    levels: int,
    own_level: np.ndarray,
    own_size: np.ndarray,
    own: int,
    wanted: int,
    psi: np.ndarray,
) -> float:
    """Minus the sum over the rows of a class of ψ(rows nearer than the `wanted`-th neighbour of the class)."""
    out, near = 0.0, NEAR * (level[levels - 1] - level[0])
    for g in range(own):
        here = own_level[g]
        if own_size[g] > wanted:
            out -= own_size[g] * (psi[wanted] + psi[size[here]] - psi[own_size[g]])
            continue
        left, right, missing = g - 1, g + 1, wanted - (own_size[g] - 1)
        distance, met = 0.0, 0
        while missing > 0:  # outward, to the distance at which enough of the class are found
            low = level[here] - level[own_level[left]] if left >= 0 else np.inf
            high = level[own_level[right]] - level[here] if right < own else np.inf
            distance, met = min(low, high), 0
            if low - distance <= near:
                met += own_size[left]
                left -= 1
            if high - distance <= near:
                met += own_size[right]
                right += 1
            missing -= met
        nearer, tied = _between(level, size, upto, levels, here, distance, near)
        out -= own_size[g] * tied_mean(nearer - 1, missing + met, tied, met, psi)
    return out


def _between(
    level: np.ndarray, size: np.ndarray, upto: np.ndarray, levels: int, here: int, distance: float, near: float
) -> tuple[int, int]:
    """How many rows are nearer to a level than the distance, itself included, and how many are just as far."""
    low, high = 0, here
    while low < high:  # the first level that is nearer
        middle = (low + high) // 2
        if level[here] - level[middle] < distance - near:
            high = middle
        else:
            low = middle + 1
    first, low, high = low, here, levels - 1
    while low < high:  # the last level that is nearer
        middle = (low + high + 1) // 2
        if level[middle] - level[here] < distance - near:
            low = middle
        else:
            high = middle - 1
    tied = 0
    if first > 0 and level[here] - level[first - 1] <= distance + near:
        tied += size[first - 1]
    if low + 1 < levels and level[low + 1] - level[here] <= distance + near:
        tied += size[low + 1]
    return upto[low + 1] - upto[first], tied


def tied_mean(before: int, r: int, tied: int, own: int, psi: np.ndarray) -> float:
    """E ψ(before + M), where M is the place of the r-th of `own` rows among `tied` rows in random order."""
    if tied == own:
        return float(psi[before + r])
    mean = r * (tied + 1) / (own + 1)
    variance = (tied - own) * (own - r + 1) / (r * (tied + 1) * (own + 2))  # over the mean, squared
    second, third = -variance / 2, 2 * variance * variance / 3
    rest = psi[r] + psi[tied + 1] - psi[own + 1] - digamma(mean) - second - third
    share = mean / (before + mean)
    return digamma(before + mean) + share * share * (second + share * (third + share * rest))


def digamma(x: float) -> float:
    shift = 0.0
    while x < 8:
        shift -= 1 / x
        x += 1
    inverse = 1 / (x * x)
    return shift + math.log(x) - 0.5 / x - inverse * (1 / 12 - inverse * (1 / 120 - inverse / 252))
