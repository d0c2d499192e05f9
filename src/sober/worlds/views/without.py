"""without, only: a region of the factors held out, and that region by itself."""

from __future__ import annotations

import functools

import numpy as np

from sober.worlds.views.base import View
from sober.worlds.views.conditions import holds
from sober.worlds.world import World


class Only(View):
    """The pictures for which a condition on their factors holds."""

    def __init__(self, base: World, condition: str) -> None:
        super().__init__(base, f"only {condition}", np.flatnonzero(holds(base, condition)))


class Without(View):
    """All pictures but those for which a condition on their factors holds; `held_out` are the others."""

    def __init__(self, base: World, condition: str) -> None:
        held = holds(base, condition)
        super().__init__(base, f"without {condition}", np.flatnonzero(~held))
        self.condition = condition
        self.flags = tuple(sorted({*base.flags, "held_out"})) if held.any() else base.flags

    @functools.cached_property
    def held_out(self) -> Only:
        """The pictures that were left out: what a model has never seen."""
        return Only(self.base, self.condition)
