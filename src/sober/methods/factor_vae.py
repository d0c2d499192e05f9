"""FactorVAE (Kim & Mnih 2018): the latents also pay γ times for all that they say about each other.

    loss = E_q(z|x)[-log p(x|z)] + KL(q(z|x) || N(0, 1)) + γ · TC,      TC = KL(q(z) || q(z_1) · … · q(z_D))

The total correlation TC is known from samples alone. A discriminator learns to tell codes from codes whose latents were
each permuted over a batch, which leaves every latent's distribution and breaks what ties them together. If D(z) is its
probability that z is a real code, then TC = E_q(z)[log D(z) - log(1 - D(z))].

A step is one step of the autoencoder on `loss` and one of the discriminator on its cross-entropy.
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
    sample,
)
from sober.nets import FLOAT32, Autoencoder, Compute
from sober.nets.discriminators import code_discriminator
from sober.nets.net import Net
from sober.nets.nets import Saw

UNITS = {"wide": 1000, "narrow": 64}  # "auto" is what the nets say

Codes = Float[Array, "B D"]


class Adversary(NamedTuple):
    """The discriminator and its optimiser's memory."""

    discriminator: Net
    optimiser: Any


def permuted(codes: Codes, key: Key[Array, ""]) -> Codes:
    """Each latent in an order of its own: as if drawn from the product of the latents' distributions."""
    return jax.random.permutation(key, codes, axis=0, independent=True)


def total_correlation(logits: Float[Array, "B 2"]) -> Scalar:
    """What the discriminator's logits for codes say of their total correlation, in nats."""
    return jnp.mean(logits[:, 0] - logits[:, 1])


def cross_entropy(logits: Float[Array, "2B 2"]) -> Scalar:
    """The discriminator's loss on a batch whose first half is codes and whose second half is permuted codes."""
    real, fake = jnp.split(jax.nn.log_softmax(logits), 2)
    return -(jnp.mean(real[:, 0]) + jnp.mean(fake[:, 1])) / 2


def descend_discriminator(
    adversary: Adversary, codes: Codes, broken: Codes, rate: float | Scalar, compute: Compute = FLOAT32
) -> tuple[Adversary, Terms]:
    """One step of the discriminator with Adam(0.5, 0.9), on codes and on codes whose latents were permuted."""
    both = jnp.concatenate([codes, broken])
    discriminator, optimiser, terms, _ = descend(
        lambda net: (cross_entropy(compute.run(net, both)), {}, None),
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

    def loss(model: Autoencoder) -> tuple[Scalar, Terms, tuple[Codes, Saw]]:
        terms, _, _, codes, saw = elbo_terms(model, images, for_codes, setup.compute, hyper)
        dependence = total_correlation(setup.compute.run(state.memory.discriminator, codes))
        total = terms["reconstruction"] + terms["kl"] + hyper["gamma"] * dependence
        return total, {**terms, "total_correlation": dependence}, (codes, saw)

    model, optimiser, terms, (codes, saw) = descend(loss, state.model, setup.optimiser, state.optimiser)
    others = codes
    if hyper["second_batch"]:  # encoded by the same weights as the first
        (mean, logvar), _ = state.model.encode_batch(draw(for_others), setup.compute)
        others = sample(mean, logvar, for_other_codes)
    adversary, of_discriminator = descend_discriminator(
        state.memory, codes, permuted(others, for_order), hyper["discriminator_rate"], setup.compute
    )
    return State(model.having_seen(saw), optimiser, adversary), terms | of_discriminator


factor_vae = Method(
    name="factor_vae",
    summary="latents pay gamma times for what they say about each other, as told by a discriminator of codes",
    reference="Kim & Mnih (2018): Disentangling by Factorising",
    hyper=(
        Hyper("gamma", 10.0, "weight of the total correlation; 0 is the plain VAE", low=0.0),
        Hyper("discriminator_rate", 1e-4, "learning rate of the discriminator", low=0.0),
        Hyper(
            "discriminator",
            "auto",
            "units in its six layers: wide 1000, narrow 64, auto as many as suit the nets",
            choices=("auto", "wide", "narrow"),
        ),
        Hyper(
            "second_batch", True, "permuted codes come from a second batch, not the first again", choices=(True, False)
        ),
        *LIKELIHOOD,
    ),
    cost=2.0,
    losses=2,
    init=init,
    update=update,
    sweeps={
        # Table 3. That study permutes the codes that it has, so the batch is used twice.
        "sober_look": {"gamma": (10.0, 20.0, 30.0, 40.0, 50.0, 100.0), "second_batch": (False,)},
        "udr": {"gamma": (10.0, 20.0, 30.0, 40.0, 50.0, 100.0), "second_batch": (False,)},  # the same models
        "dava": {"gamma": (5.0, 10.0, 20.0, 30.0, 50.0, 100.0)},  # Table 7
    },
)
