"""Exclusivity (Julka, Wang & Granitzer 2024): does each latent know one factor much better than it knows the others?

    N[j, k]         = I(z_j; v_k) / I(z; v_k)
    exclusivity     of a vector: its largest entry - the root mean square of its other entries
    disentanglement each latent's exclusivity over factors, added to its best factor; per factor at most 1; their mean
    completeness    mean over factors of the exclusivity of N's column
    informativeness mean over factors of min(I(z; v_k), H(v_k)) / H(v_k)

I(z; v_k), the information of the whole code about a factor, is taken as the sum over latents (`whole="max"`: the
largest), counted from latents cut into 30 bins. The preset `ksg` estimates information from the distances of nearest
neighbours instead (Kraskov et al. 2004), with factors as numbers.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float

from sober.errors import NotMeasuredError, RequestError
from sober.estimators.neighbours import jittered, number_information
from sober.estimators.wide.wide_tables import is_wide
from sober.metrics.common.information import Information, corrected, counted_information, information_flags
from sober.metrics.common.metric_rows import TRAIN, by_factor, sample
from sober.metrics.metric import Meaning, Measured, Metric, Traits
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
        information = counted_information(codes, shared, samples, bins, seed)
    else:
        if codes.weights is not None:
            raise NotMeasuredError("distances of neighbours have no form in which rows have weights")
        if codes.unit > 1 or is_wide(codes.mean):
            raise NotMeasuredError("neighbours are looked for in single latents, one by one: take estimator='bins'")

        def of_rows(subset: Codes) -> Information:
            return shared(neighbour_information, shared(sample, subset, samples, seed), neighbours, seed)

        information = by_factor(codes, shared, of_rows)
    matrix, uncertainty, _ = information
    per_factor = scores_of(matrix, uncertainty, pooling=whole)
    flags = [flag for flag in information_flags(codes, information) if flag != "binned_factor" or estimator == "bins"]
    # Nearest neighbours give even constant latents some information.
    flags += ["collapsed"] * (not information.of_latents.any())
    parts = {"information": matrix, "entropy": uncertainty}
    parts |= {f"{name}_per_factor": scores for name, scores in per_factor.items()}
    measured = Measured(_means(per_factor), tuple(dict.fromkeys(flags)), parts)
    if estimator != "bins":
        return measured

    def of_knowing(beyond: Information, knowing: Bool[np.ndarray, " D"]) -> dict[str, float]:
        return _means(scores_of(beyond.matrix[knowing], uncertainty, pooling=whole)) if knowing.any() else {}

    return corrected(measured, of_knowing, codes, shared, samples, bins, seed)


def scores_of(
    matrix: Float[np.ndarray, "D K"], uncertainty: Float[np.ndarray, " K"], pooling: str
) -> dict[str, Float[np.ndarray, " K"]]:
    """The scores of each factor. The whole code has the `sum` or the `max` of the latents' information."""
    captured = matrix.sum(axis=0) if pooling == "sum" else matrix.max(axis=0)
    share = np.divide(matrix, captured, out=np.zeros_like(matrix), where=captured > 0)
    informed = np.divide(captured, uncertainty, out=np.zeros_like(captured), where=uncertainty > 0).clip(0.0, 1.0)
    return {"disentanglement": credited(share), "completeness": exclusivity(share.T), "informativeness": informed}


def _means(per_factor: dict[str, Float[np.ndarray, " K"]]) -> dict[str, float]:
    return {f"edi_{name}": float(scores.mean()) for name, scores in per_factor.items()}


def neighbour_information(codes: Codes, neighbours: int, seed: int) -> Information:
    """I(z_j; v_k) by nearest neighbours, with I(v_k; v_k) by the same estimator in place of the factor's entropy.

    In place of a latent's entropy it has 1 if the latent varies, else 0.
    """
    rng = np.random.default_rng([seed, 5])
    x, y, again = (jittered(np.asarray(array, float), rng) for array in (codes.mean, codes.factors, codes.factors))
    matrix = np.array([[number_information(z, v, neighbours) for v in y.T] for z in x.T])
    of_factors = np.array([number_information(v, w, neighbours) for v, w in zip(y.T, again.T, strict=True)])
    varies = np.ptp(codes.mean, axis=0) > 0
    return Information(matrix, of_factors, np.broadcast_to(varies[:, None].astype(float), matrix.shape))


def exclusivity(rows: Float[np.ndarray, "n m"]) -> Float[np.ndarray, " n"]:
    """The largest entry of each row less the root mean square of the others, which is 0 if there are none."""
    largest = rows.max(axis=1)
    others = np.maximum(np.sum(rows**2, axis=1) - largest**2, 0.0)
    return largest - np.sqrt(others / max(rows.shape[1] - 1, 1))


def credited(share: Float[np.ndarray, "D K"]) -> Float[np.ndarray, " K"]:
    """Adds each latent's exclusivity to the factor that it knows best. A factor gets at most 1."""
    out = np.zeros(share.shape[1])
    np.add.at(out, share.argmax(axis=1), exclusivity(share))
    return np.minimum(out, 1.0)


edi = Metric(
    name="edi",
    summary="does each latent know one factor much better than the others?",
    short="is each latent exclusive to one factor?",
    reference="Julka, Wang & Granitzer (2024) Towards an Improved Metric for Evaluating Disentangled Representations",
    scores={
        "edi_disentanglement": Meaning(
            "how much better latents know their best factor than the other factors",
            title="EDI disentanglement",
            traits=Traits(
                noise_within=0.2, lowered_by=("merged factors",)
            ),  # for noise, the information left by chance differs a little between factors
        ),
        "edi_completeness": Meaning(
            "how much better a factor's best latent knows it than the other latents do",
            title="EDI completeness",
            traits=Traits(
                noise_within=0.2,
                changed_by=("dead latent",),
                lowered_by=("duplicated latents", "noise latents", "split factors"),
            ),  # a dead latent is one more in the mean square of the others
        ),
        "edi_informativeness": Meaning(
            "information of the latents about the factors, divided by the factors' entropy",
            title="EDI informativeness",
            traits=Traits(noise_within=0.15),  # for noise, the information left by chance adds up over latents
        ),
    },
    measure=measure,
    settings={"samples": TRAIN, "bins": 30, "neighbours": 3, "estimator": "bins", "whole": "sum"},
    presets={"ksg": {"estimator": "neighbours"}, "max": {"whole": "max"}},
    seconds=0.045,
    exact=True,
    default=False,
    takes=frozenset({"holes", "groups", "weights", "units", "sparse"}),
)
