"""The residual nets of Eastwood & Williams (2018), Table 2: four blocks of two 3 x 3 convolutions each way.

A block is norm, ReLU, convolution, twice, added to what went in. On the way down a block ends in mean pooling over
2 x 2; on the way up each pixel becomes 2 x 2 before the first convolution. Where the number of channels changes, what
went in goes through a 1 x 1 convolution.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Float, Key

from sober.nets.conv import SIDES, coarse
from sober.nets.graph import Affine, Build, Layer
from sober.nets.layers import Conv3, Linear, doubled, halved
from sober.nets.nets import Cost, Nets, Shape
from sober.nets.norms import BatchNorm, NoNorm, Norm

WIDTHS = (64, 128, 256, 512, 512)


class Down(eqx.Module):
    """A residual block that halves the grid: (2h, 2w, i) to (h, w, o)."""

    norms: tuple[Any, Any]
    convs: tuple[Conv3, Conv3]
    around: Linear | None

    def __init__(self, key: Key[Array, ""], i: int, o: int, norm: Norm) -> None:
        keys = jax.random.split(key, 3)
        self.norms = norm(i), norm(i)
        self.convs = Conv3(keys[0], i, i), Conv3(keys[1], i, o)
        self.around = None if i == o else Linear(keys[2], i, o)

    def __call__(self, x: Float[Array, "b 2h 2w i"]) -> Float[Array, "b h w o"]:
        y = self.convs[0](jax.nn.relu(self.norms[0](x)))
        y = self.convs[1](jax.nn.relu(self.norms[1](y)))
        x = halved(x)  # before the 1 x 1 convolution: both are linear, and this way it is four times cheaper
        return halved(y) + (x if self.around is None else self.around(x))

    def describe(self, build: Build, name: str, x: Layer) -> Layer:
        y = x
        for i in range(2):
            y = build.relu(build.part(f"{name}.norms.{i}", y, self.norms[i]))
            y = build.part(f"{name}.convs.{i}", y, self.convs[i])
        x, y = build.halve(x), build.halve(y)
        return build.add("add", y, x if self.around is None else build.part(f"{name}.around", x, self.around))


class Up(eqx.Module):
    """A residual block that doubles the grid: (h, w, i) to (2h, 2w, o)."""

    norms: tuple[Any, Any]
    convs: tuple[Conv3, Conv3]
    around: Linear | None

    def __init__(self, key: Key[Array, ""], i: int, o: int, norm: Norm) -> None:
        keys = jax.random.split(key, 3)
        self.norms = norm(i), norm(o)
        self.convs = Conv3(keys[0], i, o), Conv3(keys[1], o, o)
        self.around = None if i == o else Linear(keys[2], i, o)

    def __call__(self, x: Float[Array, "b h w i"]) -> Float[Array, "b 2h 2w o"]:
        y = self.convs[0](doubled(jax.nn.relu(self.norms[0](x))))
        y = self.convs[1](jax.nn.relu(self.norms[1](y)))
        return y + doubled(x if self.around is None else self.around(x))

    def describe(self, build: Build, name: str, x: Layer) -> Layer:
        y = build.relu(build.part(f"{name}.norms.0", x, self.norms[0]))
        y = build.part(f"{name}.convs.0", build.double(y), self.convs[0])
        y = build.relu(build.part(f"{name}.norms.1", y, self.norms[1]))
        y = build.part(f"{name}.convs.1", y, self.convs[1])
        x = x if self.around is None else build.part(f"{name}.around", x, self.around)
        return build.add("add", y, build.double(x))


class ResNetEncoder(eqx.Module):
    first: Conv3
    blocks: tuple[Down, ...]
    out: Linear

    def __init__(
        self,
        key: Key[Array, ""],
        shape: Shape,
        outputs: int,
        norm: Norm = NoNorm,
        *,
        widths: tuple[int, ...] = WIDTHS,
    ) -> None:
        keys = jax.random.split(key, 6)
        h, w = coarse(shape)
        self.first = Conv3(keys[0], shape[2], widths[0])
        self.blocks = tuple(Down(k, i, o, norm) for k, i, o in zip(keys[1:], widths, widths[1:], strict=False))
        self.out = Linear(keys[5], h * w * widths[-1], outputs)

    def __call__(self, x: Float[Array, "B H W C"]) -> Float[Array, "B outputs"]:
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.out(x.reshape(len(x), math.prod(x.shape[1:])))

    def describe(self, build: Build) -> tuple[Layer, Affine]:
        x = build.part("first", build.input, self.first)
        for i, block in enumerate(self.blocks):
            x = build.part(f"blocks.{i}", x, block)
        return build.flatten(x), self.out.affine()


class ResNetDecoder(eqx.Module):
    grid: Linear
    blocks: tuple[Up, ...]
    norm: Any
    last: Conv3
    coarse: tuple[int, int] = eqx.field(static=True)

    def __init__(
        self,
        key: Key[Array, ""],
        shape: Shape,
        latents: int,
        norm: Norm = NoNorm,
        *,
        widths: tuple[int, ...] = WIDTHS[::-1],
    ) -> None:
        keys = jax.random.split(key, 6)
        self.coarse = h, w = coarse(shape)
        self.grid = Linear(keys[0], latents, h * w * widths[0])
        self.blocks = tuple(Up(k, i, o, norm) for k, i, o in zip(keys[1:], widths, widths[1:], strict=False))
        self.norm = norm(widths[-1])
        self.last = Conv3(keys[5], widths[-1], shape[2])

    def __call__(self, z: Float[Array, "B D"]) -> Float[Array, "B H W C"]:
        x = self.grid(z).reshape(len(z), *self.coarse, -1)
        for block in self.blocks:
            x = block(x)
        return self.last(jax.nn.relu(self.norm(x)))

    def describe(self, build: Build) -> Layer:
        h, w = self.coarse
        x = build.grid("grid", build.input, self.grid.affine(), (len(self.grid.bias) // (h * w), h, w))
        for i, block in enumerate(self.blocks):
            x = build.part(f"blocks.{i}", x, block)
        return build.part("last", build.relu(build.part("norm", x, self.norm)), self.last)


resnet = Nets(
    name="resnet",
    summary="four residual blocks of two 3 x 3 convolutions each way, with batch norm; picture sides divisible by 16",
    reference="Eastwood & Williams (2018): A Framework for the Quantitative Evaluation of Disentangled Representations",
    encoder=functools.partial(ResNetEncoder, norm=BatchNorm.of),
    decoder=functools.partial(ResNetDecoder, norm=BatchNorm.of),
    judge=ResNetEncoder,
    cost=Cost(cpu=110.0, gpu=104.0),
    least=32,
    sides=SIDES,
)
