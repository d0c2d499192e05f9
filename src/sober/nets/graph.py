"""A net as plain data: named layers in order of computation. All exports from JAX are made of it.

Pictures and grids are (C, H, W) here, as in PyTorch, ONNX and browsers, and arrays are laid out accordingly. The nets
themselves keep channels last, so this file permutes the weights where a grid meets a fully connected layer. What each
layer computes from its input x:

    input                   the caller's input: `pictures` in [0, 1], or `codes`
    linear                  weight (o, i) · x + bias (o)
    conv                    weight (o, i, kernel, kernel), bias (o); padded with zeros
    deconv                  weight (i, o, kernel, kernel), bias (o); the adjoint of a convolution, cropped by `padding`
    batch_norm              (x - running_mean) / √(running_var + epsilon) · weight + bias, each (c)
    layer_norm              (x - mean) / √(variance + epsilon) over all of a picture, then · weight + bias, each (c)
    relu, tanh, sigmoid     of each number
    leaky_relu              x where it is above 0, and `slope` · x below, of each number
    logit                   log(x / (1 - x)), of each number
    clip                    each number brought between `low` and `high`
    flatten, reshape        the same numbers in the same order, in the layer's shape
    halve                   the mean of each 2 x 2 pixels
    double                  each pixel as 2 x 2
    add                     the sum of both inputs

`Graph.plain()` can be written as JSON; the arrays are stored beside it, by name.

Every layer and norm describes itself: beside its `__call__`, a method `describe(build, name, x) -> Layer` adds it after
the layer x. A net is a list of such layers and adds nothing itself. The encoder's last layer also gives its weights, by
`affine()`, because an export splits its outputs into mean and log-variance.

Layers have the same names as in a model's file.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from sober.errors import RequestError
from sober.short_text import as_call


@dataclasses.dataclass(frozen=True)
class Layer:
    """One step of a net. Its output has its name; its arrays are `name.weight`, `name.bias` and so on."""

    name: str
    op: str
    inputs: tuple[str, ...]  # names of layers before it
    shape: tuple[int, ...]  # of its output for one picture: (c, h, w) or (units,)
    arrays: tuple[str, ...]  # `weight`, `bias`, `running_mean`, `running_var`
    attributes: Mapping[str, float]

    def __repr__(self) -> str:
        return as_call(self)


@dataclasses.dataclass(frozen=True, eq=False)
class Graph:
    """A net: its layers, the names of its outputs and the layers they come from, and all arrays."""

    layers: tuple[Layer, ...]  # the first is the input
    outputs: Mapping[str, str]
    arrays: Mapping[str, Float[np.ndarray, "..."]]

    def __repr__(self) -> str:
        return as_call(self)

    def arrays_of(self, layer: Layer) -> dict[str, Float[np.ndarray, "..."]]:
        return {role: self.arrays[f"{layer.name}.{role}"] for role in layer.arrays}

    def plain(self) -> dict[str, Any]:
        """The graph with shapes in place of arrays, for `json.dumps`."""
        return {
            "layers": [dataclasses.asdict(layer) for layer in self.layers],
            "outputs": dict(self.outputs),
            "arrays": {name: array.shape for name, array in self.arrays.items()},
        }


class Affine(NamedTuple):
    """x @ weight + bias."""

    weight: Float[np.ndarray, "i o"]
    bias: Float[np.ndarray, " o"]

    def __repr__(self) -> str:
        return as_call(self)

    def part(self, start: int, stop: int) -> Affine:
        """The affine map to outputs `start` to `stop`."""
        return Affine(self.weight[:, start:stop], self.bias[start:stop])


@runtime_checkable
class Described(Protocol):
    """A layer or norm that describes itself."""

    def describe(self, build: Build, name: str, x: Layer) -> Layer: ...


class Build:
    """A graph under construction: each call adds a layer and returns it, as input of the next."""

    def __init__(self, name: str, shape: tuple[int, ...]) -> None:
        self.layers: dict[str, Layer] = {}
        self.arrays: dict[str, np.ndarray] = {}
        self.input = self.add("input", name=name, shape=shape)

    def add(
        self,
        op: str,
        *inputs: Layer,
        name: str = "",
        shape: tuple[int, ...] = (),
        arrays: Mapping[str, Any] | None = None,
        **attributes: float,
    ) -> Layer:
        """Adds a layer. By default it has the shape of its input, and a generated name."""
        name, arrays = name or f"{op}_{len(self.layers)}", arrays or {}
        layer = Layer(name, op, tuple(x.name for x in inputs), shape or inputs[0].shape, tuple(arrays), attributes)
        self.layers[name] = layer
        self.arrays |= {f"{name}.{role}": np.ascontiguousarray(array, np.float32) for role, array in arrays.items()}
        return layer

    def graph(self, outputs: Mapping[str, str]) -> Graph:
        return Graph(tuple(self.layers.values()), outputs, self.arrays)

    def part(self, name: str, x: Layer, layer: Any) -> Layer:
        """Adds a layer, norm or net, by its own `describe`."""
        if not isinstance(layer, Described):
            raise undescribed(type(layer).__name__)
        return layer.describe(self, name, x)

    def flatten(self, x: Layer) -> Layer:
        return self.add("flatten", x, shape=(math.prod(x.shape),))

    def linear(self, name: str, x: Layer, layer: Affine) -> Layer:
        weight = np.asarray(layer.weight)
        if x.op == "flatten":
            weight = weight[_places(self.layers[x.inputs[0]].shape)]
        return self.add("linear", x, name=name, shape=layer.bias.shape, arrays={"weight": weight.T, "bias": layer.bias})

    def grid(self, x: Layer, shape: tuple[int, int, int]) -> Layer:
        """Reshapes the outputs of a fully connected layer to a grid (h, w, c), and permutes its weights to match."""
        places = _places(channels_first(shape))
        for role in x.arrays:
            self.arrays[f"{x.name}.{role}"] = self.arrays[f"{x.name}.{role}"][places]
        return self.add("reshape", x, shape=channels_first(shape))

    def conv(self, name: str, x: Layer, kernel: Any, bias: Any, *, stride: int = 1) -> Layer:
        """A convolution with a kernel (height, width, input, output), padded to keep the size at stride 1."""
        size, (_, h, w) = len(kernel), x.shape
        return self.add(
            "conv",
            x,
            name=name,
            shape=(len(bias), h // stride, w // stride),
            arrays={"weight": np.asarray(kernel).transpose(3, 2, 0, 1), "bias": bias},
            kernel=size,
            stride=stride,
            padding=(size - 1) // 2,
        )

    def deconv(self, name: str, x: Layer, kernel: Any, bias: Any) -> Layer:
        """A 4 x 4 transposed convolution that doubles the grid, with a kernel (height, width, input, output)."""
        _, h, w = x.shape
        return self.add(
            "deconv",
            x,
            name=name,
            shape=(len(bias), 2 * h, 2 * w),
            arrays={"weight": np.asarray(kernel).transpose(2, 3, 0, 1), "bias": bias},
            kernel=4,
            stride=2,
            padding=1,
        )

    def halve(self, x: Layer) -> Layer:
        c, h, w = x.shape
        return self.add("halve", x, shape=(c, h // 2, w // 2))

    def double(self, x: Layer) -> Layer:
        c, h, w = x.shape
        return self.add("double", x, shape=(c, 2 * h, 2 * w))


def channels_first(shape: tuple[int, int, int]) -> tuple[int, int, int]:
    h, w, c = shape
    return c, h, w


def undescribed(noun: str) -> RequestError:
    """The error for a layer that cannot be exported from JAX."""
    return RequestError(f"{noun} has no description outside JAX: give it a method `describe`, as {__name__} says")


def _places(shape: tuple[int, ...]) -> Int[np.ndarray, " numbers"]:
    """For each number of a (c, h, w) grid, its place in the (h, w, c) order of the nets."""
    c, h, w = shape
    return np.arange(c * h * w).reshape(h, w, c).transpose(2, 0, 1).ravel()
