"""MIG-sup (Li et al. 2020): does each latent know one factor alone?

    MIG-sup = mean over latents of I(z_j; v_a) / H - I(z_j; v_b) / H

where a and b are the two factors of which latent j knows the largest share: the mutual information gap seen from the
latents. By default H is the factor's entropy H(v_k), as in the paper; `ubisoft` divides by the entropy of the binned
latent, H(z_j), as the public code of a later comparison does (Carbonneau et al. 2022). Latents that know nothing count
with a gap of 0.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool

from sober.estimators.discrete import BINS
from sober.metrics.aggregate import gap
from sober.metrics.matrices import Information, corrected, counted_information, information_flags, known_shares
from sober.metrics.metric import Meaning, Measured, Metric, Traits
from sober.metrics.rows import TRAIN
from sober.shared import Shared
from sober.types import Codes


def measure(codes: Codes, shared: Shared, *, seed: int, samples: int, bins: int, over: str) -> Measured:
    found = counted_information(codes, shared, samples, bins, seed)
    matrix = known_shares(found, over)
    gaps = gap(matrix.T)  # a lone factor's rival is 0
    flags = information_flags(codes, found)
    parts = {"known_share": matrix, "mig_sup_per_latent": gaps}

    def of_knowing(beyond: Information, knowing: Bool[np.ndarray, " D"]) -> dict[str, float]:
        return {"mig_sup": float(gap(known_shares(beyond, over).T)[knowing].mean()) if knowing.any() else 0.0}

    measured = Measured({"mig_sup": float(gaps.mean())}, tuple(flags), parts)
    return corrected(measured, of_knowing, codes, shared, samples, bins, seed)


mig_sup = Metric(
    name="mig_sup",
    summary="does each latent know one factor alone?",
    reference="Li et al. (2020) Progressive Learning and Disentanglement of Hierarchical Representations",
    scores={
        "mig_sup": Meaning(
            "gap between the two factors of which a latent knows most, as shares",
            traits=Traits(
                changed_by=("dead latent",), lowered_by=("noise latents", "merged factors", "split factors")
            ),  # it is one more in the mean
        )
    },
    measure=measure,
    settings={"samples": TRAIN, "bins": BINS, "over": "factor"},
    presets={"ubisoft": {"over": "code"}},
    seconds=0.01,
    exact=True,
    default=False,
    takes=frozenset({"holes", "groups", "weights", "units", "sparse"}),
)
