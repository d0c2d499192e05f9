"""The gradient that a method descends is that of the loss it reports, by central differences in float64."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from sober.methods import METHODS
from sober.methods.method import Setup, bernoulli_loss
from sober.nets import NETS, Compute
from sober.nets.dense import dense_decoder, dense_encoder

STEP = 1e-6
# Steps that go down several losses, one after the other, or down none, are checked by their own tests.
CHOICES = [
    (name, choices)
    for name, method in METHODS.items()
    if method.losses == 1
    for choices in [{}, *({h.name: choice} for h in method.hyper for choice in h.choices if choice != h.default)]
]

# Smooth, so that differences are good everywhere.
TINY = dataclasses.replace(
    NETS["small"],
    encoder=lambda key, shape, outputs: dense_encoder(key, shape, outputs, widths=(5,), activation=jnp.tanh),
    decoder=lambda key, shape, latents: dense_decoder(key, shape, latents, widths=(5,), activation=jnp.tanh),
)


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize(("name", "choices"), CHOICES)
def test_the_gradient_agrees_with_central_differences(name, choices):
    """A step of plain gradient descent at rate 1 moves the weights by the gradient, which is how it is read here."""
    method = METHODS[name]
    setup = Setup(TINY, (4, 4, 1), 3, 6, 40, Compute(jnp.float64), optax.sgd(1.0))
    settings = method.complete(method.settings(choices))
    hyper = {k: v if isinstance(v, str | bool) else np.float64(v) for k, v in settings.items()}
    images = jnp.asarray(np.random.default_rng(0).uniform(size=(6, 4, 4, 1)))
    state = jax.tree.map(np.asarray, jax.jit(lambda key: method.init(setup, key, hyper))(jax.random.key(1)))

    @jax.jit
    def update(model):
        before = state._replace(model=model)
        after, terms = method.update(setup, before, lambda key: images, jax.random.key(2), jnp.int64(9), hyper)
        return after.model, terms["loss"]

    after, loss = update(state.model)
    assert np.isfinite(loss)
    gradient = jax.tree.map(lambda old, new: np.asarray(old - new), state.model, after)
    rng = np.random.default_rng(3)
    for _ in range(5):
        direction = jax.tree.map(lambda g: rng.normal(size=g.shape), gradient)
        along = sum(np.vdot(g, d) for g, d in zip(*map(jax.tree.leaves, (gradient, direction)), strict=True))
        ends = [jax.tree.map(lambda p, d: p + step * d, state.model, direction) for step in (STEP, -STEP)]  # noqa: B023
        slope = (update(ends[0])[1] - update(ends[1])[1]) / (2 * STEP)
        np.testing.assert_allclose(slope, along, rtol=1e-5, atol=1e-6)


def test_the_bernoulli_loss_and_its_slopes_are_right_for_any_logit() -> None:
    """Against the probabilities themselves where they can be told from 0 and 1, and its limits beyond."""
    logits, target = (grid.ravel() for grid in np.meshgrid(np.linspace(-30, 30, 61), [0, 0.25, 1]))  # 0 is one of them
    p = 1 / (1 + np.exp(-logits))
    loss = jax.jit(bernoulli_loss)
    np.testing.assert_allclose(
        loss(logits, target),
        -(target * np.log(p) + (1 - target) * np.log(1 / (1 + np.exp(logits)))),
        rtol=1e-12,
        atol=1e-12,
    )
    slope = jax.grad(bernoulli_loss)
    np.testing.assert_allclose(jax.jit(jax.vmap(slope))(logits, target), p - target, atol=1e-12)
    np.testing.assert_allclose(jax.jit(jax.vmap(jax.grad(slope)))(logits, target), p * (1 - p), atol=1e-12)
    np.testing.assert_array_equal(jax.jit(jax.vmap(jax.grad(bernoulli_loss, 1)))(logits, target), -logits)
    for logit, sure in ((1e4, 1.0), (-1e4, 0.0)):
        assert loss(logit, sure) == jax.jit(slope)(logit, sure) == 0
        assert loss(logit, 1 - sure) == 1e4
