"""Codes with more than plain numbers and labels: holes, groups and weights, and what is left out because of them."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sober.errors import NotMeasuredError, RequestError
from sober.estimators.predictors import Rows, validation_rows
from sober.metrics import METRICS, Metric, as_codes, score
from sober.metrics.common.metric_rows import halves, sides, split, split_in_three
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


@pytest.mark.parametrize(
    "metric", [m for m in METRICS.values() if "held_out" in m.settings], ids=lambda metric: metric.name
)
@pytest.mark.parametrize("held_out", ["drawn", "second"])
def test_a_half_of_one_row_holds_a_row(metric: Metric, held_out: str) -> None:
    codes, factors = table()
    settings = {"samples": 1, "held_out": held_out}
    assert score(codes, factors, metrics={metric.name: settings}) == score(
        codes, factors, metrics={metric.name: {**settings, "samples": 2}}
    )


def test_regressions_that_stop_early_are_flagged_and_warn_of_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    codes, factors = table()
    monkeypatch.setattr("sober.estimators.predictors.LASSO_STEPS", 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lassos = score(codes, factors, metrics={"dci": {"trees": "lasso"}})
        score(codes[:40], np.random.default_rng(0).permutation(40)[:, None], metrics="infomec")
    assert "not_converged" in lassos.flags["dci_disentanglement"]


@pytest.mark.parametrize("quantile", [-0.1, 1.5])
def test_a_quantile_is_a_share(quantile: float) -> None:
    with pytest.raises(RequestError, match="irs: quantile must be a finite number from 0 to 1"):
        score(*table(), metrics={"irs": {"quantile": quantile}})


def test_an_outlier_that_outweighs_all_other_values_is_no_fault() -> None:
    for outlier in (1e40, 1e120, 1e300):
        for seed in range(4):
            factors = np.random.default_rng(seed).normal(size=(12, 1))
            factors[5] = outlier
            codes = np.random.default_rng(9).normal(size=(12, 2))
            with np.errstate(all="raise", under="ignore"):
                scores = score(codes, factors, kinds="continuous", metrics=["r2", "mcc"], seed=seed)
            assert np.isfinite(list(scores.values())).all()


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
    for labels in (numbers, objects, masked):
        prepared = as_codes(codes, labels, kinds="ordinal")
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
    labels = factors.astype(float)
    labels[::3] = np.nan
    rest = np.arange(len(codes)) % 3 > 0
    ours = metric(as_codes(codes, labels), metric.quick)
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


@pytest.mark.parametrize("metric", SUPERVISED, ids=lambda metric: metric.name)
def test_rare_attributes_do_no_harm(metric: Metric) -> None:
    """Of binary attributes, one is had by a single row and one lacked by a single row."""
    rng = np.random.default_rng(3)
    attributes = (rng.random((300, 6)) < [0.5, 0.2, 0.05, 0.5, 0.0, 1.0]).astype(int)
    attributes[0, 4], attributes[1, 5] = 1, 0
    codes = rng.normal(size=(300, 4)) + attributes[:, :4]
    found = metric(as_codes(codes, attributes), metric.quick)
    for name, value in found.values.items():
        low = max(metric.scores[name].low, -10.0)  # an R² has no lower end, and is not far below 0
        assert low <= value <= metric.scores[name].high, name


WEIGHED = [metric for metric in METRICS.values() if "weights" in metric.takes]


@pytest.mark.parametrize("metric", WEIGHED, ids=lambda metric: metric.name)
@pytest.mark.parametrize("seed", range(3))
def test_a_row_of_weight_three_is_three_rows(metric: Metric, seed: int) -> None:
    rng = np.random.default_rng(seed)
    codes, factors = table(rows=120, seed=seed)
    weights = rng.integers(0, 4, len(codes))
    settings = {"held_out": "none"} if "held_out" in metric.settings else {}  # so that no rows are drawn
    ours = metric(as_codes(codes, factors, weights=weights), settings)
    theirs = metric(as_codes(np.repeat(codes, weights, axis=0), np.repeat(factors, weights, axis=0)), settings)
    scaled = metric(as_codes(codes, factors, weights=weights / 7), settings)
    for name, value in theirs.values.items():
        assert ours.values[name] == pytest.approx(value, abs=1e-9), name
        assert scaled.values[name] == pytest.approx(value, abs=1e-9), name


def test_equal_weights_are_none_and_what_cannot_weigh_is_left_out() -> None:
    codes, factors = table()
    changes = {metric.name: metric.quick for metric in METRICS.values()}
    plain = score(codes, factors, metrics=changes)
    assert dict(score(codes, factors, metrics=changes, weights=np.full(400, 0.3))) == dict(plain)
    weighed = score(codes, factors, metrics=changes, weights=np.arange(1, 401))
    assert set(weighed.left_out) == {metric.name for metric in METRICS.values() if "weights" not in metric.takes}
    assert set(weighed.left_out.values()) == {"it has no form in which rows have weights"}
    assert weighed["mig"] != plain["mig"]


def memories(groups: int = 60, times: int = 8) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every group has a code of its own and factors of its own, and they have nothing to do with each other."""
    rng = np.random.default_rng(0)
    which = np.repeat(np.arange(groups), times)
    codes = rng.normal(size=(groups, 3))[which] + 0.01 * rng.normal(size=(groups * times, 3))
    order = rng.permutation(groups * times)
    return codes[order], rng.integers(0, 2, (groups, 2))[which][order], which[order]


@pytest.mark.parametrize(
    ("name", "score_name", "known", "unknown"),
    [
        ("dci", "dci_informativeness", 0.9, 0.68),
        ("dci_forest", "dci_forest_informativeness", 0.9, 0.68),
        ("dci_es", "dci_es_informativeness", 0.7, 0.1),
    ],
)
def test_what_was_learned_of_a_group_is_no_use_for_others(
    name: str, score_name: str, known: float, unknown: float
) -> None:
    codes, factors, groups = memories()
    changes = {name: {"trees": 10} if name != "dci" else {}}
    assert score(codes, factors, metrics=changes)[score_name] > known
    assert score(codes, factors, metrics=changes, groups=groups)[score_name] < unknown


@pytest.mark.parametrize("metric", METRICS.values(), ids=lambda metric: metric.name)
def test_every_metric_takes_groups(metric: Metric) -> None:
    """And holes at the same time; a group's name may be text."""
    codes, factors, groups = memories()
    names = np.array([f"patient {group}" for group in groups])
    found = score(codes, holes_in(factors, 1), metrics={metric.name: metric.quick}, groups=names)
    assert not found.left_out
    assert found


@given(st.integers(0, 2**32), st.integers(2, 60), st.integers(2, 12), st.integers(1, 50), st.integers(1, 50))
def test_no_group_is_on_both_sides(seed: int, rows: int, groups: int, train: int, test: int) -> None:
    rng = np.random.default_rng(seed)
    label = rng.integers(0, groups, rows)
    label[:2] = 0, 1
    codes = Codes(np.arange(rows, dtype=float)[:, None], None, np.zeros((rows, 0)), (), groups=label)
    cuts = [
        split(codes, train, test, seed % 7),
        sides(codes, train, test, seed % 7),
        halves(codes, train + test + 1, "drawn", seed % 7),
        halves(codes, rows, "second", seed % 7),
    ]
    three = split_in_three(codes, train, test, test, seed % 7)
    cuts += [three[1:], three[::2]]
    if three[0] is not three[1]:
        cuts.append(three[:2])
    for first, second in cuts:
        assert len(first.mean)
        assert len(second.mean)
        assert not set(first.groups) & set(second.groups)
        assert len(set(first.mean[:, 0])) == len(first.mean)
    valid, rest = validation_rows(Rows(codes.mean, codes.factors, (), label), rng)
    assert not set(label[valid]) & set(label[rest])
    assert len(valid) + len(rest) == rows


def test_few_groups_are_flagged() -> None:
    codes, factors = table()
    found = score(codes, factors, metrics=["sap"], groups=np.arange(400) % 5)
    assert "few_groups" in found.flags["sap"]


def test_codes_of_units_that_do_not_fit_are_refused() -> None:
    codes, factors = table()
    prepared = as_codes(codes, factors)
    with pytest.raises(RequestError, match="units of 3"):
        Codes(prepared.mean, None, prepared.factors, prepared.about, unit=3)
