"""Mutual information gap (Chen et al. 2018): is each factor held by one latent alone?

    MIG = mean over factors of (I(z_a; v_k) - I(z_b; v_k)) / H(v_k)

where a and b are the two latents that know most about factor k. `study` cuts the mean of each latent into 20 bins of
equal width (Locatello et al. 2020). `paper` uses the encoder's distributions q(z|x) over the whole data set, eq. 6 and
7 of Chen et al., with one-dimensional integrals in place of their samples. Codes without log-variances, such as those
of an InfoGAN, are cut into bins under `paper` too, over the whole data set.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from sober.errors import NotMeasuredError, RequestError
from sober.estimators.discrete import BINS, entropy
from sober.estimators.mixture import gaussian_information
from sober.estimators.wide.wide_tables import dense_stretches
from sober.metrics.common.aggregation import gap
from sober.metrics.common.factor_classes import discretised, has_continuous
from sober.metrics.common.information import counted_information
from sober.metrics.common.metric_rows import TRAIN, by_factor
from sober.metrics.metric import Meaning, Measured, Metric, Traits
from sober.shared import Shared
from sober.types import Codes


def measure(codes: Codes, shared: Shared, *, seed: int, samples: int, bins: int, latents: str) -> Measured:
    if latents not in ("means", "distributions"):
        raise RequestError(f"mig: latents must be 'means' or 'distributions', not {latents!r}")
    if latents == "distributions" and codes.logvar is not None and codes.unit == 1:
        if codes.weights is not None:
            raise NotMeasuredError("distributions of latents have no form in which rows have weights")

        def of_rows(subset: Codes) -> tuple[Float[np.ndarray, "D k"], Float[np.ndarray, " k"]]:
            return shared(distribution_information, subset)

        matrix, uncertainty = by_factor(shared(discretised, codes, bins), shared, of_rows)
    else:
        # `paper` takes the whole data set: from few rows, binned means seem to know more than they do.
        rows = codes.mean.shape[0] if latents == "distributions" else samples
        matrix, uncertainty, _ = counted_information(codes, shared, rows, bins, seed)
    varies = uncertainty > 0
    gaps = np.where(varies, gap(matrix) / np.where(varies, uncertainty, 1.0), 0.0)
    flags = ["constant_factor"] * (not varies.all()) + ["one_latent"] * (len(matrix) == 1)
    flags += ["means_only"] * (latents == "distributions" and (codes.logvar is None or codes.unit > 1))
    flags += ["collapsed"] * (not matrix.any())
    flags += ["binned_factor"] * has_continuous(codes)
    value = float(gaps[varies].mean()) if varies.any() else 0.0
    parts = {"mutual_information": matrix, "entropy": uncertainty, "mig_per_factor": gaps}
    return Measured({"mig": value}, tuple(flags), parts)


def distribution_information(codes: Codes) -> tuple[Float[np.ndarray, "D K"], Float[np.ndarray, " K"]]:
    """I(z; v) for z drawn from q(z|x) over all rows, and H(v). Factors must be classes."""
    assert codes.logvar is not None
    blocks = zip(dense_stretches(codes.mean), dense_stretches(codes.logvar), strict=True)
    matrix = [gaussian_information(mean, logvar, codes.factors)[0] for (_, mean), (_, logvar) in blocks]
    return np.concatenate(matrix), entropy(codes.factors)


mig = Metric(
    name="mig",
    summary="is each factor held by one latent alone?",
    short="is each factor held by one latent alone?",
    reference="Chen et al. (2018) Isolating Sources of Disentanglement in Variational Autoencoders",
    scores={
        "mig": Meaning(
            "gap between the two latents that know most about a factor, divided by the factor's entropy",
            title="MIG",
            headline=True,
            traits=Traits(lowered_by=("duplicated latents", "split factors")),
        )
    },
    measure=measure,
    settings={"samples": TRAIN, "bins": BINS, "latents": "means"},
    presets={"paper": {"latents": "distributions"}},
    seconds=0.007,
    logvar=True,
    exact=True,
    takes=frozenset({"holes", "groups", "weights", "units", "sparse"}),
)
