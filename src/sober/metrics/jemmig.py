"""Joint entropy minus mutual information gap (Do & Tran 2020): is each factor in one latent that holds nothing else?

    ratio_k = (H(v_k, z_a) - I(v_k; z_a) + I(v_k; z_b)) / (H(v_k) + log B)
    JEMMIG  = mean over factors of 1 - ratio_k

where a and b are the two latents that know most about factor k, and B is the number of bins of a latent. Unlike the
mutual information gap, it falls if the best latent holds anything else. The authors' own scripts report the ratio,
which is better when lower: `jemmig_ratio`, the only score under the preset `authors`.

A constant latent holds nothing else, so collapsed codes score log B / (H(v_k) + log B), more than good codes with
noise. A flag marks collapsed codes.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from sober.estimators.discrete import BINS
from sober.metrics.common.information import Information, counted_information, information_flags
from sober.metrics.common.metric_rows import TRAIN
from sober.metrics.metric import Meaning, Measured, Metric, Traits
from sober.shared import Shared
from sober.types import Codes


def measure(codes: Codes, shared: Shared, *, seed: int, samples: int, bins: int, ratio_only: bool) -> Measured:
    information = counted_information(codes, shared, samples, bins, seed)
    ratios = entropy_ratios(information, bins)
    ratio = float(ratios.mean())
    values = {"jemmig_ratio": ratio} if ratio_only else {"jemmig": 1.0 - ratio, "jemmig_ratio": ratio}
    parts = {"mutual_information": information.matrix, "jemmig_per_factor": 1.0 - ratios}
    return Measured(values, tuple(information_flags(codes, information)), parts)


def entropy_ratios(information: Information, bins: int) -> Float[np.ndarray, " K"]:
    """What the best latent holds besides the factor, plus the second best's information, over the upper bound."""
    matrix, of_factors, of_latents = information
    best = matrix.argmax(axis=0)
    largest = matrix.max(axis=0)
    second = np.sort(matrix, axis=0)[-2] if len(matrix) > 1 else np.zeros_like(largest)
    joint = of_factors + of_latents[best, np.arange(len(best))] - largest
    upper_bound = of_factors + np.log(bins)
    ratios = np.divide(joint - largest + second, upper_bound, out=np.zeros_like(largest), where=upper_bound > 0)
    return np.clip(ratios, 0.0, 1.0)  # rounding errors may exceed the range


jemmig = Metric(
    name="jemmig",
    summary="is each factor in one latent that holds nothing else?",
    short="is a factor in one latent, alone in it?",
    reference="Do & Tran (2020) Theory and Evaluation Metrics for Learning Disentangled Representations",
    scores={
        "jemmig": Meaning(
            "1 - (joint entropy of a factor and its best latent - information gap) / its upper bound",
            title="JEMMIG",
            traits=Traits(
                noise=None, lowered_by=("duplicated latents", "merged factors", "split factors")
            ),  # a latent that holds little of anything scores well
        ),
        "jemmig_ratio": Meaning(
            "(joint entropy of a factor and its best latent - information gap) / its upper bound",
            title="JEMMIG ratio",
            better="lower",
            traits=Traits(noise=None, raised_by=("duplicated latents", "merged factors", "split factors")),
        ),
    },
    measure=measure,
    settings={"samples": TRAIN, "bins": BINS, "ratio_only": False},
    presets={"authors": {"ratio_only": True}},
    seconds=0.007,
    exact=True,
    default=False,
    takes=frozenset({"holes", "groups", "weights", "sparse"}),
)
