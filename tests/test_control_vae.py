"""What is particular to ControlVAE; the rest, its memory in checkpoints too, is in test_every_method.py."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from families import BLOCKS, small_runs
from sober.methods import METHODS
from sober.methods.control_vae import Controller, set_point, steer
from sober.requests.study.study import Product, Scale, Study
from sober.requests.train import train
from sober.types import Training

PI = {"kp": 0.01, "ki": 0.001, "beta_min": 1.0, "beta_max": 5.0}
STAIRS = {"start": 0.5, "rise": 0.15, "rise_every": 5000.0, "target": 18.0}


def at(integral: float) -> Controller:
    return Controller(jnp.float32(integral), jnp.float32(0))


@pytest.mark.parametrize(("step", "nats"), [(0, 0.5), (4999, 0.5), (5000, 0.65), (10_000, 0.8), (10**6, 18.0)])
def test_the_set_point_climbs_in_stairs_to_its_target(step, nats):
    np.testing.assert_allclose(set_point(jnp.int32(step), STAIRS), nats, rtol=1e-6)


@pytest.mark.parametrize("target", METHODS["control_vae"].sweep("dava")["target"])
def test_in_the_sweep_of_the_dava_paper_every_target_is_reached_at_two_thirds_of_the_training(target):
    [reach] = METHODS["control_vae"].sweep("dava")["reach"]
    line = {**STAIRS, "target": target, "reach": reach}
    assert reach == 150_000 * 2 / 3
    np.testing.assert_allclose(set_point(jnp.int32(0), line), 0.5)
    np.testing.assert_allclose(set_point(jnp.int32(50_000), line), (0.5 + target) / 2, rtol=1e-6)
    assert set_point(jnp.int32(99_000), line) < target
    for step in (100_000, 149_999):
        np.testing.assert_allclose(set_point(jnp.int32(step), line), target, rtol=1e-6)


def test_a_shorter_study_reaches_its_targets_as_early():
    study = Study("s", "t", "p", [Product(["blocks"], {"control_vae": "dava"}, 1, Training(steps=150_000))],
                  scales={"short": Scale(steps=600)})  # fmt: skip
    sweep = study.scaled("short").products[0].methods["control_vae"]
    assert list(sweep["reach"]) == [400]


def test_a_start_at_the_target_stands_still():
    assert set_point(jnp.int32(10**6), {**STAIRS, "start": 18.0}) == set_point(jnp.int32(0), {**STAIRS, "start": 30.0})


@pytest.mark.parametrize("error", [-7.0, -0.1, 0.0, 0.3])
def test_between_its_limits_beta_is_the_papers_formula(error):
    after = steer(at(2.0), jnp.float32(error), PI)
    np.testing.assert_allclose(after.integral, 2.0 - 0.001 * error, rtol=1e-6)
    np.testing.assert_allclose(after.beta, 1 + 0.01 / (1 + np.exp(error)) + 2.0 - 0.001 * error, rtol=1e-6)


def test_beta_keeps_its_limits_and_leaves_them_at_once():
    def held(error: float) -> Controller:
        return jax.lax.fori_loop(0, 1000, lambda _, controller: steer(controller, jnp.float32(error), PI), at(2.0))

    low, high = held(10), held(-10)
    assert 1.0 <= low.beta <= 1.01
    assert high.beta == 5.0
    assert steer(low, jnp.float32(-10), PI).integral > 0
    assert steer(high, jnp.float32(10), PI).integral < 4.0


def test_it_holds_the_kl_at_the_set_point(tmp_path):
    """Within 5% over the last tenth of 3,000 steps, at targets a factor of two apart, each model with its own β."""
    settings = {"target": [3.0, 6.0], "ki": 0.01, "rise": 1.0, "rise_every": 150.0}
    runs = small_runs("control_vae", settings, seeds=1, steps=3000)
    family = train(runs, BLOCKS, tmp_path)
    for run in runs:
        curves = family.model(run).curves
        assert curves["set_point"][-1] == run.hyper["target"]
        assert np.max(curves["beta"]) < run.hyper["beta_max"]
        np.testing.assert_allclose(np.mean(curves["kl"][-10:]), run.hyper["target"], rtol=0.05)
        np.testing.assert_allclose(
            curves["loss"], curves["reconstruction"] + curves["beta"] * curves["kl"], rtol=0.02
        )  # means over 30 steps, in which β and KL move together a little
