"""Models that one compiled program serves side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sober.device import evenly
from sober.methods import hyper_of, structure
from sober.models.model import Model


def alike(models: Sequence[Model], at_once: int) -> list[list[int]]:
    """Places of models with the same nets and the same likelihood of pixels, in groups of at most so many."""
    kinds: dict[Any, list[int]] = {}
    for place, model in enumerate(models):
        kind = structure(model.run), model.run.precision, hyper_of(model.run).get("likelihood")
        kinds.setdefault(kind, []).append(place)
    return [group for places in kinds.values() for group in evenly(places, at_once)]
