"""Metrics, by name. To add one: one file here, one line below, one test."""

from sober.metrics.active_latents import active_latents
from sober.metrics.beta_vae import beta_vae
from sober.metrics.dci import dci
from sober.metrics.explicitness import explicitness
from sober.metrics.factor_vae import factor_vae
from sober.metrics.gaussian_total_correlation import gaussian_total_correlation
from sober.metrics.irs import irs
from sober.metrics.metric import Metric
from sober.metrics.mig import mig
from sober.metrics.modularity import modularity
from sober.metrics.mutual_information import mutual_information
from sober.metrics.sap import sap
from sober.metrics.unified import gbt, mi, svm
from sober.metrics.wasserstein_correlation import wasserstein_correlation

METRICS: dict[str, Metric] = {
    "beta_vae": beta_vae,
    "factor_vae": factor_vae,
    "mig": mig,
    "modularity": modularity,
    "explicitness": explicitness,
    "dci": dci,
    "sap": sap,
    "irs": irs,
    "gaussian_total_correlation": gaussian_total_correlation,
    "wasserstein_correlation": wasserstein_correlation,
    "mutual_information": mutual_information,
    "active_latents": active_latents,
    "mi": mi,
    "gbt": gbt,
    "svm": svm,
}
