"""Total correlation of the aggregate posterior: closed forms, the definition, and what is said where it has none."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from sober.estimators import densities
from sober.estimators.densities import mixture_densities
from sober.metrics import score
from sober.metrics.aggregate_total_correlation import draw
from sober.types import Codes

NAME = "aggregate_total_correlation"


def mixture(rows: int, latents: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Means that depend on each other, and standard deviations from a hundredth to 1."""
    rng = np.random.default_rng(seed)
    mean = rng.normal(size=(rows, latents)) @ rng.normal(size=(latents, latents))
    return mean, 2 * rng.uniform(np.log(0.01), 0, (rows, latents))


def test_densities_are_those_of_the_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(densities, "ROWS", 37)  # so that there are several blocks, and a shorter one
    mean, logvar = mixture(200, 3)
    points = np.concatenate([mean[:20], mean[:20] + 5.0, np.full((1, 3), 60.0)])
    found = mixture_densities(points, mean, logvar)
    bells = norm.logpdf(points[:, None], mean, np.exp(logvar / 2))  # (S, N, D)
    np.testing.assert_allclose(found.joint, logsumexp(bells.sum(axis=2), axis=1) - np.log(200), rtol=1e-12)
    np.testing.assert_allclose(found.marginal, logsumexp(bells, axis=1) - np.log(200), rtol=1e-12)


def test_it_is_the_mean_of_the_log_ratio_at_points_drawn_from_the_rows() -> None:
    mean, logvar = mixture(300, 4)
    scores = score(mean, logvar=logvar, metrics={NAME: {"points": 500}})
    points = draw(Codes(mean, logvar, np.zeros((300, 0)), ()), 500, 0)
    bells = norm.logpdf(points[:, None], mean, np.exp(logvar / 2))
    ratio = logsumexp(bells.sum(axis=2), axis=1) - logsumexp(bells, axis=1).sum(axis=1) + 3 * np.log(300)
    assert scores[NAME] == pytest.approx(ratio.mean(), rel=1e-9)
    assert scores.errors[NAME] == pytest.approx(ratio.std(ddof=1) / np.sqrt(500), rel=1e-9)


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_a_gaussian_aggregate_posterior_has_the_total_correlation_of_its_covariance(correlation: float) -> None:
    """Means from N(0, C) with noise of variance s² add up to N(0, C + s²I): -½ log det of its correlation matrix."""
    rng = np.random.default_rng(0)
    of_means = np.array([[1.0, correlation, 0.0], [correlation, 1.0, 0.0], [0.0, 0.0, 1.0]])
    mean = rng.multivariate_normal(np.zeros(3), of_means, 20_000)
    noise = 0.25
    whole = of_means + noise * np.eye(3)
    expected = -0.5 * np.log(np.linalg.det(whole / (1 + noise)))
    scores = score(mean, logvar=np.full_like(mean, np.log(noise)), metrics={NAME: {"points": 800}})
    assert scores[NAME] == pytest.approx(
        expected, abs=4 * scores.errors[NAME] + 0.01
    )  # 0.01: 20,000 rows for a density
    assert scores.errors[NAME] < 0.05


def test_latents_on_a_grid_with_equal_noise_are_independent() -> None:
    grid = np.stack(np.unravel_index(np.arange(240), (4, 5, 12)), axis=1).astype(float)
    logvar = np.broadcast_to([-3.0, 0.0, -8.0], grid.shape)
    scores = score(grid, logvar=logvar, metrics=NAME)
    assert scores[NAME] == pytest.approx(0, abs=1e-9)
    assert scores.errors[NAME] == pytest.approx(0, abs=1e-9)


def test_two_copies_of_a_latent_share_all_that_one_knows() -> None:
    """Far apart and narrow: q(z) has N spikes in the plane and N on each axis, so the total correlation is log N."""
    mean = np.repeat(np.arange(50.0)[:, None], 2, axis=1)
    scores = score(mean, logvar=np.full_like(mean, -10.0), metrics=NAME)
    assert scores[NAME] == pytest.approx(np.log(50), abs=1e-6)


def test_draws_that_are_repeated_agree_with_the_error_of_one() -> None:
    mean, logvar = mixture(500, 4, seed=1)
    once = score(mean, logvar=logvar, metrics={NAME: {"points": 400}})
    again = score(mean, logvar=logvar, metrics={NAME: {"points": 400}}, repeats=30)
    assert again[NAME] == pytest.approx(once[NAME], abs=4 * once.errors[NAME])
    # Rows are drawn without replacement, so that repeated draws differ less than independent ones would.
    assert 0.3 * once.errors[NAME] < again.errors[NAME] * np.sqrt(30) < 1.5 * once.errors[NAME]


def test_without_variances_the_means_are_taken_as_if_gaussian_and_it_says_so() -> None:
    mean, _ = mixture(400, 3)
    scores = score(mean, metrics=[NAME, "gaussian_total_correlation"])
    assert scores[NAME] == pytest.approx(scores["gaussian_total_correlation"])
    assert "means_only" in scores.flags[NAME]
