"""Total AUROC difference (Yeats et al. 2022): is each binary attribute told by one latent, and by that one alone?

    AUROC[a, j] = area under the ROC curve of latent j as a detector of attribute a, in its better direction
    TAD         = sum over captured attributes of (best AUROC - second best)

An attribute is captured if its best AUROC is at least 0.75 and it shares at most a fifth of its entropy with any one
other attribute. The sum grows with the number of attributes; `tad_mean` is the mean over those captured, and
`tad_captured` their number. A factor with two values is an attribute, one with more is an attribute for each value.
"""

from __future__ import annotations

import math

import numpy as np
import scipy
from jaxtyping import Bool, Float

from sober.metrics.discrete import discretised, has_continuous
from sober.metrics.metric import Meaning, Measured, Metric, Traits
from sober.metrics.rows import TRAIN, sample
from sober.shared import Shared
from sober.types import Codes


def measure(codes: Codes, shared: Shared, *, seed: int, samples: int, threshold: float, overlap: float) -> Measured:
    drawn = shared(sample, shared(discretised, codes), samples, seed)
    attributes = binary_attributes(drawn)
    areas = detection_areas(np.asarray(drawn.mean, float), attributes)
    rivals = np.concatenate([areas, np.full((len(areas), 1), 0.5)], axis=1) if areas.shape[1] == 1 else areas
    ordered = np.sort(rivals, axis=1)
    best, gaps = ordered[:, -1], ordered[:, -1] - ordered[:, -2]
    captured = (best >= threshold) & (shared_entropy(attributes) <= overlap)
    dead = np.ptp(drawn.mean, axis=0) == 0
    flags = ["binned_factor"] * has_continuous(codes) + ["split_factor"] * any(f.size > 2 for f in drawn.about)
    flags += ["one_latent"] * (len(dead) == 1) + ["dead_latent"] * bool(dead.any()) + ["collapsed"] * bool(dead.all())
    values = {
        "tad": float(gaps[captured].sum()),
        "tad_mean": float(gaps[captured].mean()) if captured.any() else 0.0,
        "tad_captured": float(captured.sum()),
    }
    return Measured(values, tuple(flags), {"auroc": areas, "gap": gaps, "captured": captured})


def binary_attributes(codes: Codes) -> Bool[np.ndarray, "N A"]:
    """The second value of each factor that has two; every value of one that has more. Those with one value are not."""
    columns = []
    for k, factor in enumerate(codes.about):
        values = range(factor.size) if factor.size > 2 else (1,)
        columns += [codes.factors[:, k] == value for value in values]
    table = np.stack(columns, axis=1)
    return table[:, table.any(axis=0) & ~table.all(axis=0)]


def detection_areas(mean: Float[np.ndarray, "N D"], attributes: Bool[np.ndarray, "N A"]) -> Float[np.ndarray, "A D"]:
    """The area under the ROC curve of each latent alone, in its better direction; ties count a half (Mann-Whitney)."""
    ranks = scipy.stats.rankdata(mean, axis=0)
    has = attributes.sum(axis=0)[:, None]
    pairs = has * (len(mean) - has)
    area = (attributes.T.astype(float) @ ranks - has * (has + 1) / 2) / np.maximum(pairs, 1)
    return np.maximum(area, 1.0 - area)


def shared_entropy(attributes: Bool[np.ndarray, "N A"]) -> Float[np.ndarray, " A"]:
    """The largest share of an attribute's entropy that any one other attribute holds."""
    table = attributes.astype(float)
    rows, count = table.shape
    both = table.T @ table
    has = np.diag(both)
    cells = [  # of every pair of attributes: both, the first alone, the second alone, neither
        (both, has[:, None], has[None, :]),
        (has[:, None] - both, has[:, None], rows - has[None, :]),
        (has[None, :] - both, rows - has[:, None], has[None, :]),
        (rows - has[:, None] - has[None, :] + both, rows - has[:, None], rows - has[None, :]),
    ]
    information = np.zeros((count, count))
    for joint, first, second in cells:
        there = joint > 0
        ratio = np.where(there, joint, 1.0) * rows / np.where(there, first * second, rows)
        information += np.where(there, joint, 0.0) / rows * np.log(ratio)
    own = np.diag(information).copy()
    np.fill_diagonal(information, 0.0)
    return np.divide(information.max(axis=1, initial=0.0), own, out=np.zeros(count), where=own > 0)


COUNTED = Traits(perfect=None)  # the more attributes, the more there is to add up

tad = Metric(
    name="tad",
    summary="is each binary attribute told by one latent, and by that one alone?",
    reference="Yeats et al. (2022) NashAE: Disentangling Representations through Adversarial Covariance Minimization",
    scores={
        "tad": Meaning(
            "sum over captured attributes of the gap between the two best AUROCs",
            0,
            math.inf,
            traits=COUNTED._replace(lowered_by=("duplicated latents", "noise latents", "split factors")),
        ),
        "tad_mean": Meaning(
            "the mean of those gaps",
            0,
            0.5,
            traits=Traits(
                perfect=None, lowered_by=("duplicated latents", "split factors")
            ),  # other values' latents tell something of a value, too
        ),
        "tad_captured": Meaning(
            "how many attributes are captured", 0, math.inf, traits=COUNTED._replace(raised_by=("split factors",))
        ),
    },
    measure=measure,
    settings={"samples": TRAIN, "threshold": 0.75, "overlap": 0.2},
    seconds=0.05,
    exact=True,
    default=False,
)
