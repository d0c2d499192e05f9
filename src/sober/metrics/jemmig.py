"""Joint entropy minus mutual information gap (Do & Tran 2020): is each factor in one latent, and nothing else in it?

    ratio_k = (H(v_k, z_a) - I(v_k; z_a) + I(v_k; z_b)) / (H(v_k) + log B)
    JEMMIG  = mean over factors of 1 - ratio_k

where a and b are the two latents that know most about factor k and B is the number of bins that latents are cut into.
Unlike the mutual information gap it also punishes what else the best latent holds. The authors' own scripts report the
ratio, of which low is good: `jemmig_ratio`, and nothing else under the preset `authors`.

A constant latent holds nothing else: with collapsed codes the score is log B / (H(v_k) + log B), more than that of
noisy but good codes. It is flagged.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from sober.estimators.discrete import BINS
from sober.metrics.matrices import Information, counted_information, information_flags
from sober.metrics.metric import Meaning, Measured, Metric, Traits
from sober.metrics.rows import TRAIN
from sober.shared import Shared
from sober.types import Codes


def measure(codes: Codes, shared: Shared, *, seed: int, samples: int, bins: int, ratio_only: bool) -> Measured:
    found = counted_information(codes, shared, samples, bins, seed)
    ratios = entropy_ratios(found, bins)
    ratio = float(ratios.mean())
    values = {"jemmig_ratio": ratio} if ratio_only else {"jemmig": 1.0 - ratio, "jemmig_ratio": ratio}
    parts = {"mutual_information": found.matrix, "jemmig_per_factor": 1.0 - ratios}
    return Measured(values, tuple(information_flags(codes, found)), parts)


def entropy_ratios(found: Information, bins: int) -> Float[np.ndarray, " K"]:
    """What the best latent holds beside a factor, and the next best of it, as a share of the most there could be."""
    matrix, of_factors, of_latents = found
    best = matrix.argmax(axis=0)
    most = matrix.max(axis=0)
    second = np.sort(matrix, axis=0)[-2] if len(matrix) > 1 else np.zeros_like(most)
    joint = of_factors + of_latents[best, np.arange(len(best))] - most
    most_there_could_be = of_factors + np.log(bins)
    ratios = np.divide(
        joint - most + second, most_there_could_be, out=np.zeros_like(most), where=most_there_could_be > 0
    )
    return np.clip(ratios, 0.0, 1.0)  # entropies that cancel leave rounding errors


jemmig = Metric(
    name="jemmig",
    summary="is each factor in one latent, and nothing else in it?",
    reference="Do & Tran (2020) Theory and Evaluation Metrics for Learning Disentangled Representations",
    scores={
        "jemmig": Meaning(
            "1 - joint entropy of a factor and its latent, less the information gap, as a share of the most",
            traits=Traits(
                noise=None, lowered_by=("duplicated latents", "merged factors", "split factors")
            ),  # a latent that holds little scores well, whatever that is
        ),
        "jemmig_ratio": Meaning(
            "that share itself, as the authors report it",
            better="lower",
            traits=Traits(noise=None, raised_by=("duplicated latents", "merged factors", "split factors")),
        ),
    },
    measure=measure,
    settings={"samples": TRAIN, "bins": BINS, "ratio_only": False},
    presets={"authors": {"ratio_only": True}},
    seconds=0.01,
    exact=True,
    default=False,
    takes=frozenset({"holes", "groups", "weights", "sparse"}),
)
