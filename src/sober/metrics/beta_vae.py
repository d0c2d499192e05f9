"""BetaVAE score (Higgins et al. 2017): can a linear classifier tell which factor was held fixed?

A point is the mean |difference of codes| over 64 pairs of rows. In all pairs of a point, the two rows share the value
of the same factor. The score is the test accuracy of a multinomial logistic regression that names this factor.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from sober.estimators.linear import multinomial
from sober.metrics.common.factor_classes import discretised, has_continuous
from sober.metrics.common.interventions import differences, draw_pairs, fewer_than, sharing
from sober.metrics.common.metric_rows import TEST, TRAIN, sides
from sober.metrics.common.shapes import at_most
from sober.metrics.metric import Meaning, Measured, Metric, Traits
from sober.shared import Shared
from sober.types import Codes

WIDEST = 2_048  # latents at most: the classifier needs the products of all pairs
LARGEST = 1e6  # larger features are scaled down: at this size rounding errors matter, and the penalty hardly does


def measure(codes: Codes, shared: Shared, *, seed: int, train: int, test: int, batch: int) -> Measured:
    at_most(codes, WIDEST, "its classifier needs the products of all pairs of latents")
    classes = shared(discretised, codes)
    features, factor, singletons = draw_points(classes, shared, train, test, batch, seed)
    features /= np.maximum(features.max(axis=0) / LARGEST, 1.0)
    learned = multinomial(features[:train], factor[:train])
    right = learned.predict(features[train:]) == factor[train:]
    flags = ["singletons"] * singletons + ["binned_factor"] * has_continuous(codes)
    flags += ["one_factor"] * (len(codes.about) == 1) + ["collapsed"] * (not features.any())
    flags += ["not_converged"] * (not learned.converged)
    shares = np.array([right[factor[train:] == k].mean() if k in factor[train:] else 0.0
                       for k in range(len(codes.about))])  # fmt: skip
    return Measured({"beta_vae": float(right.mean())}, tuple(flags), {"beta_vae_per_factor": shares})


def draw_points(
    codes: Codes, shared: Shared, train: int, test: int, batch: int, seed: int
) -> tuple[Float[np.ndarray, "P D"], Int[np.ndarray, " P"], bool]:
    """Training points, then test points, with the factor held fixed for each; and whether some row has no partner.

    Training and test points are drawn from all rows, as published. With groups, they come from different groups.
    """
    rng = np.random.default_rng([seed, 1])
    if codes.groups is None:
        draws = [(codes, train + test)]
    else:
        draws = list(zip(shared(sides, codes, train, test, seed), (train, test), strict=True))
    features, factors, singletons = [], [], False
    for rows, points in draws:
        groups = shared(sharing, rows)
        drawn, mates = draw_pairs(rows, groups, points, batch, rng)
        features.append(differences(rows.mean, drawn.rows, mates, rows.unit))
        factors.append(drawn.factor)
        singletons |= fewer_than(2, groups)
    return np.concatenate(features), np.concatenate(factors), singletons


beta_vae = Metric(
    name="beta_vae",
    summary="can a linear classifier tell which factor was held fixed?",
    short="can a linear model tell the fixed factor?",
    reference="Higgins et al. (2017) beta-VAE, Learning Basic Visual Concepts with a Constrained Variational Framework",
    scores={
        "beta_vae": Meaning(
            "how often a linear classifier names the factor that pairs of rows share; chance is 1/K",
            title="β-VAE score",
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
    seconds=0.05,
    takes=frozenset({"holes", "groups", "units"}),
)
