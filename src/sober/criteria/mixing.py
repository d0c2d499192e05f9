"""Pictures of codes that were mixed: each latent drawn by itself, as if it were independent of the others.

x̂ = Dec(z)      z ~ q(z|x), x a picture of the world
x̃ = Dec(z̃)      z̃ uniform over the range that each latent has, or z with each latent permuted over the batch
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, UInt32

from sober.device import seed_key
from sober.methods.factor_vae import permuted
from sober.methods.method import sample
from sober.models.model import Model
from sober.nets import Compute
from sober.worlds import World

LOOK = 4096  # pictures that tell a latent's range
LOOK_AT_ONCE = 256

Mixing = Literal["uniform", "permuted"]


class Range(NamedTuple):
    """Where the codes of a model lie."""

    low: Float[Array, " D"]
    high: Float[Array, " D"]


def looked_at(world: World, data: Any) -> Float[Array, "parts n H W C"]:
    """The pictures that tell a latent's range, whatever the seed: a range is not luck."""
    keys = jax.random.split(seed_key(0), LOOK // LOOK_AT_ONCE)
    return jax.lax.map(lambda key: world.draw(data, key, LOOK_AT_ONCE), keys)


def latent_range(model: Any, images: Float[Array, "parts n H W C"], compute: Compute) -> Range:
    """The least and the greatest code of each latent, a part at a time: many models look at many pictures."""
    mean, logvar = jax.lax.map(lambda part: model.encode(part, compute), images)
    codes = sample(mean, logvar, seed_key(1)) if model.reading.has_spread else mean
    return Range(codes.min(axis=(0, 1)), codes.max(axis=(0, 1)))


def both_kinds(
    model: Any, reach: Range, images: Float[Array, "B H W C"], key: Key[Array, ""], mixing: Mixing, compute: Compute
) -> Float[Array, "2B H W C"]:
    """Logits of reconstructions, then of as many pictures whose codes were mixed."""
    for_codes, for_mixing = jax.random.split(key)
    mean, logvar = model.encode(images, compute)
    codes = sample(mean, logvar, for_codes) if model.reading.has_spread else mean
    if mixing == "permuted":
        mixed = permuted(codes, for_mixing)
    else:
        mixed = jax.random.uniform(for_mixing, codes.shape, minval=reach.low, maxval=reach.high)
    return model.decode(jnp.concatenate([codes, mixed]), compute)


def words_of(models: Sequence[Model]) -> UInt32[np.ndarray, " M"]:
    """Of each model's identity the word that its keys are made of, so that company never matters."""
    return np.array([int(model.run.identity[:8], 16) for model in models], np.uint32)


def keys_of(key: Key[Array, ""], who: UInt32[Array, " M"]) -> Key[Array, " M"]:
    """A key for each model."""
    return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, who)
