"""Models over eight devices: per device shape, the bits of one device; copies that fill up a device are never seen."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eight_devices
from eight_devices import ALONE, ELEVEN, GANS, PICTURES, SIXTEEN, STEPS, looked_at
from families import BLOCKS, assert_same_model, small_runs
from sober import model_placement
from sober.device import local_devices
from sober.evaluation.families import only_family
from sober.files import load_arrays
from sober.model_placement import ModelPlacement
from sober.models.encode import remove_codes
from sober.requests.results import Results, open_results
from sober.requests.train import train
from sober.types import Run

IN_EIGHT = "--xla_force_host_platform_device_count=8"


@pytest.fixture(scope="module")
def on_eight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which eight devices left their results."""
    out = tmp_path_factory.mktemp("eight")
    command = [sys.executable, eight_devices.__file__, str(out)]
    environment = {**os.environ, "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {IN_EIGHT}"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.fixture(scope="module")
def sixteen(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Two at a time, on one device."""
    return train(SIXTEEN, BLOCKS, tmp_path_factory.mktemp("one") / "sixteen", cohort=2)


def assert_same_models(one: Results, other: Results, runs: list[Run]) -> None:
    for run in runs:
        assert_same_model((one, run), (other, run))
        assert one.model(run).diverged == other.model(run).diverged


def test_sixteen_models_on_eight_devices_are_those_of_eight_pairs(on_eight: Path, sixteen: Results) -> None:
    assert_same_models(open_results(on_eight / "sixteen"), sixteen, SIXTEEN)


def test_models_that_fill_no_device_evenly_are_those_of_pairs(on_eight: Path, tmp_path: Path) -> None:
    company = small_runs("factor_vae", seeds=[99], steps=STEPS)  # as one alone is another program
    pairs = train([*ELEVEN, *company], BLOCKS, tmp_path / "one", cohort=2)
    eleven = open_results(on_eight / "eleven")
    assert_same_models(eleven, pairs, ELEVEN)
    assert [run for run in ELEVEN if eleven.model(run).diverged is not None] == ELEVEN[-1:]
    assert len(list((on_eight / "eleven" / "models").iterdir())) == 11


def test_models_with_several_losses_are_those_of_pairs(on_eight: Path, tmp_path: Path) -> None:
    assert_same_models(open_results(on_eight / "gans"), train(GANS, BLOCKS, tmp_path / "one", cohort=2), GANS)


def test_one_model_among_eight_devices_is_that_of_one_device(on_eight: Path, tmp_path: Path) -> None:
    assert_same_models(open_results(on_eight / "alone"), train(ALONE, BLOCKS, tmp_path / "one"), ALONE)


def test_what_was_stopped_on_eight_devices_goes_on_on_one(on_eight: Path, tmp_path: Path, sixteen: Results) -> None:
    shutil.copytree(on_eight / "unfinished", tmp_path / "unfinished")
    [checkpoint] = (tmp_path / "unfinished" / "checkpoints").glob("*/*.safetensors")
    arrays, _ = load_arrays(checkpoint)
    of_models = [array for name, array in arrays.items() if name.startswith("carry.") and name != "carry.step"]
    assert {len(array) for array in of_models} == {11}
    assert {array.shape[1] for name, array in arrays.items() if name.startswith("log.") and name != "log.step"} == {11}
    finished = train(SIXTEEN[:11], BLOCKS, tmp_path / "unfinished")
    images = BLOCKS.sample(0, 64).images
    for run in SIXTEEN[:11]:
        ours, theirs = finished.model(run).encode(images)[0], sixteen.model(run).encode(images)[0]
        np.testing.assert_allclose(ours, theirs, atol=1e-3)


def test_codes_errors_judges_and_reasoning_of_sixteen_models_are_those_of_eight_pairs(
    on_eight: Path, sixteen: Results
) -> None:
    family, theirs = only_family(sixteen), np.load(on_eight / "looked_at.npz")
    for start in range(0, 16, 2):
        ours = looked_at(family, SIXTEEN[start : start + 2])
        assert ours.keys() == set(theirs)
        for name, array in ours.items():
            sums = name in ("errors", "reconstruction")  # over pixels, in another order
            np.testing.assert_allclose(array, theirs[name][start : start + 2], rtol=1e-6 if sums else 0, err_msg=name)
    assert theirs["mean"].shape[:2] == (16, len(PICTURES))
    remove_codes(family, SIXTEEN)


@given(st.integers(1, 300), st.integers(1, 16))
def test_each_device_has_as_few_models_as_can_be_and_no_device_has_only_copies(models: int, devices: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model_placement, "local_devices", lambda: tuple(range(devices)))
        ours = ModelPlacement(models)
        whole = ours.models_per_device * len(ours.devices)
        assert ours.models_per_device == -(-models // devices)
        assert len(ours.devices) <= min(models, devices)
        assert 0 <= whole - models < ours.models_per_device
        again = ModelPlacement(whole)  # what a program is called with: it finds the same devices
        assert (again.models_per_device, again.devices) == (ours.models_per_device, ours.devices)


def test_on_one_device_nothing_is_copied_or_filled_up() -> None:
    assert len(local_devices()) == 1
    data = BLOCKS.data
    assert ModelPlacement(5).replicated(data) is data
    placed = ModelPlacement(5).place({"a": np.arange(5), "b": np.zeros((5, 2))})
    assert [leaf.shape for leaf in placed.values()] == [(5,), (5, 2)]
