"""What leaves JAX computes what the model computes: PyTorch modules, ONNX files, and the description behind both."""

from __future__ import annotations

import dataclasses
import functools
import json
import sys
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sober.errors import RequestError
from sober.interop import graph, onnx, torch
from sober.methods import METHODS
from sober.models.model import Model
from sober.models.named_arrays import named_arrays
from sober.nets import NETS
from sober.nets import net as nets_of
from sober.nets.dense import dense_encoder
from sober.nets.layers import Linear
from sober.nets.norms import InstanceNorm
from sober.types import Run

LATENTS = 3
# Every kind of model with all nets: the first method that trains it.
KINDS = {method.model: name for name, method in reversed(METHODS.items())}
CASES = [(method, nets) for method in sorted(KINDS.values()) for nets in NETS]
every_model = pytest.mark.parametrize(("method", "nets"), CASES)


def filled(template: Any, seed: int = 0) -> Any:
    """Nets as training might leave them: no bias, scale, offset, mean or variance is where it started."""
    rng = np.random.default_rng(seed)

    def fill(path: Any, leaf: Any) -> np.ndarray:
        name = jax.tree_util.keystr(path)
        middle = 1.0 if "scale" in name or "statistics[1]" in name else 0.0
        spread = 0.4 if leaf.ndim == 1 else (3 / leaf.shape[0]) ** 0.5
        return rng.uniform(middle - spread, middle + spread, leaf.shape).astype(np.float32)

    return jax.tree_util.tree_map_with_path(fill, template)


@functools.cache
def model_of(method: str, nets: str, shape: tuple[int, int, int] | None = None, latents: int = LATENTS) -> Model:
    shape = shape or shape_for(nets)
    run = Run("blocks", method, {}, nets=nets, latents=latents)
    build = functools.partial(METHODS[method].model, nets=NETS[nets], shape=shape, latents=latents)
    return Model(run, shape, filled(jax.eval_shape(build, jax.random.key(0))))


def shape_for(nets: str) -> tuple[int, int, int]:
    """Height, width and channels differ, down to the coarsest grid, so that no two can be confused; but for nets that
    take long, which are made of the same parts."""
    sides = NETS[nets].sides
    if sides == 1:
        return 5, 7, 2
    return (2 * sides, 3 * sides, 3) if NETS[nets].cost.cpu < 2 else (sides, sides, 3)


@functools.cache
def expected(method: str, nets: str) -> tuple[np.ndarray, ...]:
    """Pictures (N, C, H, W), their means and log-variances, codes, and the pictures of those."""
    model, rng = model_of(method, nets), np.random.default_rng(1)
    pictures = rng.random((4, *model.image_shape), np.float32)
    codes = 2 * rng.normal(size=(4, LATENTS)).astype(np.float32)
    return first(pictures), *model.encode(pictures), codes, first(model.decode(codes))


def first(pictures: np.ndarray) -> np.ndarray:
    """Channels before positions."""
    return pictures.transpose(0, 3, 1, 2)


def logit(p: np.ndarray) -> np.ndarray:
    return np.log(p) - np.log1p(-p)


def close(ours: Any, theirs: np.ndarray) -> None:
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, atol=1e-4)
    assert np.ptp(theirs) > 0.1 or not theirs.any()  # else there was little to compare


# PyTorch


@pytest.fixture
def pytorch() -> Any:
    return pytest.importorskip("torch", reason="PyTorch is not installed")


@every_model
def test_pytorch_gives_the_same_codes_and_pictures(pytorch: Any, method: str, nets: str) -> None:
    pictures, mean, logvar, codes, decoded = expected(method, nets)
    model = model_of(method, nets)
    with pytorch.no_grad():
        ours = torch.encoder(model)(pytorch.tensor(pictures))
        close(ours[0].numpy(), mean)
        close(ours[1].numpy(), logvar)
        close(torch.decoder(model)(pytorch.tensor(codes)).numpy(), decoded)
        logits = torch.decoder(model, logits=True)(pytorch.tensor(codes))
        close(pytorch.sigmoid(logits).numpy(), decoded)
        assert not ((logits >= 0) & (logits <= 1)).all()


@pytest.mark.parametrize("nets", ["conv_bn", "linear"])
def test_a_loss_in_pytorch_reaches_every_weight(pytorch: Any, nets: str) -> None:
    pictures, *_ = map(pytorch.tensor, expected("vae", nets))
    model = model_of("vae", nets)
    encoder, decoder = torch.encoder(model).train(), torch.decoder(model, logits=True).train()
    mean, logvar = encoder(pictures)
    codes = mean + pytorch.exp(logvar / 2) * pytorch.ones_like(mean)
    pytorch.nn.BCEWithLogitsLoss()(decoder(codes), pictures).backward()
    for net in (encoder, decoder):
        assert [name for name, weight in net.named_parameters() if weight.grad is None] == []
        assert sum(bool(weight.grad.any()) for weight in net.parameters()) >= 2


def test_modules_are_ready_to_use_and_share_no_memory_with_the_model(pytorch: Any) -> None:
    model = model_of("vae", "conv_bn")
    encoder = torch.encoder(model)
    assert not any(module.training for module in encoder.modules())
    before = [np.array(leaf) for leaf in jax.tree.leaves(model.autoencoder)]
    with pytorch.no_grad():
        for parameter in encoder.parameters():
            parameter.zero_()
    for leaf, was in zip(jax.tree.leaves(model.autoencoder), before, strict=True):
        np.testing.assert_array_equal(leaf, was)


def test_making_a_module_leaves_random_numbers_of_pytorch_as_they_are(pytorch: Any) -> None:
    state = pytorch.random.get_rng_state()
    torch.decoder(model_of("vae", "conv_bn"))
    assert pytorch.equal(pytorch.random.get_rng_state(), state)


def test_without_pytorch_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(RequestError, match=r"pip install -e '\.\[torch\]'"):
        torch.encoder(model_of("vae", "small"))


# ONNX


@pytest.fixture
def runtime() -> Any:
    pytest.importorskip("onnx", reason="the package onnx is not installed")
    return pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")


def session(runtime: Any, path: Path) -> Any:
    return runtime.InferenceSession(path, providers=["CPUExecutionProvider"])


@every_model
def test_onnx_runtime_gives_the_same_codes_and_pictures(
    runtime: Any, method: str, nets: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures, mean, logvar, codes, decoded = expected(method, nets)
    model = model_of(method, nets)
    monkeypatch.setitem(sys.modules, "torch", None)  # which is not needed
    encoder, decoder = (session(runtime, path) for path in onnx.export(model, tmp_path))
    ours = encoder.run(["mean", "logvar"], {"pictures": pictures})
    close(ours[0], mean)
    close(ours[1], logvar)
    close(decoder.run(["pictures"], {"codes": codes})[0], decoded)
    # However many pictures there are.
    np.testing.assert_allclose(encoder.run(None, {"pictures": pictures[:1]})[0], mean[:1], atol=1e-4)
    np.testing.assert_allclose(decoder.run(None, {"codes": codes[:1]})[0], decoded[:1], atol=1e-4)


@pytest.mark.parametrize("nets", ["conv", "small", "linear"])
def test_an_onnx_decoder_can_give_logits(runtime: Any, nets: str, tmp_path: Path) -> None:
    *_, codes, decoded = expected("vae", nets)
    _, path = onnx.export(model_of("vae", nets), tmp_path, logits=True)
    [logits] = session(runtime, path).run(["logits"], {"codes": codes})
    np.testing.assert_allclose(logits, logit(decoded), atol=1e-3)


def test_onnx_files_say_which_run_they_are_of_and_what_they_take(runtime: Any, tmp_path: Path) -> None:
    model = model_of("vae", "small")
    folder = tmp_path / "new" / "folder"
    encoder, decoder = onnx.export(model, str(folder))
    assert sorted(folder.iterdir()) == [decoder, encoder]
    said = {"run": model.run.identity, "world": "blocks", "method": "vae", "latents": "3", "image_shape": "[5, 7, 2]"}
    for path in (encoder, decoder):
        assert session(runtime, path).get_modelmeta().custom_metadata_map == said
    ports = [(port.name, port.shape) for port in session(runtime, encoder).get_inputs()]
    assert ports == [("pictures", ["N", 2, 5, 7])]
    ports = [(port.name, port.shape) for port in session(runtime, encoder).get_outputs()]
    assert ports == [("mean", ["N", 3]), ("logvar", ["N", 3])]
    ports = [(port.name, port.shape) for port in session(runtime, decoder).get_outputs()]
    assert ports == [("pictures", ["N", 2, 5, 7])]


def test_the_same_model_gives_the_same_onnx_files(runtime: Any, tmp_path: Path) -> None:
    one, two = (onnx.export(model_of("vae", "small"), tmp_path / name) for name in ("one", "two"))
    for a, b in zip(one, two, strict=True):
        assert a.read_bytes() == b.read_bytes()


def test_without_onnx_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(RequestError, match=r"pip install -e '\.\[onnx\]'"):
        onnx.export(model_of("vae", "small"), tmp_path / "absent")
    assert not (tmp_path / "absent").exists()


# The description


def numbers(tree: Any) -> np.ndarray:
    return np.sort(np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)]))


def weights_of(nets: str) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(model_of("vae", nets).autoencoder))


SMALLEST = sorted(NETS, key=weights_of)[:5]  # else examples would take long
sides, few = st.integers(1, 4), st.integers(1, 5)


@settings(deadline=None, max_examples=30)
@given(st.sampled_from(SMALLEST), sides, sides, few, few)
def test_a_description_holds_every_weight_once_and_its_layers_fit_together(
    nets: str, h: int, w: int, c: int, latents: int
) -> None:
    step = NETS[nets].sides
    model = model_of("vae", nets, (h * step, w * step, c), latents)
    described = graph.encoder_graph(model), graph.decoder_graph(model)
    for made, net in zip(described, (model.autoencoder.encoder, model.autoencoder.decoder), strict=True):
        weights = numbers(dict(made.arrays))
        if made is described[0] and NETS[nets].one_spread:  # the log-variance does not look at pictures
            weights = np.delete(weights, np.flatnonzero(weights == 0)[: h * w * c * latents])
        np.testing.assert_array_equal(weights, numbers(net))
        seen: set[str] = set()
        for layer in made.layers:
            assert seen.issuperset(layer.inputs)
            assert layer.name not in seen
            seen.add(layer.name)
        assert seen.issuperset(made.outputs.values())
        assert made.arrays.keys() == {f"{layer.name}.{role}" for layer in made.layers for role in layer.arrays}
    encoder, decoder = ({layer.name: layer.shape for layer in made.layers} for made in described)
    assert encoder["mean"] == encoder["logvar"] == decoder["codes"] == (latents,)
    assert encoder["pictures"] == decoder["pictures"] == (c, h * step, w * step)


@pytest.mark.parametrize("nets", NETS)
def test_layers_go_by_their_names_in_the_file_of_the_model(nets: str) -> None:
    model = model_of("vae", nets)
    file = named_arrays(model.autoencoder, "model")
    for part, made in (("encoder", graph.encoder_graph(model)), ("decoder", graph.decoder_graph(model))):
        for layer in made.layers:
            if layer.arrays and layer.name not in ("mean", "logvar", "linear_1"):  # made here, or without a name
                assert any(name.startswith(f"model.{part}.{layer.name}.") for name in file), layer.name


@pytest.mark.parametrize("nets", NETS)
def test_a_description_survives_json(nets: str) -> None:
    made = graph.decoder_graph(model_of("vae", nets))
    plain = json.loads(json.dumps(made.plain()))
    for layer, written in zip(made.layers, plain["layers"], strict=True):
        whole = {name: tuple(value) if isinstance(value, list) else value for name, value in written.items()}
        assert graph.Layer(**whole) == layer
    assert plain["outputs"] == {"pictures": "pictures"}
    assert plain["arrays"] == {name: list(array.shape) for name, array in made.arrays.items()}


class Unknown(eqx.Module):
    layer: Linear


def with_encoder(change: Any) -> Model:
    model = model_of("vae", "small")
    autoencoder = eqx.tree_at(lambda pair: pair.encoder, model.autoencoder, replace_fn=change)
    return dataclasses.replace(model, autoencoder=autoencoder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda layers: nets_of.net(Unknown(layers.layers[1]), *layers.layers[2:]),
            "Unknown has no description outside JAX",
        ),
        (lambda layers: nets_of.net(InstanceNorm(1), *layers.layers), "InstanceNorm has no desc"),
        (
            lambda layers: dense_encoder(jax.random.key(0), (5, 7, 2), 6, widths=(5,), activation=jax.nn.silu),
            "silu.* has no desc",
        ),
    ],
)
def test_nets_without_a_description_are_refused_by_name(change: Any, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        graph.encoder_graph(with_encoder(change))
