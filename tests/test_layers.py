"""The ensemble-fast layers compute what the usual convolutions do, values and gradients alike."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from sober.nets import layers
from sober.nets.cpu_gpu_variants import VARIANTS
from sober.nets.layers import Conv, Conv3, Deconv, Linear, add_bias, doubled, halved, matmul, relu

LAYOUT = ("NHWC", "HWIO", "NHWC")
# Few channels on one side or the other select the form of each layer; the pairs (4, 16) and (16, 4) are at the edge.
PAIRS = [(1, 32), (3, 32), (32, 32), (8, 16), (64, 8), (32, 1), (32, 3), (5, 7), (4, 16), (16, 4)]

both = pytest.mark.parametrize("layer", [Conv, Deconv])


@pytest.fixture
def float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def usual_conv(layer: Conv, x: jax.Array) -> jax.Array:
    return jax.lax.conv_general_dilated(x, layer.kernel(), (2, 2), ((1, 1), (1, 1)), dimension_numbers=LAYOUT) + (
        layer.bias
    )


def usual_deconv(layer: Deconv, x: jax.Array) -> jax.Array:
    # lax slides the kernel over the spread-out input, which turns it around.
    turned = layer.kernel()[::-1, ::-1]
    return jax.lax.conv_transpose(x, turned, (2, 2), "SAME", dimension_numbers=LAYOUT) + layer.bias


USUAL: dict[type, Callable[[Any, jax.Array], jax.Array]] = {Conv: usual_conv, Deconv: usual_deconv}


def made(layer: type, i: int, o: int, seed: int = 0) -> Any:
    """A layer with random weights, its bias too. NumPy draws them: JAX would compile a program for every shape."""
    rng = np.random.default_rng(seed)
    shapes = jax.eval_shape(lambda key: layer(key, i, o), jax.random.key(0))
    return jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape), leaf.dtype), shapes)


def normal(seed: int, *shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape))


def value_and_gradients(call: Callable[[Any, jax.Array], jax.Array], layer: Any, x: jax.Array) -> Any:
    """The output, and the gradients of the layer and of its input for one cotangent that is not symmetric."""
    y, pull = jax.vjp(call, layer, x)
    cotangent = 1.5 + np.sin(np.arange(y.size)).reshape(y.shape)  # positive, so that no sum cancels
    return y, pull(jnp.asarray(cotangent, y.dtype))


@both
@pytest.mark.parametrize(("i", "o"), PAIRS)
@pytest.mark.usefixtures("float64")
def test_values_and_gradients_are_those_of_the_usual_convolution(layer: type, i: int, o: int) -> None:
    def compare(model: Any, x: jax.Array) -> Any:
        return value_and_gradients(layer.__call__, model, x), value_and_gradients(USUAL[layer], model, x)

    ours, theirs = jax.jit(compare)(made(layer, i, o), normal(1, 2, 4, 6, i))
    assert ours[0].shape == ((2, 2, 3, o) if layer is Conv else (2, 8, 12, o))
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert a.dtype == b.dtype == jnp.float64
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


@both
def test_the_pairs_cover_both_forms(layer: type) -> None:
    shapes = [(i, o, made(layer, i, o).weight.shape) for i, o in PAIRS]
    gathers = [shape in ((16 * i, o), (i, 16 * o)) for i, o, shape in shapes]
    assert any(gathers)
    assert not all(gathers)


@both
@pytest.mark.parametrize(("i", "o"), [(1, 32), (32, 1), (5, 7)])
def test_a_kernel_holds_every_weight_once(layer: Any, i: int, o: int) -> None:
    ours = made(layer, i, o)
    kernel = jax.jit(layer.kernel)(ours)
    assert kernel.shape == (4, 4, i, o)
    np.testing.assert_array_equal(np.sort(kernel, axis=None), np.sort(ours.weight, axis=None))


def test_a_pixel_is_spread_as_the_kernel_says() -> None:
    ours = eqx.tree_at(lambda layer: layer.bias, made(Deconv, 2, 3), jnp.zeros(3))
    pixel = np.zeros((1, 4, 5, 2), np.float32)
    pixel[0, 1, 2, 1] = 1
    spread, kernel = map(np.array, jax.jit(lambda layer, x: (layer(x), layer.kernel()))(ours, pixel))
    # Pixel (1, 2) adds kernel[a, b] to (2 + a - 1, 4 + b - 1), and nothing elsewhere.
    np.testing.assert_array_equal(spread[0, 1:5, 3:7], kernel[:, :, 1])
    spread[0, 1:5, 3:7] = 0
    assert not spread.any()


def stack(trees: list[Any]) -> Any:
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


@pytest.mark.parametrize(
    ("layer", "i", "o"), [(Linear, 5, 7), (Conv, 1, 8), (Conv, 5, 7), (Deconv, 8, 1), (Deconv, 5, 7)]
)
@pytest.mark.usefixtures("float64")
def test_many_models_at_once_give_what_each_gives_alone(layer: type, i: int, o: int) -> None:
    models = [made(layer, i, o, seed) for seed in range(3)]
    x = normal(1, 3, 2, 4, 6, i)  # a batch for each model
    step = functools.partial(value_and_gradients, layer.__call__)
    together = jax.jit(jax.vmap(step))(stack(models), x)
    step = jax.jit(step)
    alone = stack([step(model, part) for model, part in zip(models, x, strict=True)])
    for a, b in zip(jax.tree.leaves(together), jax.tree.leaves(alone), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("there", "back", "before", "after"),
    [
        ("blocks", "unblocks", (2, 6, 8, 3), (2, 4, 5, 12)),
        ("collect", "spread", (2, 4, 5, 12), (2, 3, 4, 3)),
        ("corners", "overlap", (2, 4, 5, 3), (2, 3, 4, 12)),
    ],
)
def test_each_pair_of_operations_is_adjoint(there: str, back: str, before: Any, after: Any) -> None:
    rng = np.random.default_rng(0)
    # Whole numbers, so that the sums are exact and must be equal.
    x, y = (rng.integers(-9, 10, shape).astype(np.float32) for shape in (before, after))

    def apply(x: jax.Array, y: jax.Array) -> Any:
        mapped, pull_there = jax.vjp(getattr(layers, there), x)
        returned, pull_back = jax.vjp(getattr(layers, back), y)
        return mapped, returned, pull_back(x)[0], pull_there(y)[0]

    mapped, returned, *gradients = map(np.asarray, jax.jit(apply)(x, y))
    assert mapped.shape == after
    assert returned.shape == before
    assert np.vdot(mapped, y) == np.vdot(x, returned) != 0
    np.testing.assert_array_equal(gradients[0], mapped)
    np.testing.assert_array_equal(gradients[1], returned)


@pytest.mark.parametrize("name", sorted(VARIANTS))
def test_what_a_gpu_is_given_is_what_a_cpu_is_given(name: str) -> None:
    x = normal(0, *((48, 5) if name == "sums" else (2, 6, 8, 5)))
    cpu, gpu = (np.asarray(jax.jit(form)(x)) for form in VARIANTS[name])
    if name == "sums":  # in another order
        np.testing.assert_allclose(cpu, gpu, rtol=1e-5)
    else:
        np.testing.assert_array_equal(cpu, gpu)


@pytest.mark.parametrize(
    ("layer", "i", "o"), [(Linear, 32, 16), (Conv, 1, 32), (Conv, 32, 32), (Deconv, 32, 1), (Deconv, 32, 32)]
)
def test_bfloat16_pictures_give_bfloat16_outputs_and_float32_gradients_of_the_weights(
    layer: type, i: int, o: int
) -> None:
    model, x = made(layer, i, o), normal(1, 4, 8, 8, i)
    step = jax.jit(functools.partial(value_and_gradients, layer.__call__))
    y, (gradient, to_input) = step(model, x.astype(jnp.bfloat16))
    assert y.dtype == to_input.dtype == jnp.bfloat16
    assert gradient.weight.dtype == gradient.bias.dtype == jnp.float32
    for a, b in zip(jax.tree.leaves((y, gradient, to_input)), jax.tree.leaves(step(model, x)), strict=True):
        exact = np.asarray(b)
        assert np.linalg.norm(np.asarray(a, np.float32) - exact) < 0.02 * np.linalg.norm(exact)


def test_sums_over_a_bfloat16_batch_are_taken_in_float32() -> None:
    ones = jnp.ones((1001, 2), jnp.bfloat16)  # bfloat16 cannot hold 1001
    # Not compiled as a whole: the compiler may leave out a rounding to bfloat16, and hide that it is asked for.
    gradient = jax.grad(lambda layer: layer(ones).sum().astype(jnp.float32))(made(Linear, 2, 3))
    assert (gradient.weight == 1001).all()
    assert (gradient.bias == 1001).all()


@pytest.mark.parametrize("batch", [(), (2, 3, 4)])
@pytest.mark.usefixtures("float64")
def test_gradients_of_the_matrix_product_and_the_bias_are_those_of_finite_differences(batch: tuple[int, ...]) -> None:
    check_grads(matmul, (normal(0, *batch, 5), normal(1, 5, 7)), order=2, modes=["rev"])
    check_grads(add_bias, (normal(0, *batch, 5), normal(1, 5)), order=2, modes=["rev"])


@pytest.mark.usefixtures("float64")
def test_relu_is_the_usual_one_with_its_gradients() -> None:
    x = np.array([-2.0, -0.0, 0.0, 1e-30, 3.0])
    np.testing.assert_array_equal(relu(x), jax.nn.relu(x))
    ours, theirs = (jax.jit(jax.grad(lambda x, f=f: jnp.sum(f(x) ** 3 + f(x))))(x) for f in (relu, jax.nn.relu))
    np.testing.assert_array_equal(ours, theirs)
    check_grads(relu, (normal(0, 4, 5),), order=2, modes=["rev"])


@pytest.mark.parametrize(("layer", "i", "o", "fans"), [(Conv, 32, 64, 16 * 96), (Linear, 200, 100, 300)])
def test_initial_weights_have_the_variance_of_glorot(layer: type, i: int, o: int, fans: int) -> None:
    model = jax.jit(lambda key: layer(key, i, o))(jax.random.key(0))
    weight, limit = np.asarray(model.weight), np.sqrt(6 / fans)
    assert 0.99 * limit < np.abs(weight).max() <= limit
    np.testing.assert_allclose(weight.var(), 2 / fans, rtol=0.03)
    assert not np.asarray(model.bias).any()


@pytest.mark.parametrize(("i", "o"), [(1, 4), (3, 2), (5, 7)])
@pytest.mark.usefixtures("float64")
def test_values_and_gradients_of_three_by_three_are_those_of_the_usual_convolution(i: int, o: int) -> None:
    def usual(layer: Conv3, x: jax.Array) -> jax.Array:
        return jax.lax.conv_general_dilated(x, layer.kernel(), (1, 1), "SAME", dimension_numbers=LAYOUT) + layer.bias

    def compare(model: Any, x: jax.Array) -> Any:
        return value_and_gradients(Conv3.__call__, model, x), value_and_gradients(usual, model, x)

    ours, theirs = jax.jit(compare)(made(Conv3, i, o), normal(1, 2, 4, 6, i))
    assert ours[0].shape == (2, 4, 6, o)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("layer", "i", "o"), [(Conv, 1, 8), (Conv, 3, 5), (Deconv, 8, 1), (Deconv, 3, 5), (Conv3, 3, 5), (Linear, 3, 5)]
)
@pytest.mark.usefixtures("float64")
def test_second_derivatives_are_right(layer: type, i: int, o: int) -> None:
    """A gradient penalty descends the gradient of a gradient."""
    x, cubes = normal(1, 2, 4, 4, i), jax.jit(lambda model, x: jnp.sum(model(x) ** 3))
    check_grads(cubes, (made(layer, i, o), x), order=2, modes=["rev"], rtol=1e-4)


def test_halving_takes_means_and_undoes_doubling() -> None:
    x = normal(0, 2, 4, 6, 3)
    np.testing.assert_allclose(halved(x)[:, 1, 2], np.mean(x[:, 2:4, 4:6], axis=(1, 2)), rtol=1e-6)
    np.testing.assert_allclose(halved(doubled(x)), x, rtol=1e-6)
    assert (doubled(x)[:, 3, 5] == x[:, 1, 2]).all()
