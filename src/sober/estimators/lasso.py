"""Lasso regressions whose strength is chosen by cross-validation: many small ones, between the columns of many models.

The coefficients of a lasso are piecewise linear in its strength (Osborne et al. 2000; Efron et al. 2004). Between two
strengths at which a feature comes or goes they lie on a line, and the error on held-out rows is a parabola. So each
path is followed from line to line, exactly and without iteration. It needs nothing but sums of products: rows are
looked at once, to sum their products in each fold, and the rows to train on are all rows less those of a fold.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from sober.errors import RequestError

FOLDS, STRENGTHS, SMALLEST = 5, 100, 1e-3  # the defaults of LassoCV of scikit-learn
INDEPENDENT = 1e-10  # what a feature must have beyond the features in use, as a part of its own variance
LANES = 4  # numbers dealt with in one step, of which the rows of a path are a multiple
EVENTS = 64  # times that a feature may come or go on a path, for each feature there is; two are usual
BLOCK = 384  # columns on each side of one product of matrices: large enough to be fast, and 6 MB in 5 folds
SPARSE = 8  # where fewer than one in so many pairs of a block are wanted, these are multiplied one by one


class Fit(NamedTuple):
    """Coefficients for each target, and the strength that was chosen for it."""

    coefficients: Float[np.ndarray, "T D"]
    strength: Float[np.ndarray, " T"]


class Columns(NamedTuple):
    """The columns of M models side by side, and what folds of their rows say about each model by itself."""

    values: Float[np.ndarray, "N C"]  # less their means, each in one stretch of memory
    span: Int[np.ndarray, " M+1"]  # columns span[m] to span[m + 1] are those of model m
    rows: Int[np.ndarray, " F"]  # folds are stretches of so many rows
    total: Float[np.ndarray, "F C"]
    spread: Float[np.ndarray, "F C"]  # squared distances of a fold's rows from the mean of the others
    own: Moments  # of the columns of each model with each other, (M, ., W, L); W is the widest, L lanes hold it

    @staticmethod
    def of(
        models: Sequence[Float[np.ndarray, "N _"]],
        folds: int = FOLDS,
        *,
        order: Int[np.ndarray, " n"] | None = None,
        scaled: bool = False,
    ) -> Columns:
        """With one fold there is nothing to choose a strength by: it has to be given.

        Rows are those of `order`, where it is given; `scaled` columns have variance 1, or 0 where nothing varies.
        """
        count, widths = len(models[0]) if order is None else len(order), [model.shape[1] for model in models]
        rows = np.array([count // folds + (fold < count % folds) for fold in range(folds)])
        if rows[-1] < 2:
            raise RequestError(f"a lasso with {folds} folds needs at least {2 * folds} rows, got {count}")
        span, starts = np.concatenate([[0], np.cumsum(widths)]), np.cumsum(rows) - rows
        lanes = -(-max(widths) // LANES) * LANES
        values, total = np.empty((span[-1], count)), np.empty((folds, span[-1]))
        covariance = np.zeros((len(models), _held(rows) + 1, max(widths), lanes))
        held = np.zeros((len(models), _held(rows), max(widths), lanes))
        spread = np.empty((_held(rows), span[-1]))
        for m, (model, w) in enumerate(zip(models, widths, strict=True)):
            own = slice(span[m], span[m + 1])
            x = values[own]  # one model after another, as each fits into a cache
            x[...] = (model if order is None else model.take(order, axis=0)).T
            if scaled:
                _standardise(x)
            else:
                x -= x.mean(axis=1, keepdims=True)
            total[:, own] = np.add.reduceat(x, starts, axis=1).T
            products = np.array([part @ part.T for part in np.split(x, starts[1:], axis=1)])
            covariance[m, :, :w, :w], held[m, :, :w, :w] = Moments.of(products, rows, total[:, own], total[:, own])
            spread[:, own] = np.diagonal(held[m, :, :w, :w], 0, 1, 2)
        return Columns(values.T, span, rows, total, spread, Moments(covariance, held))

    def products(self, left: Sequence[int], right: Sequence[int]) -> Float[np.ndarray, "F A B"]:
        """Sums over the rows of each fold, of products of the columns of neighbouring models with those of others."""
        first, second = (slice(self.span[side[0]], self.span[side[-1] + 1]) for side in (left, right))
        products = np.empty((len(self.rows), first.stop - first.start, second.stop - second.start))
        for n, end, out in zip(self.rows, np.cumsum(self.rows), products, strict=True):
            part = self.values[end - n : end]
            np.matmul(part[:, first].T, part[:, second], out=out)
        return products


class Moments(NamedTuple):
    """What lassos need to know of columns a and b. Both are measured from their means over the rows trained on."""

    covariance: Float[np.ndarray, "*M F+1 A B"]  # over the rows outside each fold, and at last over all rows
    held: Float[np.ndarray, "*M F A B"]  # means of products over the rows of each fold

    @staticmethod
    def of(
        products: Float[np.ndarray, "F A B"],
        rows: Int[np.ndarray, " F"],
        a: Float[np.ndarray, "F A"],
        b: Float[np.ndarray, "F B"],
    ) -> Moments:
        """From sums over the rows of each fold, of products and of the columns, whose sums over all rows are 0."""
        F = _held(rows)
        inside = rows[:F, None, None]
        outside = rows.sum() - inside
        whole = products.sum(axis=0, keepdims=True)
        totals = a[:F, :, None] * b[:F, None, :]  # so that −a / outside and −b / outside are the means to measure from
        covariance = (whole - products[:F] - totals / outside) / outside
        held = products[:F] / inside + totals * (2 / (outside * inside) + 1 / outside**2)
        return Moments(np.concatenate([covariance, whole / rows.sum()]), held)


def _standardise(x: Float[np.ndarray, "D N"]) -> None:
    """Gives rows mean 0 and variance 1, or all zeros where nothing varies."""
    low, high = x.min(axis=1, keepdims=True), x.max(axis=1, keepdims=True)
    largest = np.maximum(high, -low)
    if ((largest > 1e100) | ((largest > 0) & (largest < 1e-100))).any():
        x /= np.where(largest > 0, largest, 1.0)  # so that squares of the largest numbers fit
    x -= x.mean(axis=1, keepdims=True)
    x[(low == high)[:, 0]] = 0.0
    spread = np.sqrt(np.vecdot(x, x) / x.shape[1])[:, None]
    x /= np.where(spread > 0, spread, 1.0)


def _held(rows: Int[np.ndarray, " F"]) -> int:
    """Folds that are held out: a single one is all there is, and leaves nothing to train on."""
    return len(rows) if len(rows) > 1 else 0


def lasso_cv(
    x: Float[np.ndarray, "N D"],
    y: Float[np.ndarray, "N T"],
    *,
    folds: int = FOLDS,
    strengths: int = STRENGTHS,
    smallest: float = SMALLEST,
) -> Fit:
    """The lasso (Tibshirani 1996) for each column of y, at the strength that predicts held-out rows best.

        min over w and c of  ‖y − Xw − c‖² / 2N + strength · ‖w‖₁

    Strengths to choose from fall geometrically from the least at which w = 0 to its `smallest` part. The one chosen has
    the least mean over folds of the mean squared error, and is the strongest of equals. Folds are stretches of rows as
    they come. All this is LassoCV of scikit-learn, solved exactly.
    """
    x, y = _checked(x, y)
    grid = np.geomspace(1.0, smallest, strengths)
    found, chosen = regressions(Columns.of([x, y], folds), np.array([[1, 0]]), grid)
    return Fit(found[0, : y.shape[1], : x.shape[1]], chosen[0, : y.shape[1]])


def lasso(x: Float[np.ndarray, "N D"], y: Float[np.ndarray, "N T"], strength: float) -> Float[np.ndarray, "T D"]:
    """The coefficients of the lasso for each column of y, at one strength."""
    x, y = _checked(x, y)
    found, _ = regressions(Columns.of([x, y], 1), np.array([[1, 0]]), fixed=strength)
    return found[0, : y.shape[1], : x.shape[1]]


def regressions(
    columns: Columns,
    pairs: Int[np.ndarray, "P 2"],
    grid: Float[np.ndarray, " A"] | None = None,
    *,
    fixed: float = 0.0,
    slack: float = 0.0,
) -> tuple[Float[np.ndarray, "P W W"], Float[np.ndarray, "P W"]]:
    """For each pair (m, n), lassos that predict each column of model m from all of model n, and their strengths.

    Row t of a pair's matrix holds the coefficients for column t of model m; what is beyond the columns there are is 0.
    Strengths are chosen from a falling `grid`, in parts of the least strength at which all coefficients are 0; or all
    are `fixed`, where that is above 0. Coefficients that are all 0 are left so if that comes within `slack` of the
    minimum, as a part of the target's sum of squares: iterations that stop at such a gap, stop there.
    """
    grid = np.geomspace(1.0, SMALLEST, STRENGTHS) if grid is None else np.asarray(grid, np.float64)
    widest = columns.own.held.shape[2]
    coefficients, chosen = np.zeros((len(pairs), widest, widest)), np.zeros((len(pairs), widest))
    regress, quads = _compiled(), (0,) * (columns.own.held.shape[3] // LANES)
    for left, right, which in blocks(columns.span, pairs):
        products = columns.products(left, right)
        forth = np.isin(pairs[which, 0], left)
        start = (columns.span[left[0]], columns.span[right[0]])
        for wanted, turned in ((which[forth], False), (which[~forth], True)):
            if len(wanted):
                seen = np.ascontiguousarray(products.transpose(0, 2, 1)) if turned else products
                first = start[::-1] if turned else start
                found = regress(pairs[wanted], columns, seen, first, grid, float(fixed), float(slack), quads)
                coefficients[wanted], chosen[wanted] = found
    return coefficients, chosen


def blocks(
    span: Int[np.ndarray, " M+1"], pairs: Int[np.ndarray, "P 2"]
) -> Iterator[tuple[Sequence[int], Sequence[int], Int[np.ndarray, " p"]]]:
    """Pairs in groups (models, other models, which pairs) such that one product of matrices serves a group both ways.

    Where both models of a pair are in the first part, and so in the second, the pair comes as (first, second).
    """
    block = span[:-1] // BLOCK
    low, high = np.sort(block[pairs], axis=1).T
    order = np.lexsort((high, low))
    edges = np.flatnonzero(np.diff(low[order]) | np.diff(high[order])) + 1
    for which in np.split(order, edges) if len(order) else []:
        left, right = (range(*np.searchsorted(block, [at, at + 1])) for at in (low[which[0]], high[which[0]]))
        if len(which) * SPARSE < len(left) * len(right):
            for one in which:
                yield range(pairs[one, 0], pairs[one, 0] + 1), range(pairs[one, 1], pairs[one, 1] + 1), np.array([one])
        else:
            yield left, right, which


def _checked(x: np.ndarray, y: np.ndarray) -> tuple[Float[np.ndarray, "N D"], Float[np.ndarray, "N T"]]:
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if x.ndim != 2 or y.ndim != 2 or len(x) != len(y):
        raise RequestError(f"a lasso needs (N, D) features and (N, T) targets, got shapes {x.shape} and {y.shape}")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise RequestError("a lasso needs finite numbers: some are infinite or not a number")
    return x, y


@functools.cache
def _compiled() -> Callable[..., Any]:
    """`_regress` as machine code, kept on disk where there is a place for it."""
    import numba  # noqa: PLC0415 -- half a second that only those pay who come here
    from numba.extending import register_jitable  # noqa: PLC0415

    options: dict[str, Any] = {"error_model": "numpy", "fastmath": {"contract", "reassoc", "nsz"}}
    for part in (
        _measure,
        _largest,
        _start,
        _next,
        _first_of_largest,
        _turn,
        _choose,
        _list,
        _parabola,
        _solve,
    ):
        register_jitable(forceinline=True, **options)(part)
    compile_ = functools.partial(numba.njit, nogil=True, **options)
    try:
        return compile_(_regress, cache=True)
    except RuntimeError:  # no folder that can be written to
        return compile_(_regress)


# Where a path is: rows of one array, with a lane for each feature. Let c = b − Gw be the covariances of the features
# with what is still to be explained. Features in use have c = ± strength, those at rest have w = 0. For each feature,
# the one of w and c that is not known is flat + strength · slope. The last rows are a table: row j says how all depend
# on the known one of feature j. To bring a feature into use, or back to rest, is to exchange its w and c in these
# equations, which is the same step both ways. Lanes that are not needed stay at 0. Of the other rows,
#   FLOOR  is what a feature must have beyond those in use, to come into use,
#   AT     the strength at which it comes or goes,
#   SIGN   that of a feature in use, else 0,
#   ALONG  how w moves with the strength,
#   ROW    the row of the table that is exchanged.
FLOOR, AT, SIGN, ALONG, ROW, FLAT, SLOPE, TABLE = range(8)


def _regress(
    pairs: np.ndarray,
    columns: Columns,
    products: np.ndarray,
    start: tuple[int, int],
    grid: np.ndarray,
    fixed: float,
    slack: float,
    quads: tuple[int, ...],
) -> tuple[np.ndarray, np.ndarray]:
    """All lassos of some pairs; `products` are of their columns, from the columns at `start` on.

    `quads` has an element for every LANES lanes. The compiler knows the length of a tuple, and so unrolls their loops.
    """
    span, own = columns.span, columns.own
    folds, widest, lanes = own.held.shape[1], own.held.shape[2], LANES * len(quads)
    path, aim, held = np.zeros((TABLE + widest, lanes)), np.zeros((folds + 1, lanes)), np.zeros((folds, lanes))
    coefficients, chosen = np.zeros((len(pairs), widest, widest)), np.zeros((len(pairs), widest))
    errors, strengths, used = np.empty(len(grid)), np.empty(len(grid)), np.empty(widest, np.uint64)
    for pair in range(len(pairs)):
        m, n = pairs[pair, 0], pairs[pair, 1]
        D, gram = span[n + 1] - span[n], own.covariance[n]
        for t in range(span[m + 1] - span[m]):
            _measure(columns, products, start, span[m] + t, span[n], D, aim, held)
            strength, largest = fixed, _largest(aim, folds)
            if fixed == 0:
                for at in range(len(grid)):
                    strengths[at] = largest * grid[at]
                spread = columns.spread[:, span[m] + t]
                strength = _choose(path, lanes, D, gram, aim, own.held[n], held, spread, strengths, errors, used)
            chosen[pair, t] = strength
            if (1 - strength / largest) ** 2 > 2 * slack:  # twice the gap, which is quadratic
                _solve(path, lanes, D, gram, aim, folds, strength, coefficients[pair, t])
    return coefficients, chosen


def _measure(
    columns: Columns,
    products: np.ndarray,
    start: tuple[int, int],
    y: int,
    x: int,
    D: int,
    aim: np.ndarray,
    held: np.ndarray,
) -> None:
    """`Moments.of` column y with the D columns from x on: `aim` is the covariance, and 0 beyond them."""
    rows, total, folds = columns.rows, columns.total, len(held)
    count = rows.sum()
    for k in range(aim.shape[1]):
        aim[folds, k] = 0.0
    for fold in range(len(rows)):
        for k in range(D):
            aim[folds, k] += products[fold, y - start[0], x - start[1] + k]
    for fold in range(folds):
        inside, outside = float(rows[fold]), float(count - rows[fold])
        shift = 2 / (outside * inside) + 1 / outside**2
        for k in range(D):
            product, totals = products[fold, y - start[0], x - start[1] + k], total[fold, y] * total[fold, x + k]
            aim[fold, k] = (aim[folds, k] - product - totals / outside) / outside
            held[fold, k] = product / inside + totals * shift
        for k in range(D, aim.shape[1]):
            aim[fold, k] = 0.0
    for k in range(D):
        aim[folds, k] /= count


def _largest(aim: np.ndarray, fold: int) -> float:
    """The least strength at which all features are at rest."""
    largest = 0.0
    for k in range(aim.shape[1]):
        largest = max(largest, abs(aim[fold, k]))
    return largest


def _start(path: np.ndarray, lanes: int, D: int, gram: np.ndarray, aim: np.ndarray, fold: int) -> None:
    """All features at rest."""
    for j in range(D):
        for i in range(lanes):
            path[TABLE + j, i] = -gram[fold, j, i]
    for i in range(lanes):
        path[SIGN, i], path[FLAT, i], path[SLOPE, i] = 0.0, aim[fold, i], 0.0
    for k in range(D):
        path[FLOOR, k] = INDEPENDENT * gram[fold, k, k]


def _next(path: np.ndarray, lanes: int, D: int, now: float) -> tuple[float, int]:
    """The strength at which a feature comes or goes next, on the way down from `now`, and which; 0 if none does."""
    for k in range(lanes):
        flat, slope, sign = path[FLAT, k], path[SLOPE, k], path[SIGN, k]
        # In use, w may be on its way to 0. At rest, |c| is below the strength, which may fall faster.
        side = math.copysign(1.0, flat) if sign == 0 else -sign
        closing = (1.0 if sign == 0 else 0.0) - side * slope
        path[AT, k] = side * flat / (closing if closing > 0 else np.inf)
    while True:
        which, best = _first_of_largest(path, lanes)
        if best == 0:
            return 0.0, -1
        if path[SIGN, which] != 0 or -path[TABLE + which, which] > path[FLOOR, which]:
            return min(best, now), which
        path[AT, which] = 0.0  # a function of the features in use adds nothing to them


def _first_of_largest(path: np.ndarray, lanes: int) -> tuple[int, float]:
    """Where AT is largest, and how large; 0 at least.

    Four contests side by side and then a final, written out so that none has to wait for another and nothing branches.
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
    """Brings feature k into use, or to rest. What is exchanged for w is the distance of c from ± strength."""
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
    # Before the table is dealt with: these rows are read next, and a processor waits to read a row of which it has just
    # written a single number.
    path[FLAT, k], path[SLOPE, k], path[SIGN, k] = -flat, before - slope, after
    for j in range(TABLE, TABLE + D):
        part = path[j, k] * pivot
        for i in range(lanes):
            path[j, i] -= part * path[ROW, i]
        path[j, k] = -part
    for i in range(lanes):
        path[TABLE + k, i] = path[ROW, i] * pivot
    path[TABLE + k, k] = pivot


def _choose(
    path: np.ndarray,
    lanes: int,
    D: int,
    gram: np.ndarray,
    aim: np.ndarray,
    test: np.ndarray,
    held: np.ndarray,
    spread: np.ndarray,
    strengths: np.ndarray,
    errors: np.ndarray,
    used: np.ndarray,
) -> float:
    """Of the strengths, which fall, that with the least mean squared error on held-out rows."""
    last = len(strengths)
    for at in range(last):
        errors[at] = 0.0
    for fold in range(len(spread)):
        _start(path, lanes, D, gram, aim, fold)
        count, done, now, error = 0, 0, max(strengths[0], _largest(aim, fold)), spread[fold]
        for _ in range(EVENTS * D):
            below, which = _next(path, lanes, D, now)
            slope, bend = _parabola(path, lanes, used[:count], test, held, fold, now)
            while done < last and strengths[done] >= below:
                step = strengths[done] - now
                errors[done] += error + step * (slope + step * bend)
                done += 1
            if done == last:
                break
            step = below - now
            error += step * (slope + step * bend)
            count = _list(used, count, which, path[SIGN, which] == 0)
            _turn(path, lanes, D, which)
            now = below
    return strengths[np.argmin(errors)]


def _list(used: np.ndarray, count: int, which: int, comes: bool) -> int:
    """Keeps the first `count` of `used` the features in use; returns how many those are."""
    if comes:
        used[count] = which
        return count + 1
    at = 0
    while used[at] != which:
        at += 1
    used[at] = used[count - 1]
    return count - 1


def _parabola(
    path: np.ndarray, lanes: int, used: np.ndarray, test: np.ndarray, held: np.ndarray, fold: int, now: float
) -> tuple[float, float]:
    """How the squared error on held-out rows goes with the strength from `now` on: slope · step + bend · step²."""
    for k in range(lanes):
        path[ALONG, k] = path[SLOPE, k] * path[SIGN, k] ** 2
    slope, bend = 0.0, 0.0
    for j in used:
        along, w, bent = path[SLOPE, j], path[FLAT, j] + now * path[SLOPE, j], 0.0
        for i in range(lanes):
            bent += test[fold, j, i] * path[ALONG, i]
        slope += w * bent - held[fold, j] * along
        bend += along * bent
    return 2 * slope, bend


def _solve(
    path: np.ndarray,
    lanes: int,
    D: int,
    gram: np.ndarray,
    aim: np.ndarray,
    fold: int,
    strength: float,
    out: np.ndarray,
) -> None:
    """Fills in the coefficients at one strength."""
    now = np.inf
    _start(path, lanes, D, gram, aim, fold)
    for _ in range(EVENTS * D):
        below, which = _next(path, lanes, D, now)
        if which < 0 or below <= strength:
            break
        _turn(path, lanes, D, which)
        now = below
    for k in range(D):
        if path[SIGN, k] != 0:
            out[k] = path[FLAT, k] + strength * path[SLOPE, k]
