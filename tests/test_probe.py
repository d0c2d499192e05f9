"""`sober probe`: known answers, the folder, a second question, lines to beat, wrong requests."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import sober
from sober.cli.main import main
from sober.encoders import Encoder, open_encoder
from sober.probing.differences import difference
from sober.requests.probe.probe import Probe
from sober.requests.probe.probed_pictures import ProbedPictures
from sober.requests.probe.world_size import named_worlds, world_for
from sober.worlds.drawn.sized import LARGEST

POSITIONS = ("block_0", "block_1", "block_2", "block_3")
WORLD = "blocks"


def flat(pictures: np.ndarray) -> np.ndarray:
    return pictures.reshape(len(pictures), -1)


def noise(pictures: np.ndarray) -> np.ndarray:
    """Features that depend on the picture and tell nothing of it."""
    seeds = (pictures.reshape(len(pictures), -1) * np.arange(1, pictures[0].size + 1)).sum(axis=1)
    return np.stack([np.random.default_rng(int(1e6 * seed)).standard_normal(8) for seed in seeds])


def two_layers(pictures: np.ndarray) -> dict[str, np.ndarray]:
    return {"pixels": flat(pictures), "noise": noise(pictures)}


class Counting:
    """An encoder that counts the pictures it sees."""

    def __init__(self, function: Callable[[np.ndarray], object]) -> None:
        self.function, self.pictures = function, 0

    def __call__(self, pictures: np.ndarray) -> object:
        self.pictures += len(pictures)
        return self.function(pictures)


@pytest.fixture(scope="module")
def probed(tmp_path_factory: pytest.TempPathFactory) -> Probe:
    out = tmp_path_factory.mktemp("probe") / "probed"
    return sober.probe({"mine": two_layers}, WORLD, pictures=800, out=out)


def linear(probe: Probe, encoder: str, layer: str) -> list[float]:
    rows = probe.table().filter(
        (pl.col("encoder") == encoder) & (pl.col("layer") == layer) & (pl.col("number") == "linear readout")
    )
    return rows.filter(pl.col("labels") == rows["labels"].max())["value"].to_list()


def test_pixels_tell_every_position_and_noise_none(probed: Probe) -> None:
    assert min(linear(probed, "mine", "pixels")) > 0.95
    assert max(linear(probed, "mine", "noise")) < 0.1
    assert min(linear(probed, "pixels", "pixels")) > 0.95
    first = probed.findings[0]
    assert first.startswith(f"mine on {WORLD}: it knows")
    assert not any("partly" in sentence or "hardly" in sentence for sentence in probed.findings)


def test_the_table_has_a_row_for_each_layer_factor_and_number(probed: Probe) -> None:
    table = probed.table()
    key = ["world", "encoder", "layer", "pooling", "factor", "number", "labels"]
    assert not table.select(key).is_duplicated().any()
    of_factors = table.filter(pl.col("factor") != "")
    assert set(of_factors["factor"]) == {factor.name for factor in sober.world(WORLD).factors}
    assert set(of_factors["number"]) >= {
        *("linear readout", "nonlinear readout", "best unit", "unseen", "seen"),
        *("same direction", "own direction", "additive"),
    }
    assert set(table.filter(pl.col("factor") == "")["number"]) >= {"effective rank", "participation", "lidar", "mig"}
    readouts = table.filter(pl.col("number").str.ends_with("linear readout"))
    assert readouts.select(pl.all_horizontal(pl.col("low") <= pl.col("value"), pl.col("value") <= pl.col("high")))[
        "low"
    ].all()
    assert set(readouts["labels"]) == {10, 100, 600}
    assert pl.read_parquet(probed.path / "probe.parquet").equals(table)


def test_a_known_world_moves_along_one_direction_of_pixels(probed: Probe) -> None:
    """Blocks slide in lanes of their own: moves of two blocks add up in pixels, and each has its own direction."""
    numbers = probed.table().filter((pl.col("encoder") == "mine") & (pl.col("layer") == "pixels"))
    for name in ("additive", "own direction"):
        assert numbers.filter(pl.col("number") == name)["value"].min() > 0.9, name


def test_lines_to_beat_stand_beside(probed: Probe) -> None:
    references = dict(zip(probed.table()["encoder"], probed.table()["reference"], strict=True))
    assert references == {"mine": False, "pixels": True, "random": True}
    differences = probed.differences
    assert set(differences["other"]) == {"pixels", "random"}
    assert set(differences["encoder"]) == {"mine"}
    by_pixels = differences.filter(pl.col("other") == "pixels")
    assert (by_pixels["low"] <= 0.01).all()
    assert (by_pixels["high"] >= -0.01).all()


def test_the_folder_is_one_like_any_other(probed: Probe, tmp_path: Path) -> None:
    results = probed.results
    assert len(results.finished) == len({layer.run for layer in probed.layers}) == len(probed.layers)
    codes = results.codes(results.finished[0], pictures=800)
    assert codes.logvar is None
    assert codes.factors.shape == (800, 4)
    scored = results.score(["mig"])
    assert len(scored) == len(results.finished)
    table = results.table()
    linear_scores = table.filter(pl.col("metric") == "readout_linear")
    assert len(linear_scores) == len(results.finished)
    again = results.score(metrics=(), tasks="readout")  # is there already: nothing is computed again
    assert set(again["metric"]) >= {"readout_linear", "readout_unseen"}
    assert results.report(tmp_path / "report.html").exists()
    with pytest.raises(sober.RequestError, match="holds layers of encoders"):
        results.select()
    with pytest.raises(sober.RequestError, match="at most the 800 pictures"):
        results.score(["mig"], pictures=900)


def test_numbers_equal_those_of_the_task(probed: Probe) -> None:
    layer = next(layer for layer in probed.layers if layer.encoder == "mine")
    results = probed.results
    run = next(run for run in results.finished if run.identity == layer.run)
    codes = results.codes(run, pictures=800)
    scores = sober.task("readout", codes.mean, codes.factors, kinds="ordinal")
    assert scores["readout_linear"] == pytest.approx(layer.readable(), abs=1e-6)


def test_a_second_question_encodes_nothing_again(tmp_path: Path) -> None:
    encoder = Counting(flat)
    first = sober.probe({"mine": encoder}, WORLD, pictures=300, out=tmp_path / "out", beside=())
    seen_first = encoder.pictures
    second = sober.probe({"mine": encoder}, WORLD, pictures=300, out=tmp_path / "out", beside=())
    assert encoder.pictures - seen_first < 100  # only the check that it is the same encoder
    assert second.table().equals(first.table())
    fewer = sober.probe({"mine": encoder}, WORLD, pictures=300, labels=(50, 100), out=tmp_path / "out", beside=())
    assert set(fewer.table()["labels"]) - {0} == {50, 100, 225}
    other = sober.probe({"mine": encoder, "other": noise}, WORLD, pictures=300, out=tmp_path / "out", beside=())
    assert set(other.table()["encoder"]) == {"mine", "other"}
    assert len(other.results.finished) == 2


def test_an_interrupted_probe_goes_on(tmp_path: Path) -> None:
    def fails(pictures: np.ndarray) -> np.ndarray:
        raise KeyboardInterrupt

    encoder = Counting(flat)
    with pytest.raises(KeyboardInterrupt):
        sober.probe({"mine": encoder, "other": fails}, WORLD, pictures=300, out=tmp_path / "out", beside=())
    before = encoder.pictures
    probed = sober.probe({"mine": encoder, "other": noise}, WORLD, pictures=300, out=tmp_path / "out", beside=())
    assert encoder.pictures - before < 100
    assert len(probed.layers) == 2


def test_too_few_pictures_are_refused_before_any_is_encoded() -> None:
    encoder = Counting(flat)
    with pytest.raises(sober.RequestError, match="at least 40 pictures"):
        sober.probe({"mine": encoder}, WORLD, pictures=20)
    assert encoder.pictures == 0


def test_another_encoder_of_that_name_is_refused(tmp_path: Path) -> None:
    sober.probe({"mine": flat}, WORLD, pictures=300, out=tmp_path / "out", beside=())
    with pytest.raises(sober.RequestError, match="another encoder named mine"):
        sober.probe({"mine": noise}, WORLD, pictures=300, out=tmp_path / "out", beside=())
    with pytest.raises(sober.RequestError, match="pictures 300, not 400"):
        sober.probe({"mine": flat}, WORLD, pictures=400, out=tmp_path / "out", beside=())


def test_features_with_their_own_factors_need_no_world(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    factors = rng.integers(0, 5, (400, 2))
    features = np.concatenate([factors, rng.standard_normal((400, 3))], axis=1)
    probed = sober.probe(features, factors=factors, names=["a", "b"], out=tmp_path / "out")
    assert [layer.world for layer in probed.layers] == ["these pictures"]
    assert min(linear(probed, "features", "features")) > 0.99
    assert (tmp_path / "out" / "probe.html").exists()
    with pytest.raises(sober.RequestError, match="make no folder"):
        _ = probed.results


def test_saved_features_belong_to_the_sample() -> None:
    world = sober.world(WORLD)
    pictures = ProbedPictures(world, 300, 0)
    saved = flat(world.render(pictures.index)).astype(np.float32)
    by_array = sober.probe(saved, WORLD, pictures=300, beside=())
    by_function = sober.probe(flat, WORLD, pictures=300, beside=())
    for factor in world.factors:
        numbers = [probe.layers[0].number(factor.name, "linear readout") for probe in (by_array, by_function)]
        assert numbers[0].value == pytest.approx(numbers[1].value, abs=1e-3)
    with pytest.raises(sober.RequestError, match="299 rows, and blocks 300 pictures"):
        sober.probe(saved[:299], WORLD, pictures=300, beside=())


def test_layers_may_be_functions_and_pooling_ways() -> None:
    by_name = sober.probe("mine", WORLD, layers={"low": flat, "high": noise}, pictures=300, beside=())
    assert [layer.name for layer in by_name.layers] == ["low", "high"]

    def maps(pictures: np.ndarray) -> np.ndarray:
        return pictures[:, ::2, ::2]

    pooled = sober.probe(maps, WORLD, pooling=["mean", "patches"], pictures=300, beside=())
    assert [(layer.pooling, layer.width) for layer in pooled.layers] == [("mean", 1), ("patches", 64)]
    assert pooled.layers[1].readable() > pooled.layers[0].readable() + 0.3


def test_a_line_to_beat_without_class_token_is_pooled_by_its_mean() -> None:
    probed = sober.probe(flat, WORLD, pictures=100, pooling="class", beside=("untrained",))
    assert {(layer.encoder, layer.pooling) for layer in probed.layers} == {("flat", "class"), ("random", "mean")}


def test_the_command_prints_further_metrics(module: Path, capsys) -> None:
    asked = ["probe", "probed_module:encoder", "--world", WORLD, "--pictures", "100", "--beside", "none"]
    main([*asked, "--metrics", "mig"])
    assert "probed_module:encoder on blocks: further metrics" in capsys.readouterr().out
    main([*asked, "--metrics", "mig", "--json"])
    assert [row["score"] for row in json.loads(capsys.readouterr().out)["scores"]] == ["mig"]


def test_the_page_has_no_markup_and_no_control_characters_of_names(tmp_path: Path) -> None:
    names = ("<script>alert(1)</script>", "a\x1b[2Jb\x07\x9b")
    probed = sober.probe(lambda pictures: dict.fromkeys(names, flat(pictures)), WORLD, pictures=100, beside=())
    html = probed.report(tmp_path / "probe.html").read_text()
    assert "a[2Jb" in html
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]|<script>alert", html)


def test_what_needs_a_network_is_refused_in_a_line(module: Path, capsys) -> None:
    main(["probe", "probed_module:encoder", "--world", WORLD, "--pictures", "100", "--beside", "none", "--out", "out"])
    with pytest.raises(SystemExit):
        main(["traverse", "out"])
    assert "out holds layers of encoders" in capsys.readouterr().err
    main(["study", "status", "out"])
    with pytest.raises(SystemExit):
        main(["probe", "probed_module:encoder", "--world", ""])
    assert "name a world" in capsys.readouterr().err


def test_drawn_worlds_have_the_size_of_the_encoder() -> None:
    encoder = Encoder("small", ("out",), lambda pictures: {"out": flat(pictures)}, side=32)
    world, note = world_for("rooms", encoder, None)
    assert world.image_shape == (32, 32, 3)
    assert not note
    world, note = world_for("rooms:size=16", encoder, None)
    assert note == "rooms:size=16: pictures of 16 x 16 are resized to 32 x 32 for small"
    dinov2 = Encoder("dinov2", ("out",), lambda pictures: {"out": flat(pictures)}, side=518)
    world, note = world_for("blocks", dinov2, None)
    assert (world.image_shape[0], note) == (518, "")
    huge = Encoder("huge", ("out",), lambda pictures: {"out": flat(pictures)}, side=600)
    world, note = world_for("blocks", huge, None)
    assert world.image_shape[0] == LARGEST
    assert "resized to 600 x 600" in note
    assert named_worlds("dsprites, rooms:size=32,teapots:mesh=a.obj,size=64") == [
        *("dsprites", "rooms:size=32", "teapots:mesh=a.obj,size=64"),
    ]


def test_paired_differences_are_narrower_than_separate_intervals(probed: Probe) -> None:
    mine, pixels = (
        next(layer for layer in probed.layers if layer.encoder == name and layer.name == "pixels")
        for name in ("mine", "pixels")
    )
    for row in difference(mine, pixels):
        assert row.high - row.low < 0.02
        assert not row.sure or abs(row.difference) < 0.02
    [same] = {row.difference for row in difference(mine, mine)}
    assert same == 0


def test_an_untrained_network_stands_beside_a_model(tmp_path: Path) -> None:
    world = sober.world(WORLD)
    runs = sober.grid(world, "beta_vae", {"beta": [1]}, seeds=1, steps=20, latents=4)
    results = sober.train(runs, world, tmp_path / "runs")
    path = results.model_path(results.finished[0])
    probed = sober.probe(str(path), WORLD, pictures=300, layers="last", beside=("untrained",))
    assert set(probed.table()["encoder"]) == {str(path), f"untrained {path}"}
    assert open_encoder(str(path)).untrained is not None


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"encoder": "nothing"}, "names no encoder"),
        ({"world": "rums"}, "did you mean 'rooms'"),
        ({"world": ""}, "name a world"),
        ({"pooling": "max"}, "unknown pooling 'max'"),
        ({"pictures": 0}, "pictures must be a whole number from 1"),
        ({"pictures": "many"}, "pictures must be a whole number from 1"),
        ({"seed": -1}, "seed must be a whole number from 0"),
        ({"pooling": 3}, "are given as a list, not 3"),
        ({"encoder": []}, "at least one encoder"),
        ({"labels": ("a",)}, "labels must be a whole number"),
        ({"pictures": 100.5}, "pictures must be a whole number"),
        ({"beside": "pixel"}, "did you mean 'pixels'"),
        ({"metrics": "mgi"}, "did you mean 'mig'"),
        ({"device": "quda"}, "is for networks of PyTorch, and flat is none"),
        ({"encoder": lambda pictures: "abc"}, "a text holds no features"),
        ({"pictures": 20}, "at least 40 pictures"),
        ({"labels": (1,)}, "labels must be a whole number from 2"),
        ({"labels": 10}, "labels are given as a list, not 10"),
        ({"labels": (10.5,)}, "labels must be a whole number from 2"),
        ({"beside": ("pixel",)}, "did you mean 'pixels'"),
        ({"encoder": lambda pictures: pictures[:5].reshape(5, -1)}, "5 rows|one row for each picture"),
        ({"encoder": lambda pictures: np.full((len(pictures), 2), np.nan)}, "not finite"),
        ({"encoder": lambda pictures: flat(pictures) - flat(pictures).mean(axis=0)}, "change with the batch"),
        ({"factors": np.zeros((10, 1))}, "belong to arrays of features"),
    ],
)
def test_a_wrong_request_is_refused_in_one_line(settings: dict, words: str) -> None:
    request = {"encoder": flat, "world": WORLD, "pictures": 100, "beside": (), **settings}
    with pytest.raises(sober.RequestError, match=words) as error:
        sober.probe(**request)
    assert "\n" not in str(error.value)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "probed_module.py").write_text(
        "def encoder(pictures):\n    return pictures.reshape(len(pictures), -1)\n"
    )
    return tmp_path


def test_the_command_prints_what_it_found(module: Path, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    main(["probe", "probed_module:encoder", "--world", WORLD, "--pictures", "300", "--out", "out"])
    printed = capsys.readouterr().out
    assert "probed_module:encoder on blocks: it knows" in printed
    assert "wrote out" in printed
    assert max(map(len, printed.splitlines())) <= 80
    assert (module / "out" / "probe.html").exists()
    main(["probe", "probed_module:encoder", "--world", WORLD, "--pictures", "300", "--beside", "none", "--json"])
    content = json.loads(capsys.readouterr().out)
    assert content["table"][0]["encoder"] == "probed_module:encoder"


def test_the_command_reads_features_with_factors(tmp_path: Path, capsys) -> None:
    rng = np.random.default_rng(0)
    factors = rng.integers(0, 5, (200, 2))
    np.savez(tmp_path / "all.npz", codes=factors + 0.1 * rng.standard_normal((200, 2)), factors=factors)
    main(["probe", str(tmp_path / "all.npz"), "--json"])
    content = json.loads(capsys.readouterr().out)
    assert {row["factor"] for row in content["table"]} == {"", "factor_0", "factor_1"}
    np.savez(tmp_path / "layers.npz", mid=factors[:, :1], out=factors)
    (tmp_path / "labels.csv").write_text("a,b\n" + "\n".join(f"{a},{b}" for a, b in factors))
    main(["probe", str(tmp_path / "layers.npz"), "--factors", str(tmp_path / "labels.csv"), "--json"])
    assert {row["layer"] for row in json.loads(capsys.readouterr().out)["table"]} == {"mid", "out"}
    with pytest.raises(SystemExit):
        main(["probe"])
    assert "name an encoder" in capsys.readouterr().err
