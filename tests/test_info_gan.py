"""InfoGAN: the critic's penalty, what each part learns from, and codes that the metrics take."""

from __future__ import annotations

import dataclasses
import functools
import json
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import polars as pl
import pytest

from families import BLOCKS, small_runs
from sober.files import load_arrays
from sober.interop.graph import decoder_graph
from sober.methods import METHODS
from sober.methods.info_gan import (
    CRITIC_STEPS,
    RULES,
    critic_loss,
    draw_codes,
    game,
    gan_critic_loss,
    gan_generator_loss,
    generated,
    generator_loss,
    gradient_penalty,
    information_loss,
    judged,
    noisy,
    strength,
)
from sober.methods.method import Setup
from sober.metrics import METRICS, score
from sober.models.model import load
from sober.nets import FLOAT32, NETS, Autoencoder
from sober.requests.train import train
from sober.types import Adam, Codes

SHAPE, LATENTS, BATCH = (16, 16, 1), 3, 8
SETUP = Setup(NETS["small"], SHAPE, LATENTS, BATCH, 4096, FLOAT32, optax.sgd(0.1))
HYPER: dict[str, Any] = METHODS["info_gan"].complete(METHODS["info_gan"].settings({}))


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

    def __call__(self, images: jax.Array, kernels: Any = None) -> jax.Array:
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
        def __call__(self, images: jax.Array, kernels: Any = None) -> jax.Array:
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

    hyper = {name: value if name in ("objective", "noise") else jnp.float32(value) for name, value in HYPER.items()}
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


def test_the_critics_first_step_is_the_same_and_its_second_shows_how_long_its_adam_remembers():
    gradients = [jnp.array([1.0]), jnp.array([-3.0])]
    moves = {}
    for b1 in (0.0, 0.5):
        adam = RULES["wasserstein"].adam({"critic_rate": 1e-4, "critic_b1": b1})
        memory, moves[b1] = adam.init(gradients[0]), []
        for gradient in gradients:
            update, memory = adam.update(gradient, memory)
            moves[b1].append(float(update[0]))
    np.testing.assert_allclose(moves[0.0][0], moves[0.5][0], rtol=1e-5)
    assert moves[0.0][1] > moves[0.5][1] > 0  # without memory, the second step follows the second gradient alone
    assert METHODS["info_gan"].sweep("dci")["critic_b1"] == (0.0,)


def test_its_codes_are_scored_like_any_others(tmp_path):
    runs = small_runs("info_gan")
    family = train(runs, BLOCKS, tmp_path)
    (_, codes), *_ = family.encode()
    assert codes.logvar is None  # nothing was learnt about it
    stored, _ = load_arrays(next((tmp_path / "codes").glob(f"{runs[0].identity}*")))
    assert (stored["logvar"] == 0).all()
    scores = score(codes, metrics=["mig", "modularity", "sap"])
    assert all(0 <= value <= 1 for value in scores.values())


def test_codes_without_a_spread_are_judged_by_their_means(tmp_path):
    """Beside a VAE: a reconstruction is that of the mean; the KL of a code that is a point is infinite, so it and the
    evidence lower bound put such models last."""
    runs = [*small_runs("info_gan", seeds=2), *small_runs("vae", seeds=2)]
    results = train(runs, BLOCKS, tmp_path)
    for criteria in (["reconstruction"], ["kl"], ["elbo"], ["total_correlation"], ["udr"]):
        ranking = results.select(criteria)
        flags = {model.run: set(model.flags) for model in ranking.models}
        assert all(("means_only" in flags[run]) == (run.method == "info_gan") for run in runs)
        if criteria[0] in ("kl", "elbo"):
            assert [model.run.method for model in ranking.models] == ["vae", "vae", "info_gan", "info_gan"]
        json.dumps(ranking.plain(), allow_nan=False, default=str)
    table = results.table().filter(pl.col("metric").is_in(["reconstruction", "kl"]) & (pl.col("method") == "info_gan"))
    for row in table.iter_rows(named=True):
        assert (row["value"] is None) == (row["metric"] == "kl")
    model, images = results.model(runs[0]), BLOCKS.sample(0, 4096).images
    rebuilt = np.clip(model.decode(model.encode(images)[0]), 1e-7, 1 - 1e-7).astype(float)
    expected = -np.where(images > 127, np.log(rebuilt), np.log(1 - rebuilt)).sum(axis=(1, 2, 3)).mean()
    found = table.filter((pl.col("run") == runs[0].identity) & (pl.col("metric") == "reconstruction"))["value"][0]
    np.testing.assert_allclose(found, expected, rtol=0.01)


def test_a_perfect_code_without_a_spread_has_a_perfect_gap_under_the_papers_preset():
    """Each latent is a factor of the world. With a spread of 1, which nobody learnt, it would seem to know little."""
    factors = BLOCKS.labels(BLOCKS.everything())
    mean = (factors - factors.mean(axis=0)) / factors.std(axis=0)
    codes = Codes(mean.astype(np.float32), None, factors, BLOCKS.factors)
    measured = METRICS["mig"](codes, preset="paper")
    np.testing.assert_allclose(measured.values["mig"], 1.0, atol=1e-6)
    assert "means_only" in measured.flags
    wide = METRICS["mig"](dataclasses.replace(codes, logvar=np.zeros_like(codes.mean)), preset="paper")
    assert wide.values["mig"] < 0.3


def on_their_scale(critic: Any) -> Any:
    """A critic of Eastwood & Williams, whose pixels X are between -1 and 1 and whose codes u too, as one of ours: it is
    shown x, its score is halved, and what it reads is √3 as large."""

    class Ours(eqx.Module):
        def __call__(self, images: jax.Array, kernels: Any = None) -> jax.Array:
            outputs = critic(2 * images - 1)
            return jnp.concatenate([np.sqrt(3) * outputs[:, :-1], outputs[:, -1:] / 2], axis=1)

    return Ours()


@pytest.mark.parametrize("seed", [0, 1])
def test_the_sweep_of_the_dci_paper_is_its_game_but_for_a_factor_of_two(seed):
    """λ = 6 and a penalty of 10, written here on their scale: codes and pixels from -1 to 1."""
    sweep = METHODS["info_gan"].sweep("dci")
    hyper = {name: values[0] for name, values in sweep.items()}
    weight = jnp.asarray(np.random.default_rng(seed).normal(size=(256, LATENTS + 1)), jnp.float32)
    critic = lambda images: jnp.tanh(images.reshape(len(images), -1) @ weight / 8)  # noqa: E731
    real, fake, key = pictures(seed), pictures(seed + 2), jax.random.key(seed)
    codes = draw_codes(jax.random.key(3), SETUP)
    u, far = codes / np.sqrt(3), lambda x: 2 * x - 1
    assert np.abs(u).max() <= 1

    between = far(real + jax.random.uniform(key, (BATCH, 1, 1, 1)) * (fake - real))
    slope = jax.grad(lambda images: jnp.sum(critic(images)[:, -1]))(between)
    slopes = jnp.sqrt(jnp.sum(slope**2, axis=(1, 2, 3)))
    judged_real, judged_fake = critic(far(real)), critic(far(fake))
    information = 6 * 0.5 * jnp.mean(jnp.sum((u - judged_fake[:, :-1]) ** 2, axis=1))
    distance = jnp.mean(judged_fake[:, -1]) - jnp.mean(judged_real[:, -1])
    theirs = distance + 10 * jnp.mean((slopes - 1) ** 2) + information
    ours, *_ = critic_loss(on_their_scale(critic), real, fake, codes, key, hyper, FLOAT32)
    np.testing.assert_allclose(2 * ours, theirs, rtol=1e-4)

    class Pictures(eqx.Module):
        def on_batch(self, codes: jax.Array, kernels: Any = None) -> Any:
            return jnp.log(fake) - jnp.log1p(-fake), None  # logits

    theirs = -jnp.mean(judged_fake[:, -1]) + information
    ours, *_ = generator_loss(Pictures(), on_their_scale(critic), codes, hyper, FLOAT32)
    np.testing.assert_allclose(2 * ours, theirs, rtol=1e-4)


def test_noise_reaches_pictures_and_is_not_read():
    model = jax.jit(lambda key: game(key, NETS["small"], SHAPE, LATENTS, noise=4))(jax.random.key(0))
    inputs = draw_codes(jax.random.key(1), SETUP, 4)
    assert inputs.shape == (BATCH, LATENTS + 4)
    (made, _), codes = generated(model.decoder, inputs), inputs[:, :LATENTS]
    other = generated(model.decoder, inputs.at[:, LATENTS:].multiply(-1))[0]
    assert np.abs(made - other).max() > 1e-3
    assert model.encode(made)[0].shape == codes.shape
    loss = information_loss(inputs, codes + 1)
    np.testing.assert_allclose(loss, LATENTS / 2, rtol=1e-5)
    # Codes alone are decoded with the noise at 0, in JAX and outside it.
    zeros = jnp.concatenate([codes, jnp.zeros((BATCH, 4))], axis=1)
    np.testing.assert_allclose(model.decode(codes), compute_logits(model, zeros), atol=1e-6)


def compute_logits(model: Autoencoder, inputs: jax.Array) -> jax.Array:
    return FLOAT32.run(model.decoder, inputs)


def gan_hyper(**changes: Any) -> dict[str, Any]:
    settings = {name: values[0] for name, values in METHODS["info_gan"].sweep("beta_tcvae").items()}
    return {**HYPER, **settings, "strength": 0.0, **changes}


def test_the_losses_of_the_gan_are_its_cross_entropies():
    """Against the definition: -log D(x) - log(1 - D(G)) for the discriminator, -log D(G) for the generator."""
    weight = jnp.asarray(np.random.default_rng(0).normal(size=(256, LATENTS + 1)), jnp.float32) / 16

    class Linear(eqx.Module):
        def on_batch(self, images: jax.Array, kernels: Any = None) -> Any:
            return images.reshape(len(images), -1) @ weight, "seen"

    real, fake, codes = pictures(0), pictures(1), draw_codes(jax.random.key(1), SETUP, 5)
    d_real, d_fake = (1 / (1 + np.exp(-(x.reshape(BATCH, -1) @ np.asarray(weight))[:, -1])) for x in (real, fake))
    read = fake.reshape(BATCH, -1) @ np.asarray(weight)[:, :-1]
    information = 0.5 * np.mean(np.sum((codes[:, :LATENTS] - read) ** 2, axis=1)) / 3  # λ = 1 for codes from -1 to 1
    loss, terms, seen = gan_critic_loss(Linear(), real, fake, codes, jax.random.key(0), gan_hyper(), FLOAT32)
    np.testing.assert_allclose(loss, -np.mean(np.log(d_real) + np.log(1 - d_fake)) + information, rtol=1e-4)
    np.testing.assert_allclose(terms["accuracy"], (np.mean(d_real > 0.5) + np.mean(d_fake <= 0.5)) / 2, rtol=1e-6)
    assert seen == ("seen", "seen")

    class Pictures(eqx.Module):
        def on_batch(self, codes: jax.Array, kernels: Any = None) -> Any:
            return jnp.log(fake) - jnp.log1p(-fake), None

    loss, *_ = gan_generator_loss(Pictures(), Linear(), codes, gan_hyper(), FLOAT32, jax.random.key(0))
    np.testing.assert_allclose(loss, -np.mean(np.log(d_fake)) + information, rtol=1e-4)


@pytest.mark.parametrize(
    ("until", "step", "left"), [(0, 0, 1), (0, 10**6, 1), (100, 0, 1), (100, 25, 0.75), (100, 900, 0)]
)
def test_instance_noise_falls_in_a_straight_line_or_stays(until, step, left):
    hyper = {"instance_noise": 0.2, "noise_until": jnp.float32(until)}
    np.testing.assert_allclose(strength(jnp.int32(step), hyper), 0.2 * left, rtol=1e-6)


def test_instance_noise_is_gaussian_of_its_strength():
    added = noisy(jnp.full((50, *SHAPE), 0.5), jax.random.key(0), {"strength": 0.3}) - 0.5
    np.testing.assert_allclose(np.std(added), 0.3, rtol=0.02)
    np.testing.assert_allclose(np.mean(added), 0, atol=0.01)


def test_the_game_of_chen_et_al_is_trained_saved_and_decoded(tmp_path):
    """Supplement H.1: batch norm and leaky ReLU, one step of each, 5 codes and 5 noise variables (here 3 and 5)."""
    runs = small_runs("info_gan", "beta_tcvae", nets="conv_bn_leaky", optimiser=Adam(2e-4, b1=0.5), steps=6)
    results = train(runs, BLOCKS, tmp_path)
    model = results.model(runs[0])
    names = set(model.autoencoder.encoder.names)
    assert {"norms.0", "norms.4"} <= names
    seen = model.autoencoder.encoder.layer("norms.0").statistics
    assert np.abs(seen[0]).max() > 0  # running statistics went with the batches
    assert model.autoencoder.decoder.layer("hidden").weight.shape == (3 + 5, 512)
    decoded = model.decode(np.zeros((2, 3), np.float32))
    assert decoded.shape == (2, 16, 16, 1)
    assert {"accuracy", "critic_loss", "information"} <= model.curves.keys()
    again = load(results.model_path(runs[0]))
    np.testing.assert_array_equal(again.decode(np.ones((2, 3))), model.decode(np.ones((2, 3))))
    graph = decoder_graph(model)
    assert graph.layers[0].shape == (3,)


@pytest.mark.parametrize("nets", ["conv", "resnet"])
def test_it_plays_with_the_nets_of_the_papers(nets):
    shapes = jax.eval_shape(lambda key: game(key, NETS[nets], (64, 64, 3), 10), jax.random.key(0))
    mean, logvar = jax.eval_shape(lambda model: model.encode(jnp.zeros((2, 64, 64, 3))), shapes)
    assert mean.shape == logvar.shape == (2, 10)
