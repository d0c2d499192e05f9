"""What scores are by chance: of codes that have nothing to do with the factors, because the rows were shuffled.

All factors of a row move together, so what factors have to do with each other stays, and so do the codes. Rows of one
group stay together: groups are put one after another in a random order, and laid over the codes as they come.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from sober.types import Better, Codes

LEVEL = 0.05  # a score is above chance if shuffled rows reach it less often


class Chance(NamedTuple):
    """A score of shuffled rows: its mean, the middle 95% of it, and how often it is as good as that of the real rows.

    p = (1 + number of shuffles that are as good or better) / (1 + number of shuffles)
    """

    mean: float
    low: float
    high: float
    p: float
    shuffles: int

    @staticmethod
    def of(value: float, shuffled: Float[np.ndarray, " S"], better: Better) -> Chance:
        """`value` is of the real rows. A score that has no good end is as good the farther it is from the mean."""
        good, real = shuffled, value
        if better == "lower":
            good, real = -shuffled, -value
        if better == "neither":
            good, real = np.abs(shuffled - shuffled.mean()), abs(value - shuffled.mean())
        as_good = int(np.sum(good >= real))
        low, high = np.quantile(shuffled, [0.025, 0.975])
        count = len(shuffled)
        return Chance(float(shuffled.mean()), float(low), float(high), (1 + as_good) / (1 + count), count)

    @property
    def beaten(self) -> bool:
        """Whether the real rows are better than chance; with fewer than 19 shuffles, better than all of them."""
        return self.p <= max(LEVEL, 1 / (1 + self.shuffles))


def shuffled_factors(codes: Codes, shuffles: int, seed: int) -> Iterator[Codes]:
    """The same codes beside the factors of other rows, so many times."""
    for turn in range(shuffles):
        rows = shuffled_rows(codes, np.random.default_rng([seed, turn, 8]))
        known = None if codes.known is None else codes.known[rows]
        yield dataclasses.replace(codes, factors=codes.factors[rows], known=known)


def shuffled_rows(codes: Codes, rng: np.random.Generator) -> Int[np.ndarray, " N"]:
    """A random order of the rows in which those of a group follow one another, for codes in the order of groups."""
    if codes.groups is None:
        return rng.permutation(codes.mean.shape[0])
    order = np.argsort(codes.groups, kind="stable")
    place = rng.permutation(int(codes.groups.max()) + 1)
    out = np.empty_like(order)
    out[order] = np.argsort(place[codes.groups], kind="stable")
    return out
