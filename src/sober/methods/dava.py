"""DAVA (Estermann & Wattenhofer 2023): room in the codes grows only as long as the latents can be mixed freely.

A discriminator of pictures tries to tell reconstructions x̂ = Dec(z) from generated pictures x̃ = Dec(z̃), where z̃ is
z with each latent permuted over the batch. While it is clueless, any combination of the latents makes a picture like
those of the world, and the capacity C may rise. As it sees a difference, C falls, and encoder and decoder are pushed to
make that difference vanish. With its accuracy on the batch, a step is

    1  autoencoder      down E_q(z|x)[-log p(x|z)] + γ · (KL - C)⁴, where KL is the mean over latents
    2  discriminator    up log D(x̂) + log(1 - D(x̃)), with smoothed labels
    3  capacity         C + ΔC if accuracy ≤ 0.5;  C if accuracy ≤ 0.51;  else C - ΔC;  never below 0
    4  encoder          down μ · encoder_weight · log D(x̂)              where μ = max(100 · (accuracy - 0.5), 0)
       decoder          down μ · decoder_weight · log(1 - D(x̃))

each with Adam after clipping the norm of the gradient to 1. Steps 2 to 4 see what the autoencoder makes after step 1,
the accuracy is that of the discriminator before step 2, and where a weight is 0 step 4 leaves its part alone.
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
from sober.nets.discriminators import picture_discriminator
from sober.nets.net import Net
from sober.nets.nets import Saw

SMOOTHING = 0.1  # how far labels are from 0 and 1; the paper names no number
REFERENCE_CONFIDENCE = 0.6  # the public code: above it a picture counts as a reconstruction; also its largest smoothing
REFERENCE_CAPACITY = 8.0  # where its C stops
REFERENCE_DECODER = 0.001  # its largest weight of the decoder's adversarial loss

Logits = Float[Array, " 2B"]


class Parts(NamedTuple):
    """Something for each part of the autoencoder: both are trained by Adam, one may rest while the other moves."""

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
) -> tuple[Scalar, tuple[Terms, Saw]]:
    """The autoencoder's own objective. The fourth power lets KL waver from batch to batch but never far."""
    terms, mean, _, _, saw = elbo_terms(model, images, key, compute, hyper)
    return terms["reconstruction"] + gamma * (terms["kl"] / mean.shape[1] - capacity) ** 4, (terms, saw)


def labels(batch: int, key: Key[Array, ""], variant: str) -> Logits:
    """What the discriminator should say of a mixed batch: reconstructions first, then generated pictures."""
    real = jnp.arange(2 * batch) < batch
    if variant == "reference":
        smoothing = REFERENCE_CONFIDENCE * jax.random.uniform(key, real.shape)
    else:
        smoothing = jnp.full(real.shape, SMOOTHING)
    return jnp.where(real, 1 - smoothing, smoothing)


def accuracy_of(logits: Logits, variant: str) -> Scalar:
    """The share of a mixed batch that the discriminator gets right."""
    confidence = REFERENCE_CONFIDENCE if variant == "reference" else 0.5
    real = jnp.arange(len(logits)) < len(logits) // 2
    return jnp.mean((jax.nn.sigmoid(logits) >= confidence) == real)


def next_capacity(capacity: Scalar, accuracy: Scalar, delta: Scalar, variant: str) -> Scalar:
    """C rises only while the discriminator is clueless, waits a little above that, and falls beyond."""
    direction = jnp.where(accuracy <= 0.5, 1, jnp.where(accuracy <= 0.51, 0, -1))
    return jnp.clip(capacity + delta * direction, 0, REFERENCE_CAPACITY if variant == "reference" else None)


def weights(accuracy: Scalar, hyper: Mapping[str, Any]) -> Parts:
    """How much encoder and decoder mind the discriminator: nothing while it is clueless, linearly more above."""
    base = jnp.maximum((accuracy - 0.5) * 100, 0)
    decoder = base * hyper["decoder_weight"]
    if hyper["variant"] == "reference":
        decoder = jnp.minimum(decoder, REFERENCE_DECODER)
    return Parts(base * hyper["encoder_weight"], decoder)


def cross_entropy(logits: Logits, target: Logits, variant: str) -> Scalar:
    """What the discriminator descends."""
    return over_batch(bernoulli_loss(logits, target), variant)


def adversarial(logits: Logits, weight: Parts, variant: str) -> Scalar:
    """What the autoencoder descends to mislead the discriminator: the encoder through reconstructions, the decoder
    through generated pictures. The losses of the public code do not saturate where the discriminator is right."""
    real, fake = jnp.split(logits, 2)
    if variant == "reference":
        encoder, decoder = -jax.nn.log_sigmoid(-real), -jax.nn.log_sigmoid(fake)
    else:
        encoder, decoder = jax.nn.log_sigmoid(real), jax.nn.log_sigmoid(-fake)
    return weight.encoder * over_batch(encoder, variant) + weight.decoder * over_batch(decoder, variant)


def over_batch(losses: Float[Array, " n"], variant: str) -> Scalar:
    """The mean, as the paper's expectations say; the public code sums."""
    return jnp.sum(losses) if variant == "reference" else jnp.mean(losses)


def pictures(model: Autoencoder, codes: Float[Array, "B D"], compute: Compute) -> Images:
    """What the discriminator sees of codes."""
    return jax.nn.sigmoid(model.decode_batch(codes, compute)[0])


def judged(discriminator: Net, both: Images, compute: Compute) -> Logits:
    """How much each picture looks like a reconstruction."""
    return compute.run(discriminator, both)[:, 0]


def move(setup: Setup, model: Autoencoder, optimiser: Parts, gradient: Any, moves: Parts) -> tuple[Autoencoder, Parts]:
    """A step of those parts of the autoencoder that move."""

    def moved(part: str) -> tuple[Any, Any]:
        before = getattr(model, part), getattr(optimiser, part)
        after = follow(getattr(gradient, part), before[0], setup.optimiser, before[1])
        return jax.tree.map(lambda new, old: jnp.where(getattr(moves, part), new, old), after, before)

    (encoder, for_encoder), (decoder, for_decoder) = moved("encoder"), moved("decoder")
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
    (loss, (terms, saw)), gradient = jax.value_and_grad(annealed, has_aux=True)(
        state.model, images, for_codes, capacity, hyper["gamma"], compute, hyper
    )
    gradient, norm = clipped(gradient, 1)
    model, optimiser = move(setup, state.model.having_seen(saw), state.optimiser, gradient, Parts(True, True))

    # What it makes now: each function `to_…` will lead the gradient of step 4 back to the part that it is for.
    def encode(model: Autoencoder) -> Float[Array, "B D"]:
        (mean, logvar), _ = model.encode_batch(images, compute)
        return sample(mean, logvar, for_codes_again)

    codes, to_encoder = jax.vjp(encode, model)
    rebuilt, to_codes = jax.vjp(lambda codes: pictures(model, codes, compute), codes)
    mixed_codes = permuted(codes, for_order)
    generated, to_decoder = jax.vjp(lambda model: pictures(model, mixed_codes, compute), model)
    both = jnp.concatenate([rebuilt, generated])  # (2B, H, W, C)

    # 2. The discriminator.
    def judge(net: Net) -> tuple[Scalar, Logits]:
        logits = judged(net, both, compute)
        return cross_entropy(logits, labels(len(images), for_labels, variant), variant), logits

    (discriminator_loss, logits), gradient = jax.value_and_grad(judge, has_aux=True)(discriminator)
    gradient, discriminator_norm = clipped(gradient, 1)
    discriminator, memory = follow(gradient, discriminator, optax.adam(hyper["discriminator_rate"]), memory)

    # 3. The capacity.
    accuracy = accuracy_of(logits, variant)
    later = next_capacity(capacity, accuracy, hyper["delta_c"], variant)

    # 4. The autoencoder against the discriminator.
    weight = weights(accuracy, hyper)
    to_pictures = jax.grad(lambda both: adversarial(judged(discriminator, both, compute), weight, variant))(both)
    to_rebuilt, to_generated = jnp.split(to_pictures, 2)
    of_encoder, encoder_norm = clipped(to_encoder(*to_codes(to_rebuilt))[0].encoder, 1)
    of_decoder, decoder_norm = clipped(to_decoder(to_generated)[0].decoder, 1)
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
    """Capacities that can reach 10 and 30 nats, if mixed codes look right all the time."""
    return {"delta_c": tuple(float(f"{room / steps:.2g}") for room in (10, 30))}


dava = Method(
    name="dava",
    summary="room in the codes grows while a discriminator of pictures cannot tell freely mixed latents from real ones",
    reference="Estermann & Wattenhofer (2023): DAVA, Disentangling Adversarial Variational Autoencoder",
    hyper=(
        Hyper("delta_c", 4e-5, "how far the capacity moves in a step, in nats for each latent", low=0.0, with_steps=-1),
        Hyper("gamma", 500.0, "weight of the distance between KL and capacity, to the fourth power", low=0.0),
        Hyper("encoder_weight", 0.3, "how much the encoder minds the discriminator", low=0.0),
        Hyper("decoder_weight", 0.001, "how much the decoder minds the discriminator", low=0.0),
        Hyper("discriminator_rate", 1e-4, "learning rate of the discriminator", low=0.0),
        Hyper("variant", "paper", "paper, or reference as in the public code", choices=("paper", "reference")),
        *LIKELIHOOD,
    ),
    cost=4.5,
    losses=3,
    advised=advised,
    init=init,
    update=update,
    sweeps={  # Table 8: one setting for all of its worlds
        "dava": {"delta_c": (4e-5,), "gamma": (500.0,), "encoder_weight": (0.3,), "decoder_weight": (0.001,)}
    },
)
