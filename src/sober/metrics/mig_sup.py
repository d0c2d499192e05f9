"""MIG-sup (Li et al. 2020): does each latent know only one factor?

    MIG-sup = mean over latents of I(z_j; v_a) / H - I(z_j; v_b) / H

where a and b are the two factors with the largest such share for latent j: the mutual information gap seen from the
latents. By default H is the factor's entropy H(v_k), as in the paper; `ubisoft` divides by the entropy of the binned
latent, H(z_j), as the public code of a later comparison does (Carbonneau et al. 2022). The gap of an uninformative
latent is 0.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool

from sober.estimators.discrete import BINS
from sober.metrics.common.aggregation import gap
from sober.metrics.common.information import (
    Information,
    corrected,
    counted_information,
    information_flags,
    known_shares,
)
from sober.metrics.common.metric_rows import TRAIN
from sober.metrics.metric import Meaning, Measured, Metric, Traits
from sober.shared import Shared
from sober.types import Codes


def measure(codes: Codes, shared: Shared, *, seed: int, samples: int, bins: int, over: str) -> Measured:
    information = counted_information(codes, shared, samples, bins, seed)
    matrix = known_shares(information, over)
    gaps = gap(matrix.T)  # with a single factor, the second largest is 0
    flags = information_flags(codes, information)
    parts = {"known_share": matrix, "mig_sup_per_latent": gaps}

    def of_knowing(beyond: Information, knowing: Bool[np.ndarray, " D"]) -> dict[str, float]:
        return {"mig_sup": float(gap(known_shares(beyond, over).T)[knowing].mean()) if knowing.any() else 0.0}

    measured = Measured({"mig_sup": float(gaps.mean())}, tuple(flags), parts)
    return corrected(measured, of_knowing, codes, shared, samples, bins, seed)


mig_sup = Metric(
    name="mig_sup",
    summary="does each latent know only one factor?",
    short="MIG of latents: does each know one factor?",
    reference="Li et al. (2020) Progressive Learning and Disentanglement of Hierarchical Representations",
    scores={
        "mig_sup": Meaning(
            "gap between the two factors that a latent knows best, as shares of entropy",
            title="MIG-sup",
            traits=Traits(
                changed_by=("dead latent",), lowered_by=("noise latents", "merged factors", "split factors")
            ),  # a dead latent is one more in the mean
        )
    },
    measure=measure,
    settings={"samples": TRAIN, "bins": BINS, "over": "factor"},
    presets={"ubisoft": {"over": "code"}},
    seconds=0.02,
    exact=True,
    default=False,
    takes=frozenset({"holes", "groups", "weights", "units", "sparse"}),
)
