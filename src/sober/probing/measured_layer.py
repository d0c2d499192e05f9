"""Measures one layer: all numbers from its features, and which pictures show what it knows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, Num

from sober.errors import RequestError
from sober.estimators.scaling import as_float32
from sober.parallel import one_thread
from sober.probing.combinations import unseen_combinations
from sober.probing.examples import along_factors, neighbours
from sober.probing.knowledge import Knowledge, Number, Rows, knowledge
from sober.probing.label_free import ranks
from sober.types import Factor

LEAST = 40  # rows: ten to learn from would leave too few to test on


class MeasuredLayer(NamedTuple):
    """The numbers about a layer, and places of rows that show it."""

    knowledge: Knowledge
    numbers: tuple[Number, ...]  # all of them
    nearest: Int[np.ndarray, "Q n"]
    along: Int[np.ndarray, "K c"]  # -1 for none


def need_rows(count: int) -> None:
    """Refuses fewer rows than readouts need."""
    if count < LEAST:
        raise RequestError(f"a probe needs at least {LEAST} pictures, and was given {count}: ask for more")


def measured_layer(
    features: Float[np.ndarray, "N D"],
    factors: Num[np.ndarray, "N K"],
    all_factors: tuple[Factor, ...],
    *,
    labels: Sequence[int],
    seed: int,
) -> MeasuredLayer:
    """Measures a layer from arrays alone. All factors have several values."""
    need_rows(len(features))
    rows = Rows(as_float32(features), factors, all_factors)
    with one_thread():
        result = knowledge(rows, seed=seed, labels=labels)
        numbers = (*result.numbers, *unseen_combinations(rows, result), *ranks(rows.features))
        along = along_factors(result.guesses, all_factors)
        return MeasuredLayer(
            result, numbers, neighbours(rows.features, seed), np.where(along < 0, -1, result.test[np.maximum(along, 0)])
        )
