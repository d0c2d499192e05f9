"""MED (Cao et al. 2022): DCI's disentanglement and completeness, with mutual information as the importance.

    R[j, k]          = I(z_j; v_k) / sum over latents of I(z_i; v_k), latents cut into 20 bins
    disentanglement  of a latent: 1 - entropy over factors of its row as shares, base K; averaged with the rows' weights
    completeness     of a factor: 1 - entropy over latents of its column as shares, base D; averaged likewise

For codes with hundreds of latents the paper keeps the few that matter: a latent belongs to the factor for which it is
most important, and each factor keeps its `top` most disentangled latents. `med_top_…` are the scores of those latents.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int

from sober.errors import RequestError
from sober.estimators.discrete import BINS
from sober.metrics.common.aggregation import completeness_columns, disentanglement_rows, shares
from sober.metrics.common.information import Information, corrected, counted_information, information_flags
from sober.metrics.common.metric_rows import TRAIN
from sober.metrics.metric import Change, Meaning, Measured, Metric, Traits
from sober.shared import Shared
from sober.types import Codes


def measure(codes: Codes, shared: Shared, *, seed: int, samples: int, bins: int, top: int) -> Measured:
    if top < 1:
        raise RequestError(f"med: top must be at least 1, not {top}: how many latents each factor keeps")
    estimate = counted_information(codes, shared, samples, bins, seed)
    information = estimate.matrix
    matrix = as_shares(information)
    top_latents = most_disentangled(matrix, int(top))
    values = {f"med_{name}": value for name, value in weighted(matrix).items()}
    values |= {f"med_top_{name}": value for name, value in weighted(matrix[top_latents]).items()}
    flags = information_flags(codes, estimate)
    parts = {
        "importance": matrix,
        "disentanglement_per_latent": disentanglement_rows(matrix),
        "completeness_per_factor": completeness_columns(matrix),
        "kept": top_latents,
    }
    return corrected(Measured(values, tuple(flags), parts), of_knowing, codes, shared, samples, bins, seed)


def of_knowing(estimate: Information, knowing: Bool[np.ndarray, " D"]) -> dict[str, float]:
    """The scores of the informative latents."""
    means = weighted(as_shares(estimate.matrix[knowing])) if knowing.any() else {}
    return {f"med_{name}": value for name, value in means.items()}


def as_shares(information: Float[np.ndarray, "D K"]) -> Float[np.ndarray, "D K"]:
    """Each column over its sum."""
    total = information.sum(axis=0)
    return np.divide(information, total, out=np.zeros_like(information), where=total > 0)


def weighted(matrix: Float[np.ndarray, "D K"]) -> dict[str, float]:
    """Disentanglement and completeness, latents and factors weighted by their importance."""
    return {
        "disentanglement": float(shares(matrix.sum(axis=1)) @ disentanglement_rows(matrix)),
        "completeness": float(shares(matrix.sum(axis=0)) @ completeness_columns(matrix)),
    }


def most_disentangled(matrix: Float[np.ndarray, "D K"], top: int) -> Int[np.ndarray, " n"]:
    """The latents that factors keep: each factor keeps the `top` most disentangled of the latents that belong to it."""
    order = np.argsort(-disentanglement_rows(matrix), kind="stable")
    home = matrix.argmax(axis=1)[order]
    return np.sort(np.concatenate([order[home == k][:top] for k in range(matrix.shape[1])]))


DEAD: tuple[Change, ...] = ("dead latent",)  # entropies are in units of the logarithm of the number of latents
CHANCE = Traits(noise=None)  # for noise, shares of the information left by chance are arbitrary

med = Metric(
    name="med",
    summary="DCI by mutual information: does each latent serve one factor, and does each factor need only one latent?",
    short="DCI by mutual information",
    reference="Cao et al. (2022) An Empirical Study on Disentanglement of Negative-free Contrastive Learning",
    scores={
        "med_disentanglement": Meaning(
            "how far each latent serves one factor only: 1 - entropy of its information, weighted",
            title="MED disentanglement",
            traits=CHANCE._replace(lowered_by=("merged factors",)),
        ),
        "med_completeness": Meaning(
            "how far each factor needs one latent only: 1 - entropy of its information, weighted",
            title="MED completeness",
            traits=CHANCE._replace(
                changed_by=DEAD, lowered_by=("duplicated latents", "noise latents", "split factors")
            ),
        ),
        "med_top_disentanglement": Meaning(
            "med_disentanglement of each factor's best latents",
            title="MED disentanglement of the best latents",
            traits=CHANCE._replace(lowered_by=("merged factors",)),
        ),
        "med_top_completeness": Meaning(
            "med_completeness of each factor's best latents",
            title="MED completeness of the best latents",
            traits=CHANCE._replace(changed_by=DEAD),
        ),
    },
    measure=measure,
    settings={"samples": TRAIN, "bins": BINS, "top": 1},
    seconds=0.02,
    exact=True,
    default=False,
    takes=frozenset({"holes", "groups", "weights", "units", "sparse"}),
)
