"""Which rows and factors a metric sees: samples, training and test rows, rows that share a factor's value.

If there are no more rows than a metric would draw, it uses each row once, so its result is exact and repeatable.
Metrics that draw with the same seed get the same sample. A factor is measured on the rows in which it is known. Rows of
one group are drawn one after another, and are never split between training and test rows.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from jaxtyping import Float, Int

from sober.errors import NotMeasuredError, RequestError
from sober.estimators.discrete import classes
from sober.estimators.scaling import in_range
from sober.shared import Shared
from sober.types import Codes

T = TypeVar("T")

TRAIN, TEST = 10_000, 5_000  # rows that the Sober Look study draws


@functools.lru_cache(maxsize=2)  # the metrics of one call draw from the same rows with the same seed
def shuffled(rows: int, seed: int) -> Int[np.ndarray, " N"]:
    """The row numbers in a random order that depends only on the seed."""
    order = np.random.default_rng(seed).permutation(rows)
    order.setflags(write=False)
    return order


def sample(codes: Codes, rows: int, seed: int) -> Codes:
    """Draws `rows` rows without replacement. If there are no more rows than that, takes all in their own order."""
    if codes.mean.shape[0] <= rows:
        return codes
    return take(codes, drawn_order(codes, seed)[:rows])


def drawn_order(codes: Codes, seed: int) -> Int[np.ndarray, " N"]:
    """All rows in an order that depends on the seed, with the rows of each group together."""
    if codes.groups is None:
        return shuffled(codes.mean.shape[0], seed)
    group = classes(codes.groups)  # numbered from 0, even if some groups have no rows here
    place = shuffled(int(group.max()) + 1, seed)
    return np.argsort(place[group], kind="stable")


def split(codes: Codes, train: int, test: int, seed: int) -> tuple[Codes, Codes]:
    """Draws training and test rows without replacement. If there are too few rows, both get a share in proportion."""
    total = codes.mean.shape[0]
    if total < 2:
        raise RequestError("codes has one row: a metric that learns from some rows and tests on others needs two")
    order = drawn_order(codes, seed)
    if total < train + test:
        cut = _cut(codes, order, total * train / (train + test))
        return take(codes, order[:cut]), take(codes, order[cut:])
    cut = _cut(codes, order, train)
    return take(codes, order[: min(cut, train)]), take(codes, order[cut : cut + test])


def _cut(codes: Codes, order: Int[np.ndarray, " N"], train: float) -> int:
    """Where to cut rows in two so that the first part has about `train` rows. Neither part is empty.

    A cut is never inside a group.
    """
    total = len(order)
    if codes.groups is None:
        return min(max(1, round(train)), total - 1)
    group = codes.groups[order]
    ends = np.flatnonzero(np.diff(group)) + 1
    if not len(ends):
        raise NotMeasuredError(
            "training and test rows must be of different groups, and all rows that know some factor are of one group"
        )
    return int(ends[np.argmin(np.abs(ends - train))])


def sides(codes: Codes, train: int, test: int, seed: int) -> tuple[Codes, Codes]:
    """Rows to draw training points from, and rows to draw test points from.

    Without groups both are all rows. With groups they are rows of different groups.
    """
    if codes.groups is None:
        return codes, codes
    order = drawn_order(codes, seed)
    cut = _cut(codes, order, len(order) * train / (train + test))
    return take(codes, order[:cut]), take(codes, order[cut:])


def split_in_three(codes: Codes, train: int, validation: int, test: int, seed: int) -> tuple[Codes, Codes, Codes]:
    """Draws training, validation and test rows without replacement. If there are too few, each gets a share."""
    fitting, check = split(codes, train + validation, test, seed)
    if not divisible(fitting):
        return fitting, fitting, check  # a single row or group cannot be split
    rows = np.arange(fitting.mean.shape[0])
    cut = _cut(fitting, rows, len(rows) * validation / (train + validation))
    return take(fitting, rows[cut:]), take(fitting, rows[:cut]), check


def divisible(codes: Codes) -> bool:
    """Whether the rows can be split into two parts."""
    return codes.mean.shape[0] > 1 and (codes.groups is None or np.ptp(codes.groups) > 0)


def halves(codes: Codes, rows: int, held_out: str, seed: int) -> tuple[Codes, Codes]:
    """Half of `rows` rows to fit and half to measure; without a held-out half, the same rows for both.

    `held_out` is `drawn` (a half drawn with the seed), `second` (the second half of the rows in their own order, for
    rows that follow one another) or `none`.
    """
    if held_out not in ("drawn", "second", "none"):
        raise RequestError(f"held_out must be 'drawn', 'second' or 'none', not {held_out!r}")
    rows = max(rows, 2)  # a half holds a row
    if held_out == "drawn":
        return split(codes, (rows + 1) // 2, rows // 2, seed)
    drawn = sample(codes, rows, seed)
    if held_out == "none":
        return drawn, drawn
    total = drawn.mean.shape[0]
    if total < 2:
        raise RequestError("codes has one row: a metric that fits some rows and measures others needs two")
    order = np.arange(total) if drawn.groups is None else by_first_row(drawn.groups)
    cut = _cut(drawn, order, total // 2)
    return take(drawn, order[:cut]), take(drawn, order[cut:])


def by_first_row(groups: Int[np.ndarray, " N"]) -> Int[np.ndarray, " N"]:
    """All rows, grouped, with groups in the order of their first rows."""
    _, first, label = np.unique(groups, return_index=True, return_inverse=True)
    return np.argsort(first[label], kind="stable")


def take(codes: Codes, rows: Int[np.ndarray, " n"]) -> Codes:
    """The codes of some rows."""
    optional = {name: getattr(codes, name) for name in ("logvar", "known", "groups", "weights")}
    optional = {name: None if array is None else array[rows] for name, array in optional.items()}
    return dataclasses.replace(codes, mean=codes.mean[rows], factors=codes.factors[rows], **optional)


def effective_rows(codes: Codes) -> float:
    """How many rows of equal weight are worth as much as these weighted rows (Kish 1965): (Σ w)² / Σ w²."""
    if codes.weights is None:
        return codes.mean.shape[0]
    weights = in_range(codes.weights)
    return float(weights.sum() ** 2 / np.sum(weights**2))


def own_rows(codes: Codes) -> tuple[tuple[Int[np.ndarray, " k"], Codes], ...]:
    """Groups factors by the rows in which they are known: pairs of factors and codes of those rows."""
    if codes.known is None:
        return ((np.arange(len(codes.about)), codes),)
    patterns, label = np.unique(codes.known, axis=1, return_inverse=True)
    out = []
    for pattern in range(patterns.shape[1]):
        factors = np.flatnonzero(label.ravel() == pattern)
        subset = take(codes, np.flatnonzero(patterns[:, pattern]))
        described = tuple(codes.about[k] for k in factors)
        out.append(
            (factors, dataclasses.replace(subset, factors=subset.factors[:, factors], about=described, known=None))
        )
    return tuple(out)


def by_factor(codes: Codes, shared: Shared, estimate: Callable[[Codes], T]) -> T:
    """Estimates each factor on the rows in which it is known, and joins the results.

    `estimate` returns an array whose last axis is factors, a bool, or a tuple of these. Bools are joined by `or`.
    """
    subsets = shared(own_rows, codes)
    if codes.known is None:
        return estimate(codes)
    return _together([estimate(subset) for _, subset in subsets], [factors for factors, _ in subsets])


def _together(estimates: list[Any], factors: list[Int[np.ndarray, " k"]]) -> Any:
    first = estimates[0]
    if isinstance(first, tuple):
        fields = [_together(list(field), factors) for field in zip(*estimates, strict=True)]
        return type(first)(*fields) if hasattr(first, "_fields") else tuple(fields)
    if isinstance(first, np.ndarray):
        order = np.argsort(np.concatenate(factors), kind="stable")
        return np.concatenate(estimates, axis=-1)[..., order]
    return any(estimates)


class Groups(NamedTuple):
    """Rows in groups that share a label: `order` lists them group by group."""

    order: Int[np.ndarray, " N"]
    start: Int[np.ndarray, " C"]  # of each group in `order`
    size: Int[np.ndarray, " C"]

    @staticmethod
    def of(labels: Int[np.ndarray, " N"]) -> Groups:
        """Groups of rows by `labels` 0 to C - 1. A label that no row has gives an empty group."""
        count = np.bincount(labels)
        kind = np.uint8 if len(count) <= 2**8 else np.uint16 if len(count) <= 2**16 else np.int64
        order = np.argsort(labels.astype(kind), kind="stable")  # short integers sort fastest
        return Groups(order, np.concatenate([[0], np.cumsum(count)[:-1]]), count)

    def draw(self, group: Int[np.ndarray, "*n"], uniform: Float[np.ndarray, "*n"]) -> Int[np.ndarray, "*n"]:
        """A row of each given group, picked by `uniform` numbers in [0, 1)."""
        return self.order[self.start[group] + (uniform * self.size[group]).astype(np.int64)]


def varying(codes: Codes) -> Codes:
    """Codes with only the factors that have more than one value in the rows where they are known."""
    keep = [k for k in range(len(codes.about)) if _varies(codes, k)]
    return codes if len(keep) == len(codes.about) else with_factors(codes, keep)


def _varies(codes: Codes, k: int) -> bool:
    column = codes.factors[:, k] if codes.known is None else codes.factors[codes.known[:, k], k]
    return bool(len(column) and np.ptp(column) > 0)


def with_factors(codes: Codes, factors: Sequence[int]) -> Codes:
    """The same rows with only some of the factors."""
    is_known = None if codes.known is None else codes.known[:, factors]
    described = tuple(codes.about[k] for k in factors)
    return dataclasses.replace(codes, factors=codes.factors[:, factors], about=described, known=is_known)


def complete(codes: Codes) -> Codes:
    """The rows in which every factor is known."""
    if codes.known is None:
        return codes
    return dataclasses.replace(take(codes, np.flatnonzero(codes.known.all(axis=1))), known=None)
