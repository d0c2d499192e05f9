"""One latent as a detector of a binary attribute: the best threshold, and the area under the ROC curve.

Every latent is tried on every attribute. The loop goes through each latent once, in rising order of its values. Equal
values are one step, and so are the zeros of a sparse latent, which need not be listed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from sober.estimators.compiled import compiled
from sober.estimators.wide.wide_tables import ColumnLists, Table, column_lists
from sober.parallel import map_in_order


class Detectors(NamedTuple):
    """How well each column detects each attribute. A detector names the rows on one side of its threshold."""

    auc: Float[np.ndarray, "D A"]  # higher values are a sign of the attribute; ties count a half
    f1: Float[np.ndarray, "D A"]  # at the best threshold, in the better direction
    threshold: Float[np.ndarray, "D A"]
    above: Bool[np.ndarray, "D A"]  # whether it names rows at or above the threshold, or rows at or below


def detectors(x: Table, attributes: Bool[np.ndarray, "N A"]) -> Detectors:
    """Every column against every attribute.

        F1 = 2 · rightly named / (named + rows that have the attribute)

    A threshold lies halfway between two neighbouring values, or at the smallest value, where it names every row.
    """
    sweep = compiled(_sweep, _step)
    labels = np.ascontiguousarray(attributes, np.float64)

    def sweep_block(block: tuple[slice, ColumnLists]) -> tuple[np.ndarray, ...]:
        columns = block[1]
        out = tuple(np.empty((len(columns.start) - 1, labels.shape[1])) for _ in range(4))
        sweep(columns.start, columns.row, columns.value, labels, labels.sum(axis=0), *out)
        return out

    areas, scores, limits, above = (
        np.concatenate(arrays) for arrays in zip(*map_in_order(sweep_block, column_lists(x)), strict=True)
    )
    return Detectors(areas, scores, limits, above > 0)


def _sweep(
    start: np.ndarray,
    row: np.ndarray,
    value: np.ndarray,
    labels: np.ndarray,
    positives: np.ndarray,
    auc: np.ndarray,
    f1: np.ndarray,
    threshold: np.ndarray,
    above: np.ndarray,
) -> None:
    rows, count = labels.shape
    # Rows that have each attribute: below the step's value, at it, and not listed.
    below, tied, unlisted = np.empty(count), np.empty(count), np.empty(count)
    f1[:] = -1.0
    auc[:] = 0.0
    for j in range(len(start) - 1):
        n, last = start[j], start[j + 1]
        zeros, passed, previous = rows - (last - n), 0, -np.inf
        below[:], unlisted[:] = 0.0, positives
        for listed_row in row[n:last]:
            unlisted -= labels[listed_row]
        while n < last or zeros:
            if zeros and (n == last or value[n] >= 0):  # all rows that are not listed, in one step
                step_value, size, zeros = 0.0, zeros, 0
                tied[:] = unlisted
            else:
                step_value, size = value[n], 0
                tied[:] = 0.0
            while n < last and value[n] == step_value:
                tied += labels[row[n]]
                n += 1
                size += 1
            limit = step_value if previous == -np.inf else previous + (step_value - previous) / 2
            _step(positives, below, tied, passed, size, rows, limit, auc[j], f1[j], threshold[j], above[j])
            below += tied
            passed += size
            previous = step_value
        auc[j] /= np.maximum(positives * (rows - positives), 1)
        for a in range(count):
            if positives[a] in (0, rows):
                auc[j, a] = 0.5


def _step(
    positives: np.ndarray,
    below: np.ndarray,
    tied: np.ndarray,
    passed: int,
    size: int,
    rows: int,
    limit: float,
    auc: np.ndarray,
    f1: np.ndarray,
    threshold: np.ndarray,
    above: np.ndarray,
) -> None:
    """Adds the rows of one value. Keeps a threshold just below them if its F1, on either side, is the highest yet."""
    for a in range(len(positives)):
        auc[a] += tied[a] * (passed - below[a] + (size - tied[a]) / 2)
        score = 2 * (positives[a] - below[a]) / (rows - passed + positives[a])
        if score > f1[a]:
            f1[a], threshold[a], above[a] = score, limit, 1.0
        score = 2 * below[a] / (passed + positives[a]) if passed else -1.0
        if score > f1[a]:
            f1[a], threshold[a], above[a] = score, limit, 0.0


def f1_of(named: Bool[np.ndarray, " N"], truth: Bool[np.ndarray, " N"]) -> float:
    """F1 of a binary answer; 0 where no row is named and no row has the attribute."""
    total = int(named.sum() + truth.sum())
    return 2 * int((named & truth).sum()) / total if total else 0.0


def auc_of(values: Float[np.ndarray, " N"], truth: Bool[np.ndarray, " N"]) -> float:
    """Area under the ROC curve of one column; a half where all rows have the attribute, or none."""
    result = detectors(np.asarray(values, np.float64)[:, None], truth[:, None])
    return float(result.auc[0, 0])


def ranked_columns(x: Table) -> tuple[Float[np.ndarray, " D"], ColumnLists]:
    """The rank of 0 in each column of a sparse table, and how far the rank of each non-zero value lies above it.

    Ranks count from 1 and ties share their mean rank, as in `scipy.stats.rankdata`.
    """
    rank_columns = compiled(_rank)
    zeros, blocks = [], []
    for _, columns in column_lists(x):
        rank_of_zero, ranks = np.empty(len(columns.start) - 1), np.empty(len(columns.value))
        rank_columns(columns.start, columns.value, columns.rows, rank_of_zero, ranks)
        zeros.append(rank_of_zero)
        blocks.append(columns._replace(value=ranks))
    start = np.concatenate([[0], np.cumsum(np.concatenate([np.diff(block.start) for block in blocks]))])
    row, value = (np.concatenate([getattr(block, name) for block in blocks]) for name in ("row", "value"))
    return np.concatenate(zeros), ColumnLists(start, row, value, x.shape[0])


def _rank(start: np.ndarray, value: np.ndarray, rows: int, rank_of_zero: np.ndarray, ranks: np.ndarray) -> None:
    for j in range(len(start) - 1):
        first, last = start[j], start[j + 1]
        unlisted = rows - (last - first)
        negative = 0
        while first + negative < last and value[first + negative] < 0:
            negative += 1
        rank_of_zero[j] = negative + (unlisted + 1) / 2
        n = first
        while n < last:
            end = n
            while end < last and value[end] == value[n]:
                end += 1
            before = n - first if value[n] < 0 else n - first + unlisted
            for same in range(n, end):
                ranks[same] = before + (end - n + 1) / 2 - rank_of_zero[j]
            n = end
