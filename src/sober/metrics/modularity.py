"""Modularity (Ridgeway & Mozer 2018): does each latent know about one factor only?

    modularity = mean over latents of 1 - (sum of the squares of its other entries) / (largest² · (K - 1))

over the mutual information of a latent, cut into 20 bins, with each factor. `study` averages over all latents and
counts a dead one as 0 (Locatello et al. 2020); `active` averages over those that know more about some factor than
chance gives.
"""

from __future__ import annotations

import numpy as np
import scipy
from jaxtyping import Bool, Float

from sober.estimators.discrete import BINS
from sober.metrics.aggregate import alive, modularity_rows
from sober.metrics.discrete import discretised, has_continuous
from sober.metrics.matrices import counted_information, information, used_bins
from sober.metrics.metric import Meaning, Measured, Metric, Traits
from sober.metrics.rows import TRAIN, effective_rows, own_rows, sample
from sober.shared import Shared
from sober.types import Codes

CHANCE = 1e-3  # how often a latent that knows nothing is taken for one that does, for each factor


def measure(codes: Codes, shared: Shared, *, seed: int, samples: int, bins: int, active: bool) -> Measured:
    matrix = counted_information(codes, shared, samples, bins, seed).matrix
    rows = modularity_rows(matrix)
    counted = np.full(len(matrix), True)
    if active:
        parts_of_rows = [part for _, part in shared(own_rows, shared(discretised, codes, bins))]
        drawn = [shared(sample, part, samples, seed) for part in parts_of_rows]
        knowing = [informative(part, shared(information, part, bins).matrix, bins) for part in drawn]
        counted = np.any(knowing, axis=0)
    flags = ["collapsed"] * (not alive(matrix).any() or not counted.any()) + ["one_factor"] * (matrix.shape[1] == 1)
    flags += ["binned_factor"] * has_continuous(codes)
    value = float(rows[counted].mean()) if counted.any() else 0.0
    parts = {"mutual_information": matrix, "modularity_per_latent": rows, "counted": counted}
    return Measured({"modularity": value}, tuple(flags), parts)


def informative(codes: Codes, matrix: Float[np.ndarray, "D K"], bins: int) -> Bool[np.ndarray, " D"]:
    """Latents whose information about some factor is more than independent ones show in so few rows.

    Twice the number of rows times the estimated information of independent classes follows a χ² distribution with
    (bins in use - 1) · (classes - 1) degrees of freedom (the G-test). Rows with weights count as fewer (Kish 1965).
    """
    used = used_bins(codes, bins)
    classes = np.array([factor.size for factor in codes.about])
    freedom = np.maximum((used[:, None] - 1) * (classes[None, :] - 1), 1)
    return (matrix > scipy.stats.chi2.isf(CHANCE, freedom) / (2 * effective_rows(codes))).any(axis=1)


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
