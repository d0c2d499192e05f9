"""Runs keep their names: what was trained is found again, whatever settings have been added since."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from families import BLOCKS, small_runs
from sober.errors import RequestError
from sober.files import load_arrays, save_arrays
from sober.methods import METHODS, hyper_of, structure
from sober.methods.method import Hyper, Method
from sober.methods.settings import varying_hyper
from sober.models.grid import grid
from sober.models.model import load
from sober.requests.study.study import Product, Scale, Study
from sober.requests.train import train
from sober.setting_words import words_for_people
from sober.training.cohort import program, signature
from sober.types import Run

# Of a run of each method on `blocks` with everything at its default. Results on disk are found by these names.
AT_DEFAULTS = {
    "vae": "de6490bcdb98c64a",
    "beta_vae": "1fe8013ac64fc7d8",
    "annealed_vae": "66d75f288716bd09",
    "dip_vae_i": "c89edc0178868404",
    "dip_vae_ii": "97170940139f5bec",
    "beta_tcvae": "6cd444574f8e7a23",
    "control_vae": "c4dbbb1be6683015",
    "factor_vae": "c7cddb18764fd94d",
    "dava": "63bbe3a65047346c",
    "info_gan": "9a114d8690636489",
    "pca": "6af1232d3f781060",
}
LATER = [(method, hyper) for method in METHODS.values() for hyper in method.hyper if hyper.later]


def at_defaults(method: str, sweep: dict[str, object] | None = None) -> Run:
    [run] = grid(BLOCKS, method, sweep or {}, precision="float32")  # type: ignore[arg-type]
    return run


@pytest.mark.parametrize("method", AT_DEFAULTS)
def test_a_run_has_the_name_that_it_always_had(method: str) -> None:
    assert at_defaults(method).identity == AT_DEFAULTS[method]


def test_runs_of_published_sweeps_have_the_names_that_they_always_had() -> None:
    assert grid(BLOCKS, "beta_vae", "sober_look", precision="float32")[0].identity == "b3b01c64817f539f"
    assert grid(BLOCKS, "beta_tcvae", "dava", precision="float32")[0].identity == "f4c2106e38c1ff87"


@pytest.mark.parametrize(("method", "hyper"), LATER, ids=lambda value: value.name)
def test_asking_for_the_default_of_what_came_later_is_not_asking(method: Method, hyper: Hyper) -> None:
    asked, plain = at_defaults(method.name, {hyper.name: hyper.default}), at_defaults(method.name)
    assert hyper.name not in asked.hyper
    assert asked == plain
    assert hyper_of(plain)[hyper.name] == hyper.default


@pytest.mark.parametrize(("method", "hyper"), LATER, ids=lambda value: value.name)
def test_what_came_later_does_not_change_with_the_length_of_older_studies(method: Method, hyper: Hyper) -> None:
    """A scale multiplies what goes with the steps, also where nobody asked for it: nothing but 0 stays what it is."""
    assert not hyper.with_steps or hyper.default == 0


@pytest.mark.parametrize(("method", "hyper"), LATER, ids=lambda value: value.name)
def test_another_value_of_what_came_later_is_another_run(method: Method, hyper: Hyper) -> None:
    others = [choice for choice in hyper.choices if choice != hyper.default] or [
        min(float(hyper.default) + 1, hyper.high)
    ]
    run = at_defaults(method.name, {hyper.name: others[0]})
    assert run.hyper[hyper.name] == others[0]
    assert run.identity != AT_DEFAULTS[method.name]
    assert varying_hyper([run, at_defaults(method.name)]) == (hyper.name,)
    in_words = words_for_people([run, at_defaults(method.name)])
    assert in_words(run) != in_words(at_defaults(method.name))
    selects = bool(hyper.choices) or hyper.shapes
    assert (signature(run) != signature(at_defaults(method.name))) == selects
    assert (structure(run) != structure(at_defaults(method.name))) == hyper.shapes


def test_a_shorter_study_has_the_runs_that_it_always_had() -> None:
    products = [Product(["blocks"], {method: {} for method in AT_DEFAULTS}, 1)]
    study = Study("s", "t", "p", products, scales={"short": Scale(steps=30)})
    for method, sweep in study.scaled("short").products[0].methods.items():
        [run] = grid(BLOCKS, method, sweep)
        later = {hyper.name for hyper in METHODS[method].hyper if hyper.later}
        assert not later & run.hyper.keys()


def test_a_program_is_given_what_a_run_leaves_out() -> None:
    for method in AT_DEFAULTS:
        run = at_defaults(method)
        of = signature(run)
        assert {*program(BLOCKS, of).inputs([run]).hyper, *dict(of.choices)} == {h.name for h in METHODS[method].hyper}


def test_a_model_that_was_saved_before_is_loaded(tmp_path) -> None:
    """Its file says nothing of settings that came later."""
    [run] = small_runs("info_gan", seeds=1, steps=2)
    family = train([run], BLOCKS, tmp_path)
    arrays, about = load_arrays(family.model_path(run))
    said = json.loads(about["run"])
    assert set(said["hyper"]) == {"information", "penalty", "critic_rate"}
    assert set(said["optimiser"]) == {"learning_rate", "b1", "b2", "eps"}
    save_arrays(tmp_path / "old.safetensors", arrays, {**about, "run": json.dumps(said)})
    old, images = load(tmp_path / "old.safetensors"), BLOCKS.sample(0, 5).images
    assert old.run == run
    np.testing.assert_array_equal(old.encode(images)[0], family.model(run).encode(images)[0])


def test_a_whole_number_is_asked_for_where_shapes_depend_on_it() -> None:
    method = dataclasses.replace(METHODS["vae"], hyper=(Hyper("units", 3.0, "of a layer", low=1.0, shapes=True),))
    assert method.shaping({"units": 4.0}) == {"units": 4}
    with pytest.raises(RequestError, match=r"units=2.5 must be a whole number"):
        method.settings({"units": 2.5})
