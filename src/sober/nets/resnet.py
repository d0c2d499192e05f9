"""The residual nets of Eastwood & Williams (2018), Table 2: four blocks of two 3 x 3 convolutions each way.

A block is norm, ReLU, convolution, twice, added to the block's input. On the way down a block ends with mean pooling
over 2 x 2; on the way up each pixel becomes 2 x 2 before the first convolution. If the number of channels changes, the
block's input goes through a 1 x 1 convolution.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

import jax
from jaxtyping import Array, Key

from sober.nets.autoencoder import Cost, Nets, Shape
from sober.nets.conv import SIDES, coarse
from sober.nets.layers import Activation, Conv3, Double, Flatten, Grid, Halve, Linear
from sober.nets.net import Net, Residual, net
from sober.nets.norms import BatchNorm, Norm, normed

WIDTHS = (64, 128, 256, 512, 512)
ACTIVATION = Activation(jax.nn.relu)


def down(key: Key[Array, ""], i: int, o: int, norm: Norm) -> Residual:
    """A block that halves the grid: (2h, 2w, i) to (h, w, o)."""
    keys = jax.random.split(key, 3)
    main = [*normed("norms.0", norm, i), ACTIVATION, ("convs.0", Conv3(keys[0], i, i))]
    main += [*normed("norms.1", norm, i), ACTIVATION, ("convs.1", Conv3(keys[1], i, o)), Halve()]
    # Halved before the 1 x 1 convolution: both are linear, and this way it is four times cheaper.
    return Residual(net(*main), net(Halve(), *changed(keys[2], i, o)))


def up(key: Key[Array, ""], i: int, o: int, norm: Norm) -> Residual:
    """A block that doubles the grid: (h, w, i) to (2h, 2w, o)."""
    keys = jax.random.split(key, 3)
    main = [*normed("norms.0", norm, i), ACTIVATION, Double(), ("convs.0", Conv3(keys[0], i, o))]
    main += [*normed("norms.1", norm, o), ACTIVATION, ("convs.1", Conv3(keys[1], o, o))]
    return Residual(net(*main), net(*changed(keys[2], i, o), Double()))


def changed(key: Key[Array, ""], i: int, o: int) -> list[Any]:
    """A 1 x 1 convolution where the number of channels changes."""
    return [] if i == o else [("around", Linear(key, i, o))]


def resnet_encoder(
    key: Key[Array, ""], shape: Shape, outputs: int, norm: Norm = None, *, widths: tuple[int, ...] = WIDTHS
) -> Net:
    keys = jax.random.split(key, 6)
    h, w = coarse(shape)
    parts: list[Any] = [("first", Conv3(keys[0], shape[2], widths[0]))]
    parts += [(f"blocks.{n}", down(keys[1 + n], i, o, norm)) for n, (i, o) in enumerate(itertools.pairwise(widths))]
    return net(*parts, Flatten(), ("out", Linear(keys[5], h * w * widths[-1], outputs)))


def resnet_decoder(
    key: Key[Array, ""], shape: Shape, latents: int, norm: Norm = None, *, widths: tuple[int, ...] = WIDTHS[::-1]
) -> Net:
    keys = jax.random.split(key, 6)
    h, w = coarse(shape)
    parts: list[Any] = [("grid", Linear(keys[0], latents, h * w * widths[0])), Grid((h, w, widths[0]))]
    parts += [(f"blocks.{n}", up(keys[1 + n], i, o, norm)) for n, (i, o) in enumerate(itertools.pairwise(widths))]
    return net(*parts, *normed("norm", norm, widths[-1]), ACTIVATION, ("last", Conv3(keys[5], widths[-1], shape[2])))


resnet = Nets(
    name="resnet",
    summary="four residual blocks of two 3 x 3 convolutions each way, with batch norm; picture sides divisible by 16",
    reference="Eastwood & Williams (2018): A Framework for the Quantitative Evaluation of Disentangled Representations",
    encoder=functools.partial(resnet_encoder, norm=BatchNorm.of),
    decoder=functools.partial(resnet_decoder, norm=BatchNorm.of),
    judge=resnet_encoder,
    cost=Cost(cpu=110.0, gpu=104.0),
    heavy=16,  # the nine shifts of a 3 x 3 convolution with 64 channels are 9 MB, and two are there at a time
    least=32,
    sides=SIDES,
)
