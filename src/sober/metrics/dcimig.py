"""DCIMIG (Sepliarskaia et al. 2019): does each factor have a latent that knows this factor better than any other?

    credit[j, k] = I(z_j; v_k) - max over other factors of I(z_j; v_i), if latent j knows k best; else 0
    DCIMIG       = sum over factors of max over latents of credit[j, k] / sum over factors of H(v_k)

Each factor counts only its best latent, so copies and dead latents cost nothing.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from sober.estimators.discrete import BINS
from sober.metrics.common.aggregation import gap
from sober.metrics.common.information import counted_information, information_flags
from sober.metrics.common.metric_rows import TRAIN
from sober.metrics.metric import Meaning, Measured, Metric, Traits
from sober.shared import Shared
from sober.types import Codes


def measure(codes: Codes, shared: Shared, *, seed: int, samples: int, bins: int) -> Measured:
    information = counted_information(codes, shared, samples, bins, seed)
    uncertainty = information.of_factors
    credited = credit(information.matrix)
    best = credited.max(axis=0)
    total = uncertainty.sum()
    value = float(best.sum() / total) if total > 0 else 0.0
    flags = information_flags(codes, information) + ["constant_factor"] * (not uncertainty.all())
    shares = np.divide(best, uncertainty, out=np.zeros_like(best), where=uncertainty > 0)
    return Measured({"dcimig": value}, tuple(flags), {"credit": credited, "dcimig_per_factor": shares})


def credit(matrix: Float[np.ndarray, "D K"]) -> Float[np.ndarray, "D K"]:
    """Each latent's gap between its two best factors, in the column of its best factor."""
    out = np.zeros_like(matrix)
    out[np.arange(len(matrix)), matrix.argmax(axis=1)] = gap(matrix.T)
    return out


dcimig = Metric(
    name="dcimig",
    summary="does each factor have a latent that knows this factor better than any other?",
    short="does each factor have a latent of its own?",
    reference="Sepliarskaia et al. (2019) How to Not Measure Disentanglement",
    scores={
        "dcimig": Meaning(
            "how much more the best latents know about their own factor than about any other, over factors' entropy",
            title="DCIMIG",
            traits=Traits(lowered_by=("merged factors", "split factors")),
        )
    },
    measure=measure,
    settings={"samples": TRAIN, "bins": BINS},
    seconds=0.007,
    exact=True,
    default=False,
    takes=frozenset({"holes", "groups", "weights", "units", "sparse"}),
)
