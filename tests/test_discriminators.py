"""Discriminators of codes and of pictures, and the instance norm in the latter."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from sober.nets import NETS, Compute
from sober.nets.discriminators import code_discriminator, picture_discriminator
from sober.nets.layers import instance_norm


@pytest.fixture
def float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def normal(*shape: int) -> jax.Array:
    return jnp.asarray(3 + 2 * np.random.default_rng(0).normal(size=shape))


@pytest.mark.parametrize(("shape", "axes"), [((5, 4, 6, 3), (1, 2)), ((5, 12), (1,)), ((2, 1, 4, 3), (1, 2))], ids=str)
def test_instance_norm_gives_every_channel_of_a_picture_mean_0_and_variance_1(
    shape: tuple[int, ...], axes: tuple[int, ...], float64: None
) -> None:
    x = normal(*shape)
    y, alone = map(np.asarray, jax.jit(lambda x: (instance_norm(x), instance_norm(x[1:2])))(x))
    np.testing.assert_allclose(np.mean(y, axes), 0, atol=1e-9)
    np.testing.assert_allclose(np.var(y, axes), 1, rtol=1e-3)
    np.testing.assert_allclose(y[1], alone[0])  # no picture knows of another
    x = np.asarray(x)
    usual = (x - np.mean(x, axes, keepdims=True)) / np.sqrt(np.var(x, axes, keepdims=True) + 1e-5)
    np.testing.assert_allclose(y, usual, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("shape", [(3, 4, 2, 2), (3, 7), (3, 1, 1, 2)], ids=str)
def test_the_gradient_of_instance_norm(shape: tuple[int, ...], float64: None) -> None:
    check_grads(jax.jit(instance_norm), (normal(*shape),), order=1, modes=["rev"])


def test_instance_norm_leaves_single_positions_and_flat_channels_finite() -> None:
    x = normal(3, 1, 1, 2).astype(jnp.float32)
    np.testing.assert_array_equal(instance_norm(x), x)
    flat = np.full((2, 4, 4, 3), 7.0, np.float32)
    np.testing.assert_allclose(jax.jit(instance_norm)(flat), 0, atol=1e-3)
    assert np.isfinite(jax.jit(jax.grad(lambda x: jnp.sum(instance_norm(x) ** 2)))(flat)).all()


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_logits_are_float32_whatever_is_computed_in(dtype: jnp.dtype) -> None:
    compute = Compute(dtype)
    codes = jax.jit(lambda key: compute.run(code_discriminator(key, 4, 8), jnp.ones((5, 4))))(jax.random.key(0))
    assert codes.shape == (5, 2)
    assert codes.dtype == jnp.float32
    for name, nets in NETS.items():
        of = jax.eval_shape(
            lambda key, nets=nets: compute.run(picture_discriminator(key, nets, (16, 16, 1)), jnp.ones((5, 16, 16, 1))),
            jax.random.key(0),
        )
        assert of.shape == (5, 1), name
        assert of.dtype == jnp.float32, name


@pytest.mark.parametrize("name", sorted(NETS))
def test_a_discriminator_of_pictures_judges_each_picture_alone(name: str) -> None:
    rng = np.random.default_rng(0)
    pictures = rng.random((4, 16, 16, 1), np.float32)
    shapes = jax.eval_shape(lambda key: picture_discriminator(key, NETS[name], (16, 16, 1)), jax.random.key(0))
    # NumPy draws the weights: JAX would compile a program for every shape.
    net = jax.tree.map(lambda leaf: 0.1 * rng.standard_normal(leaf.shape, leaf.dtype), shapes)
    judge = jax.jit(lambda net, pictures: net(pictures))
    before, after = judge(net, pictures), judge(net, np.concatenate([pictures[:1] ** 3, pictures[1:]]))
    assert before[0] != after[0]
    np.testing.assert_array_equal(before[1:], after[1:])
