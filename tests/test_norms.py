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

from sober.methods.method import descend
from sober.nets import NETS, autoencoder
from sober.nets.autoencoder import AutoencoderStatistics
from sober.nets.layers import Linear
from sober.nets.net import Net, net
from sober.nets.norms import PACE, BatchNorm, LayerNorm


@pytest.fixture
def float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def numbers(seed: int, *shape: int) -> np.ndarray:
    return 2 + 3 * np.random.default_rng(seed).normal(size=shape)


def small() -> Net:
    """A layer and a batch norm: the least that has both weights and statistics."""
    return net(("layer", Linear(jax.random.key(0), 3, 2)), ("norm", BatchNorm.of(2)))


@pytest.mark.parametrize("shape", [(8, 4, 5, 3), (16, 3)], ids=str)
@pytest.mark.usefixtures("float64")
def test_batch_norm_in_training_goes_by_the_batch_and_says_what_it_saw(shape: tuple[int, ...]) -> None:
    x = numbers(0, *shape)
    norm = eqx.tree_at(lambda norm: (norm.scale, norm.offset), BatchNorm.of(3), (numbers(1, 3), numbers(2, 3)))
    over = tuple(range(len(shape) - 1))
    expected = (x - x.mean(over)) / np.sqrt(x.var(over) + 1e-5) * norm.scale + norm.offset
    y, seen = jax.jit(BatchNorm.on_batch)(norm, x)
    np.testing.assert_allclose(y, expected, rtol=1e-9)
    np.testing.assert_allclose(seen.mean, x.mean(over), rtol=1e-9)
    np.testing.assert_allclose(seen.variance, x.var(over), rtol=1e-9)
    check_grads(jax.jit(lambda x: norm.on_batch(x)[0]), (x[:3],), order=1, modes=["rev"])


def test_a_finished_batch_norm_goes_by_its_statistics_and_treats_pictures_alone() -> None:
    statistics = np.array([4.0, 9.0, 16.0], np.float32)
    norm = eqx.tree_at(lambda norm: norm.statistics, BatchNorm.of(3), (statistics, statistics))
    x = numbers(0, 5, 2, 2, 3).astype(np.float32)
    expected = (x - statistics) / np.sqrt(statistics + 1e-5)
    np.testing.assert_allclose(norm(x), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(norm(x)[2], norm(x[2:3])[0], rtol=1e-6)


def test_statistics_reach_those_of_the_batches_whatever_the_optimiser() -> None:
    x = numbers(0, 64, 3).astype(np.float32)
    params, memory = small(), optax.adam(0.0).init(small())  # no weight moves

    def loss(params: Net) -> tuple[jax.Array, dict[str, jax.Array], object]:
        y, seen = params.on_batch(x)
        return jnp.sum(y**3), {}, seen

    @jax.jit
    def step(params: Net, memory: object) -> tuple[Net, object]:
        params, memory, _, seen = descend(loss, params, optax.adam(0.0), memory)
        return params.after_batch(seen), memory

    first, memory = step(params, memory)
    outputs = np.asarray(params.layer("layer")(x))
    mean, variance = first.layer("norm").statistics
    np.testing.assert_allclose(mean, PACE * np.mean(outputs, 0), rtol=1e-5)
    np.testing.assert_allclose(variance, 1 - PACE + PACE * np.var(outputs, 0), rtol=1e-5)
    for _ in range(150):
        first, memory = step(first, memory)
    mean, variance = first.layer("norm").statistics
    np.testing.assert_allclose(mean, np.mean(outputs, 0), rtol=1e-4)
    np.testing.assert_allclose(variance, np.var(outputs, 0), rtol=1e-4)
    np.testing.assert_allclose(first(x), first.on_batch(x)[0], rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(first.layer("layer").weight, params.layer("layer").weight)


def test_statistics_have_no_gradient_so_no_optimiser_moves_them_and_no_norm_counts_them() -> None:
    x = numbers(0, 64, 3).astype(np.float32)
    gradient = jax.grad(lambda params: jnp.sum(params.on_batch(x)[0] ** 3))(small())
    for leaf in gradient.layer("norm").statistics:
        np.testing.assert_array_equal(leaf, 0)
    assert np.abs(gradient.layer("norm").scale).min() > 0


@pytest.mark.parametrize("nets", ["conv_bn", "resnet"])
def test_a_model_takes_in_what_it_is_told_it_saw_once_however_often_it_looked(nets: str) -> None:
    shapes = jax.eval_shape(lambda key: autoencoder(key, NETS[nets], (16, 16, 1), 3), jax.random.key(0))
    rng = np.random.default_rng(0)
    model = jax.tree.map(lambda leaf: 0.1 * rng.normal(size=leaf.shape).astype(np.float32), shapes)
    pictures = rng.random((4, 16, 16, 1), np.float32)

    @jax.jit
    def looked(model: object, pictures: jax.Array) -> tuple[object, object, object]:
        _, seen = model.encode_batch(pictures)  # type: ignore[attr-defined]
        model.encode_batch(1 - pictures)  # type: ignore[attr-defined]
        return seen, model.after_batch(AutoencoderStatistics(seen)), model.after_batch(AutoencoderStatistics())  # type: ignore[attr-defined]

    seen, after, unmoved = looked(model, pictures)
    assert jax.tree.structure(after) == jax.tree.structure(unmoved) == jax.tree.structure(model)
    moved = [not np.array_equal(a, b) for a, b in zip(jax.tree.leaves(model), jax.tree.leaves(after), strict=True)]
    assert sum(moved) == len(jax.tree.leaves(seen)) > 0  # each mean and each variance of the encoder's norms
    for a, b in zip(jax.tree.leaves(model), jax.tree.leaves(unmoved), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.usefixtures("float64")
def test_layer_norm_normalises_each_picture_and_has_second_derivatives() -> None:
    norm = eqx.tree_at(lambda norm: (norm.scale, norm.offset), LayerNorm(3), (numbers(1, 3), numbers(2, 3)))
    x = numbers(0, 4, 2, 5, 3)
    over = (1, 2, 3)
    expected = (x - x.mean(over, keepdims=True)) / np.sqrt(x.var(over, keepdims=True) + 1e-5)
    np.testing.assert_allclose(jax.jit(LayerNorm.__call__)(norm, x), expected * norm.scale + norm.offset, rtol=1e-9)
    check_grads(jax.jit(lambda norm, x: jnp.sum(norm(x) ** 3)), (norm, x[:2]), order=2, modes=["rev"])
