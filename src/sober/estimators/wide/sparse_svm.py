"""The linear support vector machines of `svm.py` on single columns of wide tables, from the non-zeros alone.

A machine needs sums over the rows in its margin. Rows that are not listed in a column have 0 there, so either all of
them are in the margin, or none.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, Int

from sober.estimators.compiled import compiled
from sober.estimators.svm import FLAT, MOST
from sober.estimators.wide.wide_tables import ColumnLists, Picked, Table, column_lists, is_sparse
from sober.parallel import map_in_order


def wide_svm_accuracy(
    x_train: Table,
    y_train: Int[np.ndarray, "N K"],
    x_test: Table,
    y_test: Int[np.ndarray, "M K"],
    *,
    C: float = 0.01,
) -> Float[np.ndarray, "D K"]:
    """`svm_accuracy` with balanced classes, for the columns of wide tables."""
    fit = compiled(_accuracies, _machine, _margin)
    sizes = np.maximum(y_train.max(axis=0, initial=0), y_test.max(axis=0, initial=0)) + 1
    ends = np.concatenate([[0], np.cumsum(sizes)])  # classes of column k are ends[k] to ends[k + 1]
    train, test = (np.ascontiguousarray(y.T, np.int64) for y in (y_train, y_test))
    counts = [np.concatenate([np.bincount(label, minlength=size) for label, size in zip(y, sizes, strict=True)])
              for y in (train, test)]  # fmt: skip

    def accuracies(lists: tuple[ColumnLists, ColumnLists]) -> Float[np.ndarray, "w K"]:
        train_lists, test_lists = lists
        out = np.empty((len(train_lists.start) - 1, len(train)))
        fit(*train_lists, *test_lists, train, test, *counts, ends, C, out)
        return out

    return np.concatenate(list(map_in_order(accuracies, _aligned(x_train, x_test))))


def _aligned(x_train: Table, x_test: Table) -> Iterator[tuple[ColumnLists, ColumnLists]]:
    """The same columns of both tables, a few at a time."""
    by_column = x_test.tocsc() if is_sparse(x_test) else x_test
    for block, columns in column_lists(x_train):
        test_block = by_column.columns(block) if isinstance(by_column, Picked) else by_column[:, block]
        starts = columns.start
        for columns_of_block, test_lists in column_lists(test_block):
            inside = slice(starts[columns_of_block.start], starts[columns_of_block.stop])
            start = starts[columns_of_block.start : columns_of_block.stop + 1] - starts[columns_of_block.start]
            yield ColumnLists(start, columns.row[inside], columns.value[inside], columns.rows), test_lists


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
    most_classes = 0
    for k in range(len(train)):
        most_classes = max(most_classes, ends[k + 1] - ends[k])
    weight, intercept, unlisted = np.empty(most_classes), np.empty(most_classes), np.empty(most_classes, np.int64)
    for j in range(len(start) - 1):
        listed, listed_test = slice(start[j], start[j + 1]), slice(test_start[j], test_start[j + 1])
        for k in range(len(train)):
            count, test_count = counts[ends[k] : ends[k + 1]], test_counts[ends[k] : ends[k + 1]]
            classes = 0
            for c in range(len(count)):
                classes += count[c] > 0
            for c in range(len(count)):
                weight[c], intercept[c] = 0.0, -np.inf  # classes that were not trained on are never predicted
                if count[c]:
                    class_cost = strength * (rows / (classes * count[c]))
                    others_cost = strength * (rows / (classes * (rows - count[c])) if classes == 2 else 1.0)
                    weight[c], intercept[c] = _machine(
                        row[listed], value[listed], train[k], c, count[c], rows, class_cost, others_cost
                    )
            # Rows that are not listed all get the same class.
            class_of_zero = 0
            for c in range(len(count)):
                unlisted[c] = test_count[c]
                if intercept[c] > intercept[class_of_zero]:
                    class_of_zero = c
            correct = 0
            for n in range(listed_test.start, listed_test.stop):
                truth = test[k, test_row[n]]
                unlisted[truth] -= 1
                guess = 0
                for c in range(len(count)):
                    if weight[c] * test_value[n] + intercept[c] > weight[guess] * test_value[n] + intercept[guess]:
                        guess = c
                correct += guess == truth
            out[j, k] = (correct + unlisted[class_of_zero]) / test_rows


def _machine(
    row: np.ndarray,
    value: np.ndarray,
    label: np.ndarray,
    c: int,
    count: int,
    rows: int,
    class_cost: float,
    others_cost: float,
) -> tuple[float, float]:
    """The weight and the intercept of the machine of one class, by the steps of `svm._hinge`."""
    largest = 0.0
    for n in range(len(value)):
        largest = max(largest, abs(value[n]))
    w, b, best_w, best_b, lowest = 0.0, 0.0, 0.0, 0.0, np.inf
    rounding = 1e-12 * rows * (class_cost + others_cost)
    for _ in range(MOST):
        objective, target_w, target_b = _margin(row, value, label, c, count, rows, class_cost, others_cost, w, b)
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
    class_cost: float,
    others_cost: float,
    w: float,
    b: float,
) -> tuple[float, float, float]:
    """The objective at w and b, and where it would be least if no row entered or left the margin."""
    inside_n, inside_x, inside_xx, other_n, other_x, other_xx, listed_of_class = 0, 0.0, 0.0, 0, 0.0, 0.0, 0
    if abs(w) < FLAT:
        w = 0.0
    for n in range(len(value)):
        x = value[n]
        if label[row[n]] == c:
            listed_of_class += 1
            if w * x + b < 1:
                inside_n += 1
                inside_x += x
                inside_xx += x * x
        elif w * x + b > -1:
            other_n += 1
            other_x += x
            other_xx += x * x
    if b < 1:
        inside_n += count - listed_of_class
    if b > -1:
        other_n += rows - count - (len(value) - listed_of_class)
    class_cost, others_cost = 2 * class_cost, 2 * others_cost
    total_n, total_x = class_cost * inside_n + others_cost * other_n, class_cost * inside_x + others_cost * other_x
    total_xx = class_cost * inside_xx + others_cost * other_xx
    pull_b, pull_w = class_cost * inside_n - others_cost * other_n, class_cost * inside_x - others_cost * other_x
    objective = ((total_xx + 1) * w**2 + (total_n + 1) * b**2 + total_n) / 2 + total_x * w * b - pull_w * w - pull_b * b
    determinant = max(total_n * total_xx - total_x**2, 0.0) + total_n + total_xx + 1
    target_w = ((total_n + 1) * pull_w - total_x * pull_b) / determinant
    return objective, target_w, ((total_xx + 1) * pull_b - total_x * pull_w) / determinant
