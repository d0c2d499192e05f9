"""Encoders in ONNX files: layouts, layers inside, networks with shuffled weights. Networks are made here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sober.encoders import EncoderOptions, features, open_encoder
from sober.encoders.pictures import resized
from sober.errors import RequestError

onnx = pytest.importorskip("onnx", reason="needs the extra onnx")
pytest.importorskip("onnxruntime", reason="needs the extra onnx")
helper, FLOAT = onnx.helper, onnx.TensorProto.FLOAT
RNG = np.random.default_rng(0)
FILTERS = RNG.normal(size=(5, 3)).astype(np.float32)


def pictures(count: int = 20, side: int = 16, channels: int = 3) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 256, (count, side, side, channels), np.uint8)


def write(path: Path, nodes: list[Any], arrays: dict[str, np.ndarray], shape: list[Any], kind: int = FLOAT) -> Path:
    """A network from `pictures` to `out`."""
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("pictures", kind, shape)],
        [helper.make_tensor_value_info("out", FLOAT, None)],
        [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    opset = helper.make_opsetid("", 17)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=helper.find_min_ir_version_for([opset]))
    path.write_bytes(model.SerializeToString())
    return path


def network(path: Path, shape: list[Any] | None = None, kind: int = FLOAT, blocks: int = 0) -> Path:
    """A 1 x 1 convolution, residual blocks of another, the means over positions."""
    shape = shape or ["n", 3, 16, 16]
    first = shape[1] in (1, 3)
    channels = shape[1] if first else shape[3]
    arrays = {"filters": FILTERS[:, :channels, None, None]}
    nodes = [helper.make_node("Cast", ["pictures"], ["floats"], to=FLOAT)]
    nodes += [] if first else [helper.make_node("Transpose", ["floats"], ["turned"], perm=[0, 3, 1, 2])]
    nodes += [helper.make_node("Conv", ["floats" if first else "turned", "filters"], ["block0"])]
    for place in range(blocks):
        arrays[f"weight{place}"] = RNG.normal(size=(5, 5, 1, 1)).astype(np.float32)
        nodes += [
            helper.make_node("Relu", [f"block{place}"], [f"relu{place}"]),
            helper.make_node("Conv", [f"relu{place}", f"weight{place}"], [f"conv{place}"]),
            helper.make_node("Add", [f"block{place}", f"conv{place}"], [f"block{place + 1}"]),
        ]
    nodes += [helper.make_node("Relu", [f"block{blocks}"], ["maps"])]
    nodes += [helper.make_node("ReduceMean", ["maps"], ["out"], axes=[2, 3], keepdims=0)]
    return write(path, nodes, arrays, shape, kind)


def by_hand(images: np.ndarray) -> np.ndarray:
    return np.maximum(images @ FILTERS[:, : images.shape[3]].T, 0).mean((1, 2))


@pytest.mark.parametrize(
    ("shape", "side"),
    [
        (["n", 3, 16, 16], 16),
        (["n", 16, 16, 3], 16),
        ([4, 3, 16, 16], 16),
        (["n", 3, "h", "w"], None),
        ([None, 3, None, None], None),
        (["n", 3, 12, 16], 16),
        (["n", 1, 16, 16], 16),
    ],
)
def test_a_file_gives_its_output_for_pictures_from_0_to_1(tmp_path: Path, shape: list[Any], side: int | None) -> None:
    encoder = open_encoder(str(network(tmp_path / "net.onnx", shape)), EncoderOptions(layers="last"))
    assert (encoder.side, encoder.channels, encoder.layers) == (side, 1 if 1 in shape else 3, ("out",))
    images = pictures(channels=encoder.channels)
    floats = resized(images.astype(np.float32) / 255, *([12, 16] if 12 in shape else [16, 16]))
    np.testing.assert_allclose(features(encoder, [images])["out"], by_hand(floats), rtol=1e-4, atol=1e-6)


def test_a_network_of_bytes_gets_bytes(tmp_path: Path) -> None:
    path = network(tmp_path / "net.onnx", ["n", 16, 16, 3], onnx.TensorProto.UINT8)
    rows = features(open_encoder(path, EncoderOptions(layers=("out",))), [pictures()])["out"]
    np.testing.assert_allclose(rows, by_hand(pictures().astype(np.float32)), rtol=1e-4)


def test_pixels_are_normalised_as_a_person_says(tmp_path: Path) -> None:
    mean, std = (0.5, 0.4, 0.3), (0.1, 0.2, 0.3)
    encoder = open_encoder(network(tmp_path / "net.onnx"), EncoderOptions(mean=mean, std=std))
    expected = by_hand((pictures() / 255 - np.array(mean)) / np.array(std))
    np.testing.assert_allclose(features(encoder, [pictures()])["out"], expected, rtol=1e-4, atol=1e-5)
    of_bytes = network(tmp_path / "bytes.onnx", ["n", 16, 16, 3], onnx.TensorProto.UINT8)
    with pytest.raises(RequestError, match="takes pixels as they are: leave mean and std out"):
        open_encoder(of_bytes, EncoderOptions(mean=mean, std=std))


def test_all_layers_are_the_blocks_and_the_output(tmp_path: Path) -> None:
    encoder = open_encoder(str(network(tmp_path / "net.onnx", blocks=4)))
    assert encoder.layers == ("block1", "block2", "block3", "maps", "out")  # the last block ends in a ReLU
    rows = features(encoder, [pictures()])
    np.testing.assert_allclose(rows["maps"], rows["out"], rtol=1e-4, atol=1e-6)
    assert features(encoder, [pictures()], "patches")["block1"].shape == (20, 16 * 16 * 5)


def test_at_most_twelve_blocks_are_layers(tmp_path: Path) -> None:
    layers = open_encoder(str(network(tmp_path / "net.onnx", blocks=30))).layers
    assert len(layers) == 13
    assert layers[-2:] == ("maps", "out")
    places = [int(layer.removeprefix("block")) for layer in layers[:-2]]
    assert set(np.diff(places)) <= {2, 3}


def test_without_blocks_the_results_of_operators_are_layers(tmp_path: Path) -> None:
    """Not steps of norms, activations and gates, nor what does not depend on pictures."""
    nodes = [
        helper.make_node("Conv", ["pictures", "filters"], ["first"]),
        helper.make_node("Sigmoid", ["first"], ["gate"]),
        helper.make_node("Mul", ["first", "gate"], ["silu"]),
        helper.make_node("GlobalAveragePool", ["silu"], ["pooled"]),
        helper.make_node("Mul", ["silu", "pooled"], ["excited"]),
        helper.make_node("Reshape", ["bias", "shape"], ["shaped"]),
        helper.make_node("Add", ["excited", "shaped"], ["added"]),
        helper.make_node("Add", ["shaped", "shaped"], ["constant"]),
        helper.make_node("ReduceMean", ["added"], ["out"], axes=[2, 3], keepdims=0),
    ]
    arrays = {
        "filters": FILTERS[:, :, None, None],
        "bias": np.ones(5, np.float32),
        "shape": np.array([1, 5, 1, 1]),
    }
    path = write(tmp_path / "net.onnx", nodes, arrays, ["n", 3, 16, 16])
    assert open_encoder(path).layers == ("first", "silu", "excited", "added", "out")
    assert open_encoder(network(tmp_path / "small.onnx")).layers == ("out",)


def test_a_network_of_open_size_needs_it_for_layers_inside(tmp_path: Path) -> None:
    path = network(tmp_path / "net.onnx", ["n", 3, "h", "w"], blocks=3)
    for size in (None, 20):
        encoder = open_encoder(path, EncoderOptions(size=size))
        assert (encoder.side, len(encoder.layers)) == (size, 4)
    assert features(encoder, [pictures()], "patches")["maps"].shape == (20, 20 * 20 * 5)


def test_layers_are_named_by_their_tensors(tmp_path: Path) -> None:
    path = str(network(tmp_path / "net.onnx", blocks=3))
    encoder = open_encoder(path, EncoderOptions(layers=("conv1", "out")))
    assert encoder.layers == ("conv1", "out")
    assert list(features(encoder, [pictures()])) == ["conv1", "out"]
    with pytest.raises(RequestError, match=r"has no tensor 'konv1': did you mean 'conv1'"):
        open_encoder(path, EncoderOptions(layers=("konv1",)))


def test_tokens_with_a_class_token_are_recognised(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["pictures", "filters"], ["maps"], strides=[4, 4]),
        helper.make_node("Reshape", ["maps", "shape"], ["flat"]),
        helper.make_node("Transpose", ["flat"], ["patches"], perm=[0, 2, 1]),
        helper.make_node("ReduceMean", ["patches"], ["token"], axes=[1], keepdims=1),
        helper.make_node("Concat", ["token", "patches"], ["out"], axis=1),
    ]
    arrays = {"filters": RNG.normal(size=(5, 3, 4, 4)).astype(np.float32), "shape": np.array([0, 5, 16])}
    encoder = open_encoder(write(tmp_path / "vit.onnx", nodes, arrays, ["n", 3, 16, 16]), EncoderOptions(layers="last"))
    assert encoder.first_patch == 1
    rows = features(encoder, [pictures()], "class")["out"]
    np.testing.assert_allclose(rows, features(encoder, [pictures()])["out"], rtol=1e-3, atol=1e-5)
    assert features(encoder, [pictures()], "patches")["out"].shape == (20, 80)


def test_an_untrained_network_has_the_same_weights_in_another_order(tmp_path: Path) -> None:
    encoder = open_encoder(network(tmp_path / "net.onnx", blocks=3))
    assert encoder.untrained is not None
    rows, first, again, other = (
        features(opened, [pictures()])
        for opened in (encoder, encoder.untrained(0), encoder.untrained(0), encoder.untrained(1))
    )
    assert list(first) == list(rows)
    for layer in rows:
        np.testing.assert_array_equal(first[layer], again[layer])
        assert np.abs(first[layer] - other[layer]).max() > 1e-3
        assert np.abs(first[layer] - rows[layer]).max() > 1e-3


def test_weights_that_are_constants_are_shuffled_too(tmp_path: Path) -> None:
    weight = onnx.numpy_helper.from_array(FILTERS[:, :, None, None], "value")
    nodes = [
        helper.make_node("Constant", [], ["filters"], value=weight),
        helper.make_node("Conv", ["pictures", "filters"], ["maps"]),
        helper.make_node("ReduceMean", ["maps"], ["out"], axes=[2, 3], keepdims=0),
    ]
    encoder = open_encoder(write(tmp_path / "net.onnx", nodes, {}, ["n", 3, 16, 16]))
    assert encoder.untrained is not None
    rows, mixed = features(encoder, [pictures()])["out"], features(encoder.untrained(0), [pictures()])["out"]
    assert np.abs(rows - mixed).max() > 1e-3
    flat = open_encoder(
        write(tmp_path / "flat.onnx", [helper.make_node("Flatten", ["pictures"], ["out"])], {}, ["n", 3, 16, 16])
    )
    assert flat.untrained is not None
    with pytest.raises(RequestError, match="has no weight arrays to shuffle"):
        flat.untrained(0)


def test_files_that_are_no_encoders_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "text.onnx").write_text("no network")
    for name, words in {
        "none.onnx": "there is no file",
        "text.onnx": "not a network that ONNX Runtime can run",
    }.items():
        with pytest.raises(RequestError, match=words) as error:
            open_encoder(str(tmp_path / name))
        assert "\n" not in str(error.value)
    with pytest.raises(RequestError, match="must take pictures alone"):
        open_encoder(
            write(tmp_path / "five.onnx", [helper.make_node("Relu", ["pictures"], ["out"])], {}, ["n", 5, 9, 9])
        )


def test_a_tensor_without_a_row_for_each_picture_is_refused(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("ReduceMean", ["pictures"], ["sum"], axes=[0], keepdims=0),
        helper.make_node("Flatten", ["pictures"], ["out"]),
    ]
    path = write(tmp_path / "net.onnx", nodes, {}, ["n", 3, 16, 16])
    assert open_encoder(path).layers == ("out",)
    with pytest.raises(RequestError, match=r"layer sum: shape .* give one row for each picture"):
        features(open_encoder(path, EncoderOptions(layers=("sum",))), [pictures()])
