"""The convolutional nets of the Sober Look study, Table 2: four 4 x 4 layers of stride 2 each way; and those of DAVA,
Table 4, whose decoder is wider."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import equinox as eqx
import jax
from jaxtyping import Array, Float, Key

from sober.errors import RequestError
from sober.nets.layers import Conv, Deconv, Linear
from sober.nets.nets import Nets, Shape, normed_relu


class ConvEncoder(eqx.Module):
    """Channels 32, 32, 64, 64, each followed by `activation`, then 256 units with ReLU."""

    convs: tuple[Conv, ...]
    hidden: Linear
    out: Linear
    activation: Callable[[Array], Array] = eqx.field(static=True)

    def __init__(
        self,
        key: Key[Array, ""],
        shape: Shape,
        outputs: int,
        *,
        activation: Callable[[Array], Array] = jax.nn.relu,
    ) -> None:
        keys = jax.random.split(key, 6)
        h, w = _coarse(shape)
        widths = (shape[2], 32, 32, 64, 64)
        self.convs = tuple(Conv(k, i, o) for k, i, o in zip(keys, widths, widths[1:], strict=False))
        self.hidden = Linear(keys[4], h * w * 64, 256)
        self.out = Linear(keys[5], 256, outputs)
        self.activation = activation

    def __call__(self, x: Float[Array, "B H W C"]) -> Float[Array, "B outputs"]:
        for conv in self.convs:
            x = self.activation(conv(x))
        x = x.reshape(len(x), math.prod(x.shape[1:]))
        return self.out(jax.nn.relu(self.hidden(x)))


class ConvDecoder(eqx.Module):
    """256 units, a coarse grid of 64 channels, then three layers of `channels` and the picture's, ReLU between."""

    hidden: Linear
    grid: Linear
    deconvs: tuple[Deconv, ...]
    coarse: tuple[int, int] = eqx.field(static=True)

    def __init__(
        self, key: Key[Array, ""], shape: Shape, latents: int, *, channels: tuple[int, int, int] = (64, 32, 32)
    ) -> None:
        keys = jax.random.split(key, 6)
        self.coarse = h, w = _coarse(shape)
        self.hidden = Linear(keys[0], latents, 256)
        self.grid = Linear(keys[1], 256, h * w * 64)
        widths = (64, *channels, shape[2])
        self.deconvs = tuple(Deconv(k, i, o) for k, i, o in zip(keys[2:], widths, widths[1:], strict=False))

    def __call__(self, z: Float[Array, "B D"]) -> Float[Array, "B H W C"]:
        x = jax.nn.relu(self.grid(jax.nn.relu(self.hidden(z))))
        x = x.reshape(len(z), *self.coarse, 64)
        for deconv in self.deconvs[:-1]:
            x = jax.nn.relu(deconv(x))
        return self.deconvs[-1](x)


def _coarse(shape: Shape) -> tuple[int, int]:
    h, w, _ = shape
    if h % 16 or w % 16:
        raise RequestError(f"these nets halve the picture four times and need sides divisible by 16, got {h} x {w}: "
                           "resize the pictures, or choose nets 'dense' or 'small'")  # fmt: skip
    return h // 16, w // 16


conv = Nets(
    name="conv",
    summary="four 4 x 4 convolutions of stride 2 and a layer of 256, mirrored; picture sides divisible by 16",
    reference="Locatello et al. (2020): A Sober Look at the Unsupervised Learning of Disentangled Representations "
    "and their Evaluation",
    encoder=ConvEncoder,
    decoder=ConvDecoder,
    discriminator=functools.partial(ConvEncoder, outputs=1, activation=normed_relu),
)

dava = Nets(
    name="dava",
    summary="conv with 64 channels in all three inner layers of the decoder; picture sides divisible by 16",
    reference="Estermann & Wattenhofer (2023): DAVA, Disentangling Adversarial Variational Autoencoder, Table 4",
    encoder=ConvEncoder,
    decoder=functools.partial(ConvDecoder, channels=(64, 64, 64)),
    discriminator=conv.discriminator,
)
