"""Criteria that need no labels, by name. To add one: one file here, one line below, one test.

Importing this needs no JAX, so a criterion that works with models imports it when it judges.
"""

from sober.criteria import model_centrality, pipe, udr
from sober.criteria.criterion import Criterion
from sober.criteria.elbo import elbo, kl, reconstruction, squared_error
from sober.criteria.total_correlation import total_correlation
from sober.errors import UnknownError, listed

CRITERIA: dict[str, Criterion] = {
    "udr": udr.criterion,
    "pipe": pipe.criterion,
    "pipe_rec": pipe.with_reconstruction,
    "model_centrality": model_centrality.criterion,
    "reconstruction": reconstruction,
    "squared_error": squared_error,
    "kl": kl,
    "elbo": elbo,
    "total_correlation": total_correlation,
}


USUAL = "udr"  # what to choose by where nothing is said


def find_criterion(name: str) -> Criterion:
    """The criterion of that name."""
    if name not in CRITERIA:
        raise UnknownError(f"unknown criterion {name!r}: choose from {listed(CRITERIA)}")
    return CRITERIA[name]
