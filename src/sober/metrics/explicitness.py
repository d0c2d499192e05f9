"""Explicitness (Ridgeway & Mozer 2018): can a linear classifier read each factor from the whole code?

    explicitness = mean over factors of the mean over their values of the area under the ROC curve

A logistic regression for each value against the rest gives the curve, on standardised codes of test rows. `study` gives
the area itself, where chance is 0.5; `paper` rescales it so that chance is 0. `classifier="multinomial"` fits all
values of a factor in one softmax.

More than 512 latents would explain any training row, so each penalty is then chosen on every fifth training row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from sober.errors import NotMeasuredError, RequestError
from sober.estimators.linear import auc, multinomial, one_vs_rest, softmax
from sober.estimators.scaling import standardised
from sober.estimators.wide.wide_linear import wide_logits
from sober.estimators.wide.wide_tables import WIDE, is_wide, spread
from sober.metrics.common.factor_classes import discretised, has_continuous
from sober.metrics.common.metric_rows import TEST, TRAIN, by_factor, split
from sober.metrics.metric import Meaning, Measured, Metric, Traits
from sober.shared import Shared
from sober.types import Codes


def measure(
    codes: Codes, shared: Shared, *, seed: int, train: int, test: int, classifier: str, rescaled: bool
) -> Measured:
    if classifier not in ("one_vs_rest", "multinomial"):
        raise RequestError(f"explicitness: classifier must be 'one_vs_rest' or 'multinomial', not {classifier!r}")

    def of_rows(subset: Codes) -> Areas:
        return shared(mean_areas, *shared(split, subset, train, test, seed), classifier)

    per_factor, rare, dead, stopped = by_factor(shared(discretised, codes), shared, of_rows)
    if rescaled:
        per_factor = 2 * per_factor - 1
    value = max(0.0, float(per_factor.mean()))  # an area below 0.5 is negative when rescaled
    flags = ["rare_class"] * rare + ["binned_factor"] * has_continuous(codes) + ["collapsed"] * dead
    flags += ["chosen_penalty"] * is_wide(codes.mean) + ["not_converged"] * stopped
    return Measured({"explicitness": value}, tuple(flags), {"explicitness_per_factor": per_factor})


class Areas(NamedTuple):
    """Areas under the ROC curve of each factor."""

    per_factor: Float[np.ndarray, " K"]  # the mean over its values
    rare: bool  # whether some value is missing from the training or the test rows
    dead: bool  # whether no latent varies in the training rows
    stopped: bool  # whether some classifier stopped before its optimum


def mean_areas(learn: Codes, check: Codes, classifier: str) -> Areas:
    """The mean area of each factor, learned from some rows and tested on others. Factors must be classes."""
    areas, converged = (wide_areas if is_wide(learn.mean) else narrow_areas)(learn, check, classifier)
    finite = [area[np.isfinite(area)] for area in areas]
    per_factor = np.array([area.mean() if len(area) else 0.5 for area in finite])  # chance, if no value has an area
    rare = any(len(some_values) < len(all_values) for some_values, all_values in zip(finite, areas, strict=True))
    return Areas(per_factor, rare, not spread(learn.mean).any(), not converged)


def narrow_areas(learn: Codes, check: Codes, classifier: str) -> tuple[list[Float[np.ndarray, " C"]], bool]:
    """The areas of every factor's values, by classifiers fitted to their exact optimum, and whether all reached it."""
    x, x_test = standardised(learn.mean, check.mean)
    fits = [
        class_areas(x, learn.factors[:, k], x_test, check.factors[:, k], factor.size, classifier)
        for k, factor in enumerate(learn.about)
    ]
    return [areas for areas, _ in fits], all(converged for _, converged in fits)


def wide_areas(learn: Codes, check: Codes, classifier: str) -> tuple[list[Float[np.ndarray, " C"]], bool]:
    """The areas for wide codes: all classifiers are fitted at once, each with a chosen penalty."""
    if classifier != "one_vs_rest":
        raise NotMeasuredError(f"more than {WIDE} latents have no multinomial form: pass classifier='one_vs_rest'")
    out = []
    for k, logits in enumerate(read_out(learn, check)):
        areas = auc(logits.T, check.factors[:, k], np.arange(len(logits)))
        count = np.bincount(learn.factors[:, k], minlength=len(logits))
        out.append(np.where((count > 0) & (count < len(learn.factors)), areas, np.nan))
    return out, True


def read_out(learn: Codes, check: Codes) -> list[Float[np.ndarray, "C n"]]:
    """Logits of each value of each factor on the test rows, by penalised logistic regressions of a wide code.

    A factor with two values needs one regression: the logits of the other value are the negatives.
    """
    target_values = [range(factor.size) if factor.size > 2 else (1,) for factor in learn.about]
    has_value = [learn.factors[:, k] == value for k, values in enumerate(target_values) for value in values]
    logits = wide_logits(learn.mean, np.array(has_value), check.mean, learn.groups)
    by_factor = np.split(logits, np.cumsum([len(values) for values in target_values])[:-1])
    return [of_factor if len(of_factor) > 1 else np.concatenate([-of_factor, of_factor]) for of_factor in by_factor]


def class_areas(
    x: Float[np.ndarray, "N D"],
    y: Int[np.ndarray, " N"],
    x_test: Float[np.ndarray, "n D"],
    y_test: Int[np.ndarray, " n"],
    size: int,
    classifier: str,
) -> tuple[Float[np.ndarray, " C"], bool]:
    """The area of each class against the rest, on standardised codes; NaN if training or test rows lack the class.

    And whether the classifier reached its optimum.
    """
    out = np.full(size, np.nan)
    if len(np.unique(y)) < 2:
        return out, True
    fitted = (one_vs_rest if classifier == "one_vs_rest" else multinomial)(x, y)
    scores = fitted.scores(x_test)
    out[fitted.classes] = auc(softmax(scores) if classifier == "multinomial" else scores, y_test, fitted.classes)
    return out, fitted.converged


explicitness = Metric(
    name="explicitness",
    summary="can a linear classifier read each factor from the whole code?",
    short="can factors be read linearly from codes?",
    reference="Ridgeway & Mozer (2018) Learning Deep Disentangled Embeddings With the F-Statistic Loss",
    scores={
        "explicitness": Meaning(
            "area under the ROC curve of a linear classifier for each value of a factor; 0.5 is chance",
            title="explicitness",
            traits=Traits(
                ideal="value", noise=lambda sizes: 0.5, lowered_by=("merged factors",), raised_by=("split factors",)
            ),
        )
    },
    measure=measure,
    settings={"train": TRAIN, "test": TEST, "classifier": "one_vs_rest", "rescaled": False},
    presets={"paper": {"rescaled": True}},
    seconds=0.15,
    takes=frozenset({"holes", "groups", "units", "sparse"}),
)
