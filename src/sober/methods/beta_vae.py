"""β-VAE (Higgins et al. 2017): the KL term of the evidence lower bound weighs β times as much.

    loss = E_q(z|x)[-log p(x|z)] + β · KL(q(z|x) || N(0, 1))

A larger β makes information in the codes more expensive. The model drops latents that carry little information, and the
others tend to align with the factors of variation of the pictures.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jaxtyping import Array, Key

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


def loss(model: Autoencoder, images: Images, key: Key[Array, ""], hyper: Mapping[str, Any], setup: Setup) -> Objective:
    elbo = elbo_terms(model, images, key, setup.compute, hyper)
    return elbo.terms["reconstruction"] + hyper["beta"] * elbo.terms["kl"], elbo.terms, elbo.statistics


def advised(small: bool, steps: int) -> Mapping[str, tuple[float, ...]]:
    return {"beta": (2.0, 4.0) if small else (4.0, 8.0)}


beta_vae = Method(
    name="beta_vae",
    title="β-VAE",
    summary="the KL term weighs beta times as much",
    reference="Higgins et al. (2017) beta-VAE, Learning Basic Visual Concepts with a Constrained Variational Framework",
    hyper=(Hyper("beta", 4.0, "weight of the KL term; 1 is the plain VAE", low=0.0, title="β"), *LIKELIHOOD),
    init=init_autoencoder,
    update=update_by(loss),
    advised=advised,
    sweeps={
        "sober_look": {"beta": (1.0, 2.0, 4.0, 6.0, 8.0, 16.0)},  # Table 3
        "udr": {"beta": (1.0, 2.0, 4.0, 6.0, 8.0, 16.0)},  # Table 3: the same models
        "dci": {"beta": (6.0,), "likelihood": ("gaussian",)},  # section 4.2; squared error as in their public code
    },
)
