"""Noisy-dSprites: the white object on noise, uniform and of its own in every pixel and channel."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, UInt8, UInt32

from sober.worlds.drawn.sprites import PaintedSprites


class NoisyDSprites(PaintedSprites):
    """`noisy_dsprites`, or `noisy_dsprites:file=PATH` for the objects of the published npz."""

    name = "noisy_dsprites"
    summary = "a white shape on noise: 5 factors, 737,280 pictures of 64 x 64"
    reference = "Locatello et al. (2020): A sober look at the unsupervised learning of disentangled representations"

    def pixels(
        self, data: UInt32[Array, "737280 128"], index: Int[Array, " n"], key: Key[Array, ""]
    ) -> Float[Array, "n 64 64 3"]:
        noise = jax.vmap(random_bytes)(self.keys(key, index)).astype(jnp.float32) / 255
        return jnp.maximum(self.sprites.pixels(data, index, key), noise)


def random_bytes(key: Key[Array, ""]) -> UInt8[Array, "64 64 3"]:
    """Every byte equally likely, four of them from each random word: a quarter of the time of as many floats."""
    words = jax.random.bits(key, (64 * 64 * 3 // 4,), jnp.uint32)
    return jax.lax.bitcast_convert_type(words, jnp.uint8).reshape(64, 64, 3)
