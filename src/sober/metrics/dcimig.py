"""DCIMIG (Sepliarskaia et al. 2019): does each factor have a latent that knows it, and knows nothing else as well?

    credit[j, k] = I(z_j; v_k) - max over other factors of I(z_j; v_i), where k is what latent j knows best; else 0
    DCIMIG       = sum over factors of max over latents of credit[j, k] / sum over factors of H(v_k)

Each factor counts with its best latent only, so copies and dead latents cost nothing.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from sober.estimators.discrete import BINS
from sober.metrics.aggregate import gap
from sober.metrics.matrices import counted_information, information_flags
from sober.metrics.metric import Meaning, Measured, Metric, Traits
from sober.metrics.rows import TRAIN
from sober.shared import Shared
from sober.types import Codes


def measure(codes: Codes, shared: Shared, *, seed: int, samples: int, bins: int) -> Measured:
    found = counted_information(codes, shared, samples, bins, seed)
    uncertainty = found.of_factors
    credited = credit(found.matrix)
    best = credited.max(axis=0)
    total = uncertainty.sum()
    value = float(best.sum() / total) if total > 0 else 0.0
    flags = information_flags(codes, found) + ["constant_factor"] * (not uncertainty.all())
    shares = np.divide(best, uncertainty, out=np.zeros_like(best), where=uncertainty > 0)
    return Measured({"dcimig": value}, tuple(flags), {"credit": credited, "dcimig_per_factor": shares})


def credit(matrix: Float[np.ndarray, "D K"]) -> Float[np.ndarray, "D K"]:
    """Each latent's gap between its two best factors, in the column of the best."""
    out = np.zeros_like(matrix)
    out[np.arange(len(matrix)), matrix.argmax(axis=1)] = gap(matrix.T)
    return out


dcimig = Metric(
    name="dcimig",
    summary="does each factor have a latent that knows it, and no other factor as well?",
    reference="Sepliarskaia et al. (2019) How to Not Measure Disentanglement",
    scores={
        "dcimig": Meaning(
            "what the best latents know of their own factors alone, over all there is to know",
            traits=Traits(lowered_by=("merged factors", "split factors")),
        )
    },
    measure=measure,
    settings={"samples": TRAIN, "bins": BINS},
    seconds=0.01,
    exact=True,
    default=False,
    takes=frozenset({"holes", "groups", "weights", "units", "sparse"}),
)
