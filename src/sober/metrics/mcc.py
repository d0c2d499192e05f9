"""Mean correlation coefficient (Hyvärinen & Morioka 2016): does each factor correlate with a latent of its own?

    MCC = mean over factors of |corr(z_m(k), v_k)|

where m gives every factor a latent of its own so that the sum of |corr| is largest (an assignment problem). `mcc` takes
Pearson's correlation, `mcc_spearman` the correlation of ranks. Latents are matched on one half of the rows, and the
correlation is measured on the other half, because in sample the best of many noise latents correlates well. `paper`
matches and measures on the same rows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sober.estimators.wide.wide_tables import spread
from sober.metrics.common.correlation import correlation, rank_correlation
from sober.metrics.common.matching import best_match, matched
from sober.metrics.common.metric_rows import TRAIN, by_factor, halves
from sober.metrics.metric import Meaning, Measured, Metric, Traits
from sober.shared import Shared
from sober.types import Codes

Correlate = Callable[[np.ndarray, np.ndarray, np.ndarray | None], np.ndarray]


def measure(codes: Codes, shared: Shared, *, seed: int, samples: int, held_out: str) -> Measured:
    values: dict[str, float] = {}
    parts: dict[str, np.ndarray] = {}
    for name, correlate in (("mcc", correlation), ("mcc_spearman", rank_correlation)):

        def of_rows(subset: Codes, correlate: Correlate = correlate) -> tuple[np.ndarray, np.ndarray]:
            learn, check = shared(halves, subset, samples, held_out, seed)
            matrices = [np.abs(correlate(rows.mean, rows.factors, rows.weights)) for rows in (learn, check)]
            return matrices[0], matrices[1]

        fitted, matrix = by_factor(codes, shared, of_rows)
        latent = best_match(fitted)
        per_factor = np.minimum(matched(matrix, latent), 1.0)  # rounding may exceed 1
        values[name] = float(per_factor.mean())
        parts |= {f"{name}_matrix": matrix, f"{name}_latent": latent, f"{name}_per_factor": per_factor}
    return Measured(values, tuple(odd_inputs(codes)), parts)


def odd_inputs(codes: Codes) -> list[str]:
    """Flags about codes and factors for which correlations mean little: dead latents, factors without an order."""
    dead = spread(codes.mean) == 0
    flags = ["dead_latent"] * bool(dead.any()) + ["collapsed"] * bool(dead.all())
    flags += ["few_latents"] * (codes.mean.shape[1] < len(codes.about))
    return flags + ["unordered_factor"] * any(factor.kind in ("categorical", "cyclic") for factor in codes.about)


# A correlation depends on the order of a factor's values.
NUMBERS = Traits(changed_by=("relabelled factors",), lowered_by=("merged factors", "split factors"))

mcc = Metric(
    name="mcc",
    summary="does each factor correlate perfectly with a latent of its own?",
    short="does each factor correlate with one latent?",
    reference="Hyvärinen & Morioka (2016) Unsupervised Feature Extraction by Time-contrastive Learning and Nonlinear "
    "ICA",
    scores={
        "mcc": Meaning("correlation of each factor with the latent matched to it", title="MCC", traits=NUMBERS),
        "mcc_spearman": Meaning(
            "rank correlation of each factor with the latent matched to it", title="MCC by ranks", traits=NUMBERS
        ),
    },
    measure=measure,
    settings={"samples": TRAIN, "held_out": "drawn"},
    presets={"paper": {"held_out": "none"}},
    seconds=0.015,
    default=False,
    takes=frozenset({"holes", "groups", "weights", "sparse"}),
)
