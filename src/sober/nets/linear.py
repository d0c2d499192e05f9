"""Linear nets for principal components: one noise level per latent, pixels as sums of components."""

from __future__ import annotations

import functools
import math

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from sober.nets.autoencoder import Cost, Nets, Shape
from sober.nets.dense import dense_encoder
from sober.nets.graph import Affine, Build, Layer
from sober.nets.layers import Flatten, Grid, Linear, add_bias, glorot, matmul
from sober.nets.net import Net, net

EDGE = 1e-3  # pixel values are kept this far from 0 and 1, where logits are infinite


class OneSpread(eqx.Module):
    """mean = x @ weight + bias, with a log-variance that is the same for all pictures."""

    weight: Float[Array, "P D"]
    bias: Float[Array, " D"]
    logvar: Float[Array, " D"]

    def __init__(self, key: Key[Array, ""], pixels: int, latents: int) -> None:
        self.weight = glorot(key, (pixels, latents), pixels, latents)
        self.bias, self.logvar = jnp.zeros(latents), jnp.zeros(latents)

    def __call__(self, x: Float[Array, "B P"]) -> Float[Array, "B outputs"]:
        mean = add_bias(matmul(x, self.weight), self.bias)
        return jnp.concatenate([mean, jnp.broadcast_to(self.logvar.astype(x.dtype), mean.shape)], axis=-1)

    def affine(self) -> Affine:
        weight = np.asarray(self.weight)
        return Affine(np.hstack([weight, np.zeros_like(weight)]), np.concatenate([self.bias, self.logvar]))


class Logit(eqx.Module):
    """The logits of pixel values, clipped to stay away from 0 and 1."""

    def __call__(self, x: Float[Array, "B H W C"]) -> Float[Array, "B H W C"]:
        value = jnp.clip(x, EDGE, 1 - EDGE)
        return jnp.log(value) - jnp.log1p(-value)

    def describe(self, build: Build, name: str, x: Layer) -> Layer:
        return build.add("logit", build.add("clip", x, low=EDGE, high=1 - EDGE))


def linear_encoder(key: Key[Array, ""], shape: Shape, outputs: int) -> Net:
    return net(Flatten(), OneSpread(key, math.prod(shape), outputs // 2))


def linear_decoder(key: Key[Array, ""], shape: Shape, latents: int) -> Net:
    pixels = Linear(key, latents, math.prod(shape))
    grey = eqx.tree_at(lambda layer: layer.bias, pixels, jnp.full(math.prod(shape), 0.5))
    return net(grey, Grid(shape), Logit())


linear = Nets(
    name="linear",
    summary="one linear layer each way, for the method pca; any picture size",
    reference="Tipping & Bishop (1999): Probabilistic Principal Component Analysis",
    encoder=linear_encoder,
    decoder=linear_decoder,
    judge=functools.partial(dense_encoder, widths=()),
    cost=Cost(cpu=0.031, gpu=0.06),
    least=1,
    one_spread=True,
)
