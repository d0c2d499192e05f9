"""What is particular to DAVA; the rest is in test_every_method.py."""

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
from sober.methods.dava import (
    Parts,
    accuracy_of,
    adversarial,
    cross_entropy,
    labels,
    next_capacity,
    weights,
)
from sober.methods.factor_vae import permuted
from sober.methods.method import Setup, State, Terms, elbo_terms, sample
from sober.nets import NETS, Compute
from sober.training.cohort import Inputs, Program, signature

LATENTS, BATCH = 3, 16
DEFAULTS = METHODS["dava"].settings({})


@pytest.mark.parametrize(
    ("accuracy", "direction"), [(0.3, 1), (0.5, 1), (0.5001, 0), (0.51, 0), (0.5101, -1), (0.9, -1), (1.0, -1)]
)
def test_capacity_rises_only_while_the_discriminator_is_clueless(accuracy: float, direction: int) -> None:
    after = next_capacity(jnp.float32(0.7), jnp.float32(accuracy), jnp.float32(0.01), "paper")
    assert after == pytest.approx(0.7 + 0.01 * direction)


@pytest.mark.parametrize(("accuracy", "direction"), [(0.3, 1), (0.5009, 1), (0.5011, 0), (0.51, 0), (0.5101, -1)])
def test_capacity_of_the_reference_rises_up_to_an_accuracy_of_0_501(accuracy: float, direction: int) -> None:
    after = next_capacity(jnp.float32(0.7), jnp.float32(accuracy), jnp.float32(0.01), "reference")
    assert after == pytest.approx(0.7 + 0.01 * direction)


def test_capacity_never_falls_below_zero() -> None:
    assert next_capacity(jnp.float32(0.004), jnp.float32(1.0), jnp.float32(0.01), "paper") == 0
    assert next_capacity(jnp.float32(0.0), jnp.float32(1.0), jnp.float32(0.01), "reference") == 0


def test_only_the_reference_caps_the_capacity() -> None:
    clueless, step = jnp.float32(0.5), jnp.float32(0.1)
    assert next_capacity(jnp.float32(7.95), clueless, step, "reference") == 8
    assert next_capacity(jnp.float32(7.95), clueless, step, "paper") == pytest.approx(8.05)


def test_accuracy_is_the_share_of_a_mixed_batch_that_is_told_right() -> None:
    logits = jnp.array([2.0, 0.3, -1.0, 0.0, -2.0, 0.2, -0.1, 3.0])  # four reconstructions, four generated pictures
    assert accuracy_of(logits, "paper") == (3 + 2) / 8
    # 0.6 is a logit of 0.405: 0.3 and 0.0 no longer count as reconstructions, nor does 0.2.
    assert accuracy_of(logits, "reference") == (1 + 3) / 8
    assert accuracy_of(jnp.zeros(8), "paper") == accuracy_of(jnp.zeros(8), "reference") == 0.5


def test_labels_of_a_mixed_batch_are_smooth() -> None:
    key, of = jax.random.key(0), jax.jit(labels, static_argnums=(0, 2))
    np.testing.assert_allclose(of(3, key, "paper"), [0.9, 0.9, 0.9, 0.1, 0.1, 0.1], rtol=1e-6)
    real, fake = np.split(np.asarray(of(5000, key, "reference")), 2)
    for distance in (1 - real, fake):  # uniform from 0 to 0.6
        assert 0 <= distance.min() < 0.01
        assert 0.59 < distance.max() <= 0.6
        assert distance.mean() == pytest.approx(0.3, abs=0.01)
    assert (np.asarray(of(5, key, "reference")) != np.asarray(of(5, jax.random.key(1), "reference"))).any()


def test_weights_grow_with_the_accuracy() -> None:
    def of(accuracy: float, **hyper: Any) -> Parts:
        return weights(jnp.float32(accuracy), DEFAULTS | hyper)

    assert of(0.4) == of(0.5) == Parts(0, 0)
    np.testing.assert_allclose(of(0.6), (10 * 0.3, 10 * 0.001), rtol=1e-5)
    np.testing.assert_allclose(of(1.0, encoder_weight=2.0), (50 * 2.0, 50 * 0.001), rtol=1e-5)
    np.testing.assert_allclose(of(0.6, variant="reference"), (10 * 0.3, 0.001), rtol=1e-5)
    np.testing.assert_allclose(of(0.505, variant="reference"), (0.5 * 0.3, 0.5 * 0.001), rtol=1e-4)


def test_losses_of_both_variants_pull_the_same_way_and_only_the_papers_saturate() -> None:
    slopes = jax.jit(jax.grad(adversarial), static_argnums=2)

    def gradients(logit: float, variant: str) -> Any:
        return np.asarray(slopes(np.array([logit, -logit], np.float32), Parts(1.0, 1.0), variant))

    for logit in (-1.0, 0.0, 1.0):  # down for reconstructions, up for generated pictures
        for variant in ("paper", "reference"):
            real, fake = gradients(logit, variant)
            assert real > 0 > fake
    assert np.max(np.abs(gradients(10.0, "paper"))) < 1e-3  # the discriminator is sure, and right
    assert np.min(np.abs(gradients(10.0, "reference"))) > 0.99
    logits = np.array([0.3, -0.2, 1.0, -2.0], np.float32)
    by_hand = 2 * np.mean(np.log(1 / (1 + np.exp(-logits[:2])))) + 3 * np.mean(np.log(1 / (1 + np.exp(logits[2:]))))
    assert adversarial(jnp.asarray(logits), Parts(2.0, 3.0), "paper") == pytest.approx(by_hand, rel=1e-5)


def test_the_discriminator_learns_reconstructions_from_generated_pictures() -> None:
    target = labels(4, jax.random.key(0), "paper")
    right, wrong = jnp.where(target > 0.5, 2.0, -2.0), jnp.where(target > 0.5, -2.0, 2.0)
    assert cross_entropy(right, target, "paper") < cross_entropy(jnp.zeros(8), target, "paper")
    assert cross_entropy(jnp.zeros(8), target, "paper") == pytest.approx(np.log(2))
    assert cross_entropy(wrong, target, "paper") > 1.5
    assert cross_entropy(wrong, target, "reference") == pytest.approx(8 * cross_entropy(wrong, target, "paper"))


@functools.cache
def program(variant: str) -> tuple[Program, Any]:
    """A program of one model, and its compiled step."""
    (run,) = small_runs("dava", {"variant": variant}, seeds=1, latents=LATENTS, batch=BATCH)
    made = Program(BLOCKS, signature(run))
    return made, jax.jit(lambda state, inputs, step: made._updates(state, inputs, step, BLOCKS.data))


def given(**hyper: float) -> Inputs:
    """One model with these hyperparameters; its randomness is always the same."""
    inputs = program("paper")[0].inputs(small_runs("dava", seeds=1, latents=LATENTS, batch=BATCH))
    return inputs._replace(hyper=inputs.hyper | {name: jnp.array([value]) for name, value in hyper.items()})


def stepped(steps: int, variant: str = "paper", **hyper: float) -> tuple[State, Terms]:
    made, step = program(variant)
    state, terms = made.init(given(**hyper), BLOCKS.data).state, {}
    for at in range(steps):
        state, terms = step(state, given(**hyper), at)
    return state, terms


@functools.cache
def noticed() -> tuple[State, int]:
    """A state whose discriminator tells the pictures of the next step apart, and that step's number."""
    step = program("paper")[1]
    state, _ = stepped(1, gamma=0.0, discriminator_rate=1e-2)
    for at in range(1, 200):
        after, terms = step(state, given(gamma=0.0, discriminator_rate=1e-2), at)
        if terms["accuracy"][0] > 0.6:
            return state, at
        state = after
    raise AssertionError("the discriminator never notices anything")


def from_noticed(variant: str = "paper", **hyper: float) -> State:
    state, at = noticed()
    return program(variant)[1](state, given(**hyper), at)[0]


def same(one: Any, other: Any) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True))


def test_the_adversarial_step_moves_encoder_and_decoder_by_weights_of_their_own() -> None:
    neither = from_noticed(encoder_weight=0.0, decoder_weight=0.0)
    encoder = from_noticed(encoder_weight=0.3, decoder_weight=0.0)
    decoder = from_noticed(encoder_weight=0.0, decoder_weight=0.3)
    both = from_noticed(encoder_weight=0.3, decoder_weight=0.3)
    assert same(encoder.model.decoder, neither.model.decoder)
    assert not same(encoder.model.encoder, neither.model.encoder)
    assert same(decoder.model.encoder, neither.model.encoder)
    assert not same(decoder.model.decoder, neither.model.decoder)
    assert same(both.model.encoder, encoder.model.encoder)
    assert same(both.model.decoder, decoder.model.decoder)
    # Where a part rests, so does its optimiser; and none of this touches the discriminator's step or the capacity.
    assert same(encoder.optimiser.decoder, neither.optimiser.decoder)
    for other in (encoder, decoder, both):
        assert same(other.memory, neither.memory)


def test_the_discriminator_steps_where_the_autoencoder_does_not() -> None:
    before, _ = noticed()
    after = from_noticed(discriminator_rate=0.0)
    assert same(after.memory.discriminator, before.memory.discriminator)
    assert not same(from_noticed().memory.discriminator, before.memory.discriminator)


def test_the_adversarial_step_goes_down_its_two_losses_on_fresh_gradients() -> None:
    """Written here directly, with the discriminator as it is after its step, and plain gradient descent."""
    (state, _), images = noticed(), BLOCKS.render(np.arange(0, 4096, 4096 // BATCH)) / 255
    with jax.enable_x64(True):
        _goes_down_its_two_losses(state, images)


def _goes_down_its_two_losses(state: State, images: np.ndarray) -> None:
    rate = 1e-3
    setup = Setup(NETS["small"], (16, 16, 1), LATENTS, BATCH, 4096, Compute(jnp.dtype("float64")), optax.sgd(rate))
    at_rest = DEFAULTS | {"gamma": 0.0, "encoder_weight": 0.0, "decoder_weight": 0.0}
    moving = at_rest | {"encoder_weight": 0.03, "decoder_weight": 0.02}
    state = jax.tree.map(lambda leaf: np.asarray(leaf[0], leaf.dtype if leaf.dtype == "int32" else float), state)
    state = state._replace(optimiser=Parts(*map(setup.optimiser.init, (state.model.encoder, state.model.decoder))))

    @jax.jit
    def stepped(state: State, hyper: dict[str, float], key: jax.Array) -> tuple[State, Terms]:
        settings = hyper | {"variant": "paper"}
        return METHODS["dava"].update(setup, state, lambda key: jnp.asarray(images), key, jnp.int32(0), settings)

    rest, move = ({name: value for name, value in each.items() if name != "variant"} for each in (at_rest, moving))
    key = next(key for key in jax.random.split(jax.random.key(0), 50) if stepped(state, rest, key)[1]["accuracy"] > 0.5)
    before, terms = stepped(state, rest, key)
    after, _ = stepped(state, move, key)

    @jax.jit
    def gradients(judge: Any, model: Any, accuracy: jax.Array, key: jax.Array) -> Parts:
        base = 100 * (accuracy - 0.5)
        _, _, for_codes, for_order, _ = jax.random.split(key, 5)

        def codes(model: Any) -> Any:
            return sample(*model.encode(jnp.asarray(images), setup.compute), for_codes)

        def encoder_loss(encoder: Any) -> Any:
            rebuilt = jax.nn.sigmoid(
                model.decode(codes(eqx.tree_at(lambda m: m.encoder, model, encoder)), setup.compute)
            )
            return base * 0.03 * jnp.mean(jax.nn.log_sigmoid(judge(rebuilt)[:, 0]))

        def decoder_loss(decoder: Any) -> Any:
            mixed = permuted(codes(model), for_order)
            generated = jax.nn.sigmoid(eqx.tree_at(lambda m: m.decoder, model, decoder).decode(mixed, setup.compute))
            return base * 0.02 * jnp.mean(jax.nn.log_sigmoid(-judge(generated)[:, 0]))

        return Parts(jax.grad(encoder_loss)(model.encoder), jax.grad(decoder_loss)(model.decoder))

    expected = gradients(before.memory.discriminator, before.model, terms["accuracy"], key)
    for part in ("encoder", "decoder"):
        gradient, *places = (
            list(map(np.asarray, jax.tree.leaves(getattr(each, part))))
            for each in (expected, before.model, after.model)
        )
        assert 0 < np.linalg.norm(np.concatenate([leaf.ravel() for leaf in gradient])) < 1  # so nothing was clipped
        for theirs, start, end in zip(gradient, *places, strict=True):
            np.testing.assert_allclose((start - end) / rate, theirs, rtol=1e-6, atol=1e-10)


def test_without_adversarial_weights_it_is_an_annealed_vae_with_a_quartic_penalty() -> None:
    """Written here directly, on the same pictures and noise; KL is the mean over latents, gradients clipped to 1."""
    hyper = {"encoder_weight": 0.0, "decoder_weight": 0.0, "delta_c": 0.02, "gamma": 500.0}
    made = program("paper")[0]
    inputs = given(**hyper)
    state = made.init(inputs, BLOCKS.data).state
    model = jax.tree.map(lambda leaf: np.asarray(leaf)[0], state.model)
    optimiser = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-3))
    memory = jax.jit(optimiser.init)(model)

    def loss(model: Any, images: Any, key: Any, capacity: Any) -> Any:
        terms, mean, logvar, *_ = elbo_terms(model, images, key)
        kl = jnp.mean(0.5 * (mean**2 + jnp.exp(logvar) - 1 - logvar))  # over the batch and over latents
        return terms["reconstruction"] + 500.0 * (kl - capacity) ** 4

    @jax.jit
    def step(model: Any, memory: Any, at: Any, capacity: Any) -> Any:
        randomness = jax.random.fold_in(jax.random.wrap_key_data(inputs.entropy[0], impl="threefry2x32"), 1)
        for_images, for_codes, *_ = jax.random.split(jax.random.fold_in(randomness, at), 5)
        images = BLOCKS.draw(BLOCKS.data, for_images, n=BATCH)
        value, gradient = jax.value_and_grad(loss)(model, images, for_codes, capacity)
        updates, memory = optimiser.update(gradient, memory)
        return optax.apply_updates(model, updates), memory, value

    values, capacities = [], []
    for at in range(30):
        capacity = np.asarray(state.memory.capacity)[0]
        model, memory, value = step(model, memory, at, capacity)
        state, terms = program("paper")[1](state, inputs, at)
        values.append((value, terms["loss"][0]))
        capacities.append(float(capacity))
    ours, theirs = np.array(values).T
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)
    for a, b in zip(jax.tree.leaves(model), jax.tree.leaves(state.model), strict=True):
        np.testing.assert_allclose(a, b[0], atol=1e-4)
    assert len(set(capacities)) > 3  # the capacity was on the move meanwhile


def test_the_discriminator_judges_before_it_learns() -> None:
    """The accuracy of a step is the same whatever the discriminator learns in it."""
    state, at = noticed()
    terms = [program("paper")[1](state, given(discriminator_rate=rate), at)[1] for rate in (0.0, 1.0)]
    assert terms[0]["accuracy"] == terms[1]["accuracy"]
    assert terms[0]["discriminator_loss"] == terms[1]["discriminator_loss"]


def test_variants_take_different_steps() -> None:
    paper, reference = from_noticed(), from_noticed("reference")
    assert not same(paper.memory.discriminator, reference.memory.discriminator)  # other labels
    assert not same(paper.model, reference.model)  # other losses


def test_the_reference_goes_down_the_objective_twice_and_clips_only_the_encoder() -> None:
    """Plain gradient descent, so a step's length is its gradient's. C is far off, so step 1 is clipped to 1."""
    state, _ = noticed()
    images, rate = jnp.asarray(BLOCKS.render(np.arange(0, 4096, 4096 // BATCH)) / 255, jnp.float32), 1e-4
    setup = Setup(NETS["small"], (16, 16, 1), LATENTS, BATCH, 4096, Compute(jnp.dtype("float32")), optax.sgd(rate))
    state = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), state)
    state = state._replace(optimiser=Parts(*map(setup.optimiser.init, (state.model.encoder, state.model.decoder))))

    def length(half: str, variant: str, **hyper: float) -> float:
        settings = DEFAULTS | {"discriminator_rate": 0.0, "variant": variant} | hyper
        after, _ = METHODS["dava"].update(setup, state, lambda _: images, jax.random.key(0), jnp.int32(0), settings)
        before, moved = (jax.tree.leaves(getattr(s.model, half)) for s in (state, after))
        return float(np.sqrt(sum(np.sum((new - old) ** 2) for old, new in zip(before, moved, strict=True)))) / rate

    rest = {"encoder_weight": 0.0, "decoder_weight": 0.0}
    for half in ("encoder", "decoder"):
        once = length(half, "paper", **rest)
        assert once <= 1.001
        assert length(half, "reference", encoder_weight=0.0, decoder_weight=1e-12) == pytest.approx(2 * once, rel=1e-3)
    assert length("decoder", "reference", **rest) == pytest.approx(length("decoder", "paper", **rest), rel=1e-3)
    assert length("encoder", "reference", encoder_weight=1e6, decoder_weight=0.0) <= 2.001
    state = state._replace(memory=state.memory._replace(discriminator=_steeper(state.memory.discriminator)))
    assert length("decoder", "paper", encoder_weight=0.0, decoder_weight=1e3) <= 2.001
    assert length("decoder", "reference", encoder_weight=0.0, decoder_weight=1e3) > 3


def _steeper(net: Any) -> Any:
    """A discriminator with logits a million times as large."""
    leaves, structure = jax.tree.flatten(net)
    return jax.tree.unflatten(structure, [*leaves[:-2], leaves[-2] * 1e6, leaves[-1] * 1e6])


@pytest.mark.parametrize("nets", ["conv", "dava", "dense"])
def test_its_discriminator_has_the_layers_of_the_encoder(nets: str) -> None:
    (run,) = small_runs("dava", seeds=1, nets=nets)
    made = Program(BLOCKS, signature(run))
    state = jax.eval_shape(made._init, made.inputs([run]), BLOCKS.data).state
    encoder, discriminator = (
        [leaf.shape for leaf in jax.tree.leaves(net)] for net in (state.model.encoder, state.memory.discriminator)
    )
    assert encoder[:-2] == discriminator[:-2]
    assert discriminator[-1][-1] == 1
    assert encoder[-1][-1] == 2 * LATENTS
