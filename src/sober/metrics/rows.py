"""Which rows a metric sees: samples, training and test rows, and rows that share a factor's value.

Where there are no more rows than a metric would draw it sees each row once, so its result is exact and repeatable. All
metrics that draw with the same seed see the same sample.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from sober.errors import RequestError
from sober.types import Codes

TRAIN, TEST = 10_000, 5_000  # rows that the Sober Look study draws


@functools.lru_cache(maxsize=2)
def shuffled(rows: int, seed: int) -> Int[np.ndarray, " N"]:
    """So many rows in an order that depends on the seed alone."""
    order = np.random.default_rng(seed).permutation(rows)
    order.setflags(write=False)
    return order


def sample(codes: Codes, rows: int, seed: int) -> Codes:
    """So many rows without replacement; all of them, as they come, where there are no more."""
    if len(codes.mean) <= rows:
        return codes
    return take(codes, shuffled(len(codes.mean), seed)[:rows])


def split(codes: Codes, train: int, test: int, seed: int) -> tuple[Codes, Codes]:
    """Training and test rows, without replacement. Fewer rows than both together are shared out in proportion."""
    total = len(codes.mean)
    if total < 2:
        raise RequestError("codes has one row: a metric that learns from some rows and tests on others needs two")
    if total < train + test:
        train = min(max(1, round(total * train / (train + test))), total - 1)
        test = total - train
    order = shuffled(total, seed)
    return take(codes, order[:train]), take(codes, order[train : train + test])


def split_in_three(codes: Codes, train: int, validation: int, test: int, seed: int) -> tuple[Codes, Codes, Codes]:
    """Training, validation and test rows, without replacement. Fewer rows than all together are shared out."""
    both, check = split(codes, train + validation, test, seed)
    if len(both.mean) < 2:
        return both, both, check  # one row is all there is to choose by
    part = min(max(1, round(len(both.mean) * validation / (train + validation))), len(both.mean) - 1)
    rows = np.arange(len(both.mean))
    return take(both, rows[part:]), take(both, rows[:part]), check


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
    total = len(drawn.mean)
    if total < 2:
        raise RequestError("codes has one row: a metric that fits some rows and measures others needs two")
    return take(drawn, np.arange(total // 2)), take(drawn, np.arange(total // 2, total))


def take(codes: Codes, rows: Int[np.ndarray, " n"]) -> Codes:
    """The codes of some rows."""
    beside = {name: getattr(codes, name) for name in ("logvar", "known", "groups", "weights")}
    beside = {name: None if array is None else array[rows] for name, array in beside.items()}
    return dataclasses.replace(codes, mean=codes.mean[rows], factors=codes.factors[rows], **beside)


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
