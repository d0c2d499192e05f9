"""InfoGAN (Chen et al. 2016), as in Eastwood & Williams (2018): a generator with codes readable from its pictures.

A generator G makes pictures of codes c, which are independent and uniform. A critic D says how real a picture looks,
and Q, which shares all layers with it but the last, reads the codes back:

    critic and Q    E[D(G(c))] - E[D(x)] + 10 · E[(|∇D| - 1)²]  +  λ · E|c - Q(G(c))|² / 2
    generator       -E[D(G(c))]                                 +  λ · E|c - Q(G(c))|² / 2

The first part is the Wasserstein GAN with gradient penalty (Gulrajani et al. 2017), ∇D taken between real and generated
pictures; the second bounds the mutual information of codes and pictures, for a Q of standard deviation 1. A step is
five steps of the critic, each on fresh pictures, and one of the generator. Q's mean is the representation; it has no
spread.

Codes have variance 1 like a VAE's prior, so traversals to ±2 have the same meaning as elsewhere. In
Eastwood & Williams codes u = c / √3 and pixels X = 2x - 1 are between -1 and 1, λ is 6 and the penalty weighs 10. With
D = 2 D̃, where D̃ has slope 1 on pixels from 0 to 1 as D has on theirs, |∇_X D| = |∇_x D̃| and

    -(E[D(x)] - E[D(G)]) + 10 · (|∇_X D| - 1)² + 6 · |u - û|² / 2
        =  2 · [-(E[D̃(x)] - E[D̃(G)]) + 5 · (|∇_x D̃| - 1)² + 1 · |c - ĉ|² / 2]

so their game is `information=1, penalty=5` here: a factor of 2 makes no difference to Adam.

With `objective=gan` it is the game of Chen et al. (2016), as Chen et al. (2018) played it with the settings of DCGAN
(Radford et al. 2016) and instance noise (Sønderby et al. 2017): batch norm in D, one step of each,

    D and Q         -E[log D(x + ε)] - E[log(1 - D(G(c, n) + ε))]  +  λ · E|c - Q(G(c, n) + ε)|² / 2
    generator       -E[log D(G(c, n) + ε)]                         +  λ · E|c - Q(G(c, n) + ε)|² / 2

Noise variables n, in either game, are more inputs of the generator that Q does not read. Decoded codes have them at 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, Key

from sober.methods.method import Draw, Hyper, Images, Method, Scalar, Setup, State, Terms, bernoulli_loss, descend
from sober.nets import FLOAT32, Autoencoder, Compute, Nets
from sober.nets.autoencoder import Shape
from sober.nets.graph import Affine
from sober.nets.layers import Fill
from sober.nets.net import BatchStatistics, Net
from sober.nets.norms import BatchNorm, LayerNorm, Norm
from sober.types import Setting

CRITIC_STEPS = 5  # for each step of the generator (Gulrajani et al.)
HALF_WIDTH = math.sqrt(3)  # of a uniform distribution with variance 1

Codes = Float[Array, "B D"]
Inputs = Float[Array, "B D+noise"]  # of the generator: the codes, then noise that Q does not read


class CodesAndScore(eqx.Module):
    """The encoder's outputs are the codes that Q reads, without log-variances, and the critic's score."""

    @property
    def has_spread(self) -> bool:
        return False

    def codes(self, outputs: Float[Array, "B D+1"]) -> tuple[Codes, Codes]:
        mean = outputs[:, :-1]
        return mean, jnp.zeros_like(mean)

    def heads(self, last: Affine) -> tuple[Affine, Affine]:
        codes = last.part(0, len(last.bias) - 1)
        return codes, Affine(np.zeros_like(codes.weight), np.zeros_like(codes.bias))


def game(
    key: Key[Array, ""], nets: Nets, shape: Shape, latents: int, noise: int = 0, objective: str = "wasserstein"
) -> Autoencoder:
    """Q as the encoder, with the critic as one more output, and the generator as the decoder."""
    for_critic, for_generator = jax.random.split(key)
    norm: Norm = BatchNorm.of if objective == "gan" else LayerNorm
    critic = nets.judge(for_critic, shape, latents + 1, norm)
    generator = nets.decoder(for_generator, shape, latents + noise)
    if noise:  # so that codes alone make a picture too
        generator = Net(("noise", *generator.names), (Fill(latents + noise), *generator.layers))
    return Autoencoder(critic, generator, CodesAndScore())


def judged(critic: Net, images: Images, compute: Compute = FLOAT32) -> tuple[Codes, Float[Array, " B"]]:
    """Q's codes and the critic's scores of pictures."""
    outputs = compute.run(critic, images)
    return outputs[:, :-1], outputs[:, -1]


def generated(generator: Net, codes: Inputs, compute: Compute = FLOAT32) -> tuple[Images, BatchStatistics]:
    """Pictures generated from codes and noise, and the generator's statistics of the batch."""
    logits, statistics = compute.run_batch(generator, codes)
    return jax.nn.sigmoid(logits), statistics


def information_loss(codes: Inputs, read: Codes) -> Scalar:
    """-E[log Q(c|x)] up to a constant: half the squared distance between codes and Q's reading of them."""
    return 0.5 * jnp.sum((codes[:, : read.shape[1]] - read) ** 2) / len(codes)


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
    codes: Inputs,
    key: Key[Array, ""],
    hyper: Mapping[str, Any],
    compute: Compute,
) -> tuple[Scalar, Terms, BatchStatistics]:
    read, scores = judged(critic, jnp.concatenate([fake, real]), compute)
    of_fake, of_real = jnp.split(scores, 2)
    distance = jnp.mean(of_real) - jnp.mean(of_fake)
    penalty = gradient_penalty(critic, real, fake, key, compute)
    information = information_loss(codes, read[: len(codes)])
    loss = -distance + hyper["penalty"] * penalty + hyper["information"] * information
    return loss, {"wasserstein": distance, "penalty": penalty}, None


def generator_loss(
    generator: Net,
    critic: Net,
    codes: Inputs,
    hyper: Mapping[str, Any],
    compute: Compute,
    key: Key[Array, ""] | None = None,
) -> tuple[Scalar, Terms, BatchStatistics]:
    pictures, statistics = generated(generator, codes, compute)
    read, scores = judged(critic, pictures, compute)
    information = information_loss(codes, read)
    return hyper["information"] * information - jnp.mean(scores), {"information": information}, statistics


def noisy(images: Images, key: Key[Array, ""], hyper: Mapping[str, Any]) -> Images:
    """Pictures with instance noise of this step's strength."""
    return images + hyper["strength"] * jax.random.normal(key, images.shape, images.dtype)


def strength(step: Int[Array, ""], hyper: Mapping[str, Any]) -> Scalar:
    """The standard deviation of instance noise: falls linearly to 0 at `noise_until`, or is constant."""
    until = hyper["noise_until"]
    left = jnp.maximum(1 - step / jnp.maximum(until, 1), 0)
    return hyper["instance_noise"] * jnp.where(until > 0, left, 1)


def gan_critic_loss(
    critic: Net,
    real: Images,
    fake: Images,
    codes: Inputs,
    key: Key[Array, ""],
    hyper: Mapping[str, Any],
    compute: Compute,
) -> tuple[Scalar, Terms, BatchStatistics]:
    """The discriminator's loss. Real and generated pictures are separate batches for its batch norms (DCGAN)."""
    for_real, for_fake = jax.random.split(key)
    of_real, saw_real = compute.run_batch(critic, noisy(real, for_real, hyper))
    of_fake, saw_fake = compute.run_batch(critic, noisy(fake, for_fake, hyper))
    mistakes = bernoulli_loss(of_real[:, -1], jnp.ones(len(real))) + bernoulli_loss(
        of_fake[:, -1], jnp.zeros(len(fake))
    )
    right = (jnp.mean(of_real[:, -1] > 0) + jnp.mean(of_fake[:, -1] <= 0)) / 2
    loss = jnp.mean(mistakes) + hyper["information"] * information_loss(codes, of_fake[:, :-1])
    return loss, {"accuracy": right}, (saw_real, saw_fake)


def gan_generator_loss(
    generator: Net,
    critic: Net,
    codes: Inputs,
    hyper: Mapping[str, Any],
    compute: Compute,
    key: Key[Array, ""],
) -> tuple[Scalar, Terms, BatchStatistics]:
    """The generator's loss that does not saturate where the discriminator is right (Goodfellow et al. 2014)."""
    pictures, statistics = generated(generator, codes, compute)
    outputs, _ = compute.run_batch(critic, noisy(pictures, key, hyper))
    information = information_loss(codes, outputs[:, :-1])
    fooled = jnp.mean(bernoulli_loss(outputs[:, -1], jnp.ones(len(pictures))))
    return fooled + hyper["information"] * information, {"information": information}, statistics


class Rules(NamedTuple):
    """The rules of a game: steps of the critic, losses, and the critic's optimiser."""

    critic_steps: int
    critic_loss: Callable[..., tuple[Scalar, Terms, BatchStatistics]]
    generator_loss: Callable[..., tuple[Scalar, Terms, BatchStatistics]]
    b2: float  # of the critic's Adam

    def adam(self, hyper: Mapping[str, Any]) -> optax.GradientTransformation:
        """The critic's optimiser."""
        return optax.adam(hyper["critic_rate"], b1=hyper["critic_b1"], b2=self.b2)


RULES = {
    "wasserstein": Rules(CRITIC_STEPS, critic_loss, generator_loss, 0.9),
    "gan": Rules(1, gan_critic_loss, gan_generator_loss, 0.999),
}


def draw_codes(key: Key[Array, ""], setup: Setup, noise: int = 0) -> Inputs:
    return jax.random.uniform(key, (setup.batch, setup.latents + noise), minval=-HALF_WIDTH, maxval=HALF_WIDTH)


def init(setup: Setup, key: Key[Array, ""], hyper: Mapping[str, Any]) -> State:
    model = game(key, setup.nets, setup.image_shape, setup.latents, int(hyper["noise"]), hyper["objective"])
    critic = RULES[hyper["objective"]].adam(hyper)
    return State(model, setup.optimiser.init(model.decoder), critic.init(model.encoder))


def update(
    setup: Setup, state: State, draw: Draw, key: Key[Array, ""], step: Int[Array, ""], hyper: Mapping[str, Any]
) -> tuple[State, Terms]:
    for_critic, for_generator = jax.random.split(key)
    generator, rules, noise = state.model.decoder, RULES[hyper["objective"]], int(hyper["noise"])
    hyper = {**hyper, "strength": strength(step, hyper)}

    def critic_step(carry: tuple[Any, Any], key: Key[Array, ""]) -> tuple[tuple[Any, Any], Terms]:
        critic, memory = carry
        for_images, for_codes, for_penalty = jax.random.split(key, 3)
        codes = draw_codes(for_codes, setup, noise)
        (fake, _), real = generated(generator, codes, setup.compute), draw(for_images)
        critic, memory, terms, critic_statistics = descend(
            lambda net: rules.critic_loss(net, real, fake, codes, for_penalty, hyper, setup.compute),
            critic,
            rules.adam(hyper),
            memory,
        )
        for statistics in critic_statistics or ():  # of real pictures, then of generated ones
            critic = critic.after_batch(statistics)
        return (critic, memory), terms

    carry = state.model.encoder, state.memory
    (critic, memory), of_critic = jax.lax.scan(critic_step, carry, jax.random.split(for_critic, rules.critic_steps))
    codes = draw_codes(for_generator, setup, noise)
    generator, optimiser, terms, generator_statistics = descend(
        lambda net: rules.generator_loss(
            net, critic, codes, hyper, setup.compute, jax.random.fold_in(for_generator, 1)
        ),
        generator,
        setup.optimiser,
        state.optimiser,
    )
    last = {name: term[-1] for name, term in of_critic.items()}
    norm = jnp.sum(of_critic["gradient_norm"]) / rules.critic_steps
    terms |= {name: term for name, term in last.items() if name not in ("loss", "gradient_norm")}
    terms |= {"critic_loss": last["loss"], "critic_gradient_norm": norm}
    return State(state.model.with_nets(critic, generator.after_batch(generator_statistics)), optimiser, memory), terms


# Supplement H of Chen et al. (2018): as DCGAN, so Adam at 2e-4. It names no λ: the code of Chen et al. (2016) has 1 for
# codes from -1 to 1, which is 1/3 for codes of variance 1. Nor does it say how strong the instance noise is: ours.
CHEN: dict[str, tuple[Setting, ...]] = {
    "objective": ("gan",),
    "information": (1 / 3,),
    "critic_rate": (2e-4,),
    "instance_noise": (0.1,),
    "noise_until": (12_000.0,),
}

info_gan = Method(
    name="info_gan",
    title="InfoGAN",
    summary="a generator against a critic, with codes that can be read from its pictures; no autoencoder",
    reference="Chen et al. (2016): InfoGAN, Interpretable Representation Learning by Information Maximizing GANs",
    hyper=(
        Hyper(
            "information", 6.0, "weight λ of reading the codes back; 0 is a plain Wasserstein GAN", low=0.0, title="λ"
        ),
        Hyper(
            "penalty",
            10.0,
            "weight of the gradient penalty that keeps the critic's slope at 1",
            low=0.0,
            title="gradient penalty",
        ),
        Hyper("critic_rate", 1e-4, "learning rate of the critic and Q", low=0.0, title="critic's learning rate"),
        Hyper(
            "critic_b1",
            0.5,
            "decay rate of the mean gradient in the critic's Adam; with 0, steps follow the last gradient alone",
            low=0.0,
            high=0.999,
            later=True,
            title="critic's b1",
        ),
        Hyper(
            "objective",
            "wasserstein",
            "objective of the game: wasserstein with gradient penalty and layer norm, or gan with batch norm",
            choices=("wasserstein", "gan"),
            shapes=True,
            later=True,
            title="objective",
        ),
        Hyper(
            "noise",
            0.0,
            "inputs of the generator besides the codes, which Q does not read",
            low=0.0,
            shapes=True,
            later=True,
            title="noise inputs",
        ),
        Hyper(
            "instance_noise",
            0.0,
            "standard deviation of the noise on the discriminator's pictures, for objective=gan",
            low=0.0,
            later=True,
            title="instance noise",
        ),
        Hyper(
            "noise_until",
            0.0,
            "the step at which instance noise has fallen to 0, for objective=gan; 0 if it is constant",
            low=0.0,
            with_steps=1,
            later=True,
            title="last step of noise",
        ),
    ),
    cost=14.0,
    losses=2,
    same_bits=False,  # its layer norms are summed in an order that depends on the number of models
    objective="information",
    init=init,
    update=update,
    model=game,
    sweeps={
        # Their 6 and 10, for codes and pixels from -1 to 1. Their code has Adam(0, 0.9) for both nets.
        "dci": {"information": (1.0,), "penalty": (5.0,), "critic_b1": (0.0,)},
        "beta_tcvae": {**CHEN, "noise": (5.0,)},  # Figure 3, with 5 latents
        "beta_tcvae_biased": {**CHEN, "noise": (8.0,)},  # Figure 5, with 2 latents
    },
)
