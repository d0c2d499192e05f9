"""Clipped gradients: part of the optimiser, whatever the method; not in the program where there is no limit."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from families import BLOCKS, assert_same_model, interrupted, small_runs
from sober.methods.method import clipped
from sober.requests.train import train
from sober.training.cohort import optimiser, program, signature
from sober.types import Adam

GRADIENT = {"weight": jnp.array([3.0, 0.0]), "bias": jnp.array([[4.0]])}  # of norm 5


@pytest.mark.parametrize(("most", "norm"), [(1.0, 1.0), (2.5, 2.5), (5.0, 5.0), (100.0, 5.0)])
def test_a_gradient_is_cut_to_its_limit_and_keeps_its_direction(most: float, norm: float) -> None:
    cut, before = clipped(GRADIENT, most)
    assert before == 5.0
    for name, leaf in cut.items():
        np.testing.assert_allclose(leaf, GRADIENT[name] * norm / 5, rtol=1e-6)


def test_the_optimiser_is_adam_after_the_cut() -> None:
    """Optax's own clipping followed by its Adam, over steps whose gradients are longer and shorter than the limit."""
    adam = {"learning_rate": 0.1, "b1": 0.9, "b2": 0.999, "eps": 1e-8}
    ours, theirs = (
        optimiser(clip=jnp.float32(2), **adam),
        optax.chain(optax.clip_by_global_norm(2.0), optax.adam(**adam)),
    )
    params = jax.tree.map(jnp.ones_like, GRADIENT)
    memory, reference = ours.init(params), theirs.init(params)
    for scale in (1.0, 0.01, 30.0):
        gradient = jax.tree.map(lambda leaf: scale * leaf, GRADIENT)  # noqa: B023 (used at once)
        step, memory = ours.update(gradient, memory, params)
        expected, reference = theirs.update(gradient, reference, params)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), step, expected)


def test_without_a_limit_nothing_is_cut_in_the_program() -> None:
    [plain], [limited] = small_runs(seeds=1), small_runs(seeds=1, optimiser=Adam(1e-3, clip=1))
    assert signature(plain) != signature(limited)
    assert "clip" not in program(BLOCKS, signature(plain)).inputs([plain]).adam
    np.testing.assert_array_equal(program(BLOCKS, signature(limited)).inputs([limited]).adam["clip"], [1.0])


def test_each_model_has_its_own_limit(tmp_path) -> None:
    """Adam forgets the size of gradients but for eps: with a rate as large as eps, the first step is the gradient."""
    limits = (1.0, 2.0, 1e9)
    runs = [r for clip in limits for r in small_runs(seeds=1, steps=1, optimiser=Adam(1e6, eps=1e6, clip=clip))]
    family = train(runs, BLOCKS, tmp_path)
    lengths = []
    for run in runs:
        compiled = program(BLOCKS, signature(run))
        start = compiled.init(compiled.inputs([run]), BLOCKS.example).state.model
        moved = jax.tree.map(lambda after, before: after - before[0], family.model(run).autoencoder, start)
        lengths.append(float(optax.tree.norm(moved)))
    norm = float(family.model(runs[2]).curves["gradient_norm"][0])
    np.testing.assert_allclose(lengths, [1.0, 2.0, norm], rtol=1e-3)
    assert all(family.model(run).curves["gradient_norm"][0] > 2 for run in runs)  # as it was before the cut


def test_dava_cuts_its_gradients_itself_so_a_limit_of_1_changes_nothing() -> None:
    """In exact arithmetic; the model's run is another, and with it its randomness, so one state is stepped by both."""
    [run], [limited] = (small_runs("dava", seeds=1, optimiser=adam) for adam in (Adam(1e-3), Adam(1e-3, clip=1)))
    plain, cut = program(BLOCKS, signature(run)), program(BLOCKS, signature(limited))
    inputs = plain.inputs([run])
    start = jax.tree.map(lambda leaf: leaf[0], plain.init(inputs, BLOCKS.example).state)
    one = jax.tree.map(lambda leaf: leaf[0], inputs)
    same = one._replace(adam={**one.adam, "clip": jnp.float32(1)})
    states = [
        jax.jit(each._update_one)(start, given, jnp.int32(0), BLOCKS.example)[0].model
        for each, given in ((plain, one), (cut, same))
    ]
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), *states)


def test_a_clipped_training_resumes_as_any_other(tmp_path) -> None:
    runs = small_runs(steps=20, optimiser=Adam(1e-3, clip=1.0))
    whole, parts = train(runs, BLOCKS, tmp_path / "whole"), interrupted(runs, tmp_path / "parts", 7)
    for run in runs:
        assert_same_model((whole, run), (parts, run))
