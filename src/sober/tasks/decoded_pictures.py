"""Pictures of a world, and the pictures that models decode: reconstructions, and pictures of mixed codes. Needs JAX.

PIPE compares the same pictures, made by the same code. The world's pictures are the same for all models. Everything
else is drawn by the model's identity, so company never matters.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from sober.criteria.mixed_codes import (
    LatentRange,
    Mixing,
    identity_words,
    latent_range,
    model_keys,
    range_pictures,
    reconstructed_and_mixed,
)
from sober.device import compiler_options, seed_key
from sober.model_placement import MODELS, SHARED, ModelPlacement, on_each_device
from sober.models.model import Model, stacked
from sober.nets import Compute
from sober.types import Precision
from sober.worlds import World

BATCH = 128  # pictures at a time, for all models: the random draws depend on it


class DecodedBatch(NamedTuple):
    """A batch of pictures that M models of one program decode, in [0, 1]: the means of p(x|z)."""

    reconstructions: Float[np.ndarray, "M n H W C"]
    mixed: Float[np.ndarray, "M n H W C"]
    finite: Bool[np.ndarray, " M"]  # whether all pixels were finite; the others are black


def batches(count: int) -> Iterator[tuple[int, int]]:
    """The number and the size of each batch of `count` pictures."""
    for number, start in enumerate(range(0, count, BATCH)):
        yield number, min(BATCH, count - start)


def world_pictures(world: World, count: int, seed: int) -> Iterator[Float[np.ndarray, "n H W C"]]:
    """`count` pictures of a world, drawn as for training."""
    data, draw = world.shard(0)[0], _drawer(world)
    for number, size in batches(count):
        yield np.asarray(draw(data, jax.random.fold_in(seed_key(seed), number)))[:size]


def decoded_pictures(
    models: Sequence[Model], world: World, mixing: Mixing, count: int, seed: int
) -> Iterator[DecodedBatch]:
    """The pictures that models of one program decode from codes of the same pictures, and from mixed codes."""
    placement = ModelPlacement(len(models))
    autoencoders, identities = placement.place(stacked(models)), placement.place(identity_words(models))
    data = placement.replicated(world.shard(0)[0])
    programs = _programs(world, models[0].run.precision, mixing)
    latent_ranges = programs.ranges(autoencoders, data)
    for number, size in batches(count):
        key = jax.random.fold_in(seed_key(seed), number)
        decoded = placement.fetched(
            programs.decode(autoencoders, identities, latent_ranges, data, key)
        )  # (M, 2B, H, W, C)
        finite = np.isfinite(decoded).all(axis=(1, 2, 3, 4))
        decoded = decoded if finite.all() else np.nan_to_num(decoded, nan=0.0)
        yield DecodedBatch(decoded[:, :size], decoded[:, BATCH : BATCH + size], finite)


def _keys(key: Any) -> Any:
    """The keys of a batch: one for its pictures, one for the models."""
    return jax.random.split(key)


@functools.lru_cache(maxsize=8)
def _drawer(world: World) -> Callable[..., Float[Array, "B H W C"]]:
    """The compiled function that draws the pictures of a batch."""

    def draw(data: Any, key: Any) -> Float[Array, "B H W C"]:
        return world.draw(data, _keys(key)[0], BATCH)

    return jax.jit(draw, compiler_options=compiler_options("for seconds"))


class Programs(NamedTuple):
    """Compiled functions for any number of models."""

    ranges: Callable[..., LatentRange]
    decode: Callable[..., Float[Array, "M 2B H W C"]]


@functools.lru_cache(maxsize=8)
def _programs(world: World, precision: Precision, mixing: Mixing) -> Programs:
    compute = Compute(jnp.dtype(precision))

    def ranges(models: Any, data: Any) -> LatentRange:
        images = range_pictures(world, data)
        return jax.vmap(lambda model: latent_range(model, images, compute))(models)

    def decode(
        models: Any, identities: Array, latent_ranges: LatentRange, data: Any, key: Any
    ) -> Float[Array, "M 2B H W C"]:
        images_key, models_key = _keys(key)
        images = world.draw(data, images_key, BATCH)

        def decode_one(model: Any, latent_range: LatentRange, key: Any) -> Float[Array, "2B H W C"]:
            logits = reconstructed_and_mixed(model, latent_range, images, key, mixing, compute)
            return jax.nn.sigmoid(logits.astype(jnp.float32))

        return jax.vmap(decode_one)(models, latent_ranges, model_keys(models_key, identities))

    options = compiler_options("for seconds")
    return Programs(
        jax.jit(on_each_device(ranges, (MODELS, SHARED)), compiler_options=options),
        jax.jit(on_each_device(decode, (MODELS, MODELS, MODELS, SHARED, SHARED)), compiler_options=options),
    )
