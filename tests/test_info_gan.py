"""InfoGAN: the critic's penalty, what each part learns from, and codes that the metrics take."""

from __future__ import annotations

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from families import BLOCKS, small_runs
from sober.methods import METHODS
from sober.methods.info_gan import (
    CRITIC_STEPS,
    critic_loss,
    draw_codes,
    game,
    generator_loss,
    gradient_penalty,
    information_loss,
    judged,
)
from sober.methods.method import Setup
from sober.metrics import score
from sober.nets import FLOAT32, NETS, Autoencoder
from sober.workflows.train import train

SHAPE, LATENTS, BATCH = (16, 16, 1), 3, 8
SETUP = Setup(NETS["small"], SHAPE, LATENTS, BATCH, 4096, FLOAT32, optax.sgd(0.1))
HYPER: dict[str, Any] = METHODS["info_gan"].settings({})


@functools.cache
def fresh() -> Autoencoder:
    return jax.jit(lambda key: game(key, NETS["small"], SHAPE, LATENTS))(jax.random.key(0))


def pictures(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).random((BATCH, *SHAPE), np.float32)


@jax.jit
def penalty_of(critic: Any, real: jax.Array, fake: jax.Array) -> jax.Array:
    return gradient_penalty(critic, real, fake, jax.random.key(0), FLOAT32)


class Slope(eqx.Module):
    """A critic that is a plane: its slope is the same everywhere."""

    weight: jax.Array

    def __call__(self, images: jax.Array) -> jax.Array:
        scores = images.reshape(len(images), -1) @ self.weight
        return jnp.stack([scores, scores], axis=1)


@pytest.mark.parametrize("slope", [0.0, 1.0, 3.0])
def test_the_penalty_of_a_plane_is_the_square_of_its_slope_less_one(slope):
    weight = np.random.default_rng(0).normal(size=256)
    critic = Slope(jnp.asarray(slope * weight / np.linalg.norm(weight), jnp.float32))
    np.testing.assert_allclose(penalty_of(critic, pictures(0), pictures(1)), (slope - 1) ** 2, atol=1e-5)


def test_the_penalty_looks_anywhere_between_real_and_generated_pictures():
    """The slope of |x|² / 2 is x. From 0 to a picture of length s, its length is uniform between 0 and s."""

    class Bowl(eqx.Module):
        def __call__(self, images: jax.Array) -> jax.Array:
            return jnp.stack([images[:, 0, 0, 0], jnp.sum(images**2, axis=(1, 2, 3)) / 2], axis=1)

    real, s = np.zeros((100_000, 1, 1, 1), np.float32), np.float32(2.5)
    penalty = penalty_of(Bowl(), real, real + s)
    np.testing.assert_allclose(penalty, s**2 / 3 - s + 1, rtol=0.01)  # the mean of (u s - 1)²


def test_codes_are_uniform_with_variance_1():
    setup = Setup(NETS["small"], SHAPE, 4, 20_000, 4096, FLOAT32, optax.sgd(0.1))
    codes = np.asarray(draw_codes(jax.random.key(0), setup))
    np.testing.assert_allclose(codes.mean(0), 0, atol=0.03)
    np.testing.assert_allclose(codes.var(0), 1, atol=0.03)
    assert np.abs(codes).max() <= np.sqrt(3)


def test_reading_codes_back_is_a_gaussian_likelihood_of_deviation_1():
    codes, read = np.zeros((2, 3)), np.array([[1.0, 2.0, 0.0], [0.0, 0.0, 3.0]])
    log_likelihood = -0.5 * np.sum((codes - read) ** 2, axis=1)
    np.testing.assert_allclose(information_loss(jnp.asarray(codes), jnp.asarray(read)), -log_likelihood.mean())


def test_critic_and_q_share_all_layers_but_the_last():
    model = fresh()
    leaves = [leaf.shape for leaf in jax.tree.leaves(model.encoder)]
    assert leaves.count((64, LATENTS + 1)) == 1  # Q's columns and the critic's
    codes, scores = jax.jit(judged)(model.encoder, pictures(0))
    assert codes.shape == (BATCH, LATENTS)
    assert scores.shape == (BATCH,)
    np.testing.assert_array_equal(jax.jit(Autoencoder.encode)(model, pictures(0))[0], codes)


def test_the_generator_descends_both_of_its_terms():
    """Without information it follows the critic alone; without the critic's column, the information alone."""
    codes = draw_codes(jax.random.key(1), SETUP)

    @jax.jit
    def descent(model: Autoencoder, weight: float) -> Any:
        loss = lambda net: generator_loss(net, model.encoder, codes, {"information": weight}, FLOAT32)[0]  # noqa: E731
        return jax.grad(loss)(model.decoder)

    def gradient(model: Autoencoder, weight: float) -> np.ndarray:
        return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(descent(model, weight))])

    out = fresh().encoder.layers[-1]
    blind = eqx.tree_at(lambda m: m.encoder.layers[-1].weight, fresh(), out.weight.at[:, -1].set(0))
    both = gradient(fresh(), 6.0)
    np.testing.assert_allclose(both, gradient(fresh(), 0.0) + gradient(blind, 6.0), atol=1e-5)
    assert np.abs(gradient(fresh(), 0.0)).max() > 1e-6


def test_the_critic_raises_real_above_generated_pictures():
    model, real, fake = fresh(), pictures(0), pictures(1) ** 4
    codes = draw_codes(jax.random.key(1), SETUP)
    optimiser = optax.adam(1e-3)

    @jax.jit
    def step(net: Any, memory: Any) -> Any:
        loss = lambda net: critic_loss(net, real, fake, codes, jax.random.key(2), HYPER, FLOAT32)[:2]  # noqa: E731
        (_, terms), gradient = jax.value_and_grad(loss, has_aux=True)(net)
        updates, memory = optimiser.update(gradient, memory, net)
        return optax.apply_updates(net, updates), memory, terms

    net, memory = model.encoder, optimiser.init(model.encoder)
    distances = []
    for _ in range(100):
        net, memory, terms = step(net, memory)
        distances.append(float(terms["wasserstein"]))
    assert distances[-1] > distances[0] + 1
    assert terms["penalty"] < 0.5


def test_a_step_is_five_of_the_critic_on_fresh_pictures_and_one_of_the_generator():
    drawn = []

    def draw(key: jax.Array) -> jax.Array:
        jax.debug.callback(lambda data: drawn.append(tuple(np.asarray(data))), jax.random.key_data(key))
        return jax.random.uniform(key, (BATCH, *SHAPE))

    hyper = {name: jnp.float32(value) for name, value in HYPER.items()}
    method = METHODS["info_gan"]

    @jax.jit
    def first(key: jax.Array) -> Any:
        before = method.init(SETUP, key, hyper)
        return method.update(SETUP, before, draw, jax.random.key(1), jnp.int32(0), hyper)[0]

    after = first(jax.random.key(0))
    jax.effects_barrier()
    assert len(set(drawn)) == CRITIC_STEPS == 5
    counts = {int(leaf) for leaf in jax.tree.leaves(after.memory) if leaf.dtype == jnp.int32}
    assert counts == {CRITIC_STEPS}


def test_its_codes_are_scored_like_any_others(tmp_path):
    runs = small_runs("info_gan")
    family = train(runs, BLOCKS, tmp_path)
    (_, codes), *_ = family.encode()
    assert (codes.logvar == 0).all()
    scores = score(codes, metrics=["mig", "modularity", "sap"])
    assert all(0 <= value <= 1 for value in scores.values())


@pytest.mark.parametrize("nets", ["conv", "resnet"])
def test_it_plays_with_the_nets_of_the_papers(nets):
    shapes = jax.eval_shape(lambda key: game(key, NETS[nets], (64, 64, 3), 10), jax.random.key(0))
    mean, logvar = jax.eval_shape(lambda model: model.encode(jnp.zeros((2, 64, 64, 3))), shapes)
    assert mean.shape == logvar.shape == (2, 10)
