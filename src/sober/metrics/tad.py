"""Total AUROC difference (Yeats et al. 2022): does exactly one latent detect each binary attribute?

    AUROC[a, j] = area under the ROC curve of latent j as a detector of attribute a, in its better direction
    TAD         = sum over captured attributes of (best AUROC - second best)

An attribute is captured if its best AUROC is at least 0.75 and it shares at most a fifth of its entropy with any other
attribute. The sum grows with the number of attributes; `tad_mean` is the mean over captured attributes, `tad_captured`
their number. A factor with two values is one attribute; a factor with more has an attribute for each value.
"""

from __future__ import annotations

import math

import numpy as np
import scipy
from jaxtyping import Bool, Float

from sober.estimators.detection import detectors
from sober.estimators.wide.wide_tables import Table, is_wide, spread
from sober.metrics.common.factor_classes import discretised, has_continuous
from sober.metrics.common.metric_rows import TRAIN, sample
from sober.metrics.metric import Meaning, Measured, Metric, Traits
from sober.shared import Shared
from sober.types import Codes


def measure(codes: Codes, shared: Shared, *, seed: int, samples: int, threshold: float, overlap: float) -> Measured:
    drawn = shared(sample, shared(discretised, codes), samples, seed)
    attributes, is_known = binary_attributes(drawn)
    areas = detection_areas(drawn.mean, attributes, is_known)
    rivals = np.concatenate([areas, np.full((len(areas), 1), 0.5)], axis=1) if areas.shape[1] == 1 else areas
    ordered = np.sort(rivals, axis=1)
    best, gaps = ordered[:, -1], ordered[:, -1] - ordered[:, -2]
    captured = (best >= threshold) & (shared_entropy(attributes, is_known) <= overlap)
    dead = spread(drawn.mean) == 0
    flags = ["binned_factor"] * has_continuous(codes)
    flags += ["split_factor"] * any(factor.size > 2 for factor in drawn.about)
    flags += ["one_latent"] * (len(dead) == 1) + ["dead_latent"] * bool(dead.any()) + ["collapsed"] * bool(dead.all())
    values = {
        "tad": float(gaps[captured].sum()),
        "tad_mean": float(gaps[captured].mean()) if captured.any() else 0.0,
        "tad_captured": float(captured.sum()),
    }
    return Measured(values, tuple(flags), {"auroc": areas, "gap": gaps, "captured": captured})


def binary_attributes(codes: Codes) -> tuple[Bool[np.ndarray, "N A"], Bool[np.ndarray, "N A"]]:
    """Which rows have each attribute, and in which rows it is known. Attributes that never vary are left out.

    A factor with two values gives one attribute, its second value. A factor with more values gives one for each value.
    """
    factor_is_known = np.ones(codes.factors.shape, bool) if codes.known is None else codes.known
    columns, known_columns = [], []
    for k, factor in enumerate(codes.about):
        values = range(factor.size) if factor.size > 2 else (1,)
        columns += [(codes.factors[:, k] == value) & factor_is_known[:, k] for value in values]
        known_columns += [factor_is_known[:, k]] * len(values)
    attributes, is_known = np.stack(columns, axis=1), np.stack(known_columns, axis=1)
    varies = attributes.any(axis=0) & (attributes != is_known).any(axis=0)
    return attributes[:, varies], is_known[:, varies]


def detection_areas(
    mean: Table, attributes: Bool[np.ndarray, "N A"], is_known: Bool[np.ndarray, "N A"]
) -> Float[np.ndarray, "A D"]:
    """The area under the ROC curve of each latent alone, in its better direction. Ties count a half (Mann-Whitney)."""
    area = np.empty((attributes.shape[1], mean.shape[1]))
    patterns, label = np.unique(is_known, axis=1, return_inverse=True)
    for pattern in range(patterns.shape[1]):
        rows, members = patterns[:, pattern], np.flatnonzero(label.ravel() == pattern)
        if is_wide(mean):
            area[members] = detectors(mean[np.flatnonzero(rows)], attributes[np.ix_(rows, members)]).auc.T
            continue
        ranks = scipy.stats.rankdata(np.asarray(mean, float)[rows], axis=0)
        positives = attributes[np.ix_(rows, members)].sum(axis=0)[:, None]
        pairs = positives * (len(ranks) - positives)
        sums = attributes[np.ix_(rows, members)].T.astype(float) @ ranks
        area[members] = (sums - positives * (positives + 1) / 2) / np.maximum(pairs, 1)
    return np.maximum(area, 1.0 - area)


def shared_entropy(attributes: Bool[np.ndarray, "N A"], is_known: Bool[np.ndarray, "N A"]) -> Float[np.ndarray, " A"]:
    """The largest share of an attribute's entropy that another attribute holds, over rows in which both are known."""
    yes, no = attributes.astype(float), (is_known & ~attributes).astype(float)
    rows = is_known.T.astype(float) @ is_known.astype(float)  # (A, A), like all arrays below
    count = len(rows)
    # Over rows in which both are known, how many have the first attribute, and how many do not.
    count_yes, count_no = yes.T @ (yes + no), no.T @ (yes + no)
    cells = [
        (yes.T @ yes, count_yes, count_yes.T),
        (yes.T @ no, count_yes, count_no.T),
        (no.T @ yes, count_no, count_yes.T),
        (no.T @ no, count_no, count_no.T),
    ]
    information = np.zeros((count, count))
    for joint, first, second in cells:
        occurs = joint > 0
        ratio = np.where(occurs, joint, 1.0) * rows / np.where(occurs, first * second, rows)
        share = np.divide(joint, rows, out=np.zeros_like(joint), where=occurs)
        information += share * np.log(ratio, out=np.zeros_like(ratio), where=occurs)
    entropies = np.diag(information).copy()
    np.fill_diagonal(information, 0.0)
    return np.divide(information.max(axis=1, initial=0.0), entropies, out=np.zeros(count), where=entropies > 0)


COUNTED = Traits(perfect=None)  # the sum grows with the number of attributes

tad = Metric(
    name="tad",
    summary="does exactly one latent detect each binary attribute?",
    short="does one latent detect each attribute?",
    reference="Yeats et al. (2022) NashAE: Disentangling Representations through Adversarial Covariance Minimization",
    scores={
        "tad": Meaning(
            "sum of the gaps between the two best AUROCs of each captured attribute",
            0,
            math.inf,
            title="TAD",
            traits=COUNTED._replace(lowered_by=("duplicated latents", "noise latents", "split factors")),
        ),
        "tad_mean": Meaning(
            "the mean of those gaps",
            0,
            0.5,
            title="mean TAD",
            traits=Traits(
                perfect=None, lowered_by=("duplicated latents", "split factors")
            ),  # latents of other values also detect a value, a little
        ),
        "tad_captured": Meaning(
            "how many attributes are captured",
            0,
            math.inf,
            title="captured attributes",
            traits=COUNTED._replace(raised_by=("split factors",)),
        ),
    },
    measure=measure,
    settings={"samples": TRAIN, "threshold": 0.75, "overlap": 0.2},
    seconds=0.65,
    exact=True,
    default=False,
    takes=frozenset({"holes", "groups", "sparse"}),
)
