"""Norms: what brings the outputs of a layer to mean 0 and variance 1, over what, and with which memory.

    InstanceNorm    each channel of each picture over its positions
    LayerNorm       each picture over its positions and channels      scale and offset for each channel
    BatchNorm       each channel over the pictures and positions      scale and offset for each channel

Only batch norm ties the pictures of a batch together, and only in training. Besides it keeps running statistics, with
which a finished model treats every picture alone. They are leaves of the model like its weights, but no loss has a
gradient in them: in their place the backward pass leaves how far they are from the batch's, and `follow` in
`methods/method.py` takes them a tenth of the way. So methods know nothing of batch norm, and no state has to be passed
through their losses.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from sober.nets.graph import Build, Layer
from sober.nets.layers import instance_norm

EPSILON = 1e-5
PACE = 0.1  # of running statistics towards those of a batch, in a step

Tree = TypeVar("Tree")
Norm = Callable[[int], Any]  # what makes a norm for a number of channels


class NoNorm(eqx.Module):
    def __init__(self, channels: int) -> None:
        pass

    def __call__(self, x: Float[Array, "b *p c"]) -> Float[Array, "b *p c"]:
        return x

    def describe(self, build: Build, name: str, x: Layer) -> Layer:
        return x


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


class BatchNorm(eqx.Module):
    """Ioffe & Szegedy (2015). `training` says whose statistics count: the batch's, or the running ones."""

    scale: Float[Array, " c"]
    offset: Float[Array, " c"]
    statistics: tuple[Float[Array, " c"], Float[Array, " c"]]  # running mean and variance
    training: bool = eqx.field(static=True, default=False)

    @staticmethod
    def of(channels: int) -> BatchNorm:
        return BatchNorm(jnp.ones(channels), jnp.zeros(channels), (jnp.zeros(channels), jnp.ones(channels)))

    def __call__(self, x: Float[Array, "b *p c"]) -> Float[Array, "b *p c"]:
        wide = x.astype(self.scale.dtype)
        mean, variance = self.statistics
        if self.training:
            over = tuple(range(x.ndim - 1))
            mean, square = jnp.mean(wide, axis=over), jnp.mean(wide**2, axis=over)  # in one pass
            variance = jnp.maximum(square - mean**2, 0)
            distance = self.statistics[0] - mean, self.statistics[1] - variance
            wide = leaving(wide, distance, self.statistics)
        scale = jax.lax.rsqrt(variance + EPSILON) * self.scale
        return (wide * scale + (self.offset - mean * scale)).astype(x.dtype)

    def describe(self, build: Build, name: str, x: Layer) -> Layer:
        mean, variance = self.statistics
        arrays = {"weight": self.scale, "bias": self.offset, "running_mean": mean, "running_var": variance}
        return build.add("batch_norm", x, name=name, arrays=arrays, epsilon=EPSILON)


@jax.custom_vjp
def leaving(x: Array, distance: Any, statistics: Any) -> Array:
    """x; the backward pass leaves `distance` in place of a gradient of `statistics`."""
    return x


leaving.defvjp(
    lambda x, distance, statistics: (x, distance),
    lambda distance, g: (g, jax.tree.map(jnp.zeros_like, distance), distance),
)


def in_training(tree: Tree, training: bool) -> Tree:
    """The same nets, with batch norms that go by the batch (training) or by their running statistics."""
    return _on_batch_norms(lambda norm: dataclasses.replace(norm, training=training), tree)


def map_statistics(change: Callable[..., Array], tree: Tree, *others: Tree) -> Tree:
    """Nets whose running statistics are `change` of these and those of others like them; all else as it is."""

    def changed(norm: BatchNorm, *rest: BatchNorm) -> BatchNorm:
        statistics = jax.tree.map(change, norm.statistics, *[other.statistics for other in rest])
        return dataclasses.replace(norm, statistics=statistics)

    return _on_batch_norms(changed, tree, *others)


def _on_batch_norms(change: Callable[..., Any], tree: Tree, *others: Tree) -> Tree:
    def is_one(node: Any) -> bool:
        return isinstance(node, BatchNorm)

    return jax.tree.map(
        lambda node, *rest: change(node, *rest) if is_one(node) else node, tree, *others, is_leaf=is_one
    )
