"""Mean mutual information of pairs of latents (Locatello et al. 2020): do latents share information?

Each latent is cut into 20 bins of equal width; the score is the mean over all pairs, in nats. It is computed for the
encoder's means, and with log-variances also for samples, one from q(z|x) of each row. No labels are needed.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

from sober.estimators.discrete import BINS, binned, expected_table, information
from sober.metrics.common.metric_rows import TRAIN, effective_rows, sample
from sober.metrics.common.shapes import at_most
from sober.metrics.metric import Meaning, Measured, Metric, Traits, moved
from sober.shared import Shared
from sober.types import Codes

WIDEST = 1_024  # latents at most: every pair is compared
LARGEST = 230.0  # log-variance: e^230 is 10^100


def measure(codes: Codes, shared: Shared, *, seed: int, samples: int, bins: int) -> Measured:
    at_most(codes, WIDEST, "it needs the information of all pairs of latents")
    drawn = shared(sample, codes, samples, seed)
    latents = {"mutual_information": drawn.mean}
    if drawn.logvar is not None:
        std = np.exp(np.minimum(np.asarray(drawn.logvar, float), LARGEST) / 2)
        noise = np.random.default_rng([seed, 5]).standard_normal(std.shape)
        latents["mutual_information_sampled"] = drawn.mean + std * noise
    between = {name: pairwise(values, bins, drawn.weights) for name, values in latents.items()}
    d = drawn.mean.shape[1]
    means = {name: float(matrix.sum() / max(d * (d - 1), 1)) for name, matrix in between.items()}
    flags = ["one_latent"] * (d == 1) + ["collapsed"] * (not np.ptp(drawn.mean, axis=0).any())
    parts = {name.replace("mutual_information", "between"): matrix for name, matrix in between.items()}
    counts = [np.bincount(column) for column in binned(drawn.mean, bins).T]
    rows = None if drawn.weights is None else effective_rows(drawn)
    chance = [expected_table(counts[j : j + 1], counts[:j], rows).sum() for j in range(1, d)]
    by_chance = 2 * float(np.sum(chance)) / max(d * (d - 1), 1)
    corrected = {"mutual_information": max(0.0, means["mutual_information"] - by_chance)}
    return moved(Measured(means, tuple(flags), parts), corrected)


def pairwise(
    latents: Float[np.ndarray, "N D"], bins: int, weights: Float[np.ndarray, " N"] | None = None
) -> Float[np.ndarray, "D D"]:
    """I(z_i; z_j) of latents cut into bins, with zeros on the diagonal."""
    classes = binned(latents, bins)
    d = classes.shape[1]
    matrix = np.zeros((d, d))
    for j in range(1, d):
        matrix[j, :j] = information(classes[:, [j]], classes[:, :j], weights)[0]
    return matrix + matrix.T


mutual_information = Metric(
    name="mutual_information",
    summary="how much information do latents share with each other?",
    short="how much information do latents share?",
    reference="Locatello et al. (2020) A Sober Look at the Unsupervised Learning of Disentangled Representations",
    scores={
        "mutual_information": Meaning(
            "mean mutual information of two latents, in nats",
            0,
            math.inf,
            "lower",
            title="mutual information of means",
            traits=Traits(changed_by=("dead latent",), raised_by=("duplicated latents",)),  # a mean over all latents
        ),
        "mutual_information_sampled": Meaning(
            "the same for samples from q(z|x)",
            0,
            math.inf,
            "lower",
            title="mutual information of samples",
            samples_of="mutual_information",
            traits=Traits(
                perfect=None, changed_by=("dead latent", "rescaled latents"), raised_by=("duplicated latents",)
            ),  # noise has its own scale
        ),
    },
    measure=measure,
    settings={"samples": TRAIN, "bins": BINS},
    seconds=0.02,
    logvar=True,
    supervised=False,
    takes=frozenset({"groups", "weights"}),
)
