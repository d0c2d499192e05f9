"""Metrics where the answer is known in closed form, and what each says of rows it cannot do much with."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm, spearmanr

from sober.estimators.discrete import binned, classes, entropy, information
from sober.estimators.predictors import nearest, points
from sober.metrics import METRICS, Measured, as_codes, score
from sober.metrics.common.covariance import LEAST
from sober.metrics.common.interventions import differences, draw_fixed, draw_pairs, sharing, variances
from sober.metrics.common.metric_rows import sample, split
from sober.metrics.modularity import informative
from sober.shared import Shared
from sober.types import Codes, Factor

SIZES = (4, 5, 6)
GRID = np.stack(np.unravel_index(np.arange(math.prod(SIZES)), SIZES), axis=1)


def grid_codes(mean: np.ndarray | None = None, times: int = 1) -> Codes:
    factors = np.tile(GRID, (times, 1))
    return as_codes(factors.astype(float) if mean is None else mean, factors)


# ---------------------------------------------------------------- information


def test_information_of_a_symmetric_channel() -> None:
    """Bits flipped with probability 1/8: log 2 - H(1/8), by counting exactly that many."""
    sent = np.repeat([0, 1], 800)
    received = sent ^ (np.arange(1600) % 8 == 0)
    flipped = -(1 / 8 * math.log(1 / 8) + 7 / 8 * math.log(7 / 8))
    found = information(received[:, None], sent[:, None])[0, 0]
    assert found == pytest.approx(math.log(2) - flipped, abs=1e-12)


def test_information_of_an_erasure_channel() -> None:
    """A fifth of the symbols erased: 4/5 of the entropy gets through."""
    sent = np.tile(np.arange(4), 100)
    received = np.where(np.arange(400) // 4 % 5 == 0, 4, sent)
    assert information(received[:, None], sent[:, None])[0, 0] == pytest.approx(0.8 * math.log(4), abs=1e-12)


def test_information_of_copies_and_of_independent_columns() -> None:
    np.testing.assert_allclose(information(GRID, GRID), np.diag(entropy(GRID)), atol=1e-12)
    np.testing.assert_allclose(entropy(GRID), np.log(SIZES), atol=1e-12)


def test_bins_are_of_equal_width_and_hold_their_ends() -> None:
    assert binned(np.linspace(0, 1, 11)[:, None], 10)[:, 0].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9]
    assert set(binned(np.full((5, 1), 3.0), 10)[:, 0]) == {5}


@pytest.mark.parametrize("scale", [2.0**500, 2.0**-500, 2.0**-1060])
def test_bins_do_not_see_powers_of_two(scale: float) -> None:
    x = np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32).astype(float)
    x = np.round(x * 64) / 64  # so that even a denormal holds it
    np.testing.assert_array_equal(binned(x * scale, 20), binned(x, 20))


@pytest.mark.parametrize("about", [0.0, 1.0, -3e20, 1e200])
def test_bins_of_values_that_hardly_differ(about: float) -> None:
    """Neighbours among floats, with no room for edges between them."""
    second = np.nextafter(about, np.inf)
    found = binned(np.array([[about, 5.0], [second, 5.0], [about, 5.0]]), 20)
    assert found[:, 0].tolist() == [0, 19, 0]
    assert len(set(found[:, 1])) == 1
    assert len(set(binned(np.full((3, 1), about), 20)[:, 0])) == 1


def test_classes_count_only_values_that_are_there() -> None:
    assert classes(np.array([7, 3, 7, 1000])).tolist() == [1, 0, 1, 2]
    assert classes(np.array([10**15, 0, 5])).tolist() == [2, 0, 1]
    assert classes(np.array(["b", "a", "b"])).tolist() == [1, 0, 1]


# ---------------------------------------------------------------- covariance


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.99])
def test_total_correlation_of_a_known_gaussian(rho: float) -> None:
    """Two unit Gaussians with correlation ρ: -½ log(1 - ρ²); rows made to have exactly that covariance."""
    rng = np.random.default_rng(0)
    white = np.linalg.qr(rng.normal(size=(500, 2)) - 0.0)[0]
    white = np.linalg.qr(white - white.mean(axis=0))[0]
    mean = white @ np.linalg.cholesky(np.array([[1, rho], [rho, 1]])).T
    found = score(mean, metrics=["gaussian_total_correlation", "wasserstein_correlation"])
    assert found["gaussian_total_correlation"] == pytest.approx(-0.5 * math.log(1 - rho**2), abs=1e-9)
    variance = 1 / 499
    distance = 2 * (2 - math.sqrt(1 + rho) - math.sqrt(1 - rho)) * variance
    assert found["wasserstein_correlation"] == pytest.approx(distance, rel=1e-9, abs=1e-15)
    assert found["wasserstein_correlation_norm"] == pytest.approx(distance / (2 * variance), rel=1e-9, abs=1e-12)


def test_noise_of_samples_lowers_total_correlation() -> None:
    """Means with correlation ρ and unit variance, noise of unit variance: samples have correlation ρ / 2."""
    rng = np.random.default_rng(0)
    first = rng.normal(size=20_000)
    mean = np.stack([first, 0.8 * first + 0.6 * rng.normal(size=20_000)], axis=1)
    found = score(mean, logvar=np.zeros_like(mean), metrics={"gaussian_total_correlation": {"samples": 20_000}})
    rho = np.corrcoef(mean.T)[0, 1]
    variances_of = mean.var(axis=0, ddof=1)
    noisy = np.cov(mean.T)[0, 1] / math.sqrt((variances_of[0] + 1) * (variances_of[1] + 1))
    assert found["gaussian_total_correlation"] == pytest.approx(-0.5 * math.log(1 - rho**2), abs=1e-9)
    assert found["gaussian_total_correlation_sampled"] == pytest.approx(-0.5 * math.log(1 - noisy**2), abs=1e-9)


def test_copies_and_dead_latents_give_a_number_and_a_flag() -> None:
    one = np.random.default_rng(0).normal(size=(100, 1))
    copies = score(np.concatenate([one, one], axis=1), metrics="gaussian_total_correlation")
    assert copies.flags["gaussian_total_correlation"] == ("singular",)
    assert copies["gaussian_total_correlation"] == pytest.approx(-0.5 * math.log(2 * LEAST), abs=0.5)
    dead = score(np.concatenate([one, 0 * one], axis=1), metrics="gaussian_total_correlation")
    assert dead["gaussian_total_correlation"] == 0
    assert dead.flags["gaussian_total_correlation"] == ("singular",)


# ---------------------------------------------------------------- interventions


def test_pairs_share_the_value_of_their_factor() -> None:
    codes = grid_codes(times=3)
    drawn, mates = draw_pairs(codes, sharing(codes), 500, 8, np.random.default_rng(0))
    for k in range(3):
        at = drawn.factor == k
        np.testing.assert_array_equal(codes.factors[drawn.rows[at], k], codes.factors[mates[at], k])
        others = [j for j in range(3) if j != k]
        assert (codes.factors[drawn.rows[at]][..., others] != codes.factors[mates[at]][..., others]).any()


def test_batches_share_one_value_and_draw_it_evenly() -> None:
    codes = grid_codes(times=3)
    drawn = draw_fixed(codes, sharing(codes), 3_000, 16, np.random.default_rng(0))
    values = codes.factors[drawn.rows, drawn.factor[:, None]]
    assert (values == values[:, :1]).all()
    counts = np.bincount(values[drawn.factor == 0, 0])
    assert counts.min() > 0.7 * counts.max()


def test_variances_and_differences_by_hand() -> None:
    mean = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    rows, mates = (np.random.default_rng(seed).integers(0, 40, (2_100, 7)) for seed in (1, 2))
    np.testing.assert_allclose(variances(mean, rows), mean[rows].astype(float).var(axis=1, ddof=1), rtol=1e-12)
    by_hand = np.abs(mean[rows].astype(float) - mean[mates]).mean(axis=1)
    np.testing.assert_allclose(differences(mean, rows, mates), by_hand, rtol=1e-12)


def test_an_incomplete_grid_works_and_says_where_rows_are_few() -> None:
    keep = np.random.default_rng(0).permutation(len(GRID))[:70]
    found = score(GRID[keep].astype(float), GRID[keep], metrics=["beta_vae", "factor_vae", "irs"])
    assert found["factor_vae"] == 1
    assert "few_rows" in found.flags["factor_vae"]
    alone = np.concatenate([GRID, [[9, 0, 0]]])
    assert "singletons" in score(alone.astype(float), alone, metrics="beta_vae").flags["beta_vae"]


def test_irs_of_a_permutation_is_one_and_of_a_sum_is_not() -> None:
    codes = grid_codes(GRID[:, [2, 0, 1]] * np.array([1.0, -2.0, 0.5]))
    assert METRICS["irs"](codes).values["irs"] == pytest.approx(1.0)
    mixed = grid_codes((GRID @ np.ones((3, 1))).astype(float))
    # Held at a value of the factor of size 6, the sum of the others strays 3.5 of at most 6.
    assert METRICS["irs"](mixed, {"quantile": 1.0}).values["irs"] == pytest.approx(1 - 3.5 / 6)


def test_factor_vae_leaves_out_latents_of_small_variance() -> None:
    mean = GRID / GRID.std(axis=0)
    mean[:, 1] *= math.sqrt(0.049)
    found = METRICS["factor_vae"](grid_codes(mean))
    assert found.parts["active"].tolist() == [True, False, True]
    assert METRICS["factor_vae"](grid_codes(mean), {"prune": "std"}).parts["active"].all()
    none = METRICS["factor_vae"](grid_codes(mean * 1e-3))
    assert none == Measured({"factor_vae": 0.0}, none.flags, none.parts)
    assert "collapsed" in none.flags


# ---------------------------------------------------------------- single metrics


def test_mig_by_hand() -> None:
    """One latent holds a factor, a second holds its parity: the gap is what the parity does not tell."""
    values = np.tile(np.arange(4), 50)
    found = score(np.stack([values, values % 2], axis=1).astype(float), values[:, None], metrics="mig")
    assert found["mig"] == pytest.approx(0.5)


def test_mig_of_distributions_needs_their_spread() -> None:
    """Well separated components: as for binned means. Wide ones: nothing is left."""
    values = np.tile(np.arange(4), 50)[:, None]
    mean = np.concatenate([10.0 * values, 0.0 * values], axis=1)
    sharp = score(mean, values, logvar=np.zeros_like(mean), metrics="mig", preset="paper")
    assert sharp["mig"] == pytest.approx(1.0, abs=1e-3)
    blurred = score(mean, values, logvar=np.full_like(mean, 20.0), metrics="mig", preset="paper")
    assert blurred["mig"] == pytest.approx(0.0, abs=1e-3)
    without = score(mean, values, metrics="mig", preset="paper")
    assert "means_only" in without.flags["mig"]
    assert without["mig"] == pytest.approx(1.0)


def test_modularity_of_informative_latents_only() -> None:
    rng = np.random.default_rng(0)
    mean = np.concatenate([np.tile(GRID, (20, 1)), rng.normal(size=(2_400, 2))], axis=1)
    codes = grid_codes(mean, times=20)
    assert informative(codes, 20, Shared()).tolist() == [1, 1, 1, 0, 0]
    assert METRICS["modularity"](codes, preset="active").values["modularity"] == pytest.approx(1.0)
    assert METRICS["modularity"](codes).values["modularity"] < 0.99


def test_explicitness_of_a_known_separation() -> None:
    """Two Gaussian classes a distance δ apart: the area under the curve is Φ(δ / √2)."""
    rng = np.random.default_rng(0)
    label = rng.integers(0, 2, 30_000)
    mean = (label + rng.normal(size=30_000))[:, None]
    found = score(mean, label[:, None], metrics={"explicitness": {"train": 20_000, "test": 10_000}})
    assert found["explicitness"] == pytest.approx(norm.cdf(1 / math.sqrt(2)), abs=0.015)
    rescaled = score(mean, label[:, None], metrics={"explicitness": {"train": 20_000, "test": 10_000}}, preset="paper")
    assert rescaled["explicitness"] == pytest.approx(2 * found["explicitness"] - 1)


def test_dci_of_each_predictor_on_perfect_codes() -> None:
    codes = as_codes(np.tile(GRID, (5, 1)) + 0.0, np.tile(GRID, (5, 1)), kinds=["ordinal", "cyclic", "categorical"])
    for trees in ("boosted", "sklearn", "forest"):
        found = METRICS["dci"](codes, {"trees": trees})
        assert found.values["dci_disentanglement"] > 0.98, trees
        assert found.values["dci_completeness"] > 0.98, trees
        assert found.values["dci_informativeness"] > 0.98, trees
        assert found.values["dci_nrmse"] < 0.1, trees
    linear = METRICS["dci"](codes, {"trees": "lasso"})
    assert linear.values["dci_disentanglement"] > 0.9
    np.testing.assert_array_equal(linear.parts["importance"].argmax(axis=0), [0, 1, 2])


def test_dci_ranks_representations_as_scikit_learns_trees_do() -> None:
    """Ten mixtures of latents, from one factor each to all in all: so few that no two may change places."""
    rng = np.random.default_rng(0)
    found, expected = [], []
    for mixing in np.linspace(0, 1, 10):
        turn, _ = np.linalg.qr(np.eye(3) + mixing * rng.normal(size=(3, 3)))
        codes = grid_codes((GRID / GRID.std(axis=0)) @ turn + 0.1 * rng.normal(size=GRID.shape))
        for trees, into in (("boosted", found), ("sklearn", expected)):
            into.append(METRICS["dci"](codes, {"trees": trees}).values["dci_disentanglement"])
    np.testing.assert_allclose(found, expected, atol=0.02)
    assert spearmanr(found, expected)[0] >= 0.99


def test_dci_regresses_continuous_factors() -> None:
    rng = np.random.default_rng(0)
    factors = rng.uniform(size=(3_000, 2))
    found = score(factors @ [[1.0, 0.0], [0.0, -3.0]], factors, metrics=["dci", "sap"], kinds="continuous")
    assert found["dci_disentanglement"] > 0.95
    assert found["dci_informativeness"] > 0.95
    assert found["dci_nrmse"] == pytest.approx(math.sqrt(1 - found["dci_informativeness"]), abs=0.05)
    assert found["sap"] > 0.95


def test_weighted_and_plain_averages_are_both_there() -> None:
    codes = grid_codes(GRID @ np.array([[1.0, 0.5, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]]))
    weighted, plain = METRICS["dci"](codes), METRICS["dci"](codes, {"weighted": False})
    assert weighted.values["dci_completeness"] == float(weighted.parts["completeness_weighted"])
    assert plain.values["dci_completeness"] == float(plain.parts["completeness_plain"])
    assert plain.parts["completeness_plain"] == pytest.approx(plain.parts["completeness_per_factor"].mean())


def test_points_of_factors() -> None:
    cycle = Factor("angle", 8, "cyclic")
    around = points(cycle, np.arange(8))
    assert np.linalg.norm(around[7] - around[0]) == pytest.approx(np.linalg.norm(around[1] - around[0]))
    np.testing.assert_array_equal(nearest(cycle, around * 0.3), np.arange(8))
    shape = Factor("shape", 3, "categorical")
    np.testing.assert_array_equal(nearest(shape, points(shape, np.array([2, 0, 1]))), [2, 0, 1])
    assert nearest(Factor("size", 5), np.array([[-3.0], [2.4], [9.0]])).tolist() == [0, 2, 4]


def test_active_latents_by_divergence_and_by_variance() -> None:
    rng = np.random.default_rng(0)
    mean = rng.normal(size=(1_000, 3)) * [1.0, 0.05, 0.0]
    assert score(mean, metrics="active_latents")["active_latents"] == 1
    logvar = np.array([[-3.0, 0.0, -3.0]]).repeat(1_000, axis=0)
    assert score(mean, logvar=logvar, metrics="active_latents")["active_latents"] == 2


def test_continuous_sap_and_sampled_scores_have_a_best_too() -> None:
    factors = np.tile(GRID, (6, 1))
    codes = (factors - factors.mean(axis=0)) / factors.std(axis=0)
    assert score(codes, factors, metrics="sap", kinds="continuous")["sap"] == pytest.approx(1.0, abs=0.01)
    sampled = score(codes, factors, logvar=np.zeros_like(codes))
    assert sampled["gaussian_total_correlation_sampled"] == pytest.approx(0.0, abs=1e-9)
    assert sampled["wasserstein_correlation_norm_sampled"] == pytest.approx(0.0, abs=1e-9)


# ---------------------------------------------------------------- rows


def test_samples_are_drawn_without_replacement_and_alike() -> None:
    codes = as_codes(np.arange(1000.0)[:, None], np.arange(1000)[:, None] % 7)
    drawn = sample(codes, 100, 0)
    learn, check = split(codes, 100, 50, 0)
    assert len(np.unique(drawn.mean)) == 100
    np.testing.assert_array_equal(learn.mean, drawn.mean)
    assert not set(learn.mean[:, 0]) & set(check.mean[:, 0])
    np.testing.assert_array_equal(sample(codes, 100, 0).mean, drawn.mean)


def test_few_rows_are_shared_out_in_proportion() -> None:
    codes = as_codes(np.arange(30.0)[:, None], np.arange(30)[:, None] % 7)
    learn, check = split(codes, 10_000, 5_000, 0)
    assert (len(learn.mean), len(check.mean)) == (20, 10)
    assert set(learn.mean[:, 0]) | set(check.mean[:, 0]) == set(range(30))
    assert sample(codes, 30, 0) is codes


def test_mutual_information_of_samples_is_that_of_samples() -> None:
    """Two latents whose means are one: I = -½ log(1 - ρ²) for Gaussian samples of correlation ρ; bins lose a little."""
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(20_000, 1))
    means, noise = np.repeat(shared, 2, axis=1), 0.5
    scores = score(
        means, logvar=np.full_like(means, np.log(noise)), metrics={"mutual_information": {"samples": 20_000}}
    )
    closed_form = -0.5 * np.log(1 - (1 / (1 + noise)) ** 2)
    assert scores["mutual_information_sampled"] == pytest.approx(closed_form, abs=0.03)
    samples = means + np.sqrt(noise) * rng.normal(size=means.shape)
    of_samples = score(samples, metrics={"mutual_information": {"samples": 20_000}})["mutual_information"]
    assert scores["mutual_information_sampled"] == pytest.approx(of_samples, abs=0.02)
    assert scores["mutual_information"] > 2  # the means know all of each other


def test_mutual_information_of_samples_without_noise_is_that_of_means() -> None:
    means = np.random.default_rng(1).normal(size=(500, 4)).cumsum(axis=1)
    scores = score(means, logvar=np.full_like(means, -80.0), metrics="mutual_information")
    assert scores["mutual_information_sampled"] == pytest.approx(scores["mutual_information"], rel=1e-12)
    np.testing.assert_allclose(*(scores.parts["mutual_information"][name] for name in ("between", "between_sampled")))
