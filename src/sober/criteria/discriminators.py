"""Discriminators that learn to tell a model's reconstructions from pictures whose codes were mixed, many side by side.

The pictures are the same for all models; all else is drawn by a model's identity, so company never matters.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Key

from sober.criteria.alike import alike
from sober.criteria.criterion import Progress
from sober.device import compiler_options, free_memory, local_devices, seed_key
from sober.methods.factor_vae import permuted
from sober.methods.method import bernoulli_loss, follow, sample
from sober.models.model import Model, blank, stacked
from sober.nets import NETS, Compute, Nets
from sober.nets.stretches import path
from sober.spread import MODELS, SHARED, Spread, mapped
from sober.training.train import Feed
from sober.worlds import World

BATCH = 64
LOOK = 4096  # pictures that tell a latent's range
LOOK_AT_ONCE = 256
EXAMINE_AT_ONCE = LOOK_AT_ONCE // 2  # of each kind: both are decoded together
AT_ONCE = 64  # discriminators in training on a device, at most: more are no faster
BYTES_EACH = 2**28  # that a discriminator in training takes, rather too much than too little
CHUNK = 200  # steps between reports

Mixing = Literal["uniform", "permuted"]


class Examined(NamedTuple):
    """What a discriminator can tell of each of M models, on pictures that it has not seen."""

    accuracy: Float[np.ndarray, " M"]
    reconstruction: Float[np.ndarray, " M"]  # nats a picture
    squared_error: Float[np.ndarray, " M"]  # of a pixel
    variance: Float[np.ndarray, " M"]  # of the reconstructions, as a share of the pictures' own


class Discriminator(NamedTuple):
    """A discriminator in training, and what it needs to know of its model."""

    net: Any
    optimiser: Any
    low: Float[Array, " D"]  # the range of each latent
    high: Float[Array, " D"]


def trained_and_examined(
    models: Sequence[Model],
    world: World,
    *,
    mixing: Mixing,
    steps: int,
    rate: float,
    held_out: int,
    seed: int,
    progress: Progress,
) -> Examined:
    """Trains a discriminator for each model, and examines it on `held_out` pictures of each kind."""
    results = np.empty((len(Examined._fields), len(models)))
    on_a_device = max(1, min(AT_ONCE, int(0.5 * free_memory()) // BYTES_EACH))
    groups = alike(models, len(local_devices()) * on_a_device)
    for number, group in enumerate(groups):

        def told(step: int, before: int = number * steps) -> None:
            progress(before + step, len(groups) * steps)

        together = [models[m] for m in group]
        results[:, group] = _of_models_alike(together, world, mixing, steps, rate, held_out, seed, told)
    return Examined(*results)


def _of_models_alike(
    models: Sequence[Model],
    world: World,
    mixing: Mixing,
    steps: int,
    rate: float,
    held_out: int,
    seed: int,
    told: Callable[[int], None],
) -> Float[np.ndarray, "4 M"]:
    spread = Spread(len(models))
    autoencoders = spread.place(stacked(models))
    nets, shape = NETS[models[0].run.nets], models[0].image_shape
    compute = _compute(models[0], nets, spread.each)
    programs = _programs(world, nets, shape, mixing, compute, held_out)
    key = seed_key(seed)
    who = spread.place(np.array([int(model.run.identity[:8], 16) for model in models], np.uint32))
    feed, step = Feed(world, spread), 0
    ranges = programs.ranges(autoencoders, feed.at(0, steps)[0])
    discriminators = Discriminator(*programs.untrained(who, key, rate), *ranges)
    while step < steps:
        data, end = feed.at(step, steps)
        stop = min(step + CHUNK, steps, end)
        discriminators = programs.advance(autoencoders, who, discriminators, data, key, rate, step, stop)
        step = stop
        told(step)
    unseen = spread.copied(world.shard(steps)[0])
    examined = spread.trimmed(programs.examine(autoencoders, who, discriminators, unseen, key))
    return np.array([np.asarray(each, float) for each in examined])


def _compute(model: Model, nets: Nets, models: int) -> Compute:
    """In what the models were trained in, and by kernels where they are right and faster for so many on a device."""
    judge = jax.eval_shape(lambda key: nets.judge(key, model.image_shape, 1, None), jax.random.key(0))
    encoder, decoder = blank(model.run, model.image_shape).nets
    pictures, codes = model.image_shape, (model.run.latents,)
    inputs = [(encoder, (BATCH, *pictures)), (decoder, (2 * BATCH, *codes)), (judge, (2 * BATCH, *pictures))]
    return Compute(jnp.dtype(model.run.precision), path(inputs, model.run.precision, models).kernels)


class Programs(NamedTuple):
    """Compiled for any number of models."""

    untrained: Any
    ranges: Any
    advance: Any
    examine: Any


@functools.lru_cache(maxsize=8)
def _programs(
    world: World, nets: Nets, shape: tuple[int, int, int], mixing: Mixing, compute: Compute, held_out: int
) -> Programs:
    def pictures(
        model: Any, discriminator: Discriminator, images: Float[Array, "B H W C"], key: Key[Array, ""]
    ) -> Float[Array, "2B H W C"]:
        """Logits of reconstructions, then of as many pictures whose codes were mixed."""
        for_codes, for_mixing = jax.random.split(key)
        mean, logvar = model.encode(images, compute)
        codes = sample(mean, logvar, for_codes) if model.reading.has_spread else mean
        if mixing == "permuted":
            mixed = permuted(codes, for_mixing)
        else:
            low, high = discriminator.low, discriminator.high
            mixed = jax.random.uniform(for_mixing, codes.shape, minval=low, maxval=high)
        return model.decode(jnp.concatenate([codes, mixed]), compute)

    def logits(net: Any, both: Float[Array, "2B H W C"]) -> Float[Array, " 2B"]:
        return compute.run(net, jax.nn.sigmoid(both))[:, 0]

    def untrained(who: Any, key: Key[Array, ""], rate: Any) -> tuple[Any, Any]:
        """Nets that have learnt nothing, and their optimisers."""

        def one(key: Key[Array, ""]) -> tuple[Any, Any]:
            net = nets.judge(key, shape, 1, None)
            return net, optax.adam(rate).init(net)

        return jax.vmap(one)(_keys(jax.random.fold_in(key, 1), who))

    def ranges(models: Any, data: Any) -> tuple[Float[Array, "M D"], Float[Array, "M D"]]:
        keys = jax.random.split(seed_key(0), LOOK // LOOK_AT_ONCE)  # whatever the seed: a range is not luck
        images = jax.lax.map(lambda key: world.draw(data, key, LOOK_AT_ONCE), keys)

        def one(model: Any) -> tuple[Float[Array, " D"], Float[Array, " D"]]:
            # A part at a time: many models look at many pictures.
            mean, logvar = jax.lax.map(lambda part: model.encode(part, compute), images)
            codes = sample(mean, logvar, seed_key(1)) if model.reading.has_spread else mean
            return codes.min(axis=(0, 1)), codes.max(axis=(0, 1))

        return jax.vmap(one)(models)

    def step_one(
        model: Any, discriminator: Discriminator, images: Any, key: Key[Array, ""], rate: Any
    ) -> Discriminator:
        both = pictures(model, discriminator, images, key)
        target = jnp.asarray(jnp.arange(len(both)) < len(images), jnp.float32)

        def loss(net: Any) -> Float[Array, ""]:
            return jnp.mean(bernoulli_loss(logits(net, both), target))

        gradient = jax.grad(loss)(discriminator.net)
        net, optimiser = follow(gradient, discriminator.net, optax.adam(rate), discriminator.optimiser)
        return discriminator._replace(net=net, optimiser=optimiser)

    def advance(
        models: Any,
        who: Any,
        discriminators: Discriminator,
        data: Any,
        key: Key[Array, ""],
        rate: Any,
        start: int,
        stop: int,
    ) -> Discriminator:
        def one(step: Any, discriminators: Discriminator) -> Discriminator:
            for_images, for_models = jax.random.split(jax.random.fold_in(key, 2 + step))
            images = world.draw(data, for_images, BATCH)
            step_all = jax.vmap(step_one, in_axes=(0, 0, None, 0, None))
            return step_all(models, discriminators, images, _keys(for_models, who), rate)

        return jax.lax.fori_loop(start, stop, one, discriminators)

    def examine_one(model: Any, discriminator: Discriminator, images: Any, key: Key[Array, ""]) -> tuple[Any, ...]:
        both = pictures(model, discriminator, images, key)
        rebuilt = both[: len(images)]
        right = (logits(discriminator.net, both) > 0) == (jnp.arange(len(both)) < len(images))
        error = jnp.sum(bernoulli_loss(rebuilt, images)) / len(images)
        shown, of_pictures = jax.nn.sigmoid(rebuilt), jnp.sum(jnp.var(images, axis=0))
        squared = jnp.mean((shown - images) ** 2)
        return jnp.mean(right), error, squared, jnp.sum(jnp.var(shown, axis=0)) / of_pictures

    def examine(
        models: Any, who: Any, discriminators: Discriminator, data: Any, key: Key[Array, ""]
    ) -> tuple[Any, ...]:
        def part(number: Any) -> Any:
            for_images, for_models = jax.random.split(jax.random.fold_in(jax.random.fold_in(key, 1), number))
            images = world.draw(data, for_images, EXAMINE_AT_ONCE)
            examine_all = jax.vmap(examine_one, in_axes=(0, 0, None, 0))
            return examine_all(models, discriminators, images, _keys(for_models, who))

        parts = jax.lax.map(part, jnp.arange(1, 1 + held_out // EXAMINE_AT_ONCE))
        return jax.tree.map(lambda each: jnp.mean(each, axis=0), parts)

    quick = compiler_options("for seconds")
    return Programs(
        jax.jit(mapped(untrained, (MODELS, SHARED, SHARED)), compiler_options=compiler_options("once")),
        jax.jit(mapped(ranges, (MODELS, SHARED)), compiler_options=quick),
        jax.jit(
            mapped(advance, (MODELS, MODELS, MODELS, *[SHARED] * 5)),
            donate_argnums=2,
            compiler_options=compiler_options(),
        ),
        jax.jit(mapped(examine, (MODELS, MODELS, MODELS, SHARED, SHARED)), compiler_options=quick),
    )


def _keys(key: Key[Array, ""], who: Any) -> Key[Array, " M"]:
    return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, who)
