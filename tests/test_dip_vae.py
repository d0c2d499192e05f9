"""What is particular to DIP-VAE-I and DIP-VAE-II; the rest is in test_every_method.py."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from families import BLOCKS, small_runs
from sober.methods import METHODS
from sober.methods.dip_vae_i import covariance, distance_to_identity, penalised
from sober.methods.dip_vae_ii import sample_covariance
from sober.methods.method import Elbo
from sober.nets.autoencoder import AutoencoderStatistics
from sober.requests.train import train

RNG = np.random.default_rng(0)
MEAN, LOGVAR = RNG.normal(size=(50, 4)) @ RNG.normal(size=(4, 4)) + 3, RNG.normal(size=(50, 4)) - 1


def test_the_covariance_of_means_is_that_of_numpy():
    np.testing.assert_allclose(covariance(jnp.asarray(MEAN)), np.cov(MEAN.T, bias=True), rtol=1e-4, atol=1e-5)


def test_the_covariance_of_samples_is_that_of_many_samples():
    ours = sample_covariance(jnp.asarray(MEAN), jnp.asarray(LOGVAR))
    many = MEAN + np.exp(LOGVAR / 2) * RNG.normal(size=(20_000, 50, 4))
    np.testing.assert_allclose(ours, np.cov(many.reshape(-1, 4).T, bias=True), atol=0.05)


@pytest.mark.parametrize(
    ("matrix", "off_diagonal", "diagonal"),
    [
        (np.eye(3), 0.0, 0.0),
        (np.diag([1.0, 3.0, 0.0]), 0.0, 5.0),
        (np.array([[1.0, 0.5, -2.0], [0.5, 1.0, 0.0], [-2.0, 0.0, 1.5]]), 8.5, 0.25),
    ],
)
def test_the_penalty_is_the_formula(matrix, off_diagonal, diagonal):
    np.testing.assert_allclose(distance_to_identity(jnp.asarray(matrix)), (off_diagonal, diagonal), atol=1e-6)
    nothing = jnp.zeros((1, 3))
    elbo = Elbo(
        {"reconstruction": jnp.float32(7), "kl": jnp.float32(2)}, nothing, nothing, nothing, AutoencoderStatistics()
    )
    loss, *_ = penalised(elbo, jnp.asarray(matrix), {"lambda_od": 3.0, "lambda_d_factor": 10.0})
    slow = sum(
        3.0 * matrix[i, j] ** 2 if i != j else 30.0 * (matrix[i, i] - 1) ** 2 for i in range(3) for j in range(3)
    )
    np.testing.assert_allclose(loss, 9 + slow, rtol=1e-6)


def test_the_weights_of_the_diagonal_are_the_papers():
    assert METHODS["dip_vae_i"].settings({})["lambda_d_factor"] == 10
    assert METHODS["dip_vae_ii"].settings({})["lambda_d_factor"] == 1


def test_the_codes_come_close_to_uncorrelated_with_variance_one(tmp_path):
    """Means in DIP-VAE-I; in DIP-VAE-II the samples. Of all pictures, with more penalty than none."""
    images = BLOCKS.render(np.arange(0, BLOCKS.size, 4))
    for name in ("dip_vae_i", "dip_vae_ii"):
        runs = small_runs(name, {"lambda_od": [0.0, 20.0]}, seeds=1, steps=1500)
        family = train(runs, BLOCKS, tmp_path / name)
        distances = []
        for run in runs:
            mean, logvar = (jnp.asarray(part) for part in family.model(run).encode(images))
            matrix = covariance(mean) if name == "dip_vae_i" else sample_covariance(mean, logvar)
            distances.append(float(sum(distance_to_identity(matrix))))
        without, penalty = distances
        assert penalty < 0.1
        assert penalty < 0.3 * without
