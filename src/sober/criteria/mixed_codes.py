"""Pictures of mixed codes: each latent is drawn by itself, as if it were independent of the others.

x̂ = Dec(z)      z ~ q(z|x), x a picture of the world
x̃ = Dec(z̃)      z̃ uniform over the range of each latent, or z with each latent permuted over the batch
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

RANGE_PICTURES = 4096  # to estimate the range of each latent
RANGE_BATCH = 256  # of these, encoded at once

Mixing = Literal["uniform", "permuted"]


class LatentRange(NamedTuple):
    """The least and the greatest code of each latent of a model."""

    low: Float[Array, " D"]
    high: Float[Array, " D"]


def range_pictures(world: World, data: Any) -> Float[Array, "batches n H W C"]:
    """The pictures to estimate ranges from, the same for every seed: a range should not depend on luck."""
    keys = jax.random.split(seed_key(0), RANGE_PICTURES // RANGE_BATCH)
    return jax.lax.map(lambda key: world.draw(data, key, RANGE_BATCH), keys)


def latent_range(model: Any, images: Float[Array, "batches n H W C"], compute: Compute) -> LatentRange:
    """The range of each latent over all pictures, encoded batch by batch so that many models fit into memory."""
    mean, logvar = jax.lax.map(lambda batch: model.encode(batch, compute), images)
    codes = sample(mean, logvar, seed_key(1)) if model.reading.has_spread else mean
    return LatentRange(codes.min(axis=(0, 1)), codes.max(axis=(0, 1)))


def reconstructed_and_mixed(
    model: Any,
    latent_range: LatentRange,
    images: Float[Array, "B H W C"],
    key: Key[Array, ""],
    mixing: Mixing,
    compute: Compute,
) -> Float[Array, "2B H W C"]:
    """Logits of B reconstructions, then of B pictures of mixed codes."""
    codes_key, mixing_key = jax.random.split(key)
    mean, logvar = model.encode(images, compute)
    codes = sample(mean, logvar, codes_key) if model.reading.has_spread else mean
    if mixing == "permuted":
        mixed = permuted(codes, mixing_key)
    else:
        mixed = jax.random.uniform(mixing_key, codes.shape, minval=latent_range.low, maxval=latent_range.high)
    return model.decode(jnp.concatenate([codes, mixed]), compute)


def identity_words(models: Sequence[Model]) -> UInt32[np.ndarray, " M"]:
    """The first 32 bits of each model's identity. Its random keys come from these alone, so company never matters."""
    return np.array([int(model.run.identity[:8], 16) for model in models], np.uint32)


def model_keys(key: Key[Array, ""], identities: UInt32[Array, " M"]) -> Key[Array, " M"]:
    """A random key for each model."""
    return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, identities)
