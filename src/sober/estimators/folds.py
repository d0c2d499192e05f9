"""Folds of cross-validation: the fold in which each row is held out."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int


def contiguous(rows: int, folds: int) -> Int[np.ndarray, " N"]:
    """The fold of each row. Folds are stretches of equal length; the first get one more row if rows are left over."""
    return np.repeat(np.arange(folds), [len(stretch) for stretch in np.array_split(np.arange(rows), folds)])


def stratified(labels: Int[np.ndarray, " N"], folds: int) -> Int[np.ndarray, " N"]:
    """The fold of each row by scikit-learn's StratifiedKFold: each fold has nearly the same share of each class.

    Rows are dealt out in turn, class by class in order of first appearance; within a class, the first rows are in the
    first folds. If every class has fewer rows than there are folds, scikit-learn refuses; here folds are contiguous.
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
