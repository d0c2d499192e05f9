"""A trained model's encoder or decoder as plain data: layers by name, in the order in which they compute.

Pictures and grids are (C, H, W) here, as PyTorch, ONNX and browsers have them, and the arrays are laid out to suit. The
nets themselves keep channels last, so where a grid meets a fully connected layer its weights change places, once and
here. What each layer does with its input x:

    input                   what the caller gives: `pictures` in [0, 1], or `codes`
    linear                  weight (o, i) · x + bias (o)
    conv                    weight (o, i, kernel, kernel), bias (o); padded with zeros
    deconv                  weight (i, o, kernel, kernel), bias (o); the adjoint of a convolution, cropped by `padding`
    batch_norm              (x - running_mean) / √(running_var + epsilon) · weight + bias, each (c)
    layer_norm              (x - mean) / √(variance + epsilon) over all of a picture, then · weight + bias, each (c)
    relu, tanh, sigmoid     of each number
    logit                   log(x / (1 - x)), of each number
    clip                    each number brought between `low` and `high`
    flatten, reshape        the same numbers in the same order, in the layer's shape
    halve                   the mean of each 2 x 2 pixels
    double                  each pixel as 2 x 2
    add                     the sum of both inputs

`Graph.plain()` is what can be written as JSON; arrays go beside it, by name.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from sober.errors import RequestError
from sober.methods.info_gan import Game
from sober.models.model import Model
from sober.nets.conv import ConvDecoder, ConvEncoder
from sober.nets.dense import DenseDecoder, DenseEncoder, Stack
from sober.nets.layers import Conv, Conv3, Deconv, Linear
from sober.nets.linear import EDGE, LinearDecoder, LinearEncoder
from sober.nets.norms import EPSILON, BatchNorm, LayerNorm, NoNorm
from sober.nets.resnet import Down, ResNetDecoder, ResNetEncoder, Up


@dataclasses.dataclass(frozen=True)
class Layer:
    """One step of a net. What it computes goes by its name; its arrays are `name.weight`, `name.bias` and so on."""

    name: str
    op: str
    inputs: tuple[str, ...]  # names of layers before it
    shape: tuple[int, ...]  # of what it computes for one picture: (c, h, w) or (units,)
    arrays: tuple[str, ...]  # `weight`, `bias`, `running_mean`, `running_var`
    attributes: Mapping[str, float]


@dataclasses.dataclass(frozen=True, eq=False)
class Graph:
    """A net: its layers, which of them are results and by what name, and the arrays of all."""

    layers: tuple[Layer, ...]  # the first is the input
    outputs: Mapping[str, str]
    arrays: Mapping[str, Float[np.ndarray, "..."]]

    def arrays_of(self, layer: Layer) -> dict[str, Float[np.ndarray, "..."]]:
        return {role: self.arrays[f"{layer.name}.{role}"] for role in layer.arrays}

    def plain(self) -> dict[str, Any]:
        """All but the numbers in the arrays, whose shapes are given: what `json.dumps` takes."""
        return {
            "layers": [dataclasses.asdict(layer) for layer in self.layers],
            "outputs": dict(self.outputs),
            "arrays": {name: array.shape for name, array in self.arrays.items()},
        }


def encoder_graph(model: Model) -> Graph:
    """`pictures` (C, H, W) in [0, 1] to `mean` and `logvar`, each (D,): two linear layers side by side."""
    net = model.autoencoder.encoder
    build = Build("pictures", _channels_first(model.image_shape))
    x, (weight, bias) = _of(ENCODERS, net, model)(build, net)
    if isinstance(model.autoencoder, Game):  # the last output is the critic's, and there is no log-variance: it is 0
        weight, bias = (np.concatenate([a[..., :-1], np.zeros_like(a[..., :-1])], axis=-1) for a in (weight, bias))
    latents = model.run.latents
    build.linear("mean", x, Affine(weight[:, :latents], bias[:latents]))
    build.linear("logvar", x, Affine(weight[:, latents:], bias[latents:]))
    return build.graph({"mean": "mean", "logvar": "logvar"})


def decoder_graph(model: Model, *, logits: bool = False) -> Graph:
    """`codes` (D,) to `pictures` (C, H, W) in [0, 1], or to their `logits`."""
    net = model.autoencoder.decoder
    build = Build("codes", (model.run.latents,))
    x = _of(DECODERS, net, model)(build, net)
    if logits:
        return build.graph({"logits": x.name})
    build.add("sigmoid", x, name="pictures")
    return build.graph({"pictures": "pictures"})


class Affine(NamedTuple):
    """x @ weight + bias, as `Linear` has it."""

    weight: Any  # (i, o)
    bias: Any  # (o,)


class Build:
    """A graph in the making: each call adds a layer and hands it back, to be the input of the next."""

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
        """A layer; without a shape it has that of its input, without a name one is made up."""
        name, arrays = name or f"{op}_{len(self.layers)}", arrays or {}
        layer = Layer(name, op, tuple(x.name for x in inputs), shape or inputs[0].shape, tuple(arrays), attributes)
        self.layers[name] = layer
        self.arrays |= {f"{name}.{role}": np.ascontiguousarray(array, np.float32) for role, array in arrays.items()}
        return layer

    def graph(self, outputs: Mapping[str, str]) -> Graph:
        return Graph(tuple(self.layers.values()), outputs, self.arrays)

    def flatten(self, x: Layer) -> Layer:
        return self.add("flatten", x, shape=(math.prod(x.shape),))

    def linear(self, name: str, x: Layer, layer: Affine | Linear) -> Layer:
        weight = np.asarray(layer.weight)
        if x.op == "flatten":
            weight = weight[_places(self.layers[x.inputs[0]].shape)]
        return self.add("linear", x, name=name, shape=layer.bias.shape, arrays={"weight": weight.T, "bias": layer.bias})

    def grid(self, name: str, x: Layer, layer: Affine | Linear, shape: tuple[int, ...]) -> Layer:
        """A fully connected layer whose outputs are a grid (c, h, w)."""
        places = _places(shape)
        x = self.linear(name, x, Affine(np.asarray(layer.weight)[:, places], np.asarray(layer.bias)[places]))
        return self.add("reshape", x, shape=shape)

    def conv(self, name: str, x: Layer, layer: Conv | Conv3 | Linear) -> Layer:
        """A convolution of the nets: 4 x 4 halves the grid, 3 x 3 and 1 x 1 (a linear layer of each pixel) keep it."""
        kernel = np.asarray(layer.weight[None, None] if isinstance(layer, Linear) else layer.kernel())
        size, stride = len(kernel), 2 if isinstance(layer, Conv) else 1
        _, h, w = x.shape
        return self.add(
            "conv",
            x,
            name=name,
            shape=(len(layer.bias), h // stride, w // stride),
            arrays={"weight": kernel.transpose(3, 2, 0, 1), "bias": layer.bias},
            kernel=size,
            stride=stride,
            padding=(size - 1) // 2,
        )

    def deconv(self, name: str, x: Layer, layer: Deconv) -> Layer:
        _, h, w = x.shape
        return self.add(
            "deconv",
            x,
            name=name,
            shape=(len(layer.bias), 2 * h, 2 * w),
            arrays={"weight": np.asarray(layer.kernel()).transpose(2, 3, 0, 1), "bias": layer.bias},
            kernel=4,
            stride=2,
            padding=1,
        )

    def norm(self, name: str, x: Layer, norm: Any) -> Layer:
        match norm:
            case NoNorm():
                return x
            case LayerNorm():
                arrays = {"weight": norm.scale, "bias": norm.offset}
                return self.add("layer_norm", x, name=name, arrays=arrays, epsilon=EPSILON)
            case BatchNorm():
                mean, variance = norm.statistics
                arrays = {"weight": norm.scale, "bias": norm.offset, "running_mean": mean, "running_var": variance}
                return self.add("batch_norm", x, name=name, arrays=arrays, epsilon=EPSILON)
        raise RequestError(f"{type(norm).__name__} has no description outside JAX: give it one in {__name__}")

    def halve(self, x: Layer) -> Layer:
        c, h, w = x.shape
        return self.add("halve", x, shape=(c, h // 2, w // 2))

    def double(self, x: Layer) -> Layer:
        c, h, w = x.shape
        return self.add("double", x, shape=(c, 2 * h, 2 * w))


def _channels_first(shape: tuple[int, int, int]) -> tuple[int, int, int]:
    h, w, c = shape
    return c, h, w


def _places(shape: tuple[int, ...]) -> Int[np.ndarray, " numbers"]:
    """Where the nets, which count channels fastest, have each number of a (c, h, w) grid."""
    c, h, w = shape
    return np.arange(c * h * w).reshape(h, w, c).transpose(2, 0, 1).ravel()


# Each function below is the `__call__` of its net, layer for layer, with the names that layers have in a model's file.
# Those of encoders end before the last layer, which they hand back as it stands.


def _conv_encoder(build: Build, net: ConvEncoder) -> tuple[Layer, Affine]:
    x, last = build.input, len(net.convs)
    for i, conv in enumerate(net.convs):
        x = build.add("relu", build.norm(f"norms.{i}", build.conv(f"convs.{i}", x, conv), net.norms[i]))
    x = build.linear("hidden", build.flatten(x), net.hidden)
    return build.add("relu", build.norm(f"norms.{last}", x, net.norms[last])), _affine(net.out)


def _conv_decoder(build: Build, net: ConvDecoder) -> Layer:
    x = build.linear("hidden", build.input, net.hidden)
    x = build.add("relu", build.norm("norms.0", x, net.norms[0]))
    h, w = net.coarse
    x = build.grid("grid", x, net.grid, (len(net.grid.bias) // (h * w), h, w))
    for i, deconv in enumerate(net.deconvs):
        x = build.add("relu", build.norm(f"norms.{i + 1}", x, net.norms[i + 1]))
        x = build.deconv(f"deconvs.{i}", x, deconv)
    return x


def _dense_encoder(build: Build, net: DenseEncoder) -> tuple[Layer, Affine]:
    return _stack(build, build.flatten(build.input), net.stack), _affine(net.stack.layers[-1])


def _dense_decoder(build: Build, net: DenseDecoder) -> Layer:
    x = _stack(build, build.input, net.stack)
    return build.grid(f"stack.layers.{len(net.stack.norms)}", x, net.stack.layers[-1], _channels_first(net.shape))


def _stack(build: Build, x: Layer, stack: Stack) -> Layer:
    """All of it but its last layer."""
    activation = ACTIVATIONS.get(stack.activation)
    if activation is None:
        raise RequestError(f"{stack.activation} has no description outside JAX: give it one in {__name__}")
    for i, norm in enumerate(stack.norms):
        x = build.norm(f"stack.norms.{i}", build.linear(f"stack.layers.{i}", x, stack.layers[i]), norm)
        x = build.add(activation, x)
    return x


def _resnet_encoder(build: Build, net: ResNetEncoder) -> tuple[Layer, Affine]:
    x = build.conv("first", build.input, net.first)
    for i, block in enumerate(net.blocks):
        x = _down(build, f"blocks.{i}", x, block)
    return build.flatten(x), _affine(net.out)


def _down(build: Build, name: str, x: Layer, block: Down) -> Layer:
    y = x
    for i in range(2):
        y = build.add("relu", build.norm(f"{name}.norms.{i}", y, block.norms[i]))
        y = build.conv(f"{name}.convs.{i}", y, block.convs[i])
    x = build.halve(x)
    return build.add("add", build.halve(y), _around(build, name, x, block))


def _resnet_decoder(build: Build, net: ResNetDecoder) -> Layer:
    h, w = net.coarse
    x = build.grid("grid", build.input, net.grid, (len(net.grid.bias) // (h * w), h, w))
    for i, block in enumerate(net.blocks):
        x = _up(build, f"blocks.{i}", x, block)
    return build.conv("last", build.add("relu", build.norm("norm", x, net.norm)), net.last)


def _up(build: Build, name: str, x: Layer, block: Up) -> Layer:
    y = build.add("relu", build.norm(f"{name}.norms.0", x, block.norms[0]))
    y = build.conv(f"{name}.convs.0", build.double(y), block.convs[0])
    y = build.add("relu", build.norm(f"{name}.norms.1", y, block.norms[1]))
    y = build.conv(f"{name}.convs.1", y, block.convs[1])
    return build.add("add", y, build.double(_around(build, name, x, block)))


def _around(build: Build, name: str, x: Layer, block: Down | Up) -> Layer:
    return x if block.around is None else build.conv(f"{name}.around", x, block.around)


def _linear_encoder(build: Build, net: LinearEncoder) -> tuple[Layer, Affine]:
    weight = np.asarray(net.weight)
    both = Affine(np.hstack([weight, np.zeros_like(weight)]), np.concatenate([net.bias, net.logvar]))
    return build.flatten(build.input), both


def _linear_decoder(build: Build, net: LinearDecoder) -> Layer:
    pixels = build.grid("pixels", build.input, Affine(net.weight, net.bias), _channels_first(net.shape))
    return build.add("logit", build.add("clip", pixels, low=EDGE, high=1 - EDGE))


def _affine(layer: Linear) -> Affine:
    return Affine(np.asarray(layer.weight), np.asarray(layer.bias))


def _of(known: Mapping[type, Callable[..., Any]], net: Any, model: Model) -> Callable[..., Any]:
    if type(net) not in known:
        raise RequestError(f"nets {model.run.nets!r} ({type(net).__name__}) have no description outside JAX: give them "
                           f"one in {__name__}")  # fmt: skip
    return known[type(net)]


ENCODERS: dict[type, Callable[..., tuple[Layer, Affine]]] = {
    ConvEncoder: _conv_encoder,
    DenseEncoder: _dense_encoder,
    ResNetEncoder: _resnet_encoder,
    LinearEncoder: _linear_encoder,
}
DECODERS: dict[type, Callable[..., Layer]] = {
    ConvDecoder: _conv_decoder,
    DenseDecoder: _dense_decoder,
    ResNetDecoder: _resnet_decoder,
    LinearDecoder: _linear_decoder,
}
ACTIVATIONS: dict[Callable[..., Any], str] = {jax.nn.relu: "relu", jnp.tanh: "tanh"}
