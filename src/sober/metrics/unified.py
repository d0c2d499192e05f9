"""Unified scores (Locatello et al. 2020, section 6.1): do two scores differ by their matrix, or by their rule?

A supervised score is an estimated matrix (D, K) of how much each latent has to do with each factor, and a rule that
makes one number of it. These are all combinations of three matrices and five rules:

    mi/...   mutual information in nats       .../mig                 gap of the two largest, over the factor's entropy
    gbt/...  importance in boosted trees      .../sap                 gap of the two largest
    svm/...  accuracy of one latent alone     .../modularity          1 - what latents have to do with other factors
                                              .../dci_disentanglement 1 - entropy over factors, weighted
                                              .../dci_completeness    1 - entropy over latents, weighted

The parts hold the independent-groups curve and the thresholds at which factors merge, the data of its dendrogram.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from sober.estimators.discrete import BINS
from sober.estimators.wide.wide_tables import is_wide
from sober.metrics.common.aggregation import (
    completeness_columns,
    disentanglement_rows,
    gap,
    independent_groups,
    merge_thresholds,
    modularity_rows,
    shares,
)
from sober.metrics.common.factor_classes import discretised, has_continuous
from sober.metrics.common.information import Information, corrected, counted_information, factor_entropy
from sober.metrics.common.metric_rows import TEST, TRAIN, by_factor, sample
from sober.metrics.common.predictability import fitted_predictability, shortcomings
from sober.metrics.dci import SCREEN, fitted_importance
from sober.metrics.metric import Change, Meaning, Measured, Metric, Traits
from sober.shared import Shared
from sober.types import Codes


def measure_mi(codes: Codes, shared: Shared, *, seed: int, samples: int, bins: int) -> Measured:
    matrix = counted_information(codes, shared, samples, bins, seed).matrix
    uncertainty = _entropies(codes, shared, samples, seed)
    measured = aggregated("mi", matrix, uncertainty, _binned(codes))

    def of_knowing(beyond: Information, knowing: Bool[np.ndarray, " D"]) -> dict[str, float]:
        if not knowing.any():
            return dict.fromkeys(measured.values, 0.0)
        return aggregated("mi", beyond.matrix[knowing], uncertainty, []).values

    return corrected(measured, of_knowing, codes, shared, samples, bins, seed)


def measure_gbt(codes: Codes, shared: Shared, *, seed: int, train: int, test: int, trees: str, screen: int) -> Measured:
    matrix = fitted_importance(codes, shared, train, test, trees, screen, seed).importances
    flags = shortcomings(codes, shared, train, test, seed) + _binned(codes)
    flags += ["screened"] * is_wide(codes.mean)
    return aggregated("gbt", matrix, _entropies(codes, shared, train, seed), flags)


def measure_svm(codes: Codes, shared: Shared, *, seed: int, train: int, test: int, strength: float) -> Measured:
    matrix = fitted_predictability(codes, shared, train, test, strength, seed)
    flags = shortcomings(codes, shared, train, test, seed) + _binned(codes)
    return aggregated("svm", matrix, _entropies(codes, shared, train, seed), flags)


def _binned(codes: Codes) -> list[str]:
    return ["binned_factor"] * has_continuous(codes)


def aggregated(
    name: str, matrix: Float[np.ndarray, "D K"], uncertainty: Float[np.ndarray, " K"], flags: list[str]
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


def _entropies(codes: Codes, shared: Shared, rows: int, seed: int) -> Float[np.ndarray, " K"]:
    return by_factor(
        shared(discretised, codes), shared, lambda subset: factor_entropy(shared(sample, subset, rows, seed))
    )


class Rule(NamedTuple):
    """How a matrix of latents and factors becomes a score."""

    title: str  # its name for people
    summary: str


RULES = {
    "mig": Rule("MIG", "gap of a factor's two largest, divided by the factor's entropy"),
    "sap": Rule("SAP", "gap of a factor's two largest"),
    "modularity": Rule("modularity", "1 - how strongly latents are tied to factors other than their main one"),
    "dci_disentanglement": Rule(
        "DCI disentanglement", "how far each latent serves one factor only: 1 - entropy, weighted"
    ),
    "dci_completeness": Rule("DCI completeness", "how far each factor needs one latent only: 1 - entropy, weighted"),
}


def _scores(
    name: str, matrix: str, traits: Mapping[str, Traits], unbounded: str, published: Collection[str]
) -> dict[str, Meaning]:
    """The meanings of one matrix under each rule. The rule `unbounded` has no upper limit for this matrix.

    The rules in `published` were made for this matrix, so they give the published scores of the same names.
    """
    return {
        f"{name}/{rule_name}": Meaning(
            f"{matrix}: {rule.summary}",
            high=math.inf if rule_name == unbounded else 1.0,
            matrix=name,
            rule=rule_name,
            same_as=rule_name if rule_name in published else "",
            title=f"{rule.title} of {matrix}",
            traits=traits[rule_name],
        )
        for rule_name, rule in RULES.items()
    }


REFERENCE = "Locatello et al. (2020) A Sober Look at the Unsupervised Learning of Disentangled Representations"
DEAD: tuple[Change, ...] = ("dead latent",)  # changes means over latents, and entropies in units of log D

mi = Metric(
    name="mi",
    summary="mutual information of latents and factors, made into scores by five rules",
    short="five rules on mutual information",
    reference=REFERENCE,
    scores=_scores(
        "mi",
        "mutual information",
        {
            "mig": Traits(lowered_by=("duplicated latents", "split factors")),
            "sap": Traits(
                perfect=None, lowered_by=("duplicated latents", "split factors")
            ),  # the best value is the entropy, which depends on the factor
            "modularity": Traits(noise=None, changed_by=DEAD, lowered_by=("noise latents", "merged factors")),
            "dci_disentanglement": Traits(
                noise=None, lowered_by=("merged factors",)
            ),  # for noise, shares of the information left by chance are arbitrary
            "dci_completeness": Traits(
                noise=None, changed_by=DEAD, lowered_by=("duplicated latents", "noise latents", "split factors")
            ),
        },
        unbounded="sap",
        published=("mig", "modularity"),
    ),
    measure=measure_mi,
    settings={"samples": TRAIN, "bins": BINS},
    matrix="mutual information, in nats",
    group="unified",
    seconds=0.02,
    exact=True,
    takes=frozenset({"holes", "groups", "weights", "units", "sparse"}),
)

gbt = Metric(
    name="gbt",
    summary="importance of latents in boosted trees, made into scores by five rules",
    short="five rules on the importance in trees",
    reference=REFERENCE,
    scores=_scores(
        "gbt",
        "tree importance",
        {
            "mig": Traits(
                perfect=None, lowered_by=("duplicated latents", "split factors")
            ),  # a share over an entropy: the best value depends on the number of classes
            "sap": Traits(perfect=0.02, lowered_by=("duplicated latents", "split factors")),
            "modularity": Traits(
                perfect=0.02, noise=None, changed_by=DEAD, lowered_by=("noise latents", "merged factors")
            ),
            "dci_disentanglement": Traits(perfect=0.02, noise_within=0.1, lowered_by=("merged factors",)),
            "dci_completeness": Traits(
                perfect=0.02, noise_within=0.1, changed_by=DEAD, lowered_by=("duplicated latents", "split factors")
            ),
        },
        unbounded="mig",
        published=("dci_disentanglement", "dci_completeness"),
    ),
    measure=measure_gbt,
    settings={"train": TRAIN, "test": TEST, "trees": "boosted", "screen": SCREEN},
    matrix="importance in boosted trees",
    group="unified",
    seconds=1.7,
    reuses="dci",
    takes=frozenset({"holes", "groups", "units", "sparse"}),
)

# Even an uninformative latent is right as often as the commonest class; and the fit is penalised.
PREDICTED = Traits(perfect=None, changed_by=("rescaled latents", "dead latent"))

svm = Metric(
    name="svm",
    summary="how well one latent alone predicts a factor, made into scores by five rules",
    short="five rules on predictions by one latent",
    reference=REFERENCE,
    scores=_scores(
        "svm",
        "predictability",
        {
            "mig": PREDICTED._replace(lowered_by=("duplicated latents", "merged factors", "split factors")),
            "sap": PREDICTED._replace(lowered_by=("duplicated latents", "merged factors", "split factors")),
            "modularity": PREDICTED._replace(
                noise=None, lowered_by=("noise latents", "merged factors", "split factors")
            ),
            "dci_disentanglement": PREDICTED._replace(
                noise_within=0.1, lowered_by=("noise latents", "merged factors", "split factors")
            ),
            "dci_completeness": PREDICTED._replace(
                noise_within=0.1, lowered_by=("duplicated latents", "noise latents", "split factors")
            ),
        },
        unbounded="mig",
        published=("sap",),
    ),
    measure=measure_svm,
    settings={"train": TRAIN, "test": TEST, "strength": 0.01},
    matrix="predictability, linear SVM",
    group="unified",
    seconds=0.035,
    takes=frozenset({"holes", "groups", "units", "sparse"}),
)
