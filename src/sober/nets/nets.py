"""What a pair of nets is: an encoder from pictures to Gaussian codes, a decoder from codes to logits."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from sober.nets.graph import Affine
from sober.nets.net import Net, Seen
from sober.nets.norms import Norm
from sober.nets.stretches import PLAIN, Kernels

Shape = tuple[int, int, int]


class Cost(NamedTuple):
    """What a step of a β-VAE takes on pictures of 64 x 64, in steps of one with nets `conv`.

    All are measured, on dsprites with batches of 64: on two cores of a CPU in float32 (processor time, 1 to 8 models)
    and on an H200 in bfloat16 (8 models of `resnet`, 16 to 64 of others), alternating with `conv`.
    """

    cpu: float
    gpu: float


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
    least: int  # the smallest picture side that they are meant for: `default_nets` goes by it
    sides: int = 1  # what picture sides must be divisible by
    code_units: int = 1000  # in the layers of a discriminator of codes that suits them
    heavy: int = (
        1  # how many times 2 MB a picture of 64 x 64 takes in a forward pass, about; it says how many go at once
    )
    one_spread: bool = False  # whether the log-variance of codes is the same for all pictures

    def at_once(self, pictures: int) -> int:
        """How many of so many pictures go through at once in the memory that light nets take for all."""
        return max(1, pictures // self.heavy)

    def work(self, device: str, shape: Shape) -> float:
        """About what a step of a β-VAE takes on pictures of this shape, in steps of one with `conv` on 64 x 64 x 1:
        with few exceptions, time goes with the number of pixels. `device` is "cpu", or another for a GPU."""
        h, w, _ = shape
        return (self.cost.cpu if device == "cpu" else self.cost.gpu) * h * w / 64**2


@dataclasses.dataclass(frozen=True)
class Compute:
    """How nets compute."""

    dtype: Any = jnp.float32  # of activations and products; weights and sums over a batch are in float32
    kernels: Kernels = PLAIN  # which of their convolutions go by kernels of a GPU

    def run(self, net: Net, x: Float[Array, "B ..."]) -> Float[Array, "B ..."]:
        """What a finished net makes of x, in float32 at least."""
        return at_least_float32(net(x.astype(self.dtype), self.kernels))

    def run_batch(self, net: Net, x: Float[Array, "B ..."]) -> tuple[Float[Array, "B ..."], Seen]:
        """What a net in training makes of x, and what it saw of the batch."""
        y, seen = net.on_batch(x.astype(self.dtype), self.kernels)
        return at_least_float32(y), seen


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


class Saw(NamedTuple):
    """What the two nets saw of a batch; None where that is not to be remembered."""

    encoder: Seen = None
    decoder: Seen = None


class Autoencoder(eqx.Module):
    """An encoder of pictures and a Bernoulli decoder of codes: what every method trains, saves and is asked for codes.

    `reading` says which of the encoder's outputs are the codes: `codes(outputs)` gives their mean and log-variance, and
    `heads(last)` the encoder's last layer as two. Where codes have no spread, `has_spread` is false and
    log-variances mean nothing.
    """

    encoder: Net
    decoder: Net
    reading: Any

    def encode(self, images: Float[Array, "B H W C"], compute: Compute = FLOAT32) -> tuple[Codes, Codes]:
        """Mean and log-variance of q(z|x), in float32 whatever the nets compute in."""
        return self.reading.codes(compute.run(self.encoder, images))

    def decode(self, codes: Codes, compute: Compute = FLOAT32) -> Float[Array, "B H W C"]:
        """Logits of p(x|z), in float32 whatever the nets compute in."""
        return compute.run(self.decoder, codes)

    def encode_batch(
        self, images: Float[Array, "B H W C"], compute: Compute = FLOAT32
    ) -> tuple[tuple[Codes, Codes], Seen]:
        """`encode` in training, where batch norms go by the batch; and what they saw."""
        outputs, seen = compute.run_batch(self.encoder, images)
        return self.reading.codes(outputs), seen

    def decode_batch(self, codes: Codes, compute: Compute = FLOAT32) -> tuple[Float[Array, "B H W C"], Seen]:
        """`decode` in training, where batch norms go by the batch; and what they saw."""
        return compute.run_batch(self.decoder, codes)

    def having_seen(self, saw: Saw) -> Autoencoder:
        """With batch norms that remember what they saw."""
        nets = [net if seen is None else net.having_seen(seen) for net, seen in zip(self.nets, saw, strict=True)]
        return self.with_nets(*nets)

    @property
    def nets(self) -> tuple[Net, Net]:
        return self.encoder, self.decoder

    def with_nets(self, encoder: Net, decoder: Net) -> Autoencoder:
        return eqx.tree_at(lambda model: model.nets, self, (encoder, decoder))


def autoencoder(key: Key[Array, ""], nets: Nets, shape: Shape, latents: int) -> Autoencoder:
    """A fresh Gaussian encoder with its decoder: what VAEs train."""
    for_encoder, for_decoder = jax.random.split(key)
    encoder, decoder = nets.encoder(for_encoder, shape, 2 * latents), nets.decoder(for_decoder, shape, latents)
    return Autoencoder(encoder, decoder, Gaussian())


def at_least_float32(x: Array) -> Array:
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))
