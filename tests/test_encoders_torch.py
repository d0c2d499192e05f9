"""PyTorch modules as encoders. The tests need PyTorch, and are skipped without it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sober.encoders import EncoderOptions, features, open_encoder
from sober.encoders.torch_modules import blocks, is_module, prefix_tokens
from sober.errors import RequestError

torch = pytest.importorskip("torch", reason="needs the extra torch")
nn: Any = torch.nn
CPU = EncoderOptions(device="cpu")


def pictures(count: int = 40, side: int = 16, channels: int = 3) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 256, (count, side, side, channels), np.uint8)


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Dropout(0.5), nn.Linear(width, width))

    def forward(self, x: Any) -> Any:
        return x + self.mlp(self.norm(x))


class SmallViT(nn.Module):
    """A class token, two registers, sixteen patches."""

    def __init__(self, width: int = 8, depth: int = 3) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, 4)
        self.cls_token, self.register_tokens = (nn.Parameter(torch.randn(1, count, width)) for count in (1, 2))
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))

    def forward(self, x: Any) -> Any:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), self.register_tokens.expand(len(x), -1, -1), x], 1)
        for block in self.blocks:
            x = block(x)
        return x[:, 0], x


class Residual(nn.Module):
    def __init__(self, i: int, o: int) -> None:
        super().__init__()
        self.conv, self.norm, self.relu = nn.Conv2d(i, o, 3, 2, 1), nn.BatchNorm2d(o), nn.ReLU(inplace=True)

    def forward(self, x: Any) -> Any:
        return self.relu(self.norm(self.conv(x)))


class SmallResNet(nn.Module):
    """Two stages of blocks; the last layer writes into the output of the stage before it."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 4, 3, padding=1)
        self.layer1 = nn.Sequential(Residual(4, 6), Residual(6, 6))
        self.layer2 = nn.Sequential(Residual(6, 8), Residual(8, 8), Residual(8, 8))

    def forward(self, x: Any) -> Any:
        return self.layer2(self.layer1(self.stem(x))).mul_(2).mean((2, 3))


def test_a_module_gives_its_blocks_and_its_output() -> None:
    torch.manual_seed(0)
    vit = SmallViT()
    assert is_module(vit)
    assert blocks(vit) == ("blocks.0", "blocks.1", "blocks.2")
    encoder = open_encoder(vit, CPU)
    assert (encoder.name, encoder.channels, encoder.first_patch) == ("SmallViT", 3, 3)
    assert encoder.layers == ("blocks.0", "blocks.1", "blocks.2", "out")
    rows = {pooling: features(encoder, [pictures()], pooling) for pooling in ("mean", "class", "patches")}
    with torch.no_grad():
        x = torch.from_numpy(pictures().transpose(0, 3, 1, 2).astype(np.float32) / 255)
        token, tokens = vit.eval()(x)
    np.testing.assert_allclose(rows["mean"]["out"], token.numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(rows["mean"]["blocks.2"], tokens[:, 3:].mean(1).numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(rows["class"]["blocks.2"], token.numpy(), rtol=1e-4, atol=1e-5)
    assert rows["patches"]["blocks.0"].shape == (40, 16 * 8)


def test_a_person_s_module_stays_as_it_was() -> None:
    vit = SmallViT().train()
    vit.blocks[0].eval()
    before = copy.deepcopy(vit.state_dict())
    encoder = open_encoder(vit, CPU)
    features(encoder, [pictures()])
    assert encoder.untrained is not None
    features(encoder.untrained(0), [pictures()])
    assert vit.training
    assert not vit.blocks[0].training
    assert vit.blocks[1].mlp.training
    assert all(torch.equal(weight, before[name]) for name, weight in vit.state_dict().items())
    assert not any(module._forward_hooks for module in vit.modules())
    state = torch.random.get_rng_state()
    features(encoder.untrained(0), [pictures()])
    assert torch.equal(state, torch.random.get_rng_state())


def test_blocks_of_all_stages_are_layers_and_maps_get_channels_last() -> None:
    net = SmallResNet()
    encoder = open_encoder(net, CPU)
    assert encoder.layers == ("layer1.0", "layer1.1", "layer2.0", "layer2.1", "layer2.2", "out")
    assert encoder.channels == 1
    rows = features(encoder, [pictures(channels=3)])
    assert [array.shape[1] for array in rows.values()] == [6, 6, 8, 8, 8, 8]
    np.testing.assert_allclose(2 * rows["layer2.2"], rows["out"], rtol=1e-4, atol=1e-6)
    assert features(encoder, [pictures(channels=1)], "patches")["layer1.0"].shape == (40, 8 * 8 * 6)


def test_layers_by_name_and_the_last_alone() -> None:
    vit = SmallViT()
    named = open_encoder(vit, EncoderOptions(layers=("blocks.1.mlp", "patches"), device="cpu"))
    assert set(features(named, [pictures()])) == {"blocks.1.mlp", "patches"}
    assert open_encoder(vit, EncoderOptions(layers="last", device="cpu")).layers == ("out",)
    with pytest.raises(RequestError, match=r"SmallViT has no layer 'block.1': did you mean 'blocks.1'"):
        open_encoder(vit, EncoderOptions(layers=("block.1",), device="cpu"))


def test_a_layer_that_does_not_run_is_named() -> None:
    vit = SmallViT()
    vit.unused = nn.Linear(3, 3)
    with pytest.raises(RequestError, match="SmallViT has no layer 'unused'"):
        features(open_encoder(vit, EncoderOptions(layers=("unused",), device="cpu")), [pictures()])


def test_pixels_are_normalised_as_a_person_says() -> None:
    flat = open_encoder(nn.AvgPool2d(16), EncoderOptions(device="cpu", mean=(0.5,) * 3, std=(0.1, 0.2, 0.3)))
    expected = (pictures().mean((1, 2)) / 255 - 0.5) / np.array([0.1, 0.2, 0.3])
    np.testing.assert_allclose(features(flat, [pictures()])["out"], expected, rtol=1e-3, atol=1e-4)


def test_a_sequential_gives_every_step() -> None:
    net = nn.Sequential(nn.Conv2d(3, 4, 3, 2), nn.ReLU(inplace=True), nn.Flatten(), nn.LazyLinear(5))
    net(torch.zeros(1, 3, 16, 16))
    encoder = open_encoder(net, CPU)
    assert encoder.layers == ("0", "1", "2", "3", "out")
    rows = features(encoder, [pictures()])
    assert rows["0"].min() < 0 <= rows["1"].min()  # the ReLU writes into the output of the convolution


def test_results_like_those_of_transformers_are_understood() -> None:
    class Output:
        def __init__(self, x: Any) -> None:
            self.last_hidden_state = x

    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.vit = SmallViT()

        def forward(self, x: Any) -> Any:
            return Output(self.vit(x)[1])

    rows = features(open_encoder(Wrapped(), CPU), [pictures()])
    np.testing.assert_allclose(rows["out"], rows["vit.blocks.2"], rtol=1e-5, atol=1e-6)


def test_tokens_before_pictures_are_turned() -> None:
    class Turned(nn.Module):
        def forward(self, x: Any) -> Any:
            return x.flatten(2).permute(2, 0, 1)

    rows = features(open_encoder(Turned(), CPU), [pictures()])["out"]
    np.testing.assert_allclose(rows, pictures().mean((1, 2)) / 255, rtol=1e-4)


def test_batch_statistics_do_not_matter_in_evaluation_mode() -> None:
    net = SmallResNet().train()
    rows = features(open_encoder(net, EncoderOptions(device="cpu", batch=32)), [pictures()])
    alone = features(open_encoder(net, EncoderOptions(device="cpu", batch=3)), [pictures()])
    for layer, array in rows.items():
        np.testing.assert_allclose(array, alone[layer], rtol=1e-3, atol=1e-5)


def test_half_precision_is_close() -> None:
    torch.manual_seed(0)
    vit = SmallViT()
    full = features(open_encoder(vit, CPU), [pictures()])
    half = features(open_encoder(vit, EncoderOptions(device="cpu", half=True)), [pictures()])
    for layer, array in full.items():
        assert half[layer].dtype == np.float32
        assert 0 < np.abs(half[layer] - array).max() < 0.1
    in_half = features(open_encoder(copy.deepcopy(vit).bfloat16(), CPU), [pictures()])
    assert np.abs(in_half["out"] - full["out"]).max() < 0.1


def test_an_untrained_module_has_the_same_weights_in_another_order() -> None:
    vit = SmallViT()
    encoder = open_encoder(vit, CPU)
    assert encoder.untrained is not None
    rows, first, again, other = (
        features(opened, [pictures()])
        for opened in (encoder, encoder.untrained(0), encoder.untrained(0), encoder.untrained(1))
    )
    for layer in rows:
        np.testing.assert_array_equal(first[layer], again[layer])
        assert np.abs(first[layer] - other[layer]).max() > 1e-3
        assert np.abs(first[layer] - rows[layer]).max() > 1e-3


def test_a_function_may_give_tensors() -> None:
    vit = SmallViT().eval()

    def encode(images: np.ndarray) -> dict[str, Any]:
        x = torch.from_numpy(images).permute(0, 3, 1, 2)
        return {"maps": vit.patches(x), "half": vit(x)[0].bfloat16()}

    rows = features(open_encoder(encode), [pictures()])
    assert {layer: array.shape for layer, array in rows.items()} == {"maps": (40, 8), "half": (40, 8)}
    both = open_encoder(None, CPU, layers={"patches": vit.patches, "mean": lambda x: x.mean((1, 2))})
    assert {layer: array.shape[1] for layer, array in features(both, [pictures()]).items()} == {"patches": 8, "mean": 3}


def test_a_module_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_net.py").write_text("import torch\nencoder = torch.nn.Conv2d(3, 2, 4, 4)\n")
    encoder = open_encoder("my_net:encoder", CPU)
    assert (encoder.name, encoder.layers) == ("my_net:encoder", ("out",))
    assert encoder.untrained is not None
    assert encoder.untrained(0).name == "my_net:encoder"


@pytest.mark.parametrize(
    ("module", "options", "words"),
    [
        (nn.Linear(7, 2), CPU, r"Linear fails on pictures of 16x16x3 .*does it need another size\? give --size"),
        (nn.Conv2d(3, 2, 30), CPU, "does it need another size"),
        (nn.Conv2d(3, 2, 3), EncoderOptions(device="quantum"), "PyTorch cannot use the device 'quantum'"),
    ],
)
def test_what_goes_wrong_is_one_line(module: Any, options: EncoderOptions, words: str) -> None:
    with pytest.raises(RequestError, match=words) as error:
        features(open_encoder(module, options), [pictures()])
    assert "\n" not in str(error.value)


def test_prefix_tokens() -> None:
    vit = SmallViT()
    assert prefix_tokens(vit) == 3
    assert prefix_tokens(nn.Linear(3, 3)) == 0
    vit.num_prefix_tokens = 5
    assert prefix_tokens(vit) == 5
