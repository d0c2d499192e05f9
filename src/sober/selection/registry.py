"""Criteria that need no labels, by name. To add one: one file here, one line below, one test."""

from sober.errors import RequestError, listed
from sober.selection import model_centrality, pipe, udr
from sober.selection.criterion import Criterion
from sober.selection.elbo import elbo, kl, reconstruction
from sober.selection.total_correlation import total_correlation

CRITERIA: dict[str, Criterion] = {
    "udr": udr.criterion,
    "pipe": pipe.criterion,
    "pipe_rec": pipe.with_reconstruction,
    "model_centrality": model_centrality.criterion,
    "reconstruction": reconstruction,
    "kl": kl,
    "elbo": elbo,
    "total_correlation": total_correlation,
}


def find_criterion(name: str) -> Criterion:
    """The criterion of that name."""
    if name not in CRITERIA:
        raise RequestError(f"unknown criterion {name!r}: choose from {listed(CRITERIA)}")
    return CRITERIA[name]
