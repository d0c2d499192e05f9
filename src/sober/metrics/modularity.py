"""Modularity (Ridgeway & Mozer 2018): does each latent know about one factor only?

    modularity = mean over latents of 1 - (sum of the squares of its other entries) / (largest² · (K - 1))

over the mutual information of a latent, cut into 20 bins, with each factor. `study` averages over all latents and
counts a dead one as 0 (Locatello et al. 2020); `active` averages over those that know more about some factor than
chance gives. Latents that know nothing move the score: the corrected one is that of `active`, of information less what
shuffled rows give.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool

from sober.estimators.discrete import BINS
from sober.metrics.aggregate import alive, modularity_rows
from sober.metrics.discrete import discretised, has_continuous
from sober.metrics.matrices import (
    Information,
    above_chance,
    corrected,
    counted_information,
    information_and_counts,
)
from sober.metrics.metric import Meaning, Measured, Metric, NotMeasuredError, Traits
from sober.metrics.rows import TRAIN, own_rows, sample
from sober.shared import Shared
from sober.types import Codes


def measure(codes: Codes, shared: Shared, *, seed: int, samples: int, bins: int, active: bool) -> Measured:
    matrix = counted_information(codes, shared, samples, bins, seed).matrix
    rows = modularity_rows(matrix)
    counted = np.full(len(matrix), True)
    if active:
        drawn = [shared(sample, part, samples, seed) for _, part in shared(own_rows, shared(discretised, codes, bins))]
        counted = np.any([informative(part, bins, shared) for part in drawn], axis=0)
    flags = ["collapsed"] * (not alive(matrix).any() or not counted.any()) + ["one_factor"] * (matrix.shape[1] == 1)
    flags += ["binned_factor"] * has_continuous(codes)
    value = float(rows[counted].mean()) if counted.any() else 0.0
    parts = {"mutual_information": matrix, "modularity_per_latent": rows, "counted": counted}
    measured = Measured({"modularity": value}, tuple(flags), parts)
    return corrected(measured, of_knowing, codes, shared, samples, bins, seed)


def of_knowing(found: Information, knowing: Bool[np.ndarray, " D"]) -> dict[str, float]:
    """The score of the latents that know something."""
    return {"modularity": float(modularity_rows(found.matrix[knowing]).mean()) if knowing.any() else 0.0}


def informative(codes: Codes, bins: int, shared: Shared) -> Bool[np.ndarray, " D"]:
    """Latents whose information about some factor is more than independent ones show in so few rows."""
    if codes.unit > 1:
        raise NotMeasuredError("it asks how many bins a latent has rows in, and a vector unit is not cut into bins")
    found, counts = shared(information_and_counts, codes, bins)
    return np.logical_or.reduce(above_chance(codes, found.matrix, np.count_nonzero(counts, axis=1)), axis=1)


modularity = Metric(
    name="modularity",
    summary="does each latent know about one factor only?",
    reference="Ridgeway & Mozer (2018) Learning Deep Disentangled Embeddings With the F-Statistic Loss",
    scores={
        "modularity": Meaning(
            "1 - how much latents know about factors other than their main one",
            # What chance leaves has a largest entry too; and a mean over latents counts dead ones.
            traits=Traits(noise=None, changed_by=("dead latent",), lowered_by=("noise latents", "merged factors")),
        )
    },
    measure=measure,
    settings={"samples": TRAIN, "bins": BINS, "active": False},
    presets={"active": {"active": True}},
    seconds=0.01,
    exact=True,
    takes=frozenset({"holes", "groups", "weights", "units", "sparse"}),
)
