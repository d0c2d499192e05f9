"""What is particular to the annealed VAE; the rest is in test_every_method.py."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from families import BLOCKS, small_runs
from sober.methods import METHODS
from sober.methods.annealed_vae import capacity, distance
from sober.requests.train import train


@pytest.mark.parametrize(
    ("step", "nats"), [(0, 0.0), (1, 2.5e-4), (50_000, 12.5), (99_999, 24.99975), (100_000, 25.0), (300_000, 25.0)]
)
def test_the_capacity_rises_in_a_straight_line_and_stays(step, nats):
    hyper = {"c_max": jnp.float32(25), "iteration_threshold": jnp.float32(100_000)}
    np.testing.assert_allclose(capacity(jnp.int32(step), hyper), nats, rtol=1e-6)


def test_each_model_follows_its_own_schedule_and_pays_for_the_distance_to_it(tmp_path):
    schedules = (
        {"gamma": 10.0, "c_max": 2.0, "iteration_threshold": 40.0},
        {"gamma": 100.0, "c_max": 6.0, "iteration_threshold": 10.0},
    )
    runs = [run for settings in schedules for run in small_runs("annealed_vae", settings, seeds=1, steps=20)]
    family = train(runs, BLOCKS, tmp_path)
    for run in runs:
        curves, hyper = family.model(run).curves, run.hyper  # of 20 steps each is an entry
        expected = hyper["c_max"] * np.minimum(np.arange(20) / hyper["iteration_threshold"], 1)
        np.testing.assert_allclose(curves["capacity"], expected, rtol=1e-6)
        distance = np.abs(curves["kl"] - curves["capacity"])
        np.testing.assert_allclose(curves["loss"], curves["reconstruction"] + hyper["gamma"] * distance, rtol=1e-5)


@pytest.mark.parametrize(("kl", "c"), [(0.0, 0.5), (10.0, 0.5), (30.0, 5.0)])
def test_the_fourth_power_is_that_of_the_mean_over_latents(kl, c):
    """Estermann & Wattenhofer (2023), Algorithm 1; the absolute value is that of the sum."""
    np.testing.assert_allclose(distance(jnp.float32(kl), jnp.float32(c), 10, "fourth"), (kl / 10 - c) ** 4, rtol=1e-6)
    np.testing.assert_allclose(distance(jnp.float32(kl), jnp.float32(c), 10, "absolute"), abs(kl - c), rtol=1e-6)


def test_the_sweep_of_the_dava_paper_is_its_tables_as_printed(tmp_path):
    """Table 7: C = 1/2, 1, 2, 5, 25, 50; Table 5: γ = 1000, and 100,000 steps until C is reached."""
    sweep = METHODS["annealed_vae"].sweep("dava")
    assert sweep == {"c_max": (0.5, 1, 2, 5, 25, 50), "gamma": (1000,), "penalty": ("fourth",)}
    [run] = small_runs("annealed_vae", {**sweep, "c_max": 5.0, "iteration_threshold": 10.0}, seeds=1)
    curves = train([run], BLOCKS, tmp_path).model(run).curves
    penalty = 1000 * (curves["kl"] / run.latents - curves["capacity"]) ** 4
    np.testing.assert_allclose(curves["loss"], curves["reconstruction"] + penalty, rtol=1e-5)
    np.testing.assert_allclose(curves["capacity"][-1], 5.0)


def test_the_kl_follows_the_capacity(tmp_path):
    settings = {"gamma": 100.0, "c_max": [1.0, 4.0], "iteration_threshold": 800.0}
    runs = small_runs("annealed_vae", settings, seeds=1, steps=1000)
    family = train(runs, BLOCKS, tmp_path)
    for run in runs:
        curves = family.model(run).curves
        np.testing.assert_allclose(curves["kl"][-10:], run.hyper["c_max"], rtol=0.1)
        np.testing.assert_allclose(curves["kl"][50], curves["capacity"][50], rtol=0.25)
