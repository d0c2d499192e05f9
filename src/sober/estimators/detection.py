"""One latent as a detector of a binary attribute: the best threshold, and the area under the ROC curve.

For every latent and every attribute at once. A latent is gone through once, in rising order of its values; equal values
are one step, and the zeros of a sparse latent are one step that need not be listed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from sober.estimators.columns import Listed, Table, listed
from sober.estimators.machine_code import machine_code
from sober.machine import in_order


class Detectors(NamedTuple):
    """How well each column tells each attribute; a row is said to have it beyond the threshold, above or below."""

    auc: Float[np.ndarray, "D A"]  # of higher values as a sign of the attribute; ties count a half
    f1: Float[np.ndarray, "D A"]  # at the best threshold, in the better direction
    threshold: Float[np.ndarray, "D A"]
    above: Bool[np.ndarray, "D A"]  # whether rows at or above the threshold are said to have it, or those at or below


def detectors(x: Table, attributes: Bool[np.ndarray, "N A"]) -> Detectors:
    """Every column against every attribute.

        F1 = 2 · rightly named / (named + rows that have the attribute)

    A threshold lies halfway between two values that follow each other; beyond them all, every row is named.
    """
    sweep = machine_code(_sweep, _step)
    labels = np.ascontiguousarray(attributes, np.float64)

    def swept(part: tuple[slice, Listed]) -> tuple[np.ndarray, ...]:
        columns = part[1]
        out = tuple(np.empty((len(columns.start) - 1, labels.shape[1])) for _ in range(4))
        sweep(columns.start, columns.row, columns.value, labels, labels.sum(axis=0), *out)
        return out

    areas, scores, limits, above = (np.concatenate(kind) for kind in zip(*in_order(swept, listed(x)), strict=True))
    return Detectors(areas, scores, limits, above > 0)


def _sweep(
    start: np.ndarray,
    row: np.ndarray,
    value: np.ndarray,
    labels: np.ndarray,
    has: np.ndarray,
    auc: np.ndarray,
    f1: np.ndarray,
    threshold: np.ndarray,
    above: np.ndarray,
) -> None:
    rows, count = labels.shape
    below, here, unlisted = np.empty(count), np.empty(count), np.empty(count)
    f1[:] = -1.0
    auc[:] = 0.0
    for j in range(len(start) - 1):
        n, last = start[j], start[j + 1]
        zeros, passed, before = rows - (last - n), 0, -np.inf
        below[:], unlisted[:] = 0.0, has
        for listed_row in row[n:last]:
            unlisted -= labels[listed_row]
        while n < last or zeros:
            if zeros and (n == last or value[n] >= 0):  # all rows that are not listed, in one step
                now, size, zeros = 0.0, zeros, 0
                here[:] = unlisted
            else:
                now, size = value[n], 0
                here[:] = 0.0
            while n < last and value[n] == now:
                here += labels[row[n]]
                n += 1
                size += 1
            limit = now if before == -np.inf else before + (now - before) / 2
            _step(has, below, here, passed, size, rows, limit, auc[j], f1[j], threshold[j], above[j])
            below += here
            passed += size
            before = now
        auc[j] /= np.maximum(has * (rows - has), 1)
        for a in range(count):
            if has[a] in (0, rows):
                auc[j, a] = 0.5


def _step(
    has: np.ndarray,
    below: np.ndarray,
    here: np.ndarray,
    passed: int,
    size: int,
    rows: int,
    limit: float,
    auc: np.ndarray,
    f1: np.ndarray,
    threshold: np.ndarray,
    above: np.ndarray,
) -> None:
    """What rows of one value add, and whether a threshold just below them is better: to name rows above, or below."""
    for a in range(len(has)):
        auc[a] += here[a] * (passed - below[a] + (size - here[a]) / 2)
        score = 2 * (has[a] - below[a]) / (rows - passed + has[a])
        if score > f1[a]:
            f1[a], threshold[a], above[a] = score, limit, 1.0
        score = 2 * below[a] / (passed + has[a]) if passed else -1.0
        if score > f1[a]:
            f1[a], threshold[a], above[a] = score, limit, 0.0


def f1_of(named: Bool[np.ndarray, " N"], truth: Bool[np.ndarray, " N"]) -> float:
    """F1 of a binary answer; 0 where nothing is named and nothing is there to name."""
    total = int(named.sum() + truth.sum())
    return 2 * int((named & truth).sum()) / total if total else 0.0


def auc_of(values: Float[np.ndarray, " N"], truth: Bool[np.ndarray, " N"]) -> float:
    """Area under the ROC curve of one column; a half where all rows have the attribute, or none."""
    found = detectors(np.asarray(values, np.float64)[:, None], truth[:, None])
    return float(found.auc[0, 0])


def ranked_columns(x: Table) -> tuple[Float[np.ndarray, " D"], Listed]:
    """For `x` sparse: the ranks of its columns, ties sharing theirs, less the rank of 0; and that rank.

    A rank counts from 1, as in `scipy.stats.rankdata`. What is not listed is 0, and so has the rank of 0.
    """
    rank = machine_code(_rank)
    zeros, parts = [], []
    for _, columns in listed(x):
        of_zero, ranks = np.empty(len(columns.start) - 1), np.empty(len(columns.value))
        rank(columns.start, columns.value, columns.rows, of_zero, ranks)
        zeros.append(of_zero)
        parts.append(columns._replace(value=ranks))
    start = np.concatenate([[0], np.cumsum(np.concatenate([np.diff(part.start) for part in parts]))])
    row, value = (np.concatenate([getattr(part, name) for part in parts]) for name in ("row", "value"))
    return np.concatenate(zeros), Listed(start, row, value, x.shape[0])


def _rank(start: np.ndarray, value: np.ndarray, rows: int, of_zero: np.ndarray, ranks: np.ndarray) -> None:
    for j in range(len(start) - 1):
        first, last = start[j], start[j + 1]
        unlisted = rows - (last - first)
        negative = 0
        while first + negative < last and value[first + negative] < 0:
            negative += 1
        of_zero[j] = negative + (unlisted + 1) / 2
        n = first
        while n < last:
            end = n
            while end < last and value[end] == value[n]:
                end += 1
            before = n - first if value[n] < 0 else n - first + unlisted
            for same in range(n, end):
                ranks[same] = before + (end - n + 1) / 2 - of_zero[j]
            n = end
