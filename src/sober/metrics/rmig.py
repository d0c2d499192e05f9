"""Robust mutual information gap (Do & Tran 2020): how much more does the best latent know than the second best?

    RMIG = mean over factors of I(z_a; v_k) / H - I(z_b; v_k) / H

where a and b are the two latents with the largest such share of factor k. By default H is the factor's entropy H(v_k),
as in the paper; with latents cut into bins that is the mutual information gap. `ubisoft` divides by the entropy of the
binned latent, H(z_j), as the public code of a later comparison does (Carbonneau et al. 2022).
"""

from __future__ import annotations

from sober.estimators.discrete import BINS
from sober.metrics.common.aggregation import gap
from sober.metrics.common.information import counted_information, information_flags, known_shares
from sober.metrics.common.metric_rows import TRAIN
from sober.metrics.metric import Meaning, Measured, Metric, Traits
from sober.shared import Shared
from sober.types import Codes


def measure(codes: Codes, shared: Shared, *, seed: int, samples: int, bins: int, over: str) -> Measured:
    information = counted_information(codes, shared, samples, bins, seed)
    matrix = known_shares(information, over)
    gaps = gap(matrix)
    flags = information_flags(codes, information)
    return Measured({"rmig": float(gaps.mean())}, tuple(flags), {"known_share": matrix, "rmig_per_factor": gaps})


rmig = Metric(
    name="rmig",
    summary="how much more does the best latent know about a factor than the second best?",
    short="MIG with other divisors",
    reference="Do & Tran (2020) Theory and Evaluation Metrics for Learning Disentangled Representations",
    scores={
        "rmig": Meaning(
            "gap between the two latents that know most about a factor, as shares of entropy",
            same_as="mig",
            title="RMIG",
            traits=Traits(lowered_by=("duplicated latents", "split factors")),
        )
    },
    measure=measure,
    settings={"samples": TRAIN, "bins": BINS, "over": "factor"},
    presets={"ubisoft": {"over": "code"}},
    seconds=0.007,
    exact=True,
    default=False,
    takes=frozenset({"holes", "groups", "weights", "units", "sparse"}),
)
