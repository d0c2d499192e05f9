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
from sober.nets.norms import Norm

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
    encoder: Callable[[Key[Array, ""], Shape, int], Any]  # pictures (B, H, W, C) -> (B, outputs)
    decoder: Callable[[Key[Array, ""], Shape, int], Any]  # codes (B, D) -> (B, H, W, C)
    judge: Callable[[Key[Array, ""], Shape, int, Norm], Any]  # the encoder's layers with another norm, for adversaries
    cost: Cost
    least: int  # the smallest picture side that they are meant for: `default_nets` goes by it
    sides: int = 1  # what picture sides must be divisible by
    code_units: int = 1000  # in the layers of a discriminator of codes that suits them
    one_spread: bool = False  # whether the log-variance of codes is the same for all pictures

    def work(self, device: str, shape: Shape) -> float:
        """About what a step of a β-VAE takes on pictures of this shape, in steps of one with `conv` on 64 x 64 x 1:
        with few exceptions, time goes with the number of pixels. `device` is "cpu", or another for a GPU."""
        h, w, _ = shape
        return (self.cost.cpu if device == "cpu" else self.cost.gpu) * h * w / 64**2


class Autoencoder(eqx.Module):
    """A Gaussian encoder and a Bernoulli decoder: what every VAE trains, saves and is asked for codes."""

    encoder: Any
    decoder: Any

    def __init__(self, key: Key[Array, ""], nets: Nets, shape: Shape, latents: int) -> None:
        for_encoder, for_decoder = jax.random.split(key)
        self.encoder = nets.encoder(for_encoder, shape, 2 * latents)
        self.decoder = nets.decoder(for_decoder, shape, latents)

    def encode(
        self, images: Float[Array, "B H W C"], dtype: Any = jnp.float32
    ) -> tuple[Float[Array, "B D"], Float[Array, "B D"]]:
        """Mean and log-variance of q(z|x), in float32 whatever the nets compute in."""
        mean, logvar = jnp.split(self.encoder(images.astype(dtype)), 2, axis=-1)
        return at_least_float32(mean), at_least_float32(logvar)

    def decode(self, codes: Float[Array, "B D"], dtype: Any = jnp.float32) -> Float[Array, "B H W C"]:
        """Logits of p(x|z), in float32 whatever the nets compute in."""
        return at_least_float32(self.decoder(codes.astype(dtype)))

    def heads(self, last: Affine) -> tuple[Affine, Affine]:
        """The encoder's last layer as two: that of the mean and that of the log-variance."""
        latents = len(last.bias) // 2
        return last.part(0, latents), last.part(latents, 2 * latents)


def at_least_float32(x: Array) -> Array:
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))
