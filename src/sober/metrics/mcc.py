"""Mean correlation coefficient (Hyvärinen & Morioka 2016): is each factor, up to scale and sign, one latent of its own?

    MCC = mean over factors of |corr(z_m(k), v_k)|

where m gives every factor a latent of its own so that the sum of |corr| is largest (an assignment problem). `mcc` takes
Pearson's correlation, `mcc_spearman` that of ranks. The latents are matched on one half of the rows and the correlation
is measured on the other: in sample, the best of many noise latents looks like knowledge. `paper` matches and measures
on the same rows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sober.estimators.columns import spread
from sober.metrics.matrices import best_match, correlation, matched, rank_correlation
from sober.metrics.metric import Meaning, Measured, Metric, Traits
from sober.metrics.rows import TRAIN, by_factor, halves
from sober.shared import Shared
from sober.types import Codes

Correlate = Callable[[np.ndarray, np.ndarray, np.ndarray | None], np.ndarray]


def measure(codes: Codes, shared: Shared, *, seed: int, samples: int, held_out: str) -> Measured:
    values: dict[str, float] = {}
    parts: dict[str, np.ndarray] = {}
    for name, correlate in (("mcc", correlation), ("mcc_spearman", rank_correlation)):

        def of_rows(part: Codes, correlate: Correlate = correlate) -> tuple[np.ndarray, np.ndarray]:
            learn, check = shared(halves, part, samples, held_out, seed)
            found = [np.abs(correlate(rows.mean, rows.factors, rows.weights)) for rows in (learn, check)]
            return found[0], found[1]

        fitted, matrix = by_factor(codes, shared, of_rows)
        latent = best_match(fitted)
        per_factor = np.minimum(matched(matrix, latent), 1.0)  # which rounding may exceed
        values[name] = float(per_factor.mean())
        parts |= {f"{name}_matrix": matrix, f"{name}_latent": latent, f"{name}_per_factor": per_factor}
    return Measured(values, tuple(odd_inputs(codes)), parts)


def odd_inputs(codes: Codes) -> list[str]:
    """Flags about codes and factors that a correlation has nothing, or too much, to say of."""
    dead = spread(codes.mean) == 0
    flags = ["dead_latent"] * bool(dead.any()) + ["collapsed"] * bool(dead.all())
    flags += ["few_latents"] * (codes.mean.shape[1] < len(codes.about))
    return flags + ["unordered_factor"] * any(factor.kind in ("categorical", "cyclic") for factor in codes.about)


# A correlation goes by the order of a factor's values.
NUMBERS = Traits(changed_by=("relabelled factors",), lowered_by=("merged factors", "split factors"))

mcc = Metric(
    name="mcc",
    summary="is each factor, up to scale and sign, one latent of its own?",
    reference="Hyvärinen & Morioka (2016) Unsupervised Feature Extraction by Time-contrastive Learning and Nonlinear "
    "ICA",
    scores={
        "mcc": Meaning("correlation of factors with the latents matched to them", traits=NUMBERS),
        "mcc_spearman": Meaning("the same of their ranks", traits=NUMBERS),
    },
    measure=measure,
    settings={"samples": TRAIN, "held_out": "drawn"},
    presets={"paper": {"held_out": "none"}},
    seconds=0.05,
    default=False,
    takes=frozenset({"holes", "groups", "weights", "sparse"}),
)
