"""Which rows a metric sees: samples, training and test rows, and rows that share a factor's value.

Where there are no more rows than a metric would draw it sees each row once, so its result is exact and repeatable. All
metrics that draw with the same seed see the same sample. Where a factor is not known in some rows it is measured on the
others; rows of one group are drawn one after another, and never stand on both sides of a split.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from jaxtyping import Float, Int

from sober.errors import NotMeasuredError, RequestError
from sober.estimators.discrete import classes
from sober.shared import Shared
from sober.types import Codes

T = TypeVar("T")

TRAIN, TEST = 10_000, 5_000  # rows that the Sober Look study draws


@functools.lru_cache(maxsize=2)
def shuffled(rows: int, seed: int) -> Int[np.ndarray, " N"]:
    """So many rows in an order that depends on the seed alone."""
    order = np.random.default_rng(seed).permutation(rows)
    order.setflags(write=False)
    return order


def sample(codes: Codes, rows: int, seed: int) -> Codes:
    """So many rows without replacement; all of them, as they come, where there are no more."""
    if codes.mean.shape[0] <= rows:
        return codes
    return take(codes, drawn_order(codes, seed)[:rows])


def drawn_order(codes: Codes, seed: int) -> Int[np.ndarray, " N"]:
    """All rows in an order that depends on the seed; those of a group follow one another."""
    if codes.groups is None:
        return shuffled(codes.mean.shape[0], seed)
    group = classes(codes.groups)  # from 0 also where some groups have no rows here
    place = shuffled(int(group.max()) + 1, seed)
    return np.argsort(place[group], kind="stable")


def split(codes: Codes, train: int, test: int, seed: int) -> tuple[Codes, Codes]:
    """Training and test rows, without replacement. Fewer rows than both together are shared out in proportion."""
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
    """Where to cut rows in two parts, neither empty, so that the first has about so many; between two groups."""
    total = len(order)
    if codes.groups is None:
        return min(max(1, round(train)), total - 1)
    group = codes.groups[order]
    ends = np.flatnonzero(np.diff(group)) + 1
    if not len(ends):
        raise NotMeasuredError("rows to test on must be of other groups, and all that know some factor are of one")
    return int(ends[np.argmin(np.abs(ends - train))])


def sides(codes: Codes, train: int, test: int, seed: int) -> tuple[Codes, Codes]:
    """Rows to draw training points and test points from: all of them for both, or some groups for each."""
    if codes.groups is None:
        return codes, codes
    order = drawn_order(codes, seed)
    cut = _cut(codes, order, len(order) * train / (train + test))
    return take(codes, order[:cut]), take(codes, order[cut:])


def split_in_three(codes: Codes, train: int, validation: int, test: int, seed: int) -> tuple[Codes, Codes, Codes]:
    """Training, validation and test rows, without replacement. Fewer rows than all together are shared out."""
    both, check = split(codes, train + validation, test, seed)
    if not divisible(both):
        return both, both, check  # one row, or one group, is all there is to choose by
    rows = np.arange(both.mean.shape[0])
    part = _cut(both, rows, len(rows) * validation / (train + validation))
    return take(both, rows[part:]), take(both, rows[:part]), check


def divisible(codes: Codes) -> bool:
    """Whether the rows can be shared out to two parts."""
    return codes.mean.shape[0] > 1 and (codes.groups is None or np.ptp(codes.groups) > 0)


def halves(codes: Codes, rows: int, held_out: str, seed: int) -> tuple[Codes, Codes]:
    """Rows to fit and rows to measure, half of so many rows each; without a held-out half the same rows for both.

    `held_out` is `drawn` (a half drawn with the seed), `second` (the second half of the rows in their own order, for
    rows that follow one another) or `none`.
    """
    if held_out not in ("drawn", "second", "none"):
        raise RequestError(f"held_out must be 'drawn', 'second' or 'none', not {held_out!r}")
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
    """All rows, those of a group one after another, groups in the order of their first rows."""
    _, first, label = np.unique(groups, return_index=True, return_inverse=True)
    return np.argsort(first[label], kind="stable")


def take(codes: Codes, rows: Int[np.ndarray, " n"]) -> Codes:
    """The codes of some rows."""
    beside = {name: getattr(codes, name) for name in ("logvar", "known", "groups", "weights")}
    beside = {name: None if array is None else array[rows] for name, array in beside.items()}
    return dataclasses.replace(codes, mean=codes.mean[rows], factors=codes.factors[rows], **beside)


def effective_rows(codes: Codes) -> float:
    """How many rows of equal weight would say as much (Kish 1965): (Σ w)² / Σ w²."""
    if codes.weights is None:
        return codes.mean.shape[0]
    return float(codes.weights.sum() ** 2 / np.sum(codes.weights**2))


def own_rows(codes: Codes) -> tuple[tuple[Int[np.ndarray, " k"], Codes], ...]:
    """Factors that the same rows know, with those rows; all factors and the codes as they are where all are known."""
    if codes.known is None:
        return ((np.arange(len(codes.about)), codes),)
    patterns, label = np.unique(codes.known, axis=1, return_inverse=True)
    out = []
    for pattern in range(patterns.shape[1]):
        factors = np.flatnonzero(label.ravel() == pattern)
        part = take(codes, np.flatnonzero(patterns[:, pattern]))
        about = tuple(codes.about[k] for k in factors)
        out.append((factors, dataclasses.replace(part, factors=part.factors[:, factors], about=about, known=None)))
    return tuple(out)


def by_factor(codes: Codes, shared: Shared, estimate: Callable[[Codes], T]) -> T:
    """An estimate for each factor on the rows that know it, put together again.

    `estimate` gives an array whose last axis is factors, a truth, or a tuple of them; of truths, one makes it true.
    """
    parts = shared(own_rows, codes)
    if codes.known is None:
        return estimate(codes)
    return _together([estimate(part) for _, part in parts], [factors for factors, _ in parts])


def _together(found: list[Any], factors: list[Int[np.ndarray, " k"]]) -> Any:
    first = found[0]
    if isinstance(first, tuple):
        fields = [_together(list(field), factors) for field in zip(*found, strict=True)]
        return type(first)(*fields) if hasattr(first, "_fields") else tuple(fields)
    if isinstance(first, np.ndarray):
        order = np.argsort(np.concatenate(factors), kind="stable")
        return np.concatenate(found, axis=-1)[..., order]
    return any(found)


class Groups(NamedTuple):
    """Rows in groups that share a label: `order` lists them group by group."""

    order: Int[np.ndarray, " N"]
    start: Int[np.ndarray, " C"]  # of each group in `order`
    size: Int[np.ndarray, " C"]

    @staticmethod
    def of(labels: Int[np.ndarray, " N"]) -> Groups:
        """`labels` are 0 to C - 1; a label that no row has is an empty group."""
        count = np.bincount(labels)
        kind = np.uint8 if len(count) <= 2**8 else np.uint16 if len(count) <= 2**16 else np.int64
        order = np.argsort(labels.astype(kind), kind="stable")  # short integers are sorted by counting
        return Groups(order, np.concatenate([[0], np.cumsum(count)[:-1]]), count)

    def draw(self, group: Int[np.ndarray, "*n"], uniform: Float[np.ndarray, "*n"]) -> Int[np.ndarray, "*n"]:
        """A row of each given group; `uniform` numbers in [0, 1) say which."""
        return self.order[self.start[group] + (uniform * self.size[group]).astype(np.int64)]
