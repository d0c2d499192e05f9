"""Conditions on the factors of a world, which may have names for some: its `regions`."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool

from sober.conditions import check_condition, true_of
from sober.worlds.world import World


def holds(base: World, condition: str) -> Bool[np.ndarray, " N"]:
    """For which pictures of a world a condition on the values of its factors, or a name for one, is true."""
    text = base.regions.get(condition, condition)
    check_condition(text, base.factors, base.regions)  # which needs no files
    return true_of(text, base.factors, base.labels(np.arange(base.size)), base.regions)
