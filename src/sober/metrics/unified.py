"""Unified scores (Locatello et al. 2020, section 6.1): any matrix under any rule.

A supervised score is an estimated matrix (D, K), how much each latent has to do with each factor, and a rule that makes
one number of it. Taking them apart shows whether two scores differ by what they estimate or by what they ask:

    mi/...   mutual information in nats       .../mig                 gap of the two largest, over the factor's entropy
    gbt/...  importance in boosted trees      .../sap                 gap of the two largest
    svm/...  accuracy of one latent alone     .../modularity          1 - what latents have to do with other factors
                                              .../dci_disentanglement 1 - entropy over factors, weighted
                                              .../dci_completeness    1 - entropy over latents, weighted

The parts hold the independent-groups curve and the thresholds at which factors merge, the data of its dendrogram.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from sober.estimators.discrete import BINS, entropy
from sober.metrics.aggregate import (
    completeness_columns,
    disentanglement_rows,
    gap,
    independent_groups,
    merge_thresholds,
    modularity_rows,
    shares,
)
from sober.metrics.dci import importance
from sober.metrics.discrete import discretised, has_continuous
from sober.metrics.matrices import mutual_information, predictability, shortcomings
from sober.metrics.metric import Meaning, Measured, Metric
from sober.metrics.rows import TEST, TRAIN, sample
from sober.types import Codes, Setting


def measure_mi(codes: Codes, *, seed: int, samples: int, bins: int) -> Measured:
    matrix = mutual_information(codes, samples=samples, bins=bins, seed=seed)
    flags = ("binned_factor",) if has_continuous(codes) else ()
    return aggregated("mi", matrix, _entropies(codes, samples, seed), flags)


def measure_gbt(codes: Codes, *, seed: int, train: int, test: int, trees: str) -> Measured:
    matrix = importance(codes, train=train, test=test, trees=trees, seed=seed).importances
    return aggregated("gbt", matrix, _entropies(codes, train, seed), _fitted_flags(codes, train, test, seed))


def measure_svm(codes: Codes, *, seed: int, train: int, test: int, strength: float) -> Measured:
    matrix = predictability(codes, train=train, test=test, strength=strength, seed=seed)
    return aggregated("svm", matrix, _entropies(codes, train, seed), _fitted_flags(codes, train, test, seed))


def _fitted_flags(codes: Codes, train: int, test: int, seed: int) -> tuple[str, ...]:
    return (*shortcomings(codes, train, test, seed), *(["binned_factor"] if has_continuous(codes) else []))


def aggregated(
    name: str, matrix: Float[np.ndarray, "D K"], uncertainty: Float[np.ndarray, " K"], flags: tuple[str, ...] = ()
) -> Measured:
    """One matrix under every rule."""
    varies = uncertainty > 0
    gaps = gap(matrix)
    normalised = np.where(varies, gaps / np.where(varies, uncertainty, 1.0), 0.0)
    values = {
        "mig": normalised[varies].mean() if varies.any() else 0.0,
        "sap": gaps.mean(),
        "modularity": modularity_rows(matrix).mean(),
        "dci_disentanglement": shares(matrix.sum(axis=1)) @ disentanglement_rows(matrix),
        "dci_completeness": shares(matrix.sum(axis=0)) @ completeness_columns(matrix),
    }
    curve = independent_groups(matrix)
    parts = {
        "matrix": matrix,
        "thresholds": curve.thresholds,
        "connected_factors": curve.factors,
        "independent_groups": curve.groups,
        "merge_thresholds": merge_thresholds(matrix),
    }
    degenerate = ["one_latent"] * (len(matrix) == 1) + ["one_factor"] * (matrix.shape[1] == 1)
    degenerate += ["collapsed"] * (not matrix.any())
    return Measured({f"{name}/{rule}": float(v) for rule, v in values.items()}, (*flags, *degenerate), parts)


def _entropies(codes: Codes, rows: int, seed: int) -> Float[np.ndarray, " K"]:
    return entropy(sample(discretised(codes), rows, seed).factors)


def _unified(
    name: str,
    matrix: str,
    measure: Callable[..., Measured],
    settings: dict[str, Setting],
    highest: tuple[float, float],
) -> Metric:
    return Metric(
        name=name,
        summary=f"{matrix}, under each rule",
        reference="Locatello et al. (2020) A Sober Look at the Unsupervised Learning of Disentangled Representations",
        scores={
            f"{name}/mig": Meaning(f"{matrix}: gap of the two largest, over the entropy", 0, highest[0]),
            f"{name}/sap": Meaning(f"{matrix}: gap of the two largest", 0, highest[1]),
            f"{name}/modularity": Meaning(f"{matrix}: 1 - what latents have to do with other factors"),
            f"{name}/dci_disentanglement": Meaning(f"{matrix}: 1 - entropy over factors, weighted"),
            f"{name}/dci_completeness": Meaning(f"{matrix}: 1 - entropy over latents, weighted"),
        },
        measure=measure,
        settings=settings,
    )


mi = _unified("mi", "mutual information", measure_mi, {"samples": TRAIN, "bins": BINS}, (1.0, math.inf))
gbt = _unified(
    "gbt", "tree importance", measure_gbt, {"train": TRAIN, "test": TEST, "trees": "boosted"}, (math.inf, 1.0)
)
svm = _unified("svm", "predictability", measure_svm, {"train": TRAIN, "test": TEST, "strength": 0.01}, (math.inf, 1.0))
