"""Logistic regression, its strength chosen by cross-validation: scikit-learn's LogisticRegressionCV, at the optimum.

For each strength C, from the most penalised on, a softmax regression is fitted to all rows and to all rows but those of
each fold,

    minimum over W, b of  Σ log-loss(softmax(W z + b), y) + ‖W‖² / 2C        (‖W‖² / C where there are two classes)

and the strength with the best accuracy on the rows left out, the first of equals, is taken for all rows.

Newton's steps come from conjugate gradients, which need products with the Hessian alone. What makes them few is that
one Hessian, that of all rows, is formed and factored at each strength, and is nearly that of every fold: two or three
products then do. Where a fold has another, since rows are few and every one counts, its own is formed.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
import scipy
from jaxtyping import Bool, Float, Int

from sober.estimators.folds import stratified
from sober.estimators.linear import Linear, checked, complete_hessian, softmax_slopes, stretches

WEAKEST, STRONGEST = -4, 4  # powers of ten between which strengths lie
DENSE = 2_500  # unknowns up to which a Hessian is formed
PRECISION = 1e-5  # of logits: a step that moves them less is the last, for it leaves about a hundredth of that
FALL = 1e-18  # of the loss: so little is left where rounding keeps steps longer
INEXACT = 1e-2  # how near to Newton's a step comes, relatively
LONG = 20  # products for one step from which on a new Hessian pays
MOST = 500  # of steps, and of products for one

Unknowns = Float[np.ndarray, "C U"]  # of each class: weights, and last the intercept


class CrossValidated(NamedTuple):
    """The regression with the best strength, and the accuracy on the rows that each fold left out."""

    model: Linear
    strength: float
    accuracy: Float[np.ndarray, "F S"]


def strengths_between(count: int) -> Float[np.ndarray, " S"]:
    """So many values of C, evenly spaced by their logarithms; the higher, the less is penalised."""
    return np.logspace(WEAKEST, STRONGEST, count)


def cross_validated(
    x: Float[np.ndarray, "N D"], y: Int[np.ndarray, " N"], *, strengths: int = 10, folds: int = 5
) -> CrossValidated:
    """The regression of y on x with the best of some strengths.

    A class that has no row outside a fold is never predicted by what is fitted there: its probability is 0, which is
    where the optimum lies. A single class leaves nothing to learn.
    """
    x, y = checked(x, y)
    grid = strengths_between(strengths)
    classes, labels = np.unique(y, return_inverse=True)
    if len(classes) == 1:
        nothing = Linear(np.zeros((x.shape[1], 1)), np.zeros(1), classes)
        return CrossValidated(nothing, float(grid[0]), np.ones((folds, strengths)))
    middle = np.median(x, axis=0)  # not the mean: a row far out would make it coarse for all others
    centred = x - middle
    _, axes = np.linalg.eigh(centred.T @ centred)
    rows = np.vstack([axes.T @ centred.T, np.ones(len(x))])
    accuracy, fitted = _path(rows, labels, stratified(labels, folds), (2 if len(classes) == 2 else 1) / grid)
    best = int(np.argmax(accuracy.sum(axis=0)))
    weight, intercept = axes @ fitted[best][:, :-1].T, fitted[best][:, -1]
    return CrossValidated(
        Linear(weight, intercept - intercept.mean() - middle @ weight, classes), float(grid[best]), accuracy
    )


def _path(
    rows: Float[np.ndarray, "U N"],
    labels: Int[np.ndarray, " N"],
    fold: Int[np.ndarray, " N"],
    penalties: Float[np.ndarray, " S"],
) -> tuple[Float[np.ndarray, "F S"], list[Unknowns]]:
    """The accuracy on what each fold left out, and the regressions of all rows, at each penalty."""
    whole = _Problem(rows, labels, labels.max() + 1)
    parts = [_Problem(rows[:, fold != f], labels[fold != f], whole.classes) for f in range(fold.max() + 1)]
    out = [(rows[:, fold == f], labels[fold == f]) for f in range(len(parts))]
    fitted, of_parts = whole.start(), [part.start() for part in parts]
    accuracy, path = np.zeros((len(parts), len(penalties))), []
    near = whole.curvature(fitted, penalties[0])
    for s, penalty in enumerate(penalties):
        before, fitted = fitted, whole.minimum(fitted, penalty, near)
        path.append(fitted)
        near = whole.curvature(fitted, penalty)
        for f, part in enumerate(parts):  # which moves about as far as all rows do
            of_parts[f] = part.minimum(of_parts[f] + part.free(fitted - before), penalty, near)
            accuracy[f, s] = np.mean(part.predict(of_parts[f], out[f][0]) == out[f][1])
    return accuracy, path


class _Curvature(NamedTuple):
    """A Hessian to divide by: in units in which each unknown alone has curvature 1, factored where it was formed."""

    scale: Unknowns
    factor: Float[np.ndarray, "CU CU"] | None

    def divide(self, gradient: Unknowns) -> Unknowns:
        scaled = gradient * self.scale
        if self.factor is not None:
            scaled = scipy.linalg.cho_solve((self.factor, True), scaled.ravel(), check_finite=False)
        return scaled.reshape(gradient.shape) * self.scale


class _Problem:
    """Softmax regression of some rows, in U unknowns of each of C classes. Those that no row has are left alone."""

    def __init__(self, rows: Float[np.ndarray, "U N"], labels: Int[np.ndarray, " N"], classes: int) -> None:
        self.rows, self.labels, self.classes = rows, labels, classes
        self.counts = np.bincount(labels, minlength=classes)
        self.unknown: Bool[np.ndarray, " C"] = self.counts == 0
        self.parts = list(stretches(rows, classes))

    def start(self) -> Unknowns:
        """Coefficients that know how frequent each class is, and nothing else."""
        logits = np.log(np.maximum(self.counts, 1))
        return np.hstack([np.zeros((self.classes, len(self.rows) - 1)), (logits - logits.mean())[:, None]])

    def free(self, step: Unknowns) -> Unknowns:
        """The part of a step that changes something: classes without rows stay, and intercepts do not all rise."""
        free = np.where(self.unknown[:, None], 0.0, step)
        free[~self.unknown, -1] -= free[~self.unknown, -1].mean()
        return free

    def logits(self, at: Unknowns, rows: Float[np.ndarray, "U n"]) -> Float[np.ndarray, "C n"]:
        logits = at @ rows
        logits[self.unknown] = -np.inf
        return logits

    def predict(self, at: Unknowns, rows: Float[np.ndarray, "U n"]) -> Int[np.ndarray, " n"]:
        return self.logits(at, rows).argmax(axis=0)

    def minimum(self, at: Unknowns, penalty: float, curvature: _Curvature) -> Unknowns:
        """Newton's method, by steps that are sure to descend: see `linear._minimised`, whose rule this is."""
        step, reach = np.zeros_like(at), 0.0
        for _ in range(MOST):
            ahead = at + step
            gradient, chances = self._slopes(ahead, penalty)
            if reach > 1 and np.vdot(gradient, step) > 0:  # beyond the minimum on this line
                shorter = max(0.5, np.log1p(reach) / reach)
                step, reach = shorter * step, shorter * reach
                continue
            at = ahead
            step, products = self._newton(gradient, chances, penalty, curvature)
            reach = self._reach(step)
            if reach <= PRECISION or -np.vdot(gradient, step) <= FALL:
                return at + step
            if products > LONG:
                curvature = self.curvature(at, penalty)
        warnings.warn("a cross-validated logistic regression did not converge", RuntimeWarning, stacklevel=4)
        return at

    def curvature(self, at: Unknowns, penalty: float) -> _Curvature:
        """The Hessian there, or its diagonal where there are many unknowns."""
        if at.size > DENSE:
            return self._diagonal(at, penalty)
        hessian = np.zeros((at.size, at.size))
        for part in stretches(self.rows, at.size):
            rows = self.rows[:, part]
            _, chance = softmax_slopes(self.logits(at, rows), self.labels[part])
            weighted = (chance[:, None] * rows).reshape(at.size, -1)  # p ⊗ z
            hessian -= weighted @ weighted.T
        complete_hessian(hessian, self._penalties(penalty))
        scale = 1 / np.sqrt(np.maximum(np.diag(hessian), 1e-200))
        hessian *= scale
        hessian *= scale[:, None]
        hessian[np.diag_indices_from(hessian)] += 1e-12
        try:
            factor = scipy.linalg.cholesky(hessian, lower=True, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:  # rounded so far that it is no Hessian any more
            return self._diagonal(at, penalty)
        return _Curvature(scale.reshape(at.shape), factor)

    def _diagonal(self, at: Unknowns, penalty: float) -> _Curvature:
        diagonal = np.tile(self._penalties(penalty), (len(at), 1))
        for part in self.parts:
            _, chance = softmax_slopes(self.logits(at, self.rows[:, part]), self.labels[part])
            diagonal += (chance * (1 - chance)) @ (self.rows[:, part] ** 2).T
        return _Curvature(1 / np.sqrt(np.maximum(diagonal, 1e-200)), None)

    def _penalties(self, penalty: float) -> Float[np.ndarray, " U"]:
        return np.append(np.full(len(self.rows) - 1, penalty), 0.0)

    def _slopes(self, at: Unknowns, penalty: float) -> tuple[Unknowns, list[Float[np.ndarray, "C n"]]]:
        """The gradient, and the probabilities of each stretch of rows."""
        gradient, chances = at * self._penalties(penalty), []
        for part in self.parts:
            rows = self.rows[:, part]
            residual, chance = softmax_slopes(self.logits(at, rows), self.labels[part])
            gradient += residual @ rows.T
            chances.append(chance)
        return self.free(gradient), chances

    def _newton(
        self, gradient: Unknowns, chances: list[Float[np.ndarray, "C n"]], penalty: float, curvature: _Curvature
    ) -> tuple[Unknowns, int]:
        """Minus the inverse Hessian times the gradient, nearly, and how many products that took."""
        likeliest = [chance.argmax(axis=0) for chance in chances]
        penalties = self._penalties(penalty)

        def curved(step: Unknowns) -> Unknowns:
            bent = step * penalties
            for part, chance, top in zip(self.parts, chances, likeliest, strict=True):
                rows = self.rows[:, part]
                change = step @ rows
                change -= change[top, np.arange(len(top))]  # changes no probability, and leaves less to round
                change -= np.einsum("cn,cn->n", chance, change)
                change *= chance
                bent += change @ rows.T
            return bent

        solution, left = np.zeros_like(gradient), gradient
        scaled = direction = self.free(curvature.divide(left))
        size = start = np.vdot(left, scaled)
        products = 0
        while size > INEXACT**2 * start and products < MOST:
            products += 1
            bent = self.free(curved(direction))
            length = size / max(np.vdot(direction, bent), 1e-300)
            solution = solution - length * direction
            left = left - length * bent
            scaled = self.free(curvature.divide(left))
            before, size = size, np.vdot(left, scaled)
            direction = scaled + size / max(before, 1e-300) * direction
        return solution, products

    def _reach(self, step: Unknowns) -> float:
        """The most by which a step moves logits of a row apart."""
        known = step[~self.unknown]
        return max(float(np.ptp(known @ self.rows[:, part], axis=0).max()) for part in self.parts)
