"""Gradient boosted trees (Friedman 2001) for DCI: which latents predict a factor, and how well.

The trees of scikit-learn's `GradientBoostingClassifier` and `GradientBoostingRegressor` with their defaults, as in the
Sober Look study (Locatello et al. 2020), about a hundred times faster. Each stage grows one tree per class on the
residuals of the log loss; for two classes it grows one tree, and for numbers one tree on the residuals of the squared
error. Leaves hold Newton steps, and the importance of a feature is the decrease of squared error by its splits.
`trees.py` grows them.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, Num

from sober.errors import RequestError
from sober.estimators.ranks import ranked
from sober.estimators.trees import (
    CLASSES,
    DEEPEST,
    NUMBERS,
    TWO_CLASSES,
    BoostedForest,
    Workspace,
    compiled_loops,
)
from sober.parallel import cores

MIDDLE = 0.5 + 1e-6  # slightly above a half: a test value exactly in the middle goes left, even after rounding


class Boosted(NamedTuple):
    """Importances and predictions of the boosted trees of one target."""

    importances: Float[np.ndarray, " D"]  # sum to 1, or all 0 if no tree has a split
    train: Num[np.ndarray, " N"]  # predictions for the training rows: labels, or numbers
    test: Num[np.ndarray, " M"]  # predictions for the test rows


def boosted(
    x_train: Float[np.ndarray, "N D"],
    targets: Sequence[Num[np.ndarray, " N"]],
    x_test: Float[np.ndarray, "M D"],
    *,
    seed: int = 0,
    stages: int = 100,
    rate: float = 0.1,
    depth: int = 3,
    threads: int | None = None,
) -> list[Boosted]:
    """Boosted trees for each target: integers are classes, floats are regressed on.

    All targets come in one call because they share the sorting of `x_train`. They are fitted side by side, one in each
    thread. The result for a target depends neither on the other targets nor on the number of threads. Among features
    that split equally well, such as copies of a latent, the `seed` picks one at random. Rounding decides between a
    latent and its mirror image, as in scikit-learn.
    """
    x_train, x_test = _checked("x_train", x_train), _checked("x_test", x_test)
    targets = [np.asarray(target) for target in targets]
    if not 1 <= depth <= DEEPEST or x_train.shape[1] != x_test.shape[1] or not len(x_train):
        raise RequestError(f"boosted trees need rows, a depth from 1 to {DEEPEST} and the same latents in both parts")
    if any(target.shape != x_train.shape[:1] or not np.isfinite(target).all() for target in targets):
        raise RequestError(f"boosted trees need a finite value of each target for each of {len(x_train)} training rows")
    grow, add = compiled_loops()
    with ThreadPoolExecutor(threads or cores()) as pool:
        table = ranked(x_train, pool)
        columns = np.ascontiguousarray(x_test.T, np.float64)

        def fit(target: np.ndarray) -> Boosted:
            goal = _goal(target)
            raw, raw_test = (np.repeat(goal.start[:, None], len(x), axis=1) for x in (x_train, x_test))
            forest, work = BoostedForest.empty(len(raw), stages, depth), Workspace.empty(table, len(raw), depth)
            grow(table, goal.kind, goal.target, np.uint64(seed % 2**64), rate, forest, raw, work)
            add(forest.feature, _thresholds(forest, x_train), forest.value, columns, raw_test, work.room)
            importances = work.decrease / (work.decrease.sum() or 1.0)
            return Boosted(importances, _predicted(goal, raw), _predicted(goal, raw_test))

        # The longest fits start first, so that no long fit runs alone at the end.
        longest = sorted(range(len(targets)), key=lambda k: -len(np.unique(targets[k])))
        running = {k: pool.submit(fit, targets[k]) for k in longest}
        return [running[k].result() for k in range(len(targets))]


def _checked(name: str, x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N D"]:
    x = np.asarray(x)
    if x.ndim != 2 or not x.shape[1] or not np.isfinite(x).all():
        raise RequestError(f"{name} must be a table of finite numbers, a row for each picture")
    return x


class Goal(NamedTuple):
    """The target as numbers, or as the places of its classes among `labels`."""

    kind: int
    target: Float[np.ndarray, " N"]
    labels: Int[np.ndarray, " C"]
    start: Float[np.ndarray, " T"]  # scores before the first stage, one for each tree of a stage


def _goal(target: Num[np.ndarray, " N"]) -> Goal:
    if target.dtype.kind == "f":
        numbers = target.astype(np.float64)
        return Goal(NUMBERS, numbers, np.zeros(0, np.int64), numbers.mean(keepdims=True))
    labels, places, counts = np.unique(target, return_inverse=True, return_counts=True)
    start = np.log(counts / len(target))
    if len(labels) == 2:
        return Goal(TWO_CLASSES, places.astype(np.float64), labels, start[1:] - start[:1])
    return Goal(CLASSES, places.astype(np.float64), labels, start)


def _predicted(goal: Goal, raw: Float[np.ndarray, "T n"]) -> Num[np.ndarray, " n"]:
    if goal.kind == NUMBERS:
        return raw[0]
    return goal.labels[(raw[0] >= 0).astype(int) if goal.kind == TWO_CLASSES else raw.argmax(axis=0)]


def _thresholds(forest: BoostedForest, x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "S T I"]:
    below, above = (x[rows, forest.feature].astype(np.float64) for rows in (forest.below, forest.above))
    return np.where(forest.below < 0, np.inf, (1 - MIDDLE) * below + MIDDLE * above)
