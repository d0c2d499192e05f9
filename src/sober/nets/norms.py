"""Norms, which give the outputs of a layer mean 0 and variance 1.

    InstanceNorm    each channel of each picture over its positions
    LayerNorm       each picture over its positions and channels      scale and offset for each channel
    BatchNorm       each channel over the pictures and positions      scale and offset for each channel

Only batch norm makes the pictures of a batch depend on each other, and only in training. It also keeps running
statistics; with these a trained model treats every picture alone. A pass in training returns the statistics of the
batch; after the step, `after_batch` moves the running statistics a tenth of the way towards them, once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from sober.nets.graph import Build, Layer
from sober.nets.layers import instance_norm

EPSILON = 1e-5
PACE = 0.1  # how far a step moves running statistics towards those of the batch

Norm = Callable[[int], Any] | None  # makes a norm for a number of channels; None for no norm


def normed(name: str, norm: Norm, channels: int) -> list[tuple[str, Any]]:
    """The norm as a list of one named layer, or an empty list for no norm."""
    return [] if norm is None else [(name, norm(channels))]


class InstanceNorm(eqx.Module):
    """Ulyanov et al. (2016), without scale or offset."""

    def __init__(self, channels: int) -> None:
        pass

    def __call__(self, x: Float[Array, "b *p c"]) -> Float[Array, "b *p c"]:
        return instance_norm(x)


class LayerNorm(eqx.Module):
    """Ba et al. (2016). Differentiable any number of times, as a critic's gradient penalty needs."""

    scale: Float[Array, " c"]
    offset: Float[Array, " c"]

    def __init__(self, channels: int) -> None:
        self.scale, self.offset = jnp.ones(channels), jnp.zeros(channels)

    def __call__(self, x: Float[Array, "b *p c"]) -> Float[Array, "b *p c"]:
        wide = x.astype(self.scale.dtype)
        over = tuple(range(1, x.ndim))
        mean = jnp.mean(wide, axis=over, keepdims=True)
        centred = wide - mean
        variance = jnp.mean(centred**2, axis=over, keepdims=True)
        return (centred * jax.lax.rsqrt(variance + EPSILON) * self.scale + self.offset).astype(x.dtype)

    def describe(self, build: Build, name: str, x: Layer) -> Layer:
        arrays = {"weight": self.scale, "bias": self.offset}
        return build.add("layer_norm", x, name=name, arrays=arrays, epsilon=EPSILON)


class Statistics(NamedTuple):
    """Statistics of each channel over a batch."""

    mean: Float[Array, " c"]
    variance: Float[Array, " c"]


class BatchNorm(eqx.Module):
    """Ioffe & Szegedy (2015): uses the batch in training, and running statistics afterwards."""

    scale: Float[Array, " c"]
    offset: Float[Array, " c"]
    statistics: tuple[Float[Array, " c"], Float[Array, " c"]]  # running mean and variance

    @staticmethod
    def of(channels: int) -> BatchNorm:
        return BatchNorm(jnp.ones(channels), jnp.zeros(channels), (jnp.zeros(channels), jnp.ones(channels)))

    def __call__(self, x: Float[Array, "b *p c"]) -> Float[Array, "b *p c"]:
        return self._normed(x, Statistics(*self.statistics))

    def on_batch(self, x: Float[Array, "b *p c"]) -> tuple[Float[Array, "b *p c"], Statistics]:
        wide, over = x.astype(self.scale.dtype), tuple(range(x.ndim - 1))
        mean, square = jnp.mean(wide, axis=over), jnp.mean(wide**2, axis=over)  # in one pass
        batch = Statistics(mean, jnp.maximum(square - mean**2, 0))
        return self._normed(x, batch), batch

    def after_batch(self, statistics: Statistics) -> BatchNorm:
        """The norm with running statistics moved a tenth of the way to those of a batch."""
        mean, variance = (old - PACE * (old - new) for old, new in zip(self.statistics, statistics, strict=True))
        return BatchNorm(self.scale, self.offset, (mean, variance))

    def _normed(self, x: Float[Array, "b *p c"], statistics: Statistics) -> Float[Array, "b *p c"]:
        scale = jax.lax.rsqrt(statistics.variance + EPSILON) * self.scale
        return (x.astype(self.scale.dtype) * scale + (self.offset - statistics.mean * scale)).astype(x.dtype)

    def describe(self, build: Build, name: str, x: Layer) -> Layer:
        mean, variance = self.statistics
        arrays = {"weight": self.scale, "bias": self.offset, "running_mean": mean, "running_var": variance}
        return build.add("batch_norm", x, name=name, arrays=arrays, epsilon=EPSILON)
