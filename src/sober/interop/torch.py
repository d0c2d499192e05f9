"""A trained model as PyTorch modules of PyTorch's own layers, to use or to train further.

    encoder(pictures)   (N, C, H, W) floats in [0, 1] to mean and log-variance of the codes, each (N, D)
    decoder(codes)      (N, D) to pictures (N, C, H, W) in [0, 1], or to their logits

Modules are in evaluation mode, on the CPU and in float32. `print(module.code)` shows the forward pass as Python.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from sober.installation import needing_extra
from sober.interop.graph import Graph, Layer, decoder_graph, encoder_graph
from sober.models.model import Model

if TYPE_CHECKING:
    from torch.nn import Module


def encoder(model: Model) -> Module:
    """The encoder: pictures to mean and log-variance. The encoder of InfoGAN has no log-variance and gives zeros."""
    return _module(encoder_graph(model), "Encoder")


def decoder(model: Model, *, logits: bool = False) -> Module:
    """The decoder: codes to pictures, or to `logits`, for a loss such as `BCEWithLogitsLoss`."""
    return _module(decoder_graph(model, logits=logits), "Decoder")


def _module(graph: Graph, name: str) -> Module:
    torch = _torch()
    program = torch.fx.Graph()
    steps: dict[str, Any] = {}
    layers: dict[str, Module] = {}
    for layer in graph.layers:
        inputs = tuple(steps[source] for source in layer.inputs)
        if layer.op == "input":
            steps[layer.name] = program.placeholder(layer.name)
        elif layer.arrays:
            layers[layer.name] = _trained(torch, layer, graph.arrays_of(layer))
            steps[layer.name] = program.call_module(layer.name, inputs)
        else:
            function, arguments = _FUNCTIONS[layer.op](torch, layer)
            steps[layer.name] = program.call_function(function, inputs, arguments)
    outputs = tuple(steps[source] for source in graph.outputs.values())
    program.output(outputs if len(outputs) > 1 else outputs[0])
    return torch.fx.GraphModule(layers, program, name).eval()


def _torch() -> Any:
    with needing_extra("a PyTorch module"):
        torch = importlib.import_module("torch")  # takes seconds
        importlib.import_module("torch.fx")
    return torch


def _trained(torch: Any, layer: Layer, arrays: Mapping[str, np.ndarray]) -> Module:
    with torch.device("meta"):  # draws no initial weights, so PyTorch's random state does not change
        module = _MODULES[layer.op](torch.nn, layer, arrays["weight"].shape)
    module.load_state_dict({role: torch.tensor(array) for role, array in arrays.items()}, assign=True)
    return module


def _convolution(kind: Any, i: int, o: int, layer: Layer) -> Module:
    return kind(i, o, layer.attributes["kernel"], layer.attributes["stride"], layer.attributes["padding"])


def _batch_norm(nn: Any, layer: Layer, shape: tuple[int, ...]) -> Module:
    kind = nn.BatchNorm2d if len(layer.shape) == 3 else nn.BatchNorm1d
    return kind(*shape, eps=layer.attributes["epsilon"])


# Makes the module of each operation from the layer and the shape of its weight, which gives its inputs and outputs.
_MODULES: dict[str, Callable[[Any, Layer, tuple[int, ...]], Module]] = {
    "linear": lambda nn, layer, shape: nn.Linear(shape[1], shape[0]),
    "conv": lambda nn, layer, shape: _convolution(nn.Conv2d, shape[1], shape[0], layer),
    "deconv": lambda nn, layer, shape: _convolution(nn.ConvTranspose2d, shape[0], shape[1], layer),
    "batch_norm": _batch_norm,
    # One group is a layer norm over channels and positions, with scale and offset per channel.
    "layer_norm": lambda nn, layer, shape: nn.GroupNorm(1, *shape, eps=layer.attributes["epsilon"]),
}

_FUNCTIONS: dict[str, Callable[[Any, Layer], tuple[Any, dict[str, Any]]]] = {
    "relu": lambda torch, layer: (torch.relu, {}),
    "leaky_relu": lambda torch, layer: (
        torch.nn.functional.leaky_relu,
        {"negative_slope": layer.attributes["slope"]},
    ),
    "tanh": lambda torch, layer: (torch.tanh, {}),
    "sigmoid": lambda torch, layer: (torch.sigmoid, {}),
    "logit": lambda torch, layer: (torch.logit, {}),
    "clip": lambda torch, layer: (torch.clamp, {"min": layer.attributes["low"], "max": layer.attributes["high"]}),
    "flatten": lambda torch, layer: (torch.flatten, {"start_dim": 1}),
    "reshape": lambda torch, layer: (torch.unflatten, {"dim": 1, "sizes": layer.shape}),
    "halve": lambda torch, layer: (torch.nn.functional.avg_pool2d, {"kernel_size": 2}),
    "double": lambda torch, layer: (torch.nn.functional.interpolate, {"scale_factor": 2.0, "mode": "nearest"}),
    "add": lambda torch, layer: (torch.add, {}),
}
