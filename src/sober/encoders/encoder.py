"""An image encoder of any library: pictures in, the features of each layer out."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Float, UInt8

from sober.errors import RequestError, choices, counted, listed
from sober.short_text import as_call

Pictures = UInt8[np.ndarray, "n H W C"]
# The numbers of a layer for n pictures: features (n, D), tokens (n, T, D) or maps (n, H, W, D). An array of NumPy or
# JAX, or a tensor of PyTorch, which may be on a GPU: `features` pools it there.
Output = Any
Pooling = Literal["mean", "class", "patches"]
Weights = Literal["pretrained", "random"]


@dataclasses.dataclass(frozen=True)
class EncoderOptions:
    """How to open and run an encoder."""

    layers: tuple[str, ...] | Literal["all", "last"] = "all"  # names, every block, or the last output alone
    device: str | None = None  # of PyTorch, such as cuda; by default a GPU if there is one
    half: bool = False  # whether the network computes in half precision; features are kept in float32
    batch: int = 64  # pictures in one forward pass
    size: int | None = None  # side of the pictures that it gets; by default its own
    mean: tuple[float, ...] = ()  # of pixels from 0 to 1, a number for each channel; by default the encoder's own
    std: tuple[float, ...] = ()  # pixels less `mean` are divided by it
    weights: Weights = "pretrained"  # random: the weights that the library draws for a new network
    seed: int = 0  # of random weights

    def __repr__(self) -> str:
        return as_call(self)

    def normalised(self, pixels: Float[np.ndarray, "n H W C"]) -> Float[np.ndarray, "n H W C"]:
        """Pixels less the mean, divided by `std`, if both are given."""
        if not self.mean:
            return pixels
        return (pixels - np.array(self.mean, pixels.dtype)) / np.array(self.std, pixels.dtype)

    def refuse_normalisation(self, encoder: str) -> None:
        """Refuses a mean and a spread of pixels for an encoder that takes pixels as they are."""
        if self.mean:
            raise RequestError(f"{encoder} takes pixels as they are: leave mean and std out")

    def __post_init__(self) -> None:
        names = self.layers.split(",") if isinstance(self.layers, str) else self.layers
        names = tuple(name.strip() for name in names if name.strip())
        if not names:
            raise RequestError("layers is empty: name layers, or ask for all or the last")
        object.__setattr__(self, "layers", names[0] if names in (("all",), ("last",)) else names)
        if self.weights not in get_args(Weights):
            raise RequestError(f"weights {self.weights!r} is unknown: choose one of {listed(get_args(Weights))}")
        if self.batch < 1:
            raise RequestError(f"batch must be at least 1, got {self.batch}")
        if len(self.mean) != len(self.std) or len(self.mean) not in (0, 1, 3):
            raise RequestError("give mean and std together, both with 1 or 3 numbers: one for each channel")
        if not all(math.isfinite(number) for number in (*self.mean, *self.std)) or any(s <= 0 for s in self.std):
            raise RequestError(f"mean {self.mean} and std {self.std} must be finite, and std above 0")
        if self.size is not None and self.size < 1:
            raise RequestError(f"size must be at least 1, got {self.size}")


@dataclasses.dataclass(frozen=True)
class Encoder:
    """An encoder that is open: the pictures that it takes, and the layers that it gives.

    `forward` takes pictures of the right side and channels as bytes, does the encoder's own normalisation, and returns
    an output for each layer, with channels last. `untrained(seed)` is the same network with the entries of each weight
    array in random order: a line to beat. `fit(pictures)` is there if the encoder learns from some pictures first, as
    PCA does, and returns the encoder that has learned.
    """

    name: str  # as a person wrote it: `timm:vit_small_patch14_dinov2`
    layers: tuple[str, ...]  # first to last; empty if only its first output tells, as with functions
    forward: Callable[[Pictures], Mapping[str, Output]]
    side: int | None = None  # of the pictures that it takes; None for any
    channels: int | None = None  # 1 or 3; None for any
    first_patch: int = 0  # the tokens before it are no patches: a class token, registers
    untrained: Callable[[int], Encoder] | None = None
    fit: Callable[[Pictures], Encoder] | None = None
    batch: int = 64  # pictures in one forward pass
    takes_device: bool = False  # whether the option `device` says where it computes: PyTorch

    def __repr__(self) -> str:
        layers = counted(len(self.layers), "layer") if self.layers else "layers by its first output"
        side = "any size" if self.side is None else f"{self.side} x {self.side}"
        return f"Encoder {self.name}: {layers}, pictures of {side}"

    def only(self, layers: tuple[str, ...]) -> Encoder:
        """The encoder with some of its layers, in its own order."""
        for layer in layers if self.layers else ():
            if layer not in self.layers:
                raise RequestError(f"{self.name} has no layer {layer!r}: {choices(layer, self.layers)}")
        return self.changed(layers=tuple(layer for layer in self.layers if layer in layers) or layers)

    def changed(self, **fields: Any) -> Encoder:
        """A copy with some fields changed, also in its untrained and fitted forms."""
        untrained, fit = self.untrained, self.fit
        return dataclasses.replace(
            self,
            **fields,
            untrained=None if untrained is None else lambda seed: untrained(seed).changed(**fields),
            fit=None if fit is None else lambda pictures: fit(pictures).changed(**fields),
        )
