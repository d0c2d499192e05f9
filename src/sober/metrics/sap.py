"""Separated attribute predictability (Kumar et al. 2018): does one latent predict each factor far better than others?

    SAP = mean over factors of (best score of a latent) - (second best)

A latent's score is the test accuracy of a linear support vector machine that sees only this latent (squared hinge,
C = 0.01, balanced classes, as in the Sober Look study); for a continuous factor, the R² of a line.
"""

from __future__ import annotations

from sober.metrics.common.aggregation import gap
from sober.metrics.common.metric_rows import TEST, TRAIN
from sober.metrics.common.predictability import fitted_predictability, shortcomings
from sober.metrics.metric import Meaning, Measured, Metric, Traits
from sober.shared import Shared
from sober.types import Codes


def measure(codes: Codes, shared: Shared, *, seed: int, train: int, test: int, strength: float) -> Measured:
    matrix = fitted_predictability(codes, shared, train, test, strength, seed)
    gaps = gap(matrix)
    flags = shortcomings(codes, shared, train, test, seed)
    flags += ["one_latent"] * (len(matrix) == 1)
    return Measured({"sap": float(gaps.mean())}, tuple(flags), {"predictability": matrix, "sap_per_factor": gaps})


sap = Metric(
    name="sap",
    summary="does one latent predict each factor far better than the second best latent?",
    short="is the best latent far ahead of the second?",
    reference="Kumar et al. (2018) Variational Inference of Disentangled Latent Concepts from Unlabeled Observations",
    scores={
        "sap": Meaning(
            "difference in accuracy of the two latents that predict a factor best",
            # Even an uninformative latent is right as often as the commonest class; and the fit is penalised.
            title="SAP",
            traits=Traits(
                perfect=None,
                changed_by=("rescaled latents", "dead latent"),
                lowered_by=("duplicated latents", "merged factors", "split factors"),
            ),
        )
    },
    measure=measure,
    settings={"train": TRAIN, "test": TEST, "strength": 0.01},
    seconds=0.03,
    takes=frozenset({"holes", "groups", "units", "sparse"}),
)
