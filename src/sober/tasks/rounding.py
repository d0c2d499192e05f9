"""Which factors of a world questions are about, and how many of their values they use.

Nobody tells the 32 places of a sprite apart at a glance: questions use few values of a factor, far apart. Value v of a
rounded factor is class floor(v · size / rounded size) of the true one (van Steenkiste et al. 2019).
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

MOST = 2**17  # combinations, at most: each is a picture that every model encodes
NAMED = 10  # values of a factor that has names, or goes round, at most
ALL = 5  # values of a factor in an order: of so many, questions use all
ORDERED = 4  # of more, half as many, and no more than this


def rounded_sizes(world: World) -> tuple[int, ...]:
    """How many values of each factor questions use; 1 where they are not about it.

    A world can say it of a factor (`question_values`). Else it is all of a few values, of many named ones ten, of many
    in an order or round a circle four.
    """
    sizes = [world.question_values.get(factor.name, usual_size(factor)) for factor in world.factors]
    while math.prod(sizes) > MOST and max(sizes) > LEAST:
        sizes[int(np.argmax(sizes))] -= 1
    return tuple(sizes)


def usual_size(factor: Factor) -> int:
    """Where the world does not say. These give the sizes of the study: (5, 6, 3, 3, 4, 4) and (10, 10, 10, 4, 4, 4)."""
    if factor.kind == "continuous":
        return 1
    if factor.kind == "categorical":
        return min(factor.size, NAMED)
    if factor.size <= (NAMED if factor.kind == "cyclic" else ALL):
        return factor.size
    return min(factor.size // 2, ORDERED)


def true_classes(size: int, rounded: int) -> Int[np.ndarray, " rounded"]:
    """The class that each value of a rounded factor stands for."""
    return np.arange(rounded) * size // rounded
