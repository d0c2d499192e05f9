"""The best single latent (Karvonen et al. 2024): how well does the best single latent detect each value of a factor?

    F1  = 2 · rows named rightly / (rows named + rows with the value)
    AUC = how often a row with the value ranks above a row without it; ties count a half

A latent names the rows above a threshold, or the rows below it. The latent, threshold and direction of the largest F1
are chosen on one half of the rows (`by="auc"`: the largest AUC), and F1 and AUC are measured on the other half. A
factor with two values is measured by its second value, a factor with more by the mean over its values; the score is the
mean over factors. If a share p of the rows has a value, a latent that names every row has an F1 of 2p / (1 + p).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from sober.errors import RequestError
from sober.estimators.detection import auc_of, detectors, f1_of
from sober.estimators.wide.wide_tables import by_column, spread, taken
from sober.metrics.common.factor_classes import discretised, has_continuous
from sober.metrics.common.metric_rows import TRAIN, by_factor, halves
from sober.metrics.metric import Meaning, Measured, Metric, Traits
from sober.shared import Shared
from sober.types import Codes


def measure(codes: Codes, shared: Shared, *, seed: int, samples: int, held_out: str, by: str) -> Measured:
    if by not in ("f1", "auc"):
        raise RequestError(f"best_latent: by must be 'f1' or 'auc', not {by!r}")

    classed = shared(discretised, codes)
    largest = max(factor.size for factor in classed.about)

    def of_rows(subset: Codes) -> Best:
        return best_detectors(*shared(halves, subset, samples, held_out, seed), by, largest)

    best = by_factor(classed, shared, of_rows)
    looked_for = best.latent >= 0
    f1_per_factor, auc_per_factor = (np.sum(table, axis=0) / looked_for.sum(axis=0) for table in (best.f1, best.auc))
    values = {"best_latent_f1": float(f1_per_factor.mean()), "best_latent_auc": float(auc_per_factor.mean())}
    dead = spread(codes.mean) == 0
    flags = ["binned_factor"] * has_continuous(codes) + ["rare_class"] * best.rare
    flags += ["dead_latent"] * bool(dead.any()) + ["collapsed"] * bool(dead.all())
    parts = {
        "f1_per_factor": f1_per_factor,
        "auc_per_factor": auc_per_factor,
        "f1_per_value": best.f1,
        "auc_per_value": best.auc,
        "latent": best.latent,
        "threshold": best.threshold,
        "above": best.above,
    }
    return Measured(values, tuple(flags), parts)


class Best(NamedTuple):
    """The best detector of each value of each factor; row v is value v.

    A value that was not looked for has latent -1, and 0 elsewhere.
    """

    f1: Float[np.ndarray, "V K"]
    auc: Float[np.ndarray, "V K"]
    latent: Int[np.ndarray, "V K"]
    threshold: Float[np.ndarray, "V K"]
    above: Bool[np.ndarray, "V K"]  # whether it names rows at or above the threshold, or at or below it
    rare: bool  # whether some value is missing from one half


def best_detectors(learn: Codes, check: Codes, by: str, largest: int) -> Best:
    """Chooses detectors on some rows and measures them on others.

    Factors must be classes, and have at most `largest` values.
    """
    targets = [(value, k) for k, factor in enumerate(learn.about)
             for value in (range(factor.size) if factor.size > 2 else (1,))]  # fmt: skip
    truth, answer = (np.stack([rows.factors[:, k] == value for value, k in targets], axis=1) for rows in (learn, check))
    candidates = detectors(learn.mean, truth)
    quality = candidates.f1 if by == "f1" else np.maximum(candidates.auc, 1 - candidates.auc)
    latent = quality.argmax(axis=0)
    shape, columns = (largest, len(learn.about)), by_column(check.mean)
    rare = bool((truth.any(axis=0) != answer.any(axis=0)).any())
    out = Best(np.zeros(shape), np.zeros(shape), np.full(shape, -1), np.zeros(shape), np.full(shape, False), rare)
    for a, target in enumerate(targets):
        j = latent[a]
        column, limit, above = taken(columns, slice(j, j + 1))[:, 0], candidates.threshold[j, a], candidates.above[j, a]
        detected = column >= limit if above else column <= limit
        upwards = above if by == "f1" else candidates.auc[j, a] >= 0.5
        out.f1[target], out.auc[target] = (
            f1_of(detected, answer[:, a]),
            auc_of(column if upwards else -column, answer[:, a]),
        )
        out.latent[target], out.threshold[target], out.above[target] = j, limit, above
    return out


best_latent = Metric(
    name="best_latent",
    summary="how well does the best single latent detect each value of a factor?",
    short="how well does one latent detect a value?",
    reference="Karvonen et al. (2024) Measuring Progress in Dictionary Learning for Language Model Interpretability "
    "with Board Game Models",
    scores={
        "best_latent_f1": Meaning(
            "F1 of the best latent and threshold, on held-out rows",
            # Naming every row is right as often as rows have the value.
            title="F1 of the best latent",
            traits=Traits(
                ideal="value",
                noise=lambda sizes: float(np.mean([2 / (size + 1) for size in sizes])),
                lowered_by=("merged factors",),
            ),
        ),
        "best_latent_auc": Meaning(
            "area under the ROC curve of that latent; 0.5 is chance",
            title="AUC of the best latent",
            traits=Traits(ideal="value", noise=lambda sizes: 0.5, lowered_by=("merged factors",)),
        ),
    },
    measure=measure,
    settings={"samples": TRAIN, "held_out": "drawn", "by": "f1"},
    presets={"paper": {"held_out": "none"}},
    seconds=0.1,
    default=False,
    takes=frozenset({"holes", "groups", "sparse"}),
)
