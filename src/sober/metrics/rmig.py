"""Robust mutual information gap (Do & Tran 2020): how far ahead is the latent that knows most?

    RMIG = mean over factors of I(z_a; v_k) / H - I(z_b; v_k) / H

where a and b are the two latents with the largest such share of factor k. By default H is the factor's entropy H(v_k),
as in the paper; with latents cut into bins that is the mutual information gap. `ubisoft` divides by the entropy of the
binned latent, H(z_j), as the public code of a later comparison does (Carbonneau et al. 2022), so that a latent is
measured by what it holds itself.
"""

from __future__ import annotations

from sober.estimators.discrete import BINS
from sober.metrics.aggregate import gap
from sober.metrics.matrices import counted_information, information_flags, known_shares
from sober.metrics.metric import Meaning, Measured, Metric, Traits
from sober.metrics.rows import TRAIN
from sober.shared import Shared
from sober.types import Codes


def measure(codes: Codes, shared: Shared, *, seed: int, samples: int, bins: int, over: str) -> Measured:
    found = counted_information(codes, shared, samples, bins, seed)
    matrix = known_shares(found, over)
    gaps = gap(matrix)
    flags = information_flags(codes, found)
    return Measured({"rmig": float(gaps.mean())}, tuple(flags), {"known_share": matrix, "rmig_per_factor": gaps})


rmig = Metric(
    name="rmig",
    summary="how far is the latent that knows most of a factor ahead of the next?",
    reference="Do & Tran (2020) Theory and Evaluation Metrics for Learning Disentangled Representations",
    scores={
        "rmig": Meaning(
            "gap between the two largest shares of a factor that latents know",
            traits=Traits(lowered_by=("duplicated latents", "split factors")),
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
