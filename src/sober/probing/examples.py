"""Pictures that show what a layer knows: which are near each other, and what changes along a factor's readout."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from sober.estimators.predictors import nearest
from sober.probing.knowledge import block
from sober.probing.readout import Scaling
from sober.types import Factor

QUERIES, NEIGHBOURS = 6, 5
STEPS = 7  # pictures along a factor
COMPARED = 5_000  # pictures that neighbours are looked for in


def neighbours(features: Float[np.ndarray, "N D"], seed: int = 0) -> Int[np.ndarray, "Q n"]:
    """Random rows, and after each the rows whose scaled features have the largest cosine with its own."""
    rows = min(len(features), COMPARED)
    scaled = Scaling.of(features[:rows])(features[:rows])
    unit = scaled / np.maximum(np.linalg.norm(scaled, axis=1, keepdims=True), 1e-12)
    queries = np.random.default_rng([seed, 41]).choice(rows, min(QUERIES, rows), replace=False)
    cosines = unit[queries] @ unit.T
    cosines[np.arange(len(queries)), queries] = np.inf  # a row is its own first neighbour
    return np.argsort(-cosines, axis=1, kind="stable")[:, : NEIGHBOURS + 1]


def along_factors(guesses: Float[np.ndarray, "T m"], all_factors: Sequence[Factor]) -> Int[np.ndarray, "K c"]:
    """For each factor, places of test rows from the lowest guess to the highest; -1 where there are no more.

    Rows of an angle stand around the circle. A factor of categories has one row for each class: the surest guess.
    """
    chosen = np.full((len(all_factors), STEPS), -1)
    for k, factor in enumerate(all_factors):
        guess = block(guesses, k, all_factors)
        if factor.kind == "categorical":
            classes = nearest(factor, guess)
            surest = [np.flatnonzero(classes == c) for c in range(factor.size)]
            rows = np.array(
                [of_class[np.argmax(guess[of_class, c])] for c, of_class in enumerate(surest) if len(of_class)]
            )
        else:
            value = np.arctan2(guess[:, 1], guess[:, 0]) % (2 * np.pi) if factor.kind == "cyclic" else guess[:, 0]
            order = np.argsort(value, kind="stable")
            rows = order[np.linspace(0, len(order) - 1, STEPS).round().astype(int)]
        chosen[k, : min(STEPS, len(rows))] = rows[:STEPS]
    return chosen
