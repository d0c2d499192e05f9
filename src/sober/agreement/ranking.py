"""Which model to trust: the models whose latents recur most. UDR is one of the columns.

    UDR_ij = 1 / (d_i + d_j) · ( Σ_b r_b² / Σ_a R(a, b)  +  Σ_a r_a² / Σ_b R(a, b) )

With similarities by lasso or Spearman on the same rows, this is the number of `sober.udr` (Duan et al. 2020). Any other
similarity may take their place.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float

from sober.agreement.matching import Matches
from sober.agreement.partners import Partners


def udr_scores(partners: Partners, alive: Bool[np.ndarray, " F"], *, separate: bool = False) -> Float[np.ndarray, " M"]:
    """The median over partners of eq. 2, for similarities that are the same in both directions.

    `separate` gives rows and columns of R equal weight, whatever their number, as the public implementation does.
    """
    best, total = partners.best.astype(float), partners.total
    share = np.divide(best**2, total, out=np.zeros_like(total), where=total > 0) * alive[:, None]
    sums = np.stack([share[partners.model == model].sum(axis=0) for model in range(partners.models)])  # (i, j)
    width = np.bincount(partners.model[alive], minlength=partners.models)
    weights = [np.maximum(width, 1)[:, None], np.maximum(width, 1)[None, :]]
    if separate:
        scores = (sums / weights[0] + sums.T / weights[1]) / 2
    else:
        scores = (sums + sums.T) / np.maximum(width[:, None] + width[None, :], 1)
    scores[(width == 0), :] = scores[:, width == 0] = 0
    return np.array([np.median(np.delete(scores[model], model)) for model in range(partners.models)])


def pair_means(matches: Matches, partners: Partners, alive: Bool[np.ndarray, " F"]) -> Float[np.ndarray, "M M"]:
    """The mean strength of the partners that the live features of a model (row) have in another (column); 1 within.

    Matched one to one by the cosines of two dictionaries of one size, this is their PW-MCC, and 1 less the Hungarian
    loss for each feature where similarities are signed.
    """
    strength = np.abs(matches.similarity)
    means = np.eye(partners.models)
    for model in range(partners.models):
        rows = alive & (partners.model == model)
        if rows.any():
            means[model] = strength[rows].mean(axis=0)
        means[model, model] = 1
    return means


def shares_recurring(
    matches: Matches, partners: Partners, alive: Bool[np.ndarray, " F"], least: float
) -> Float[np.ndarray, "M M"]:
    """The share of a model's live features (row) that have a partner at least `least` alike in another (column)."""
    shares = np.eye(partners.models)
    for model in range(partners.models):
        rows = alive & (partners.model == model)
        if rows.any():
            shares[model] = (np.abs(matches.similarity[rows]) >= least).mean(axis=0)
        shares[model, model] = 1
    return shares
