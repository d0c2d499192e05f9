"""Codes with more than plain numbers and labels: holes, groups and weights, and what is left out because of them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from sober.errors import RequestError
from sober.metrics import METRICS, as_codes, score
from sober.metrics.metric import NotMeasuredError
from sober.types import Codes


def table(rows: int = 400, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Codes of four latents that know a little of three factors."""
    rng = np.random.default_rng(seed)
    factors = rng.integers(0, [3, 4, 5], (rows, 3))
    return np.concatenate([factors + rng.normal(size=(rows, 3)), rng.normal(size=(rows, 1))], axis=1), factors


def test_an_array_for_each_row_must_have_one_for_each_row() -> None:
    codes, factors = table()
    for name in ("groups", "weights"):
        with pytest.raises(RequestError, match=rf"{name} must be an \(400,\) array"):
            score(codes, factors, **{name: np.ones(399)})


@pytest.mark.parametrize(
    ("weights", "says"),
    [(-np.ones(400), "0 or more"), (np.full(400, np.nan), "finite"), (np.zeros(400), "no row counts")],
)
def test_weights_that_mean_nothing_are_refused(weights: np.ndarray, says: str) -> None:
    codes, factors = table()
    with pytest.raises(RequestError, match=says):
        score(codes, factors, weights=weights)


def test_one_group_is_refused_and_groups_of_one_row_are_none() -> None:
    codes, factors = table()
    with pytest.raises(RequestError, match="one group only"):
        score(codes, factors, groups=np.zeros(400))
    assert as_codes(codes, factors, groups=[f"patient {n}" for n in range(400)]).groups is None


def test_a_hole_is_nan_none_or_a_mask() -> None:
    codes, factors = table()
    holes = np.random.default_rng(1).random(factors.shape) < 0.2
    numbers = np.where(holes, np.nan, factors)
    objects = np.where(holes, None, factors.astype(object))
    masked = np.ma.masked_array(factors, holes)
    some = ~holes.all(axis=1)
    for given in (numbers, objects, masked):
        prepared = as_codes(codes, given, kinds="ordinal")
        assert prepared.known is not None
        np.testing.assert_array_equal(prepared.known, ~holes[some])
        np.testing.assert_array_equal(prepared.factors[prepared.known], factors[some][~holes[some]])
        assert prepared.flags == ("missing_labels",)


def test_a_metric_that_cannot_is_left_out_with_the_reason() -> None:
    metric = dataclasses.replace(METRICS["mig"], takes=frozenset())
    prepared = as_codes(*table(), weights=np.arange(1, 401))
    with pytest.raises(NotMeasuredError, match="no form in which rows have weights"):
        metric(prepared)


def test_codes_of_units_that_do_not_fit_are_refused() -> None:
    codes, factors = table()
    prepared = as_codes(codes, factors)
    with pytest.raises(RequestError, match="units of 3"):
        Codes(prepared.mean, None, prepared.factors, prepared.about, unit=3)
