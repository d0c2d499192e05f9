"""BetaVAE score (Higgins et al. 2017): can a linear classifier tell which factor was held fixed?

Each point is the mean over 64 pairs of |difference of codes|, where the two rows of a pair share the value of one
factor; the score is the test accuracy of a multinomial logistic regression that names the factor.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from sober.estimators.linear import multinomial
from sober.metrics.discrete import discretised, has_continuous
from sober.metrics.interventions import differences, draw_pairs, fewer_than, sharing
from sober.metrics.metric import Meaning, Measured, Metric, Traits
from sober.metrics.rows import TEST, TRAIN, sides
from sober.metrics.shapes import at_most
from sober.shared import Shared
from sober.types import Codes

WIDEST = 2_048  # latents whose products of pairs are made
LARGEST = 1e6  # larger features are scaled down to it: the penalty hardly counts there, and rounding errors would


def measure(codes: Codes, shared: Shared, *, seed: int, train: int, test: int, batch: int) -> Measured:
    at_most(codes, WIDEST, "its classifier needs the products of all pairs of latents")
    classes = shared(discretised, codes)
    features, factor, alone = draw_points(classes, shared, train, test, batch, seed)
    features /= np.maximum(features.max(axis=0) / LARGEST, 1.0)
    learned = multinomial(features[:train], factor[:train])
    right = learned.predict(features[train:]) == factor[train:]
    flags = ["singletons"] * alone + ["binned_factor"] * has_continuous(codes)
    flags += ["one_factor"] * (len(codes.about) == 1) + ["collapsed"] * (not features.any())
    shares = np.array([right[factor[train:] == k].mean() if k in factor[train:] else 0.0
                       for k in range(len(codes.about))])  # fmt: skip
    return Measured({"beta_vae": float(right.mean())}, tuple(flags), {"beta_vae_per_factor": shares})


def draw_points(
    codes: Codes, shared: Shared, train: int, test: int, batch: int, seed: int
) -> tuple[Float[np.ndarray, "P D"], Int[np.ndarray, " P"], bool]:
    """Training points, then test points, with the factor held fixed for each; and whether some row has no partner.

    Both are drawn from all rows, as published; with groups, from groups of their own.
    """
    rng = np.random.default_rng([seed, 1])
    if codes.groups is None:
        asked = [(codes, train + test)]
    else:
        asked = list(zip(shared(sides, codes, train, test, seed), (train, test), strict=True))
    features, factors, alone = [], [], False
    for rows, points in asked:
        groups = shared(sharing, rows)
        drawn, mates = draw_pairs(rows, groups, points, batch, rng)
        features.append(differences(rows.mean, drawn.rows, mates, rows.unit))
        factors.append(drawn.factor)
        alone |= fewer_than(2, groups)
    return np.concatenate(features), np.concatenate(factors), alone


beta_vae = Metric(
    name="beta_vae",
    summary="can a linear classifier tell which factor was held fixed?",
    reference="Higgins et al. (2017) beta-VAE, Learning Basic Visual Concepts with a Constrained Variational Framework",
    scores={
        "beta_vae": Meaning(
            "accuracy with which the fixed factor is named from differences; chance is 1/K",
            traits=Traits(
                perfect=0.02,
                noise=lambda sizes: 1 / len(sizes),
                noise_within=0.15,
                changed_by=("rescaled latents", "dead latent"),  # features of a penalised classifier
            ),
        )
    },
    measure=measure,
    settings={"train": TRAIN, "test": TEST, "batch": 64},
    quick={"train": 200, "test": 100, "batch": 16},
    seconds=0.07,
    takes=frozenset({"holes", "groups", "units"}),
)
