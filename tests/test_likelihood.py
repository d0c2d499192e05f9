"""The likelihood of pixels: Gaussian losses against their closed form and their scale, in training and in criteria."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from families import BLOCKS, small_runs
from sober.criteria import find_criterion
from sober.methods import METHODS, hyper_of
from sober.methods.method import bernoulli_loss, gaussian_loss, pixel_loss
from sober.requests.train import train

RNG = np.random.default_rng(0)
LOGITS, PIXELS = RNG.normal(size=(5, 4)), RNG.random((5, 4))
MEANS = 1 / (1 + np.exp(-LOGITS))
GAUSSIAN = {"likelihood": "gaussian"}
RECONSTRUCTS = [name for name, method in METHODS.items() if "likelihood" in {hyper.name for hyper in method.hyper}]


@pytest.mark.parametrize("variance", [0.01, 0.125, 0.25, 3.0])
def test_it_is_the_negative_logarithm_of_a_normal_density(variance: float) -> None:
    expected = -scipy.stats.norm.logpdf(PIXELS, MEANS, np.sqrt(variance))
    np.testing.assert_allclose(gaussian_loss(jnp.asarray(LOGITS), jnp.asarray(PIXELS), variance), expected, rtol=1e-5)


@pytest.mark.parametrize(("variance", "weight"), [(1 / 8, 1.0), (1 / 4, 0.5)])
def test_squared_errors_of_pixels_from_minus_one_to_one_are_a_variance_here(variance: float, weight: float) -> None:
    """Eastwood & Williams: a decoder that ends in tanh, X̂ = tanh(y), and Σ (X - X̂)² for X = 2x - 1. Training follows
    slopes with respect to y, so constants do not matter: an eighth is that sum, a quarter is half of it."""

    def theirs(y: jax.Array) -> jax.Array:
        return weight * jnp.sum((2 * PIXELS - 1 - jnp.tanh(y)) ** 2)

    def ours(y: jax.Array) -> jax.Array:
        return jnp.sum(gaussian_loss(2 * y, jnp.asarray(PIXELS), variance))

    y = jnp.asarray(LOGITS, jnp.float32)
    np.testing.assert_allclose(jax.grad(ours)(y), jax.grad(theirs)(y), atol=1e-5)
    constant = PIXELS.size * 0.5 * np.log(2 * np.pi * variance)
    np.testing.assert_allclose(ours(y) - constant, theirs(y), rtol=1e-5)


def test_without_a_setting_it_is_bernoulli() -> None:
    logits, pixels = jnp.asarray(LOGITS), jnp.asarray(PIXELS)
    np.testing.assert_array_equal(pixel_loss(logits, pixels, {}), bernoulli_loss(logits, pixels))
    np.testing.assert_array_equal(pixel_loss(logits, pixels), bernoulli_loss(logits, pixels))


def test_every_method_that_reconstructs_has_the_setting() -> None:
    assert {*METHODS} - {*RECONSTRUCTS} == {"info_gan", "pca"}


def test_the_sweeps_of_the_dci_paper_have_its_squared_error() -> None:
    [plain], [weighted] = small_runs("vae", "dci", seeds=1), small_runs("beta_vae", "dci", seeds=1)
    assert hyper_of(plain) == {"likelihood": "gaussian", "variance": 1 / 8}
    assert hyper_of(weighted) == {"beta": 6, "likelihood": "gaussian", "variance": 1 / 8}


@pytest.mark.parametrize("method", ["beta_vae", "dava", "factor_vae", "beta_tcvae"])
def test_training_and_criterion_agree_on_it(method: str, tmp_path) -> None:
    """Models of both likelihoods, and of two variances, in one family: each is judged by its own."""
    sweeps = ({}, {**GAUSSIAN, "variance": [0.02, 0.5]})
    runs = [run for sweep in sweeps for run in small_runs(method, sweep, seeds=1, steps=60)]
    family = train(runs, BLOCKS, tmp_path)
    images = BLOCKS.sample(0, 4096).images / 255
    ranking = family.select({"reconstruction": {}})
    scores = {model.run: model.scores["reconstruction"] for model in ranking.models}
    for run in runs:
        model, hyper = family.model(run), hyper_of(run)
        mean, logvar = model.encode(images.astype(np.float32))
        codes = mean + np.exp(logvar / 2) * np.random.default_rng(0).normal(size=mean.shape)
        rebuilt = model.decode(codes.astype(np.float32))  # in [0, 1] whatever the likelihood
        assert rebuilt.min() >= 0
        assert rebuilt.max() <= 1
        if hyper["likelihood"] == "gaussian":
            nats = -scipy.stats.norm.logpdf(images, rebuilt, np.sqrt(hyper["variance"]))
        else:
            nats = -scipy.stats.bernoulli.logpmf(images > 0.5, np.clip(rebuilt, 1e-7, 1 - 1e-7))
        np.testing.assert_allclose(scores[run], nats.sum(axis=(1, 2, 3)).mean(), rtol=0.02)
        np.testing.assert_allclose(model.ended("reconstruction"), scores[run], rtol=0.15)


def test_a_small_variance_asks_for_more_of_the_picture(tmp_path) -> None:
    runs = small_runs("vae", {**GAUSSIAN, "variance": [0.01, 1.0]}, seeds=1, steps=600)
    family = train(runs, BLOCKS, tmp_path)
    sharp, vague = (family.model(run) for run in runs)
    assert sharp.ended("kl") > vague.ended("kl") + 1


def test_a_criterion_of_a_method_without_the_setting_is_bernoulli(tmp_path) -> None:
    [run] = small_runs("pca", seeds=1, steps=1)
    family = train([run], BLOCKS, tmp_path)
    assert find_criterion("reconstruction").better == "lower"
    score = family.select({"reconstruction": {}}).best.scores["reconstruction"]
    assert score > 0  # a Bernoulli log-likelihood is a probability's


def test_the_run_of_another_variance_is_another_run() -> None:
    [run] = small_runs("vae", GAUSSIAN, seeds=1)
    other = dataclasses.replace(run, hyper={**run.hyper, "variance": 0.25})
    assert other.identity != run.identity
