"""PIPE's discriminators as in the authors' code: they learn from a fixed set of pictures for little more than an epoch.

Each model's codes stay fixed: the means of 50,000 pictures, and as many codes that are uniform over the range of these
means. Half of them are for the test, and nine tenths of the other half for training, in mixed batches of 32. The net
has batch norm and a layer of 512, whatever the model's own nets are.

Codes are kept in memory, and not pictures: a step decodes its 32 codes again, which gives the same pictures.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, Key

from sober.contracts import ProgressCallback
from sober.criteria.discriminators import AT_ONCE, CHUNK, DiscriminatorResults
from sober.criteria.mixed_codes import Mixing, identity_words, model_keys
from sober.criteria.same_program import same_program_groups
from sober.device import compiler_options, local_devices, seed_key
from sober.methods.factor_vae import permuted
from sober.methods.method import bernoulli_loss, follow
from sober.model_placement import MODELS, SHARED, ModelPlacement, on_each_device
from sober.models.model import Model, stacked
from sober.nets import Compute
from sober.nets.conv import conv_encoder
from sober.nets.norms import BatchNorm
from sober.worlds import World

BATCH = 32  # pictures in a step, of both kinds
ENCODED = 64  # pictures that are encoded at once
HIDDEN = 512


class Discriminator(NamedTuple):
    net: Any
    optimiser: Any


class FixedCodes(NamedTuple):
    """How many codes of each kind there are for each purpose."""

    train: int
    test: int

    @classmethod
    def of(cls, pictures: int) -> FixedCodes:
        half = max(pictures // ENCODED, 1) * ENCODED // 2
        return cls(half * 9 // 10, half)


def train_and_test_reference(
    models: Sequence[Model],
    world: World,
    *,
    mixing: Mixing,
    steps: int,
    rate: float,
    pictures: int,
    seed: int,
    progress: ProgressCallback,
) -> DiscriminatorResults:
    """Trains a discriminator for each model on its fixed pictures, and tests it on the other half."""
    results = np.empty((len(DiscriminatorResults._fields), len(models)))
    groups = same_program_groups(models, len(local_devices()) * AT_ONCE)
    sizes, key = FixedCodes.of(pictures), seed_key(seed)
    batches = order_of_training(jax.random.fold_in(key, 1), sizes.train, steps)
    for number, group in enumerate(groups):
        members = [models[m] for m in group]
        placement = ModelPlacement(len(members))
        autoencoders, identities = placement.place(stacked(members)), placement.place(identity_words(members))
        compute = Compute(jnp.dtype(members[0].run.precision))
        programs = _programs(world, members[0].image_shape, mixing, compute, sizes)
        data = placement.replicated(world.shard(0)[0])
        codes = programs.codes(autoencoders, identities, data, key)
        discriminators = programs.untrained(identities, key, rate)
        for start in range(0, steps, CHUNK):
            stop = min(start + CHUNK, steps)
            discriminators = programs.advance(autoencoders, discriminators, codes, batches, rate, start, stop)
            progress(number * steps + stop, len(groups) * steps)
        accuracy = programs.accuracy(autoencoders, discriminators, codes)
        measured = [accuracy, *programs.errors(autoencoders, data, key)]
        results[:, group] = [np.asarray(values, float) for values in placement.fetched(measured)]
    return DiscriminatorResults(*results)


def order_of_training(key: Key[Array, ""], train: int, steps: int) -> Int[Array, "steps B"]:
    """The codes of each step: all codes in random order, then all again in another. The last incomplete batch of an
    epoch is left out. Numbers from `train` on are mixed codes."""
    batch = min(BATCH, 2 * train)
    per_epoch = 2 * train // batch
    epochs = [
        jax.random.permutation(jax.random.fold_in(key, epoch), 2 * train)[: per_epoch * batch].reshape(-1, batch)
        for epoch in range(-(-steps // per_epoch))
    ]
    return jnp.concatenate(epochs)[:steps]


class Programs(NamedTuple):
    """Compiled functions for any number of models."""

    codes: Any
    untrained: Any
    advance: Any
    accuracy: Any
    errors: Any


@functools.lru_cache(maxsize=8)
def _programs(
    world: World, shape: tuple[int, int, int], mixing: Mixing, compute: Compute, sizes: FixedCodes
) -> Programs:
    def codes(models: Any, identities: Any, data: Any, key: Key[Array, ""]) -> Float[Array, "M 2 N D"]:
        """Each model's means of pictures, which are the same for all models, and its mixed codes."""

        def means(picture_key: Key[Array, ""]) -> Float[Array, "M b D"]:
            images = world.draw(data, picture_key, ENCODED)
            return jax.vmap(lambda model: model.encode(images, compute)[0])(models)

        by_batch = jax.lax.map(means, jax.random.split(jax.random.fold_in(key, 2), 2 * sizes.test // ENCODED))
        picture_codes = jnp.moveaxis(by_batch, 0, 1).reshape(by_batch.shape[1], -1, by_batch.shape[-1])

        def with_mixed(picture_codes: Float[Array, "N D"], mixing_key: Key[Array, ""]) -> Float[Array, "2 N D"]:
            if mixing == "permuted":
                return jnp.stack([picture_codes, permuted(picture_codes, mixing_key)])
            low, high = picture_codes.min(axis=0), picture_codes.max(axis=0)
            return jnp.stack(
                [picture_codes, jax.random.uniform(mixing_key, picture_codes.shape, minval=low, maxval=high)]
            )

        return jax.vmap(with_mixed)(picture_codes, model_keys(jax.random.fold_in(key, 3), identities))

    def untrained(identities: Any, key: Key[Array, ""], rate: Any) -> Discriminator:
        def untrained_one(net_key: Key[Array, ""]) -> Discriminator:
            net = conv_encoder(net_key, shape, 1, BatchNorm.of, hidden=HIDDEN, norm_hidden=True)
            return Discriminator(net, optax.adam(rate).init(net))

        return jax.vmap(untrained_one)(model_keys(jax.random.fold_in(key, 4), identities))

    def step_one(model: Any, discriminator: Discriminator, codes: Any, chosen: Any, rate: Any) -> Discriminator:
        mixed = chosen >= sizes.train
        images = jax.nn.sigmoid(model.decode(codes[mixed.astype(int), chosen - sizes.train * mixed], compute))
        target = jnp.asarray(~mixed, jnp.float32)

        def loss(net: Any) -> tuple[Float[Array, ""], Any]:
            outputs, statistics = compute.run_batch(net, images)
            return jnp.mean(bernoulli_loss(outputs[:, 0], target)), statistics

        gradient, statistics = jax.grad(loss, has_aux=True)(discriminator.net)
        net, optimiser = follow(gradient, discriminator.net, optax.adam(rate), discriminator.optimiser)
        return Discriminator(net.after_batch(statistics), optimiser)

    def advance(
        models: Any, discriminators: Discriminator, codes: Any, batches: Any, rate: Any, start: int, stop: int
    ) -> Discriminator:
        def step_all(step: Any, discriminators: Discriminator) -> Discriminator:
            stepped = jax.vmap(step_one, in_axes=(0, 0, 0, None, None))
            return stepped(models, discriminators, codes, batches[step], rate)

        return jax.lax.fori_loop(start, stop, step_all, discriminators)

    def accuracy(models: Any, discriminators: Discriminator, codes: Any) -> Float[Array, " M"]:
        def right(start: Any) -> Float[Array, " M"]:
            def right_one(model: Any, discriminator: Discriminator, codes: Any) -> Float[Array, ""]:
                tested = jax.lax.dynamic_slice_in_dim(codes, start, BATCH, axis=1)
                images = jax.nn.sigmoid(model.decode(tested.reshape(2 * BATCH, -1), compute))
                logits = compute.run(discriminator.net, images)[:, 0]
                return jnp.mean((logits >= 0) == (jnp.arange(2 * BATCH) < BATCH))

            return jax.vmap(right_one)(models, discriminators, codes)

        return jnp.mean(jax.lax.map(right, sizes.test + BATCH * jnp.arange(sizes.test // BATCH)), axis=0)

    def errors(models: Any, data: Any, key: Key[Array, ""]) -> tuple[Float[Array, " M"], ...]:
        """Reconstructions' nats per picture, squared error, and variance as a share of the pictures' own."""

        def of_batch(picture_key: Key[Array, ""]) -> tuple[Float[Array, " M"], ...]:
            images = world.draw(data, picture_key, ENCODED)

            def of_model(model: Any) -> tuple[Float[Array, ""], ...]:
                logits = model.decode(model.encode(images, compute)[0], compute)
                rebuilt = jax.nn.sigmoid(logits)
                nats = jnp.sum(bernoulli_loss(logits, images)) / ENCODED
                share = jnp.sum(jnp.var(rebuilt, axis=0)) / jnp.sum(jnp.var(images, axis=0))
                return nats, jnp.mean((rebuilt - images) ** 2), share

            return jax.vmap(of_model)(models)

        keys = jax.random.split(jax.random.fold_in(key, 5), max(sizes.test // ENCODED, 1))
        return jax.tree.map(lambda values: jnp.mean(values, axis=0), jax.lax.map(of_batch, keys))

    once, quick = compiler_options("once"), compiler_options("for seconds")
    return Programs(
        jax.jit(on_each_device(codes, (MODELS, MODELS, SHARED, SHARED)), compiler_options=quick),
        jax.jit(on_each_device(untrained, (MODELS, SHARED, SHARED)), compiler_options=once),
        jax.jit(
            on_each_device(advance, (MODELS, MODELS, MODELS, *[SHARED] * 4)),
            donate_argnums=1,
            compiler_options=compiler_options(),
        ),
        jax.jit(on_each_device(accuracy, (MODELS, MODELS, MODELS)), compiler_options=quick),
        jax.jit(on_each_device(errors, (MODELS, SHARED, SHARED)), compiler_options=quick),
    )
