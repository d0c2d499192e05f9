"""Odd arguments of `score`, `udr`, `compare` and tasks: each is measured, flagged, or refused in one line."""

from __future__ import annotations

import datetime
import decimal
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sober
from sober.errors import RequestError
from sober.metrics import as_codes, score

RNG = np.random.default_rng(0)
FACTORS = RNG.integers(0, [3, 4], (60, 2))
CODES = np.concatenate([FACTORS + RNG.normal(size=(60, 2)), RNG.normal(size=(60, 1))], axis=1)
MODELS = [RNG.normal(size=(60, 3)) for _ in range(3)]
RECORDS = np.zeros((60, 2), [("a", "f4"), ("b", "i4")])


@pytest.fixture(autouse=True)
def no_warning() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def of_score(*args: Any, **options: Any) -> Any:
    return score(*(args or (CODES, FACTORS)), **{"metrics": ["mig", "sap"], **options})


def of_udr(*args: Any, **options: Any) -> Any:
    return sober.udr(*(args or (MODELS,)), **options)


def of_compare(*args: Any, **options: Any) -> Any:
    return sober.compare(*(args or ({"a": CODES, "b": CODES[:, :2]}, FACTORS)), **{"metrics": "mig", **options})


def of_task(*args: Any, **options: Any) -> Any:
    return sober.task("downstream", *(args or (CODES, FACTORS)), **options)


@pytest.mark.parametrize("function", [of_score, of_udr, of_compare, of_task])
@pytest.mark.parametrize("seed", [-1, "a", 1.5, None, float("nan"), [1], 10.5])
def test_a_seed_is_a_whole_number(function: Callable[..., Any], seed: Any) -> None:
    with pytest.raises(RequestError, match=r"^seed must be a whole number from 0 on, not "):
        function(seed=seed)


@pytest.mark.parametrize(
    ("function", "options", "says"),
    [
        (of_score, {"repeats": 1.5}, "repeats must be a whole number from 1 to 1,000,000, not 1.5"),
        (of_score, {"repeats": "2"}, "repeats must be a whole number from 1 to 1,000,000, not '2'"),
        (of_score, {"repeats": 0}, "repeats must be a whole number from 1 to 1,000,000, not 0"),
        (
            of_score,
            {"chance": 2.5},
            "chance, the number of shuffles, must be a whole number from 0 to 1,000,000, not 2.5",
        ),
        (of_score, {"metrics": 3}, "metrics must be a name, or names in a list, such as"),
        (of_score, {"metrics": ["mig", 3]}, "metrics must be a name, or names in a list, such as"),
        (of_score, {"metrics": {"mig": 3}}, "metrics: the settings of mig must be a mapping"),
        (of_score, {"metrics": {"mig": {"bins": 2.5}}}, "mig: bins must be a whole number from 1 on, such as 20"),
        (of_score, {"metrics": {"mig": {"bins": 0}}}, "mig: bins must be a whole number from 1 on, such as 20"),
        (of_score, {"metrics": {"mig": {"bins": None}}}, "mig: bins must be a whole number from 1 on, such as 20"),
        (of_score, {"metrics": {"sap": {"strength": np.inf}}}, "sap: strength must be a finite number, not inf"),
        (of_score, {"metrics": {"modularity": {"active": 3}}}, "modularity: active must be True or False, not 3"),
        (of_score, {"names": 3}, "names must be a list with a name for each factor, not 3"),
        (of_score, {"kinds": 3}, "kinds must be a kind, a list of kinds, or kinds by factor, not 3"),
        (of_score, {"kinds": {1: "cyclic"}}, "kinds names 1, which is not a factor"),
        (of_score, {"preset": 3}, "unknown preset '3'"),
        (of_udr, {"partners": 1.5}, "partners must be a whole number from 1 on, not 1.5"),
        (of_udr, {"settings": 3}, "settings must name the setting of each of 3 models, not 3"),
        (of_udr, {"settings": np.zeros((2, 2))}, "settings must name the setting of each of 3 models, got 2"),
        (of_udr, {"similarity": 3}, "udr: similarity must be one of lasso, spearman, not 3"),
        (of_udr, {"kl": 3}, "kl must hold a number for each latent of each model"),
        (of_udr, {"kl": [np.zeros((3, 2))] * 3}, "kl must hold a number for each latent of each model"),
        (of_udr, {"kl": [[0, np.nan, 1]] * 3}, "kl of latent 1 of model 0 is not a number: leave this model out"),
        (of_udr, {"kl": np.ones((3, 3)) * 1j}, "kl must hold real numbers, not complex numbers"),
        (of_compare, {"halves": 2.5}, "halves must be a whole number from 2 to 1,000,000, not 2.5"),
        (of_compare, {"level": "a"}, "level, the share of intervals that hold the truth, must be a finite number"),
        (of_compare, {"logvar": 3}, "logvar must be arrays by name, as in {'layer 1': array}, not 3"),
        (of_compare, {"out": 3}, "out must be the name of a file, not 3"),
        (of_task, {"folds": 2.5}, "downstream: folds must be a whole number from 1 on, such as 5, not 2.5"),
    ],
)
def test_an_option_of_another_kind_is_refused(function: Callable[..., Any], options: dict[str, Any], says: str) -> None:
    with pytest.raises(RequestError) as refused:
        function(**options)
    assert str(refused.value).startswith(says)
    assert "\n" not in str(refused.value)


COMPLEX = "must hold real numbers, not complex numbers: pass real and imaginary parts as columns of their own"
REFUSED_CODES = [
    (CODES + 1j, COMPLEX),
    (CODES.astype("M8[s]"), "must hold real numbers, not dates or times: pass numbers, such as seconds since a day"),
    (CODES.astype("m8[s]"), "must hold real numbers, not dates or times"),
    (CODES.astype(str), "must hold real numbers, not text: make them numbers, as with .astype(float)"),
    (CODES.astype(object), "must hold real numbers, not objects: make them numbers, as with .astype(float)"),
    (RECORDS, "must hold real numbers, not records with the fields a, b: pass their columns side by side"),
    (RECORDS[:, 0], "must hold real numbers, not records with the fields a, b: pass their columns side by side"),
    (np.zeros((60, 2), "V4"), "must hold real numbers, not an array of |V4"),
    (np.ma.array(CODES, mask=CODES > 2), "masked values, the first at ("),
]


@pytest.mark.parametrize(("codes", "says"), REFUSED_CODES)
def test_codes_that_are_no_real_numbers_are_refused(codes: Any, says: str) -> None:
    for function in (lambda: of_score(codes, FACTORS), lambda: of_udr([codes, codes])):
        with pytest.raises(RequestError) as refused:
            function()
        assert says in str(refused.value)
        assert str(refused.value).startswith("codes ")


@pytest.mark.parametrize("codes", [3, None, {"a": 1}, {1, 2}, "abc", (number for number in range(3)), [[1, 2], [3]]])
def test_what_is_no_array_is_refused(codes: Any) -> None:
    for function in (lambda: of_score(codes, FACTORS), lambda: of_udr(codes), lambda: of_compare(codes, FACTORS)):
        with pytest.raises(RequestError) as refused:
            function()
        assert "\n" not in str(refused.value)


class Shapeless:
    def __repr__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("factors", "says"),
    [
        (FACTORS + 1j, "factors holds complex numbers: pass numbers or text, in a column for each factor"),
        (RECORDS, "factors holds records: pass numbers or text, in a column for each factor"),
        (np.rec.fromarrays(list(FACTORS.T), names="a,b"), "factors holds records"),
        (np.zeros((60, 2), "V4"), "factors holds records"),
        (np.array([[1, [2, 3]]] * 60, object), "factor 'factor_1' holds lists"),
        (np.array([[Shapeless(), 1]] * 60, object), "factor 'factor_0' holds objects: pass numbers or text"),
    ],
)
def test_factors_that_are_neither_numbers_nor_text_are_refused(factors: Any, says: str) -> None:
    with pytest.raises(RequestError) as refused:
        of_score(CODES, factors)
    assert str(refused.value).startswith(says)


def test_dates_and_objects_are_classes_in_their_order() -> None:
    plain = as_codes(CODES, FACTORS).factors
    days = FACTORS.astype("M8[D]")
    for factors in (days, FACTORS.astype("m8[D]"), days.astype(object), FACTORS.astype(object)):
        np.testing.assert_array_equal(as_codes(CODES, factors).factors, plain)
    decimals = np.array([[decimal.Decimal(int(value)) / 2 for value in row] for row in FACTORS], object)
    np.testing.assert_array_equal(as_codes(CODES, decimals).factors, plain)
    assert as_codes(CODES, days).about[0].values == ("1970-01-01", "1970-01-02", "1970-01-03")
    assert as_codes(CODES, np.full((60, 1), datetime.date(2020, 2, 3), object)).about[0].values == ("2020-02-03",)


def test_a_missing_date_is_a_label_that_is_not_known() -> None:
    days = FACTORS.astype("M8[D]")
    days[3, 1] = "NaT"
    prepared = as_codes(CODES, days)
    assert prepared.known is not None
    assert np.argwhere(~prepared.known).tolist() == [[3, 1]]
    with pytest.raises(RequestError, match="groups has no group in row 3"):
        of_score(CODES, FACTORS, groups=days[:, 1])
    with pytest.raises(RequestError, match="groups has no group in row 0"):
        of_score(CODES, FACTORS, groups=[None, *range(59)])


def test_huge_and_tiny_factors_and_weights_are_scaled() -> None:
    factors, weights = RNG.normal(size=(60, 2)), RNG.random(60)
    plain = score(CODES, factors, kinds="continuous", weights=weights, metrics="all")
    for scale in (2.0**1000, 2.0**-1000):
        far = score(CODES, factors * scale, kinds="continuous", weights=weights, metrics="all")
        assert all("rescaled" in flags for flags in far.flags.values())
        for name, value in plain.items():
            assert far[name] == pytest.approx(value, abs=1e-9), name
        weighed = score(CODES, factors, kinds="continuous", weights=weights * scale, metrics="all")
        assert dict(weighed) == pytest.approx(dict(plain), abs=1e-9)


def test_models_of_huge_codes_are_ranked_as_others() -> None:
    for similarity in ("lasso", "spearman"):
        plain = of_udr(MODELS, similarity=similarity)
        huge = of_udr([codes * 2.0**1000 for codes in MODELS], similarity=similarity)
        np.testing.assert_allclose(huge, plain, atol=1e-9)


def test_a_narrow_distribution_has_a_total_correlation() -> None:
    """Points that do not overlap are told apart by one latent alone: each other latent adds log N."""
    for logvar in (-600.0, -2000.0, -1e300):
        found = score(CODES, logvar=np.full_like(CODES, logvar), metrics="aggregate_total_correlation")
        assert found["aggregate_total_correlation"] == pytest.approx(2 * np.log(60))
        assert found.errors["aggregate_total_correlation"] == pytest.approx(0, abs=1e-9)
        assert found.flags["aggregate_total_correlation"] == ("cut_logvar",)
    wide = score(CODES, logvar=np.full_like(CODES, 1e300), metrics=["active_latents", "mutual_information"])
    assert all("cut_logvar" in flags for flags in wide.flags.values())


def test_a_factor_that_no_latent_knows_is_flagged_also_if_chance_finds_some_information() -> None:
    rng = np.random.default_rng(0)
    factors = rng.integers(0, [3, 4, 5], (800, 3))
    codes = np.concatenate([factors[:, :2] + 0.05 * rng.normal(size=(800, 2)), rng.normal(size=(800, 2))], axis=1)
    for changes in ({}, {"latents": "discrete"}):
        values = np.round(codes) if changes else codes
        unknown = score(values, factors, metrics={"infomec": changes})
        assert "unknown_factor" in unknown.flags["infoc"]
        assert unknown.parts["infomec"]["nmi"][:, 2].max() > 0
        told = values + 0.5 * np.eye(4)[2] * factors[:, [2]]
        assert "unknown_factor" not in score(told, factors, metrics={"infomec": changes}).flags["infoc"]


def test_infoe_does_not_clip_what_a_regression_is_sure_of() -> None:
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415
    from sklearn.metrics import log_loss as clipped  # noqa: PLC0415

    from sober.metrics.infomec import log_loss  # noqa: PLC0415

    rng = np.random.default_rng(0)
    factor = rng.integers(0, 2, 400)
    codes = factor[:, None] + 0.05 * rng.normal(size=(400, 1))
    codes[-1] = 100 * (1 - 2 * factor[-1])
    rows = codes[:200], factor[:200], codes[200:], factor[200:]
    model = LogisticRegression(C=np.inf, class_weight="balanced", max_iter=100).fit(*rows[:2])
    assert log_loss(*rows) > 2 * clipped(rows[3], model.predict_proba(rows[2]))
    assert log_loss(*rows[:2], *(array[:-1] for array in rows[2:])) == pytest.approx(
        clipped(rows[3][:-1], model.predict_proba(rows[2][:-1])), rel=1e-6
    )


def test_sap_depends_on_scale_and_offset() -> None:
    rng = np.random.default_rng(0)
    factors = rng.integers(0, [2, 4, 8], (3000, 3))
    codes = factors / [1, 3, 7] - 0.5 + 0.1 * rng.normal(size=factors.shape)
    plain, small, far = (score(table, factors, metrics="sap")["sap"] for table in (codes, codes / 4, codes + 100))
    assert plain > 1.1 * small
    assert plain > 3 * far
