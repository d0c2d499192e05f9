"""Intervals of means of a few draws cover the mean as often as they say."""

from __future__ import annotations

import numpy as np
import pytest

from sober.metrics.common.intervals import half_width


@pytest.mark.parametrize("draws", [3, 5, 20])
def test_an_interval_of_a_few_draws_covers_the_mean_in_95_of_100_cases(draws: int) -> None:
    rng = np.random.default_rng(draws)
    values = rng.normal(0.5, 0.1, (20_000, draws))
    means, errors = values.mean(axis=1), values.std(axis=1, ddof=1) / np.sqrt(draws)
    halves = np.array([half_width(error, draws) for error in errors])
    assert np.mean(np.abs(means - 0.5) <= halves) == pytest.approx(0.95, abs=0.006)
    by_normal = np.array([half_width(error) for error in errors])
    if draws == 3:
        assert np.mean(np.abs(means - 0.5) <= by_normal) < 0.85  # what it was before


def test_a_number_that_never_varies_has_an_interval_without_width() -> None:
    assert half_width(0.0, 3) == half_width(0.0, 1) == half_width(0.0) == 0


def test_one_draw_says_nothing() -> None:
    assert half_width(0.1, 1) == float("inf")
