"""Separated attribute predictability (Kumar et al. 2018): does one latent predict each factor far better than the next?

    SAP = mean over factors of (best score of a latent) - (second best)

The score of a latent is the test accuracy of a linear support vector machine that sees this latent alone (squared
hinge, C = 0.01, classes weighted by their frequency, as in the Sober Look study); for a continuous factor the R² of a
line.
"""

from __future__ import annotations

from sober.metrics.aggregate import gap
from sober.metrics.matrices import fitted_predictability, shortcomings
from sober.metrics.metric import Meaning, Measured, Metric, Traits
from sober.metrics.rows import TEST, TRAIN
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
    summary="does one latent predict each factor far better than the next one?",
    reference="Kumar et al. (2018) Variational Inference of Disentangled Latent Concepts from Unlabeled Observations",
    scores={
        "sap": Meaning(
            "gap between the two latents that predict a factor best",
            # Even a latent that says nothing is right as often as the commonest class; and the fit is penalised.
            traits=Traits(
                perfect=None,
                changed_by=("rescaled latents", "dead latent"),
                lowered_by=("duplicated latents", "merged factors", "split factors"),
            ),
        )
    },
    measure=measure,
    settings={"train": TRAIN, "test": TEST, "strength": 0.01},
    seconds=0.07,
    takes=frozenset({"holes", "groups", "units", "sparse"}),
)
