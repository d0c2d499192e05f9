"""DIP-VAE-I (Kumar et al. 2018): a penalty makes the means of the codes uncorrelated, with variance one.

    loss = E_q(z|x)[-log p(x|z)] + KL(q(z|x) || N(0, 1)) + λ_od · Σ_i≠j C_ij² + λ_d · Σ_i (C_ii - 1)²
    C    = Cov_p(x)[E[z|x]], over the batch; λ_d = lambda_d_factor · λ_od

The prior is factorised, so the codes of all pictures together should be. The penalty compares second moments. It does
not ask for less information in the codes, so by itself it does not worsen the reconstruction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from sober.methods.method import (
    LIKELIHOOD,
    Elbo,
    Hyper,
    Images,
    Method,
    Objective,
    Scalar,
    Setup,
    elbo_terms,
    init_autoencoder,
    update_by,
)
from sober.nets import Autoencoder


def covariance(codes: Float[Array, "B D"]) -> Float[Array, "D D"]:
    """The covariance of the latents over the batch, divided by the batch size."""
    centred = codes - jnp.mean(codes, axis=0)
    # Without HIGHEST a GPU computes these products in TF32.
    return jnp.matmul(centred.T, centred, precision=jax.lax.Precision.HIGHEST) / len(codes)


def distance_to_identity(covariance: Float[Array, "D D"]) -> tuple[Scalar, Scalar]:
    """The squared distance of a covariance from the identity, off the diagonal and on it."""
    diagonal = jnp.diagonal(covariance)
    return jnp.sum(covariance**2) - jnp.sum(diagonal**2), jnp.sum((diagonal - 1) ** 2)


def penalised(elbo: Elbo, covariance: Float[Array, "D D"], hyper: Mapping[str, Any]) -> Objective:
    """The evidence lower bound and the penalty on a covariance: the loss of both DIP-VAEs."""
    off_diagonal, diagonal = distance_to_identity(covariance)
    penalty = hyper["lambda_od"] * (off_diagonal + hyper["lambda_d_factor"] * diagonal)
    total = elbo.terms["reconstruction"] + elbo.terms["kl"] + penalty
    return total, {**elbo.terms, "off_diagonal": off_diagonal, "diagonal": diagonal}, elbo.statistics


def loss(model: Autoencoder, images: Images, key: Key[Array, ""], hyper: Mapping[str, Any], setup: Setup) -> Objective:
    elbo = elbo_terms(model, images, key, setup.compute, hyper)
    return penalised(elbo, covariance(elbo.mean), hyper)


dip_vae_i = Method(
    name="dip_vae_i",
    title="DIP-VAE-I",
    summary="a penalty makes the means of the codes uncorrelated, with variance one",
    reference="Kumar et al. (2018): Variational Inference of Disentangled Latent Concepts from Unlabeled Observations",
    hyper=(
        Hyper(
            "lambda_od",
            10.0,
            "weight of covariances between the means of two latents; 0 is the VAE",
            low=0.0,
            title="λ",
        ),
        Hyper(
            "lambda_d_factor",
            10.0,
            "weight of variances off one, in units of lambda_od",
            low=0.0,
            title="weight of variances",
        ),
        *LIKELIHOOD,
    ),
    init=init_autoencoder,
    update=update_by(loss),
    sweeps={
        "sober_look": {"lambda_od": (1.0, 2.0, 5.0, 10.0, 20.0, 50.0)},  # Table 3
        "udr": {"lambda_od": (1.0, 2.0, 5.0, 10.0, 20.0, 50.0)},  # Table 3: the same models
    },
)
