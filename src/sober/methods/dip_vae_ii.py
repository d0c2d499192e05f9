"""DIP-VAE-II (Kumar et al. 2018): a penalty makes sampled codes uncorrelated, with variance one.

    loss = E_q(z|x)[-log p(x|z)] + KL(q(z|x) || N(0, 1)) + λ_od · Σ_i≠j C_ij² + λ_d · Σ_i (C_ii - 1)²
    C    = Cov_q(z)[z] = Cov_p(x)[E[z|x]] + E_p(x)[diag(Var[z|x])], over the batch; λ_d = lambda_d_factor · λ_od

Unlike DIP-VAE-I it allows inactive latents: mean 0 and variance 1 for every picture costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from sober.methods.dip_vae_i import covariance, penalised
from sober.methods.method import (
    LIKELIHOOD,
    Hyper,
    Images,
    Method,
    Objective,
    Setup,
    elbo_terms,
    init_autoencoder,
    update_by,
)
from sober.nets import Autoencoder


def sample_covariance(mean: Float[Array, "B D"], logvar: Float[Array, "B D"]) -> Float[Array, "D D"]:
    """The covariance of samples from q(z|x) over the batch, in closed form."""
    return covariance(mean) + jnp.diag(jnp.mean(jnp.exp(logvar), axis=0))


def loss(model: Autoencoder, images: Images, key: Key[Array, ""], hyper: Mapping[str, Any], setup: Setup) -> Objective:
    elbo = elbo_terms(model, images, key, setup.compute, hyper)
    return penalised(elbo, sample_covariance(elbo.mean, elbo.logvar), hyper)


dip_vae_ii = Method(
    name="dip_vae_ii",
    title="DIP-VAE-II",
    summary="a penalty makes sampled codes uncorrelated, with variance one",
    reference="Kumar et al. (2018): Variational Inference of Disentangled Latent Concepts from Unlabeled Observations",
    hyper=(
        Hyper("lambda_od", 10.0, "weight of covariances between two latents; 0 is the VAE", low=0.0, title="λ"),
        Hyper(
            "lambda_d_factor",
            1.0,
            "weight of variances off one, in units of lambda_od",
            low=0.0,
            title="weight of variances",
        ),
        *LIKELIHOOD,
    ),
    init=init_autoencoder,
    update=update_by(loss),
    step_of="dip_vae_i",
    sweeps={
        "sober_look": {"lambda_od": (1.0, 2.0, 5.0, 10.0, 20.0, 50.0)},  # Table 3
        "udr": {"lambda_od": (1.0, 2.0, 5.0, 10.0, 20.0, 50.0)},  # Table 3: the same models
    },
)
