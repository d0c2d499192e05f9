"""Networks in ONNX files, which ONNX Runtime runs: their outputs, and tensors inside them, as layers.

Pictures are adapted to the network: one channel repeated for three or three averaged for one, black and white scaled to
the numbers that the network expects. Those are 0 and 1, and 0 and 255 where it takes bytes. If the network was trained
with a mean and a spread of pixels that are not inside the file, a person gives them.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import importlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sober.encoders.callables import chosen
from sober.encoders.encoder import Encoder, EncoderOptions, Output, Pictures
from sober.encoders.outputs import channels_last
from sober.encoders.pictures import Floats, as_floats, resized, with_channels
from sober.encoders.shuffled_weights import shuffled
from sober.errors import RequestError, brief, choices
from sober.installation import needing_extra

DTYPES = {"tensor(float)": "f4", "tensor(float16)": "f2", "tensor(double)": "f8", "tensor(uint8)": "u1"}
MOST_LAYERS = 12  # tensors inside a network that are layers unless a person names others
FEWEST_BLOCKS = 3  # residual connections that make a network one of blocks
MOST_TRIED = 60  # tensors whose shapes a first run looks at
TRIAL, TRIAL_SIDES = 5, (224, 64)  # pictures of a first run, and their side if the file leaves it open
LATE = 0.4  # residual blocks that begin after this share of a network are not the whole of it
PREFIXES = (0, 1, 5)  # tokens before the patches: none, a class token, a class token and four registers
# Operators that only arrange numbers in another way, or are steps of norms, activations and attention.
STEPS = {
    *("Reshape", "Transpose", "Flatten", "Identity", "Cast", "Dropout", "Squeeze", "Unsqueeze", "Slice", "Gather"),
    *("Split", "Concat", "Expand", "Pad", "Shape", "Constant", "ConstantOfShape", "Where", "Equal", "Range"),
    *("Softmax", "Sigmoid", "HardSigmoid", "Erf", "Sqrt", "Pow", "Exp", "Div", "Sub", "Reciprocal", "ReduceMean"),
}
ACTIVATIONS = {"Relu", "LeakyRelu", "PRelu", "Elu", "Clip", "HardSwish", "Gelu", "Tanh"}


@dataclasses.dataclass(frozen=True)
class InputLayout:
    """The shape and type in which a network takes pictures. Where its file leaves a size open, any size is taken."""

    shape: tuple[int | None, ...]
    dtype: np.dtype
    channels_first: bool

    @staticmethod
    def of(path: object, inputs: Sequence[Any]) -> InputLayout:
        """The layout of the only input of a session."""
        shape = tuple(size if isinstance(size, int) and size > 0 else None for size in inputs[0].shape)
        channels_first = len(shape) == 4 and shape[1] in (1, 3)
        last = len(shape) == 4 and shape[3] in (1, 3)
        if len(inputs) != 1 or inputs[0].type not in DTYPES or not (channels_first or last):
            raise RequestError(
                f"{path} takes {[(port.name, port.type, port.shape) for port in inputs]}, and must take pictures "
                "alone: (n, 1 or 3, H, W) or (n, H, W, 1 or 3)"
            )
        return InputLayout(shape, np.dtype(DTYPES[inputs[0].type]), channels_first)

    @property
    def pictures_at_once(self) -> int | None:
        return self.shape[0]

    @property
    def channels(self) -> int:
        return (self.shape[1] if self.channels_first else self.shape[3]) or 3

    @property
    def size(self) -> tuple[int | None, int | None]:
        """Height and width."""
        return self.shape[2:4] if self.channels_first else self.shape[1:3]  # type: ignore[return-value]

    @property
    def white(self) -> float:
        """The number of a white pixel, unless a person gives another."""
        return 255.0 if self.dtype.kind == "u" else 1.0

    def arranged(self, pictures: Floats, black: float, white: float) -> np.ndarray:
        """Pictures as the network takes them."""
        scaled = black + (white - black) * resized(with_channels(pictures, self.channels), *self.size)
        arranged = scaled.transpose(0, 3, 1, 2) if self.channels_first else scaled
        return np.ascontiguousarray(arranged.round() if self.dtype.kind == "u" else arranged, self.dtype)


class Network:
    """A network that ONNX Runtime has read, from a file or from its bytes."""

    def __init__(self, path: object, content: str | bytes) -> None:
        with needing_extra(f"the network in {path}"):
            onnxruntime = importlib.import_module("onnxruntime")
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4  # errors are raised, so they need not be printed
        try:
            self._session = onnxruntime.InferenceSession(
                content, options, providers=onnxruntime.get_available_providers()
            )
        except Exception as error:  # ONNX Runtime raises its own types
            raise RequestError(f"{path} is not a network that ONNX Runtime can run ({brief(error)})") from error
        self.layout = InputLayout.of(path, self._session.get_inputs())
        self.outputs: tuple[str, ...] = tuple(port.name for port in self._session.get_outputs())

    def __repr__(self) -> str:
        return f"Network({len(self.outputs)} outputs)"

    def run(self, outputs: Sequence[str], arranged: np.ndarray) -> list[np.ndarray]:
        """Some outputs for pictures that are arranged. A file may fix how many pictures it takes at once."""
        size = self.layout.pictures_at_once or max(len(arranged), 1)
        results = []
        for start in range(0, len(arranged), size):
            batch = arranged[start : start + size]
            filled = np.concatenate([batch, np.repeat(batch[-1:], size - len(batch), axis=0)])
            arrays = self._session.run(list(outputs), {self._session.get_inputs()[0].name: filled})
            results.append([array[: len(batch)] if array.ndim else array for array in arrays])
        return [np.concatenate(arrays) for arrays in zip(*results, strict=True)]


def of_file(source: str | Path, options: EncoderOptions) -> Encoder:
    """The encoder in an ONNX file."""
    path = Path(source).expanduser()
    if not path.is_file():
        raise RequestError(f"there is no file {path}")
    network = Network(path, str(path))
    wanted = network.outputs[-1:] if options.layers == "last" else options.layers
    if isinstance(wanted, tuple) and set(wanted) <= set(network.outputs):
        return _encoder(str(source), path, network, tuple(wanted), options)
    graph = _read(path)
    if wanted == "all":
        inner = _blocks(path, graph, network.outputs, options.size)
    else:
        inner = [name for name in wanted if name not in network.outputs]
    with_inner = _with_outputs(path, graph, inner)
    return _encoder(
        str(source), path, with_inner, (*inner, *network.outputs) if wanted == "all" else tuple(wanted), options
    )


def _encoder(name: str, path: Path, network: Network, layers: tuple[str, ...], options: EncoderOptions) -> Encoder:
    layout = network.layout
    if layout.dtype.kind == "u":  # bytes
        options.refuse_normalisation(name)
    shapes = _trial_shapes(network, layers, options.size)
    if options.layers == "all" and shapes:  # without tensors that have no row for each picture
        layers = tuple(layer for layer in layers if layer in shapes)
    sides = [size for size in layout.size if size is not None]

    def forward(pictures: Pictures) -> Mapping[str, Output]:
        pixels = options.normalised(as_floats(pictures))
        arrays = network.run(layers, layout.arranged(pixels, 0.0, layout.white))
        return {layer: channels_last(array) for layer, array in zip(layers, arrays, strict=True)}

    def untrained(seed: int) -> Encoder:
        graph = _read(path)
        _shuffle(path, graph, seed)
        inner = [layer for layer in layers if layer not in {port.name for port in graph.graph.output}]
        return _encoder(name, path, _with_outputs(path, graph, inner), layers, options)

    encoder = Encoder(
        name,
        layers,
        forward,
        side=max(sides, default=None),  # pictures that are no squares are made of squares
        channels=layout.channels,
        first_patch=_first_patch(shapes),
        untrained=untrained,
        batch=options.batch,
    )
    return chosen(encoder, options)


def _trial_shapes(network: Network, layers: Sequence[str], side: int | None) -> dict[str, tuple[int, ...]]:
    """The shapes of layers for a few black pictures, if they are of floats with a row for each picture.

    None if the network does not run on them.
    """
    for usual_side in TRIAL_SIDES if side is None else (side,):
        height, width = (size or usual_side for size in network.layout.size)
        pictures = np.zeros((TRIAL, height, width, network.layout.channels), np.float32)
        with contextlib.suppress(Exception):  # ONNX Runtime raises its own types; the first real pictures will tell
            arrays = network.run(layers, network.layout.arranged(pictures, 0.0, 1.0))
            return {
                layer: array.shape
                for layer, array in zip(layers, arrays, strict=True)
                if array.dtype.kind == "f" and 2 <= array.ndim <= 4 and len(array) == TRIAL
            }
    return {}


def _first_patch(shapes: Mapping[str, tuple[int, ...]]) -> int:
    """How many tokens come before the patches, which make a square; 0 if nothing tells."""
    counts = {shape[1] for shape in shapes.values() if len(shape) == 3}
    for count in PREFIXES:
        if counts and all(tokens > count and math.isqrt(tokens - count) ** 2 == tokens - count for tokens in counts):
            return count
    return 0


def _read(path: Path) -> Any:
    with needing_extra(f"layers inside {path}"):
        onnx = importlib.import_module("onnx")
    try:
        return onnx.load(str(path))
    except Exception as error:  # protobuf raises its own types
        raise RequestError(f"{path} cannot be read as an ONNX file ({brief(error)})") from error


def _with_outputs(path: Path, graph: Any, names: Sequence[str]) -> Network:
    """The network with some tensors as outputs before its own."""
    onnx = importlib.import_module("onnx")
    tensors = [output for node in graph.graph.node for output in node.output if output]
    for name in names:
        if name not in tensors:
            raise RequestError(f"{path} has no tensor {name!r}: {choices(name, tensors)}")
    present = {port.name for port in graph.graph.output}
    graph.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in names if name not in present)
    try:
        content = graph.SerializeToString()
    except ValueError as error:  # protobuf's limit
        raise RequestError(
            f"{path} is larger than 2 GB, so tensors inside it cannot be layers: give its last layer alone"
        ) from error
    return Network(path, content)


def _blocks(path: Path, graph: Any, outputs: Sequence[str], side: int | None) -> list[str]:
    """At most 12 tensors inside a network, evenly spread, with a row of floats for each picture.

    They are the ends of residual blocks, or the results of operators if the network has fewer than three blocks.
    """
    nodes = [node for node in graph.graph.node if node.op_type != "Constant"]
    constants = _constants(graph)
    computed = [node for node in nodes if node.output[0] not in constants and node.op_type not in STEPS]
    sums = [node.output[0] for node in computed if node.op_type == "Add" and not constants.intersection(node.input)]
    readers = collections.defaultdict(list)
    for node in nodes:
        for name in node.input:
            readers[name].append(node)
    ends = []
    for name in sums:
        activated = [node.output[0] for node in readers[name] if node.op_type in ACTIVATIONS]
        ends.append(activated[0] if len(readers[name]) == 1 and activated else name)
    results = [node.output[0] for node in computed]
    if ends and results.index(ends[0]) > LATE * len(results):
        ends = []
    for names in (ends, results):
        tried = _evenly([name for name in names if name not in outputs], MOST_TRIED)
        try:
            network = _with_outputs(path, _copy_of(graph), tried)
        except RequestError:  # ONNX Runtime cannot give one of them; the network's own outputs are left
            continue
        shapes = _trial_shapes(network, tried, side)
        usable = [name for name in tried if name in shapes and not _is_gate(shapes[name])]
        if len(usable) >= FEWEST_BLOCKS:
            return _evenly(usable, MOST_LAYERS)
    return []


def _is_gate(shape: Sequence[int]) -> bool:
    """Whether a tensor is a map with one position, as in squeeze and excitation."""
    return len(shape) > 2 and math.prod(shape[2:]) == 1


def _copy_of(graph: Any) -> Any:
    copied = type(graph)()
    copied.CopyFrom(graph)
    return copied


def _constants(graph: Any) -> set[str]:
    """The names of tensors that do not depend on the pictures."""
    constants = {array.name for array in graph.graph.initializer} | {""}
    for node in graph.graph.node:
        if constants.issuperset(node.input):
            constants |= set(node.output)
    return constants


def _evenly(names: Sequence[str], most: int) -> list[str]:
    """At most `most` names, evenly spread, with the last."""
    if len(names) <= most:
        return list(names)
    return [names[round((place + 1) * len(names) / most) - 1] for place in range(most)]


def _shuffle(path: Path, graph: Any, seed: int) -> None:
    """Puts the entries of each weight array in random order."""
    numpy_helper = importlib.import_module("onnx.numpy_helper")
    weights = {array.name: array for array in graph.graph.initializer}
    for node in graph.graph.node:  # some exporters write weights as constants
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            weights[node.output[0]] = node.attribute[0].t
    changed = 0
    for name, weight in weights.items():
        array = numpy_helper.to_array(weight)
        if array.ndim >= 2 and array.size > 1 and array.dtype.kind not in "OSb" and array.dtype.name[:3] != "int":
            weight.CopyFrom(numpy_helper.from_array(shuffled(array, name, seed), weight.name))
            changed += 1
    if not changed:
        raise RequestError(f"{path} has no weight arrays to shuffle, so no untrained network stands beside it")
