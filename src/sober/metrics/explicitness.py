"""Explicitness (Ridgeway & Mozer 2018): can a linear classifier read each factor from the whole code?

    explicitness = mean over factors of the mean over their values of the area under the ROC curve

of a logistic regression for each value against the rest, on standardised codes of test rows. `study` gives the area
itself, where chance is 0.5; `paper` rescales it so that chance is 0. `classifier="multinomial"` fits all values of a
factor in one softmax.

Of more than 512 latents, which explain anything in sample, each penalty is chosen on every fifth training row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from sober.errors import RequestError
from sober.estimators.columns import WIDE, is_wide, spread
from sober.estimators.linear import auc, multinomial, one_vs_rest, softmax
from sober.estimators.scaling import standardised
from sober.estimators.wide_linear import wide_logits
from sober.metrics.discrete import discretised, has_continuous
from sober.metrics.metric import Meaning, Measured, Metric, NotMeasuredError, Traits
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
    flags += ["chosen_penalty"] * is_wide(codes.mean)
    return Measured({"explicitness": value}, tuple(flags), {"explicitness_per_factor": per_factor})


class Areas(NamedTuple):
    """How well each factor is read."""

    per_factor: Float[np.ndarray, " K"]  # the mean over its values
    rare: bool  # whether some value is in one part of the rows only
    dead: bool  # whether no latent varies in the rows that are learned from


def mean_areas(learn: Codes, check: Codes, classifier: str) -> Areas:
    """The mean area of each factor, learned from some rows and tested on others; factors are classes."""
    areas = (wide_areas if is_wide(learn.mean) else narrow_areas)(learn, check, classifier)
    known = [area[np.isfinite(area)] for area in areas]
    per_factor = np.array([area.mean() if len(area) else 0.5 for area in known])  # unknown counts as chance
    rare = any(len(few) < len(all_) for few, all_ in zip(known, areas, strict=True))
    return Areas(per_factor, rare, not spread(learn.mean).any())


def narrow_areas(learn: Codes, check: Codes, classifier: str) -> list[Float[np.ndarray, " C"]]:
    """The areas of every factor's values, by classifiers at their exact optimum."""
    x, x_test = standardised(learn.mean, check.mean)
    return [
        class_areas(x, learn.factors[:, k], x_test, check.factors[:, k], factor.size, classifier)
        for k, factor in enumerate(learn.about)
    ]


def wide_areas(learn: Codes, check: Codes, classifier: str) -> list[Float[np.ndarray, " C"]]:
    """The same of more latents than can stand beside each other: all classifiers at once, each penalty chosen."""
    if classifier != "one_vs_rest":
        raise NotMeasuredError(f"of more than {WIDE} latents there is no multinomial form: classifier='one_vs_rest'")
    out = []
    for k, logits in enumerate(read_out(learn, check)):
        areas = auc(logits.T, check.factors[:, k], np.arange(len(logits)))
        count = np.bincount(learn.factors[:, k], minlength=len(logits))
        out.append(np.where((count > 0) & (count < len(learn.factors)), areas, np.nan))
    return out


def read_out(learn: Codes, check: Codes) -> list[Float[np.ndarray, "C n"]]:
    """Logits of each value of each factor on the rows to check, by penalised logistic regressions of the wide code.

    Of two values one is asked for, and the other has the opposite.
    """
    asked = [range(factor.size) if factor.size > 2 else (1,) for factor in learn.about]
    own = [learn.factors[:, k] == value for k, values in enumerate(asked) for value in values]
    logits = wide_logits(learn.mean, np.array(own), check.mean, learn.groups)
    parts = np.split(logits, np.cumsum([len(values) for values in asked])[:-1])
    return [part if len(part) > 1 else np.concatenate([-part, part]) for part in parts]


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
    takes=frozenset({"holes", "groups", "units", "sparse"}),
)
