"""DCI-ES (Eastwood et al. 2023): how simple can a model that predicts the factors be, and how many latents does it use?

Random forests of growing depth c predict each factor, and their test losses make a curve. One forest is grown for each
factor, and read at every depth.

    explicitness    mean over factors of 1 - 2 A_k / ((c_max - c_min) · base_k)
    informativeness the best depth's mean test score
    size            K / the number of latents that the best forests use, at most 1
    disentanglement, completeness: as in DCI, from the importances of the best forests

A_k is the area between the running minimum of the test loss and its smallest value. A curve that starts at its best
has explicitness 1; so does a curve that is bad throughout, so explicitness means nothing without informativeness.
The loss of a categorical factor is 1 - accuracy, with base 1 - 1/n_k. Other factors have the loss 1 - R², with base 1.
The best depth has the highest test score, averaged over factors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from sober.errors import RequestError
from sober.estimators.capacity import curve_explicitness
from sober.estimators.forests import SortedColumns, grown
from sober.estimators.predictors import points
from sober.estimators.ridge import explained
from sober.estimators.scaling import in_float32
from sober.metrics.common.aggregation import completeness_columns, disentanglement_rows, shares
from sober.metrics.common.metric_rows import by_factor, split
from sober.metrics.common.predictability import shortcomings
from sober.metrics.common.shapes import at_most, unit_sums
from sober.metrics.metric import Change, Meaning, Measured, Metric, Traits
from sober.shared import Shared
from sober.types import Codes, Factor

WIDEST = 1_024  # latents
DEPTHS = (1, 2, 3, 4, 8, 10, 12, 14, 16, 18, 20, 32)  # of the authors' experiments


class Probes(NamedTuple):
    """Forests of each depth, one for each factor: their test scores and importances."""

    scores: Float[np.ndarray, "C K"]  # accuracy of a category, R² of any other factor
    importances: Float[np.ndarray, "C D K"]


def measure(codes: Codes, shared: Shared, *, seed: int, train: int, test: int, trees: int, deepest: int) -> Measured:
    at_most(codes, WIDEST, "its forests try every latent at every split")
    depths = [depth for depth in DEPTHS if depth <= deepest]
    if len(depths) < 2:
        raise RequestError(f"dci_es: deepest must be at least 2, not {deepest}: one depth makes no curve")

    def of_rows(subset: Codes) -> Probes:
        return probes(*shared(split, subset, train, test, seed), depths, int(trees), seed)

    scores, importances = by_factor(codes, shared, of_rows)
    base = np.array([1 - 1 / factor.size if factor.kind == "categorical" else 1.0 for factor in codes.about])
    capacity = np.array(depths, float)
    explicit = np.array([curve_explicitness(capacity, 1 - scores[:, k], base[k]) for k in range(len(base))])
    best = int(np.argmax(scores.mean(axis=1)))
    matrix = importances[best]
    rows, columns = disentanglement_rows(matrix), completeness_columns(matrix)
    used = int((matrix.sum(axis=1) > 0).sum())
    values = {
        "dci_es_explicitness": explicit.mean(),
        "dci_es_informativeness": max(0.0, scores[best].mean()),
        "dci_es_size": min(1.0, len(base) / used) if used else 0.0,
        "dci_es_disentanglement": shares(matrix.sum(axis=1)) @ rows,
        "dci_es_completeness": shares(matrix.sum(axis=0)) @ columns,
    }
    flags = shortcomings(codes, shared, train, test, seed) + ["one_latent"] * (len(matrix) == 1)
    flags += ["one_factor"] * (matrix.shape[1] == 1) + ["few_latents"] * (0 < used < len(base))
    parts = {
        "importance": matrix,
        "capacity": capacity,
        "test_score": scores,
        "explicitness_per_factor": explicit,
        "informativeness_per_factor": scores[best],
        "best_depth": np.asarray(depths[best]),
    }
    return Measured({name: float(value) for name, value in values.items()}, tuple(flags), parts)


def probes(learn: Codes, check: Codes, depths: Sequence[int], trees: int, seed: int) -> Probes:
    """A forest for each factor, stopped at each depth."""
    scores, columns = [], []  # (C,) and (C, D) for each factor
    x, x_test = in_float32(learn.mean, check.mean)
    table = SortedColumns.of(x)
    for k, factor in enumerate(learn.about):
        target, truth = (_targets(factor, codes.factors[:, k]) for codes in (learn, check))
        if not np.ptp(target, axis=0).any():  # nothing to learn: predict the only value
            right = float(np.mean(truth == target[0])) if factor.kind == "categorical" else 0.0
            scores.append(np.full(len(depths), right))
            columns.append(np.zeros((len(depths), x.shape[1])))
            continue
        forest = grown(table, target, trees=trees, depth=max(depths), seed=seed)
        guesses = forest.predict_at(x_test, depths)  # (C, n, m)
        if factor.kind == "categorical":
            scores.append(np.mean(forest.labels[guesses.argmax(axis=2)] == truth, axis=1))
        else:
            scores.append(np.array([explained(guess, truth.reshape(len(truth), -1)) for guess in guesses]))
        columns.append(forest.importances_at(depths))
    importances = [unit_sums(np.stack([column[c] for column in columns]), learn.unit).T for c in range(len(depths))]
    return Probes(np.stack(scores, axis=1), np.stack(importances))


def _targets(factor: Factor, column: np.ndarray) -> np.ndarray:
    """The targets of a forest: classes of a categorical factor, otherwise numbers, or points on a circle."""
    if factor.kind == "categorical":
        return column.astype(np.int64)
    values = points(factor, column)
    return values[:, 0] if values.shape[1] == 1 else values


DEAD: tuple[Change, ...] = ("dead latent",)  # completeness is in units of the logarithm of the number of latents
# For noise, the forests' curve is flat and their importances are arbitrary.
FITTED = Traits(perfect=0.05, noise=None)

dci_es = Metric(
    name="dci_es",
    summary="how simple can a model that predicts the factors be, and how many latents does it use?",
    short="how simple and small can predictors be?",
    reference="Eastwood et al. (2023) DCI-ES, An Extended Disentanglement Framework with Connections to "
    "Identifiability",
    scores={
        "dci_es_explicitness": Meaning(
            "how little depth the forests need for their best loss",
            -math.inf,
            title="DCI-ES explicitness",
            without_factors=0.0,
            traits=FITTED._replace(
                perfect=0.2, changed_by=("merged factors",)
            ),  # a tree with one cut cannot tell five values apart, however good the code
        ),
        "dci_es_informativeness": Meaning(
            "test score of the best forests",
            title="DCI-ES informativeness",
            traits=FITTED._replace(lowered_by=("merged factors",)),
        ),
        "dci_es_size": Meaning(
            "number of factors, divided by the number of latents that the best forests use",
            title="DCI-ES size",
            traits=FITTED._replace(perfect=1e-6, lowered_by=("duplicated latents", "split factors")),
        ),
        "dci_es_disentanglement": Meaning(
            "how far each latent serves one factor only: 1 - entropy of its importances, weighted",
            title="DCI-ES disentanglement",
            traits=FITTED._replace(lowered_by=("merged factors",)),
        ),
        "dci_es_completeness": Meaning(
            "how far each factor needs one latent only: 1 - entropy of its importances, weighted",
            title="DCI-ES completeness",
            traits=FITTED._replace(changed_by=DEAD, lowered_by=("duplicated latents", "split factors")),
        ),
    },
    measure=measure,
    settings={"train": 2_000, "test": 1_000, "trees": 100, "deepest": 32},
    version=2,  # forests of our own; scikit-learn's before
    quick={"train": 300, "test": 150, "trees": 5, "deepest": 3},
    seconds=0.7,
    default=False,
    takes=frozenset({"holes", "groups", "units"}),
)
