"""Convolutional nets, four 4 x 4 layers of stride 2 each way: those of the Sober Look study, Table 2; of DAVA, Table 4,
whose decoder is wider; and of Chen et al., appendix H.1, with batch norm."""

from __future__ import annotations

import functools
import math
from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Float, Key

from sober.errors import RequestError
from sober.nets.graph import Affine, Build, Layer
from sober.nets.layers import Conv, Deconv, Linear, relu
from sober.nets.nets import Cost, Nets, Shape
from sober.nets.norms import BatchNorm, NoNorm, Norm

SIDES = 2**4  # what picture sides must be divisible by: they are halved four times


class ConvEncoder(eqx.Module):
    """Four convolutions, then `hidden` units, with ReLU; a norm before each ReLU, or only before those of the grids."""

    convs: tuple[Conv, ...]
    norms: tuple[Any, ...]
    hidden: Linear
    out: Linear

    def __init__(
        self,
        key: Key[Array, ""],
        shape: Shape,
        outputs: int,
        norm: Norm = NoNorm,
        *,
        channels: tuple[int, int, int, int] = (32, 32, 64, 64),
        hidden: int = 256,
        norm_hidden: bool = False,
    ) -> None:
        keys = jax.random.split(key, 6)
        h, w = coarse(shape)
        widths = (shape[2], *channels)
        self.convs = tuple(Conv(k, i, o) for k, i, o in zip(keys, widths, widths[1:], strict=False))
        self.norms = (*map(norm, channels), (norm if norm_hidden else NoNorm)(hidden))
        self.hidden = Linear(keys[4], h * w * channels[-1], hidden)
        self.out = Linear(keys[5], hidden, outputs)

    def __call__(self, x: Float[Array, "B H W C"]) -> Float[Array, "B outputs"]:
        *norms, last = self.norms
        for conv, norm in zip(self.convs, norms, strict=True):
            x = relu(norm(conv(x)))
        x = x.reshape(len(x), math.prod(x.shape[1:]))
        return self.out(relu(last(self.hidden(x))))

    def describe(self, build: Build) -> tuple[Layer, Affine]:
        x, last = build.input, len(self.convs)
        for i, conv in enumerate(self.convs):
            x = build.relu(build.part(f"norms.{i}", build.part(f"convs.{i}", x, conv), self.norms[i]))
        x = build.part("hidden", build.flatten(x), self.hidden)
        return build.relu(build.part(f"norms.{last}", x, self.norms[last])), self.out.affine()


class ConvDecoder(eqx.Module):
    """`hidden` units, a coarse grid, then four transposed convolutions, a norm and ReLU after each but the last."""

    hidden: Linear
    grid: Linear
    deconvs: tuple[Deconv, ...]
    norms: tuple[Any, ...]
    coarse: tuple[int, int] = eqx.field(static=True)

    def __init__(
        self,
        key: Key[Array, ""],
        shape: Shape,
        latents: int,
        norm: Norm = NoNorm,
        *,
        channels: tuple[int, int, int, int] = (64, 64, 32, 32),
        hidden: int = 256,
    ) -> None:
        keys = jax.random.split(key, 6)
        self.coarse = h, w = coarse(shape)
        self.hidden = Linear(keys[0], latents, hidden)
        self.grid = Linear(keys[1], hidden, h * w * channels[0])
        widths = (*channels, shape[2])
        self.deconvs = tuple(Deconv(k, i, o) for k, i, o in zip(keys[2:], widths, widths[1:], strict=False))
        self.norms = tuple(map(norm, (hidden, *channels)))

    def __call__(self, z: Float[Array, "B D"]) -> Float[Array, "B H W C"]:
        first, second, *norms = self.norms
        x = self.grid(relu(first(self.hidden(z))))
        x = relu(second(x.reshape(len(z), *self.coarse, -1)))
        for deconv, norm in zip(self.deconvs[:-1], norms, strict=True):
            x = relu(norm(deconv(x)))
        return self.deconvs[-1](x)

    def describe(self, build: Build) -> Layer:
        x = build.part("hidden", build.input, self.hidden)
        x = build.relu(build.part("norms.0", x, self.norms[0]))
        h, w = self.coarse
        x = build.grid("grid", x, self.grid.affine(), (len(self.grid.bias) // (h * w), h, w))
        for i, deconv in enumerate(self.deconvs):
            x = build.relu(build.part(f"norms.{i + 1}", x, self.norms[i + 1]))
            x = build.part(f"deconvs.{i}", x, deconv)
        return x


def coarse(shape: Shape) -> tuple[int, int]:
    h, w, _ = shape
    if h % SIDES or w % SIDES:
        raise RequestError(
            f"these nets halve the picture four times and need sides divisible by {SIDES}, got {h} x {w}: "
            "resize the pictures, or choose nets 'dense' or 'small'"
        )
    return h // SIDES, w // SIDES


conv = Nets(
    name="conv",
    summary="four 4 x 4 convolutions of stride 2 and a layer of 256, mirrored; picture sides divisible by 16",
    reference="Locatello et al. (2020): A Sober Look at the Unsupervised Learning of Disentangled Representations "
    "and their Evaluation",
    encoder=ConvEncoder,
    decoder=ConvDecoder,
    judge=ConvEncoder,
    cost=Cost(cpu=1.0, gpu=1.0),
    least=32,
    sides=SIDES,
)

dava = Nets(
    name="dava",
    summary="conv with 64 channels in all three inner layers of the decoder; picture sides divisible by 16",
    reference="Estermann & Wattenhofer (2023): DAVA, Disentangling Adversarial Variational Autoencoder, Table 4",
    encoder=ConvEncoder,
    decoder=functools.partial(ConvDecoder, channels=(64, 64, 64, 64)),
    judge=ConvEncoder,
    cost=Cost(cpu=1.6, gpu=1.3),
    least=32,
    sides=SIDES,
)

_CHEN = "Chen et al. (2018): Isolating Sources of Disentanglement in VAEs, appendix H.1"

_narrow = functools.partial(ConvEncoder, hidden=512, norm_hidden=True)
conv_bn = Nets(
    name="conv_bn",
    summary="conv with batch norm and a layer of 512, for 3D Faces and 3D Chairs; picture sides divisible by 16",
    reference=_CHEN,
    encoder=functools.partial(_narrow, norm=BatchNorm.of),
    decoder=functools.partial(ConvDecoder, norm=BatchNorm.of, hidden=512),
    judge=_narrow,
    cost=Cost(cpu=1.4, gpu=1.3),
    least=32,
    sides=SIDES,
)

_wide = functools.partial(ConvEncoder, channels=(64, 128, 128, 256), hidden=512, norm_hidden=True)
conv_bn_wide = Nets(
    name="conv_bn_wide",
    summary="conv_bn with 64 to 256 channels, for CelebA; picture sides divisible by 16",
    reference=_CHEN,
    encoder=functools.partial(_wide, norm=BatchNorm.of),
    decoder=functools.partial(ConvDecoder, norm=BatchNorm.of, channels=(256, 128, 128, 64), hidden=512),
    judge=_wide,
    cost=Cost(cpu=6.7, gpu=3.9),
    least=32,
    sides=SIDES,
)
