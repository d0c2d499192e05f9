"""DCI-ES (Eastwood et al. 2023): how simple a probe reads the factors from the code, and how many latents it needs.

Random forests of growing depth c predict each factor; their test losses make a curve.

    explicitness    mean over factors of 1 - 2 A_k / ((c_max - c_min) · base_k)
    informativeness the best depth's mean test score
    size            K / the number of latents that the best forests use, at most 1
    disentanglement, completeness: those of DCI, from the importances of the best forests

A_k is the area between the running minimum of the test loss and its smallest value: a curve that is at its best from
the start has 1. So has one that is bad from start to end: explicitness says nothing without informativeness. The loss
of a category is 1 - accuracy, with base 1 - 1/n_k; of all other factors 1 - R², with base 1. The best depth is the
one with the highest test score, averaged over factors.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from sober.errors import RequestError
from sober.estimators.capacity import curve_explicitness
from sober.estimators.predictors import points
from sober.estimators.ridge import explained
from sober.estimators.scaling import in_float32
from sober.metrics.aggregate import completeness_columns, disentanglement_rows, shares
from sober.metrics.matrices import shortcomings
from sober.metrics.metric import Change, Meaning, Measured, Metric, Traits
from sober.metrics.rows import by_factor, split
from sober.metrics.shapes import at_most, unit_sums
from sober.shared import Shared
from sober.types import Codes, Factor

WIDEST = 1_024  # latents
DEPTHS = (1, 2, 3, 4, 8, 10, 12, 14, 16, 18, 20, 32)  # of the authors' experiments

SMALL = 20_000  # rows of all trees together, below which starting threads takes longer than growing the trees


class Probe(NamedTuple):
    """Forests of one depth, one for each factor: how good they are on test rows, and what they looked at."""

    scores: Float[np.ndarray, " K"]  # accuracy of a category, R² of any other factor
    importances: Float[np.ndarray, "D K"]


def measure(codes: Codes, shared: Shared, *, seed: int, train: int, test: int, trees: int, deepest: int) -> Measured:
    at_most(codes, WIDEST, "its forests try every latent at every split")
    depths = [depth for depth in DEPTHS if depth <= deepest]
    if len(depths) < 2:
        raise RequestError(f"dci_es: deepest must be at least 2, not {deepest}: one depth makes no curve")
    probes = [fitted_probe(codes, shared, train, test, depth, int(trees), seed) for depth in depths]
    scores = np.array([one.scores for one in probes])  # (C, K)
    base = np.array([1 - 1 / factor.size if factor.kind == "categorical" else 1.0 for factor in codes.about])
    capacity = np.array(depths, float)
    explicit = np.array([curve_explicitness(capacity, 1 - scores[:, k], base[k]) for k in range(len(base))])
    best = int(np.argmax(scores.mean(axis=1)))
    matrix = probes[best].importances
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


def fitted_probe(codes: Codes, shared: Shared, train: int, test: int, depth: int, trees: int, seed: int) -> Probe:
    """Forests of one depth, each learned from some of the rows that know its factor and tested on others."""

    def of_rows(part: Codes) -> Probe:
        return shared(probe, *shared(split, part, train, test, seed), depth, trees, seed)

    return by_factor(codes, shared, of_rows)


def probe(learn: Codes, check: Codes, depth: int, trees: int, seed: int) -> Probe:
    """A forest of this depth for each factor."""
    scores, columns = [], []
    x, x_test = in_float32(learn.mean, check.mean)
    for k, factor in enumerate(learn.about):
        target, truth = (_targets(factor, codes.factors[:, k]) for codes in (learn, check))
        if not np.ptp(target, axis=0).any():  # nothing to learn: the one value is guessed
            scores.append(float(np.mean(truth == target[0])) if factor.kind == "categorical" else 0.0)
            columns.append(np.zeros(learn.mean.shape[1]))
            continue
        model = _forest(factor, depth, trees, seed, len(target)).fit(x, target)
        guess = model.predict(x_test)
        if factor.kind == "categorical":
            scores.append(float(np.mean(guess == truth)))
        else:
            scores.append(explained(guess.reshape(len(truth), -1), truth.reshape(len(truth), -1)))
        columns.append(np.abs(model.feature_importances_))
    return Probe(np.array(scores), unit_sums(np.stack(columns), learn.unit).T)


def _targets(factor: Factor, column: np.ndarray) -> np.ndarray:
    """Classes of a category; otherwise the numbers, or the points on a circle, that are regressed."""
    if factor.kind == "categorical":
        return column.astype(np.int64)
    values = points(factor, column)
    return values[:, 0] if values.shape[1] == 1 else values


def _forest(factor: Factor, depth: int, trees: int, seed: int, rows: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor  # noqa: PLC0415

    kind = RandomForestClassifier if factor.kind == "categorical" else RandomForestRegressor
    return kind(trees, max_depth=depth, random_state=seed, n_jobs=-1 if trees * rows > SMALL else 1)


DEAD: tuple[Change, ...] = ("dead latent",)  # completeness is in units of the logarithm of the number of latents
# Of noise, the forests' curve is flat and their importances have any shape.
FITTED = Traits(perfect=0.05, noise=None)

dci_es = Metric(
    name="dci_es",
    summary="how simple a probe reads the factors from the code, and how many latents does it need?",
    reference="Eastwood et al. (2023) DCI-ES, An Extended Disentanglement Framework with Connections to "
    "Identifiability",
    scores={
        "dci_es_explicitness": Meaning(
            "how early the probes' loss is at its best as their capacity grows",
            -math.inf,
            without_factors=0.0,
            traits=FITTED._replace(
                perfect=0.2, changed_by=("merged factors",)
            ),  # a tree of one cut cannot tell five values apart, however good the code
        ),
        "dci_es_informativeness": Meaning(
            "how well the best probes predict", traits=FITTED._replace(lowered_by=("merged factors",))
        ),
        "dci_es_size": Meaning(
            "factors over latents used",
            traits=FITTED._replace(perfect=1e-6, lowered_by=("duplicated latents", "split factors")),
        ),
        "dci_es_disentanglement": Meaning(
            "1 - entropy over factors of each latent's importance",
            traits=FITTED._replace(lowered_by=("merged factors",)),
        ),
        "dci_es_completeness": Meaning(
            "1 - entropy over latents of each factor's importance",
            traits=FITTED._replace(changed_by=DEAD, lowered_by=("duplicated latents", "split factors")),
        ),
    },
    measure=measure,
    settings={"train": 2_000, "test": 1_000, "trees": 100, "deepest": 32},
    quick={"train": 300, "test": 150, "trees": 5, "deepest": 3},
    seconds=25.0,
    default=False,
    takes=frozenset({"holes", "groups", "units"}),
)
