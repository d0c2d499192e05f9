"""Lasso regressions whose strength is chosen by cross-validation: many small ones, between the columns of many models.

The coefficients of a lasso are piecewise linear in its strength (Osborne et al. 2000; Efron et al. 2004). Between two
strengths at which a feature comes or goes they lie on a line, and the error on held-out rows is a parabola. So each
path is followed from line to line, exactly and without iteration. This needs only sums of products: rows are read once,
to sum their products in each fold. A fold's training sums are the sums over all rows minus the sums over the fold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from sober.errors import RequestError
from sober.estimators.compiled import compiled

FOLDS, STRENGTHS, SMALLEST = 5, 100, 1e-3  # the defaults of LassoCV of scikit-learn
INDEPENDENT = 1e-10  # least share of a feature's variance that the features in use must leave unexplained
LANES = 4  # numbers in one vector instruction; rows of a path are padded to a multiple of it
EVENTS = 64  # most times per feature that a feature comes or goes on a path; two are usual
BLOCK = 384  # columns on each side of one product of matrices: large enough to be fast, and 6 MB in 5 folds
SPARSE = 8  # a block is multiplied pair by pair if fewer than one in SPARSE of its pairs are asked for


class LassoFit(NamedTuple):
    """Coefficients for each target, and the strength that was chosen for it."""

    coefficients: Float[np.ndarray, "T D"]
    strength: Float[np.ndarray, " T"]


class ModelColumns(NamedTuple):
    """The columns of M models side by side, and the sums over each model's own columns that lassos need."""

    values: Float[np.ndarray, "N C"]  # centred, each column contiguous in memory
    span: Int[np.ndarray, " M+1"]  # model m has columns span[m] to span[m + 1]
    rows: Int[np.ndarray, " F"]  # rows in each fold; folds are contiguous
    total: Float[np.ndarray, "F C"]
    spread: Float[np.ndarray, "F C"]  # mean squared distance of a fold's rows from the mean of the others
    within: FoldMoments  # of each model alone, (M, ., W, L); W is the widest model, L is W padded to whole lanes

    @staticmethod
    def of(
        models: Sequence[Float[np.ndarray, "N _"]],
        folds: int = FOLDS,
        *,
        order: Int[np.ndarray, " n"] | None = None,
        scaled: bool = False,
    ) -> ModelColumns:
        """Sums of these models over folds. One fold cannot choose a strength: `regressions` then needs `fixed`.

        `order` selects and orders rows. `scaled` columns have variance 1, or 0 where nothing varies.
        """
        count, widths = len(models[0]) if order is None else len(order), [model.shape[1] for model in models]
        rows = np.array([count // folds + (fold < count % folds) for fold in range(folds)])
        if rows[-1] < 2:
            raise RequestError(f"a lasso with {folds} folds needs at least {2 * folds} rows, got {count}")
        span, starts = np.concatenate([[0], np.cumsum(widths)]), np.cumsum(rows) - rows
        lanes = -(-max(widths) // LANES) * LANES
        values, total = np.empty((span[-1], count)), np.empty((folds, span[-1]))
        covariance = np.zeros((len(models), _held_out_folds(rows) + 1, max(widths), lanes))
        held_out = np.zeros((len(models), _held_out_folds(rows), max(widths), lanes))
        spread = np.empty((_held_out_folds(rows), span[-1]))
        for m, (model, width) in enumerate(zip(models, widths, strict=True)):
            own_columns = slice(span[m], span[m + 1])
            x = values[own_columns]  # one model after another, as each fits into a cache
            x[...] = (model if order is None else model.take(order, axis=0)).T
            if scaled:
                _standardise(x)
            else:
                x -= x.mean(axis=1, keepdims=True)
            total[:, own_columns] = np.add.reduceat(x, starts, axis=1).T
            products = np.array([fold_values @ fold_values.T for fold_values in np.split(x, starts[1:], axis=1)])
            covariance[m, :, :width, :width], held_out[m, :, :width, :width] = FoldMoments.of(
                products, rows, total[:, own_columns], total[:, own_columns]
            )
            spread[:, own_columns] = np.diagonal(held_out[m, :, :width, :width], 0, 1, 2)
        return ModelColumns(values.T, span, rows, total, spread, FoldMoments(covariance, held_out))

    def products(self, left: Sequence[int], right: Sequence[int]) -> Float[np.ndarray, "F A B"]:
        """For each fold, the columns of the `left` models times the columns of the `right` models; both are ranges."""
        first, second = (slice(self.span[side[0]], self.span[side[-1] + 1]) for side in (left, right))
        products = np.empty((len(self.rows), first.stop - first.start, second.stop - second.start))
        for n, end, out in zip(self.rows, np.cumsum(self.rows), products, strict=True):
            fold_values = self.values[end - n : end]
            np.matmul(fold_values[:, first].T, fold_values[:, second], out=out)
        return products


class FoldMoments(NamedTuple):
    """Second moments of columns a and b for each fold, about their means over the fold's training rows."""

    covariance: Float[np.ndarray, "*M F+1 A B"]  # over the training rows of each fold; last, over all rows
    held_out: Float[np.ndarray, "*M F A B"]  # means of products over the rows of each fold

    @staticmethod
    def of(
        products: Float[np.ndarray, "F A B"],
        rows: Int[np.ndarray, " F"],
        a: Float[np.ndarray, "F A"],
        b: Float[np.ndarray, "F B"],
    ) -> FoldMoments:
        """Moments from the sums of products and of columns over each fold. Columns must sum to 0 over all rows."""
        F = _held_out_folds(rows)
        inside = rows[:F, None, None]
        outside = rows.sum() - inside
        all_rows = products.sum(axis=0, keepdims=True)
        totals = a[:F, :, None] * b[:F, None, :]  # −a / outside and −b / outside are the means of the rows trained on
        covariance = (all_rows - products[:F] - totals / outside) / outside
        held_out = products[:F] / inside + totals * (2 / (outside * inside) + 1 / outside**2)
        return FoldMoments(np.concatenate([covariance, all_rows / rows.sum()]), held_out)


def _standardise(x: Float[np.ndarray, "D N"]) -> None:
    """Gives each row mean 0 and variance 1 in place; a row that does not vary becomes 0."""
    low, high = x.min(axis=1, keepdims=True), x.max(axis=1, keepdims=True)
    largest = np.maximum(high, -low)
    if ((largest > 1e100) | ((largest > 0) & (largest < 1e-100))).any():
        x /= np.where(largest > 0, largest, 1.0)  # so that squares of the largest numbers fit
    x -= x.mean(axis=1, keepdims=True)
    x[(low == high)[:, 0]] = 0.0
    spread = np.sqrt(np.vecdot(x, x) / x.shape[1])[:, None]
    x /= np.where(spread > 0, spread, 1.0)


def _held_out_folds(rows: Int[np.ndarray, " F"]) -> int:
    """The number of folds that are held out. A single fold is not: no rows would be left to train on."""
    return len(rows) if len(rows) > 1 else 0


def lasso_cv(
    x: Float[np.ndarray, "N D"],
    y: Float[np.ndarray, "N T"],
    *,
    folds: int = FOLDS,
    strengths: int = STRENGTHS,
    smallest: float = SMALLEST,
) -> LassoFit:
    """The lasso (Tibshirani 1996) for each column of y, at the strength that predicts held-out rows best.

        min over w and c of  ‖y − Xw − c‖² / 2N + strength · ‖w‖₁

    The strengths fall geometrically from the least at which w = 0 to `smallest` times that. The strength with the
    least mean squared error over the folds is chosen; among equals, the strongest. Folds are contiguous rows. This is
    LassoCV of scikit-learn, solved exactly.
    """
    x, y = _checked(x, y)
    grid = np.geomspace(1.0, smallest, strengths)
    coefficients, chosen = regressions(ModelColumns.of([x, y], folds), np.array([[1, 0]]), grid)
    return LassoFit(coefficients[0, : y.shape[1], : x.shape[1]], chosen[0, : y.shape[1]])


def lasso(x: Float[np.ndarray, "N D"], y: Float[np.ndarray, "N T"], strength: float) -> Float[np.ndarray, "T D"]:
    """The coefficients of the lasso for each column of y, at one strength."""
    x, y = _checked(x, y)
    coefficients, _ = regressions(ModelColumns.of([x, y], 1), np.array([[1, 0]]), fixed=strength)
    return coefficients[0, : y.shape[1], : x.shape[1]]


def regressions(
    columns: ModelColumns,
    pairs: Int[np.ndarray, "P 2"],
    grid: Float[np.ndarray, " A"] | None = None,
    *,
    fixed: float = 0.0,
    slack: float = 0.0,
) -> tuple[Float[np.ndarray, "P W W"], Float[np.ndarray, "P W"]]:
    """For each pair (m, n), lassos that predict each column of model m from all of model n, and their strengths.

    Row t of a pair's matrix holds the coefficients for column t of model m, padded with 0. Strengths are chosen from a
    falling `grid`, in units of the least strength at which all coefficients are 0. If `fixed` is above 0, all strengths
    are `fixed`. Coefficients stay 0 if the loss at 0 is within `slack` of the minimum, relative to the target's sum of
    squares. An iterative solver with this tolerance would stop there too.
    """
    grid = np.geomspace(1.0, SMALLEST, STRENGTHS) if grid is None else np.asarray(grid, np.float64)
    widest = columns.within.held_out.shape[2]
    coefficients, chosen = np.zeros((len(pairs), widest, widest)), np.zeros((len(pairs), widest))
    regress, quads = _compiled(), (0,) * (columns.within.held_out.shape[3] // LANES)
    for left, right, pair_numbers in blocks(columns.span, pairs):
        products = columns.products(left, right)
        forward = np.isin(pairs[pair_numbers, 0], left)
        start = (columns.span[left[0]], columns.span[right[0]])
        for directed, backward in ((pair_numbers[forward], False), (pair_numbers[~forward], True)):
            if len(directed):
                oriented = np.ascontiguousarray(products.transpose(0, 2, 1)) if backward else products
                first = start[::-1] if backward else start
                fits = regress(pairs[directed], columns, oriented, first, grid, float(fixed), float(slack), quads)
                coefficients[directed], chosen[directed] = fits
    return coefficients, chosen


def blocks(
    span: Int[np.ndarray, " M+1"], pairs: Int[np.ndarray, "P 2"]
) -> Iterator[tuple[Sequence[int], Sequence[int], Int[np.ndarray, " p"]]]:
    """Groups of pairs as (models, other models, numbers of pairs). One matrix product serves both directions of a pair.

    A pair (m, n) has m among the models and n among the other models, or the reverse. Where both are true, callers take
    the first.
    """
    block = span[:-1] // BLOCK
    low, high = np.sort(block[pairs], axis=1).T
    order = np.lexsort((high, low))
    edges = np.flatnonzero(np.diff(low[order]) | np.diff(high[order])) + 1
    for pair_numbers in np.split(order, edges) if len(order) else []:
        corner = low[pair_numbers[0]], high[pair_numbers[0]]
        left, right = (range(*np.searchsorted(block, [index, index + 1])) for index in corner)
        if len(pair_numbers) * SPARSE < len(left) * len(right):
            for pair in pair_numbers:
                first, second = pairs[pair]
                yield range(first, first + 1), range(second, second + 1), np.array([pair])
        else:
            yield left, right, pair_numbers


def _checked(x: np.ndarray, y: np.ndarray) -> tuple[Float[np.ndarray, "N D"], Float[np.ndarray, "N T"]]:
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if x.ndim != 2 or y.ndim != 2 or len(x) != len(y):
        raise RequestError(f"a lasso needs (N, D) features and (N, T) targets, got shapes {x.shape} and {y.shape}")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise RequestError("a lasso needs finite numbers: some are infinite or not a number")
    return x, y


def _compiled() -> Callable[..., Any]:
    """`_fit_pairs` as machine code."""
    callees = (_measure, _largest, _start, _next, _first_of_largest, _turn, _choose, _list, _parabola, _solve)
    return compiled(_fit_pairs, *callees, fastmath=frozenset({"contract", "reassoc", "nsz"}), inlining="forced")


# The state of a path is one array, with a lane for each feature. Let c = b − Gw be the covariances of the features with
# the residual. Features in use have c = ± strength, features at rest have w = 0: one of w and c is fixed for each
# feature, and the other is flat + strength · slope. The last rows are a table: row j says how all free values depend on
# the fixed value of feature j. Bringing a feature into use, or back to rest, exchanges its w and c in these equations,
# which is the same step both ways. Padding lanes stay at 0. The other rows are
#   FLOOR  a feature comes into use only if the features in use leave more than this of its variance unexplained,
#   AT     the strength at which it comes or goes,
#   SIGN   the sign of c for a feature in use, else 0,
#   ALONG  how w moves with the strength,
#   ROW    a copy of the row of the table that is exchanged.
FLOOR, AT, SIGN, ALONG, ROW, FLAT, SLOPE, TABLE = range(8)


def _fit_pairs(
    pairs: np.ndarray,
    columns: ModelColumns,
    products: np.ndarray,
    start: tuple[int, int],
    grid: np.ndarray,
    fixed: float,
    slack: float,
    quads: tuple[int, ...],
) -> tuple[np.ndarray, np.ndarray]:
    """All lassos of some pairs. `products` are products of their columns, and begin at the columns `start`.

    `quads` has an element for every LANES lanes: the compiler knows the length of a tuple and unrolls loops over lanes.
    """
    span, within = columns.span, columns.within
    folds, widest, lanes = within.held_out.shape[1], within.held_out.shape[2], LANES * len(quads)
    path = np.zeros((TABLE + widest, lanes))
    covariance, held_out = np.zeros((folds + 1, lanes)), np.zeros((folds, lanes))
    coefficients, chosen = np.zeros((len(pairs), widest, widest)), np.zeros((len(pairs), widest))
    errors, strengths, used = np.empty(len(grid)), np.empty(len(grid)), np.empty(widest, np.uint64)
    for pair in range(len(pairs)):
        m, n = pairs[pair, 0], pairs[pair, 1]
        D, gram = span[n + 1] - span[n], within.covariance[n]
        for t in range(span[m + 1] - span[m]):
            _measure(columns, products, start, span[m] + t, span[n], D, covariance, held_out)
            strength, largest = fixed, _largest(covariance, folds)
            if fixed == 0:
                for s in range(len(grid)):
                    strengths[s] = largest * grid[s]
                spread = columns.spread[:, span[m] + t]
                strength = _choose(
                    path, lanes, D, gram, covariance, within.held_out[n], held_out, spread, strengths, errors, used
                )
            chosen[pair, t] = strength
            if (1 - strength / largest) ** 2 > 2 * slack:  # the left side is twice the gap in the loss
                _solve(path, lanes, D, gram, covariance, folds, strength, coefficients[pair, t])
    return coefficients, chosen


def _measure(
    columns: ModelColumns,
    products: np.ndarray,
    start: tuple[int, int],
    y: int,
    x: int,
    D: int,
    covariance: np.ndarray,
    held_out: np.ndarray,
) -> None:
    """Fills in the moments of column y with the D columns from x on, as in `FoldMoments.of`; other lanes are 0."""
    rows, total, folds = columns.rows, columns.total, len(held_out)
    count = rows.sum()
    for k in range(covariance.shape[1]):
        covariance[folds, k] = 0.0
    for fold in range(len(rows)):
        for k in range(D):
            covariance[folds, k] += products[fold, y - start[0], x - start[1] + k]
    for fold in range(folds):
        inside, outside = float(rows[fold]), float(count - rows[fold])
        shift = 2 / (outside * inside) + 1 / outside**2
        for k in range(D):
            product, totals = products[fold, y - start[0], x - start[1] + k], total[fold, y] * total[fold, x + k]
            covariance[fold, k] = (covariance[folds, k] - product - totals / outside) / outside
            held_out[fold, k] = product / inside + totals * shift
        for k in range(D, covariance.shape[1]):
            covariance[fold, k] = 0.0
    for k in range(D):
        covariance[folds, k] /= count


def _largest(covariance: np.ndarray, fold: int) -> float:
    """The least strength at which all features are at rest."""
    largest = 0.0
    for k in range(covariance.shape[1]):
        largest = max(largest, abs(covariance[fold, k]))
    return largest


def _start(path: np.ndarray, lanes: int, D: int, gram: np.ndarray, covariance: np.ndarray, fold: int) -> None:
    """All features at rest."""
    for j in range(D):
        for i in range(lanes):
            path[TABLE + j, i] = -gram[fold, j, i]
    for i in range(lanes):
        path[SIGN, i], path[FLAT, i], path[SLOPE, i] = 0.0, covariance[fold, i], 0.0
    for k in range(D):
        path[FLOOR, k] = INDEPENDENT * gram[fold, k, k]


def _next(path: np.ndarray, lanes: int, D: int, upper: float) -> tuple[float, int]:
    """The next strength below `upper` at which a feature comes or goes, and that feature; 0 and −1 if none does."""
    for k in range(lanes):
        flat, slope, sign = path[FLAT, k], path[SLOPE, k], path[SIGN, k]
        # In use, w may be on its way to 0. At rest, |c| is below the strength, which may fall faster.
        side = math.copysign(1.0, flat) if sign == 0 else -sign
        closing = (1.0 if sign == 0 else 0.0) - side * slope
        path[AT, k] = side * flat / (closing if closing > 0 else np.inf)
    while True:
        feature, best = _first_of_largest(path, lanes)
        if best == 0:
            return 0.0, -1
        if path[SIGN, feature] != 0 or -path[TABLE + feature, feature] > path[FLOOR, feature]:
            return min(best, upper), feature
        path[AT, feature] = 0.0  # a function of the features in use tells nothing new


def _first_of_largest(path: np.ndarray, lanes: int) -> tuple[int, float]:
    """The first lane with the largest AT, and that AT, or 0 if it is negative.

    Four maxima grow side by side, and the largest of them is returned. The code is written out so that no maximum waits
    for another, and without branches.
    """
    a, b, c, d = path[AT, 0], path[AT, 1], path[AT, 2], path[AT, 3]
    of_a, of_b, of_c, of_d = 0, 1, 2, 3
    for k in range(LANES, lanes, LANES):
        e, f, g, h = path[AT, k], path[AT, k + 1], path[AT, k + 2], path[AT, k + 3]
        of_a, of_b = (k if e > a else of_a), (k + 1 if f > b else of_b)
        of_c, of_d = (k + 2 if g > c else of_c), (k + 3 if h > d else of_d)
        a, b, c, d = max(a, e), max(b, f), max(c, g), max(d, h)
    of_a = of_b if b > a or (b == a and of_b < of_a) else of_a
    of_c = of_d if d > c or (d == c and of_d < of_c) else of_c
    a, c = max(a, b), max(c, d)
    return (of_c if c > a or (c == a and of_c < of_a) else of_a), max(a, c, 0.0)


def _turn(path: np.ndarray, lanes: int, D: int, k: int) -> None:
    """Brings feature k into use, or to rest, by exchanging w and the distance of c from ± strength."""
    before = path[SIGN, k]
    after = math.copysign(1.0, path[FLAT, k]) if before == 0 else 0.0
    pivot = 1 / path[TABLE + k, k]
    flat, slope = path[FLAT, k] * pivot, (path[SLOPE, k] - after) * pivot
    for i in range(lanes):
        path[ROW, i] = path[TABLE + k, i]
    for i in range(lanes):
        path[FLAT, i] -= flat * path[ROW, i]
    for i in range(lanes):
        path[SLOPE, i] -= slope * path[ROW, i]
    # The next loops read these rows. They are written before the table: a processor waits before it reads a row if it
    # has just written one number of it.
    path[FLAT, k], path[SLOPE, k], path[SIGN, k] = -flat, before - slope, after
    for j in range(TABLE, TABLE + D):
        factor = path[j, k] * pivot
        for i in range(lanes):
            path[j, i] -= factor * path[ROW, i]
        path[j, k] = -factor
    for i in range(lanes):
        path[TABLE + k, i] = path[ROW, i] * pivot
    path[TABLE + k, k] = pivot


def _choose(
    path: np.ndarray,
    lanes: int,
    D: int,
    gram: np.ndarray,
    covariance: np.ndarray,
    test: np.ndarray,
    held_out: np.ndarray,
    spread: np.ndarray,
    strengths: np.ndarray,
    errors: np.ndarray,
    used: np.ndarray,
) -> float:
    """The strength with the least mean squared error on held-out rows; strengths fall."""
    last = len(strengths)
    for s in range(last):
        errors[s] = 0.0
    for fold in range(len(spread)):
        _start(path, lanes, D, gram, covariance, fold)
        in_use, done, upper, error = 0, 0, max(strengths[0], _largest(covariance, fold)), spread[fold]
        for _ in range(EVENTS * D):
            lower, feature = _next(path, lanes, D, upper)
            slope, bend = _parabola(path, lanes, used[:in_use], test, held_out, fold, upper)
            while done < last and strengths[done] >= lower:
                step = strengths[done] - upper
                errors[done] += error + step * (slope + step * bend)
                done += 1
            if done == last:
                break
            step = lower - upper
            error += step * (slope + step * bend)
            in_use = _list(used, in_use, feature, path[SIGN, feature] == 0)
            _turn(path, lanes, D, feature)
            upper = lower
    return strengths[np.argmin(errors)]


def _list(used: np.ndarray, count: int, feature: int, comes: bool) -> int:
    """Adds or removes a feature in the first `count` places of `used`, the features in use; returns the new count."""
    if comes:
        used[count] = feature
        return count + 1
    place = 0
    while used[place] != feature:
        place += 1
    used[place] = used[count - 1]
    return count - 1


def _parabola(
    path: np.ndarray, lanes: int, used: np.ndarray, test: np.ndarray, held_out: np.ndarray, fold: int, upper: float
) -> tuple[float, float]:
    """How the squared error on held-out rows changes with the strength below `upper`: slope · step + bend · step²."""
    for k in range(lanes):
        path[ALONG, k] = path[SLOPE, k] * path[SIGN, k] ** 2
    slope, bend = 0.0, 0.0
    for j in used:
        along, w, bent = path[SLOPE, j], path[FLAT, j] + upper * path[SLOPE, j], 0.0
        for i in range(lanes):
            bent += test[fold, j, i] * path[ALONG, i]
        slope += w * bent - held_out[fold, j] * along
        bend += along * bent
    return 2 * slope, bend


def _solve(
    path: np.ndarray,
    lanes: int,
    D: int,
    gram: np.ndarray,
    covariance: np.ndarray,
    fold: int,
    strength: float,
    out: np.ndarray,
) -> None:
    """Fills in the coefficients at one strength."""
    upper = np.inf
    _start(path, lanes, D, gram, covariance, fold)
    for _ in range(EVENTS * D):
        lower, feature = _next(path, lanes, D, upper)
        if feature < 0 or lower <= strength:
            break
        _turn(path, lanes, D, feature)
        upper = lower
    for k in range(D):
        if path[SIGN, k] != 0:
            out[k] = path[FLAT, k] + strength * path[SLOPE, k]
