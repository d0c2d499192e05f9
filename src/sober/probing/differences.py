"""Whether one encoder's readouts are better than another's, from the same test rows.

Each encoder takes part with its best layer. The first half of the test rows chooses the layer, and the second half
measures the difference, so the choice adds nothing to it. A row's difference is paired: both readouts say something of
the same picture.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from sober.probing.layer import Layer


class Difference(NamedTuple):
    """By how much the linear readout of one layer is better than that of another; a 95% interval."""

    world: str
    factor: str  # empty for the mean over factors
    encoder: str
    layer: str
    other: str
    other_layer: str
    value: float
    other_value: float
    difference: float
    low: float
    high: float

    @property
    def sure(self) -> bool:
        """Whether the interval leaves out 0."""
        return not self.low <= 0 <= self.high


def differences(layers: Sequence[Layer]) -> Iterator[Difference]:
    """Every two encoders on every world, at their best layers: the first is never a line to beat."""
    for world in dict.fromkeys(layer.world for layer in layers):
        of_world = [layer for layer in layers if layer.world == world]
        best = {name: _best([layer for layer in of_world if layer.encoder == name]) for name in _encoders(of_world)}
        for one, other in itertools.combinations(sorted(best.values(), key=lambda layer: layer.reference), 2):
            if not one.reference and np.array_equal(one.truth, other.truth):
                yield from difference(one, other)


def difference(one: Layer, other: Layer) -> Iterator[Difference]:
    """The paired difference of each factor, and that of the mean over factors, on the second half of the test rows."""
    outcomes, other_outcomes = (layer.outcomes(slice(len(layer.truth) // 2, None)) for layer in (one, other))
    for name, rows, other_rows in [
        *zip((factor.name for factor in one.about), outcomes, other_outcomes, strict=True),
        ("", outcomes.mean(axis=0), other_outcomes.mean(axis=0)),
    ]:
        gap = rows - other_rows
        error = 1.96 * float(gap.std(ddof=1)) / math.sqrt(len(gap)) if len(gap) > 1 else math.inf
        mean = float(gap.mean())
        yield Difference(
            one.world, name, one.encoder, one.name, other.encoder, other.name,
            float(rows.mean()), float(other_rows.mean()), mean, mean - error, mean + error,
        )  # fmt: skip


def _encoders(layers: Sequence[Layer]) -> list[str]:
    return list(dict.fromkeys(layer.encoder for layer in layers))


def _best(layers: Sequence[Layer]) -> Layer:
    """The layer whose readout is the best on the first half of the test rows, mean over factors."""
    return max(layers, key=lambda layer: float(layer.outcomes(slice(len(layer.truth) // 2)).mean()))
