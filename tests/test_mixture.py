"""Information of Gaussian mixtures: closed forms, other integrals, the paper's estimator, and what must not matter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad_vec
from scipy.special import logsumexp, xlogy

from sober.errors import RequestError
from sober.estimators.mixture import gaussian_information

CLOSE = 2e-6  # nats; the docstring promises 1e-5
GAUSSIAN = 0.5 * np.log(2 * np.pi * np.e)  # entropy, of standard deviation 1


def joint(z: np.ndarray, mean: np.ndarray, std: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """p(z, v) for every value of the labels (V, Z), from the definition."""
    bells = np.exp(-0.5 * ((z[:, None] - mean) / std) ** 2) / (std * np.sqrt(2 * np.pi) * len(mean))
    return np.stack([bells[:, labels == value].sum(axis=1) for value in np.unique(labels)])


def integrand(z: np.ndarray, mean: np.ndarray, std: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What I(z; v) and H(z) are integrals of."""
    p = joint(z, mean, std, labels)
    share = np.array([np.mean(labels == value) for value in np.unique(labels)])[:, None]
    return (xlogy(p, p) - xlogy(p, p.sum(axis=0)) - xlogy(p, share)).sum(axis=0), -xlogy(p.sum(axis=0), p.sum(axis=0))


def by_quadrature(mean: np.ndarray, std: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """I(z; v) and H(z) by scipy's adaptive rule, told where each Gaussian begins, peaks and ends."""
    cuts = np.unique(np.concatenate([mean + std * offset for offset in (-9, -6, -4, -2, 0, 2, 4, 6, 9)]))

    def both(z: float) -> np.ndarray:
        return np.concatenate(integrand(np.array([z]), mean, std, labels))

    return quad_vec(both, cuts[0], cuts[-1], points=cuts[1:-1], epsabs=1e-10, epsrel=1e-10, limit=100_000)[0]


def information(mean: Any, std: Any, *labels: Any) -> tuple[np.ndarray, float]:
    """Of one latent with columns of labels."""
    mean, std = np.broadcast_arrays(np.asarray(mean, float), std)
    found, entropy = gaussian_information(mean[:, None], 2 * np.log(std)[:, None], np.stack(labels, axis=1))
    return found[0], float(entropy[0])


def wild(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Latents with standard deviations from 1e-3 to 1 (rows, 3) beside three factors, on which some depend."""
    rng = np.random.default_rng(seed)
    labels = np.stack([rng.integers(0, size, rows) for size in (2, 3, 7)], axis=1)
    mean = rng.normal(size=(rows, 3)) + labels * [1.0, 0.5, 0.0]
    return mean, 2 * rng.uniform(np.log(1e-3), 0, (rows, 3)), labels


@pytest.mark.parametrize("step", [0.05, 0.5, 1.0, 3.0, 7.0])
def test_a_gaussian_channel_with_equally_spaced_inputs(step: float) -> None:
    labels = np.arange(12)
    expected = by_quadrature(step * labels, np.ones(12), labels)
    found, entropy = information(step * labels, 1.0, labels)
    np.testing.assert_allclose([found[0], entropy], expected, atol=CLOSE)


def test_a_gaussian_channel_with_many_inputs_of_gaussian_frequency() -> None:
    # Close to a continuous channel, whose capacity has a closed form: ½ log(1 + signal / noise).
    inputs = np.arange(-40, 41)
    labels = np.repeat(inputs, np.round(1e4 * np.exp(-0.5 * (inputs / 8) ** 2)).astype(int))
    found, entropy = information(labels / 4, 1.0, labels)
    np.testing.assert_allclose(found[0], 0.5 * np.log(1 + 2.0**2), atol=1e-4)
    np.testing.assert_allclose(entropy, GAUSSIAN + 0.5 * np.log(1 + 2.0**2), atol=1e-4)


@pytest.mark.parametrize("std", [1e-12, 1e-3, 1.0])
def test_gaussians_far_apart_tell_the_factor(std: float) -> None:
    labels = np.arange(60) // 4 % 5
    mean = labels * 30.0 * std + 1000 * std
    found, entropy = information(mean, std, labels, labels // 2)
    np.testing.assert_allclose(found, [np.log(5), 0.8 * np.log(5 / 2) + 0.2 * np.log(5)], atol=CLOSE)
    np.testing.assert_allclose(entropy, np.log(5) + GAUSSIAN + np.log(std), atol=CLOSE)


def test_a_collapsed_latent_tells_nothing() -> None:
    labels = np.arange(60)
    found, entropy = information(np.zeros(60), 1.0, labels, labels % 7)
    np.testing.assert_array_equal(found, [0.0, 0.0])
    np.testing.assert_allclose(entropy, GAUSSIAN, atol=CLOSE)


def test_widths_of_all_sizes_agree_with_a_sum_over_a_dense_grid() -> None:
    mean, logvar, labels = wild(200)
    found, entropy = gaussian_information(mean, logvar, labels)
    z = np.arange(-12, 14, 4e-4)
    for j, k in [(0, 0), (1, 1), (1, 2), (2, 2)]:
        parts = [np.zeros(2)]
        for some in np.array_split(z, 20):
            parts.append(np.sum(integrand(some, mean[:, j], np.exp(logvar[:, j] / 2), labels[:, k]), axis=1) * 4e-4)
        np.testing.assert_allclose([found[j, k], entropy[j]], np.sum(parts, axis=0), atol=CLOSE)


@pytest.mark.parametrize(
    ("mean", "std"),
    [
        ([0.0, 0.0, 0.0], [np.exp(-10), 1.0, np.exp(5)]),  # a spike on a plain on another plain
        ([0.3, -0.3, 70.0], [np.exp(-10), np.exp(-10), np.exp(5)]),
        ([0.0, 1.5, 4.0], [1.0, 0.6, 1.1]),
        ([0.0, 1e-3, 0.5], [1e-3, 1e-3, 1.0]),
    ],
)
def test_a_few_gaussians_agree_with_adaptive_quadrature(mean: list[float], std: list[float]) -> None:
    for labels in (np.array([0, 0, 1]), np.array([0, 1, 0]), np.array([0, 1, 2])):
        found, entropy = information(mean, std, labels)
        np.testing.assert_allclose(
            [found[0], entropy], by_quadrature(np.array(mean), np.array(std), labels), atol=CLOSE
        )


def test_the_estimator_of_the_paper_agrees_within_its_error() -> None:
    # Appendix A.1: samples of z for each value, from rows with that value, and the log densities at each.
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 60)
    mean, std = labels + rng.normal(0, 0.5, 240), np.exp(rng.uniform(-3, 0, 240))
    ratios = []
    for value in range(4):
        rows = rng.permutation(np.tile(np.flatnonzero(labels == value), 40))
        z = rng.normal(mean[rows], std[rows])
        terms = -0.5 * ((z[:, None] - mean) / std) ** 2 - np.log(std)
        ratios.append(
            logsumexp(terms[:, labels == value], axis=1) - np.log(60) - logsumexp(terms, axis=1) + np.log(240)
        )
    error = np.std(ratios) / np.sqrt(np.size(ratios))
    found, _ = information(mean, std, labels)
    assert error < 0.01
    assert abs(found[0] - np.mean(ratios)) < 4 * error


mixtures = st.integers(1, 12).flatmap(
    lambda rows: st.tuples(
        st.lists(st.floats(-10, 10, width=32), min_size=rows, max_size=rows).map(np.array),
        st.lists(st.floats(-20, 10, width=32), min_size=rows, max_size=rows).map(np.array),
        st.lists(st.integers(-2, 2), min_size=rows, max_size=rows).map(np.array),
    )
)


@settings(deadline=None, max_examples=100)
@given(mixtures)
def test_information_about_the_row_is_what_its_own_gaussian_lacks(mixture: tuple[np.ndarray, ...]) -> None:
    # H(z|n) has a closed form, so that H and I check each other on any mixture.
    mean, logvar, labels = mixture
    columns = np.stack([np.arange(len(mean)), labels, np.zeros_like(labels)], axis=1)
    found, entropy = gaussian_information(mean[:, None], logvar[:, None], columns)
    np.testing.assert_allclose(found[0, 0], entropy[0] - GAUSSIAN - logvar.mean() / 2, atol=1e-5)
    share = np.unique(labels, return_counts=True)[1] / len(labels)
    assert 0 <= found[0, 1] <= min(found[0, 0], -np.sum(share * np.log(share))) + 1e-5
    assert found[0, 2] == 0


@settings(deadline=None, max_examples=50)
@given(mixtures, st.sampled_from([-1e3, -1.0, 1e-6, 0.3, 1e12]), st.floats(-5, 5), st.randoms(use_true_random=False))
def test_scale_sign_place_order_and_names_do_not_matter(
    mixture: tuple[np.ndarray, ...], scale: float, shift: float, random: Any
) -> None:
    mean, logvar, labels = mixture
    order = np.array(random.sample(range(len(mean)), len(mean)))
    other_mean, other_logvar = scale * (mean + shift), logvar + 2 * np.log(abs(scale))
    found, entropy = gaussian_information(mean[:, None], logvar[:, None], labels[:, None])
    other, moved = gaussian_information(
        other_mean[order, None], other_logvar[order, None], 1000 - 7 * labels[order, None]
    )
    np.testing.assert_allclose(other, found, atol=1e-5)
    np.testing.assert_allclose(moved, entropy + np.log(abs(scale)), atol=1e-5)


def test_rows_that_come_twice_count_twice() -> None:
    mean, logvar, labels = wild(50)
    once, twice = (gaussian_information(*[np.tile(x, (n, 1)) for x in (mean, logvar, labels)]) for n in (1, 2))
    np.testing.assert_allclose(twice[0], once[0], atol=1e-12)
    np.testing.assert_allclose(twice[1], once[1], atol=1e-12)


def test_merging_values_of_a_factor_loses_information() -> None:
    mean, logvar, labels = wild(500)
    fine, _ = gaussian_information(mean, logvar, labels)
    coarse, _ = gaussian_information(mean, logvar, labels // 2)
    assert np.all(coarse[:, 1:] < fine[:, 1:])
    np.testing.assert_array_equal(coarse[:, 0], 0.0)  # one value is left


def test_latents_do_not_meet() -> None:
    mean, logvar, labels = wild(300)
    together = gaussian_information(mean.astype(np.float32), logvar.astype(np.float32), labels)
    for j in range(3):
        alone = gaussian_information(mean[:, [j]].astype(np.float32), logvar[:, [j]].astype(np.float32), labels)
        np.testing.assert_array_equal(alone[0][0], together[0][j])
        np.testing.assert_array_equal(alone[1][0], together[1][j])


def test_one_row_is_one_gaussian() -> None:
    found, entropy = gaussian_information(np.array([[3.0, -1e6]]), np.array([[-20.0, 10.0]]), np.array([[7, 0]]))
    np.testing.assert_array_equal(found, np.zeros((2, 2)))
    np.testing.assert_allclose(entropy, GAUSSIAN + np.array([-10.0, 5.0]), atol=CLOSE)


@pytest.mark.parametrize("distance", [0.0, 1e-3, 1.0, 5.0, 40.0, 1e6])
def test_two_rows_are_a_binary_channel(distance: float) -> None:
    found, _ = information([0.0, distance], 1.0, np.array([0, 1]))
    z = np.arange(-10, 10, 0.01)
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi) * 0.01
    lost = np.sum(density * np.logaddexp(0.0, -distance * (z + distance / 2)))  # H(v|z), by symmetry
    np.testing.assert_allclose(found[0], np.log(2) - lost, atol=CLOSE)


@pytest.mark.parametrize("logvar", [-1e30, -2000.0, -200.0, 200.0, 2000.0, 1e30])
@pytest.mark.parametrize("size", [0.0, 1e-300, 1.0, 1e300])
def test_numbers_of_any_size_give_finite_information(logvar: float, size: float) -> None:
    mean = size * np.array([-1.0, 1.0, 1.0, -1.0])[:, None]
    labels = np.array([[0], [1], [1], [0]])
    found, entropy = gaussian_information(mean, np.array([logvar, logvar, 0.0, 0.0])[:, None], labels)
    assert 0 <= found[0, 0] <= np.log(2)
    assert np.isfinite(entropy[0])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_refused(bad: float) -> None:
    good, labels = np.zeros((2, 1)), np.zeros((2, 1), int)
    for mean, logvar in [(good + bad, good), (good, good + bad)]:
        with pytest.raises(RequestError, match="finite"):
            gaussian_information(mean, logvar, labels)
    with pytest.raises(RequestError, match="at least one row"):
        gaussian_information(good[:0], good[:0], labels[:0])
