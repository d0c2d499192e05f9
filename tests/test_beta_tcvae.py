"""What is particular to β-TCVAE; the rest is in test_every_method.py.

Three things are easily confused. On given samples the three parts always sum to the mean of log q(z|x) - log p(z): the
estimates of q(z) and q(z_j) cancel, good or bad. Each part is exact only if those estimates are, which stratified
sampling is when the batch is the data set, and weighted sampling up to log N. And that mean is the analytic KL only on
average over samples.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from families import BLOCKS, assert_same_model, interrupted, small_runs
from sober.errors import RequestError
from sober.methods.beta_tcvae import Flow, decomposition, log_weights, new_flow
from sober.methods.method import kl_per_latent
from sober.requests.study.plan import plan
from sober.requests.study.study import Product, Study
from sober.requests.train import train
from sober.types import Adam, Training

# Compiled as a whole; most of its operations by themselves would take as long.
parts_of = jax.jit(decomposition, static_argnums=(3, 4))
both = pytest.mark.parametrize("estimator", ["weighted", "stratified"])
N, D = 12, 3
SMALL = Training(steps=3, latents=3, batch=16)


@pytest.fixture
def float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def codes(n: int = N, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, log-variance and a sample of each of n codes that overlap."""
    rng = np.random.default_rng(seed)
    mean, logvar = rng.normal(size=(n, D)), rng.normal(size=(n, D)) - 1
    return mean, logvar, mean + np.exp(logvar / 2) * rng.normal(size=(n, D))


def exact(mean: np.ndarray, logvar: np.ndarray, z: np.ndarray) -> tuple[float, float, float]:
    """The three parts with q(z) and q(z_j) of all pictures, one sample and one picture after the other."""
    mi, tc, dwkl = [], [], []
    for i in range(len(z)):
        each = np.array([norm.logpdf(z[i], m, np.exp(v / 2)) for m, v in zip(mean, logvar, strict=True)])  # (N, D)
        joint = logsumexp(each.sum(axis=1)) - math.log(len(mean))
        marginals = [logsumexp(each[:, j]) - math.log(len(mean)) for j in range(each.shape[1])]
        mi.append(each[i].sum() - joint)
        tc.append(joint - sum(marginals))
        dwkl.append(sum(marginals) - norm.logpdf(z[i]).sum())
    return float(np.mean(mi)), float(np.mean(tc)), float(np.mean(dwkl))


@both
@pytest.mark.parametrize("pictures", [N, 1000])
def test_the_parts_sum_to_the_kl_on_the_given_samples(float64, estimator, pictures):
    mean, logvar, z = codes()
    parts = parts_of(mean, logvar, z, pictures, estimator)
    sampled = np.mean(np.sum(norm.logpdf(z, mean, np.exp(logvar / 2)) - norm.logpdf(z), axis=1))
    np.testing.assert_allclose(sum(parts), sampled, rtol=0, atol=1e-8)


def test_on_average_over_samples_that_is_the_analytic_kl():
    mean, logvar, _ = codes()
    z = mean + np.exp(logvar / 2) * np.random.default_rng(1).normal(size=(20_000, N, D))
    sums = jax.jit(jax.vmap(lambda z: sum(decomposition(jnp.asarray(mean), jnp.asarray(logvar), z, N))))(z)
    analytic = np.sum(jax.jit(kl_per_latent)(mean, logvar)) / N
    np.testing.assert_allclose(np.mean(sums), analytic, rtol=0.01)


def test_stratified_parts_are_exact_when_the_batch_is_the_data_set(float64):
    mean, logvar, z = codes()
    ours = parts_of(mean, logvar, z, N, "stratified")
    np.testing.assert_allclose(ours, exact(mean, logvar, z), rtol=0, atol=1e-8)


def test_weighted_parts_are_then_exact_up_to_log_n_for_each_density(float64):
    """Eq. 4 divides by N·M where the mean over the data set divides by N."""
    mean, logvar, z = codes()
    ours = parts_of(mean, logvar, z, N, "weighted")
    offset = np.array([1, D - 1, -D]) * math.log(N)
    np.testing.assert_allclose(ours, exact(mean, logvar, z) + offset, rtol=0, atol=1e-8)


def test_the_scale_of_the_weighted_estimate_is_log_nm(float64):
    """By the formula, one pair after the other, for a batch of a larger data set."""
    mean, logvar, z = codes()
    pictures = 737_280
    each = np.array([[norm.logpdf(z[i], mean[j], np.exp(logvar[j] / 2)) for j in range(N)] for i in range(N)])
    joint = np.mean([logsumexp(each[i].sum(axis=1)) - math.log(pictures * N) for i in range(N)])
    marginals = np.mean([sum(logsumexp(each[i, :, d]) - math.log(pictures * N) for d in range(D)) for i in range(N)])
    total_correlation = parts_of(mean, logvar, z, pictures, "weighted")[1]
    np.testing.assert_allclose(total_correlation, joint - marginals, rtol=0, atol=1e-8)


@pytest.mark.parametrize(("batch", "pictures"), [(2, 3), (5, 6), (5, 100), (64, 737_280)])
def test_the_stratified_weights_are_those_of_s6(batch, pictures):
    """Built from the text: n* has 1/N, the first M - 1 others 1/M each, the last (N - M)/(N·M)."""
    weights = np.exp(log_weights(batch, pictures, "stratified"))
    for i in range(batch):
        others = [(i + k) % batch for k in range(1, batch)]
        m = len(others)
        row = {i: 1 / pictures}
        for place, other in enumerate(others, start=1):
            row[other] = 1 / m if place < m else (pictures - m) / (pictures * m)
        np.testing.assert_allclose(weights[i], [row[j] for j in range(batch)], rtol=1e-12)
    np.testing.assert_allclose(weights.sum(axis=1), 1)


def test_the_stratified_estimate_is_unbiased():
    """Over every way to draw the others, in order, q(z) comes out on average; so each weight is in its place."""
    pictures, batch = 6, 4
    density = np.random.default_rng(0).uniform(size=pictures)  # q(z|n) of a z sampled from picture 0
    weights = np.exp(log_weights(batch, pictures, "stratified"))
    for row in range(batch):
        estimates = []
        for others in itertools.permutations(range(1, pictures), batch - 1):
            drawn = [*others[:row], 0, *others[row:]]
            estimates.append(weights[row] @ density[drawn])
        np.testing.assert_allclose(np.mean(estimates), np.mean(density), rtol=1e-12)


def gaussian(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Means, log-variances and samples of codes whose q(z) is nearly Gaussian, and its total correlation."""
    rng = np.random.default_rng(5)
    mixing = np.array([[1.0, 0, 0], [0.8, 0.6, 0], [0.3, -0.5, 0.7]])
    mean = rng.normal(size=(n, D)) @ mixing.T
    covariance = np.cov(mean.T, bias=True) + 0.25 * np.eye(D)
    total_correlation = 0.5 * (np.sum(np.log(np.diag(covariance))) - np.linalg.slogdet(covariance)[1])
    return mean, np.full((n, D), math.log(0.25)), mean + 0.5 * rng.normal(size=(n, D)), float(total_correlation)


def test_the_total_correlation_of_a_gaussian_is_found():
    mean, logvar, z, expected = gaussian(1000)
    found = parts_of(mean, logvar, z, 1000, "stratified")[1]
    np.testing.assert_allclose(found, expected, atol=0.05)
    found = parts_of(mean, logvar, z, 1000, "weighted")[1] - (D - 1) * math.log(1000)
    np.testing.assert_allclose(found, expected, atol=0.05)


@both
def test_the_bias_of_a_small_batch_is_the_published_one(estimator):
    """Both estimates of log q are too small on average (eq. 4, S8), so that the mutual information is overestimated and
    the dimension-wise KL underestimated. In stratified sampling that vanishes as the batch grows."""
    mean, logvar, z, _ = gaussian(1000)
    truth = np.array(parts_of(mean, logvar, z, 1000, "stratified"))
    rng = np.random.default_rng(1)

    def bias(batch: int) -> np.ndarray:
        chosen = [rng.choice(1000, batch, replace=False) for _ in range(200)]
        return np.mean([parts_of(mean[at], logvar[at], z[at], 1000, estimator) for at in chosen], axis=0) - truth

    few, many = bias(10), bias(100)
    for of in (few, many):
        assert of[0] > 0
        assert of[2] < 0
    if estimator == "stratified":
        assert many[0] < 0.4 * few[0]
        assert many[2] > 0.4 * few[2]


def test_codes_far_apart_stay_finite():
    """Where only a picture's own code explains its sample, q(z) is its weight times that."""
    mean, logvar = np.arange(8.0)[:, None] * np.full(D, 1e4), np.full((8, D), -12.0)
    mi, tc, _ = parts_of(mean, logvar, mean, 100, "stratified")
    np.testing.assert_allclose(mi, math.log(100), rtol=1e-6)
    np.testing.assert_allclose(tc, (D - 1) * math.log(100), rtol=1e-6)


def test_stratified_sampling_needs_another_picture():
    with pytest.raises(RequestError, match="batch of 2"):
        log_weights(1, 100, "stratified")


def test_the_flow_starts_as_the_normal_distribution():
    x = jnp.linspace(-5, 5, 50)[:, None] * jnp.ones(D)
    np.testing.assert_allclose(new_flow(D).log_density(x), norm.logpdf(x), atol=1e-5)


def test_the_flow_is_a_density_for_each_latent_by_itself():
    rng = np.random.default_rng(0)
    flow = Flow(*(part + 0.3 * rng.normal(size=part.shape) for part in new_flow(D)))
    x = np.linspace(-60, 60, 200_001)
    densities = np.exp(flow.log_density(jnp.asarray(x)[:, None] * jnp.ones(D)))
    np.testing.assert_allclose(np.trapezoid(densities, x, axis=0), 1, rtol=1e-3)
    assert np.max(np.abs(densities - norm.pdf(x)[:, None])) > 0.05


def test_the_flow_learns_two_peaks():
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.choice([-1.5, 1.5], size=(500, 1)) + 0.2 * rng.normal(size=(500, 1)))
    adam = optax.adam(0.03)

    def step(carry, _):
        flow, memory = carry
        gradient = jax.grad(lambda flow: -jnp.mean(flow.log_density(x)))(flow)
        updates, memory = adam.update(gradient, memory)
        return (optax.apply_updates(flow, updates), memory), None

    flow = new_flow(1)
    (flow, _), _ = jax.lax.scan(step, (flow, adam.init(flow)), length=300)
    best_normal = norm.logpdf(x, x.mean(), x.std()).mean()
    assert jnp.mean(flow.log_density(x)) > best_normal + 0.8  # the two peaks themselves have 1.19 more


def test_with_weights_of_one_it_is_the_vae(tmp_path):
    ones = {"alpha": 1.0, "beta": 1.0, "gamma": 1.0}
    runs = small_runs("beta_tcvae", ones, steps=400)
    family = train(runs, BLOCKS, tmp_path)
    for run in runs:
        curves = family.model(run).curves
        parts = curves["mutual_information"] + curves["total_correlation"] + curves["dimension_wise_kl"]
        np.testing.assert_allclose(curves["loss"], curves["reconstruction"] + parts, rtol=1e-4)
        np.testing.assert_allclose(np.mean(parts[50:]), np.mean(curves["kl"][50:]), rtol=0.05)


def test_a_flow_is_in_the_checkpoint(tmp_path):
    runs = small_runs("beta_tcvae", {"prior": "flow", "estimator": "stratified"}, steps=30)
    whole = train(runs, BLOCKS, tmp_path / "whole")
    parts = interrupted(runs, tmp_path / "parts", 11)
    for run in runs:
        assert_same_model((whole, run), (parts, run))


def test_a_flow_brings_the_dimension_wise_kl_down(tmp_path):
    settings = {"estimator": "stratified", "prior": ["normal", "flow"]}
    runs = small_runs("beta_tcvae", settings, seeds=2, steps=400, optimiser=Adam(3e-3))
    family = train(runs, BLOCKS, tmp_path)
    last = {run: family.model(run).curves["dimension_wise_kl"][-20:].mean() for run in runs}
    of_flow, of_normal = ([kl for run, kl in last.items() if run.hyper["prior"] == p] for p in ("flow", "normal"))
    assert np.mean(of_flow) < np.mean(of_normal)


@pytest.mark.parametrize("variant", [{"estimator": ["stratified"]}, {"alpha": [0.0]}, {"prior": ["flow"]}], ids=str)
def test_the_variants_of_the_papers_supplement_are_products_of_a_study(variant, tmp_path):
    """S1: minibatch-stratified sampling; S2: α = 0; S3: a flow as the prior."""
    study = Study("s", "t", "p", [Product(["blocks"], {"beta_tcvae": {"beta": [6.0], **variant}}, 1, SMALL)])
    [run] = plan(study).runs.values()
    [(name, [value])] = variant.items()
    assert run.hyper[name] == value
    assert train([run], BLOCKS, tmp_path).model(run).diverged is None
