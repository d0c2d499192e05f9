"""Explicitness (Ridgeway & Mozer 2018): can a linear classifier read each factor from the whole code?

    explicitness = mean over factors of the mean over their values of the area under the ROC curve

of a logistic regression for each value against the rest, on standardised codes of test rows. `study` gives the area
itself, where chance is 0.5; `paper` rescales it so that chance is 0. `classifier="multinomial"` fits all values of a
factor in one softmax.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from sober.errors import RequestError
from sober.estimators.linear import auc, multinomial, one_vs_rest, softmax
from sober.estimators.scaling import standardised
from sober.metrics.discrete import discretised, has_continuous
from sober.metrics.metric import Meaning, Measured, Metric, Traits
from sober.metrics.rows import TEST, TRAIN, by_factor, split
from sober.shared import Shared
from sober.types import Codes


def measure(
    codes: Codes, shared: Shared, *, seed: int, train: int, test: int, classifier: str, rescaled: bool
) -> Measured:
    if classifier not in ("one_vs_rest", "multinomial"):
        raise RequestError(f"explicitness: classifier must be 'one_vs_rest' or 'multinomial', not {classifier!r}")

    def of_rows(part: Codes) -> Areas:
        return shared(mean_areas, *shared(split, part, train, test, seed), classifier)

    per_factor, rare, dead = by_factor(shared(discretised, codes), shared, of_rows)
    if rescaled:
        per_factor = 2 * per_factor - 1
    value = max(0.0, float(per_factor.mean()))  # an area below 0.5, rescaled, would be negative
    flags = ["rare_class"] * rare + ["binned_factor"] * has_continuous(codes) + ["collapsed"] * dead
    return Measured({"explicitness": value}, tuple(flags), {"explicitness_per_factor": per_factor})


class Areas(NamedTuple):
    """How well each factor is read."""

    per_factor: Float[np.ndarray, " K"]  # the mean over its values
    rare: bool  # whether some value is in one part of the rows only
    dead: bool  # whether no latent varies in the rows that are learned from


def mean_areas(learn: Codes, check: Codes, classifier: str) -> Areas:
    """The mean area of each factor, learned from some rows and tested on others; factors are classes."""
    x, x_test = standardised(learn.mean, check.mean)
    areas = [
        class_areas(x, learn.factors[:, k], x_test, check.factors[:, k], factor.size, classifier)
        for k, factor in enumerate(learn.about)
    ]
    known = [area[np.isfinite(area)] for area in areas]
    per_factor = np.array([area.mean() if len(area) else 0.5 for area in known])  # unknown counts as chance
    rare = any(len(few) < len(all_) for few, all_ in zip(known, areas, strict=True))
    return Areas(per_factor, rare, not np.ptp(learn.mean, axis=0).any())


def class_areas(
    x: Float[np.ndarray, "N D"],
    y: Int[np.ndarray, " N"],
    x_test: Float[np.ndarray, "n D"],
    y_test: Int[np.ndarray, " n"],
    size: int,
    classifier: str,
) -> Float[np.ndarray, " C"]:
    """Area under the ROC curve of each class against the rest, on standardised codes; NaN for one not in both parts."""
    out = np.full(size, np.nan)
    if len(np.unique(y)) < 2:
        return out
    fitted = (one_vs_rest if classifier == "one_vs_rest" else multinomial)(x, y)
    scores = fitted.scores(x_test)
    out[fitted.classes] = auc(softmax(scores) if classifier == "multinomial" else scores, y_test, fitted.classes)
    return out


explicitness = Metric(
    name="explicitness",
    summary="can a linear classifier read each factor from the whole code?",
    reference="Ridgeway & Mozer (2018) Learning Deep Disentangled Embeddings With the F-Statistic Loss",
    scores={
        "explicitness": Meaning(
            "area under the ROC curve of logistic regressions; 0.5 is chance",
            traits=Traits(
                ideal="value", noise=lambda sizes: 0.5, lowered_by=("merged factors",), raised_by=("split factors",)
            ),
        )
    },
    measure=measure,
    settings={"train": TRAIN, "test": TEST, "classifier": "one_vs_rest", "rescaled": False},
    presets={"paper": {"rescaled": True}},
    seconds=0.3,
    takes=frozenset({"holes", "groups"}),
)
