"""Discriminators that learn to tell a model's reconstructions from pictures of mixed codes, many side by side.

The pictures are the same for all models. Everything else is drawn by the model's identity, so company never matters.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Key

from sober.contracts import ProgressCallback
from sober.criteria.mixed_codes import (
    RANGE_BATCH,
    LatentRange,
    Mixing,
    identity_words,
    latent_range,
    model_keys,
    range_pictures,
    reconstructed_and_mixed,
)
from sober.criteria.same_program import same_program_groups
from sober.device import compiler_options, free_memory, local_devices, seed_key
from sober.methods.method import bernoulli_loss, follow
from sober.model_placement import MODELS, SHARED, ModelPlacement, on_each_device
from sober.models.model import Model, blank, stacked
from sober.nets import NETS, Compute, Nets
from sober.nets.kernel_runs import choose_kernels
from sober.training.train import Feed
from sober.worlds import World

BATCH = 64
TEST_BATCH = RANGE_BATCH // 2  # pictures of each kind: both kinds are decoded together
AT_ONCE = 64  # discriminators in training on a device, at most: more are no faster
BYTES_PER_DISCRIMINATOR = 2**28  # in training; a generous estimate
CHUNK = 200  # steps between reports


class DiscriminatorResults(NamedTuple):
    """What the discriminators of M models measured on pictures that they were not trained on."""

    accuracy: Float[np.ndarray, " M"]  # of the discriminator
    reconstruction: Float[np.ndarray, " M"]  # nats per picture
    squared_error: Float[np.ndarray, " M"]  # per pixel
    variance: Float[np.ndarray, " M"]  # of the reconstructions, as a share of the pictures' own


class Discriminator(NamedTuple):
    """A discriminator in training, and the latent ranges of its model."""

    net: Any
    optimiser: Any
    range: LatentRange


def train_and_test(
    models: Sequence[Model],
    world: World,
    *,
    mixing: Mixing,
    steps: int,
    rate: float,
    held_out: int,
    seed: int,
    progress: ProgressCallback,
) -> DiscriminatorResults:
    """Trains a discriminator for each model, and tests it on `held_out` pictures of each kind."""
    results = np.empty((len(DiscriminatorResults._fields), len(models)))
    per_device = max(1, min(AT_ONCE, int(0.5 * free_memory()) // BYTES_PER_DISCRIMINATOR))
    groups = same_program_groups(models, len(local_devices()) * per_device)
    for number, group in enumerate(groups):

        def report_step(step: int, before: int = number * steps) -> None:
            progress(before + step, len(groups) * steps)

        members = [models[m] for m in group]
        results[:, group] = _train_and_test_group(members, world, mixing, steps, rate, held_out, seed, report_step)
    return DiscriminatorResults(*results)


def _train_and_test_group(
    models: Sequence[Model],
    world: World,
    mixing: Mixing,
    steps: int,
    rate: float,
    held_out: int,
    seed: int,
    report_step: Callable[[int], None],
) -> Float[np.ndarray, "4 M"]:
    placement = ModelPlacement(len(models))
    autoencoders = placement.place(stacked(models))
    nets, shape = NETS[models[0].run.nets], models[0].image_shape
    compute = _compute(models[0], nets, placement.models_per_device)
    programs = _programs(world, nets, shape, mixing, compute, held_out)
    key = seed_key(seed)
    identities = placement.place(identity_words(models))
    feed, step = Feed(world, placement), 0
    ranges = programs.ranges(autoencoders, feed.at(0, steps)[0])
    net, optimiser = programs.untrained(identities, key, rate)
    discriminators = Discriminator(net, optimiser, ranges)
    while step < steps:
        data, end = feed.at(step, steps)
        stop = min(step + CHUNK, steps, end)
        discriminators = programs.advance(autoencoders, identities, discriminators, data, key, rate, step, stop)
        step = stop
        report_step(step)
    test_data = placement.replicated(world.shard(steps)[0])
    results = placement.fetched(programs.test(autoencoders, identities, discriminators, test_data, key))
    return np.array([np.asarray(values, float) for values in results])


def _compute(model: Model, nets: Nets, models: int) -> Compute:
    """The models' own precision, with kernels where they are exact and faster for this many models on a device."""
    discriminator = jax.eval_shape(lambda key: nets.judge(key, model.image_shape, 1, None), jax.random.key(0))
    encoder, decoder = blank(model.run, model.image_shape).nets
    pictures, codes = model.image_shape, (model.run.latents,)
    inputs = [
        (encoder, (BATCH, *pictures)),
        (decoder, (2 * BATCH, *codes)),
        (discriminator, (2 * BATCH, *pictures)),
    ]
    return Compute(jnp.dtype(model.run.precision), choose_kernels(inputs, model.run.precision, models).kernels)


class Programs(NamedTuple):
    """Compiled functions for any number of models."""

    untrained: Any
    ranges: Any
    advance: Any
    test: Any


@functools.lru_cache(maxsize=8)
def _programs(
    world: World, nets: Nets, shape: tuple[int, int, int], mixing: Mixing, compute: Compute, held_out: int
) -> Programs:
    def logits(net: Any, pixels: Float[Array, "2B H W C"]) -> Float[Array, " 2B"]:
        return compute.run(net, jax.nn.sigmoid(pixels))[:, 0]

    def untrained(identities: Any, key: Key[Array, ""], rate: Any) -> tuple[Any, Any]:
        """Untrained nets and their optimisers."""

        def untrained_one(key: Key[Array, ""]) -> tuple[Any, Any]:
            net = nets.judge(key, shape, 1, None)
            return net, optax.adam(rate).init(net)

        return jax.vmap(untrained_one)(model_keys(jax.random.fold_in(key, 1), identities))

    def ranges(models: Any, data: Any) -> LatentRange:
        images = range_pictures(world, data)
        return jax.vmap(lambda model: latent_range(model, images, compute))(models)

    def step_one(
        model: Any, discriminator: Discriminator, images: Any, key: Key[Array, ""], rate: Any
    ) -> Discriminator:
        decoded = reconstructed_and_mixed(model, discriminator.range, images, key, mixing, compute)
        target = jnp.asarray(jnp.arange(len(decoded)) < len(images), jnp.float32)

        def loss(net: Any) -> Float[Array, ""]:
            return jnp.mean(bernoulli_loss(logits(net, decoded), target))

        gradient = jax.grad(loss)(discriminator.net)
        net, optimiser = follow(gradient, discriminator.net, optax.adam(rate), discriminator.optimiser)
        return discriminator._replace(net=net, optimiser=optimiser)

    def advance(
        models: Any,
        identities: Any,
        discriminators: Discriminator,
        data: Any,
        key: Key[Array, ""],
        rate: Any,
        start: int,
        stop: int,
    ) -> Discriminator:
        def step_all(step: Any, discriminators: Discriminator) -> Discriminator:
            images_key, models_key = jax.random.split(jax.random.fold_in(key, 2 + step))
            images = world.draw(data, images_key, BATCH)
            vmapped = jax.vmap(step_one, in_axes=(0, 0, None, 0, None))
            return vmapped(models, discriminators, images, model_keys(models_key, identities), rate)

        return jax.lax.fori_loop(start, stop, step_all, discriminators)

    def test_one(model: Any, discriminator: Discriminator, images: Any, key: Key[Array, ""]) -> tuple[Any, ...]:
        decoded = reconstructed_and_mixed(model, discriminator.range, images, key, mixing, compute)
        rebuilt = decoded[: len(images)]
        right = (logits(discriminator.net, decoded) > 0) == (jnp.arange(len(decoded)) < len(images))
        error = jnp.sum(bernoulli_loss(rebuilt, images)) / len(images)
        reconstructions, picture_variance = jax.nn.sigmoid(rebuilt), jnp.sum(jnp.var(images, axis=0))
        squared = jnp.mean((reconstructions - images) ** 2)
        return jnp.mean(right), error, squared, jnp.sum(jnp.var(reconstructions, axis=0)) / picture_variance

    def test(
        models: Any, identities: Any, discriminators: Discriminator, data: Any, key: Key[Array, ""]
    ) -> tuple[Any, ...]:
        def test_batch(number: Any) -> Any:
            images_key, models_key = jax.random.split(jax.random.fold_in(jax.random.fold_in(key, 1), number))
            images = world.draw(data, images_key, TEST_BATCH)
            vmapped = jax.vmap(test_one, in_axes=(0, 0, None, 0))
            return vmapped(models, discriminators, images, model_keys(models_key, identities))

        batches = jax.lax.map(test_batch, jnp.arange(1, 1 + held_out // TEST_BATCH))
        return jax.tree.map(lambda values: jnp.mean(values, axis=0), batches)

    quick = compiler_options("for seconds")
    return Programs(
        jax.jit(on_each_device(untrained, (MODELS, SHARED, SHARED)), compiler_options=compiler_options("once")),
        jax.jit(on_each_device(ranges, (MODELS, SHARED)), compiler_options=quick),
        jax.jit(
            on_each_device(advance, (MODELS, MODELS, MODELS, *[SHARED] * 5)),
            donate_argnums=2,
            compiler_options=compiler_options(),
        ),
        jax.jit(on_each_device(test, (MODELS, MODELS, MODELS, SHARED, SHARED)), compiler_options=quick),
    )
