"""The best single latent (Karvonen et al. 2024): how well is each value of a factor told by one latent alone?

    F1  = 2 · rightly named / (named + rows that have the value)
    AUC = how often a row that has the value ranks above one that has not; ties count a half

A latent names the rows beyond a threshold, above or below it. The latent, its threshold and its direction are those
with the largest F1 on one half of the rows (`by="auc"`: the largest AUC); both are measured on the other half. A factor
with two values is asked for its second, one with more for each value; the mean over values is that of the factor, and
the mean over factors the score. Naming every row has an F1 of 2p / (1 + p) for a value that a share p of the rows has.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from sober.errors import RequestError
from sober.estimators.columns import by_column, spread, taken
from sober.estimators.detection import auc_of, detectors, f1_of
from sober.metrics.discrete import discretised, has_continuous
from sober.metrics.metric import Meaning, Measured, Metric, Traits
from sober.metrics.rows import TRAIN, by_factor, halves
from sober.shared import Shared
from sober.types import Codes


def measure(codes: Codes, shared: Shared, *, seed: int, samples: int, held_out: str, by: str) -> Measured:
    if by not in ("f1", "auc"):
        raise RequestError(f"best_latent: by must be 'f1' or 'auc', not {by!r}")

    classed = shared(discretised, codes)
    most = max(factor.size for factor in classed.about)

    def of_rows(part: Codes) -> Best:
        return best_detectors(*shared(halves, part, samples, held_out, seed), by, most)

    found = by_factor(classed, shared, of_rows)
    values = {"best_latent_f1": float(np.nanmean(found.f1, axis=0).mean()),
              "best_latent_auc": float(np.nanmean(found.auc, axis=0).mean())}  # fmt: skip
    dead = spread(codes.mean) == 0
    flags = ["binned_factor"] * has_continuous(codes) + ["rare_class"] * found.rare
    flags += ["dead_latent"] * bool(dead.any()) + ["collapsed"] * bool(dead.all())
    parts = {
        "f1_per_factor": np.nanmean(found.f1, axis=0),
        "auc_per_factor": np.nanmean(found.auc, axis=0),
        "f1_per_value": found.f1,
        "auc_per_value": found.auc,
        "latent": found.latent,
        "threshold": found.threshold,
        "above": found.above,
    }
    return Measured(values, tuple(flags), parts)


class Best(NamedTuple):
    """The best detector of each value of each factor; row v is value v. NaN, or -1, where a value is not asked for."""

    f1: Float[np.ndarray, "V K"]
    auc: Float[np.ndarray, "V K"]
    latent: Int[np.ndarray, "V K"]
    threshold: Float[np.ndarray, "V K"]
    above: Bool[np.ndarray, "V K"]  # whether the value is said of rows at or above the threshold, or at or below
    rare: bool  # whether some value is in one half only


def best_detectors(learn: Codes, check: Codes, by: str, most: int) -> Best:
    """Chosen on some rows and measured on others; factors are classes, `most` of them at most."""
    asked = [(value, k) for k, factor in enumerate(learn.about)
             for value in (range(factor.size) if factor.size > 2 else (1,))]  # fmt: skip
    truth, answer = (np.stack([part.factors[:, k] == value for value, k in asked], axis=1) for part in (learn, check))
    found = detectors(learn.mean, truth)
    good = found.f1 if by == "f1" else np.maximum(found.auc, 1 - found.auc)
    latent = good.argmax(axis=0)
    shape, columns = (most, len(learn.about)), by_column(check.mean)
    out = Best(np.full(shape, np.nan), np.full(shape, np.nan), np.full(shape, -1), np.full(shape, np.nan),
               np.full(shape, False), bool((truth.any(axis=0) != answer.any(axis=0)).any()))  # fmt: skip
    for a, at in enumerate(asked):
        j = latent[a]
        column, limit, above = taken(columns, slice(j, j + 1))[:, 0], found.threshold[j, a], found.above[j, a]
        named = column >= limit if above else column <= limit
        upwards = above if by == "f1" else found.auc[j, a] >= 0.5
        out.f1[at], out.auc[at] = f1_of(named, answer[:, a]), auc_of(column if upwards else -column, answer[:, a])
        out.latent[at], out.threshold[at], out.above[at] = j, limit, above
    return out


best_latent = Metric(
    name="best_latent",
    summary="how well is each value of a factor told by the best single latent?",
    reference="Karvonen et al. (2024) Measuring Progress in Dictionary Learning for Language Model Interpretability "
    "with Board Game Models",
    scores={
        "best_latent_f1": Meaning(
            "F1 of the best latent and threshold, on rows that did not choose them",
            # Naming every row is right as often as the value is there.
            traits=Traits(
                ideal="value",
                noise=lambda sizes: float(np.mean([2 / (size + 1) for size in sizes])),
                lowered_by=("merged factors",),
            ),
        ),
        "best_latent_auc": Meaning(
            "area under the ROC curve of that latent; 0.5 is chance",
            traits=Traits(ideal="value", noise=lambda sizes: 0.5, lowered_by=("merged factors",)),
        ),
    },
    measure=measure,
    settings={"samples": TRAIN, "held_out": "drawn", "by": "f1"},
    presets={"paper": {"held_out": "none"}},
    seconds=0.05,
    default=False,
    takes=frozenset({"holes", "groups", "sparse"}),
)
