"""Which pictures models are measured by: one set for all, of which criteria see the first."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sober.errors import RequestError
from sober.models.encode import Pictures, enough, index_of
from sober.results.request import Measure
from sober.worlds import World


class Known(NamedTuple):
    """What is to be known of a world without holding on to its pictures."""

    labelled: bool
    everything: int  # pictures, where all are encoded
    looked_at: int  # pictures that models are measured by


def looked_at(measure: Measure, world: World) -> Pictures:
    """The one set of pictures that the models of a world are measured by."""
    if measure.pictures is None and measure.metrics != ():
        return None
    counts = [measure.judged_by] if measure.criteria else []
    if measure.pictures is not None and (measure.metrics != () or not counts):
        counts.append(measure.pictures)
    return enough(world, max(counts), measure.seed) if counts else None


def judged_by(measure: Measure, world: World) -> Pictures:
    """Those of them that criteria look at: the first."""
    if measure.judged_by < 10:
        raise RequestError(f"models are judged by the pictures they encode: give at least 10, not {measure.judged_by}")
    pictures = enough(world, measure.judged_by, measure.seed)
    in_order = np.array_equal(world.everything(), np.arange(world.size))
    if pictures is not None and looked_at(measure, world) is None and not in_order:
        return world.everything()[: measure.judged_by]  # which is a sample itself
    return pictures


def known(measure: Measure, world: World) -> Known:
    everything, pictures = len(world.everything()), looked_at(measure, world)
    count = everything if pictures is None else len(index_of(world, pictures))
    return Known(bool(world.factors), everything, count)
