"""Pictures of a world beside those that models decode: reconstructions, and pictures of mixed codes. Needs JAX.

They are those that PIPE tells apart, made by the same code. The world's pictures are the same for
all models; all else is drawn by a model's identity, so company never matters.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from sober.criteria.mixing import Mixing, Range, both_kinds, keys_of, latent_range, looked_at, words_of
from sober.device import compiler_options, seed_key
from sober.models.model import Model, stacked
from sober.nets import Compute
from sober.spread import MODELS, SHARED, Spread, mapped
from sober.types import Precision
from sober.worlds import World

BATCH = 128  # pictures at a time, whoever the models are: what is drawn depends on it


class Decoded(NamedTuple):
    """A batch of pictures that M models alike decode, in [0, 1]: the means of p(x|z)."""

    reconstructions: Float[np.ndarray, "M n H W C"]
    mixed: Float[np.ndarray, "M n H W C"]
    finite: Bool[np.ndarray, " M"]  # whether all of these were numbers; what is none is black


def batches(count: int) -> Iterator[tuple[int, int]]:
    """The number and the size of each batch of so many pictures."""
    for number, start in enumerate(range(0, count, BATCH)):
        yield number, min(BATCH, count - start)


def world_pictures(world: World, count: int, seed: int) -> Iterator[Float[np.ndarray, "n H W C"]]:
    """So many pictures of a world, drawn as for training."""
    data = world.shard(0)[0]
    for number, size in batches(count):
        yield np.asarray(_draw()(world, data, jax.random.fold_in(seed_key(seed), number)))[:size]


def decoded_pictures(models: Sequence[Model], world: World, mixing: Mixing, count: int, seed: int) -> Iterator[Decoded]:
    """What models alike make of the codes of the same pictures, and of mixed codes."""
    spread = Spread(len(models))
    autoencoders, who = spread.place(stacked(models)), spread.place(words_of(models))
    data = spread.copied(world.shard(0)[0])
    ranges, decode = _programs(models[0].run.precision, mixing)
    reach = ranges(world, autoencoders, data)
    for number, size in batches(count):
        key = jax.random.fold_in(seed_key(seed), number)
        both = spread.trimmed(decode(world, autoencoders, who, reach, data, key))  # (M, 2B, H, W, C)
        finite = np.isfinite(both).all(axis=(1, 2, 3, 4))
        both = both if finite.all() else np.nan_to_num(both, nan=0.0)
        yield Decoded(both[:, :size], both[:, BATCH : BATCH + size], finite)


def _keys(key: Any) -> Any:
    """For the pictures of a batch, and for the models."""
    return jax.random.split(key)


@functools.cache
def _draw() -> Callable[..., Float[Array, "B H W C"]]:
    """The pictures of a batch; compiled once per world."""

    def draw(world: World, data: Any, key: Any) -> Float[Array, "B H W C"]:
        return world.draw(data, _keys(key)[0], BATCH)

    return jax.jit(draw, static_argnums=0, compiler_options=compiler_options("for seconds"))


@functools.cache
def _programs(precision: Precision, mixing: Mixing) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Where codes lie, and the pictures of a batch, in what models were trained in."""
    compute = Compute(jnp.dtype(precision))

    def ranges(world: World, models: Any, data: Any) -> Range:
        def of_models(models: Any, data: Any) -> Range:
            images = looked_at(world, data)
            return jax.vmap(lambda model: latent_range(model, images, compute))(models)

        return mapped(of_models, (MODELS, SHARED))(models, data)

    def decode(world: World, models: Any, who: Array, reach: Range, data: Any, key: Any) -> Float[Array, "M 2B H W C"]:
        def of_models(models: Any, who: Array, reach: Range, data: Any, key: Any) -> Float[Array, "M 2B H W C"]:
            for_images, for_models = _keys(key)
            images = world.draw(data, for_images, BATCH)

            def one(model: Any, reach: Range, key: Any) -> Float[Array, "2B H W C"]:
                return jax.nn.sigmoid(both_kinds(model, reach, images, key, mixing, compute).astype(jnp.float32))

            return jax.vmap(one)(models, reach, keys_of(for_models, who))

        return mapped(of_models, (MODELS, MODELS, MODELS, SHARED, SHARED))(models, who, reach, data, key)

    options = compiler_options("for seconds")
    return tuple(jax.jit(f, static_argnums=0, compiler_options=options) for f in (ranges, decode))  # type: ignore[return-value]
