"""Codes with more than plain numbers and labels: holes, groups and weights, and what is left out because of them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from sober.errors import RequestError
from sober.metrics import METRICS, Metric, as_codes, score
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


SUPERVISED = [metric for metric in METRICS.values() if metric.supervised]


def holes_in(factors: np.ndarray, column: int, share: float = 0.3) -> np.ndarray:
    """Factors of which one is not known in a share of the rows."""
    out = factors.astype(float)
    out[np.random.default_rng(5).random(len(out)) < share, column] = np.nan
    return out


@pytest.mark.parametrize("metric", [m for m in SUPERVISED if "holes" in m.takes], ids=lambda metric: metric.name)
def test_a_factors_number_is_its_own_whatever_holes_others_have(metric: Metric) -> None:
    codes, factors = table()
    whole = as_codes(codes, factors.astype(float))
    partly = as_codes(codes, holes_in(factors, 1))
    ours, theirs = (metric(given, metric.quick) for given in (partly, whole))
    assert "missing_labels" in ours.flags
    assert "missing_labels" not in theirs.flags
    own = [name for name in ours.parts if name.endswith("_per_factor")]
    own = [name for name in own if name != "beta_vae_per_factor"]  # one classifier names all factors
    for name in own:
        if "disentanglement" not in name and "permuted" not in name and not name.startswith(("mcc", "dcimig")):
            np.testing.assert_allclose(ours.parts[name][[0, 2]], theirs.parts[name][[0, 2]], atol=1e-12, err_msg=name)


@pytest.mark.parametrize("metric", [m for m in SUPERVISED if "holes" in m.takes], ids=lambda metric: metric.name)
def test_a_factor_is_measured_on_the_rows_that_know_it(metric: Metric) -> None:
    """With the same holes everywhere, the rows without labels might as well not be there."""
    codes, factors = table()
    given = factors.astype(float)
    given[::3] = np.nan
    rest = np.arange(len(codes)) % 3 > 0
    ours = metric(as_codes(codes, given), metric.quick)
    theirs = metric(as_codes(codes[rest], factors[rest].astype(float)), metric.quick)
    assert ours.values == theirs.values


def test_rows_in_which_nothing_is_known_change_nothing() -> None:
    codes, factors = table()
    given = holes_in(holes_in(factors, 0), 2, 0.6)
    more = np.concatenate([given, np.full((50, 3), np.nan)]), np.concatenate([codes, np.full((50, 4), 9.0)])
    order = np.insert(np.arange(400), np.arange(0, 400, 8), np.arange(400, 450))
    changes = {metric.name: metric.quick for metric in METRICS.values()}
    ours = score(more[1][order], more[0][order], metrics=changes)
    theirs = score(codes, given, metrics=changes)
    assert dict(ours) == dict(theirs)
    assert ours.known == {"factor_0": int(np.isfinite(given[:, 0]).sum()), "factor_1": 400,
                          "factor_2": int(np.isfinite(given[:, 2]).sum())}  # fmt: skip


def test_what_needs_all_factors_at_once_sees_the_rows_that_know_them_all() -> None:
    codes, factors = table()
    given = holes_in(factors, 1)
    known = np.isfinite(given[:, 1])
    ours = score(codes, given, metrics={"omes": {"draws": 2}})
    theirs = score(codes[known], factors[known], metrics={"omes": {"draws": 2}})
    assert ours["omes"] == theirs["omes"]
    given[:200, 0], given[200:, 1] = np.nan, np.nan
    left = score(codes, given, metrics=["omes", "mig"])
    assert "omes" not in left
    assert left.left_out == {"omes": "it needs rows in which every factor is known, and 0 rows of 400 are too few"}
    assert 0 < left["mig"] < 1


def test_codes_of_units_that_do_not_fit_are_refused() -> None:
    codes, factors = table()
    prepared = as_codes(codes, factors)
    with pytest.raises(RequestError, match="units of 3"):
        Codes(prepared.mean, None, prepared.factors, prepared.about, unit=3)
