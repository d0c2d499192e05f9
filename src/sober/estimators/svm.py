"""Linear support vector machines on one feature alone, at their exact optimum: the scores of SAP.

A fit needs only sums over ranges of the sorted feature. Its steps never go through the rows.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from sober.estimators.linear import checked

MOST = 200  # steps; 5 to 15 are usual
FLAT = 1e-300  # smaller weights have no effect and must not be divided by


def svm_accuracy(
    x_train: Float[np.ndarray, "N D"],
    y_train: Int[np.ndarray, " N *K"],
    x_test: Float[np.ndarray, "M D"],
    y_test: Int[np.ndarray, " M *K"],
    *,
    C: float = 0.01,
    balanced: bool = True,
) -> Float[np.ndarray, " D *K"]:
    """Test accuracy of a linear support vector machine on each feature alone, the scores of SAP (Kumar et al. 2018).

    The machine is LinearSVC of scikit-learn: each class against the rest, at the minimum of
    ½(w² + b²) + Σ Cᵢ max(0, 1 − sᵢ(w xᵢ + b))². `balanced` multiplies C by the inverse frequency of the class: with two
    classes for all rows, with more classes only for rows of the class. K columns of labels give an accuracy for
    each feature and column. Test rows of classes that were not trained on count as wrong.
    """
    x_train, y_train = checked(x_train, y_train)
    x_test, y_test = checked(x_test, y_test)
    sides = _sides(y_train.reshape(len(y_train), -1), C, balanced)
    truth = y_test.reshape(len(y_test), -1).T  # (K, M)
    accuracy = np.empty((x_train.shape[1], len(truth)))
    for feature, (train, test) in enumerate(zip(x_train.T, x_test.T, strict=True)):
        weight, intercept = _hinge(train, sides)
        for column, (classes, span) in enumerate(zip(sides.classes, sides.spans, strict=True)):
            values = np.multiply.outer(weight[span], test) + intercept[span, None]  # (C, M)
            accuracy[feature, column] = np.mean(classes[np.argmax(values, axis=0)] == truth[column])
    return accuracy.reshape(-1, *y_train.shape[1:])


# Each class of each column of labels has its own machine, P in all.


class _Sides(NamedTuple):
    """The two sides of each machine: rows of its class, and the other rows."""

    classes: list[Int[np.ndarray, " C"]]  # of each column of labels
    spans: list[slice]  # the machines of each column, among all P
    codes: Int[np.ndarray, "K N"]  # the machine of each row's class
    counts: Int[np.ndarray, " P"]  # rows of each machine's class
    class_cost: Float[np.ndarray, " P"]  # C for rows of the class
    others_cost: Float[np.ndarray, " P"]  # C for the other rows


def _sides(y: Int[np.ndarray, "N K"], C: float, balanced: bool) -> _Sides:
    columns = [np.unique(column, return_inverse=True, return_counts=True) for column in y.T]
    ends = np.cumsum([0] + [len(classes) for classes, _, _ in columns])
    rarity = [len(y) / (len(counts) * counts) if balanced else np.ones(len(counts)) for _, _, counts in columns]
    return _Sides(
        [classes for classes, _, _ in columns],
        [slice(start, end) for start, end in itertools.pairwise(ends)],
        np.stack([codes + start for (_, codes, _), start in zip(columns, ends[:-1], strict=True)]),
        np.concatenate([counts for _, _, counts in columns]),
        C * np.concatenate(rarity),
        C * np.concatenate([rare[::-1] if len(rare) == 2 else np.ones(len(rare)) for rare in rarity]),
    )


def _hinge(feature: Float[np.ndarray, " N"], sides: _Sides) -> Float[np.ndarray, "2 P"]:
    """Weights and intercepts of the machines on one feature.

    The objective is quadratic around any point, until a row enters or leaves the margin. A Newton step goes to the
    minimum of that quadratic, and is halved as long as the objective is higher there.
    """
    order = np.argsort(feature)
    margin = _Margin(feature[order], sides.codes[:, order], sides)
    unit = np.array([[np.abs(feature).max()], [1.0]])  # largest change of a score per change of w, and of b
    best = ahead = np.zeros((2, len(sides.counts)))
    lowest, settled = np.full(len(sides.counts), np.inf), np.full(len(sides.counts), False)
    rounding = 1e-12 * len(feature) * (sides.class_cost + sides.others_cost)
    for _ in range(MOST):
        value, target = _quadratic(ahead, *margin.sums(*ahead))
        higher = value > lowest + rounding
        best, lowest = np.where(higher, best, ahead), np.where(higher, lowest, value)
        ahead = np.where(settled, ahead, np.where(higher, (best + ahead) / 2, target))
        settled |= (unit * np.abs(ahead - best) <= 1e-10).all(axis=0)
        if settled.all():
            break
    return np.where(settled, ahead, best)


def _quadratic(
    point: Float[np.ndarray, "2 P"], in_class: Float[np.ndarray, "3 P"], others: Float[np.ndarray, "3 P"]
) -> tuple[Float[np.ndarray, " P"], Float[np.ndarray, "2 P"]]:
    """The objective at a point, and where it would be least if no row entered or left the margin.

    `in_class` and `others` are sums of 1, x and x² over the rows in the margin, times 2C.
    """
    w, b = point
    (n, x, xx), (pull_b, pull_w, _) = in_class + others, in_class - others
    value = ((xx + 1) * w**2 + (n + 1) * b**2 + n) / 2 + x * w * b - pull_w * w - pull_b * b
    determinant = np.maximum(n * xx - x**2, 0) + n + xx + 1  # the difference can be below 0 by rounding only
    return value, np.stack([(n + 1) * pull_w - x * pull_b, (xx + 1) * pull_b - x * pull_w]) / determinant


class _Margin:
    """Finds the rows in the margins of all machines by binary search: in a sorted feature they lie on one side."""

    def __init__(self, feature: Float[np.ndarray, " N"], codes: Int[np.ndarray, "K N"], sides: _Sides) -> None:
        self.feature, self.sides = feature, sides
        self.starts = np.arange(len(sides.counts)) * len(feature)
        # Rows by machine, and in order of the feature for each: one sorted list to search for all machines at once.
        self.keys = np.sort(codes * len(feature) + np.arange(len(feature)), axis=1).ravel()
        # Sums are over differences from a value that occurs, so they are exactly 0 if the feature is constant.
        self.middle = feature[len(feature) // 2]
        centred = feature - self.middle
        self.every, self.grouped = _sums(centred), _sums(centred[self.keys % len(feature)])
        self.before = self.grouped[:, np.cumsum(sides.counts) - sides.counts]
        self.in_class = self._class_below(np.full(len(sides.counts), len(feature)))
        self.others = self.every[:, -1:] - self.in_class

    def sums(self, w: Float[np.ndarray, " P"], b: Float[np.ndarray, " P"]) -> tuple[np.ndarray, np.ndarray]:
        """Sums of 1, x and x² times 2C: over rows of the class with w x + b < 1, and over others with w x + b > −1."""
        in_class = self._class_below(self._place(w, 1 - b))
        place = self._place(w, -1 - b)
        others = self.every[:, place] - self._class_below(place)
        falling = w <= -FLAT
        in_class = np.where(falling, self.in_class - in_class, in_class)
        others = np.where(falling, others, self.others - others)
        class_cost, others_cost = 2 * self.sides.class_cost, 2 * self.sides.others_cost
        return class_cost * self._about_zero(in_class), others_cost * self._about_zero(others)

    def _place(self, w: Float[np.ndarray, " P"], level: Float[np.ndarray, " P"]) -> Int[np.ndarray, " P"]:
        """How many rows have x < level / w."""
        flat = np.abs(w) < FLAT
        return np.searchsorted(self.feature, np.where(flat, np.copysign(np.inf, level), level / np.where(flat, 1, w)))

    def _class_below(self, place: Int[np.ndarray, " P"]) -> Float[np.ndarray, "3 P"]:
        return self.grouped[:, np.searchsorted(self.keys, self.starts + place)] - self.before

    def _about_zero(self, sums: Float[np.ndarray, "3 P"]) -> Float[np.ndarray, "3 P"]:
        n, u, uu = sums
        x = u + self.middle * n
        return np.stack([n, x, np.maximum(uu + self.middle * (u + x), 0)])


def _sums(values: Float[np.ndarray, " N"]) -> Float[np.ndarray, "3 N+1"]:
    """Sums of 1, u and u² over the first 0, 1, … N values."""
    return np.stack([np.arange(len(values) + 1.0), *(np.append(0, np.cumsum(values**power)) for power in (1, 2))])
