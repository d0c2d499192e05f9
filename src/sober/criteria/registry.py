"""Criteria that need no labels, by name. To add one: one file here, one line below, one test.

Importing this needs no JAX, so a criterion that works with models imports it when it judges.
"""

from sober.contracts import find
from sober.criteria import model_centrality, pipe, udr
from sober.criteria.criterion import Criterion
from sober.criteria.elbo import elbo, kl, reconstruction, squared_error
from sober.criteria.total_correlation import total_correlation

CRITERIA: dict[str, Criterion] = {
    "udr": udr.criterion,
    "pipe": pipe.criterion,
    "pipe_rec": pipe.with_reconstruction,
    "pipe_reference": pipe.reference,
    "model_centrality": model_centrality.criterion,
    "reconstruction": reconstruction,
    "squared_error": squared_error,
    "kl": kl,
    "elbo": elbo,
    "total_correlation": total_correlation,
}


def find_criterion(name: str) -> Criterion:
    """The criterion of that name."""
    return find("criterion", CRITERIA, name, "`sober criteria` lists all criteria")


def criterion_words(label: str) -> str:
    """The name for people of a criterion in a ranking, with the settings in its label, if it has any."""
    name, *settings = label.split(" ")
    if name not in CRITERIA or not CRITERIA[name].title:
        return label
    return ", ".join([CRITERIA[name].title, *(setting.replace("=", " = ") for setting in settings)])
