"""Pictures in, one encoder out: the folder that is written, going on after a stop, and a plan that fits the time."""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from PIL import Image

import sober
from families import BLOCKS, StopAt
from sober.cli import app
from sober.errors import RequestError
from sober.methods import METHODS
from sober.training.progress import Stopped
from sober.workflows.fit import LENGTHS, MOST_SEEDS, SEEDS, Fit, fit, plan, write_codes

QUICK: dict[str, Any] = {"steps": 60, "seeds": 2, "latents": 3, "method": ["beta_tcvae", "beta_vae"]}


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    return BLOCKS.render(np.arange(0, 4096, 205))  # 20, as those of the page on fitting: the same programs serve


@pytest.fixture(scope="module")
def fitted(images: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> Fit:
    return fit(images, out=tmp_path_factory.mktemp("fit") / "out", **QUICK)


def test_one_folder_holds_the_model_its_codes_and_what_led_to_it(fitted: Fit, images: np.ndarray) -> None:
    names = {path.name for path in fitted.folder.iterdir()}
    assert names >= {"request.json", "models", "model.safetensors", "model.json", "codes.parquet", "ranking.json"}
    assert names >= {"traversals.png", "encoder.onnx", "decoder.onnx", "report.html"}
    assert len(fitted.results.runs) == 8 == len(fitted.ranking.models)
    table = fitted.results.table()
    assert {"udr", "pipe"} <= set(table["metric"]), "what criteria said is in the table, as in every folder"
    about = json.loads((fitted.folder / "model.json").read_text())
    assert about["identity"] == fitted.ranking.best.run.identity == fitted.best.run.identity
    codes = pl.read_parquet(fitted.folder / "codes.parquet")
    mean, logvar = fitted.encode(images)
    np.testing.assert_allclose(codes.select(pl.selectors.starts_with("mean_")).to_numpy(), mean, atol=1e-5)
    np.testing.assert_allclose(codes.select(pl.selectors.starts_with("logvar_")).to_numpy(), logvar, atol=1e-5)


def test_the_folder_is_read_in_a_fresh_process(
    fitted: Fit, images: np.ndarray, start: Callable[..., Any], tmp_path: Path
) -> None:
    np.save(tmp_path / "images.npy", images[:7])
    code = (
        "import sys, numpy as np, sober\n"
        "mean, logvar = sober.load(sys.argv[1]).encode(np.load(sys.argv[2]))\n"
        "np.save(sys.argv[3], mean)"
    )
    said, _ = start(code, fitted.folder, tmp_path / "images.npy", tmp_path / "mean.npy").communicate(timeout=120)
    assert not said
    np.testing.assert_allclose(np.load(tmp_path / "mean.npy"), fitted.encode(images[:7])[0], atol=1e-6)


def test_onnx_runtime_gives_the_same_codes(fitted: Fit, images: np.ndarray) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    pixels = images[:20].transpose(0, 3, 1, 2).astype(np.float32) / 255
    session = runtime.InferenceSession(fitted.folder / "encoder.onnx")
    mean, logvar = session.run(["mean", "logvar"], {"pictures": pixels})
    for ours, theirs in zip(fitted.encode(images[:20]), (mean, logvar), strict=True):
        np.testing.assert_allclose(theirs, ours, atol=1e-4)
    (rebuilt,) = runtime.InferenceSession(fitted.folder / "decoder.onnx").run(["pictures"], {"codes": mean})
    np.testing.assert_allclose(rebuilt.transpose(0, 2, 3, 1), fitted.best.decode(mean), atol=1e-4)


def test_pytorch_gives_the_same_codes(fitted: Fit, images: np.ndarray) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    interop = importlib.import_module("sober.interop.torch")
    encoder = interop.encoder(sober.load(fitted.folder))
    with torch.no_grad():
        mean, _ = encoder(torch.tensor(images[:20]).permute(0, 3, 1, 2) / 255)
    np.testing.assert_allclose(mean.numpy(), fitted.encode(images[:20])[0], atol=1e-4)


def test_called_again_it_finds_what_is_there(fitted: Fit, images: np.ndarray) -> None:
    before = (fitted.folder / "model.safetensors").read_bytes()
    again = fit(images, out=fitted.folder, **QUICK)
    assert (fitted.folder / "model.safetensors").read_bytes() == before
    assert [model.run for model in again.ranking.models] == [model.run for model in fitted.ranking.models]


def test_stopped_and_called_again_it_goes_on_to_the_same_model(fitted: Fit, images: np.ndarray, tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        fit(images, out=tmp_path / "out", watcher=StopAt(30), **QUICK)
    assert not (tmp_path / "out" / "model.safetensors").exists()
    found = fit(images, out=tmp_path / "out", **QUICK)
    assert found.best.run == fitted.best.run
    np.testing.assert_array_equal(found.encode(images[:9])[0], fitted.encode(images[:9])[0])


def test_another_request_is_not_mixed_with_the_one_there(fitted: Fit, images: np.ndarray, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="holds a fit with steps 60, not 61"):
        fit(images, out=fitted.folder, **{**QUICK, "steps": 61})
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(RequestError, match="is not empty and holds no results"):
        fit(images, out=tmp_path, **QUICK)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "tcvae"}, "unknown method 'tcvae'"),
        ({"criteria": ["mig"]}, "unknown criterion 'mig'"),
        ({"gamma_": 3}, "has a hyperparameter 'gamma_'"),
        ({"minutes": 0}, "minutes must be more than 0"),
    ],
)
def test_wrong_requests_are_refused_before_anything_is_written(
    changes: dict[str, Any], message: str, images: np.ndarray, tmp_path: Path
) -> None:
    with pytest.raises(RequestError, match=message):
        fit(images, out=tmp_path / "out", **{**QUICK, **changes})
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())


def planned(
    monkeypatch: pytest.MonkeyPatch, seconds: dict[str, float], minutes: float, world: str = "blocks", **named: Any
) -> tuple[list[Any], str]:
    """A plan on a machine on which a step of six β-VAEs takes so long, by their nets."""
    monkeypatch.setattr(sys.modules[plan.__module__], "seconds_per_step", lambda world, runs: seconds[runs[0].nets])
    methods = named.get("methods", ("dava", "beta_tcvae", "beta_vae"))
    return plan(sober.world(world), methods, minutes, time.monotonic(), None, {"latents": 6}, {})


def test_the_plan_fills_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    runs, note = planned(monkeypatch, {"small": 0.005}, 5)
    assert not note
    assert len(runs) == 3 * 2 * SEEDS
    spent = 0.005 * sum(runs[0].steps * METHODS[name].cost for name in ("dava", "beta_tcvae", "beta_vae"))
    assert 0.5 * 300 < spent < 0.65 * 300


def test_a_fast_machine_trains_more_seeds_and_then_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    runs, _ = planned(monkeypatch, {"small": 1e-3}, 1, methods=("beta_tcvae", "beta_vae"))
    seeds = {run.seed for run in runs}
    assert SEEDS < len(seeds) <= MOST_SEEDS
    assert runs[0].steps >= 0.7 * LENGTHS[True].enough
    long, _ = planned(monkeypatch, {"small": 1e-5}, 10, methods=("beta_vae",))
    assert long[0].steps > LENGTHS[True].enough


def test_a_slow_machine_takes_smaller_nets_then_fewer_methods_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    runs, note = planned(monkeypatch, {"conv": 0.5, "small": 0.01}, 10, "dsprites")
    assert {run.nets for run in runs} == {"small"}
    assert len({run.method for run in runs}) == 3
    assert "too few for convolutional nets" in note
    runs, note = planned(monkeypatch, {"conv": 0.01}, 10, "dsprites")
    assert {run.nets for run in runs} == {"conv"}
    assert not note
    runs, note = planned(monkeypatch, {"small": 0.015}, 1.5)
    assert {run.method for run in runs} == {"beta_tcvae", "beta_vae"}
    assert "too few for dava" in note
    runs, note = planned(monkeypatch, {"small": 1.0}, 1)
    assert runs[0].steps < 60
    assert "give more --minutes" in note


def test_given_values_take_the_place_of_the_usual_ones(images: np.ndarray, tmp_path: Path) -> None:
    found = fit(images, out=tmp_path / "out", **QUICK, criteria=["elbo"], beta=[1.0, 3.0])
    assert {run.hyper["beta"] for run in found.results.runs} == {1.0, 3.0}
    assert METHODS["dava"].advised(True, 1000) == {"delta_c": (0.01, 0.03)}


def test_a_folder_of_pictures_from_the_command_line(
    images: np.ndarray, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "photos").mkdir()
    for at, image in enumerate(images):
        Image.fromarray(image[..., 0]).resize((64, 64)).save(tmp_path / "photos" / f"{at:03}.png")
    options = ["--steps", "3", "--seeds", "1", "--latents", "2", "--method", "beta_vae", "--nets", "small"]
    arguments = [tmp_path / "photos", "--out", tmp_path / "out", *options, "--criterion", "elbo"]
    app(["fit", *map(str, arguments)], result_action="return_none")
    assert "The model to use, of 2, is" in " ".join(capsys.readouterr().out.split())
    codes = pl.read_parquet(tmp_path / "out" / "codes.parquet")
    assert codes["file"].to_list()[:2] == ["000.png", "001.png"]
    assert codes.height == 20


def test_what_is_neither_a_folder_nor_a_world_is_named(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="is neither a folder or archive of pictures nor a world"):
        fit(tmp_path / "nowhere", out=tmp_path / "out")


def test_codes_without_log_variances_have_no_columns_for_them(tmp_path: Path) -> None:
    write_codes(tmp_path / "codes.parquet", BLOCKS, np.zeros((4, 2)), None)
    assert pl.read_parquet(tmp_path / "codes.parquet").columns == ["picture", "mean_0", "mean_1"]
