"""Scores by chance: scores of codes that are unrelated to the factors, because the factors' rows were shuffled.

The factors of a row are shuffled together, so the dependence between factors stays; the codes do not change. Rows of
one group stay together: groups are put in a random order, and then laid over the codes.

Weights may belong to the factors, as weights that balance classes do, or to the codes. If they are shuffled away from
what they belong to, shuffled rows differ from the real ones although the codes know nothing. So weighted rows are
shuffled in both ways, with the weights beside the factors and beside the codes, and the larger p counts: it is right
whichever of the two the weights belong to.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from sober.metrics.common.intervals import next_draw
from sober.short_text import as_call
from sober.types import Better, Codes

LEVEL = 0.05  # a score is above chance if fewer shuffles than this share reach it


class Chance(NamedTuple):
    """The score of shuffled rows: its mean, an interval, and how often it is as good as the score of the real rows.

    `low` and `high` hold the score of one further shuffle with a probability of 95%.
    p = (1 + number of shuffles that are as good or better) / (1 + number of shuffles)
    """

    mean: float
    low: float
    high: float
    p: float
    shuffles: int

    def __repr__(self) -> str:
        return as_call(self)

    @staticmethod
    def of(
        value: float,
        shuffled: Float[np.ndarray, " S"],
        better: Better,
        bounds: tuple[float, float] = (-math.inf, math.inf),
    ) -> Chance:
        """`value` is the score of the real rows, and `bounds` are the lowest and the highest score that there can be.

        If neither end is better, the distance from the mean of all scores counts.
        """
        goodness, real_goodness = shuffled, value
        if better == "lower":
            goodness, real_goodness = -shuffled, -value
        if better == "neither":
            middle = float(np.mean([*shuffled, value]))  # the real score counts like any other, or p would be too small
            goodness, real_goodness = np.abs(shuffled - middle), abs(value - middle)
        as_good = int(np.sum(goodness >= real_goodness))
        count = len(shuffled)
        return Chance(float(shuffled.mean()), *next_draw(shuffled, *bounds), (1 + as_good) / (1 + count), count)

    @property
    def beaten(self) -> bool:
        """Whether the real rows are better than chance; with fewer than 19 shuffles, better than every shuffle."""
        return self.p <= max(LEVEL, 1 / (1 + self.shuffles))

    @property
    def is_least(self) -> bool:
        """Whether no shuffle was as good; a smaller p needs more shuffles."""
        return self.p <= 1 / (1 + self.shuffles)

    @property
    def p_text(self) -> str:
        """The p for people; the least p of 20 shuffles is `≤ 1/21`."""
        return f"≤ 1/{1 + self.shuffles}" if self.is_least else f"{self.p:.3f}"


def weight_places(codes: Codes) -> tuple[bool, ...]:
    """For each way to shuffle these rows, whether weights move with the factors: both ways if there are weights."""
    return (False,) if codes.weights is None else (True, False)


def shuffled_factors(codes: Codes, shuffles: int, seed: int, *, weights_move: bool = False) -> Iterator[Codes]:
    """The same codes with the factors of other rows, `shuffles` times. Weights stay with the codes or move too."""
    for shuffle in range(shuffles):
        rows = shuffled_rows(codes, np.random.default_rng([seed, shuffle, 8]))
        is_known = None if codes.known is None else codes.known[rows]
        weights = codes.weights[rows] if weights_move and codes.weights is not None else codes.weights
        yield dataclasses.replace(codes, factors=codes.factors[rows], known=is_known, weights=weights)


def shuffled_rows(codes: Codes, rng: np.random.Generator) -> Int[np.ndarray, " N"]:
    """A random order of the rows that keeps the rows of a group together."""
    if codes.groups is None:
        return rng.permutation(codes.mean.shape[0])
    order = np.argsort(codes.groups, kind="stable")
    place = rng.permutation(int(codes.groups.max()) + 1)
    out = np.empty_like(order)
    out[order] = np.argsort(place[codes.groups], kind="stable")
    return out
