"""FactorVAE (Kim & Mnih 2018): the loss of the VAE plus γ times the total correlation of the latents.

    loss = E_q(z|x)[-log p(x|z)] + KL(q(z|x) || N(0, 1)) + γ · TC,      TC = KL(q(z) || q(z_1) · … · q(z_D))

The total correlation TC is estimated from samples. A discriminator learns to tell codes from codes whose latents were
each permuted over a batch, which keeps the distribution of every latent and removes their dependence. If D(z) is its
probability that z is a real code, then TC = E_q(z)[log D(z) - log(1 - D(z))].

A step is one step of the autoencoder on `loss` and one of the discriminator on its cross-entropy.

With `reading=as_published`, as in the code of Estermann & Wattenhofer (2023), the KL is its mean over latents.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, Key

from sober.methods.method import (
    LIKELIHOOD,
    READING,
    Draw,
    Hyper,
    Method,
    Scalar,
    Setup,
    State,
    Terms,
    descend,
    elbo_terms,
    init_autoencoder,
    read_kl,
    sample,
)
from sober.nets import FLOAT32, Autoencoder, Compute
from sober.nets.autoencoder import AutoencoderStatistics
from sober.nets.discriminators import code_discriminator
from sober.nets.net import Net

UNITS = {"wide": 1000, "narrow": 64}  # "auto" takes `code_units` of the nets

Codes = Float[Array, "B D"]


class Adversary(NamedTuple):
    """The discriminator and its optimiser's memory."""

    discriminator: Net
    optimiser: Any


def permuted(codes: Codes, key: Key[Array, ""]) -> Codes:
    """Permutes each latent by itself: samples from the product of the latents' distributions."""
    return jax.random.permutation(key, codes, axis=0, independent=True)


def total_correlation(logits: Float[Array, "B 2"]) -> Scalar:
    """The total correlation of codes estimated from the discriminator's logits, in nats."""
    return jnp.mean(logits[:, 0] - logits[:, 1])


def cross_entropy(logits: Float[Array, "2B 2"]) -> Scalar:
    """The discriminator's loss on a batch whose first half is codes and whose second half is permuted codes."""
    real, fake = jnp.split(jax.nn.log_softmax(logits), 2)
    return -(jnp.mean(real[:, 0]) + jnp.mean(fake[:, 1])) / 2


def descend_discriminator(
    adversary: Adversary, codes: Codes, broken: Codes, rate: float | Scalar, compute: Compute = FLOAT32
) -> tuple[Adversary, Terms]:
    """One step of the discriminator with Adam(0.5, 0.9), on codes and on codes whose latents were permuted."""
    all_codes = jnp.concatenate([codes, broken])
    discriminator, optimiser, terms, _ = descend(
        lambda net: (cross_entropy(compute.run(net, all_codes)), {}, None),
        adversary.discriminator,
        adam(rate),
        adversary.optimiser,
    )
    return Adversary(discriminator, optimiser), {f"discriminator_{name}": term for name, term in terms.items()}


def adam(rate: float | Scalar) -> optax.GradientTransformation:
    """The optimiser of discriminators and critics."""
    return optax.adam(rate, b1=0.5, b2=0.9)


def init(setup: Setup, key: Key[Array, ""], hyper: Mapping[str, Any]) -> State:
    for_model, for_discriminator = jax.random.split(key)
    units = UNITS.get(hyper["discriminator"], setup.nets.code_units)
    discriminator = code_discriminator(for_discriminator, setup.latents, units)
    adversary = Adversary(discriminator, adam(hyper["discriminator_rate"]).init(discriminator))
    return init_autoencoder(setup, for_model, hyper)._replace(memory=adversary)


def update(
    setup: Setup, state: State, draw: Draw, key: Key[Array, ""], step: Int[Array, ""], hyper: Mapping[str, Any]
) -> tuple[State, Terms]:
    for_images, for_codes, for_others, for_other_codes, for_order = jax.random.split(key, 5)
    images = draw(for_images)

    def loss(model: Autoencoder) -> tuple[Scalar, Terms, tuple[Codes, AutoencoderStatistics]]:
        terms, _, _, codes, statistics = elbo_terms(model, images, for_codes, setup.compute, hyper)
        dependence = total_correlation(setup.compute.run(state.memory.discriminator, codes))
        kl = read_kl(terms["kl"], codes.shape[1], hyper)
        total = terms["reconstruction"] + kl + hyper["gamma"] * dependence
        return total, {**terms, "total_correlation": dependence}, (codes, statistics)

    model, optimiser, terms, (codes, statistics) = descend(loss, state.model, setup.optimiser, state.optimiser)
    others = codes
    if hyper["second_batch"]:  # encoded by the same weights as the first
        (mean, logvar), _ = state.model.encode_batch(draw(for_others), setup.compute)
        others = sample(mean, logvar, for_other_codes)
    adversary, of_discriminator = descend_discriminator(
        state.memory, codes, permuted(others, for_order), hyper["discriminator_rate"], setup.compute
    )
    return State(model.after_batch(statistics), optimiser, adversary), terms | of_discriminator


factor_vae = Method(
    name="factor_vae",
    title="FactorVAE",
    summary="the total correlation of the latents, as estimated by a discriminator of codes, weighs gamma times",
    reference="Kim & Mnih (2018): Disentangling by Factorising",
    hyper=(
        Hyper("gamma", 10.0, "weight of the total correlation; 0 is the plain VAE", low=0.0, title="γ"),
        Hyper(
            "discriminator_rate",
            1e-4,
            "learning rate of the discriminator",
            low=0.0,
            title="discriminator's learning rate",
        ),
        Hyper(
            "discriminator",
            "auto",
            "units in its six layers: wide 1000, narrow 64, auto the number that the nets name",
            choices=("auto", "wide", "narrow"),
            title="discriminator",
        ),
        Hyper(
            "second_batch",
            True,
            "whether permuted codes come from a second batch, and not from the first again",
            choices=(True, False),
            title="second batch",
        ),
        READING,
        *LIKELIHOOD,
    ),
    cost=2.0,
    losses=2,
    init=init,
    update=update,
    sweeps={
        # Table 3. That study permutes the codes of the batch itself, so the batch is used twice.
        "sober_look": {"gamma": (10.0, 20.0, 30.0, 40.0, 50.0, 100.0), "second_batch": (False,)},
        "udr": {"gamma": (10.0, 20.0, 30.0, 40.0, 50.0, 100.0), "second_batch": (False,)},  # the same models
        "dava": {"gamma": (5.0, 10.0, 20.0, 30.0, 50.0, 100.0)},  # Table 7
        "dava_as_published": {"gamma": (5.0, 10.0, 20.0, 30.0, 50.0, 100.0), "reading": ("as_published",)},
    },
)
