"""Autoencoders: an encoder from pictures to Gaussian codes, a decoder from codes to logits; and entries of nets."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from sober.nets.graph import Affine
from sober.nets.kernel_runs import PLAIN, KernelKinds
from sober.nets.net import BatchStatistics, Net
from sober.nets.norms import Norm
from sober.short_text import as_call, as_facts

Shape = tuple[int, int, int]


class Cost(NamedTuple):
    """The time of a β-VAE's step on pictures of 64 x 64, relative to nets `conv`.

    Measured on dsprites with batches of 64, alternating with `conv`: on two cores of a CPU in float32 (processor time,
    1 to 8 models), and on an H200 in bfloat16 (8 models of `resnet`, 16 to 64 of others).
    """

    cpu: float
    gpu: float

    def __repr__(self) -> str:
        return as_call(self)


@dataclasses.dataclass(frozen=True)
class Nets:
    """One entry of the registry: how to make both nets for a picture shape and a number of latents."""

    name: str
    summary: str
    reference: str
    encoder: Callable[[Key[Array, ""], Shape, int], Net]  # pictures (B, H, W, C) -> (B, outputs)
    decoder: Callable[[Key[Array, ""], Shape, int], Net]  # codes (B, D) -> (B, H, W, C)
    judge: Callable[[Key[Array, ""], Shape, int, Norm], Net]  # the encoder's layers with another norm, for adversaries
    cost: Cost
    least: int  # the smallest picture side that they are meant for; `default_nets` uses it
    sides: int = 1  # picture sides must be divisible by this
    code_units: int = 1000  # units per layer of a discriminator of codes
    heavy: int = 1  # memory of a forward pass per picture of 64 x 64, about, in units of 2 MB
    one_spread: bool = False  # whether the log-variance of codes is the same for all pictures

    def __repr__(self) -> str:
        return as_call(self)

    def at_once(self, pictures: int) -> int:
        """How many pictures to pass at once, so that they take the memory of `pictures` in nets of `heavy` 1."""
        return max(1, pictures // self.heavy)

    def work(self, device: str, shape: Shape) -> float:
        """The estimated time of a β-VAE's step on pictures of this shape, relative to `conv` on 64 x 64 x 1.

        With few exceptions, time is proportional to the number of pixels. Any `device` but "cpu" is a GPU.
        """
        h, w, _ = shape
        return (self.cost.cpu if device == "cpu" else self.cost.gpu) * h * w / 64**2


@dataclasses.dataclass(frozen=True)
class Compute:
    """How nets compute."""

    dtype: Any = jnp.float32  # of activations and products; weights and sums over a batch are float32
    kernels: KernelKinds = PLAIN  # which convolutions are computed by kernels

    def __repr__(self) -> str:
        return as_call(self)

    def run(self, net: Net, x: Float[Array, "B ..."]) -> Float[Array, "B ..."]:
        """The output of a trained net for x, in float32 or wider."""
        return at_least_float32(net(x.astype(self.dtype), self.kernels))

    def run_batch(self, net: Net, x: Float[Array, "B ..."]) -> tuple[Float[Array, "B ..."], BatchStatistics]:
        """The output of a net in training for x, in float32 or wider, and the statistics of the batch."""
        y, statistics = net.on_batch(x.astype(self.dtype), self.kernels)
        return at_least_float32(y), statistics


FLOAT32 = Compute()

Codes = Float[Array, "B D"]


class Gaussian(eqx.Module):
    """The first half of an encoder's outputs is the mean of the codes, the second half their log-variance."""

    @property
    def has_spread(self) -> bool:
        return True

    def codes(self, outputs: Float[Array, "B 2D"]) -> tuple[Codes, Codes]:
        mean, logvar = jnp.split(outputs, 2, axis=-1)
        return mean, logvar

    def heads(self, last: Affine) -> tuple[Affine, Affine]:
        latents = len(last.bias) // 2
        return last.part(0, latents), last.part(latents, 2 * latents)


class AutoencoderStatistics(NamedTuple):
    """The two nets' statistics of a batch; None for a net whose running statistics stay."""

    encoder: BatchStatistics = None
    decoder: BatchStatistics = None


class Autoencoder(eqx.Module):
    """An encoder of pictures and a Bernoulli decoder of codes, which every method trains and saves.

    `reading` interprets the encoder's outputs: `codes(outputs)` gives the mean and log-variance of the codes, and
    `heads(last)` splits the encoder's last layer in these two. If `reading.has_spread` is false, codes have no
    log-variance, and the second output means nothing.
    """

    encoder: Net
    decoder: Net
    reading: Any

    def __repr__(self) -> str:
        facts = {name: repr(net).split("\n")[0] for name, net in (("encoder", self.encoder), ("decoder", self.decoder))}
        return as_facts("Autoencoder", facts)

    def encode(self, images: Float[Array, "B H W C"], compute: Compute = FLOAT32) -> tuple[Codes, Codes]:
        """Mean and log-variance of q(z|x), in float32 for any precision of the nets."""
        return self.reading.codes(compute.run(self.encoder, images))

    def decode(self, codes: Codes, compute: Compute = FLOAT32) -> Float[Array, "B H W C"]:
        """Logits of p(x|z), in float32 for any precision of the nets."""
        return compute.run(self.decoder, codes)

    def encode_batch(
        self, images: Float[Array, "B H W C"], compute: Compute = FLOAT32
    ) -> tuple[tuple[Codes, Codes], BatchStatistics]:
        """`encode` in training, where batch norms use the batch; and the statistics of the batch."""
        outputs, statistics = compute.run_batch(self.encoder, images)
        return self.reading.codes(outputs), statistics

    def decode_batch(self, codes: Codes, compute: Compute = FLOAT32) -> tuple[Float[Array, "B H W C"], BatchStatistics]:
        """`decode` in training, where batch norms use the batch; and the statistics of the batch."""
        return compute.run_batch(self.decoder, codes)

    def after_batch(self, statistics: AutoencoderStatistics) -> Autoencoder:
        """The autoencoder with running statistics moved towards the statistics of a batch."""
        nets = [
            net if net_statistics is None else net.after_batch(net_statistics)
            for net, net_statistics in zip(self.nets, statistics, strict=True)
        ]
        return self.with_nets(*nets)

    @property
    def nets(self) -> tuple[Net, Net]:
        return self.encoder, self.decoder

    def with_nets(self, encoder: Net, decoder: Net) -> Autoencoder:
        return eqx.tree_at(lambda model: model.nets, self, (encoder, decoder))


def autoencoder(key: Key[Array, ""], nets: Nets, shape: Shape, latents: int) -> Autoencoder:
    """An untrained Gaussian encoder with its decoder, as VAEs train them."""
    for_encoder, for_decoder = jax.random.split(key)
    encoder, decoder = nets.encoder(for_encoder, shape, 2 * latents), nets.decoder(for_decoder, shape, latents)
    return Autoencoder(encoder, decoder, Gaussian())


def at_least_float32(x: Array) -> Array:
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))
