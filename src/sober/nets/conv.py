"""Convolutional nets with four 4 x 4 layers of stride 2 each way.

Those of the Sober Look study, Table 2; of DAVA, Table 4, with a wider decoder; of Chen et al., appendix H.1, with batch
norm.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

import jax
from jaxtyping import Array, Key

from sober.errors import RequestError
from sober.nets.autoencoder import Cost, Nets, Shape
from sober.nets.layers import LEAKY_RELU, RELU, Activation, Conv, Deconv, Flatten, Grid, Linear
from sober.nets.net import Net, net
from sober.nets.norms import BatchNorm, Norm, normed

SIDES = 2**4  # picture sides must be divisible by it: they are halved four times


def conv_encoder(
    key: Key[Array, ""],
    shape: Shape,
    outputs: int,
    norm: Norm = None,
    *,
    channels: tuple[int, int, int, int] = (32, 32, 64, 64),
    hidden: int = 256,
    norm_hidden: bool = False,
    activation: Activation = RELU,
) -> Net:
    """Four convolutions, then `hidden` units, each with ReLU and a norm before it; `norm_hidden` includes the units."""
    keys = jax.random.split(key, 6)
    h, w = coarse(shape)
    parts: list[Any] = []
    for n, (i, o) in enumerate(itertools.pairwise((shape[2], *channels))):
        parts += [(f"convs.{n}", Conv(keys[n], i, o)), *normed(f"norms.{n}", norm, o), activation]
    parts += [Flatten(), ("hidden", Linear(keys[4], h * w * channels[-1], hidden))]
    parts += [*normed("norms.4", norm if norm_hidden else None, hidden), activation]
    return net(*parts, ("out", Linear(keys[5], hidden, outputs)))


def conv_decoder(
    key: Key[Array, ""],
    shape: Shape,
    latents: int,
    norm: Norm = None,
    *,
    channels: tuple[int, int, int, int] = (64, 64, 32, 32),
    hidden: int = 256,
    activation: Activation = RELU,
) -> Net:
    """`hidden` units, a coarse grid, then four transposed convolutions; a norm and ReLU after each but the last."""
    keys = jax.random.split(key, 6)
    h, w = coarse(shape)
    parts: list[Any] = [("hidden", Linear(keys[0], latents, hidden)), *normed("norms.0", norm, hidden), activation]
    parts += [("grid", Linear(keys[1], hidden, h * w * channels[0])), Grid((h, w, channels[0]))]
    for n, (i, o) in enumerate(itertools.pairwise((*channels, shape[2]))):
        parts += [*normed(f"norms.{n + 1}", norm, i), activation, (f"deconvs.{n}", Deconv(keys[2 + n], i, o))]
    return net(*parts)


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
    encoder=conv_encoder,
    decoder=conv_decoder,
    judge=conv_encoder,
    cost=Cost(cpu=1.0, gpu=1.0),
    least=32,
    sides=SIDES,
)

dava = Nets(
    name="dava",
    summary="conv with 64 channels in all three inner layers of the decoder; picture sides divisible by 16",
    reference="Estermann & Wattenhofer (2023): DAVA, Disentangling Adversarial Variational Autoencoder, Table 4",
    encoder=conv_encoder,
    decoder=functools.partial(conv_decoder, channels=(64, 64, 64, 64)),
    judge=conv_encoder,
    cost=Cost(cpu=1.6, gpu=1.3),
    least=32,
    sides=SIDES,
)

_CHEN = "Chen et al. (2018): Isolating Sources of Disentanglement in VAEs, appendix H.1"

_narrow = functools.partial(conv_encoder, hidden=512, norm_hidden=True)
conv_bn = Nets(
    name="conv_bn",
    summary="conv with batch norm and a layer of 512, for 3D Faces and 3D Chairs; picture sides divisible by 16",
    reference=_CHEN,
    encoder=functools.partial(_narrow, norm=BatchNorm.of),
    decoder=functools.partial(conv_decoder, norm=BatchNorm.of, hidden=512),
    judge=_narrow,
    cost=Cost(cpu=1.4, gpu=1.3),
    least=32,
    sides=SIDES,
)

_leaky = functools.partial(_narrow, activation=LEAKY_RELU)
conv_bn_leaky = Nets(
    name="conv_bn_leaky",
    summary="conv_bn with leaky ReLU, for InfoGAN; picture sides divisible by 16",
    reference=_CHEN,
    encoder=functools.partial(_leaky, norm=BatchNorm.of),
    decoder=functools.partial(conv_decoder, norm=BatchNorm.of, hidden=512, activation=LEAKY_RELU),
    judge=_leaky,
    cost=conv_bn.cost,  # the same products
    least=32,
    sides=SIDES,
)

_wide = functools.partial(conv_encoder, channels=(64, 128, 128, 256), hidden=512, norm_hidden=True)
conv_bn_wide = Nets(
    name="conv_bn_wide",
    summary="conv_bn with 64 to 256 channels, for CelebA; picture sides divisible by 16",
    reference=_CHEN,
    encoder=functools.partial(_wide, norm=BatchNorm.of),
    decoder=functools.partial(conv_decoder, norm=BatchNorm.of, channels=(256, 128, 128, 64), hidden=512),
    judge=_wide,
    cost=Cost(cpu=6.7, gpu=3.9),
    least=32,
    sides=SIDES,
)
