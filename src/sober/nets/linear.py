"""Linear nets: what principal components need. One noise level for each latent, pixels as sums of components."""

from __future__ import annotations

import functools
import math

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from sober.nets.dense import DenseEncoder
from sober.nets.graph import Affine, Build, Layer, channels_first
from sober.nets.layers import add_bias, glorot, matmul
from sober.nets.nets import Cost, Nets, Shape

EDGE = 1e-3  # pixel values are kept this far from 0 and 1, where logits end


class LinearEncoder(eqx.Module):
    """mean = x @ weight + bias, with a log-variance that is the same for all pictures."""

    weight: Float[Array, "P D"]
    bias: Float[Array, " D"]
    logvar: Float[Array, " D"]

    def __init__(self, key: Key[Array, ""], shape: Shape, outputs: int) -> None:
        pixels, latents = math.prod(shape), outputs // 2
        self.weight = glorot(key, (pixels, latents), pixels, latents)
        self.bias, self.logvar = jnp.zeros(outputs // 2), jnp.zeros(outputs // 2)

    def __call__(self, x: Float[Array, "B H W C"]) -> Float[Array, "B outputs"]:
        mean = add_bias(matmul(x.reshape(len(x), -1), self.weight), self.bias)
        return jnp.concatenate([mean, jnp.broadcast_to(self.logvar.astype(x.dtype), mean.shape)], axis=-1)

    def describe(self, build: Build) -> tuple[Layer, Affine]:
        weight = np.asarray(self.weight)
        both = Affine(np.hstack([weight, np.zeros_like(weight)]), np.concatenate([self.bias, self.logvar]))
        return build.flatten(build.input), both


class LinearDecoder(eqx.Module):
    """The logits of z @ weight + bias as pixel values."""

    weight: Float[Array, "D P"]
    bias: Float[Array, " P"]
    shape: Shape = eqx.field(static=True)

    def __init__(self, key: Key[Array, ""], shape: Shape, latents: int) -> None:
        self.weight = glorot(key, (latents, math.prod(shape)), latents, math.prod(shape))
        self.bias = jnp.full(math.prod(shape), 0.5)
        self.shape = shape

    def __call__(self, z: Float[Array, "B D"]) -> Float[Array, "B H W C"]:
        value = jnp.clip(self.pixels(z), EDGE, 1 - EDGE)
        return (jnp.log(value) - jnp.log1p(-value)).reshape(len(z), *self.shape)

    def pixels(self, z: Float[Array, "B D"]) -> Float[Array, "B P"]:
        return add_bias(matmul(z, self.weight), self.bias)

    def describe(self, build: Build) -> Layer:
        last = Affine(np.asarray(self.weight), np.asarray(self.bias))
        pixels = build.grid("pixels", build.input, last, channels_first(self.shape))
        return build.add("logit", build.add("clip", pixels, low=EDGE, high=1 - EDGE))


linear = Nets(
    name="linear",
    summary="one linear layer each way, for the method pca; any picture size",
    reference="Tipping & Bishop (1999): Probabilistic Principal Component Analysis",
    encoder=LinearEncoder,
    decoder=LinearDecoder,
    judge=functools.partial(DenseEncoder, widths=()),
    cost=Cost(cpu=0.031, gpu=0.06),
    least=1,
    one_spread=True,
)
