"""Discriminators that learn to tell a model's reconstructions from pictures whose codes were mixed, many side by side.

The pictures are the same for all models; all else is drawn by a model's identity, so company never matters.
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

from sober.criteria.alike import alike
from sober.criteria.criterion import Progress
from sober.criteria.mixing import LOOK_AT_ONCE, Mixing, Range, both_kinds, keys_of, latent_range, looked_at, words_of
from sober.device import compiler_options, free_memory, local_devices, seed_key
from sober.methods.method import bernoulli_loss, follow
from sober.models.model import Model, blank, stacked
from sober.nets import NETS, Compute, Nets
from sober.nets.stretches import path
from sober.spread import MODELS, SHARED, Spread, mapped
from sober.training.train import Feed
from sober.worlds import World

BATCH = 64
EXAMINE_AT_ONCE = LOOK_AT_ONCE // 2  # of each kind: both are decoded together
AT_ONCE = 64  # discriminators in training on a device, at most: more are no faster
BYTES_EACH = 2**28  # that a discriminator in training takes, rather too much than too little
CHUNK = 200  # steps between reports


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
    range: Range


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
    who = spread.place(words_of(models))
    feed, step = Feed(world, spread), 0
    ranges = programs.ranges(autoencoders, feed.at(0, steps)[0])
    net, optimiser = programs.untrained(who, key, rate)
    discriminators = Discriminator(net, optimiser, ranges)
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
    def logits(net: Any, both: Float[Array, "2B H W C"]) -> Float[Array, " 2B"]:
        return compute.run(net, jax.nn.sigmoid(both))[:, 0]

    def untrained(who: Any, key: Key[Array, ""], rate: Any) -> tuple[Any, Any]:
        """Nets that have learnt nothing, and their optimisers."""

        def one(key: Key[Array, ""]) -> tuple[Any, Any]:
            net = nets.judge(key, shape, 1, None)
            return net, optax.adam(rate).init(net)

        return jax.vmap(one)(keys_of(jax.random.fold_in(key, 1), who))

    def ranges(models: Any, data: Any) -> Range:
        images = looked_at(world, data)
        return jax.vmap(lambda model: latent_range(model, images, compute))(models)

    def step_one(
        model: Any, discriminator: Discriminator, images: Any, key: Key[Array, ""], rate: Any
    ) -> Discriminator:
        both = both_kinds(model, discriminator.range, images, key, mixing, compute)
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
            return step_all(models, discriminators, images, keys_of(for_models, who), rate)

        return jax.lax.fori_loop(start, stop, one, discriminators)

    def examine_one(model: Any, discriminator: Discriminator, images: Any, key: Key[Array, ""]) -> tuple[Any, ...]:
        both = both_kinds(model, discriminator.range, images, key, mixing, compute)
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
            return examine_all(models, discriminators, images, keys_of(for_models, who))

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
