"""Rounded factors: the factors of a world that questions use, with few values each, far apart.

Nobody tells the 32 places of a sprite apart at a glance. Value v of a rounded factor is class
floor(v · size / rounded size) of the true factor (van Steenkiste et al. 2019).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int

from sober.tasks.matrices import LEAST
from sober.types import Factor

if TYPE_CHECKING:  # needs JAX
    from sober.worlds import World

MOST = 2**17  # combinations: each is a picture that every model encodes
NAMED = 10  # values of a categorical or cyclic factor, at most
ALL = 5  # an ordered factor of up to this many values keeps them all
ORDERED = 4  # one of more values keeps half of them, at most this many


def rounded_sizes(world: World) -> tuple[int, ...]:
    """How many values of each factor questions use; 1 if they do not use the factor.

    A world can set this number (`question_values`); otherwise it is `usual_size`. If there are too many combinations,
    the largest factors lose values.
    """
    sizes = [world.question_values.get(factor.name, usual_size(factor)) for factor in world.factors]
    while math.prod(sizes) > MOST and max(sizes) > LEAST:
        sizes[int(np.argmax(sizes))] -= 1
    return tuple(sizes)


def usual_size(factor: Factor) -> int:
    """The number if the world sets none. This gives the study's sizes: (5, 6, 3, 3, 4, 4) and (10, 10, 10, 4, 4, 4)."""
    if factor.kind == "continuous":
        return 1
    if factor.kind == "categorical":
        return min(factor.size, NAMED)
    if factor.size <= (NAMED if factor.kind == "cyclic" else ALL):
        return factor.size
    return min(factor.size // 2, ORDERED)


def true_classes(size: int, rounded: int) -> Int[np.ndarray, " rounded"]:
    """The class of the true factor that each rounded value stands for."""
    return np.arange(rounded) * size // rounded
