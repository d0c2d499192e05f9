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

from sober.estimators.columns import Table, is_wide, spread
from sober.estimators.detection import detectors
from sober.metrics.discrete import discretised, has_continuous
from sober.metrics.metric import Meaning, Measured, Metric, Traits
from sober.metrics.rows import TRAIN, sample
from sober.shared import Shared
from sober.types import Codes


def measure(codes: Codes, shared: Shared, *, seed: int, samples: int, threshold: float, overlap: float) -> Measured:
    drawn = shared(sample, shared(discretised, codes), samples, seed)
    attributes, known = binary_attributes(drawn)
    areas = detection_areas(drawn.mean, attributes, known)
    rivals = np.concatenate([areas, np.full((len(areas), 1), 0.5)], axis=1) if areas.shape[1] == 1 else areas
    ordered = np.sort(rivals, axis=1)
    best, gaps = ordered[:, -1], ordered[:, -1] - ordered[:, -2]
    captured = (best >= threshold) & (shared_entropy(attributes, known) <= overlap)
    dead = spread(drawn.mean) == 0
    flags = ["binned_factor"] * has_continuous(codes) + ["split_factor"] * any(f.size > 2 for f in drawn.about)
    flags += ["one_latent"] * (len(dead) == 1) + ["dead_latent"] * bool(dead.any()) + ["collapsed"] * bool(dead.all())
    values = {
        "tad": float(gaps[captured].sum()),
        "tad_mean": float(gaps[captured].mean()) if captured.any() else 0.0,
        "tad_captured": float(captured.sum()),
    }
    return Measured(values, tuple(flags), {"auroc": areas, "gap": gaps, "captured": captured})


def binary_attributes(codes: Codes) -> tuple[Bool[np.ndarray, "N A"], Bool[np.ndarray, "N A"]]:
    """The second value of each factor that has two; every value of one that has more. Those with one value are not.

    Beside them, in which rows each attribute is known.
    """
    everywhere = np.ones(codes.factors.shape, bool) if codes.known is None else codes.known
    columns, known = [], []
    for k, factor in enumerate(codes.about):
        values = range(factor.size) if factor.size > 2 else (1,)
        columns += [(codes.factors[:, k] == value) & everywhere[:, k] for value in values]
        known += [everywhere[:, k]] * len(values)
    table, there = np.stack(columns, axis=1), np.stack(known, axis=1)
    varies = table.any(axis=0) & (table != there).any(axis=0)
    return table[:, varies], there[:, varies]


def detection_areas(
    mean: Table, attributes: Bool[np.ndarray, "N A"], known: Bool[np.ndarray, "N A"]
) -> Float[np.ndarray, "A D"]:
    """The area under the ROC curve of each latent alone, in its better direction; ties count a half (Mann-Whitney)."""
    area = np.empty((attributes.shape[1], mean.shape[1]))
    patterns, label = np.unique(known, axis=1, return_inverse=True)
    for pattern in range(patterns.shape[1]):
        rows, some = patterns[:, pattern], np.flatnonzero(label.ravel() == pattern)
        if is_wide(mean):
            area[some] = detectors(mean[np.flatnonzero(rows)], attributes[np.ix_(rows, some)]).auc.T
            continue
        ranks = scipy.stats.rankdata(np.asarray(mean, float)[rows], axis=0)
        has = attributes[np.ix_(rows, some)].sum(axis=0)[:, None]
        pairs = has * (len(ranks) - has)
        sums = attributes[np.ix_(rows, some)].T.astype(float) @ ranks
        area[some] = (sums - has * (has + 1) / 2) / np.maximum(pairs, 1)
    return np.maximum(area, 1.0 - area)


def shared_entropy(attributes: Bool[np.ndarray, "N A"], known: Bool[np.ndarray, "N A"]) -> Float[np.ndarray, " A"]:
    """The largest share of an attribute's entropy that any one other attribute holds, over rows that know both."""
    yes, no = attributes.astype(float), (known & ~attributes).astype(float)
    rows = known.T.astype(float) @ known.astype(float)  # (A, A), as all that follows
    count = len(rows)
    has, lacks = yes.T @ (yes + no), no.T @ (yes + no)  # the first, where both are known
    cells = [
        (yes.T @ yes, has, has.T),
        (yes.T @ no, has, lacks.T),
        (no.T @ yes, lacks, has.T),
        (no.T @ no, lacks, lacks.T),
    ]
    information = np.zeros((count, count))
    for joint, first, second in cells:
        there = joint > 0
        ratio = np.where(there, joint, 1.0) * rows / np.where(there, first * second, rows)
        share = np.divide(joint, rows, out=np.zeros_like(joint), where=there)
        information += share * np.log(ratio, out=np.zeros_like(ratio), where=there)
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
    takes=frozenset({"holes", "groups", "sparse"}),
)
