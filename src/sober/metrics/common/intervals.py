"""Intervals of means of a few draws, and of one further draw."""

from __future__ import annotations

import math

import numpy as np
import scipy.special
from jaxtyping import Float

MANY = 39  # from this many draws on, the lowest and the highest miss a further draw in at most 2 of 40 cases


def half_width(error: float, draws: int | None = None) -> float:
    """Half of the 95% interval of a mean with this standard error, by Student's t for the mean of a few draws.

    Without `draws` the error comes from many numbers: 1.96 standard errors. With three draws these would cover the mean
    in 78% of cases only.
    """
    if error == 0:
        return 0.0
    if draws is None:
        return 1.96 * error
    return float(scipy.special.stdtrit(draws - 1, 0.975)) * error if draws > 1 else math.inf


def next_draw(
    draws: Float[np.ndarray, " S"], lowest: float = -math.inf, highest: float = math.inf
) -> tuple[float, float]:
    """The interval that holds one further draw with a probability of 95%, within the lowest and the highest value.

        39 draws or more   from the (S + 1) / 40-th draw by size to the one as far from the other end: always right
        fewer draws        mean ± t · s · √(1 + 1/S), and at least from the lowest to the highest draw

    The middle 95% of 20 draws would hold a further draw in 87% of cases only. A single draw says nothing about others:
    both ends are that draw.
    """
    count = len(draws)
    if count >= MANY:
        low, high = np.quantile(draws, [0.025, 0.975], method="weibull")
        return float(low), float(high)
    low, high = float(np.min(draws)), float(np.max(draws))
    if low == high:
        return low, high
    middle = float(np.mean(draws))
    reach = half_width(float(np.std(draws, ddof=1)) * math.sqrt(1 + 1 / count), count)
    return min(low, max(lowest, middle - reach)), max(high, min(highest, middle + reach))
