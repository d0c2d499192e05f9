"""InfoGAN (Chen et al. 2016), as in Eastwood & Williams (2018): a generator whose pictures tell their codes.

A generator G makes pictures of codes c, which are independent and uniform. A critic D says how real a picture looks,
and Q, which shares all layers with it but the last, reads the codes back:

    critic and Q    E[D(G(c))] - E[D(x)] + 10 · E[(|∇D| - 1)²]  +  λ · E|c - Q(G(c))|² / 2
    generator       -E[D(G(c))]                                 +  λ · E|c - Q(G(c))|² / 2

The first part is the Wasserstein GAN with gradient penalty (Gulrajani et al. 2017), ∇D taken between real and generated
pictures; the second bounds the mutual information of codes and pictures, for a Q of standard deviation 1. A step is
five steps of the critic, each on fresh pictures, and one of the generator. Q's mean is the representation.

Codes have variance 1 like a VAE's prior, so what is said of latents elsewhere (traversals to ±2) holds here too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from sober.methods.factor_vae import adam
from sober.methods.method import Draw, Hyper, Images, Method, Scalar, Setup, State, Terms, descend
from sober.nets import FLOAT32, Autoencoder, Compute, Nets
from sober.nets.graph import Affine
from sober.nets.net import Net, Seen
from sober.nets.nets import Shape
from sober.nets.norms import LayerNorm

CRITIC_STEPS = 5  # for each step of the generator (Gulrajani et al.)
HALF_WIDTH = math.sqrt(3)  # of a uniform distribution with variance 1

Codes = Float[Array, "B D"]


class CodesAndScore(eqx.Module):
    """The encoder's outputs are the codes that Q reads, without a spread, and the critic's score."""

    def codes(self, outputs: Float[Array, "B D+1"]) -> tuple[Codes, Codes]:
        mean = outputs[:, :-1]
        return mean, jnp.zeros_like(mean)

    def heads(self, last: Affine) -> tuple[Affine, Affine]:
        codes = last.part(0, len(last.bias) - 1)
        return codes, Affine(np.zeros_like(codes.weight), np.zeros_like(codes.bias))


def game(key: Key[Array, ""], nets: Nets, shape: Shape, latents: int) -> Autoencoder:
    """Q, which is the encoder, with the critic as one output more; and the generator, which is the decoder."""
    for_critic, for_generator = jax.random.split(key)
    critic, generator = (
        nets.judge(for_critic, shape, latents + 1, LayerNorm),
        nets.decoder(for_generator, shape, latents),
    )
    return Autoencoder(critic, generator, CodesAndScore())


def judged(critic: Net, images: Images, compute: Compute = FLOAT32) -> tuple[Codes, Float[Array, " B"]]:
    """The codes that pictures seem to come from, and how real they look."""
    outputs = compute.run(critic, images)
    return outputs[:, :-1], outputs[:, -1]


def generated(generator: Net, codes: Codes, compute: Compute = FLOAT32) -> tuple[Images, Seen]:
    """Pictures of codes, and what the generator saw of the batch."""
    logits, seen = compute.run_batch(generator, codes)
    return jax.nn.sigmoid(logits), seen


def information_loss(codes: Codes, read: Codes) -> Scalar:
    """-E[log Q(c|x)] but for a constant: half the squared distance between codes and what is read of them."""
    return 0.5 * jnp.sum((codes - read) ** 2) / len(codes)


def gradient_penalty(critic: Net, real: Images, fake: Images, key: Key[Array, ""], compute: Compute) -> Scalar:
    """E[(|∇D| - 1)²] at a random place between each real and each generated picture."""
    place = jax.random.uniform(key, (len(real), 1, 1, 1))
    between = real + place * (fake - real)
    slope = jax.grad(lambda pictures: jnp.sum(judged(critic, pictures, compute)[1]))(between)
    squares = jnp.sum(slope.reshape(len(real), -1) ** 2, axis=1)
    return jnp.mean((jnp.sqrt(squares + 1e-12) - 1) ** 2)  # the root of 0 has no derivative


def critic_loss(
    critic: Net,
    real: Images,
    fake: Images,
    codes: Codes,
    key: Key[Array, ""],
    hyper: Mapping[str, Any],
    compute: Compute,
) -> tuple[Scalar, Terms, None]:
    read, scores = judged(critic, jnp.concatenate([fake, real]), compute)
    of_fake, of_real = jnp.split(scores, 2)
    distance = jnp.mean(of_real) - jnp.mean(of_fake)
    penalty = gradient_penalty(critic, real, fake, key, compute)
    information = information_loss(codes, read[: len(codes)])
    loss = -distance + hyper["penalty"] * penalty + hyper["information"] * information
    return loss, {"wasserstein": distance, "penalty": penalty}, None


def generator_loss(
    generator: Net, critic: Net, codes: Codes, hyper: Mapping[str, Any], compute: Compute
) -> tuple[Scalar, Terms, Seen]:
    pictures, seen = generated(generator, codes, compute)
    read, scores = judged(critic, pictures, compute)
    information = information_loss(codes, read)
    return hyper["information"] * information - jnp.mean(scores), {"information": information}, seen


def draw_codes(key: Key[Array, ""], setup: Setup) -> Codes:
    return jax.random.uniform(key, (setup.batch, setup.latents), minval=-HALF_WIDTH, maxval=HALF_WIDTH)


def init(setup: Setup, key: Key[Array, ""], hyper: Mapping[str, Any]) -> State:
    model = game(key, setup.nets, setup.image_shape, setup.latents)
    return State(model, setup.optimiser.init(model.decoder), adam(hyper["critic_rate"]).init(model.encoder))


def update(
    setup: Setup, state: State, draw: Draw, key: Key[Array, ""], step: Int[Array, ""], hyper: Mapping[str, Any]
) -> tuple[State, Terms]:
    for_critic, for_generator = jax.random.split(key)
    generator = state.model.decoder

    def critic_step(carry: tuple[Any, Any], key: Key[Array, ""]) -> tuple[tuple[Any, Any], Terms]:
        critic, memory = carry
        for_images, for_codes, for_penalty = jax.random.split(key, 3)
        codes = draw_codes(for_codes, setup)
        (fake, _), real = generated(generator, codes, setup.compute), draw(for_images)
        critic, memory, terms, _ = descend(
            lambda net: critic_loss(net, real, fake, codes, for_penalty, hyper, setup.compute),
            critic,
            adam(hyper["critic_rate"]),
            memory,
        )
        return (critic, memory), terms

    carry = state.model.encoder, state.memory
    (critic, memory), of_critic = jax.lax.scan(critic_step, carry, jax.random.split(for_critic, CRITIC_STEPS))
    codes = draw_codes(for_generator, setup)
    generator, optimiser, terms, seen = descend(
        lambda net: generator_loss(net, critic, codes, hyper, setup.compute),
        generator,
        setup.optimiser,
        state.optimiser,
    )
    last = {name: term[-1] for name, term in of_critic.items()}
    terms |= {"wasserstein": last["wasserstein"], "penalty": last["penalty"]}
    terms |= {"critic_loss": last["loss"], "critic_gradient_norm": jnp.sum(of_critic["gradient_norm"]) / CRITIC_STEPS}
    return State(state.model.with_nets(critic, generator.having_seen(seen)), optimiser, memory), terms


info_gan = Method(
    name="info_gan",
    summary="a generator against a critic, whose pictures must also tell the codes they came from; no autoencoder",
    reference="Chen et al. (2016): InfoGAN, Interpretable Representation Learning by Information Maximizing GANs",
    hyper=(
        Hyper("information", 6.0, "weight λ of reading the codes back; 0 is a plain Wasserstein GAN", low=0.0),
        Hyper("penalty", 10.0, "weight of the gradient penalty that keeps the critic's slope at 1", low=0.0),
        Hyper("critic_rate", 1e-4, "learning rate of the critic and Q", low=0.0),
    ),
    cost=14.0,
    losses=2,
    same_bits=False,  # its layer norms are summed in an order that depends on the number of models
    objective="information",
    init=init,
    update=update,
    model=game,
)
