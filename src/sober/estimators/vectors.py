"""Information of vectors about classes, by nearest neighbours, and accuracy of linear machines on vectors."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy
from jaxtyping import Float, Int

from sober.estimators.compiled import compiled
from sober.estimators.scaling import in_range
from sober.estimators.sklearn_warnings import not_converged_is_fine
from sober.estimators.wide.tied_neighbours import digamma, tied_mean
from sober.estimators.wide.wide_tables import Table, taken
from sober.parallel import map_in_order

NEIGHBOURS = 10


def vector_information(
    x: Table, unit: int, y: Int[np.ndarray, "N K"], neighbours: int = NEIGHBOURS
) -> Float[np.ndarray, "U K"]:
    """The information of each unit of `unit` columns about each column of classes, in nats (Ross 2014); never below 0.

    I = ψ(N) + mean ψ(k) - mean ψ(rows of the class) - mean ψ(m), where m counts the rows of any class that are nearer
    than the k-th neighbour of the same class. Distances are Euclidean, so a rotation of a unit changes nothing. Rows at
    the same distance count as the mean over all their orders, as in `tied_neighbours`. Rows that are alone in their
    class are left out of the sums. Every row is compared with every other.
    """
    information_of_unit = compiled(_unit_information, _closer, tied_mean, digamma)
    labels = np.ascontiguousarray(y.T, np.int64)
    counts = np.zeros((len(labels), int(labels.max(initial=0)) + 1), np.int64)
    for k, label in enumerate(labels):
        counts[k] = np.bincount(label, minlength=counts.shape[1])
    psi = scipy.special.digamma(np.maximum(np.arange(len(y) + 2), 1))

    def for_unit(values: np.ndarray) -> Float[np.ndarray, " K"]:
        out = np.empty(len(labels))
        information_of_unit(np.ascontiguousarray(in_range(values)), labels, counts, neighbours, psi, out)
        return out

    return np.stack(list(map_in_order(for_unit, units(x, unit))))


def units(x: Table, unit: int) -> Iterator[Float[np.ndarray, "N d"]]:
    """The columns of each unit, one after the other."""
    return (taken(x, slice(first, first + unit)) for first in range(0, x.shape[1], unit))


def _unit_information(
    x: np.ndarray, labels: np.ndarray, counts: np.ndarray, neighbours: int, psi: np.ndarray, out: np.ndarray
) -> None:
    far, nearest = np.empty(len(x)), np.empty(neighbours)
    total, used = np.zeros(len(labels)), np.zeros(len(labels), np.int64)
    for i in range(len(x)):
        for n in range(len(x)):
            far[n] = 0.0
            for d in range(x.shape[1]):
                far[n] += (x[i, d] - x[n, d]) ** 2
        for k in range(len(labels)):
            count = counts[k, labels[k, i]]
            if count > 1:
                wanted = min(neighbours, count - 1)
                total[k] += psi[wanted] - psi[count] - _closer(far, labels[k], counts[k], i, nearest[:wanted], psi)
                used[k] += 1
    for k in range(len(labels)):
        out[k] = max(0.0, psi[used[k]] + total[k] / used[k]) if used[k] else 0.0


def _closer(
    far: np.ndarray, label: np.ndarray, count: np.ndarray, i: int, nearest: np.ndarray, psi: np.ndarray
) -> float:
    """The mean ψ of the number of rows nearer to row i (itself too) than the last `nearest` row of its class."""
    nearest[:] = np.inf
    for n in range(len(far)):
        if label[n] == label[i] and n != i and far[n] < nearest[-1]:
            place = len(nearest) - 1
            while place > 0 and nearest[place - 1] > far[n]:
                nearest[place] = nearest[place - 1]
                place -= 1
            nearest[place] = far[n]
    closer, closer_own, tied, tied_own = 0, 0, 0, 0
    for n in range(len(far)):
        if n != i and count[label[n]] > 1:
            if far[n] < nearest[-1]:
                closer += 1
                closer_own += label[n] == label[i]
            elif far[n] == nearest[-1]:
                tied += 1
                tied_own += label[n] == label[i]
    return tied_mean(closer, len(nearest) - closer_own, tied, tied_own, psi)


def unit_svm_accuracy(
    x_train: Table,
    y_train: Int[np.ndarray, "N K"],
    x_test: Table,
    y_test: Int[np.ndarray, "M K"],
    unit: int,
    *,
    C: float = 0.01,
) -> Float[np.ndarray, "U K"]:
    """Test accuracy of a linear support vector machine on the numbers of each unit: scikit-learn's LinearSVC, as in
    `svm_accuracy`. Its penalty is the same in all directions, so a rotation of a unit changes nothing."""
    from sklearn.svm import LinearSVC  # noqa: PLC0415

    def accuracies(tables: tuple[np.ndarray, np.ndarray]) -> list[float]:
        learn, check = (np.asarray(values, np.float64) for values in tables)
        out = []
        for k in range(y_train.shape[1]):
            truth = y_train[:, k]
            guess = truth[:1]
            if len(np.unique(truth)) > 1:
                machine = LinearSVC(C=C, class_weight="balanced", dual=False, tol=1e-6)
                with not_converged_is_fine():
                    guess = machine.fit(learn, truth).predict(check)
            out.append(float(np.mean(guess == y_test[:, k])))
        return out

    return np.array(list(map_in_order(accuracies, zip(units(x_train, unit), units(x_test, unit), strict=True))))
