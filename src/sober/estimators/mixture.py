"""Information between factors and latents that are distributions: one-dimensional Gaussian mixtures, integrated.

Chen et al. (2018), section 4.1 and appendix A, draw a row n from all N, and a latent z_j from q(z_j|x_n) = N(mean,
exp(logvar)). Its density, overall or given a factor's value, is a mixture of one Gaussian per row, and entropies of
mixtures have no closed form. The paper draws samples, but a mixture on a line can be integrated.

The Gaussians of one latent differ in width: a thousandth for rows it encodes, one for rows it ignores. So the line is
halved again and again, until no cell is wider than two standard deviations of the narrowest Gaussian that reaches it. A
cell holds a density as its values at the nodes of a Gauss-Legendre rule. A Gaussian adds its values to cells of its own
size, in which it is smooth. Halving a cell interpolates its values for both halves. So no wide Gaussian is evaluated in
every small cell beneath it, and no Gaussian is rounded or binned. One walk from left to right serves all factors, and
needs memory for one cell of each size.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from sober.errors import RequestError
from sober.estimators.compiled import compiled
from sober.estimators.discrete import classes, entropy
from sober.parallel import cores

NODES = 8  # nodes of the rule in a cell: errors are 1e-5 with six and 1e-6 with eight
REACH = 5.5  # standard deviations beyond which a Gaussian counts as 0: this leaves out 4e-8 of it
NARROWEST = 2.0**-30  # least standard deviation, in units of the range of the means or of the widest Gaussian
THREADS = 8  # latents at once: each needs some 60 MB for 737,280 rows


def gaussian_information(
    mean: Float[np.ndarray, "N D"], logvar: Float[np.ndarray, "N D"], labels: Int[np.ndarray, "N K"]
) -> tuple[Float[np.ndarray, "D K"], Float[np.ndarray, " D"]]:
    """I(z_j; v_k) and H(z_j) in nats, for z_j drawn from q(z_j|x) over all rows (Chen et al. 2018, eq. 6).

        I(z; v) = H(z) - H(z|v) = Σ_v ∫ q(z, v) log q(z|v) dz - ∫ q(z) log q(z) dz

    The result is deterministic, within [0, H(v_k)], and right to 1e-5 nats for these rows. It is not corrected for
    their number. It was compared with closed forms, adaptive quadrature and rules of twenty nodes, over 100,000
    mixtures of 2 to 3,000 Gaussians, with standard deviations that were equal, or from 1e-3 to 1, or from 5e-5
    to 150. No error was above 2e-6. Standard deviations below 1e-9 of the range of the means, or of the widest
    Gaussian, are raised to that.
    """
    if not len(mean) or not (np.isfinite(mean).all() and np.isfinite(logvar).all()):
        raise RequestError("information needs codes of at least one row, all of them finite")
    table, column = _table(labels)
    share = np.bincount(table.ravel()) / len(table)
    integrals = np.empty((mean.shape[1], labels.shape[1] + 1))
    scale = np.empty(mean.shape[1])
    walk = _compiled()  # compiled here, because each thread would compile it

    def integrate(latent: int) -> None:
        mixture, scale[latent] = _arranged(mean[:, latent], logvar[:, latent], table)
        integrals[latent] = walk(mixture, column, share, _cells(len(mixture.start) - 1, len(column)), _rule())

    with ThreadPoolExecutor(min(THREADS, cores())) as pool:
        list(pool.map(integrate, range(mean.shape[1])))  # a list, so that errors are raised
    information = np.minimum(integrals[:, 1:] - integrals[:, :1], entropy(table[:, 1:]))
    # Sums over all rows are precise to about 1e-10, so less information than that is rounding and counts as 0.
    return np.where(information > 1e-9, information, 0.0), scale - integrals[:, 0]


def _table(labels: Int[np.ndarray, "N K"]) -> tuple[Int[np.ndarray, "N K+1"], Int[np.ndarray, " C"]]:
    """Labels as classes whose numbers continue from column to column, and the column of each class.

    A column 0, in which all rows are of one class, stands for the latent by itself.
    """
    table = np.zeros((len(labels), labels.shape[1] + 1), np.uint32)
    column = [0]
    for k in range(labels.shape[1]):
        table[:, k + 1] = len(column) + classes(labels[:, k])
        column += [k + 1] * (int(table[:, k + 1].max()) + 1 - len(column))
    return table, np.array(column)


class Mixture(NamedTuple):
    """Gaussians on [0, 1], sorted by level and then by mean. Level l has standard deviations from 2^-l / 2 to 2^-l."""

    place: Float[np.ndarray, " N"]  # means
    width: Float[np.ndarray, " N"]  # standard deviations
    table: Int[np.ndarray, "N K+1"]  # the classes of each Gaussian's row
    start: Int[np.ndarray, " L+1"]  # the first Gaussian of each level


def _arranged(
    mean: Float[np.ndarray, " N"], logvar: Float[np.ndarray, " N"], table: Int[np.ndarray, "N K+1"]
) -> tuple[Mixture, float]:
    """One latent's mixture, shifted and scaled to [0, 1], and the logarithm of the scale."""
    place, width, scale = _scaled(mean.astype(np.float64), logvar.astype(np.float64) / 2)
    level = -np.frexp(width)[1]
    order = np.argsort(place)
    order = order[np.argsort(level[order].astype(np.int8), kind="stable")]  # bytes get a radix sort
    start = np.concatenate([[0], np.cumsum(np.bincount(level))])
    return Mixture(place[order], width[order], table[order], start), scale


def _scaled(
    mean: Float[np.ndarray, " N"], logstd: Float[np.ndarray, " N"]
) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"], float]:
    """Means and standard deviations in a unit in which all Gaussians lie in [0, 1], and the logarithm of the unit."""
    exponent = int(np.frexp(np.abs(mean).max())[1])
    mean = np.ldexp(mean, -exponent)  # exact, and keeps differences of the largest numbers finite
    mean = mean - mean.min()
    logstd = logstd - exponent * math.log(2)
    spread = float(mean.max())
    unit = max(math.log(spread) if spread else -math.inf, float(logstd.max()))
    mean = mean * math.exp(-unit) if spread else mean
    width = np.maximum(np.exp(logstd - unit), NARROWEST)
    low, high = (mean - REACH * width).min(), (mean + REACH * width).max()
    return (mean - low) / (high - low), width / (high - low), exponent * math.log(2) + unit + math.log(high - low)


class Rule(NamedTuple):
    """Gauss-Legendre on [0, 1], and matrices that map values at its nodes to values at the nodes of each half."""

    nodes: Float[np.ndarray, " Q"]
    weights: Float[np.ndarray, " Q"]
    halves: Float[np.ndarray, "2 Q Q"]


@functools.cache
def _rule() -> Rule:
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    coefficients = np.linalg.inv(np.polynomial.legendre.legvander(nodes, NODES - 1))
    halves = [coefficients.T @ np.polynomial.legendre.legvander((nodes + side) / 2, NODES - 1).T for side in (-1, 1)]
    return Rule((nodes + 1) / 2, weights / 2, np.stack(halves))


class Cells(NamedTuple):
    """A stack of cells to integrate. The halves of the last halved cell are on top, and larger cells lie beneath."""

    level: Int[np.ndarray, " L"]  # a cell of level l is 2^-l wide
    before: Int[np.ndarray, " L"]  # the number of such cells to its left
    density: Float[np.ndarray, "L C Q"]  # of each class present in the cell, at the nodes
    present_count: Int[np.ndarray, " L"]  # the number of classes present in it
    present: Int[np.ndarray, "L C"]  # these classes
    missing: Bool[np.ndarray, "L C"]  # whether a class is not present
    marked: Int[np.ndarray, " C"]  # the number of the last cell in which a class needed halving
    values: Float[np.ndarray, " Q"]  # workspace


def _cells(levels: int, count: int) -> Cells:
    """A stack with the whole line as its one cell, in which no class is present yet."""
    level, before, present_count = np.zeros((3, levels), np.int64)
    density, present = np.empty((levels, count, NODES)), np.empty((levels, count), np.int64)
    missing, marked = np.ones((levels, count), np.bool_), np.zeros(count, np.int64)
    return Cells(level, before, density, present_count, present, missing, marked, np.empty(NODES))


def _compiled() -> Callable[..., Any]:
    """`_walk` as machine code. Its callees are copied into it: calls count references to arrays, which is slow."""
    return compiled(_walk, _first, _exp, _square, _add, _mark, _halve, _integrate, inlining="in_source")


def _walk(
    mixture: Mixture, column: Int[np.ndarray, " C"], share: Float[np.ndarray, " C"], cells: Cells, rule: Rule
) -> Float[np.ndarray, " K+1"]:
    """∫ q(z, v) log q(z|v) dz, summed over the classes v of each column; `share` is the share of rows in each class."""
    integrals = np.zeros(mixture.table.shape[1])
    number, top = 0, 0
    while top >= 0:
        number += 1
        level = cells.level[top]
        size = 0.5**level
        left = cells.before[top] * size
        _add(mixture, cells, rule, top, level, left, size)
        halved = _mark(mixture, cells, top, level, left, size, number)
        halved_count = 0
        for c in cells.present[top, : cells.present_count[top]]:
            if cells.marked[c] == number:
                _halve(cells, rule, top, c)
                cells.present[top, halved_count] = cells.present[top + 1, halved_count] = c
                halved_count += 1
            else:
                integrals[column[c]] += size * _integrate(cells, rule, top, c, share[c])
        cells.present_count[top] = halved_count
        if halved:
            cells.present_count[top + 1] = halved_count
            cells.level[top] = cells.level[top + 1] = level + 1
            cells.before[top], cells.before[top + 1] = 2 * cells.before[top] + 1, 2 * cells.before[top]
            top += 1
        else:
            top -= 1
    return integrals


def _add(mixture: Mixture, cells: Cells, rule: Rule, top: int, level: int, left: float, size: float) -> None:
    """Adds the Gaussians of the cell's own level to the densities of their classes."""
    place, width, table, start = mixture
    values, nodes, missing = cells.values, rule.nodes, cells.missing[top]
    for i in range(_first(mixture, level, left), start[level + 1]):
        if place[i] - REACH * size > left + size:
            break
        if place[i] + REACH * width[i] < left or place[i] - REACH * width[i] > left + size:
            continue
        distance, step = (left - place[i]) / width[i], size / width[i]
        height = 1 / (math.sqrt(2 * math.pi) * width[i] * len(place))
        for q in range(len(nodes)):
            values[q] = height * _exp(-0.5 * (distance + step * nodes[q]) ** 2)
        for k in range(table.shape[1]):
            c = table[i, k]
            density = cells.density[top, c]
            if missing[c]:
                missing[c] = False
                cells.present[top, cells.present_count[top]] = c
                cells.present_count[top] += 1
                density[:] = 0.0
            for q in range(len(nodes)):
                density[q] += values[q]


def _first(mixture: Mixture, level: int, left: float) -> int:
    """The first Gaussian of a level that may reach beyond `left`."""
    begin, end = mixture.start[level], mixture.start[level + 1]
    return begin + np.searchsorted(mixture.place[begin:end], left - REACH * 0.5**level)


def _exp(x: float) -> float:
    """e^x for -30 < x <= 0, with relative errors up to 1e-5 and far less near 0, in steps that vectorize."""
    y = x / 64
    y = 1 + y * (1 + y * (1 / 2 + y * (1 / 6 + y * (1 / 24 + y * (1 / 120 + y * (1 / 720 + y * (1 / 5040)))))))
    return _square(_square(_square(_square(_square(_square(y))))))


def _square(y: float) -> float:
    return y * y


def _mark(mixture: Mixture, cells: Cells, top: int, level: int, left: float, size: float, number: int) -> bool:
    """Whether narrower Gaussians reach the cell. Marks the present classes of such Gaussians with the cell's number.

    Only marked classes need smaller cells. The search stops when all classes are marked, usually after a few Gaussians.
    """
    place, table, start = mixture.place, mixture.table, mixture.start
    marked, missing = cells.marked, cells.missing[top]
    unmarked, reached = cells.present_count[top], False
    for finer in range(level + 1, len(start) - 1):
        for i in range(_first(mixture, finer, left), start[finer + 1]):
            if place[i] - REACH * 0.5**finer > left + size:
                break
            reached = True
            if unmarked == 0:
                return True
            for k in range(table.shape[1]):
                c = table[i, k]
                if marked[c] != number and not missing[c]:
                    marked[c] = number
                    unmarked -= 1
    return reached


def _halve(cells: Cells, rule: Rule, top: int, c: int) -> None:
    """Interpolates a density for both halves of the cell: the right half takes its place, the left half goes on top."""
    cells.values[:] = cells.density[top, c]
    for half in range(2):
        density = cells.density[top + 1 - half, c]
        density[:] = 0.0
        for p in range(NODES):
            for q in range(NODES):
                density[q] += cells.values[p] * rule.halves[half, p, q]
    cells.missing[top + 1, c] = False


def _integrate(cells: Cells, rule: Rule, top: int, c: int, share: float) -> float:
    """The integral over the cell, in units of its size, for a class that needs no halving. Removes the class."""
    cells.missing[top, c] = True
    integral = 0.0
    for q in range(NODES):
        p = cells.density[top, c, q]
        if p > 0:  # interpolation can give a density slightly below 0
            integral += rule.weights[q] * p * math.log(p / share)
    return integral
