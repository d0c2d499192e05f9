"""Logistic regressions at their exact optimum, for metrics that fit hundreds of small ones on every representation.

They are fitted by Newton's method, all classes at once. The rows are first centred, which the free
intercept takes up, and turned to the axes of their covariance, which leaves the L2 penalty as it was: what remains is
well scaled even where columns are constant, copies of each other or of very different size.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

import numpy as np
import threadpoolctl
from jaxtyping import Float, Int

from sober.errors import RequestError

CHUNK = 2**16  # numbers in one temporary array: a few of them fit in the cache of a core
KEPT = 2**23  # numbers in the products of columns up to which they are kept from step to step
DENSE_SIGMOID = 24  # unknowns of one class up to which its Hessian is formed; beyond, conjugate gradients are faster
DENSE_SOFTMAX = 500  # unknowns of all classes together, likewise
PRECISION = 1e-7  # of logits: a step that moves them less is the last, since the error after it is far smaller
MOST = 200  # steps; 5 to 15 are usual


class Linear(NamedTuple):
    """A linear score for each class."""

    weight: Float[np.ndarray, "D C"]
    intercept: Float[np.ndarray, " C"]
    classes: Int[np.ndarray, " C"]

    def scores(self, x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N C"]:
        """Decision values: the logits of the classes."""
        return np.asarray(x, np.float64) @ self.weight + self.intercept

    def predict(self, x: Float[np.ndarray, "N D"]) -> Int[np.ndarray, " N"]:
        """The class with the highest score, the first of equals."""
        return self.classes[np.argmax(self.scores(x), axis=1)]


def one_vs_rest(x: Float[np.ndarray, "N D"], y: Int[np.ndarray, " N"]) -> Linear:
    """Logistic regressions of each class against all others: the minimum of ½‖w‖² + Σ log-loss, intercept free.

    LogisticRegression of scikit-learn was this in the years of the Sober Look study (Locatello et al. 2019). A class
    that every row has leaves nothing to learn: its scores are 0.
    """
    return _fitted(_Sigmoid, x, y)


def multinomial(x: Float[np.ndarray, "N D"], y: Int[np.ndarray, " N"]) -> Linear:
    """Softmax regression: the minimum of ½‖W‖² + Σ log-loss; intercepts are free and add up to 0.

    LogisticRegression of scikit-learn is this today. As there, two classes share one penalised weight; their scores
    are minus and plus a half of its own. A single class leaves nothing to learn: its scores are 0.
    """
    if len(np.unique(y)) <= 2:
        model = _fitted(_Sigmoid, x, y)
        return model._replace(weight=model.weight / 2, intercept=model.intercept / 2)
    model = _fitted(_Softmax, x, y)
    return model._replace(intercept=model.intercept - model.intercept.mean())


def softmax(scores: Float[np.ndarray, "N C"]) -> Float[np.ndarray, "N C"]:
    """Probabilities of the classes from the scores of `multinomial`."""
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)


def auc(
    scores: Float[np.ndarray, "N C"], y: Int[np.ndarray, " N"], classes: Int[np.ndarray, " C"]
) -> Float[np.ndarray, " C"]:
    """Area under the ROC curve of each class: how often its rows score higher than the others, ties counted half.

    NaN for a class that no row has, or every row.
    """
    areas = np.full(len(classes), np.nan)
    for at, label in enumerate(classes):
        own = scores[y == label, at]
        pairs = len(own) * (len(scores) - len(own))
        if pairs:
            ordered = np.sort(scores[:, at])
            lower, upto = (np.searchsorted(ordered, own, side).sum() for side in ("left", "right"))
            # Their mean counts ties half. Among themselves, rows of the class win a half of len(own)² comparisons.
            areas[at] = (lower + upto - len(own) ** 2) / (2 * pairs)
    return areas


def checked(x: np.ndarray, y: np.ndarray) -> tuple[Float[np.ndarray, "N D"], Int[np.ndarray, " N *K"]]:
    """Finite codes as float64, and as many labels."""
    x, y = np.asarray(x, np.float64), np.asarray(y)
    if x.ndim != 2 or not x.size or len(x) != len(y):
        raise RequestError(f"a classifier needs N rows of codes and N labels, got shapes {x.shape} and {y.shape}")
    if not np.isfinite(x).all():
        raise RequestError("a classifier needs finite codes: some are infinite or not a number")
    return x, y


# Each class has U = D + 1 unknowns, the last of which is its intercept.


class Loss(Protocol):
    """G problems that do not depend on each other, in n unknowns each."""

    def start(self) -> Float[np.ndarray, "G n"]:
        """Coefficients that know how frequent each class is, and nothing else."""

    def newton(
        self, at: Float[np.ndarray, "g n"], which: Int[np.ndarray, " g"]
    ) -> tuple[Float[np.ndarray, "g n"], Float[np.ndarray, "g n"]]:
        """Gradients of the problems `which`, and Newton's steps."""

    def reach(self, step: Float[np.ndarray, "g n"]) -> Float[np.ndarray, " g"]:
        """The most by which a step moves logits of a row apart."""


def _fitted(
    kind: Callable[[Float[np.ndarray, "U N"], Int[np.ndarray, " N"]], Loss],
    x: Float[np.ndarray, "N D"],
    y: Int[np.ndarray, " N"],
) -> Linear:
    """The minimum of a loss, found along the axes of the rows and told in terms of the columns."""
    x, y = checked(x, y)
    classes, labels = np.unique(y, return_inverse=True)
    if len(classes) == 1:
        return Linear(np.zeros((x.shape[1], 1)), np.zeros(1), classes)
    with one_thread():
        middle = np.median(x, axis=0)  # not the mean: a row far out would make it coarse for all others
        centred = x - middle
        _, axes = np.linalg.eigh(centred.T @ centred)
        loss = kind(np.vstack([axes.T @ centred.T, np.ones(len(x))]), labels)
        best = minimised(loss).reshape(len(classes), -1)  # (C, U)
    weight = axes @ best[:, :-1].T
    return Linear(weight, best[:, -1] - middle @ weight, classes)


def minimised(loss: Loss, precision: float = PRECISION) -> Float[np.ndarray, "G n"]:
    """Newton's method with steps that are sure to descend, each problem at its own pace.

    Along a step that moves logits by r, the curvature c of a log-loss changes by |c'| ≤ r c (Bach 2010). Hence a step
    descends if r ≤ 1, or if it still leads downhill where it ends; and log(1 + r) / r of it always stays short of the
    minimum on its line. Where r is large that is too timid, and half of it is tried.
    """
    best = loss.start()
    which = np.arange(len(best))
    step, reach = np.zeros_like(best), np.zeros(len(best))
    for _ in range(MOST):
        ahead = best[which] + step
        gradient, newton = loss.newton(ahead, which)
        beyond = (reach > 1) & ((gradient * step).sum(axis=1) > 0)
        best[which[~beyond]] = ahead[~beyond]
        shorter = np.maximum(0.5, np.log1p(reach) / np.maximum(reach, 1))
        step = np.where(beyond[:, None], shorter[:, None] * step, newton)
        reach = np.where(beyond, shorter * reach, loss.reach(newton))
        last = reach <= precision
        best[which[last]] += step[last]
        # Where logits are so large that rounding keeps steps longer, stop when the loss can no longer fall.
        left = ~last & (beyond | (-(gradient * newton).sum(axis=1) > 1e-24))
        which, step, reach = which[left], step[left], reach[left]
        if not len(which):
            return best
    warnings.warn(f"{len(which)} of {len(best)} logistic regressions did not converge", RuntimeWarning, stacklevel=4)
    return best


class _Sigmoid:
    """A problem for each class: is a row of it, or not?"""

    def __init__(self, rows: Float[np.ndarray, "U N"], labels: Int[np.ndarray, " N"]) -> None:
        self.rows, self.labels, self.penalty = rows, labels, _penalty(rows)
        self.dense = len(rows) <= DENSE_SIGMOID
        self.upper = np.triu_indices(len(rows))
        self.kept = self._products(rows) if self.dense and len(self.upper[0]) * len(labels) <= KEPT else None

    def start(self) -> Float[np.ndarray, "C U"]:
        counts = np.bincount(self.labels)
        return _intercepts(np.log(counts / (len(self.labels) - counts)), self.rows)

    def newton(self, at: np.ndarray, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        place = np.full(self.labels.max() + 1, -1)
        place[which] = np.arange(len(which))
        own = place[self.labels]  # the problem among `which` that has a row as its own, or −1
        return self._dense(at, own) if self.dense else self._iterative(at, own)

    def reach(self, step: np.ndarray) -> np.ndarray:
        return np.max(
            [np.abs(step @ self.rows[:, part]).max(axis=1) for part in stretches(self.rows, len(step))], axis=0
        )

    def _dense(self, at: Float[np.ndarray, "g U"], own: Int[np.ndarray, " N"]) -> tuple[np.ndarray, np.ndarray]:
        """All Hessians in one product: curvatures of each class (g, N) by products of two columns (N, U(U+1)/2)."""
        gradient = at * self.penalty
        sums = np.zeros((len(at), len(self.upper[0])))
        for part in stretches(self.rows, len(at)):
            rows = self.rows[:, part]
            residual, curvature = _sigmoid(at @ rows, own[part])
            gradient += residual @ rows.T
            sums += curvature @ (self._products(rows) if self.kept is None else self.kept[:, part]).T
        hessian = np.empty((len(at), len(self.rows), len(self.rows)))
        hessian[:, self.upper[0], self.upper[1]] = sums
        hessian[:, self.upper[1], self.upper[0]] = sums
        return gradient, -_solved(hessian + np.diag(self.penalty), gradient)

    def _iterative(self, at: Float[np.ndarray, "g U"], own: Int[np.ndarray, " N"]) -> tuple[np.ndarray, np.ndarray]:
        residual, curvature = _sigmoid(at @ self.rows, own)
        gradient = residual @ self.rows.T + at * self.penalty
        diagonal = curvature @ (self.rows**2).T + self.penalty

        def curved(step: np.ndarray) -> np.ndarray:
            return (curvature * (step @ self.rows)) @ self.rows.T + step * self.penalty

        return gradient, -conjugate(curved, diagonal, gradient)

    def _products(self, rows: Float[np.ndarray, "U n"]) -> Float[np.ndarray, "T n"]:
        return rows[self.upper[0]] * rows[self.upper[1]]


class _Softmax:
    """A single problem: of which class is a row? The unknowns of the K classes follow each other."""

    def __init__(self, rows: Float[np.ndarray, "U N"], labels: Int[np.ndarray, " N"]) -> None:
        self.rows, self.labels, self.penalty = rows, labels, _penalty(rows)

    def start(self) -> Float[np.ndarray, "1 KU"]:
        logits = np.log(np.bincount(self.labels))
        return _intercepts(logits - logits.mean(), self.rows).reshape(1, -1)

    def newton(self, at: np.ndarray, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        classes = at.reshape(-1, len(self.rows))
        gradient, step = self._dense(classes) if at.size <= DENSE_SOFTMAX else self._iterative(classes)
        return gradient.reshape(1, -1), step.reshape(1, -1)

    def reach(self, step: np.ndarray) -> np.ndarray:
        classes = step.reshape(-1, len(self.rows))
        spreads = [np.ptp(classes @ self.rows[:, part], axis=0).max() for part in stretches(self.rows, len(classes))]
        return np.array([max(spreads)])

    def _dense(self, at: Float[np.ndarray, "K U"]) -> tuple[np.ndarray, np.ndarray]:
        """With the Hessian Σ (diag(p) − p pᵀ) ⊗ z zᵀ over rows z with probabilities p."""
        gradient = at * self.penalty
        hessian = np.zeros((at.size, at.size))
        for part in stretches(self.rows, at.size):
            rows = self.rows[:, part]
            residual, chance = softmax_slopes(at @ rows, self.labels[part])
            gradient += residual @ rows.T
            weighted = (chance[:, None] * rows).reshape(at.size, -1)  # p ⊗ z
            hessian -= weighted @ weighted.T
        complete_hessian(hessian, self.penalty)
        return gradient, -_solved(hessian[None], gradient.reshape(1, -1))

    def _iterative(self, at: Float[np.ndarray, "K U"]) -> tuple[np.ndarray, np.ndarray]:
        residual, chance = softmax_slopes(at @ self.rows, self.labels)
        gradient = residual @ self.rows.T + at * self.penalty
        likeliest = chance.argmax(axis=0), np.arange(len(self.labels))
        doubt = 1 - chance
        others = chance.copy()
        others[likeliest] = 0
        doubt[likeliest] = others.sum(axis=0)
        diagonal = (chance * doubt) @ (self.rows**2).T + self.penalty
        tie = diagonal[:, -1].mean() / len(at)  # fixes the sum of the intercepts, as above
        diagonal[:, -1] += tie

        def curved(step: np.ndarray) -> np.ndarray:
            classes = step.reshape(at.shape)
            change = classes @ self.rows
            change -= change[likeliest]  # changes no probability, and leaves less to round
            change -= np.einsum("kn,kn->n", chance, change)
            change *= chance
            bent = change @ self.rows.T + classes * self.penalty
            bent[:, -1] += tie * classes[:, -1].sum()
            return bent.reshape(1, -1)

        return gradient, -conjugate(curved, diagonal.reshape(1, -1), gradient.reshape(1, -1))


def _sigmoid(
    logits: Float[np.ndarray, "g n"], own: Int[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, "g n"], Float[np.ndarray, "g n"]]:
    """First and second derivatives of the log-loss by the logits, where row i is of class `own[i]`.

    Both are exact relative to their own size, however certain the answer: on separable rows that decides the optimum.
    """
    unlikely = np.exp(-np.abs(logits))
    likely = 1 / (1 + unlikely)
    unlikely *= likely
    residual = np.where(logits > 0, likely, unlikely)
    (rows,) = np.nonzero(own >= 0)
    mine = own[rows], rows
    residual[mine] = -np.where(logits[mine] > 0, unlikely[mine], likely[mine])
    return residual, np.multiply(unlikely, likely, out=unlikely)


def softmax_slopes(
    logits: Float[np.ndarray, "K n"], labels: Int[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, "K n"], Float[np.ndarray, "K n"]]:
    """Derivatives of the log-loss by the logits, exact relative to their own size, and the probabilities."""
    chance = np.exp(logits - logits.max(axis=0))
    chance /= chance.sum(axis=0)
    residual = chance.copy()
    mine = labels, np.arange(len(labels))
    residual[mine] = 0
    residual[mine] = -residual.sum(axis=0)
    return residual, chance


def complete_hessian(hessian: Float[np.ndarray, "KU KU"], penalty: Float[np.ndarray, " U"]) -> None:
    """Makes Σ (diag(p) − p pᵀ) ⊗ z zᵀ, with its penalty, of −Σ (p pᵀ) ⊗ z zᵀ, in place."""
    classes = len(hessian) // len(penalty)
    each = np.arange(classes)
    blocks = hessian.reshape(classes, len(penalty), classes, len(penalty))
    blocks[each, :, each] = 0
    # Probabilities add up to 1: p − p² is the sum of a class's products with the others, and exact where p is 1.
    blocks[each, :, each] = np.diag(penalty) - blocks.sum(axis=2)
    # Intercepts could all move together without a change to any probability. This fixes their sum.
    blocks[:, -1, :, -1] += blocks[each, -1, each, -1].mean()


def _solved(hessian: Float[np.ndarray, "g n n"], gradient: Float[np.ndarray, "g n"]) -> Float[np.ndarray, "g n"]:
    """Inverse Hessians times gradients, in units in which each unknown alone has curvature 1.

    A trace is added to those, for rows so certain that the few left with any curvature do not determine all unknowns.
    """
    diagonal = np.arange(gradient.shape[1])
    scale = 1 / np.sqrt(np.maximum(hessian[:, diagonal, diagonal], 1e-200))
    scaled = scale[:, :, None] * hessian * scale[:, None]
    scaled[:, diagonal, diagonal] += 1e-13
    return scale * np.linalg.solve(scaled, (scale * gradient)[..., None])[..., 0]


def conjugate(
    curved: Callable[[np.ndarray], np.ndarray],
    diagonal: Float[np.ndarray, "g n"],
    gradient: Float[np.ndarray, "g n"],
    precision: float = 1e-2,
) -> Float[np.ndarray, "g n"]:
    """Inverse Hessians times gradients, nearly, by conjugate gradients: from products with the Hessians alone.

    Wherever it stops, the result has the slope and the curvature along it that `minimised` relies on.
    """
    solution, left = np.zeros_like(gradient), gradient
    scaled = direction = left / diagonal
    size = start = (left * scaled).sum(axis=1, keepdims=True)
    for _ in range(4 * gradient.shape[1]):
        if (size <= precision**2 * start).all():
            break
        bent = curved(direction)
        length = size / np.maximum((direction * bent).sum(axis=1, keepdims=True), 1e-300)
        solution = solution + length * direction
        left = left - length * bent
        scaled = left / diagonal
        before, size = size, (left * scaled).sum(axis=1, keepdims=True)
        direction = scaled + size / np.maximum(before, 1e-300) * direction
    return solution


def _penalty(rows: Float[np.ndarray, "U N"]) -> Float[np.ndarray, " U"]:
    return np.append(np.ones(len(rows) - 1), 0.0)


def _intercepts(logits: Float[np.ndarray, " C"], rows: Float[np.ndarray, "U N"]) -> Float[np.ndarray, "C U"]:
    return np.hstack([np.zeros((len(logits), len(rows) - 1)), logits[:, None]])


def stretches(rows: Float[np.ndarray, "U N"], width: int) -> Iterator[slice]:
    """Stretches of the rows, so short that `width` numbers for each row stay in the cache."""
    length = max(512, CHUNK // width)
    return (slice(start, start + length) for start in range(0, rows.shape[1], length))


def one_thread() -> AbstractContextManager[object]:
    """Products of matrices on one core: these are too small to share, and to wait for a busy core costs far more."""
    return _blas().limit(limits=1, user_api="blas")


@functools.cache
def _blas() -> threadpoolctl.ThreadpoolController:
    return threadpoolctl.ThreadpoolController()
