"""Metrics, by name. To add one: one file here, one line below, one test."""

from __future__ import annotations

from sober.errors import UnknownError, listed
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
from sober.metrics.metric import Metric
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


def find_metric(name: str) -> Metric:
    """The metric of this name."""
    if name not in METRICS:
        raise UnknownError(f"there is no metric {name!r}: there are {listed(METRICS)}")
    return METRICS[name]


def home_of(score: str) -> Metric:
    """The metric that a score belongs to."""
    for metric in METRICS.values():
        if score in metric.scores:
            return metric
    scores = [name for metric in METRICS.values() for name in metric.scores]
    raise UnknownError(f"there is no score {score!r}: there are {listed(scores)}")


def metric_groups() -> dict[str, list[Metric]]:
    """Metrics by the name that asks for several at once."""
    groups: dict[str, list[Metric]] = {}
    for metric in METRICS.values():
        if metric.group:
            groups.setdefault(metric.group, []).append(metric)
    return groups
