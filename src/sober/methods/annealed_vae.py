"""Annealed VAE (Burgess et al. 2018, also CCI-VAE): the KL is held at a capacity that rises slowly.

    loss = E_q(z|x)[-log p(x|z)] + γ · |KL(q(z|x) || N(0, 1)) - C|
    C    = c_max · min(step / iteration_threshold, 1)

or, with `penalty=fourth`, γ · (KL / D - C)⁴ for D latents, where C is nats for each latent: the baseline of Estermann &
Wattenhofer (2023), appendix D.

At a small capacity the model describes what improves the reconstruction most; as C grows, further latents take up the
next factors. The KL is averaged over the batch before its distance to C is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Int, Key

from sober.methods.method import (
    LIKELIHOOD,
    Draw,
    Hyper,
    Images,
    Method,
    Objective,
    Scalar,
    Setup,
    State,
    Terms,
    elbo_terms,
    init_autoencoder,
    update_by,
)
from sober.nets import Autoencoder


def capacity(step: Int[Array, ""], hyper: Mapping[str, Any]) -> Scalar:
    """C in nats: linear from 0 to `c_max` at `iteration_threshold`, then constant."""
    return hyper["c_max"] * jnp.minimum(step / hyper["iteration_threshold"], 1)


def distance(kl: Scalar, capacity: Scalar, latents: int, penalty: str) -> Scalar:
    """The distance between a KL, summed over latents, and the capacity."""
    return (kl / latents - capacity) ** 4 if penalty == "fourth" else jnp.abs(kl - capacity)


def loss(model: Autoencoder, images: Images, key: Key[Array, ""], hyper: Mapping[str, Any], setup: Setup) -> Objective:
    """The objective at one capacity, `hyper["capacity"]`."""
    elbo = elbo_terms(model, images, key, setup.compute, hyper)
    penalty = distance(elbo.terms["kl"], hyper["capacity"], elbo.mean.shape[1], hyper.get("penalty", "absolute"))
    total = elbo.terms["reconstruction"] + hyper["gamma"] * penalty
    return total, {**elbo.terms, "capacity": hyper["capacity"]}, elbo.statistics


def update(
    setup: Setup, state: State, draw: Draw, key: Key[Array, ""], step: Int[Array, ""], hyper: Mapping[str, Any]
) -> tuple[State, Terms]:
    return update_by(loss)(setup, state, draw, key, step, {**hyper, "capacity": capacity(step, hyper)})


annealed_vae = Method(
    name="annealed_vae",
    title="AnnealedVAE",
    summary="the KL is held at a capacity that rises slowly",
    reference="Burgess et al. (2018): Understanding disentangling in beta-VAE",
    hyper=(
        Hyper("c_max", 25.0, "capacity at the end, in nats", low=0.0, title="C"),
        Hyper("gamma", 1000.0, "weight of the distance between KL and capacity", low=0.0, title="γ"),
        Hyper(
            "iteration_threshold",
            100_000.0,
            "steps over which the capacity rises from 0 to c_max",
            low=1.0,
            with_steps=1,
            title="steps of annealing",
        ),
        Hyper(
            "penalty",
            "absolute",
            "the distance: absolute, with the KL summed over latents; or fourth, its fourth power with their mean KL",
            choices=("absolute", "fourth"),
            later=True,
            title="penalty",
        ),
        *LIKELIHOOD,
    ),
    init=init_autoencoder,
    update=update,
    step_of="beta_vae",
    sweeps={
        "sober_look": {"c_max": (5.0, 10.0, 25.0, 50.0, 75.0, 100.0)},  # Table 3
        "udr": {"c_max": (5.0, 10.0, 25.0, 50.0, 75.0, 100.0)},  # Table 3: the same models
        # Tables 5 and 7; appendix D: the baseline has the penalty of DAVA itself, on the mean KL of its latents.
        "dava": {"c_max": (0.5, 1.0, 2.0, 5.0, 25.0, 50.0), "gamma": (1000.0,), "penalty": ("fourth",)},
        # The same: here text and code agree that the KL is a mean.
        "dava_as_published": {"c_max": (0.5, 1.0, 2.0, 5.0, 25.0, 50.0), "gamma": (1000.0,), "penalty": ("fourth",)},
    },
)
