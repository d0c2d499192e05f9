"""Fully connected nets: those of Higgins et al. and Chen et al. for dSprites, and a small pair for small pictures."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from sober.nets.graph import Affine, Build, Layer, channels_first, undescribed
from sober.nets.layers import Linear
from sober.nets.nets import Cost, Nets, Shape
from sober.nets.norms import NoNorm, Norm

ACTIVATIONS: dict[Callable[..., Any], str] = {jax.nn.relu: "relu", jnp.tanh: "tanh"}  # as graphs call them


class Stack(eqx.Module):
    """Linear layers with a norm and an activation between them."""

    layers: tuple[Linear, ...]
    norms: tuple[Any, ...]
    activation: Callable[[Array], Array] = eqx.field(static=True)

    def __init__(
        self, key: Key[Array, ""], widths: Sequence[int], activation: Callable[[Array], Array], norm: Norm = NoNorm
    ) -> None:
        keys = jax.random.split(key, len(widths) - 1)
        self.norms = tuple(map(norm, widths[1:-1]))
        self.layers = tuple(Linear(k, i, o) for k, i, o in zip(keys, widths, widths[1:], strict=False))
        self.activation = activation

    def __call__(self, x: Float[Array, "B i"]) -> Float[Array, "B o"]:
        for layer, norm in zip(self.layers[:-1], self.norms, strict=True):
            x = self.activation(norm(layer(x)))
        return self.layers[-1](x)

    def describe(self, build: Build, name: str, x: Layer) -> Layer:
        """All of it but its last layer."""
        if self.activation not in ACTIVATIONS:
            raise undescribed(str(self.activation))
        for i, norm in enumerate(self.norms):
            x = build.part(f"{name}.norms.{i}", build.part(f"{name}.layers.{i}", x, self.layers[i]), norm)
            x = build.add(ACTIVATIONS[self.activation], x)
        return x


class DenseEncoder(eqx.Module):
    stack: Stack

    def __init__(
        self,
        key: Key[Array, ""],
        shape: Shape,
        outputs: int,
        norm: Norm = NoNorm,
        *,
        widths: Sequence[int],
        activation: Callable[[Array], Array] = jax.nn.relu,
    ) -> None:
        self.stack = Stack(key, (math.prod(shape), *widths, outputs), activation, norm)

    def __call__(self, x: Float[Array, "B H W C"]) -> Float[Array, "B outputs"]:
        return self.stack(x.reshape(len(x), math.prod(x.shape[1:])))

    def describe(self, build: Build) -> tuple[Layer, Affine]:
        return build.part("stack", build.flatten(build.input), self.stack), self.stack.layers[-1].affine()


class DenseDecoder(eqx.Module):
    stack: Stack
    shape: Shape = eqx.field(static=True)

    def __init__(
        self,
        key: Key[Array, ""],
        shape: Shape,
        latents: int,
        *,
        widths: Sequence[int],
        activation: Callable[[Array], Array],
    ) -> None:
        self.stack = Stack(key, (latents, *widths, math.prod(shape)), activation)
        self.shape = shape

    def __call__(self, z: Float[Array, "B D"]) -> Float[Array, "B H W C"]:
        return self.stack(z).reshape(len(z), *self.shape)

    def describe(self, build: Build) -> Layer:
        x, last = build.part("stack", build.input, self.stack), len(self.stack.layers) - 1
        return build.grid(f"stack.layers.{last}", x, self.stack.layers[last].affine(), channels_first(self.shape))


dense = Nets(
    name="dense",
    summary="fully connected: encoder 1200-1200 ReLU, decoder 1200-1200-1200 tanh; any picture size",
    reference="Chen et al. (2018): Isolating Sources of Disentanglement in VAEs, appendix H.1",
    encoder=functools.partial(DenseEncoder, widths=(1200, 1200)),
    decoder=functools.partial(DenseDecoder, widths=(1200, 1200, 1200), activation=jnp.tanh),
    judge=functools.partial(DenseEncoder, widths=(1200, 1200)),
    cost=Cost(cpu=1.5, gpu=2.1),
    least=32,
)

small = Nets(
    name="small",
    summary="fully connected with 64 units each way, for small pictures on a CPU; any picture size",
    reference="Sober",
    encoder=functools.partial(DenseEncoder, widths=(64, 64)),
    decoder=functools.partial(DenseDecoder, widths=(64, 64), activation=jax.nn.relu),
    judge=functools.partial(DenseEncoder, widths=(64, 64)),
    cost=Cost(cpu=0.058, gpu=0.12),
    least=1,
    code_units=64,
)
