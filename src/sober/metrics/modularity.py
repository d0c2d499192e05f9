"""Modularity (Ridgeway & Mozer 2018): does each latent know about one factor only?

    modularity = mean over latents of 1 - (sum of the squares of its other entries) / (largest² · (K - 1))

Entries are the latent's mutual information with each factor; the latent is cut into 20 bins. `study` averages over all
latents and counts a dead latent as 0 (Locatello et al. 2020). `active` averages over the latents that know more about
some factor than chance explains. Uninformative latents move the score. The corrected score uses `active` and subtracts
the information of shuffled rows.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool

from sober.errors import NotMeasuredError
from sober.estimators.discrete import BINS
from sober.metrics.common.aggregation import alive, modularity_rows
from sober.metrics.common.factor_classes import discretised, has_continuous
from sober.metrics.common.information import (
    Information,
    above_chance,
    corrected,
    counted_information,
    information_and_counts,
)
from sober.metrics.common.metric_rows import TRAIN, own_rows, sample
from sober.metrics.metric import Meaning, Measured, Metric, Traits
from sober.shared import Shared
from sober.types import Codes


def measure(codes: Codes, shared: Shared, *, seed: int, samples: int, bins: int, active: bool) -> Measured:
    matrix = counted_information(codes, shared, samples, bins, seed).matrix
    rows = modularity_rows(matrix)
    counted = np.full(len(matrix), True)
    if active:
        drawn = [
            shared(sample, subset, samples, seed) for _, subset in shared(own_rows, shared(discretised, codes, bins))
        ]
        counted = np.any([informative(subset, bins, shared) for subset in drawn], axis=0)
    flags = ["collapsed"] * (not alive(matrix).any() or not counted.any()) + ["one_factor"] * (matrix.shape[1] == 1)
    flags += ["binned_factor"] * has_continuous(codes)
    value = float(rows[counted].mean()) if counted.any() else 0.0
    parts = {"mutual_information": matrix, "modularity_per_latent": rows, "counted": counted}
    measured = Measured({"modularity": value}, tuple(flags), parts)
    return corrected(measured, of_knowing, codes, shared, samples, bins, seed)


def of_knowing(estimate: Information, knowing: Bool[np.ndarray, " D"]) -> dict[str, float]:
    """The score of the informative latents."""
    return {"modularity": float(modularity_rows(estimate.matrix[knowing]).mean()) if knowing.any() else 0.0}


def informative(codes: Codes, bins: int, shared: Shared) -> Bool[np.ndarray, " D"]:
    """Latents whose information about some factor exceeds what independent latents show in as few rows."""
    if codes.unit > 1:
        raise NotMeasuredError("it asks how many bins a latent has rows in, and a vector unit is not cut into bins")
    estimate, counts = shared(information_and_counts, codes, bins)
    return np.logical_or.reduce(above_chance(codes, estimate.matrix, np.count_nonzero(counts, axis=1)), axis=1)


modularity = Metric(
    name="modularity",
    summary="does each latent know about one factor only?",
    short="does each latent know one factor only?",
    reference="Ridgeway & Mozer (2018) Learning Deep Disentangled Embeddings With the F-Statistic Loss",
    scores={
        "modularity": Meaning(
            "1 - how much latents know about factors other than their main one",
            # Information by chance has a largest entry too; and the mean over latents counts dead latents.
            title="modularity",
            traits=Traits(noise=None, changed_by=("dead latent",), lowered_by=("noise latents", "merged factors")),
        )
    },
    measure=measure,
    settings={"samples": TRAIN, "bins": BINS, "active": False},
    presets={"active": {"active": True}},
    seconds=0.02,
    exact=True,
    takes=frozenset({"holes", "groups", "weights", "units", "sparse"}),
)
