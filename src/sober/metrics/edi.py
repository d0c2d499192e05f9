"""Exclusivity (Julka, Wang & Granitzer 2024): does each latent know one factor much better than it knows the others?

    N[j, k]         = I(z_j; v_k) / I(z; v_k)
    exclusivity     of a vector: its largest entry - the root mean square of the others
    disentanglement each latent's exclusivity over factors, added to its best factor; per factor at most 1; their mean
    completeness    mean over factors of the exclusivity of N's column
    informativeness mean over factors of min(I(z; v_k), H(v_k)) / H(v_k)

I(z; v_k), what the whole code knows of a factor, is the sum of what its latents know (`whole="max"`: the largest), so
that all is counted exactly from latents cut into 30 bins. The preset `ksg` estimates information from the distances of
nearest neighbours instead (Kraskov et al. 2004), factors being numbers.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float

from sober.errors import NotMeasuredError, RequestError
from sober.estimators.columns import is_wide
from sober.estimators.neighbours import jittered, number_information
from sober.metrics.matrices import Information, corrected, counted_information, information_flags
from sober.metrics.metric import Meaning, Measured, Metric, Traits
from sober.metrics.rows import TRAIN, by_factor, sample
from sober.shared import Shared
from sober.types import Codes


def measure(
    codes: Codes, shared: Shared, *, seed: int, samples: int, bins: int, neighbours: int, estimator: str, whole: str
) -> Measured:
    if estimator not in ("bins", "neighbours"):
        raise RequestError(f"edi: estimator must be 'bins' or 'neighbours', not {estimator!r}")
    if whole not in ("sum", "max"):
        raise RequestError(f"edi: whole must be 'sum' or 'max', not {whole!r}")
    if estimator == "bins":
        found = counted_information(codes, shared, samples, bins, seed)
    else:
        if codes.weights is not None:
            raise NotMeasuredError("distances of neighbours have no form in which rows have weights")
        if codes.unit > 1 or is_wide(codes.mean):
            raise NotMeasuredError("neighbours are looked for in single latents, one by one: take estimator='bins'")

        def of_rows(part: Codes) -> Information:
            return shared(neighbour_information, shared(sample, part, samples, seed), neighbours, seed)

        found = by_factor(codes, shared, of_rows)
    matrix, uncertainty, _ = found
    per_factor = scores_of(matrix, uncertainty, whole)
    flags = [flag for flag in information_flags(codes, found) if flag != "binned_factor" or estimator == "bins"]
    flags += ["collapsed"] * (not found.of_latents.any())  # neighbours find something in the jitter
    parts = {"information": matrix, "entropy": uncertainty}
    parts |= {f"{name}_per_factor": scores for name, scores in per_factor.items()}
    measured = Measured(_means(per_factor), tuple(dict.fromkeys(flags)), parts)
    if estimator != "bins":
        return measured

    def of_knowing(beyond: Information, knowing: Bool[np.ndarray, " D"]) -> dict[str, float]:
        return _means(scores_of(beyond.matrix[knowing], uncertainty, whole)) if knowing.any() else {}

    return corrected(measured, of_knowing, codes, shared, samples, bins, seed)


def scores_of(
    matrix: Float[np.ndarray, "D K"], uncertainty: Float[np.ndarray, " K"], whole: str
) -> dict[str, Float[np.ndarray, " K"]]:
    """The scores of each factor."""
    captured = matrix.sum(axis=0) if whole == "sum" else matrix.max(axis=0)
    share = np.divide(matrix, captured, out=np.zeros_like(matrix), where=captured > 0)
    informed = np.divide(captured, uncertainty, out=np.zeros_like(captured), where=uncertainty > 0).clip(0.0, 1.0)
    return {"disentanglement": credited(share), "completeness": exclusivity(share.T), "informativeness": informed}


def _means(per_factor: dict[str, Float[np.ndarray, " K"]]) -> dict[str, float]:
    return {f"edi_{name}": float(scores.mean()) for name, scores in per_factor.items()}


def neighbour_information(codes: Codes, neighbours: int, seed: int) -> Information:
    """I(z_j; v_k), and what the same estimator says of a factor and itself, in place of its entropy.

    Of latents it says only whether they vary.
    """
    rng = np.random.default_rng([seed, 5])
    x, y, again = (jittered(np.asarray(part, float), rng) for part in (codes.mean, codes.factors, codes.factors))
    matrix = np.array([[number_information(z, v, neighbours) for v in y.T] for z in x.T])
    of_factors = np.array([number_information(v, w, neighbours) for v, w in zip(y.T, again.T, strict=True)])
    varies = np.ptp(codes.mean, axis=0) > 0
    return Information(matrix, of_factors, np.broadcast_to(varies[:, None].astype(float), matrix.shape))


def exclusivity(rows: Float[np.ndarray, "n m"]) -> Float[np.ndarray, " n"]:
    """The largest entry of each row, less the root mean square of the others; a lone entry has none."""
    largest = rows.max(axis=1)
    others = np.maximum(np.sum(rows**2, axis=1) - largest**2, 0.0)
    return largest - np.sqrt(others / max(rows.shape[1] - 1, 1))


def credited(share: Float[np.ndarray, "D K"]) -> Float[np.ndarray, " K"]:
    """The exclusivity of each latent, added up for the factor it knows the largest share of; at most 1."""
    out = np.zeros(share.shape[1])
    np.add.at(out, share.argmax(axis=1), exclusivity(share))
    return np.minimum(out, 1.0)


edi = Metric(
    name="edi",
    summary="does each latent know one factor much better than the others?",
    reference="Julka, Wang & Granitzer (2024) Towards an Improved Metric for Evaluating Disentangled Representations",
    scores={
        "edi_disentanglement": Meaning(
            "how exclusively latents know the factor they know best",
            traits=Traits(
                noise_within=0.2, lowered_by=("merged factors",)
            ),  # shares of what chance leaves differ a little
        ),
        "edi_completeness": Meaning(
            "how exclusively factors are known by one latent",
            traits=Traits(
                noise_within=0.2,
                changed_by=("dead latent",),
                lowered_by=("duplicated latents", "noise latents", "split factors"),
            ),  # one more in the mean square of the others
        ),
        "edi_informativeness": Meaning(
            "what latents know of the factors, over their entropy",
            traits=Traits(noise_within=0.15),  # a sum over latents of what chance leaves each
        ),
    },
    measure=measure,
    settings={"samples": TRAIN, "bins": 30, "neighbours": 3, "estimator": "bins", "whole": "sum"},
    presets={"ksg": {"estimator": "neighbours"}, "max": {"whole": "max"}},
    seconds=0.02,
    exact=True,
    default=False,
    takes=frozenset({"holes", "groups", "weights", "units", "sparse"}),
)
