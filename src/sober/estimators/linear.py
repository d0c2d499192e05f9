"""Logistic regressions at their exact optimum, for metrics that fit hundreds of small ones on every representation.

Newton's method fits all classes at once. Rows are first centred, which the free intercept absorbs, and rotated to the
axes of their covariance, which does not change the L2 penalty. The problem is then well scaled even where columns are
constant, copies of each other or of very different size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import numpy as np
from jaxtyping import Float, Int

from sober.errors import RequestError
from sober.estimators.scaling import shifts
from sober.parallel import one_thread

CHUNK = 2**16  # numbers in one temporary array: a few such arrays fit in the cache of a core
KEPT = 2**23  # most numbers in products of columns that stay in memory between steps
DENSE_SIGMOID = 24  # most unknowns of one class for a dense Hessian; with more, conjugate gradients are faster
DENSE_SOFTMAX = 500  # the same limit for the unknowns of all classes together
PRECISION = 1e-7  # a step that moves logits by less is the last, since the error after it is far smaller
MOST = 200  # steps; 5 to 15 are usual


class Linear(NamedTuple):
    """A linear score for each class."""

    weight: Float[np.ndarray, "D C"]
    intercept: Float[np.ndarray, " C"]
    classes: Int[np.ndarray, " C"]
    converged: bool = True  # whether the fit reached its optimum

    def scores(self, x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N C"]:
        """Decision values: the logits of the classes."""
        return np.asarray(x, np.float64) @ self.weight + self.intercept

    def predict(self, x: Float[np.ndarray, "N D"]) -> Int[np.ndarray, " N"]:
        """The class with the highest score, the first of equals."""
        return self.classes[np.argmax(self.scores(x), axis=1)]


def one_vs_rest(x: Float[np.ndarray, "N D"], y: Int[np.ndarray, " N"]) -> Linear:
    """Logistic regressions of each class against all others: the minimum of ½‖w‖² + Σ log-loss, intercept free.

    scikit-learn's LogisticRegression did this at the time of the Sober Look study (Locatello et al. 2019). With a
    single class there is nothing to learn, and scores are 0.
    """
    return _fitted(_Sigmoid, x, y)


def multinomial(x: Float[np.ndarray, "N D"], y: Int[np.ndarray, " N"]) -> Linear:
    """Softmax regression: the minimum of ½‖W‖² + Σ log-loss; intercepts are free and add up to 0.

    scikit-learn's LogisticRegression does this today. As there, two classes share one penalised weight, and have minus
    and plus half of its logit as scores. With a single class there is nothing to learn, and scores are 0.
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
    for column, label in enumerate(classes):
        own_scores = scores[y == label, column]
        pairs = len(own_scores) * (len(scores) - len(own_scores))
        if pairs:
            ordered = np.sort(scores[:, column])
            lower, up_to = (np.searchsorted(ordered, own_scores, side).sum() for side in ("left", "right"))
            # The mean of both counts ties half. Rows of the class win half of their len(own_scores)² comparisons with
            # each other.
            areas[column] = (lower + up_to - len(own_scores) ** 2) / (2 * pairs)
    return areas


def checked(x: np.ndarray, y: np.ndarray) -> tuple[Float[np.ndarray, "N D"], Int[np.ndarray, " N *K"]]:
    """Finite codes as float64, and as many labels."""
    x, y = np.asarray(x, np.float64), np.asarray(y)
    if x.ndim != 2 or not x.size or len(x) != len(y):
        raise RequestError(f"a classifier needs N rows of codes and N labels, got shapes {x.shape} and {y.shape}")
    if not np.isfinite(x).all():
        raise RequestError("a classifier needs finite codes: some are infinite or not a number")
    return x, y


# Each class has U = D + 1 unknowns: D weights, and last its intercept.


class Loss(Protocol):
    """G problems that do not depend on each other, in n unknowns each."""

    def start(self) -> Float[np.ndarray, "G n"]:
        """Coefficients from the frequency of each class alone."""

    def newton(
        self, unknowns: Float[np.ndarray, "g n"], problems: Int[np.ndarray, " g"]
    ) -> tuple[Float[np.ndarray, "g n"], Float[np.ndarray, "g n"]]:
        """Gradients of some problems at some unknowns, and Newton's steps from there."""

    def reach(self, step: Float[np.ndarray, "g n"]) -> Float[np.ndarray, " g"]:
        """How far a step moves logits of one row apart, at most."""


def _fitted(
    kind: Callable[[Float[np.ndarray, "U N"], Int[np.ndarray, " N"]], Loss],
    x: Float[np.ndarray, "N D"],
    y: Int[np.ndarray, " N"],
) -> Linear:
    """The minimum of a loss, found along the principal axes of the rows and returned as weights of the columns."""
    x, y = checked(x, y)
    classes, labels = np.unique(y, return_inverse=True)
    if len(classes) == 1:
        return Linear(np.zeros((x.shape[1], 1)), np.zeros(1), classes)
    with one_thread():
        middle = np.median(x, axis=0)  # one row far out would pull a mean away from the others
        centred = x - middle
        shift = shifts(centred)
        centred = np.ldexp(centred, shift) if shift.any() else centred
        _, axes = np.linalg.eigh(centred.T @ centred)
        loss = kind(np.vstack([axes.T @ centred.T, np.ones(len(x))]), labels)
        minimum = minimised(loss)
        best = minimum.unknowns.reshape(len(classes), -1)  # (C, U)
    weight = np.ldexp(axes @ best[:, :-1].T, shift[:, None])
    return Linear(weight, best[:, -1] - middle @ weight, classes, minimum.converged)


class Minimum(NamedTuple):
    """The unknowns of G problems where the losses are least, and whether every problem got there."""

    unknowns: Float[np.ndarray, "G n"]
    converged: bool


def minimised(loss: Loss, precision: float = PRECISION) -> Minimum:
    """Newton's method with steps that always descend; each problem stops by itself.

    Along a step that moves logits by r, the curvature c of a log-loss changes by |c'| ≤ r c (Bach 2010). Hence a step
    descends if r ≤ 1, or if the loss still falls at its end. A step shortened to log(1 + r) / r never passes the
    minimum on its line. If r is large, that is too short, so half of the step is tried.
    """
    best = loss.start()
    problems = np.arange(len(best))
    step, reach = np.zeros_like(best), np.zeros(len(best))
    for _ in range(MOST):
        ahead = best[problems] + step
        gradient, newton = loss.newton(ahead, problems)
        beyond = (reach > 1) & ((gradient * step).sum(axis=1) > 0)
        best[problems[~beyond]] = ahead[~beyond]
        shorter = np.maximum(0.5, np.log1p(reach) / np.maximum(reach, 1))
        step = np.where(beyond[:, None], shorter[:, None] * step, newton)
        reach = np.where(beyond, shorter * reach, loss.reach(newton))
        last = reach <= precision
        best[problems[last]] += step[last]
        # Rounding of very large logits can keep steps long: stop when the loss can no longer fall.
        going = ~last & (beyond | (-(gradient * newton).sum(axis=1) > 1e-24))
        problems, step, reach = problems[going], step[going], reach[going]
        if not len(problems):
            return Minimum(best, True)
    return Minimum(best, False)


class _Sigmoid:
    """A problem for each class: does a row belong to it?"""

    def __init__(self, rows: Float[np.ndarray, "U N"], labels: Int[np.ndarray, " N"]) -> None:
        self.rows, self.labels, self.penalty = rows, labels, _penalty(rows)
        self.dense = len(rows) <= DENSE_SIGMOID
        self.upper = np.triu_indices(len(rows))
        self.all_products = self._products(rows) if self.dense and len(self.upper[0]) * len(labels) <= KEPT else None

    def start(self) -> Float[np.ndarray, "C U"]:
        counts = np.bincount(self.labels)
        return _intercepts(np.log(counts / (len(self.labels) - counts)), self.rows)

    def newton(self, unknowns: np.ndarray, problems: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        place = np.full(self.labels.max() + 1, -1)
        place[problems] = np.arange(len(problems))
        problem_of_row = place[self.labels]  # the place of a row's class among `problems`, or −1
        return self._dense(unknowns, problem_of_row) if self.dense else self._iterative(unknowns, problem_of_row)

    def reach(self, step: np.ndarray) -> np.ndarray:
        return np.max(
            [np.abs(step @ self.rows[:, chunk]).max(axis=1) for chunk in row_chunks(self.rows, len(step))], axis=0
        )

    def _dense(
        self, unknowns: Float[np.ndarray, "g U"], problem_of_row: Int[np.ndarray, " N"]
    ) -> tuple[np.ndarray, np.ndarray]:
        """All Hessians in one product: curvatures of each class (g, N) by products of two columns (N, U(U+1)/2)."""
        gradient = unknowns * self.penalty
        sums = np.zeros((len(unknowns), len(self.upper[0])))
        for chunk in row_chunks(self.rows, len(unknowns)):
            rows = self.rows[:, chunk]
            residual, curvature = _sigmoid(unknowns @ rows, problem_of_row[chunk])
            gradient += residual @ rows.T
            sums += curvature @ (self._products(rows) if self.all_products is None else self.all_products[:, chunk]).T
        hessian = np.empty((len(unknowns), len(self.rows), len(self.rows)))
        hessian[:, self.upper[0], self.upper[1]] = sums
        hessian[:, self.upper[1], self.upper[0]] = sums
        return gradient, -_solved(hessian + np.diag(self.penalty), gradient)

    def _iterative(
        self, unknowns: Float[np.ndarray, "g U"], problem_of_row: Int[np.ndarray, " N"]
    ) -> tuple[np.ndarray, np.ndarray]:
        residual, curvature = _sigmoid(unknowns @ self.rows, problem_of_row)
        gradient = residual @ self.rows.T + unknowns * self.penalty
        diagonal = curvature @ (self.rows**2).T + self.penalty

        def curved(step: np.ndarray) -> np.ndarray:
            return (curvature * (step @ self.rows)) @ self.rows.T + step * self.penalty

        return gradient, -conjugate(curved, diagonal, gradient)

    def _products(self, rows: Float[np.ndarray, "U n"]) -> Float[np.ndarray, "T n"]:
        return rows[self.upper[0]] * rows[self.upper[1]]


class _Softmax:
    """A single problem: which class does a row belong to? The unknowns of the K classes follow each other."""

    def __init__(self, rows: Float[np.ndarray, "U N"], labels: Int[np.ndarray, " N"]) -> None:
        self.rows, self.labels, self.penalty = rows, labels, _penalty(rows)

    def start(self) -> Float[np.ndarray, "1 KU"]:
        logits = np.log(np.bincount(self.labels))
        return _intercepts(logits - logits.mean(), self.rows).reshape(1, -1)

    def newton(self, unknowns: np.ndarray, problems: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        classes = unknowns.reshape(-1, len(self.rows))
        gradient, step = self._dense(classes) if unknowns.size <= DENSE_SOFTMAX else self._iterative(classes)
        return gradient.reshape(1, -1), step.reshape(1, -1)

    def reach(self, step: np.ndarray) -> np.ndarray:
        classes = step.reshape(-1, len(self.rows))
        spreads = [np.ptp(classes @ self.rows[:, chunk], axis=0).max() for chunk in row_chunks(self.rows, len(classes))]
        return np.array([max(spreads)])

    def _dense(self, unknowns: Float[np.ndarray, "K U"]) -> tuple[np.ndarray, np.ndarray]:
        """With the Hessian Σ (diag(p) − p pᵀ) ⊗ z zᵀ over rows z with probabilities p."""
        gradient = unknowns * self.penalty
        hessian = np.zeros((unknowns.size, unknowns.size))
        for chunk in row_chunks(self.rows, unknowns.size):
            rows = self.rows[:, chunk]
            residual, chance = softmax_slopes(unknowns @ rows, self.labels[chunk])
            gradient += residual @ rows.T
            weighted = (chance[:, None] * rows).reshape(unknowns.size, -1)  # p ⊗ z
            hessian -= weighted @ weighted.T
        complete_hessian(hessian, self.penalty)
        return gradient, -_solved(hessian[None], gradient.reshape(1, -1))

    def _iterative(self, unknowns: Float[np.ndarray, "K U"]) -> tuple[np.ndarray, np.ndarray]:
        residual, chance = softmax_slopes(unknowns @ self.rows, self.labels)
        gradient = residual @ self.rows.T + unknowns * self.penalty
        likeliest = chance.argmax(axis=0), np.arange(len(self.labels))
        doubt = 1 - chance
        others = chance.copy()
        others[likeliest] = 0
        doubt[likeliest] = others.sum(axis=0)
        diagonal = (chance * doubt) @ (self.rows**2).T + self.penalty
        tie = diagonal[:, -1].mean() / len(unknowns)  # fixes the sum of the intercepts, as `complete_hessian` does
        diagonal[:, -1] += tie

        def curved(step: np.ndarray) -> np.ndarray:
            classes = step.reshape(unknowns.shape)
            change = classes @ self.rows
            change -= change[likeliest]  # changes no probability, and reduces rounding
            change -= np.einsum("kn,kn->n", chance, change)
            change *= chance
            bent = change @ self.rows.T + classes * self.penalty
            bent[:, -1] += tie * classes[:, -1].sum()
            return bent.reshape(1, -1)

        return gradient, -conjugate(curved, diagonal.reshape(1, -1), gradient.reshape(1, -1))


def _sigmoid(
    logits: Float[np.ndarray, "g n"], problem_of_row: Int[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, "g n"], Float[np.ndarray, "g n"]]:
    """First and second derivatives of the log-loss by the logits, where row i belongs to problem `problem_of_row[i]`.

    Both have small relative errors, however certain the answer: on separable rows, they decide where the optimum is.
    """
    unlikely = np.exp(-np.abs(logits))
    likely = 1 / (1 + unlikely)
    unlikely *= likely
    residual = np.where(logits > 0, likely, unlikely)
    (rows,) = np.nonzero(problem_of_row >= 0)
    true_class = problem_of_row[rows], rows
    residual[true_class] = -np.where(logits[true_class] > 0, unlikely[true_class], likely[true_class])
    return residual, np.multiply(unlikely, likely, out=unlikely)


def softmax_slopes(
    logits: Float[np.ndarray, "K n"], labels: Int[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, "K n"], Float[np.ndarray, "K n"]]:
    """Derivatives of the log-loss by the logits, with small relative errors, and the probabilities."""
    chance = np.exp(logits - logits.max(axis=0))
    chance /= chance.sum(axis=0)
    residual = chance.copy()
    true_class = labels, np.arange(len(labels))
    residual[true_class] = 0
    residual[true_class] = -residual.sum(axis=0)
    return residual, chance


def complete_hessian(hessian: Float[np.ndarray, "KU KU"], penalty: Float[np.ndarray, " U"]) -> None:
    """Turns −Σ (p pᵀ) ⊗ z zᵀ into Σ (diag(p) − p pᵀ) ⊗ z zᵀ plus the penalty, in place."""
    classes = len(hessian) // len(penalty)
    diagonal = np.arange(classes)
    blocks = hessian.reshape(classes, len(penalty), classes, len(penalty))
    blocks[diagonal, :, diagonal] = 0
    # Probabilities add up to 1, so p − p² is the sum of a class's products with the others, exact even where p is 1.
    blocks[diagonal, :, diagonal] = np.diag(penalty) - blocks.sum(axis=2)
    # All intercepts could move together without changing any probability. This fixes their sum.
    blocks[:, -1, :, -1] += blocks[diagonal, -1, diagonal, -1].mean()


def _solved(hessian: Float[np.ndarray, "g n n"], gradient: Float[np.ndarray, "g n"]) -> Float[np.ndarray, "g n"]:
    """Inverse Hessians times gradients, in units in which each unknown alone has curvature 1.

    1e-13 is added to these curvatures: if nearly all rows are certain, the other rows may not determine all unknowns.
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
    """Inverse Hessians times gradients by conjugate gradients, to a relative `precision`, from products alone.

    Wherever it stops, the result has the slope and curvature along itself that `minimised` relies on.
    """
    solution, residual = np.zeros_like(gradient), gradient
    scaled = direction = residual / diagonal
    size = start = (residual * scaled).sum(axis=1, keepdims=True)
    for _ in range(4 * gradient.shape[1]):
        if (size <= precision**2 * start).all():
            break
        curved_direction = curved(direction)
        length = size / np.maximum((direction * curved_direction).sum(axis=1, keepdims=True), 1e-300)
        solution = solution + length * direction
        residual = residual - length * curved_direction
        scaled = residual / diagonal
        before, size = size, (residual * scaled).sum(axis=1, keepdims=True)
        direction = scaled + size / np.maximum(before, 1e-300) * direction
    return solution


def _penalty(rows: Float[np.ndarray, "U N"]) -> Float[np.ndarray, " U"]:
    return np.append(np.ones(len(rows) - 1), 0.0)


def _intercepts(logits: Float[np.ndarray, " C"], rows: Float[np.ndarray, "U N"]) -> Float[np.ndarray, "C U"]:
    return np.hstack([np.zeros((len(logits), len(rows) - 1)), logits[:, None]])


def row_chunks(rows: Float[np.ndarray, "U N"], width: int) -> Iterator[slice]:
    """Slices of the rows, short enough for `width` numbers of each row to stay in the processor's cache."""
    length = max(512, CHUNK // width)
    return (slice(start, start + length) for start in range(0, rows.shape[1], length))
