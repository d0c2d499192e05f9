"""Logistic regression, its strength chosen by cross-validation: scikit-learn's LogisticRegressionCV, at the optimum.

For each strength C, in rising order, a softmax regression is fitted to all rows, and to the rows outside each fold:

    minimum over W, b of  Σ log-loss(softmax(W z + b), y) + ‖W‖² / 2C        (‖W‖² / C where there are two classes)

The strength with the best accuracy on held-out rows (the first of equals) is chosen, with the regression of all rows.

Newton's steps come from conjugate gradients, which need only products with the Hessian. The Hessian of all rows is
formed and factored at each strength as the preconditioner. It is close to every fold's Hessian, so two or three
products suffice. If a fold's Hessian differs, because rows are few, the fold forms its own preconditioner.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy
from jaxtyping import Bool, Float, Int

from sober.estimators.folds import stratified
from sober.estimators.linear import Linear, checked, complete_hessian, row_chunks, softmax_slopes
from sober.estimators.scaling import shifts

WEAKEST, STRONGEST = -4, 4  # exponents of ten of the smallest and the largest strength
DENSE = 2_500  # most unknowns for a dense Hessian
PRECISION = 1e-5  # a step that moves logits by less is the last: its error is about a hundredth of PRECISION
FALL = 1e-18  # least fall of the loss that is worth another step: rounding can keep steps longer than PRECISION
INEXACT = 1e-2  # relative error of a step by conjugate gradients
FLATTEST = 1e-30  # curvature along a step, in units in which it is about 1
LONG = 20  # a step of more products than this is followed by a new Hessian
MOST = 500  # steps, and products in one step

Unknowns = Float[np.ndarray, "C U"]  # the weights of each class, and last its intercept


class CrossValidated(NamedTuple):
    """The regression with the best strength, and the accuracy on the rows that each fold left out."""

    model: Linear
    strength: float
    accuracy: Float[np.ndarray, "F S"]
    converged: bool = True  # whether every regression reached its optimum


def strengths_between(count: int) -> Float[np.ndarray, " S"]:
    """Values of C, evenly spaced by their logarithms. A higher C penalises less."""
    return np.logspace(WEAKEST, STRONGEST, count)


def cross_validated(
    x: Float[np.ndarray, "N D"], y: Int[np.ndarray, " N"], *, strengths: int = 10, folds: int = 5
) -> CrossValidated:
    """The regression of y on x at the best of `strengths` values of C.

    If all rows of a class are in one fold, that fold's regression gives it probability 0, which is the optimum. With a
    single class there is nothing to learn.
    """
    x, y = checked(x, y)
    grid = strengths_between(strengths)
    classes, labels = np.unique(y, return_inverse=True)
    if len(classes) == 1:
        constant = Linear(np.zeros((x.shape[1], 1)), np.zeros(1), classes)
        return CrossValidated(constant, float(grid[0]), np.ones((folds, strengths)))
    middle = np.median(x, axis=0)  # one row far out would pull a mean away from the others
    centred = x - middle
    shift = shifts(centred)
    centred = np.ldexp(centred, shift) if shift.any() else centred
    _, axes = np.linalg.eigh(centred.T @ centred)
    rows = np.vstack([axes.T @ centred.T, np.ones(len(x))])
    accuracy, fitted, converged = _path(rows, labels, stratified(labels, folds), (2 if len(classes) == 2 else 1) / grid)
    best = int(np.argmax(accuracy.sum(axis=0)))
    weight, intercept = np.ldexp(axes @ fitted[best][:, :-1].T, shift[:, None]), fitted[best][:, -1]
    return CrossValidated(
        Linear(weight, intercept - intercept.mean() - middle @ weight, classes), float(grid[best]), accuracy, converged
    )


def _path(
    rows: Float[np.ndarray, "U N"],
    labels: Int[np.ndarray, " N"],
    fold: Int[np.ndarray, " N"],
    penalties: Float[np.ndarray, " S"],
) -> tuple[Float[np.ndarray, "F S"], list[Unknowns], bool]:
    """The accuracy on the rows of each fold, and the regression of all rows, at each penalty; and if all converged."""
    all_rows = _Problem(rows, labels, labels.max() + 1)
    folds = [_Problem(rows[:, fold != f], labels[fold != f], all_rows.classes) for f in range(fold.max() + 1)]
    held_out = [(rows[:, fold == f], labels[fold == f]) for f in range(len(folds))]
    fitted, fitted_without = all_rows.start(), [problem.start() for problem in folds]
    accuracy, path = np.zeros((len(folds), len(penalties))), []
    curvature = all_rows.curvature(fitted, penalties[0])
    for s, penalty in enumerate(penalties):
        before, fitted = fitted, all_rows.minimum(fitted, penalty, curvature)
        path.append(fitted)
        curvature = all_rows.curvature(fitted, penalty)
        for f, problem in enumerate(folds):  # a fold's regression moves about as far as the regression of all rows
            fitted_without[f] = problem.minimum(fitted_without[f] + problem.free(fitted - before), penalty, curvature)
            accuracy[f, s] = np.mean(problem.predict(fitted_without[f], held_out[f][0]) == held_out[f][1])
    return accuracy, path, all(problem.converged for problem in (all_rows, *folds))


class _Curvature(NamedTuple):
    """A preconditioner: the Hessian, factored in units in which each unknown alone has curvature 1, or its diagonal."""

    scale: Unknowns
    factor: Float[np.ndarray, "CU CU"] | None

    def divide(self, gradient: Unknowns) -> Unknowns:
        scaled = gradient * self.scale
        if self.factor is not None:
            scaled = scipy.linalg.cho_solve((self.factor, True), scaled.ravel(), check_finite=False)
        return scaled.reshape(gradient.shape) * self.scale


class _Problem:
    """Softmax regression of some rows, with U unknowns for each of C classes. Classes without rows are left out."""

    def __init__(self, rows: Float[np.ndarray, "U N"], labels: Int[np.ndarray, " N"], classes: int) -> None:
        self.rows, self.labels, self.classes = rows, labels, classes
        self.counts = np.bincount(labels, minlength=classes)
        self.absent: Bool[np.ndarray, " C"] = self.counts == 0
        self.chunks = list(row_chunks(rows, classes))
        self.converged = True  # whether every minimum so far was reached

    def start(self) -> Unknowns:
        """Coefficients from the frequency of each class alone."""
        logits = np.log(np.maximum(self.counts, 1))
        return np.hstack([np.zeros((self.classes, len(self.rows) - 1)), (logits - logits.mean())[:, None]])

    def free(self, step: Unknowns) -> Unknowns:
        """A step without its idle parts: the steps of classes without rows, and the mean of the intercepts."""
        free = np.where(self.absent[:, None], 0.0, step)
        free[~self.absent, -1] -= free[~self.absent, -1].mean()
        return free

    def logits(self, unknowns: Unknowns, rows: Float[np.ndarray, "U n"]) -> Float[np.ndarray, "C n"]:
        logits = unknowns @ rows
        logits[self.absent] = -np.inf
        return logits

    def predict(self, unknowns: Unknowns, rows: Float[np.ndarray, "U n"]) -> Int[np.ndarray, " n"]:
        return self.logits(unknowns, rows).argmax(axis=0)

    def minimum(self, unknowns: Unknowns, penalty: float, curvature: _Curvature) -> Unknowns:
        """Newton's method with steps that always descend, by the rule of `linear.minimised`.

        Rows may be so large that a step overflows. It then stops at the last unknowns that did not.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            return self._descend(unknowns, penalty, curvature)

    def _descend(self, unknowns: Unknowns, penalty: float, curvature: _Curvature) -> Unknowns:
        step, reach = np.zeros_like(unknowns), 0.0
        for _ in range(MOST):
            ahead = unknowns + step
            gradient, chances = self._slopes(ahead, penalty)
            if not np.isfinite(gradient).all():
                break
            if reach > 1 and np.vdot(gradient, step) > 0:  # beyond the minimum on this line
                shorter = max(0.5, np.log1p(reach) / reach)
                step, reach = shorter * step, shorter * reach
                continue
            unknowns = ahead
            step, products = self._newton(gradient, chances, penalty, curvature)
            reach = self._reach(step)
            if not np.isfinite(step).all():
                break
            if reach <= PRECISION or -np.vdot(gradient, step) <= FALL:
                return unknowns + step
            if products > LONG:
                curvature = self.curvature(unknowns, penalty)
        self.converged = False
        return unknowns

    def curvature(self, unknowns: Unknowns, penalty: float) -> _Curvature:
        """The Hessian at some unknowns, or only its diagonal if the unknowns are many."""
        if unknowns.size > DENSE:
            return self._diagonal(unknowns, penalty)
        hessian = np.zeros((unknowns.size, unknowns.size))
        for chunk in row_chunks(self.rows, unknowns.size):
            rows = self.rows[:, chunk]
            _, chance = softmax_slopes(self.logits(unknowns, rows), self.labels[chunk])
            weighted = (chance[:, None] * rows).reshape(unknowns.size, -1)  # p ⊗ z
            hessian -= weighted @ weighted.T
        complete_hessian(hessian, self._penalties(penalty))
        scale = 1 / np.sqrt(np.maximum(np.diag(hessian), 1e-200))
        hessian *= scale
        hessian *= scale[:, None]
        hessian[np.diag_indices_from(hessian)] += 1e-12
        try:
            factor = scipy.linalg.cholesky(hessian, lower=True, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:  # rounding made it indefinite
            return self._diagonal(unknowns, penalty)
        return _Curvature(scale.reshape(unknowns.shape), factor)

    def _diagonal(self, unknowns: Unknowns, penalty: float) -> _Curvature:
        diagonal = np.tile(self._penalties(penalty), (len(unknowns), 1))
        for chunk in self.chunks:
            _, chance = softmax_slopes(self.logits(unknowns, self.rows[:, chunk]), self.labels[chunk])
            diagonal += (chance * (1 - chance)) @ (self.rows[:, chunk] ** 2).T
        return _Curvature(1 / np.sqrt(np.maximum(diagonal, 1e-200)), None)

    def _penalties(self, penalty: float) -> Float[np.ndarray, " U"]:
        return np.append(np.full(len(self.rows) - 1, penalty), 0.0)

    def _slopes(self, unknowns: Unknowns, penalty: float) -> tuple[Unknowns, list[Float[np.ndarray, "C n"]]]:
        """The gradient, and the probabilities of the classes for each chunk of rows."""
        gradient, chances = unknowns * self._penalties(penalty), []
        for chunk in self.chunks:
            rows = self.rows[:, chunk]
            residual, chance = softmax_slopes(self.logits(unknowns, rows), self.labels[chunk])
            gradient += residual @ rows.T
            chances.append(chance)
        return self.free(gradient), chances

    def _newton(
        self, gradient: Unknowns, chances: list[Float[np.ndarray, "C n"]], penalty: float, curvature: _Curvature
    ) -> tuple[Unknowns, int]:
        """Newton's step to a relative error of INEXACT, and how many products it took."""
        likeliest = [chance.argmax(axis=0) for chance in chances]
        penalties = self._penalties(penalty)

        def curved(step: Unknowns) -> Unknowns:
            product = step * penalties
            for chunk, chance, top in zip(self.chunks, chances, likeliest, strict=True):
                rows = self.rows[:, chunk]
                change = step @ rows
                change -= change[top, np.arange(len(top))]  # changes no probability, and reduces rounding
                change -= np.einsum("cn,cn->n", chance, change)
                change *= chance
                product += change @ rows.T
            return product

        solution, residual = np.zeros_like(gradient), gradient
        scaled = direction = self.free(curvature.divide(residual))
        size = start = np.vdot(residual, scaled)
        products = 0
        while size > INEXACT**2 * start and products < MOST:
            products += 1
            product = self.free(curved(direction))
            bend = np.vdot(direction, product)
            if not bend > FLATTEST * size:  # rounding is larger than the curvature
                self.converged = False
                break
            length = size / bend
            solution = solution - length * direction
            residual = residual - length * product
            scaled = self.free(curvature.divide(residual))
            before, size = size, np.vdot(residual, scaled)
            direction = scaled + size / max(before, 1e-300) * direction
        return solution, products

    def _reach(self, step: Unknowns) -> float:
        """How far a step moves logits of one row apart, at most."""
        with_rows = step[~self.absent]
        return max(float(np.ptp(with_rows @ self.rows[:, chunk], axis=0).max()) for chunk in self.chunks)
