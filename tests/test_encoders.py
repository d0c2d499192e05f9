"""Encoders without other libraries: functions, models of Sober, classic features, saved features, and the running."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest
from safetensors.numpy import save_file

from families import BLOCKS, small_runs
from sober.encoders import (
    ENCODERS,
    Encoder,
    EncoderOptions,
    SavedFeatures,
    features,
    holds_features,
    open_encoder,
    saved_features,
)
from sober.encoders.outputs import WIDEST, as_numpy, channels_last, first_array, pooled, projected
from sober.encoders.pictures import as_floats, with_channels, with_side
from sober.encoders.running import CHECKED, FITTED_ON, adapted, check_batches, layer_rows
from sober.encoders.shuffled_weights import shuffled
from sober.errors import RequestError
from sober.models.model import Model
from sober.models.named_arrays import named_arrays
from sober.nets import NETS
from sober.requests.train import train

FEW = EncoderOptions(batch=24)


def pictures(count: int = 40, side: int = 16, channels: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, side, side, channels), np.uint8)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A current folder with modules of its own; Python forgets them afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


# Functions.


def test_a_function_gets_floats_and_gives_its_features() -> None:
    given = []

    def colours(images: np.ndarray) -> np.ndarray:
        given.append(images)
        return images.mean(axis=(1, 2))

    images = pictures()
    rows = features(open_encoder(colours, FEW), [images[:30], images[30:]])
    assert list(rows) == ["out"]
    np.testing.assert_allclose(rows["out"], images.mean(axis=(1, 2)) / 255, rtol=1e-5)
    assert rows["out"].dtype == np.float32
    assert {array.dtype for array in given} == {np.dtype(np.float32)}
    assert max(array.max() for array in given) <= 1
    assert max(map(len, given)) <= FEW.batch
    assert open_encoder(colours).name == "colours"


def maps_and_tokens(images: np.ndarray) -> dict[str, Any]:
    x = jnp.asarray(images)
    return {"maps": x * 2, "tokens": x.reshape(len(x), -1, 3).astype(jnp.bfloat16), "flat": (x[:, 0, 0], "more")}


def test_a_mapping_gives_layers_of_any_shape_and_library() -> None:
    images = pictures()
    rows = features(open_encoder(maps_and_tokens), [images])
    assert list(rows) == ["maps", "tokens", "flat"]
    mean = images.mean(axis=(1, 2)) / 255
    np.testing.assert_allclose(rows["maps"], 2 * mean, rtol=1e-5)
    np.testing.assert_allclose(rows["tokens"], mean, atol=1e-2)
    np.testing.assert_allclose(rows["flat"], images[:, 0, 0] / 255, rtol=1e-5)


@pytest.mark.parametrize(
    ("layers", "names"), [("all", ["maps", "tokens", "flat"]), ("last", ["flat"]), (("tokens",), ["tokens"])]
)
def test_layers_of_a_function_can_be_chosen(layers: Any, names: list[str]) -> None:
    assert list(features(open_encoder(maps_and_tokens, EncoderOptions(layers=layers)), [pictures()])) == names


def test_an_unknown_layer_is_named_with_what_there_is() -> None:
    with pytest.raises(RequestError, match=r"maps_and_tokens has no layer 'token': did you mean 'tokens'\?"):
        features(open_encoder(maps_and_tokens, EncoderOptions(layers=("token",))), [pictures()])


def test_layers_can_be_functions_of_their_own() -> None:
    images = pictures()
    encoder = open_encoder(None, layers={"mid": lambda x: x[:, 0], "out": lambda x: x.mean((1, 2))})
    assert encoder.layers == ("mid", "out")
    rows = features(encoder, [images], "patches")
    np.testing.assert_allclose(rows["mid"], images[:, 0].reshape(40, -1) / 255, rtol=1e-5)
    assert rows["out"].shape == (40, 3)
    same = open_encoder({"mid": lambda x: x[:, 0], "out": "pixels"})
    assert {layer: array.shape for layer, array in features(same, [images]).items()} == {
        "mid": (40, 3),
        "out": (40, 768),
    }
    assert open_encoder(maps_and_tokens, layers={"mid": np.sum}).name == "maps_and_tokens"
    with pytest.raises(RequestError, match="layers is empty"):
        open_encoder(None, layers={})


def test_a_list_has_a_row_for_each_picture() -> None:
    rows = features(open_encoder(lambda x: [picture.mean((0, 1)) for picture in x]), [pictures()])
    assert rows["out"].shape == (40, 3)


def test_pixels_are_normalised_as_a_person_says() -> None:
    options = EncoderOptions(mean=(0.1, 0.2, 0.3), std=(0.5, 0.6, 0.7))
    rows = features(open_encoder(lambda x: x.mean((1, 2)), options), [pictures()])["out"]
    expected = (pictures().mean((1, 2)) / 255 - np.array([0.1, 0.2, 0.3])) / np.array([0.5, 0.6, 0.7])
    np.testing.assert_allclose(rows, expected, rtol=1e-4, atol=1e-5)
    for source in ("pixels", "random"):
        with pytest.raises(RequestError, match=f"{source} takes pixels as they are: leave mean and std out"):
            open_encoder(source, options)


@pytest.mark.parametrize(("mean", "std"), [((0.5,), ()), ((0.5, 0.5), (1, 1)), ((0,), (0,)), ((np.nan,), (1,))])
def test_a_mean_needs_a_spread(mean: tuple[float, ...], std: tuple[float, ...]) -> None:
    with pytest.raises(RequestError, match="mean"):
        EncoderOptions(mean=mean, std=std)


# Functions by name.


def test_a_function_in_a_module_of_the_current_folder(here: Path) -> None:
    (here / "my_helper.py").write_text("SCALE = 3\n")
    (here / "my_module.py").write_text(
        "class models:\n"
        "    @staticmethod\n"
        "    def encoder(x):\n"
        "        from my_helper import SCALE\n"  # imported when it runs
        "        return SCALE * x.mean((1, 2))\n"
        "number = 3\n"
    )
    encoder = open_encoder("my_module:models.encoder")
    assert encoder.name == "my_module:models.encoder"
    np.testing.assert_allclose(features(encoder, [pictures()])["out"], 3 * pictures().mean((1, 2)) / 255, rtol=1e-5)
    assert sys.path[0] != str(here)


@pytest.mark.parametrize(
    ("source", "text", "words"),
    [
        ("no_such_module:encoder", None, "there is no Python module 'no_such_module' in .*without .py"),
        ("no_such.inner:encoder", None, "there is no Python module 'no_such.inner'"),
        ("own:encode", "def encoder(x): return x", r"own has no 'encode': did you mean 'encoder'\?"),
        ("own:encoder", "encoder = 3", "own:encoder is 3: name a function"),
        ("own:encoder", "1 / 0", "importing own fails .ZeroDivisionError: division by zero."),
        ("own:encoder", "import no_such_library", "own needs no_such_library, which is not installed"),
        ("own:", "x = 3", "own has no ''"),
    ],
)
def test_a_function_that_is_not_there_is_one_line(here: Path, source: str, text: str | None, words: str) -> None:
    if text is not None:
        (here / "own.py").write_text(text)
    with pytest.raises(RequestError, match=words) as error:
        open_encoder(source)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("source", ["dinov2", "hogg", "./encoder", 3, None])
def test_what_names_no_encoder_is_told_with_examples(source: Any) -> None:
    with pytest.raises(RequestError, match=r"is no encoder|names no encoder: write one like"):
        open_encoder(source)


def test_every_kind_has_an_example_that_it_takes(tmp_path: Path) -> None:
    for name, kind in ENCODERS.items():
        takers = [other for other, entry in ENCODERS.items() if entry.takes(kind.example)]
        assert takers[0] == name


def test_every_kind_is_on_the_page() -> None:
    page = (Path(__file__).parents[1] / "docs" / "encoders.md").read_text(encoding="utf-8")
    for kind in ENCODERS.values():
        assert f"`{kind.example}`" in page
        assert not kind.package or f"pip install {kind.package}`" in page
    for field in dataclasses.fields(EncoderOptions):
        assert f"| `{field.name}`" in page or f", `{field.name}` |" in page


# Running.


def encoder_of(function: Callable[[np.ndarray], Any], **fields: Any) -> Encoder:
    return Encoder("mine", ("out",), lambda images: {"out": function(as_floats(images))}, **fields)


def test_pictures_get_the_channels_and_the_size_of_the_encoder() -> None:
    grey = pictures(channels=1)
    rgb = encoder_of(lambda x: x, channels=3)
    assert {batch.shape[1:] for batch in adapted(rgb, [grey])} == {(16, 16, 3)}
    np.testing.assert_array_equal(next(adapted(rgb, [grey]))[..., 2], grey[..., 0])
    colours = pictures()
    one = next(adapted(encoder_of(lambda x: x, channels=1), [colours]))
    np.testing.assert_array_equal(one[..., 0], colours.mean(3).astype(np.float32).round())
    small = next(adapted(encoder_of(lambda x: x, side=4), [colours]))
    assert small.shape == (40, 4, 4, 3)
    assert small.dtype == np.uint8
    assert np.abs(small[:, 1:3, 1:3].astype(float).mean() - colours.astype(float).mean()) < 10
    assert with_side(colours, 16) is colours
    assert with_side(colours, None) is colours
    assert with_channels(colours, None) is colours
    sizes = [len(batch) for batch in adapted(encoder_of(lambda x: x, batch=16), [colours, colours[:3]])]
    assert sizes == [16, 16, 8, 3]


@pytest.mark.parametrize("odd", [pictures().astype(np.float32), pictures()[0]])
def test_pictures_are_bytes(odd: np.ndarray) -> None:
    with pytest.raises(RequestError, match="pictures must be bytes"):
        features(encoder_of(lambda x: x), [odd])


def noise(x: np.ndarray) -> np.ndarray:
    return np.random.default_rng().normal(size=(len(x), 5))


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: x.mean((1, 2))[:-1], "layer out: shape .* for 16 pictures: give one row for each picture"),
        (lambda x: x[:, 0, 0, :0], "shape .* for 16 pictures: give one row"),
        (lambda x: np.where(x < 1.1, np.nan, 0), "layer out: some features are not finite"),
        (lambda x: x - x.mean(0), "features of a picture change with the batch, by .*evaluation mode"),
        (noise, "features of a picture change with the batch"),
        (lambda x: x[:, None, None], r"layer out: a layer gave shape \(16, 1, 1, 16, 16, 3\)"),
        (lambda x: np.array(["a"] * len(x)), "holds no features"),
        (lambda x: x @ np.ones((7, 2)), "mine fails on pictures of 16x16x3 .*does it need another size. give --size"),
        (lambda x: x.no_such, "mine fails on pictures .*its own code failed"),
        (lambda x: np.zeros(10**15), r"fewer than 16 pictures at once \(--batch\)"),
    ],
)
def test_what_encoders_get_wrong_is_one_line(function: Callable, words: str) -> None:
    with pytest.raises(RequestError, match=words) as error:
        features(encoder_of(function), [pictures()])
    assert "\n" not in str(error.value)
    assert "mine" in str(error.value)


def test_a_late_batch_is_checked_too() -> None:
    def wrong(x: np.ndarray) -> np.ndarray:
        return x[:, 0, 0] if len(x) > 10 else x[:, 0, 0] * np.inf

    with pytest.raises(RequestError, match="not finite"), np.errstate(invalid="ignore"):
        features(encoder_of(wrong), [pictures(), pictures(5)])


def test_widths_that_change_are_refused() -> None:
    with pytest.raises(RequestError, match=r"\[3, 4\] features for different batches"):
        features(encoder_of(lambda x: np.ones((len(x), 3 + (len(x) == 7)))), [pictures(), pictures(7)])


def test_no_pictures_are_refused() -> None:
    with pytest.raises(RequestError, match="no pictures"):
        features(encoder_of(lambda x: x), [])


@pytest.mark.parametrize("count", [1, 2, 7, CHECKED, 17, 24, 33, 64])
@pytest.mark.parametrize("batch", [1, 3, 16, 24, 64])
def test_rounding_of_half_precision_is_no_change_with_the_batch(count: int, batch: int) -> None:
    def half(x: np.ndarray) -> np.ndarray:
        rows = 10 + x.reshape(len(x), -1)[:, :50]
        return rows * (1 + 5e-4 * (-1) ** len(x))

    encoder = encoder_of(half, batch=batch)
    check_batches(encoder, pictures(count)[:batch])


@pytest.mark.parametrize("count", [2, 17, 40])
def test_batch_statistics_and_dropout_are_a_change(count: int) -> None:
    rng = np.random.default_rng(0)

    def normalised(x: np.ndarray) -> np.ndarray:
        rows = x.reshape(len(x), -1)
        return (rows - rows.mean(0)) / (rows.std(0) + 1e-3)

    def dropped(x: np.ndarray) -> np.ndarray:
        return x.reshape(len(x), -1) * (rng.random((len(x), 768)) > 0.1)

    for function in (normalised, dropped):
        with pytest.raises(RequestError, match="change with the batch"):
            check_batches(encoder_of(function, batch=64), pictures(count))


# Pooling.


def test_pooling_of_tokens_and_maps() -> None:
    rng = np.random.default_rng(0)
    tokens, maps = rng.normal(size=(5, 9, 4)).astype(np.float32), rng.normal(size=(5, 3, 2, 4)).astype(np.float32)
    np.testing.assert_allclose(pooled(tokens, "mean", 1), tokens[:, 1:].mean(1), rtol=1e-5)
    np.testing.assert_allclose(pooled(tokens, "mean"), tokens.mean(1), rtol=1e-5)
    np.testing.assert_array_equal(pooled(tokens, "class", 1), tokens[:, 0])
    np.testing.assert_array_equal(pooled(tokens, "patches", 5), tokens[:, 5:].reshape(5, -1))
    np.testing.assert_allclose(pooled(maps, "mean", 1), maps.mean((1, 2)), rtol=1e-5)
    np.testing.assert_array_equal(pooled(maps, "patches", 1), maps.reshape(5, -1))
    np.testing.assert_array_equal(pooled(maps[:, 0, 0], "class"), maps[:, 0, 0])
    assert pooled(np.arange(5), "mean").shape == (5, 1)
    for wrong, first_patch in ((maps, 1), (tokens, 0)):
        with pytest.raises(RequestError, match="no known class token"):
            pooled(wrong, "class", first_patch)


def test_many_patches_are_projected_and_keep_their_distances() -> None:
    rng = np.random.default_rng(0)
    wide = rng.normal(size=(30, 20_000)).astype(np.float32) + rng.normal(size=(30, 1)).astype(np.float32)
    narrow = projected(wide)
    assert narrow.shape == (30, WIDEST)
    assert narrow.dtype == np.float32
    before, after = (np.linalg.norm(rows[:15] - rows[15:], axis=1) for rows in (wide, narrow))
    np.testing.assert_allclose(after, before, rtol=0.12)
    np.testing.assert_array_equal(narrow[:7], projected(wide[:7]))
    assert projected(wide[:, :WIDEST]) is not None
    np.testing.assert_array_equal(projected(wide[:, :WIDEST]), wide[:, :WIDEST])


def test_channels_go_last() -> None:
    maps = np.zeros((2, 5, 4, 4))
    assert channels_last(maps).shape == (2, 4, 4, 5)
    assert channels_last(np.zeros((2, 4, 4, 5))).shape == (2, 4, 4, 5)
    assert channels_last(np.zeros((2, 4, 3, 5))).shape == (2, 3, 5, 4)
    assert channels_last(np.zeros((2, 9, 5))).shape == (2, 9, 5)


def test_the_array_of_a_layer_with_several_things() -> None:
    class Output:
        last_hidden_state = "hidden"

    assert first_array((1, 2)) == 1
    assert first_array({"a": (4, 5)}) == 4
    assert first_array({"a": 4, "last_hidden_state": 5}) == 5
    assert first_array((Output(), 2)) == "hidden"
    assert as_numpy(jnp.ones((2, 3), jnp.bfloat16)).dtype == np.float32


# Models of Sober.


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("encoders") / "runs"
    train(small_runs(steps=2)[:1], BLOCKS, folder)
    (path,) = folder.glob("models/*.safetensors")
    return path


def test_a_file_of_a_model_gives_the_mean_and_the_layers_before_it(trained: Path) -> None:
    images = np.asarray(BLOCKS.sample(0, 40).images)
    encoder = open_encoder(str(trained))
    assert encoder.layers[-1] == "mean"
    assert len(encoder.layers) >= 3
    assert encoder.side == BLOCKS.image_shape[0]
    rows = features(encoder, [images])
    model = Model_of(trained)
    np.testing.assert_allclose(rows["mean"], model.encode(images)[0], rtol=1e-4, atol=1e-5)
    assert (rows[encoder.layers[0]] >= 0).all()  # after its activation
    assert open_encoder(trained, EncoderOptions(layers="last")).layers == ("mean",)
    assert open_encoder(model).name == f"model {model.run.identity}"


def Model_of(path: Path) -> Model:  # noqa: N802
    from sober.models.model import load  # noqa: PLC0415

    return load(path)


def test_an_untrained_model_has_the_same_weights_in_another_order(trained: Path) -> None:
    images = np.asarray(BLOCKS.sample(0, 40).images)
    encoder = open_encoder(trained)
    assert encoder.untrained is not None
    first, same, other = (features(encoder.untrained(seed), [images]) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first["mean"], same["mean"])
    assert np.abs(first["mean"] - other["mean"]).max() > 1e-3
    assert np.abs(first["mean"] - features(encoder, [images])["mean"]).max() > 1e-3


@pytest.mark.parametrize("name", [name for name in NETS if name not in ("conv_bn_wide",)])
def test_every_net_has_named_layers(name: str) -> None:
    from sober.methods import METHODS  # noqa: PLC0415
    from sober.nets.autoencoder import autoencoder  # noqa: PLC0415
    from sober.types import Run  # noqa: PLC0415

    assert METHODS
    net = autoencoder(jax.random.key(0), NETS[name], (64, 64, 1), 4)
    model = Model(Run("blocks", "beta_vae", {"beta": 1.0}, nets=name, latents=4), (64, 64, 1), net)
    encoder = open_encoder(model, EncoderOptions(batch=4))
    outputs = encoder.forward(pictures(3, 64, 1))
    assert tuple(outputs) == encoder.layers or set(outputs) == set(encoder.layers)
    assert all(encoder.layers)
    assert encoder.layers[-1] == "mean"


def test_shuffling_keeps_the_numbers_and_leaves_vectors_alone() -> None:
    rng = np.random.default_rng(0)
    matrix, vector = rng.normal(size=(20, 30)), rng.normal(size=50)
    mixed = shuffled(matrix, "a", 0)
    assert not np.array_equal(mixed, matrix)
    np.testing.assert_array_equal(np.sort(mixed.reshape(-1)), np.sort(matrix.reshape(-1)))
    np.testing.assert_array_equal(mixed, shuffled(matrix, "a", 0))
    assert not np.array_equal(mixed, shuffled(matrix, "b", 0))
    assert not np.array_equal(mixed, shuffled(matrix, "a", 1))
    assert shuffled(vector, "a", 0) is vector


# Classic features.


def test_pixels_are_block_means() -> None:
    rows = features(open_encoder("pixels"), [pictures(side=64)])["pixels"]
    assert rows.shape == (40, 32 * 32 * 3)
    expected = pictures(side=64).reshape(40, 32, 2, 32, 2, 3).mean((2, 4)) / 255
    np.testing.assert_allclose(rows, expected.reshape(40, -1), rtol=1e-5)
    assert features(open_encoder("pixels"), [pictures(side=10)])["pixels"].shape == (40, 300)


def test_pca_is_fitted_to_the_first_pictures_and_stays() -> None:
    images = pictures(FITTED_ON + 50, 4, 1)
    rows = features(open_encoder("pca:5"), [images[:300], images[300:]])["pca"]
    flat = images.reshape(len(images), -1) / 255
    mean = flat[:FITTED_ON].mean(0)
    axes = np.linalg.svd(flat[:FITTED_ON] - mean, full_matrices=False)[2][:5]
    np.testing.assert_allclose(np.abs(rows), np.abs((flat - mean) @ axes.T), atol=1e-4)
    with pytest.raises(RequestError, match="40 pictures of 16 block means have at most 16 components"):
        features(open_encoder("pca:17"), [images[:40]])
    with pytest.raises(RequestError, match="has not seen any pictures"):
        layer_rows(open_encoder("pca:5"), images[:5], "mean")


@pytest.mark.parametrize("source", ["pca", "pca:", "pca:0", "pca:x", "pca:-3", "pca:2.5"])
def test_pca_needs_a_number(source: str) -> None:
    with pytest.raises(RequestError, match="say how many components, as in pca:10"):
        open_encoder(source)


def test_the_random_net_is_the_same_for_everybody_but_for_the_seed() -> None:
    encoder = open_encoder("random", FEW)
    rows = features(encoder, [pictures(side=32)])
    assert [array.shape[1] for array in rows.values()] == [16, 32, 64, 128, 512]
    again = features(open_encoder("random", FEW), [pictures(side=32)])
    other = features(open_encoder("random", EncoderOptions(seed=1)), [pictures(side=32)])
    for layer, array in rows.items():
        np.testing.assert_array_equal(array, again[layer])
        assert np.abs(array - other[layer]).max() > 1e-2
        assert 0.05 < np.sqrt(np.square(array).mean()) < 5
    assert features(open_encoder("random"), [pictures(side=9, channels=1)])["out"].shape == (40, 128)
    assert encoder.untrained is not None
    assert encoder.untrained(3).layers == encoder.layers


def test_hog_needs_scikit_image_or_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("skimage")
    for side in (16, 64, 130):
        rows = features(open_encoder("hog"), [pictures(side=side)])["hog"]
        assert rows.shape == (40, 7 * 7 * 2 * 2 * 9)
        assert (rows >= 0).all()
        assert rows.max() <= 1


def test_without_scikit_image_hog_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "skimage", None)
    monkeypatch.setitem(sys.modules, "skimage.feature", None)
    with pytest.raises(RequestError, match="hog needs the package scikit-image: pip install scikit-image"):
        open_encoder("hog")


# Saved features.


def test_features_are_read_from_every_kind_of_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(12, 4)).astype(np.float32)
    np.save(tmp_path / "late.npy", rows)
    np.savez(tmp_path / "a.npz", mid=rows[:, :2], out=rows, factors=np.arange(12))
    save_file({"mid": rows[:, :2], "out": rows}, tmp_path / "a.safetensors")
    frame = pl.DataFrame(rows, schema=list("abcd"))
    frame.write_csv(tmp_path / "table.csv")
    frame.write_parquet(tmp_path / "table.parquet")
    pl.DataFrame({"picture": [f"{n}.png" for n in range(12)], "cls": rows.tolist()}).write_parquet(
        tmp_path / "lists.parquet"
    )
    layers = {
        "late.npy": {"late": 4},
        "a.npz": {"mid": 2, "out": 4},
        "a.safetensors": {"mid": 2, "out": 4},
        "table.csv": {"table": 4},
        "table.parquet": {"table": 4},
        "lists.parquet": {"cls": 4},
    }
    for name, widths in layers.items():
        assert holds_features(str(tmp_path / name))
        saved = saved_features(tmp_path / name)
        assert {layer: array.shape[1] for layer, array in saved.features().items()} == widths, name
        np.testing.assert_allclose(list(saved.features().values())[-1], rows, rtol=1e-5)
        assert saved.rows == 12
        with pytest.raises(RequestError, match="features of fixed pictures, and cannot encode others"):
            open_encoder(str(tmp_path / name))


def test_features_may_be_arrays_of_any_library_and_shape() -> None:
    saved = saved_features({"tokens": jnp.ones((6, 5, 2)), "maps": np.ones((6, 2, 2, 3)), "flat": np.ones(6)})
    assert {layer: array.shape for layer, array in saved.features("patches").items()} == {
        "tokens": (6, 10),
        "maps": (6, 12),
        "flat": (6, 1),
    }
    assert list(saved.only(("maps", "flat")).layers) == ["maps", "flat"]
    assert repr(saved).startswith("Saved features features of 6 pictures\nlayer")
    assert saved_features(saved) is saved
    assert saved_features(np.ones((3, 2))).features()["features"].shape == (3, 2)
    assert holds_features(np.ones((3, 2)))
    assert not holds_features(np.mean)
    with pytest.raises(RequestError, match="has no layer 'map': did you mean 'maps'"):
        saved.only(("map",))


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        ({}, "has no features"),
        ({"a": np.ones((3, 2)), "b": np.ones((4, 2))}, "layer a has 3 rows and layer b 4: all layers need one row"),
        (
            {"a": np.array([[1, 2], [np.nan, 3]])},
            "layer a: some features are not finite in float32, the first in row 1",
        ),
        ({"a": np.array([[1.0], [1e300]])}, "layer a: some features are not finite in float32, the first in row 1"),
        ({"a": np.array(["x", "y"])}, "layer a: an array of <U1 holds no features"),
        ({"a": np.ones((2, 2, 2, 2, 2))}, r"layer a has shape \(2, 2, 2, 2, 2\)"),
        ({"a": np.ones((0, 2))}, r"layer a has shape \(0, 2\)"),
        ({"a": np.array([object(), None])}, "holds no features"),
    ],
)
def test_features_that_cannot_be_used_are_one_line(layers: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        SavedFeatures(layers)


def test_files_that_hold_no_features_are_one_line(tmp_path: Path) -> None:
    for name, words in {
        "none.npy": "there is no file",
        "a.pt": "pickled Python objects, which Sober never loads",
        "a.txt2": "of no kind that Sober reads",
        "a.csv": "column 'name' holds no numbers",
        "ragged.parquet": "lists of different lengths",
    }.items():
        if name == "ragged.parquet":
            pl.DataFrame({"x": [[1.0], [1.0, 2.0]]}).write_parquet(tmp_path / name)
        elif not name.startswith("none"):
            (tmp_path / name).write_text("name,b\nx,1\ny,2\n")
        with pytest.raises(RequestError, match=words) as error:
            saved_features(tmp_path / name)
        assert "\n" not in str(error.value)


def test_a_model_of_sober_holds_no_features(trained: Path) -> None:
    assert not holds_features(trained)
    assert named_arrays(Model_of(trained).autoencoder, "model")


# Sizes and copies.


def test_an_encoder_of_any_size_gets_pictures_of_the_size_that_a_person_gives() -> None:
    for source in ("pixels", "random", maps_and_tokens, {"mid": maps_and_tokens}):
        encoder = open_encoder(source, EncoderOptions(size=8))
        assert encoder.side == 8
        assert encoder.untrained is None or encoder.untrained(0).side == 8
    rows = features(open_encoder("pca:3", EncoderOptions(size=2)), [pictures()])
    assert rows["pca"].shape == (40, 3)
    assert features(open_encoder("pixels", EncoderOptions(size=8)), [pictures()])["pixels"].shape == (40, 192)
    with pytest.raises(RequestError, match="size must be at least 1"):
        EncoderOptions(size=0)


def test_an_encoder_of_one_size_refuses_another(trained: Path) -> None:
    side = BLOCKS.image_shape[0]
    assert open_encoder(trained, EncoderOptions(size=side)).side == side
    with pytest.raises(RequestError, match=f"takes pictures of {side} x {side} only: leave the size 224 out"):
        open_encoder(trained, EncoderOptions(size=224))


def test_chosen_layers_stay_chosen_in_the_untrained_form(trained: Path) -> None:
    encoder = open_encoder(trained).only(("mean",))
    assert encoder.untrained is not None
    assert encoder.untrained(0).layers == ("mean",)
    assert open_encoder(encoder, EncoderOptions(layers="last")).layers == ("mean",)
    with pytest.raises(RequestError, match=r"has no layer 'men': did you mean 'mean'\?"):
        encoder.only(("men",))


# How they print.


def test_encoders_print_in_a_line() -> None:
    assert repr(open_encoder("pixels")) == "Encoder pixels: 1 layer, pictures of any size"
    assert repr(open_encoder(maps_and_tokens)).endswith("layers by its first output, pictures of any size")
    assert repr(EncoderOptions(batch=3)) == "EncoderOptions(batch=3)"
    with pytest.raises(RequestError, match="batch must be at least 1"):
        EncoderOptions(batch=0)


def test_options_take_names_as_people_write_them() -> None:
    assert EncoderOptions(layers="mid, out").layers == EncoderOptions(layers=["mid", "out"]).layers == ("mid", "out")
    assert EncoderOptions(layers=("last",)).layers == EncoderOptions(layers="last").layers == "last"
    with pytest.raises(RequestError, match="layers is empty"):
        EncoderOptions(layers=())
    with pytest.raises(RequestError, match="weights 'some' is unknown: choose one of pretrained, random"):
        EncoderOptions(weights="some")
