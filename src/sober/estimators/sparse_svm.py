"""Linear support vector machines on one column alone, for wide tables: those of `svm.py`, from the non-zeros alone.

A machine needs sums over the rows in its margin. Rows that are not listed in a column have 0 there, so they are all in
the margin or all outside, and count as one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, Int

from sober.estimators.columns import Listed, Picked, Table, is_sparse, listed
from sober.estimators.machine_code import machine_code
from sober.estimators.svm import FLAT, MOST
from sober.machine import in_order


def wide_svm_accuracy(
    x_train: Table,
    y_train: Int[np.ndarray, "N K"],
    x_test: Table,
    y_test: Int[np.ndarray, "M K"],
    *,
    C: float = 0.01,
) -> Float[np.ndarray, "D K"]:
    """`svm_accuracy` with balanced classes, of the columns of wide tables."""
    fit = machine_code(_accuracies, _machine, _margin)
    sizes = np.maximum(y_train.max(axis=0, initial=0), y_test.max(axis=0, initial=0)) + 1
    ends = np.concatenate([[0], np.cumsum(sizes)])  # of the classes of each column of labels
    train, test = (np.ascontiguousarray(y.T, np.int64) for y in (y_train, y_test))
    counts = [np.concatenate([np.bincount(label, minlength=size) for label, size in zip(y, sizes, strict=True)])
              for y in (train, test)]  # fmt: skip

    def accuracies(parts: tuple[Listed, Listed]) -> Float[np.ndarray, "w K"]:
        learn, check = parts
        out = np.empty((len(learn.start) - 1, len(train)))
        fit(*learn, *check, train, test, *counts, ends, C, out)
        return out

    return np.concatenate(list(in_order(accuracies, _beside(x_train, x_test))))


def _beside(x_train: Table, x_test: Table) -> Iterator[tuple[Listed, Listed]]:
    """The same columns of both tables, a few at a time."""
    by_column = x_test.tocsc() if is_sparse(x_test) else x_test
    for which, columns in listed(x_train):
        test = by_column.columns(which) if isinstance(by_column, Picked) else by_column[:, which]
        at = columns.start
        for part, of_test in listed(test):
            inside = slice(at[part.start], at[part.stop])
            start = at[part.start : part.stop + 1] - at[part.start]
            yield Listed(start, columns.row[inside], columns.value[inside], columns.rows), of_test


def _accuracies(
    start: np.ndarray,
    row: np.ndarray,
    value: np.ndarray,
    rows: int,
    test_start: np.ndarray,
    test_row: np.ndarray,
    test_value: np.ndarray,
    test_rows: int,
    train: np.ndarray,
    test: np.ndarray,
    counts: np.ndarray,
    test_counts: np.ndarray,
    ends: np.ndarray,
    strength: float,
    out: np.ndarray,
) -> None:
    most = 0
    for k in range(len(train)):
        most = max(most, ends[k + 1] - ends[k])
    weight, intercept, right = np.empty(most), np.empty(most), np.empty(most, np.int64)
    for j in range(len(start) - 1):
        own, of_test = slice(start[j], start[j + 1]), slice(test_start[j], test_start[j + 1])
        for k in range(len(train)):
            count, test_count = counts[ends[k] : ends[k + 1]], test_counts[ends[k] : ends[k + 1]]
            classes = 0
            for c in range(len(count)):
                classes += count[c] > 0
            for c in range(len(count)):
                weight[c], intercept[c] = 0.0, -np.inf  # classes that were not trained on are never named
                if count[c]:
                    rare = rows / (classes * count[c])
                    rest = rows / (classes * (rows - count[c])) if classes == 2 else 1.0
                    weight[c], intercept[c] = _machine(
                        row[own], value[own], train[k], c, count[c], rows, strength * rare, strength * rest
                    )
            # Rows that are not listed are all named alike.
            named = 0
            for c in range(len(count)):
                right[c] = test_count[c]
                if intercept[c] > intercept[named]:
                    named = c
            good = 0
            for n in range(of_test.start, of_test.stop):
                truth = test[k, test_row[n]]
                right[truth] -= 1
                best = 0
                for c in range(len(count)):
                    if weight[c] * test_value[n] + intercept[c] > weight[best] * test_value[n] + intercept[best]:
                        best = c
                good += best == truth
            out[j, k] = (good + right[named]) / test_rows


def _machine(
    row: np.ndarray, value: np.ndarray, label: np.ndarray, c: int, count: int, rows: int, own: float, rest: float
) -> tuple[float, float]:
    """The weight and the intercept of the machine of one class, by the steps of `svm._hinge`."""
    largest = 0.0
    for n in range(len(value)):
        largest = max(largest, abs(value[n]))
    w, b, best_w, best_b, lowest = 0.0, 0.0, 0.0, 0.0, np.inf
    rounding = 1e-12 * rows * (own + rest)
    for _ in range(MOST):
        objective, target_w, target_b = _margin(row, value, label, c, count, rows, own, rest, w, b)
        if objective > lowest + rounding:
            w, b = (best_w + w) / 2, (best_b + b) / 2
        else:
            best_w, best_b, lowest = w, b, objective
            w, b = target_w, target_b
        if largest * abs(w - best_w) <= 1e-10 and abs(b - best_b) <= 1e-10:
            return w, b
    return best_w, best_b


def _margin(
    row: np.ndarray,
    value: np.ndarray,
    label: np.ndarray,
    c: int,
    count: int,
    rows: int,
    own: float,
    rest: float,
    w: float,
    b: float,
) -> tuple[float, float, float]:
    """The objective at w and b, and where it would be least if the margin held the same rows everywhere."""
    inside_n, inside_x, inside_xx, other_n, other_x, other_xx, mine = 0, 0.0, 0.0, 0, 0.0, 0.0, 0
    if abs(w) < FLAT:
        w = 0.0
    for n in range(len(value)):
        x = value[n]
        if label[row[n]] == c:
            mine += 1
            if w * x + b < 1:
                inside_n += 1
                inside_x += x
                inside_xx += x * x
        elif w * x + b > -1:
            other_n += 1
            other_x += x
            other_xx += x * x
    if b < 1:
        inside_n += count - mine
    if b > -1:
        other_n += rows - count - (len(value) - mine)
    own, rest = 2 * own, 2 * rest
    total_n, total_x, total_xx = own * inside_n + rest * other_n, own * inside_x + rest * other_x, 0.0
    total_xx = own * inside_xx + rest * other_xx
    pull_b, pull_w = own * inside_n - rest * other_n, own * inside_x - rest * other_x
    objective = ((total_xx + 1) * w**2 + (total_n + 1) * b**2 + total_n) / 2 + total_x * w * b - pull_w * w - pull_b * b
    determinant = max(total_n * total_xx - total_x**2, 0.0) + total_n + total_xx + 1
    target_w = ((total_n + 1) * pull_w - total_x * pull_b) / determinant
    return objective, target_w, ((total_xx + 1) * pull_b - total_x * pull_w) / determinant
