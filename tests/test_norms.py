"""Norms: what they normalise over, and how batch norm keeps and follows its running statistics."""

from __future__ import annotations

from collections.abc import Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.test_util import check_grads

from sober.methods.method import descend, follow, norm_of
from sober.nets.layers import Linear
from sober.nets.norms import PACE, BatchNorm, LayerNorm, in_training, map_statistics


@pytest.fixture
def float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def numbers(seed: int, *shape: int) -> np.ndarray:
    return 2 + 3 * np.random.default_rng(seed).normal(size=shape)


class Net(eqx.Module):
    """A layer and a batch norm: the least that has both weights and statistics."""

    layer: Linear
    norm: BatchNorm

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.norm(self.layer(x))


@jax.jit
def applied(norm: BatchNorm | LayerNorm, x: jax.Array) -> jax.Array:
    return norm(x)


def net(training: bool) -> Net:
    return in_training(Net(Linear(jax.random.key(0), 3, 2), BatchNorm.of(2)), training)


@pytest.mark.parametrize("shape", [(8, 4, 5, 3), (16, 3)], ids=str)
@pytest.mark.usefixtures("float64")
def test_batch_norm_in_training_goes_by_the_batch(shape: tuple[int, ...]) -> None:
    x = numbers(0, *shape)
    norm = eqx.tree_at(lambda norm: (norm.scale, norm.offset), BatchNorm.of(3), (numbers(1, 3), numbers(2, 3)))
    over = tuple(range(len(shape) - 1))
    expected = (x - x.mean(over)) / np.sqrt(x.var(over) + 1e-5) * norm.scale + norm.offset
    training = in_training(norm, True)
    np.testing.assert_allclose(applied(training, x), expected, rtol=1e-9)
    check_grads(lambda x: applied(training, x), (x[:3],), order=1, modes=["rev"])


def test_a_finished_batch_norm_goes_by_its_statistics_and_treats_pictures_alone() -> None:
    statistics = np.array([4.0, 9.0, 16.0], np.float32)
    norm = map_statistics(lambda _: statistics, BatchNorm.of(3))
    x = numbers(0, 5, 2, 2, 3).astype(np.float32)
    expected = (x - statistics) / np.sqrt(statistics + 1e-5)
    np.testing.assert_allclose(norm(x), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(norm(x)[2], norm(x[2:3])[0], rtol=1e-6)


def test_statistics_reach_those_of_the_batches_whatever_the_optimiser() -> None:
    x = numbers(0, 64, 3).astype(np.float32)
    params, memory = net(True), optax.adam(0.0).init(net(True))  # no weight moves

    @jax.jit
    def step(params: Net, memory: object) -> tuple[Net, object]:
        params, memory, _ = descend(lambda net: (jnp.sum(net(x) ** 3), {}), params, optax.adam(0.0), memory)
        return params, memory

    first, memory = step(params, memory)
    outputs = np.asarray(params.layer(x))
    np.testing.assert_allclose(first.norm.statistics[0], PACE * np.mean(outputs, 0), rtol=1e-5)
    np.testing.assert_allclose(first.norm.statistics[1], 1 - PACE + PACE * np.var(outputs, 0), rtol=1e-5)
    for _ in range(150):
        first, memory = step(first, memory)
    np.testing.assert_allclose(first.norm.statistics[0], np.mean(outputs, 0), rtol=1e-4)
    np.testing.assert_allclose(first.norm.statistics[1], np.var(outputs, 0), rtol=1e-4)
    np.testing.assert_allclose(in_training(first, False)(x), first(x), rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(first.layer.weight, params.layer.weight)


def test_statistics_count_neither_in_a_norm_nor_in_a_step_of_the_weights() -> None:
    gradient = jax.tree.map(jnp.ones_like, net(True))
    assert norm_of(gradient) == np.sqrt(3 * 2 + 2 + 2 + 2)  # weights, bias, scale, offset
    far = map_statistics(lambda distance: 1e6 * distance, gradient)
    clip = optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(1.0))
    after, _ = follow(far, net(True), clip, clip.init(net(True)))
    np.testing.assert_allclose(after.norm.offset, -1 / np.sqrt(12), rtol=1e-6)
    np.testing.assert_allclose(after.norm.statistics[0], -PACE * 1e6)


def test_in_training_turns_there_and_back_and_leaves_numbers_alone() -> None:
    there = in_training(net(False), True)
    assert there.norm.training
    assert jax.tree.structure(in_training(there, False)) == jax.tree.structure(net(False))
    for a, b in zip(jax.tree.leaves(there), jax.tree.leaves(net(False)), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.usefixtures("float64")
def test_layer_norm_normalises_each_picture_and_has_second_derivatives() -> None:
    norm = eqx.tree_at(lambda norm: (norm.scale, norm.offset), LayerNorm(3), (numbers(1, 3), numbers(2, 3)))
    x = numbers(0, 4, 2, 5, 3)
    over = (1, 2, 3)
    expected = (x - x.mean(over, keepdims=True)) / np.sqrt(x.var(over, keepdims=True) + 1e-5)
    np.testing.assert_allclose(applied(norm, x), expected * norm.scale + norm.offset, rtol=1e-9)
    check_grads(jax.jit(lambda norm, x: jnp.sum(norm(x) ** 3)), (norm, x[:2]), order=2, modes=["rev"])
