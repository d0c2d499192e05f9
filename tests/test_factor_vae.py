"""What is particular to FactorVAE; the rest is in test_every_method.py."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from families import BLOCKS, small_runs
from sober.errors import RequestError
from sober.methods import METHODS
from sober.methods.factor_vae import (
    Adversary,
    adam,
    cross_entropy,
    descend_discriminator,
    permuted,
    total_correlation,
)
from sober.methods.method import State, Terms
from sober.nets.discriminators import code_discriminator
from sober.training.cohort import Program, signature


def correlated(key: jax.Array, n: int, by: float) -> jax.Array:
    """Three standard normal latents, of which the first two are correlated."""
    first, noise, third = jax.random.normal(key, (3, n))
    return jnp.stack([first, by * first + jnp.sqrt(1 - by**2) * noise, third], axis=1)


def test_the_discriminator_finds_the_total_correlation_of_a_gaussian() -> None:
    by, rate, steps = 0.9, 2e-3, 600
    truth = -0.5 * np.log(1 - by**2)  # 0.830 nats

    @jax.jit
    def found() -> jax.Array:
        def step(i: Any, adversary: Adversary) -> Adversary:
            for_codes, for_others, for_order = jax.random.split(jax.random.fold_in(jax.random.key(1), i), 3)
            codes, others = correlated(for_codes, 256, by), correlated(for_others, 256, by)
            return descend_discriminator(adversary, codes, permuted(others, for_order), rate * (1 - i / steps))[0]

        discriminator = code_discriminator(jax.random.key(0), latents=3, units=64)
        start = Adversary(discriminator, adam(rate).init(discriminator))
        adversary = jax.lax.fori_loop(0, steps, step, start)
        return total_correlation(adversary.discriminator(correlated(jax.random.key(2), 20_000, by)))

    assert abs(found() - truth) < 0.1 * truth


def test_a_discriminator_that_cannot_tell_pays_log_2_and_finds_none() -> None:
    assert cross_entropy(jnp.zeros((8, 2))) == pytest.approx(np.log(2))
    assert total_correlation(jnp.zeros((4, 2))) == 0


def test_permuting_keeps_every_latent_and_breaks_what_ties_them() -> None:
    permute = jax.jit(permuted)
    codes = np.asarray(jax.jit(lambda: correlated(jax.random.key(0), 4096, 0.9))())
    broken = np.asarray(permute(codes, jax.random.key(1)))
    np.testing.assert_array_equal(np.sort(broken, axis=0), np.sort(codes, axis=0))
    assert abs(np.corrcoef(codes.T)[0, 1]) > 0.85
    assert np.max(np.abs(np.corrcoef(broken.T) - np.eye(3))) < 0.06  # four times 1 / sqrt(4096)
    assert np.min(np.mean(broken != codes, axis=0)) > 0.99
    # Not one order for all latents: no row is a row of before.
    assert not (set(map(tuple, broken.tolist())) & set(map(tuple, codes.tolist())))
    assert (np.asarray(permute(codes, jax.random.key(2))) != broken).any()


@functools.cache
def program(second_batch: bool) -> tuple[Program, Any]:
    """A program of one model, and its compiled step."""
    (run,) = small_runs("factor_vae", {"second_batch": second_batch}, seeds=1)
    made = Program(BLOCKS, signature(run))
    return made, jax.jit(lambda state, inputs: made._updates(state, inputs, jnp.int32(3), BLOCKS.data))


def one_step(*, second_batch: bool = True, **hyper: float) -> tuple[State, State, Terms]:
    """A state, the one after a step, and the terms: with other hyperparameters, but always the same randomness."""
    made = program(True)[0]
    inputs = made.inputs(small_runs("factor_vae", seeds=1))
    inputs = inputs._replace(hyper=inputs.hyper | {name: jnp.array([value]) for name, value in hyper.items()})
    before = made.init(inputs, BLOCKS.data).state
    return before, *program(second_batch)[1](before, inputs)


def same(one: Any, other: Any) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True))


def test_each_step_moves_only_what_it_is_for() -> None:
    before, after, _ = one_step(gamma=10.0)
    _, freer, _ = one_step(gamma=0.0)
    _, still, _ = one_step(gamma=10.0, discriminator_rate=0.0)
    # How much the autoencoder minds does not change the discriminator's step, nor the other way round.
    assert same(after.memory, freer.memory)
    assert not same(after.model.encoder, freer.model.encoder)
    assert same(after.model, still.model)
    assert same(before.memory.discriminator, still.memory.discriminator)
    assert not same(before.memory.discriminator, after.memory.discriminator)


def test_the_total_correlation_moves_the_encoder_alone() -> None:
    _, after, _ = one_step(gamma=10.0)
    _, freer, _ = one_step(gamma=0.0)
    assert same(after.model.decoder, freer.model.decoder)
    assert not same(after.model.encoder, freer.model.encoder)


def test_the_loss_is_the_sum_of_its_terms() -> None:
    _, _, terms = one_step(gamma=7.0)
    total = terms["reconstruction"] + terms["kl"] + 7 * terms["total_correlation"]
    np.testing.assert_allclose(terms["loss"], total, rtol=1e-6)


def test_a_second_batch_changes_only_what_the_discriminator_sees() -> None:
    _, two, _ = one_step(gamma=10.0)
    _, one, _ = one_step(second_batch=False, gamma=10.0)
    for a, b in zip(jax.tree.leaves(one.model), jax.tree.leaves(two.model), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)  # another program, so up to rounding
    assert not same(one.memory.discriminator, two.memory.discriminator)


def test_the_discriminator_is_that_of_the_paper() -> None:
    def widths(nets: str, discriminator: str = "auto") -> list[tuple[int, ...]]:
        (run,) = small_runs("factor_vae", {"discriminator": discriminator}, seeds=1, nets=nets, latents=10)
        program = Program(BLOCKS, signature(run))
        carry = jax.eval_shape(program._init, program.inputs([run]), BLOCKS.data)
        weights = [leaf.shape[1:] for leaf in jax.tree.leaves(carry.state.memory.discriminator)]
        return [shape for shape in weights if len(shape) == 2]

    paper = [(10, 1000), *[(1000, 1000)] * 5, (1000, 2)]
    assert widths("conv") == widths("small", "wide") == paper
    assert widths("small") == widths("conv", "narrow") == [(10, 64), *[(64, 64)] * 5, (64, 2)]


def test_defaults_are_those_of_the_paper() -> None:
    settings = METHODS["factor_vae"].settings({})
    assert settings["discriminator_rate"] == 1e-4
    assert settings["second_batch"] is True
    assert METHODS["factor_vae"].sweeps["sober_look"]["gamma"] == (10, 20, 30, 40, 50, 100)


def test_a_number_is_not_a_choice() -> None:
    with pytest.raises(RequestError, match="second_batch=1"):
        small_runs("factor_vae", {"second_batch": 1.0})
