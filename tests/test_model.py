"""One trained model as a value and a file."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import numpy as np
import pytest

import sober
from families import BLOCKS, small_runs
from sober.errors import RequestError
from sober.models.grid import grid
from sober.requests.train import train
from sober.worlds import world


@pytest.fixture(scope="module")
def family(tmp_path_factory):
    return train(small_runs(seeds=1), BLOCKS, tmp_path_factory.mktemp("family") / "blocks")


def test_it_gives_the_same_codes_in_a_fresh_process(family, tmp_path):
    images = BLOCKS.sample(0, 5).images
    np.save(tmp_path / "images.npy", images)
    code = f"""
import numpy as np, sober
model = sober.load({str(family.model_path(family.runs[0]))!r})
mean, logvar = model.encode(np.load({str(tmp_path / "images.npy")!r}))
np.savez({str(tmp_path / "codes.npz")!r}, mean=mean, logvar=logvar, images=model.decode(mean))
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    theirs = np.load(tmp_path / "codes.npz")
    model = family.model(family.runs[0])
    mean, logvar = model.encode(images)
    np.testing.assert_array_equal(mean, theirs["mean"])
    np.testing.assert_array_equal(logvar, theirs["logvar"])
    np.testing.assert_array_equal(model.decode(mean), theirs["images"])


def test_bytes_floats_and_missing_channel_axis_mean_the_same_picture(family):
    model = family.model(family.runs[0])
    images = BLOCKS.sample(0, 5).images
    as_bytes, _ = model.encode(images)
    as_floats, _ = model.encode(images / 255)
    without_channel, _ = model.encode(images[..., 0])
    np.testing.assert_allclose(as_bytes, as_floats, atol=1e-5)
    np.testing.assert_array_equal(as_bytes, without_channel)


def test_any_number_of_pictures(family):
    model = family.model(family.runs[0])
    images = BLOCKS.sample(0, 1500).images
    mean, _ = model.encode(images)
    np.testing.assert_allclose(mean[1490:], model.encode(images[1490:])[0], atol=1e-5)
    assert model.encode(images[:0])[0].shape == (0, 3)
    assert model.decode(mean).shape == (1500, 16, 16, 1)
    assert 0 <= model.decode(mean).min() <= model.decode(mean).max() <= 1


@pytest.mark.parametrize("wrong", [np.zeros((2, 8, 8, 1)), np.zeros((2, 16, 16, 1), int), np.zeros((2, 16, 16, 3))])
def test_wrong_pictures_are_refused(family, wrong):
    with pytest.raises(RequestError, match="pictures must be"):
        family.model(family.runs[0]).encode(wrong)


def test_wrong_codes_are_refused(family):
    with pytest.raises(RequestError, match=r"codes must be \(N, 3\)"):
        family.model(family.runs[0]).decode(np.zeros((2, 4)))


def test_load_refuses_folders_and_other_files_by_name(family, tmp_path):
    with pytest.raises(RequestError, match="is a folder"):
        sober.load(family.folder)
    with pytest.raises(RequestError, match="missing, damaged or not a file of Sober's"):
        sober.load(tmp_path / "absent.safetensors")
    family.codes(family.runs[0], pictures=3)
    [codes] = (family.folder / "codes").iterdir()
    with pytest.raises(RequestError, match="not a model"):
        sober.load(codes)


def test_opening_what_holds_no_results_is_refused(tmp_path):
    with pytest.raises(RequestError, match="holds no results: make some with `sober train WORLD"):
        sober.open(tmp_path)
    (tmp_path / "family.json").write_text("{}")
    with pytest.raises(RequestError, match=r"was made by an earlier version of Sober \(family.json\)"):
        sober.open(tmp_path)
    for text in ("{", '{"format": 99}', '{"format": 2, "worlds": {}, "runs": [{"steps": 3}]}', "[]"):
        (tmp_path / "request.json").write_text(text)
        with pytest.raises(RequestError, match=r"request\.json|another version"):
            sober.open(tmp_path)


def test_an_opened_folder_has_runs_models_codes_and_a_table(family):
    results = sober.open(family.folder)
    assert results.runs == family.runs == results.finished
    run = results.runs[0]
    codes = results.codes(run)
    np.testing.assert_allclose(
        codes.mean, results.model(run).encode(BLOCKS.render(np.arange(BLOCKS.size)))[0], atol=2e-2
    )
    assert results.world.label == "blocks"
    assert set(results.table()["kind"]) == {"training"}
    rows = results.score("mig")
    assert rows["metric"].to_list() == ["mig"] * len(results.runs)
    assert set(results.table()["kind"]) == {"metric", "training"}
    assert results.run(run.identity[:9]) == run


def test_a_grid_is_every_combination_once():
    runs = grid(BLOCKS, "beta_vae", {"beta": [1, 2.0]}, seeds=[3, 9])
    assert [(run.hyper["beta"], run.seed) for run in runs] == [(1.0, 3), (1.0, 9), (2.0, 3), (2.0, 9)]
    assert runs[0].nets == "small"
    assert grid(world("dsprites"), "vae", {})[0].nets == "conv"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "magic"}, "unknown method 'magic'"),
        ({"nets": "magic"}, "unknown nets 'magic'"),
        ({"seeds": 0}, "seeds must be at least 1"),
        ({"seeds": [1, 1]}, "same run twice"),
        ({"sweep": {"beta": []}}, "no values given for beta"),
        ({"sweep": {"beta": -1.0}}, "outside"),
        ({"sweep": {"beta": "big"}}, "not a number"),
        ({"steps": 0}, "steps must be at least 1"),
        ({"precision": "float8"}, "precision 'float8' is unknown"),
    ],
)
def test_a_wrong_grid_is_refused(settings, message):
    arguments = {"method": "beta_vae", "sweep": {}} | settings
    with pytest.raises(RequestError, match=message):
        grid(BLOCKS, **arguments)


def test_training_ended_at_the_mean_of_its_last_twentieth(family):
    model = family.model(family.runs[0])
    curve = np.arange(100.0)
    with_curves = dataclasses.replace(model, curves={"loss": curve, "short": [3.0], "none": [], "gone": [1.0, np.nan]})
    assert with_curves.ended("loss") == 97.0
    assert with_curves.ended("short") == 3.0
    assert all(np.isnan(with_curves.ended(name)) for name in ("none", "gone", "unknown"))
