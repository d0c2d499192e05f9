"""Stretches of a net that kernels of a GPU compute at once, and whether they do on this machine.

A stretch is two or more 4 x 4 convolutions with a ReLU after each, or as many transposed ones with a ReLU before each.
A norm between them ends it: then the plain layers compute.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
from jaxtyping import Array, Float

from sober.nets.kernels import down, tried, up
from sober.nets.kernels.plan import Kind
from sober.nets.layers import Activation, Conv, Deconv, relu

Kernels = frozenset[Kind]  # the kinds of stretches that kernels compute
PLAIN: Kernels = frozenset()


class Stretch(NamedTuple):
    kind: Kind
    convolutions: tuple[Any, ...]

    @property
    def layers(self) -> int:
        """In the net: each convolution has a ReLU."""
        return 2 * len(self.convolutions)

    @property
    def arrays(self) -> tuple[tuple[Any, Any], ...]:
        return tuple((layer.weight, layer.bias) for layer in self.convolutions)

    def __call__(self, x: Float[Array, "B H W C"]) -> Float[Array, "B h w c"]:
        return (down if self.kind == "down" else up)(x, self.arrays)


def parts(layers: Sequence[Any], kernels: Kernels) -> Iterator[Any]:
    """The layers in their order, those that kernels compute as stretches."""
    place = 0
    while place < len(layers):
        stretch = _stretch(layers[place:], kernels)
        yield layers[place] if stretch is None else stretch
        place += 1 if stretch is None else stretch.layers


def _stretch(layers: Sequence[Any], kernels: Kernels) -> Stretch | None:
    """That with which these layers begin."""
    for kind in kernels:
        firsts, seconds = layers[::2], layers[1::2]
        convolutions, activations = (firsts, seconds) if kind == "down" else (seconds, firsts)
        wanted = Conv if kind == "down" else Deconv
        pairs = zip(convolutions, activations, strict=False)
        own = itertools.takewhile(lambda pair: isinstance(pair[0], wanted) and _is_relu(pair[1]), pairs)  # noqa: B023
        if len(stretch := [convolution for convolution, _ in own]) > 1:
            return Stretch(kind, tuple(stretch))
    return None


def _is_relu(layer: Any) -> bool:
    return isinstance(layer, Activation) and layer.function is relu


class Path(NamedTuple):
    """By what a program computes its convolutions, and why, in a sentence for people; none where there are none."""

    kernels: Kernels = PLAIN
    why: str = ""


def path(nets: Sequence[tuple[Any, tuple[int, ...]]], dtype: Any, models: int) -> Path:
    """For nets (of shapes without numbers) at inputs of these shapes and this type, for so many models on a device.

    Kernels are tried on this machine first, once for each shape: they must be right, and faster than plain layers.
    """
    cases = [case for net, shape in nets for case in _cases(net, jax.ShapeDtypeStruct(shape, dtype))]
    verdicts = [(stretch.kind, tried(stretch.kind, x.shape, _shapes(stretch), x.dtype, models)) for stretch, x in cases]
    refused = {kind: verdict.why for kind, verdict in verdicts if not verdict.use}
    used = [(kind, verdict) for kind, verdict in verdicts if kind not in refused]
    sentences = [f"convolutions by plain layers: {why}" for why in dict.fromkeys(refused.values())]
    if used:
        sentences.append(f"{_words(used)} by kernels: {'; '.join(dict.fromkeys(v.why for _, v in used))}")
    return Path(frozenset(kind for kind, _ in used), ". ".join(sentences))


def _words(used: Sequence[tuple[Kind, Any]]) -> str:
    kinds = {kind for kind, _ in used}
    return "convolutions" if len(kinds) == 2 else f"{'' if 'down' in kinds else 'transposed '}convolutions"


def _cases(net: Any, x: jax.ShapeDtypeStruct) -> Iterator[tuple[Stretch, jax.ShapeDtypeStruct]]:
    """The stretches of a net, each with what comes in."""
    for part in parts(net.layers, frozenset({"down", "up"})):
        if isinstance(part, Stretch):
            yield part, x
            layers = part.convolutions  # ReLUs change no shape
        else:
            layers = (part,)
        for layer in layers:
            x = jax.eval_shape(lambda layer, x: layer(x), layer, x)


def _shapes(stretch: Stretch) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    return [(weight.shape, bias.shape) for weight, bias in stretch.arrays]
