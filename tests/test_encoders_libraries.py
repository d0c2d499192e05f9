"""Encoders of timm, transformers and open_clip, with random weights and with weights in a made-up cache.

Each test needs its library, and is skipped without it. Nothing is fetched.
"""

from __future__ import annotations

import sys
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sober.encoders import ENCODERS, EncoderOptions, features, hub, open_encoder
from sober.errors import RequestError

RANDOM: dict[str, Any] = {"weights": "random", "device": "cpu", "batch": 20}
KEPT: dict[str, Any] = {"device": "cpu", "batch": 20}


def library(name: str) -> Any:
    pytest.importorskip("torch", reason="needs the extra torch")
    return pytest.importorskip(name, reason=f"needs {name}: pip install {name}")


def pictures(count: int = 18, side: int = 64) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 256, (count, side, side, 3), np.uint8)


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise OSError("no network in tests")

    monkeypatch.setattr(urllib.request, "urlopen", refused)


def cached(monkeypatch: pytest.MonkeyPatch, folder: Path, repository: str) -> Path:
    """A folder for the files of a repository in a cache of the hub."""
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder))
    place = folder / f"models--{repository.replace('/', '--')}"
    commit = "0" * 40
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text(commit)
    (place / "snapshots" / commit).mkdir(parents=True)
    return place / "snapshots" / commit


# timm.


@pytest.mark.parametrize(
    ("name", "first", "prefix"),
    [
        ("test_vit", "blocks.0", 1),
        ("test_vit2", "blocks.0", 1),
        ("test_resnet", "act1", 0),
        ("test_convnext", "stages.0", 0),
        ("test_efficientnet", "blocks.0", 0),
    ],
)
def test_timm_by_name_with_random_weights(name: str, first: str, prefix: int) -> None:
    library("timm")
    encoder = open_encoder(f"timm:{name}", EncoderOptions(**RANDOM, size=64))
    assert (encoder.side, encoder.channels, encoder.first_patch) == (64, 3, prefix)
    assert (encoder.layers[0], encoder.layers[-1]) == (first, "out")
    rows = features(encoder, [pictures()])
    assert tuple(rows) == encoder.layers
    again = features(open_encoder(f"timm:{name}", EncoderOptions(**RANDOM, size=64)), [pictures()])
    other = features(open_encoder(f"timm:{name}", EncoderOptions(**RANDOM, size=64, seed=1)), [pictures()])
    np.testing.assert_allclose(rows["out"], again["out"], rtol=1e-4, atol=1e-5)
    assert np.abs(rows["out"] - other["out"]).max() > 1e-3
    assert open_encoder(f"timm:{name}", EncoderOptions(**RANDOM)).side == 160
    assert open_encoder(f"timm:{name}", EncoderOptions(**RANDOM, layers="last")).layers == ("out",)


def test_timm_normalises_as_the_network_was_trained() -> None:
    timm, torch = library("timm"), library("torch")
    encoder = open_encoder("timm:test_vit", EncoderOptions(**RANDOM, seed=3))
    rows = features(encoder, [pictures(side=160)])["out"]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        model = timm.create_model("test_vit", num_classes=0).eval()
    config = timm.data.resolve_model_data_config(model)
    x = (pictures(side=160) / 255 - np.array(config["mean"])) / np.array(config["std"])
    with torch.no_grad():
        expected = model(torch.from_numpy(x.transpose(0, 3, 1, 2).astype(np.float32))).numpy()
    np.testing.assert_allclose(rows, expected, rtol=1e-3, atol=1e-4)


def test_timm_reads_safetensors_of_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timm, save = library("timm"), library("safetensors.torch").save_file
    model = timm.create_model("test_vit").eval()
    repository = timm.get_pretrained_cfg("test_vit").hf_hub_id
    save(model.state_dict(), cached(monkeypatch, tmp_path, repository) / "model.safetensors")
    rows = features(open_encoder("timm:test_vit", EncoderOptions(**KEPT)), [pictures()])["out"]
    model.reset_classifier(0)
    assert rows.shape[1] == model.num_features
    again = features(open_encoder("timm:test_vit", EncoderOptions(**KEPT)), [pictures()])["out"]
    np.testing.assert_allclose(rows, again, rtol=1e-5)
    fresh = features(open_encoder("timm:test_vit", EncoderOptions(**RANDOM)), [pictures()])["out"]
    assert np.abs(rows - fresh).max() > 1e-3


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("timm:test_vit", "the hub does not answer: .* ask for random weights"),
        ("timm:vit_smal_patch16", r"timm has no model 'vit_smal_patch16': did you mean 'vit_small"),
        ("timm:resnet18.nope", r"timm:resnet18.nope has no such weights: .*'resnet18\."),
    ],
)
def test_what_timm_does_not_have_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, words: str
) -> None:
    library("timm")
    cached(monkeypatch, tmp_path, "nobody/nothing")
    with pytest.raises(RequestError, match=words) as error:
        open_encoder(source)
    assert "\n" not in str(error.value)


def test_a_layer_of_timm_by_its_name() -> None:
    library("timm")
    encoder = open_encoder("timm:test_vit", EncoderOptions(**RANDOM, layers=("blocks.1.mlp", "norm")))
    assert features(encoder.only(("blocks.1.mlp",)), [pictures()], "class").keys() == {"blocks.1.mlp"}
    with pytest.raises(RequestError, match=r"has no layer 'block.1'"):
        open_encoder("timm:test_vit", EncoderOptions(**RANDOM, layers=("block.1",)))


# transformers.


def small_vit(folder: Path, **settings: Any) -> Any:
    """A small network, saved with its image processor."""
    transformers = library("transformers")
    sizes = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 32}
    config = transformers.Dinov2Config(**sizes, image_size=28, patch_size=14, **settings)
    model = transformers.Dinov2Model(config).eval()
    model.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(
        '{"image_processor_type": "BitImageProcessor", "do_center_crop": true, "do_normalize": true, '
        '"crop_size": {"height": 28, "width": 28}, "size": {"shortest_edge": 32}, '
        '"image_mean": [0.1, 0.2, 0.3], "image_std": [0.5, 0.6, 0.7]}'
    )
    return model


@pytest.mark.parametrize("prefix", ["", "transformers:"])
def test_a_folder_of_transformers(tmp_path: Path, prefix: str) -> None:
    torch = library("torch")
    model = small_vit(tmp_path)
    encoder = open_encoder(f"{prefix}{tmp_path}", EncoderOptions(**KEPT))
    assert encoder.layers == ("hidden.0", "hidden.1", "hidden.2", "hidden.3", "pooler", "out")
    assert (encoder.side, encoder.channels, encoder.first_patch) == (28, 3, 1)
    rows = features(encoder, [pictures(side=28)], "class")
    x = (pictures(side=28) / 255 - np.array([0.1, 0.2, 0.3])) / np.array([0.5, 0.6, 0.7])
    with torch.no_grad():
        result = model(torch.from_numpy(x.transpose(0, 3, 1, 2).astype(np.float32)), output_hidden_states=True)
    np.testing.assert_allclose(rows["out"], result.last_hidden_state[:, 0].numpy(), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(rows["hidden.1"], result.hidden_states[1][:, 0].numpy(), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(rows["pooler"], rows["out"], rtol=1e-4, atol=1e-5)
    larger = open_encoder(str(tmp_path), EncoderOptions(**KEPT, size=56))
    assert features(larger, [pictures()], "patches")["out"].shape == (18, 16 * 16)


def test_a_repository_of_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library("transformers")
    snapshot = cached(monkeypatch, tmp_path, "somebody/small_vit")
    small_vit(snapshot)
    rows = features(open_encoder("transformers:somebody/small_vit", EncoderOptions(**KEPT)), [pictures()])
    folder = features(open_encoder(str(snapshot), EncoderOptions(**KEPT)), [pictures()])
    np.testing.assert_allclose(rows["out"], folder["out"], rtol=1e-5)


@pytest.mark.parametrize(("name", "prefix"), [("vit", 1), ("resnet", 0), ("clip", 1)])
def test_an_architecture_of_transformers_with_random_weights(name: str, prefix: int) -> None:
    library("transformers")
    encoder = open_encoder(f"transformers:{name}", EncoderOptions(**RANDOM, size=64))
    assert (encoder.side, encoder.first_patch, encoder.layers[-1]) == (64, prefix, "out")
    rows = features(encoder, [pictures(6)])
    assert tuple(rows) == encoder.layers


def test_what_transformers_does_not_have_is_one_line(tmp_path: Path) -> None:
    library("transformers")
    (tmp_path / "config.json").write_text("{}")
    for source, options, words in (
        ("transformers:facebook/no_such_thing", KEPT, "the hub does not answer"),
        (str(tmp_path), KEPT, "the folder holds no image encoder in safetensors"),
        ("transformers:bert", RANDOM, "is no encoder of pictures: its input is input_ids"),
    ):
        with pytest.raises(RequestError, match=words) as error:
            open_encoder(source, EncoderOptions(**options))
        assert "\n" not in str(error.value)


def test_no_pickled_weights_are_loaded(tmp_path: Path) -> None:
    torch = library("torch")
    model = small_vit(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(RequestError, match="holds no image encoder in safetensors"):
        open_encoder(str(tmp_path), EncoderOptions(**KEPT))


# open_clip.


@pytest.mark.parametrize(("name", "prefix", "size"), [("ViT-B-32", 1, 64), ("RN50", 0, 64)])
def test_open_clip_by_name_with_random_weights(name: str, prefix: int, size: int) -> None:
    library("open_clip")
    encoder = open_encoder(f"open_clip:{name}", EncoderOptions(**RANDOM, size=size))
    assert (encoder.side, encoder.first_patch, encoder.layers[-1]) == (size, prefix, "out")
    rows = features(encoder, [pictures(6)])
    assert tuple(rows) == encoder.layers
    assert encoder.untrained is not None
    assert encoder.untrained(0).layers == encoder.layers


def test_open_clip_reads_safetensors_of_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_clip, save = library("open_clip"), library("safetensors.torch").save_file
    model = open_clip.create_model("ViT-B-32").eval()
    snapshot = cached(monkeypatch, tmp_path, "laion/CLIP-ViT-B-32-laion2B-s34B-b79K")
    save(
        {name: array.contiguous() for name, array in model.state_dict().items()},
        snapshot / "open_clip_model.safetensors",
    )
    encoder = open_encoder("open_clip:ViT-B-32/laion2b_s34b_b79k", EncoderOptions(**KEPT))
    rows = features(encoder, [pictures(4, 224)])["out"]
    torch = library("torch")
    mean, std = open_clip.OPENAI_DATASET_MEAN, open_clip.OPENAI_DATASET_STD
    x = (pictures(4, 224) / 255 - np.array(mean)) / np.array(std)
    with torch.no_grad():
        expected = model.encode_image(torch.from_numpy(x.transpose(0, 3, 1, 2).astype(np.float32))).numpy()
    np.testing.assert_allclose(rows, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("open_clip:ViTB32", r"open_clip has no model 'ViTB32': did you mean 'ViT-B-32'\?"),
        ("open_clip:ViT-B-32", "names no weights of ViT-B-32: write open_clip:ViT-B-32/.*, or ask for random weights"),
        ("open_clip:ViT-B-32/laion2b", "names no weights of ViT-B-32: did you mean 'laion2b"),
        ("open_clip:ViT-B-32/laion2b_s34b_b79k", "the hub does not answer"),
    ],
)
def test_what_open_clip_does_not_have_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, words: str
) -> None:
    library("open_clip")
    cached(monkeypatch, tmp_path, "nobody/nothing")
    with pytest.raises(RequestError, match=words) as error:
        open_encoder(source)
    assert "\n" not in str(error.value)


# Without the libraries, and without a network.


@pytest.mark.parametrize("kind", [name for name, entry in ENCODERS.items() if entry.package and name != "hog"])
def test_without_a_library_its_command_is_told(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    entry = ENCODERS[kind]
    if "torch" not in sys.modules:
        monkeypatch.setitem(sys.modules, "torch", type(sys)("torch"))
    monkeypatch.setitem(sys.modules, kind, None)
    with pytest.raises(RequestError, match=f"needs the package {entry.package}: pip install {entry.package}"):
        open_encoder(entry.example)


@pytest.mark.parametrize("kind", ["timm", "transformers", "open_clip"])
def test_without_pytorch_its_extra_is_told(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(RequestError, match="needs the extra 'torch'"):
        open_encoder(ENCODERS[kind].example)


def test_the_hub_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not hub.reachable("https://huggingface.co")
    with pytest.raises(RequestError, match="timm:x: its weights are not on this machine and cannot be fetched"):
        hub.check_reachable("timm:x")

    class Answer:
        def __enter__(self) -> None: ...
        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr(urllib.request, "urlopen", lambda *_, **__: Answer())
    assert hub.reachable("https://huggingface.co")
    hub.check_reachable("timm:x")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert not hub.reachable("https://huggingface.co")


class FakeHub:
    """The two functions of huggingface_hub that fetch files."""

    class errors:  # noqa: N801
        class EntryNotFoundError(Exception):
            pass

    def __init__(self, on_disk: dict[str, str], on_hub: dict[str, str]) -> None:
        self.on_disk, self.on_hub = on_disk, on_hub

    def try_to_load_from_cache(self, repository: str, name: str) -> str | None:
        return self.on_disk.get(name)

    def hf_hub_download(self, repository: str, name: str) -> str:
        if name == "broken":
            raise ConnectionError("reset\nby peer")
        if name not in self.on_hub:
            raise self.errors.EntryNotFoundError(name)
        return self.on_hub[name]


def test_files_come_from_the_cache_or_else_from_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeHub({"b": "/cache/b"}, {"c": "/hub/c"})
    monkeypatch.setitem(sys.modules, "huggingface_hub", fake)
    assert hub.fetched("timm:x", "somebody/x", ["a", "b"]) == Path("/cache/b")
    with pytest.raises(RequestError, match="the hub does not answer"):
        hub.fetched("timm:x", "somebody/x", ["a", "c"])
    monkeypatch.setattr(hub, "reachable", lambda address: True)
    assert hub.fetched("timm:x", "somebody/x", ["a", "c"]) == Path("/hub/c")
    with pytest.raises(RequestError, match="somebody/x has none of the files a, d, and Sober loads no pickled"):
        hub.fetched("timm:x", "somebody/x", ["d", "a"])
    with pytest.raises(RequestError, match=r"the hub does not give somebody/x/broken .reset."):
        hub.fetched("timm:x", "somebody/x", ["broken"])
