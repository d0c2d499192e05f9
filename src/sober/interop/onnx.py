"""A trained model as two ONNX files, which ONNX Runtime and others run without Python, Sober or PyTorch.

    encoder.onnx    `pictures` (N, C, H, W) floats in [0, 1] to `mean` and `logvar` of the codes, each (N, D)
    decoder.onnx    `codes` (N, D) to `pictures` (N, C, H, W) in [0, 1], or to their `logits`

N is any number from 1. The metadata of both files describe the model: `run` (its identity), `world`, `method`,
`latents`, and `image_shape`, [H, W, C] as JSON.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sober.files import replacing, writable_folder
from sober.installation import needing_extra
from sober.interop.graph import Graph, Layer, decoder_graph, encoder_graph
from sober.models.model import Model

OPSET = 17  # the first with layer norm; older runtimes read it too

Arrays = dict[str, np.ndarray]


def export(model: Model, folder: str | Path, *, logits: bool = False) -> tuple[Path, Path]:
    """Writes encoder.onnx and decoder.onnx into `folder` and returns their paths.

    With `logits` the decoder gives the logits of pictures. The encoder of InfoGAN has no log-variance and gives zeros.
    """
    graphs = {"encoder": encoder_graph(model), "decoder": decoder_graph(model, logits=logits)}
    metadata = {
        "run": model.run.identity,
        "world": model.run.world,
        "method": model.run.method,
        "latents": str(model.run.latents),
        "image_shape": json.dumps(model.image_shape),
    }
    files = {name: _file(name, graph, metadata) for name, graph in graphs.items()}
    folder = writable_folder(Path(folder))
    for name, content in files.items():
        with replacing(folder / f"{name}.onnx") as temporary:
            temporary.write_bytes(content)
    return folder / "encoder.onnx", folder / "decoder.onnx"


def _file(name: str, graph: Graph, metadata: Mapping[str, str]) -> bytes:
    onnx = _onnx()
    helper = onnx.helper
    # Outputs get the names that callers know.
    names = {layer.name: layer.name for layer in graph.layers} | {layer: name for name, layer in graph.outputs.items()}
    nodes: list[Any] = []
    arrays: Arrays = {}
    for layer in graph.layers[1:]:
        inputs = [names[source] for source in layer.inputs]
        layer_nodes, constants = _nodes(helper, layer, inputs, names[layer.name], graph.arrays_of(layer))
        nodes += layer_nodes
        arrays |= constants

    def port(layer: Layer) -> Any:
        return helper.make_tensor_value_info(names[layer.name], onnx.TensorProto.FLOAT, ["N", *layer.shape])

    content = helper.make_graph(
        nodes,
        name,
        [port(graph.layers[0])],
        [port(layer) for layer in graph.layers if layer.name in graph.outputs.values()],
        [onnx.numpy_helper.from_array(array, array_name) for array_name, array in arrays.items()],
    )
    opset = helper.make_opsetid("", OPSET)
    # The oldest version of the file format with these operators: older runtimes refuse the newest.
    version = helper.find_min_ir_version_for([opset])
    model = helper.make_model(content, producer_name="sober", opset_imports=[opset], ir_version=version)
    helper.set_model_props(model, dict(metadata))
    onnx.checker.check_model(model, full_check=True)
    return model.SerializeToString()


def _onnx() -> Any:
    with needing_extra("writing an ONNX file"):
        return importlib.import_module("onnx")


class Operator(NamedTuple):
    """The ONNX operator of a layer. Its constants follow the layer's inputs, in their order."""

    kind: str
    attributes: Mapping[str, Any]
    constants: Mapping[str, np.ndarray]


def _nodes(helper: Any, layer: Layer, inputs: list[str], output: str, arrays: Arrays) -> tuple[list[Any], Arrays]:
    """The nodes of one layer, and the arrays they refer to, by name."""
    name = layer.name
    if layer.op == "logit":  # ONNX has no logit: log(p / (1 - p))
        complement, odds = f"{name}.rest", f"{name}.odds"
        return [
            helper.make_node("Sub", [f"{name}.one", *inputs], [complement], complement),
            helper.make_node("Div", [*inputs, complement], [odds], odds),
            helper.make_node("Log", [odds], [output], name),
        ], {f"{name}.one": np.array(1, np.float32)}
    operator = _OPERATORS[layer.op](layer, arrays)
    constants = {f"{name}.{role}": array for role, array in operator.constants.items()}
    return [helper.make_node(operator.kind, [*inputs, *constants], [output], name, **operator.attributes)], constants


def _convolution(kind: str, layer: Layer, arrays: Arrays) -> Operator:
    kernel, stride, padding = (layer.attributes[name] for name in ("kernel", "stride", "padding"))
    return Operator(kind, {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [padding] * 4}, arrays)


def _layer_norm(layer: Layer, arrays: Arrays) -> Operator:
    # ONNX allows one scale and offset per channel, but some runtimes need them per number.
    by_channel = (-1, *[1] * (len(layer.shape) - 1))
    constants = {role: np.broadcast_to(array.reshape(by_channel), layer.shape) for role, array in arrays.items()}
    return Operator("LayerNormalization", {"axis": 1, "epsilon": layer.attributes["epsilon"]}, constants)


def _clip(layer: Layer, arrays: Arrays) -> Operator:
    return Operator("Clip", {}, {bound: np.array(layer.attributes[bound], np.float32) for bound in ("low", "high")})


def _reshape(layer: Layer, arrays: Arrays) -> Operator:
    return Operator("Reshape", {}, {"shape": np.array([0, *layer.shape], np.int64)})  # 0 keeps the number of pictures


def _double(layer: Layer, arrays: Arrays) -> Operator:
    attributes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    constants = {"region": np.zeros(0, np.float32), "scales": np.array([1, 1, 2, 2], np.float32)}
    return Operator("Resize", attributes, constants)


_OPERATORS: dict[str, Callable[[Layer, Arrays], Operator]] = {
    "linear": lambda layer, arrays: Operator("Gemm", {"transB": 1}, arrays),
    "conv": lambda layer, arrays: _convolution("Conv", layer, arrays),
    "deconv": lambda layer, arrays: _convolution("ConvTranspose", layer, arrays),
    "batch_norm": lambda layer, arrays: Operator("BatchNormalization", layer.attributes, arrays),
    "layer_norm": _layer_norm,
    "relu": lambda layer, arrays: Operator("Relu", {}, {}),
    "leaky_relu": lambda layer, arrays: Operator("LeakyRelu", {"alpha": layer.attributes["slope"]}, {}),
    "tanh": lambda layer, arrays: Operator("Tanh", {}, {}),
    "sigmoid": lambda layer, arrays: Operator("Sigmoid", {}, {}),
    "clip": _clip,
    "flatten": lambda layer, arrays: Operator("Flatten", {}, {}),
    "reshape": _reshape,
    "halve": lambda layer, arrays: Operator("AveragePool", {"kernel_shape": [2, 2], "strides": [2, 2]}, {}),
    "double": _double,
    "add": lambda layer, arrays: Operator("Add", {}, {}),
}
