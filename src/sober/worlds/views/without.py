"""without, only: holds a region of the factors out, or shows only that region."""

from __future__ import annotations

import functools

import numpy as np
from jaxtyping import Bool

from sober.conditions import check_condition, condition_mask
from sober.worlds.views.base import View
from sober.worlds.world import World


class Only(View):
    """The pictures for which a condition on their factors holds."""

    def __init__(self, base: World, condition: str) -> None:
        super().__init__(base, f"only {condition}", np.flatnonzero(_mask(base, condition)))


class Without(View):
    """The pictures for which a condition on their factors does not hold; `held_out` has the others."""

    def __init__(self, base: World, condition: str) -> None:
        mask = _mask(base, condition)
        super().__init__(base, f"without {condition}", np.flatnonzero(~mask))
        self.condition = condition
        self.flags = tuple(sorted({*base.flags, "held_out"})) if mask.any() else base.flags

    @functools.cached_property
    def held_out(self) -> Only:
        """The pictures that are held out, which a model trained on this view has never seen."""
        return Only(self.base, self.condition)


def _mask(base: World, condition: str) -> Bool[np.ndarray, " N"]:
    """The pictures of a world for which a condition on its factors, or the name of one of its regions, is true."""
    text = base.regions.get(condition, condition)
    check_condition(text, base.factors, base.regions)  # which needs no files
    return condition_mask(text, base.factors, base.labels(np.arange(base.size)), base.regions)
