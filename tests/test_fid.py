"""fid: distances of Gaussians that are known, features by function and by file, and pictures that models decode."""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from families import BLOCKS, small_runs
from sober.encoders.pictures import resized, weights_of
from sober.errors import RequestError
from sober.estimators.frechet import FeatureMoments
from sober.models.encode import encode_pictures
from sober.models.model import Model
from sober.requests.results import Results
from sober.requests.train import train
from sober.tasks import TASKS, Subjects
from sober.tasks.decoded_pictures import BATCH, decoded_pictures, world_pictures
from sober.tasks.features import FEATURES, fingerprint, network, pixels
from sober.tasks.fid import frechet_distance
from test_pipe import model as perfect

TASK = TASKS["fid"]
FEW: dict[str, Any] = {"pictures": 500}


def rows_with(mean: np.ndarray, covariance: np.ndarray, rng: np.random.Generator, count: int = 50) -> np.ndarray:
    """Rows whose mean and covariance are exactly these; the covariance may lack rank."""
    noise = rng.normal(size=(count, len(mean)))
    noise -= noise.mean(axis=0)
    whitened = np.linalg.qr(noise)[0] * np.sqrt(count - 1)
    values, axes = np.linalg.eigh(covariance)
    return mean + whitened @ (axes * np.sqrt(values.clip(0))).T


def turned(rng: np.random.Generator, width: int) -> np.ndarray:
    return np.linalg.qr(rng.normal(size=(width, width)))[0]


@given(st.integers(0, 10_000), st.integers(1, 6))
@settings(max_examples=40, deadline=None)
def test_of_covariances_that_commute_the_distance_is_known(seed: int, width: int) -> None:
    """|μ₁ - μ₂|² + Σ (σ₁ - σ₂)² along common axes, some of which have no spread."""
    rng = np.random.default_rng(seed)
    axes, means = turned(rng, width), rng.normal(size=(2, width))
    spreads = rng.uniform(0, 3, size=(2, width)) * (rng.random((2, width)) > 0.3)
    a, b = (rows_with(mean, axes * spread**2 @ axes.T, rng) for mean, spread in zip(means, spreads, strict=True))
    expected = np.sum((means[0] - means[1]) ** 2) + np.sum((spreads[0] - spreads[1]) ** 2)
    assert frechet_distance(a, b) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@given(st.integers(0, 10_000), st.integers(1, 8), st.integers(4, 40))
@settings(max_examples=40, deadline=None)
def test_it_is_symmetric_0_for_the_same_and_blind_to_turns_and_shifts(seed: int, width: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(count, width)), rng.normal(size=(count + 3, width)) @ rng.normal(size=(width, width))
    distance, turn, shift = frechet_distance(a, b), turned(rng, width), rng.normal(size=width)
    assert distance >= 0
    assert frechet_distance(b, a) == pytest.approx(distance, rel=1e-9, abs=1e-9)
    assert frechet_distance(a @ turn + shift, b @ turn + shift) == pytest.approx(distance, rel=1e-9, abs=1e-9)
    assert frechet_distance(3 * a, 3 * b) == pytest.approx(9 * distance, rel=1e-9, abs=1e-9)
    assert frechet_distance(a, a[::-1]) == pytest.approx(0, abs=1e-9 * (1 + np.sum(a**2)))
    moved = frechet_distance(a, a + shift)
    assert moved == pytest.approx(np.sum(shift**2), rel=1e-6, abs=1e-9)


@given(st.integers(0, 10_000), st.integers(2, 12))
@settings(max_examples=25, deadline=None)
def test_it_agrees_with_an_independent_square_root_of_matrices(seed: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = (rng.normal(size=(60, width)) @ rng.normal(size=(width, width)) + rng.normal(size=width) for _ in range(2))
    first, second = np.cov(a, rowvar=False), np.cov(b, rowvar=False)
    root = scipy.linalg.sqrtm(first @ second).real
    expected = np.sum((a.mean(0) - b.mean(0)) ** 2) + np.trace(first) + np.trace(second) - 2 * np.trace(root)
    assert frechet_distance(a, b) == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_with_fewer_rows_than_features_it_is_still_exact() -> None:
    """Two lines in 100 dimensions, at an angle: the product of their spreads, times its cosine, is what they share."""
    rng = np.random.default_rng(0)
    axes, angle = turned(rng, 100), 0.7
    along, across = axes[:, 0], np.cos(angle) * axes[:, 0] + np.sin(angle) * axes[:, 1]
    a, b = np.outer([-1.0, 0, 1], along) * 2, np.outer([-1.0, 0, 1], across) * 5
    assert frechet_distance(a, b) == pytest.approx(4 + 25 - 2 * 2 * 5 * np.cos(angle), rel=1e-12)
    # One line against a full spread: no dimension that the first lacks adds rounding.
    full = rows_with(np.zeros(100), 9 * np.eye(100), rng, 150)
    assert frechet_distance(a, full) == pytest.approx(4 + 9 * 100 - 2 * 2 * 3, rel=1e-12)


@given(st.integers(0, 10_000), st.lists(st.integers(0, 7), min_size=1, max_size=6))
@settings(max_examples=40, deadline=None)
def test_moments_of_parts_are_those_of_the_whole(seed: int, sizes: list[int]) -> None:
    rng = np.random.default_rng(seed)
    parts = [1e4 + rng.normal(size=(size, 3)) for size in [2, *sizes]]
    moments, whole = FeatureMoments(3), np.concatenate(parts)
    for part in parts:
        moments.add(part)
    assert moments.count == len(whole)
    np.testing.assert_allclose(moments.mean, whole.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(moments.covariance, np.cov(whole, rowvar=False), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        (np.zeros((3, 2)), np.zeros((3, 4)), "2 and 4"),
        (np.zeros((1, 2)), np.zeros((3, 2)), "two rows at least, the first have shape"),
        (np.zeros((3, 2)), np.zeros(3), "the second have shape"),
        (np.zeros((3, 2)), np.full((3, 2), np.nan), "some of the second are not"),
    ],
)
def test_features_that_cannot_be_compared(a: np.ndarray, b: np.ndarray, words: str) -> None:
    with pytest.raises(RequestError, match=words):
        frechet_distance(a, b)


# Features.


def test_pixels_are_means_of_blocks() -> None:
    images = np.random.default_rng(0).random((4, 64, 32, 3)).astype(np.float32)
    expected = images.reshape(4, 8, 8, 8, 4, 3).mean(axis=(2, 4)).reshape(4, -1)
    np.testing.assert_allclose(pixels(images), expected, rtol=1e-6)
    assert pixels(images[:, :5, :13]).shape == (4, 5 * 8 * 3)
    np.testing.assert_allclose(pixels(images[:, :5, :8]), images[:, :5, :8].reshape(4, -1))


def test_resizing_keeps_flat_pictures_and_ramps_as_they_are() -> None:
    assert np.allclose(weights_of(7, 20).sum(axis=1), 1)
    ramp = np.broadcast_to(np.arange(16.0)[:, None, None], (1, 16, 16, 1))
    larger, smaller = resized(ramp, 32, 16)[0, :, 3, 0], resized(ramp, 8, 16)[0, :, 3, 0]
    np.testing.assert_allclose(larger[1:-1], (np.arange(32)[1:-1] + 0.5) / 2 - 0.5)
    np.testing.assert_allclose(smaller[1:-1], np.arange(8)[1:-1] * 2 + 0.5)
    assert resized(ramp, None, None) is ramp


def onnx_file(path: Path, shape: list[Any], filters: np.ndarray, dtype: str = "FLOAT", pool: bool = True) -> Path:
    """A network: a 1 x 1 convolution, what is below 0 cut off, and the mean over each map."""
    onnx = pytest.importorskip("onnx")
    helper, kind = onnx.helper, onnx.TensorProto
    first = shape[1] in (1, 3)
    nodes = [helper.make_node("Cast", ["pictures"], ["floats"], to=kind.FLOAT)]
    turn = [] if first else [helper.make_node("Transpose", ["floats"], ["turned"], perm=[0, 3, 1, 2])]
    nodes += [*turn, helper.make_node("Conv", ["floats" if first else "turned", "filters"], ["maps"])]
    nodes += [helper.make_node("Relu", ["maps"], ["cut"])]
    nodes += [helper.make_node("GlobalAveragePool", ["cut"], ["features"])] if pool else []
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("pictures", getattr(kind, dtype), shape)],
        [helper.make_tensor_value_info("features" if pool else "cut", kind.FLOAT, None)],
        [onnx.numpy_helper.from_array(filters[:, :, None, None].astype(np.float32), "filters")],
    )
    opset = helper.make_opsetid("", 17)
    made = helper.make_model(graph, opset_imports=[opset], ir_version=helper.find_min_ir_version_for([opset]))
    path.write_bytes(made.SerializeToString())
    return path


def by_hand(images: np.ndarray, filters: np.ndarray) -> np.ndarray:
    """The same network."""
    return np.maximum(images @ filters.T, 0).mean(axis=(1, 2))


FILTERS = np.random.default_rng(3).normal(size=(5, 3))
needs_runtime = pytest.mark.skipif(
    importlib.util.find_spec("onnxruntime") is None, reason="features of a file need onnxruntime: the extra onnx"
)


@needs_runtime
@pytest.mark.parametrize("shape", [["n", 3, 12, 12], ["n", 12, 12, 3], [4, 3, 12, 12], ["n", 3, "h", "w"]])
def test_a_file_gives_the_features_of_its_network(tmp_path: Path, shape: list[Any]) -> None:
    images = np.random.default_rng(0).random((10, 12, 12, 3)).astype(np.float32)
    compute = network(str(onnx_file(tmp_path / "net.onnx", shape, FILTERS)), -1.0, 1.0)
    np.testing.assert_allclose(compute(images), by_hand(2 * images - 1, FILTERS), rtol=1e-5, atol=1e-6)
    assert len(compute(images[:3])) == 3


@needs_runtime
def test_pictures_are_made_as_the_network_takes_them(tmp_path: Path) -> None:
    images = np.random.default_rng(0).random((6, 16, 16, 1)).astype(np.float32)
    compute = network(str(onnx_file(tmp_path / "large.onnx", ["n", 3, 30, 24], FILTERS)), 0.0, 1.0)
    replicated = np.repeat(resized(images, 30, 24), 3, axis=3)
    np.testing.assert_allclose(compute(images), by_hand(replicated, FILTERS), rtol=1e-5)
    as_bytes = network(str(onnx_file(tmp_path / "bytes.onnx", ["n", 16, 16, 3], FILTERS, "UINT8")), 0.0, 255.0)
    rounded = np.repeat(np.round(255 * images), 3, axis=3)
    np.testing.assert_allclose(as_bytes(images), by_hand(rounded, FILTERS), rtol=1e-5)
    colour = np.random.default_rng(1).random((6, 16, 16, 3)).astype(np.float32)
    grey = network(str(onnx_file(tmp_path / "grey.onnx", ["n", 1, 16, 16], FILTERS[:, :1])), 0.0, 1.0)
    np.testing.assert_allclose(grey(colour), by_hand(colour.mean(3, keepdims=True), FILTERS[:, :1]), rtol=1e-5)


@needs_runtime
def test_files_that_give_no_features(tmp_path: Path) -> None:
    images = np.zeros((2, 16, 16, 1), np.float32)
    (tmp_path / "text.onnx").write_text("no network")
    with pytest.raises(RequestError, match="not a network that ONNX Runtime can run"):
        network(str(tmp_path / "text.onnx"), 0.0, 1.0)
    with pytest.raises(RequestError, match="must take pictures alone"):
        network(str(onnx_file(tmp_path / "many.onnx", ["n", 5, 16, 16], np.ones((2, 5)))), 0.0, 1.0)
    maps = network(str(onnx_file(tmp_path / "maps.onnx", ["n", 3, 16, 16], FILTERS, pool=False)), 0.0, 1.0)
    with pytest.raises(RequestError, match="export it up to its last pooling"):
        maps(images)


# Models.


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return train(small_runs(), BLOCKS, tmp_path_factory.mktemp("fid") / "family")


def subjects(*models: Model) -> Subjects:
    by_run = {model.run: model for model in models}
    codes = tuple(encode_pictures(BLOCKS, [model], np.arange(20))[0] for model in models)
    return Subjects(codes, tuple(by_run), BLOCKS, np.arange(20), by_run.__getitem__)


def models_of(results: Results) -> list[Model]:
    return [results.model(run) for run in results.finished]


def test_distances_are_those_of_the_pictures_that_models_decode(results: Results) -> None:
    models = models_of(results)
    found = TASK(subjects(*models), FEW, seed=3)
    world = pixels(np.concatenate(list(world_pictures(BLOCKS, 500, 3))))
    parts = list(decoded_pictures(models, BLOCKS, "uniform", 500, 3))
    assert [part.mixed.shape[1] for part in parts] == [BATCH] * 3 + [500 - 3 * BATCH]
    for m, measured in enumerate(found):
        rebuilt, mixed = (
            pixels(np.concatenate([getattr(part, kind)[m] for part in parts])) for kind in ("reconstructions", "mixed")
        )
        pairs = {"reconstructions": (rebuilt, world), "mixed": (mixed, world), "between": (mixed, rebuilt)}
        for name, pair in pairs.items():
            assert measured.values[f"fid_{name}"] == pytest.approx(frechet_distance(*pair), rel=1e-4)
        assert measured.flags == ("own_features",)


def test_reconstructions_are_of_the_world_s_pictures() -> None:
    [batch] = decoded_pictures([perfect(), perfect(np.pi / 4, seed=1)], BLOCKS, "uniform", BATCH, 0)
    [images] = world_pictures(BLOCKS, BATCH, 0)
    for rebuilt, mixed in zip(batch.reconstructions, batch.mixed, strict=True):
        assert np.mean((rebuilt - images) ** 2) < 0.03 < np.mean((mixed - images) ** 2)
    assert batch.finite.all()


def test_latents_that_cannot_be_mixed_make_pictures_that_are_further_away() -> None:
    free, tied = TASK(subjects(perfect(), perfect(np.pi / 4, seed=1)), FEW)
    assert tied.values["fid_mixed"] > 1.5 * free.values["fid_mixed"]
    assert tied.values["fid_reconstructions"] == pytest.approx(free.values["fid_reconstructions"], rel=0.2)


def test_a_decoder_that_does_not_look_and_one_whose_pictures_are_no_numbers() -> None:
    blind, broken = TASK(subjects(perfect(contrast=0.0), perfect(contrast=np.nan, seed=1)), FEW)
    assert blind.values["fid_between"] < 1e-3 < 0.1 * blind.values["fid_mixed"]
    assert "not_finite" not in blind.flags
    assert "not_finite" in broken.flags
    assert np.isfinite(list(broken.values.values())).all()


def test_company_does_not_matter(results: Results) -> None:
    one, two = models_of(results)
    together, alone = TASK(subjects(two, one), FEW), TASK(subjects(one), FEW)
    for name, value in alone[0].values.items():
        assert together[1].values[name] == pytest.approx(value, rel=1e-4)


def test_codes_can_be_permuted_instead(results: Results) -> None:
    asked = subjects(*models_of(results))
    for uniform, permuted in zip(TASK(asked, FEW), TASK(asked, {**FEW, "mixing": "permuted"}), strict=True):
        rebuilt = uniform.values["fid_reconstructions"]
        assert rebuilt == pytest.approx(permuted.values["fid_reconstructions"], rel=1e-4)
        assert uniform.values["fid_mixed"] != permuted.values["fid_mixed"]


@needs_runtime
def test_a_network_s_file_gives_what_its_function_gives_and_the_row_names_it(
    tmp_path: Path, results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = onnx_file(tmp_path / "net.onnx", ["n", 3, 16, 16], FILTERS)
    monkeypatch.setitem(FEATURES, "hand", lambda images: by_hand(np.repeat(images, 3, axis=3), FILTERS))
    asked = subjects(models_of(results)[0])
    [by_file] = TASK(asked, {**FEW, "features": str(path)})
    [by_function] = TASK(asked, {**FEW, "features": "hand"})
    for name, value in by_file.values.items():
        assert value == pytest.approx(by_function.values[name], rel=1e-3)
    assert by_file.flags == ()
    rows = results.score((), tasks={"fid": {**FEW, "features": str(path)}})
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert all(digest in text and "net.onnx" in text for text in rows["settings"])
    assert set(rows["metric"]) == set(TASK.scores)


def test_pictures_that_are_no_more_than_features_are_flagged(results: Results) -> None:
    [found] = TASK(subjects(models_of(results)[0]), {"pictures": 60})
    assert found.flags == ("few_pictures", "own_features")


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"features": "inception"}, "features must be pixels.* or the path of an .onnx file"),
    ({"features": "nowhere.onnx"}, "there is no file nowhere.onnx"),
    ({"mixing": "shaken"}, "'uniform' or 'permuted'"),
    ({"pictures": 1}, "at least 2"),
]


@pytest.mark.parametrize(("changes", "words"), WRONG)
def test_what_is_wrong_is_said_in_a_line(results: Results, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError, match=words) as error:
        TASK(subjects(models_of(results)[0]), changes)
    assert "\n" not in str(error.value)


def test_another_file_of_the_same_name_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(b"one")
    asked = TASK.configured(changes={"features": str(path)})
    assert asked["sha256"] == fingerprint(str(path)) == hashlib.sha256(b"one").hexdigest()
    path.write_bytes(b"another")
    assert "another network's distances would not compare" in TASK.refuses(asked, BLOCKS)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "pip install -e '.[onnx]'" in TASK.refuses(TASK.configured(changes={"features": str(path)}), BLOCKS)


def test_functions_that_give_no_features(results: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = subjects(models_of(results)[0])
    monkeypatch.setitem(FEATURES, "flat", lambda images: images.mean(axis=(1, 2, 3)))
    monkeypatch.setitem(FEATURES, "broken", lambda images: np.full((len(images), 2), np.inf))
    for name, words in (("flat", "it must give"), ("broken", "not finite")):
        with pytest.raises(RequestError, match=words):
            TASK(asked, {**FEW, "features": name})
