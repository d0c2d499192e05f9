"""β-TCVAE (Chen et al. 2018): the KL has three parts, and the total correlation of the latents weighs more.

    loss = E_q(z|x)[-log p(x|z)] + α · I(z; n) + β · KL(q(z) || Π_j q(z_j)) + γ · Σ_j KL(q(z_j) || p(z_j))

For pictures numbered n = 1 … N and q(z) = 1/N Σ_n q(z|n), the parts are the information of the codes about the picture
(mutual information), that of the latents about each other (total correlation), and the distance of each latent from its
prior (dimension-wise KL). With weights of 1 they add up to the KL of the VAE.

With `reading=as_published`, as in the code of Estermann & Wattenhofer (2023), the KL of the VAE is its mean over the D
latents, and the parts are added to it with what their weights exceed 1 by:

    loss = E_q(z|x)[-log p(x|z)] + KL / D + (α - 1) · I(z; n) + (β - 1) · KL(q(z) || Π_j q(z_j)) + (γ - 1) · …
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from sober.errors import RequestError
from sober.methods.beta_vae import advised
from sober.methods.method import (
    LIKELIHOOD,
    READING,
    Draw,
    Hyper,
    Method,
    Objective,
    Scalar,
    Setup,
    State,
    Terms,
    descend,
    elbo_terms,
    read_kl,
)
from sober.nets import Autoencoder, autoencoder

DEPTH = 32  # layers of the flow, for each latent


def log_normal(
    x: Float[Array, "*b D"], mean: Float[Array, "*b D"] | float = 0.0, logvar: Float[Array, "*b D"] | float = 0.0
) -> Float[Array, "*b D"]:
    """log N(x; mean, exp(logvar)), latent by latent."""
    return -0.5 * ((x - mean) ** 2 * jnp.exp(-logvar) + logvar + math.log(2 * math.pi))


def log_weights(batch: int, pictures: int, estimator: str) -> Float[np.ndarray, "B B"]:
    """log w_ij such that q(z_i) ≈ Σ_j w_ij q(z_i|n_j) for a sample z_i of picture i in a batch.

    Minibatch-weighted sampling (eq. 4) has 1/(N·M) everywhere, with M pictures in the batch. It sums to 1/N, so log q
    comes out too small, by log N where all codes overlap. A batch of all pictures, M = N, does not mend that: the
    logged total correlation is then too large by up to (D - 1)·log N, and may not be read as one.

    Minibatch-stratified sampling (S6) has M others beside picture i itself: 1/N for itself, 1/M for M - 1 of the
    others, (N - M)/(N·M) for the last, which here is the one before it in the batch. It sums to 1. A batch of all
    pictures is M = N: the last has nothing left to stand for, every weight is 1/N, and q(z) is exact.
    """
    if estimator == "weighted":
        return np.full((batch, batch), -math.log(pictures * batch))
    if batch >= pictures:
        return np.full((batch, batch), -math.log(batch))
    if batch < 2:
        raise RequestError("estimator=stratified needs another picture in the batch: use a batch of 2 or more")
    others = batch - 1
    weights = np.full((batch, batch), 1 / others)
    row = np.arange(batch)
    weights[row, row] = 1 / pictures
    weights[row, row - 1] = (pictures - others) / (pictures * others)
    return np.log(weights)


def decomposition(
    mean: Float[Array, "B D"],
    logvar: Float[Array, "B D"],
    codes: Float[Array, "B D"],
    pictures: int,
    estimator: str = "weighted",
    log_prior: Float[Array, "B D"] | None = None,
) -> tuple[Scalar, Scalar, Scalar]:
    """Mutual information, total correlation and dimension-wise KL, estimated from one sample per code of a batch.

    Their sum is the mean of log q(z|x) - log p(z) over the samples for any estimator of q(z), which cancels.
    """
    log_prior = log_normal(codes) if log_prior is None else log_prior
    weights = log_weights(len(codes), pictures, estimator).astype(codes.dtype)
    pairs = log_normal(codes[:, None], mean, logvar)  # (B, B, D): sample i under the code of picture j
    given_picture = jnp.sum(log_normal(codes, mean, logvar), axis=-1)  # (B,)
    joint = jax.nn.logsumexp(jnp.sum(pairs, axis=-1) + weights, axis=1)  # (B,)
    marginals = jax.nn.logsumexp(pairs + weights[..., None], axis=1)  # (B, D)
    mutual_information = jnp.mean(given_picture - joint)
    total_correlation = jnp.mean(joint - jnp.sum(marginals, axis=-1))
    return mutual_information, total_correlation, jnp.mean(jnp.sum(marginals - log_prior, axis=-1))


class Flow(NamedTuple):
    """A prior for each latent: DEPTH monotone bends map it to N(0, 1). Untrained, it is N(0, 1).

    A bend x + s · tanh(w · (x - c)) / w, with s > -1, stretches the line around c by a factor of 1 + s.
    """

    log_stretch: Float[Array, "L D"]  # log(1 + s)
    log_sharpness: Float[Array, "L D"]  # log w
    centre: Float[Array, "L D"]  # c

    def log_density(self, x: Float[Array, "B D"]) -> Float[Array, "B D"]:
        def bend(carry: tuple[Array, Array], layer: Flow) -> tuple[tuple[Array, Array], None]:
            x, log_slope = carry
            stretch, sharpness = jnp.expm1(layer.log_stretch), jnp.exp(layer.log_sharpness)
            bent = jnp.tanh(sharpness * (x - layer.centre))
            return (x + stretch * bent / sharpness, log_slope + jnp.log1p(stretch * (1 - bent**2))), None

        (x, log_slope), _ = jax.lax.scan(bend, (x, jnp.zeros_like(x)), self)
        return log_normal(x) + log_slope


def new_flow(latents: int) -> Flow:
    zeros = jnp.zeros((DEPTH, latents))
    return Flow(zeros, zeros, zeros + jnp.linspace(-3, 3, DEPTH)[:, None])


def init(setup: Setup, key: Key[Array, ""], hyper: Mapping[str, Any]) -> State:
    model = autoencoder(key, setup.nets, setup.image_shape, setup.latents)
    flow = new_flow(setup.latents) if hyper["prior"] == "flow" else ()
    return State(model, setup.optimiser.init((model, flow)), flow)


def update(
    setup: Setup, state: State, draw: Draw, key: Key[Array, ""], step: Int[Array, ""], hyper: Mapping[str, Any]
) -> tuple[State, Terms]:
    """One step of the model on the loss, and of the prior if it is a flow."""
    for_images, for_loss = jax.random.split(key)
    images = draw(for_images)

    def loss(params: tuple[Autoencoder, Any]) -> Objective:
        model, flow = params
        terms, mean, logvar, codes, statistics = elbo_terms(model, images, for_loss, setup.compute, hyper)
        log_prior = flow.log_density(codes) if flow else None
        parts = decomposition(mean, logvar, codes, setup.pictures, hyper["estimator"], log_prior)
        published = hyper.get("reading") == "as_published"
        weights = [hyper[name] - 1 if published else hyper[name] for name in ("alpha", "beta", "gamma")]
        weighted = sum(weight * term for weight, term in zip(weights, parts, strict=True))
        if published:
            weighted += read_kl(terms["kl"], mean.shape[1], hyper)
        names = ("mutual_information", "total_correlation", "dimension_wise_kl")
        return terms["reconstruction"] + weighted, {**terms, **dict(zip(names, parts, strict=True))}, statistics

    params = (state.model, state.memory)
    (model, flow), optimiser, terms, statistics = descend(loss, params, setup.optimiser, state.optimiser)
    return State(model.after_batch(statistics), optimiser, flow), terms


beta_tcvae = Method(
    name="beta_tcvae",
    title="β-TCVAE",
    summary="the total correlation, a part of the KL, weighs beta times as much",
    reference="Chen et al. (2018): Isolating Sources of Disentanglement in Variational Autoencoders",
    hyper=(
        Hyper("beta", 6.0, "weight of the total correlation; 1 is the plain VAE", low=0.0, title="β"),
        Hyper("alpha", 1.0, "weight of the mutual information between codes and pictures", low=0.0, title="α"),
        Hyper("gamma", 1.0, "weight of the dimension-wise KL", low=0.0, title="γ"),
        Hyper(
            "estimator",
            "weighted",
            "estimator of q(z) from a batch; with weighted, the logged parts of the KL are shifted, and are no nats",
            choices=("weighted", "stratified"),
            title="estimator",
        ),
        Hyper(
            "prior",
            "normal",
            "prior of the latents: N(0, 1), or a trained flow for each latent",
            choices=("normal", "flow"),
            title="prior",
        ),
        READING,
        *LIKELIHOOD,
    ),
    init=init,
    update=update,
    advised=advised,
    sweeps={
        "sober_look": {"beta": (1.0, 2.0, 4.0, 6.0, 8.0, 10.0)},  # Table 3
        "udr": {"beta": (1.0, 2.0, 4.0, 6.0, 8.0, 10.0)},  # Table 3: the same models
        "dava": {"beta": (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)},  # Table 7
        "dava_as_published": {"beta": (1.0, 2.0, 4.0, 8.0, 16.0, 32.0), "reading": ("as_published",)},
    },
)
