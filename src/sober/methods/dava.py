"""DAVA (Estermann & Wattenhofer 2023): the capacity of the codes grows only while latents can be mixed freely.

A discriminator of pictures tries to tell reconstructions x̂ = Dec(z) from generated pictures x̃ = Dec(z̃), where z̃ is
z with each latent permuted over the batch. While it can only guess, any combination of latents makes a picture like
the world's, and the capacity C may rise. When it sees a difference, C falls, and encoder and decoder are trained to
remove the difference. With its accuracy on the batch, a step is

    1  autoencoder      down E_q(z|x)[-log p(x|z)] + γ · (KL - C)⁴, where KL is the mean over latents
    2  discriminator    up log D(x̂) + log(1 - D(x̃)), with smoothed labels
    3  capacity         C + ΔC if accuracy ≤ 0.5;  C if accuracy ≤ 0.51;  else C - ΔC;  never below 0
    4  encoder          down μ · encoder_weight · log D(x̂)              where μ = max(100 · (accuracy - 0.5), 0)
       decoder          down μ · decoder_weight · log(1 - D(x̃))

each with Adam after clipping the norm of the gradient to 1. Steps 2 to 4 use pictures of the autoencoder after step 1.
The accuracy is measured before step 2. Step 4 does not train an encoder or decoder of weight 0.

`variant=reference` follows the public code where it differs. There step 4 adds the gradient of step 1 to its own: both
halves go down the objective of step 1 twice in a step of training, whatever the accuracy. The encoder's sum is clipped
and the decoder's is not. A decoder of `decoder_weight` 0 rests in step 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, Key

from sober.methods.factor_vae import permuted
from sober.methods.method import (
    BERNOULLI,
    LIKELIHOOD,
    Draw,
    Hyper,
    Images,
    Method,
    Scalar,
    Setup,
    State,
    Terms,
    bernoulli_loss,
    clipped,
    elbo_terms,
    follow,
    init_autoencoder,
    sample,
)
from sober.nets import Autoencoder, Compute
from sober.nets.autoencoder import AutoencoderStatistics
from sober.nets.discriminators import picture_discriminator
from sober.nets.net import Net

SMOOTHING = 0.1  # distance of labels from 0 and 1; the paper names no number
REFERENCE_CONFIDENCE = 0.6  # in the public code, the threshold for a reconstruction, and the largest smoothing
REFERENCE_CAPACITY = 8.0  # the largest C of the public code
REFERENCE_DECODER = 0.001  # the largest weight of the decoder's adversarial loss in the public code
REFERENCE_GUESSING = 0.501  # the largest accuracy at which C rises in the public code

Logits = Float[Array, " 2B"]


class Parts(NamedTuple):
    """A value for each half of the autoencoder. Each half has its own Adam, and may stay while the other moves."""

    encoder: Any
    decoder: Any


class Memory(NamedTuple):
    discriminator: Net
    optimiser: Any  # of the discriminator
    capacity: Scalar  # C, in nats for each latent


def annealed(
    model: Autoencoder,
    images: Images,
    key: Key[Array, ""],
    capacity: Scalar,
    gamma: Scalar,
    compute: Compute,
    hyper: Mapping[str, Any] = BERNOULLI,
) -> tuple[Scalar, tuple[Terms, AutoencoderStatistics]]:
    """The autoencoder's own objective. Its fourth power allows the KL small changes, no large ones."""
    terms, mean, _, _, statistics = elbo_terms(model, images, key, compute, hyper)
    return terms["reconstruction"] + gamma * (terms["kl"] / mean.shape[1] - capacity) ** 4, (terms, statistics)


def labels(batch: int, key: Key[Array, ""], variant: str) -> Logits:
    """The discriminator's targets for a mixed batch: reconstructions first, then generated pictures."""
    real = jnp.arange(2 * batch) < batch
    if variant == "reference":
        smoothing = REFERENCE_CONFIDENCE * jax.random.uniform(key, real.shape)
    else:
        smoothing = jnp.full(real.shape, SMOOTHING)
    return jnp.where(real, 1 - smoothing, smoothing)


def accuracy_of(logits: Logits, variant: str) -> Scalar:
    """The fraction of a mixed batch that the discriminator classifies correctly."""
    confidence = REFERENCE_CONFIDENCE if variant == "reference" else 0.5
    real = jnp.arange(len(logits)) < len(logits) // 2
    return jnp.mean((jax.nn.sigmoid(logits) >= confidence) == real)


def next_capacity(capacity: Scalar, accuracy: Scalar, delta: Scalar, variant: str) -> Scalar:
    """C rises while the accuracy is at most 0.5, stays up to 0.51, and falls above that."""
    guessing = REFERENCE_GUESSING if variant == "reference" else 0.5
    direction = jnp.where(accuracy <= guessing, 1, jnp.where(accuracy <= 0.51, 0, -1))
    return jnp.clip(capacity + delta * direction, 0, REFERENCE_CAPACITY if variant == "reference" else None)


def weights(accuracy: Scalar, hyper: Mapping[str, Any]) -> Parts:
    """The adversarial weights of encoder and decoder: 0 up to an accuracy of 0.5, and linear above."""
    base = jnp.maximum((accuracy - 0.5) * 100, 0)
    decoder = base * hyper["decoder_weight"]
    if hyper["variant"] == "reference":
        decoder = jnp.minimum(decoder, REFERENCE_DECODER)
    return Parts(base * hyper["encoder_weight"], decoder)


def cross_entropy(logits: Logits, target: Logits, variant: str) -> Scalar:
    """The loss of the discriminator."""
    return over_batch(bernoulli_loss(logits, target), variant)


def adversarial(logits: Logits, weight: Parts, variant: str) -> Scalar:
    """The loss of the autoencoder against the discriminator. The encoder's part is on reconstructions, the decoder's on
    generated pictures. The losses of the public code do not saturate where the discriminator is right.
    """
    real, fake = jnp.split(logits, 2)
    if variant == "reference":
        encoder, decoder = -jax.nn.log_sigmoid(-real), -jax.nn.log_sigmoid(fake)
    else:
        encoder, decoder = jax.nn.log_sigmoid(real), jax.nn.log_sigmoid(-fake)
    return weight.encoder * over_batch(encoder, variant) + weight.decoder * over_batch(decoder, variant)


def over_batch(losses: Float[Array, " n"], variant: str) -> Scalar:
    """The mean over the batch, as in the paper; the public code sums."""
    return jnp.sum(losses) if variant == "reference" else jnp.mean(losses)


def pictures(model: Autoencoder, codes: Float[Array, "B D"], compute: Compute) -> Images:
    """The pictures that the discriminator gets for codes."""
    return jax.nn.sigmoid(model.decode_batch(codes, compute)[0])


def judged(discriminator: Net, images: Images, compute: Compute) -> Logits:
    """The discriminator's logits: how much each picture looks like a reconstruction."""
    return compute.run(discriminator, images)[:, 0]


def move(setup: Setup, model: Autoencoder, optimiser: Parts, gradient: Any, moves: Parts) -> tuple[Autoencoder, Parts]:
    """A step of the encoder, the decoder or both, as `moves` says."""

    def step_half(half: str) -> tuple[Any, Any]:
        before = getattr(model, half), getattr(optimiser, half)
        after = follow(getattr(gradient, half), before[0], setup.optimiser, before[1])
        return jax.tree.map(lambda new, old: jnp.where(getattr(moves, half), new, old), after, before)

    (encoder, for_encoder), (decoder, for_decoder) = step_half("encoder"), step_half("decoder")
    return model.with_nets(encoder, decoder), Parts(for_encoder, for_decoder)


def init(setup: Setup, key: Key[Array, ""], hyper: Mapping[str, Any]) -> State:
    for_model, for_discriminator = jax.random.split(key)
    model = init_autoencoder(setup, for_model, hyper).model
    discriminator = picture_discriminator(for_discriminator, setup.nets, setup.image_shape)
    memory = Memory(discriminator, optax.adam(hyper["discriminator_rate"]).init(discriminator), jnp.zeros(()))
    return State(model, Parts(setup.optimiser.init(model.encoder), setup.optimiser.init(model.decoder)), memory)


def update(
    setup: Setup, state: State, draw: Draw, key: Key[Array, ""], step: Int[Array, ""], hyper: Mapping[str, Any]
) -> tuple[State, Terms]:
    for_images, for_codes, for_codes_again, for_order, for_labels = jax.random.split(key, 5)
    discriminator, memory, capacity = state.memory
    variant, compute = hyper["variant"], setup.compute
    images = draw(for_images)

    # 1. The autoencoder.
    (loss, (terms, statistics)), gradient = jax.value_and_grad(annealed, has_aux=True)(
        state.model, images, for_codes, capacity, hyper["gamma"], compute, hyper
    )
    gradient, norm = clipped(gradient, 1)
    left_over = gradient  # of step 1; the public code adds it in step 4
    model, optimiser = move(setup, state.model.after_batch(statistics), state.optimiser, gradient, Parts(True, True))

    # Pictures after step 1. Each function `to_…` will take the gradient of step 4 back to the half that it trains.
    def encode(model: Autoencoder) -> Float[Array, "B D"]:
        (mean, logvar), _ = model.encode_batch(images, compute)
        return sample(mean, logvar, for_codes_again)

    codes, to_encoder = jax.vjp(encode, model)
    rebuilt, to_codes = jax.vjp(lambda codes: pictures(model, codes, compute), codes)
    mixed_codes = permuted(codes, for_order)
    generated, to_decoder = jax.vjp(lambda model: pictures(model, mixed_codes, compute), model)
    mixed_batch = jnp.concatenate([rebuilt, generated])  # (2B, H, W, C)

    # 2. The discriminator.
    def judge(net: Net) -> tuple[Scalar, Logits]:
        logits = judged(net, mixed_batch, compute)
        return cross_entropy(logits, labels(len(images), for_labels, variant), variant), logits

    (discriminator_loss, logits), gradient = jax.value_and_grad(judge, has_aux=True)(discriminator)
    gradient, discriminator_norm = clipped(gradient, 1)
    discriminator, memory = follow(gradient, discriminator, optax.adam(hyper["discriminator_rate"]), memory)

    # 3. The capacity.
    accuracy = accuracy_of(logits, variant)
    later = next_capacity(capacity, accuracy, hyper["delta_c"], variant)

    # 4. The autoencoder against the discriminator.
    weight = weights(accuracy, hyper)
    to_pictures = jax.grad(
        lambda mixed_batch: adversarial(judged(discriminator, mixed_batch, compute), weight, variant)
    )(mixed_batch)
    to_rebuilt, to_generated = jnp.split(to_pictures, 2)
    of_encoder, of_decoder = to_encoder(*to_codes(to_rebuilt))[0].encoder, to_decoder(to_generated)[0].decoder
    if variant == "reference":
        of_encoder, encoder_norm = clipped(jax.tree.map(jnp.add, left_over.encoder, of_encoder), 1)
        of_decoder = jax.tree.map(jnp.add, left_over.decoder, of_decoder)
        decoder_norm = optax.tree.norm(of_decoder)
        moves = Parts(True, hyper["decoder_weight"] > 0)
    else:
        of_encoder, encoder_norm = clipped(of_encoder, 1)
        of_decoder, decoder_norm = clipped(of_decoder, 1)
        moves = Parts(weight.encoder > 0, weight.decoder > 0)
    model, optimiser = move(setup, model, optimiser, Parts(of_encoder, of_decoder), moves)

    logged = {
        "loss": loss,
        **terms,
        "capacity": capacity,
        "accuracy": accuracy,
        "gradient_norm": norm,
        "discriminator_loss": discriminator_loss,
        "discriminator_gradient_norm": discriminator_norm,
        "encoder_adversarial_norm": encoder_norm,
        "decoder_adversarial_norm": decoder_norm,
    }
    return State(model, optimiser, Memory(discriminator, memory, later)), logged


def advised(small: bool, steps: int) -> Mapping[str, tuple[float, ...]]:
    """Capacities that can reach 10 and 30 nats, if the discriminator never sees a difference."""
    return {"delta_c": tuple(float(f"{room / steps:.2g}") for room in (10, 30))}


dava = Method(
    name="dava",
    title="DAVA",
    summary="capacity grows while a discriminator cannot tell pictures of freely mixed latents from reconstructions",
    reference="Estermann & Wattenhofer (2023): DAVA, Disentangling Adversarial Variational Autoencoder",
    hyper=(
        Hyper(
            "delta_c",
            4e-5,
            "how far the capacity moves in a step, in nats for each latent",
            low=0.0,
            with_steps=-1,
            title="ΔC",
        ),
        Hyper(
            "gamma", 500.0, "weight of the distance between KL and capacity, to the fourth power", low=0.0, title="γ"
        ),
        Hyper("encoder_weight", 0.3, "weight of the encoder's adversarial loss", low=0.0, title="encoder weight"),
        Hyper("decoder_weight", 0.001, "weight of the decoder's adversarial loss", low=0.0, title="decoder weight"),
        Hyper(
            "discriminator_rate",
            1e-4,
            "learning rate of the discriminator",
            low=0.0,
            title="discriminator's learning rate",
        ),
        Hyper(
            "variant",
            "paper",
            "paper, or reference as in the public code",
            choices=("paper", "reference"),
            title="variant",
        ),
        *LIKELIHOOD,
    ),
    cost=4.5,
    losses=3,
    advised=advised,
    init=init,
    update=update,
    sweeps={  # Table 8: one setting for all of its worlds
        "dava": {"delta_c": (4e-5,), "gamma": (500.0,), "encoder_weight": (0.3,), "decoder_weight": (0.001,)},
        "dava_as_published": {
            "delta_c": (4e-5,),
            "gamma": (500.0,),
            "encoder_weight": (0.3,),
            "decoder_weight": (0.001,),
            "variant": ("reference",),
        },
    },
)
