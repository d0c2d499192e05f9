"""Noisy-dSprites: the white object on uniform noise, independent in every pixel and channel."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, UInt8

from sober.worlds.drawn.sprites import PaintedSprites


class NoisyDSprites(PaintedSprites):
    """`noisy_dsprites`, or `noisy_dsprites:file=PATH` for the objects of the published npz."""

    name = "noisy_dsprites"
    summary = "a white shape on noise: 5 factors, 737,280 pictures of 64 x 64"
    reference = "Locatello et al. (2020): A sober look at the unsupervised learning of disentangled representations"

    def pixels(self, data: Any, index: Int[Array, " n"], key: Key[Array, ""]) -> Float[Array, "n H W 3"]:
        draw_noise = functools.partial(random_bytes, side=self.side)
        noise = jax.vmap(draw_noise)(self.keys(key, index)).astype(jnp.float32) / 255
        return jnp.maximum(self.sprites.pixels(data, index, key), noise)


def random_bytes(key: Key[Array, ""], side: int) -> UInt8[Array, "H W 3"]:
    """Uniform random bytes, four from each random word: four times as fast as random floats."""
    count = side * side * 3
    words = jax.random.bits(key, (-(-count // 4),), jnp.uint32)
    return jax.lax.bitcast_convert_type(words, jnp.uint8).reshape(-1)[:count].reshape(side, side, 3)
