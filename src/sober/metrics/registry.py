"""Metrics, by name. To add one: one file here, one line below, one test."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from sober.contracts import find
from sober.errors import unknown
from sober.metrics.active_latents import active_latents
from sober.metrics.aggregate_total_correlation import aggregate_total_correlation
from sober.metrics.best_latent import best_latent
from sober.metrics.beta_vae import beta_vae
from sober.metrics.dci import dci
from sober.metrics.dci_es import dci_es
from sober.metrics.dci_paper import dci_forest, dci_lasso
from sober.metrics.dcimig import dcimig
from sober.metrics.edi import edi
from sober.metrics.explicitness import explicitness
from sober.metrics.factor_vae import factor_vae
from sober.metrics.gaussian_total_correlation import gaussian_total_correlation
from sober.metrics.infomec import infomec
from sober.metrics.irs import irs
from sober.metrics.jemmig import jemmig
from sober.metrics.mcc import mcc
from sober.metrics.med import med
from sober.metrics.metric import Meaning, Metric
from sober.metrics.mig import mig
from sober.metrics.mig_sup import mig_sup
from sober.metrics.minimality_sufficiency import minimality_sufficiency
from sober.metrics.modularity import modularity
from sober.metrics.mutual_information import mutual_information
from sober.metrics.omes import omes
from sober.metrics.r2 import r2
from sober.metrics.rmig import rmig
from sober.metrics.sap import sap
from sober.metrics.tad import tad
from sober.metrics.unified import gbt, mi, svm
from sober.metrics.wasserstein_correlation import wasserstein_correlation
from sober.metrics.z_max_variance import z_max_variance

ROUNDING = 1e-9  # scores that differ by less are equal

METRICS: dict[str, Metric] = {
    "beta_vae": beta_vae,
    "factor_vae": factor_vae,
    "mig": mig,
    "modularity": modularity,
    "explicitness": explicitness,
    "dci": dci,
    "dci_lasso": dci_lasso,
    "dci_forest": dci_forest,
    "sap": sap,
    "irs": irs,
    "gaussian_total_correlation": gaussian_total_correlation,
    "aggregate_total_correlation": aggregate_total_correlation,
    "wasserstein_correlation": wasserstein_correlation,
    "mutual_information": mutual_information,
    "active_latents": active_latents,
    "infomec": infomec,
    "mcc": mcc,
    "r2": r2,
    "dci_es": dci_es,
    "jemmig": jemmig,
    "dcimig": dcimig,
    "mig_sup": mig_sup,
    "rmig": rmig,
    "z_max_variance": z_max_variance,
    "omes": omes,
    "edi": edi,
    "med": med,
    "tad": tad,
    "best_latent": best_latent,
    "minimality_sufficiency": minimality_sufficiency,
    "mi": mi,
    "gbt": gbt,
    "svm": svm,
}


LISTED = "`sober metrics` lists all metrics"  # the advice about an unknown name that is like none of them


def find_metric(name: str) -> Metric:
    """The metric of this name."""
    return find("metric", METRICS, name, LISTED)


def home_of(score: str) -> Metric:
    """The metric that computes a score."""
    for metric in METRICS.values():
        if score in metric.scores:
            return metric
    raise unknown("score", [name for metric in METRICS.values() for name in metric.scores], score, LISTED)


def score_order() -> dict[str, Meaning]:
    """Every score with its meaning, in the order of tables: metrics with a headline score come first."""
    metrics = sorted(METRICS.values(), key=lambda metric: not any(score.headline for score in metric.scores.values()))
    return {name: meaning for metric in metrics for name, meaning in metric.scores.items()}


def distinct_scores(*scores_of_models: Mapping[str, float]) -> dict[str, tuple[str, ...]]:
    """The names of the scores of some models in the order of tables, each with the names of its copies.

    A copy is declared by `Meaning.same_as`, and it has the same value as the score in all of these models. A score of
    a task comes after the scores of metrics.
    """
    meanings = score_order()
    measured = dict.fromkeys(name for scores in scores_of_models for name in scores)
    originals_first = sorted(measured, key=lambda name: name in meanings and bool(meanings[name].same_as))
    copies: dict[str, list[str]] = {}
    for name in originals_first:
        original = _original(name, meanings)
        relatives = [relative for relative in copies if _original(relative, meanings) == original]
        repeated = next((relative for relative in relatives if _are_equal(relative, name, scores_of_models)), None)
        if repeated is None:
            copies[name] = []
        else:
            copies[repeated].append(name)
    ordered = [name for name in (*meanings, *(name for name in measured if name not in meanings)) if name in copies]
    return {name: tuple(copies[name]) for name in ordered}


def _original(name: str, meanings: Mapping[str, Meaning]) -> str:
    return (meanings[name].same_as if name in meanings else "") or name


def _are_equal(first: str, second: str, scores_of_models: Sequence[Mapping[str, float]]) -> bool:
    """Whether every model with the second score has the first score too, and both are equal up to rounding."""
    return all(
        first in scores and math.isclose(scores[first], scores[second], rel_tol=ROUNDING, abs_tol=ROUNDING)
        for scores in scores_of_models
        if second in scores
    )


def metric_groups() -> dict[str, list[Metric]]:
    """Metrics by the name of their group, which selects several at once."""
    groups: dict[str, list[Metric]] = {}
    for metric in METRICS.values():
        if metric.group:
            groups.setdefault(metric.group, []).append(metric)
    return groups
