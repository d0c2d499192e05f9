"""Folds of cross-validation: which rows are left out together, in the order in which the rows come."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int


def contiguous(rows: int, folds: int) -> Int[np.ndarray, " N"]:
    """The fold of each row: stretches of equal length, the first longer by one where they do not come out even."""
    return np.repeat(np.arange(folds), [len(part) for part in np.array_split(np.arange(rows), folds)])


def stratified(labels: Int[np.ndarray, " N"], folds: int) -> Int[np.ndarray, " N"]:
    """The fold of each row, with nearly as many rows of a class in each fold: those of scikit-learn's StratifiedKFold.

    Rows are dealt out in turn, class by class in the order in which classes first appear; within a class the first
    rows are in the first folds. Where no class has as many rows as there are folds scikit-learn refuses, and folds are
    contiguous.
    """
    _, first, places, counts = np.unique(labels, return_index=True, return_inverse=True, return_counts=True)
    if counts.max() < folds:
        return contiguous(len(labels), folds)
    appearance = np.argsort(np.argsort(first))[places]
    order = np.argsort(appearance, kind="stable")
    dealt = np.arange(len(labels)) % folds
    fold = np.empty(len(labels), np.int64)
    fold[order] = dealt[np.lexsort((dealt, appearance[order]))]
    return fold
