"""Several codes at once: one table, the differences, and whether they are real."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sober
from sober import RequestError
from sober.metrics import METRICS, Meaning, Measured, Metric
from sober.metrics.common.inputs import as_codes
from sober.metrics.scoring import comparison
from sober.metrics.scoring.comparison import ROWS, Comparison, _pairs, _variance_ratio, holm
from sober.report.comparison_page import comparison_page, findings
from test_cli import run as command
from test_explorer import HOSTILE, Elements, chromium, opened  # noqa: F401 (chromium is a fixture)

RNG = np.random.default_rng(0)
FACTORS = RNG.integers(0, 4, (300, 3))
PLAIN, AGAIN = (FACTORS + 0.5 * RNG.normal(size=FACTORS.shape) for _ in range(2))
MIXED = FACTORS @ RNG.normal(size=(3, 5)) + RNG.normal(size=(300, 5))
QUICK = ["mig", "sap", "gaussian_total_correlation", "active_latents"]


@pytest.fixture(scope="module")
def found() -> Comparison:
    return sober.compare({"plain": PLAIN, "mixed": MIXED, "again": AGAIN}, FACTORS, metrics=QUICK)


def test_scores_are_those_of_score(found: Comparison) -> None:
    assert found.scores["mixed"] == sober.score(MIXED, FACTORS, metrics=QUICK)
    table = found.table()
    assert table["codes"].to_list() == ["plain", "mixed", "again"]
    assert table["mig"].to_list() == [found.scores[name]["mig"] for name in found.names]
    assert table.columns == ["codes", *found.measured]


def test_a_difference_is_found_where_there_is_one_and_not_where_there_is_none(found: Comparison) -> None:
    by = {(each.score, each.first, each.second): each for each in found.differences}
    assert len(by) == len(found.differences) == 3 * len(found.measured)
    far = by["mig", "plain", "mixed"]
    assert far.real
    assert far.better == "plain"
    assert far.high < -0.3
    near = by["mig", "plain", "again"]
    assert not near.real
    assert near.better == ""
    assert near.low < 0 < near.high
    lower = by["gaussian_total_correlation", "plain", "mixed"]
    assert lower.real
    assert lower.value > 0
    assert lower.better == "plain", "lower is better"
    assert by["active_latents", "plain", "mixed"].better == "", "neither end is better"
    for each in found.differences:
        assert each.value == found.scores[each.second][each.score] - found.scores[each.first][each.score]
        assert each.p <= each.adjusted <= 1
        assert each.real == (each.adjusted < 0.05)
        assert each.value - each.low == pytest.approx(each.high - each.value)
    assert found.real() == tuple(each for each in found.differences if each.real)
    assert repr(found).startswith("Comparison of 'plain', 'mixed', 'again': 4 scores of 300 rows")


def test_a_score_that_repeats_another_one_is_compared_and_counted_once() -> None:
    metrics = ["mig", "mi", "svm/sap", "sap"]
    found = sober.compare({"plain": PLAIN, "mixed": MIXED}, FACTORS, metrics=metrics, halves=4)
    assert found.measured == ("mig", "sap", "mi/sap", "mi/modularity", "mi/dci_disentanglement", "mi/dci_completeness")
    assert [difference.score for difference in found.differences] == list(found.measured)
    assert repr(found).splitlines()[0].startswith("Comparison of 'plain', 'mixed': 6 scores of 300 rows, ")
    assert {"mi/mig", "svm/sap"} <= set(found.table().columns), "the data has every name"
    assert f"of {len(found.measured)} " in next(findings(found))
    assert "mi/mig" not in comparison_page(found)
    alone = sober.compare({"plain": PLAIN, "mixed": MIXED}, FACTORS, metrics="mi/mig", halves=4)
    assert alone.measured == ("mi/mig",)


def test_it_repeats_and_another_seed_gives_other_halves(found: Comparison) -> None:
    codes = {"plain": PLAIN, "mixed": MIXED, "again": AGAIN}
    assert sober.compare(codes, FACTORS, metrics=QUICK).differences == found.differences
    assert sober.compare(codes, FACTORS, metrics=QUICK, seed=1).differences != found.differences


def test_the_error_of_a_mean_is_that_of_a_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    """A score that is the mean of a latent: its standard error is known."""
    measure = lambda codes, shared, *, seed: Measured({"average": float(codes.mean[:, 0].mean())})  # noqa: E731
    meaning = {"average": Meaning("mean", -np.inf, np.inf)}
    monkeypatch.setitem(METRICS, "average", Metric("average", "?", "nobody (2026)", meaning, measure, {}))
    codes = {"first": RNG.normal(size=(400, 1)), "second": 3 * RNG.normal(size=(400, 1))}
    found = sober.compare(codes, np.arange(400)[:, None] % 4, metrics="average", halves=400)
    for name, each in codes.items():
        assert found.errors[name]["average"] == pytest.approx(each.std() / 20, rel=0.12)
    apart = (codes["second"] - codes["first"]).std() / 20
    (difference,) = found.differences
    assert difference.high - difference.low == pytest.approx(2 * 1.966 * apart, rel=0.12)


def test_two_halves_hold_each_row_once_and_whole_groups() -> None:
    codes = as_codes(PLAIN, FACTORS)
    pairs = list(_pairs(codes, 3, seed=0))
    for first, second in pairs:
        assert len(first) == len(second) == 150
        assert sorted([*first, *second]) == list(range(300))
    assert len({tuple(first) for first, _ in pairs}) == 3
    groups = np.arange(300) // 10
    for pair in _pairs(as_codes(PLAIN, FACTORS, groups=groups), 3, seed=0):
        assert sorted(np.concatenate(pair)) == list(range(300))
        for half in pair:
            assert len(half) == 150
            assert all(count == 10 for count in np.bincount(groups[half]) if count)


def test_more_rows_do_not_steady_a_score_of_extremes(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = {"plain": PLAIN, "mixed": MIXED}
    widths = []
    for extremes in (True, False):
        monkeypatch.setitem(METRICS, "irs", dataclasses.replace(METRICS["irs"], extremes=extremes))
        (difference,) = sober.compare(codes, FACTORS, metrics="irs").differences
        widths.append(difference.high - difference.low)
    assert widths[0] == pytest.approx(2**0.5 * widths[1])


def test_quarters_tell_how_fast_the_variance_near_an_end_falls(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fourth power of a mean has a variance that falls with the fourth power of the number of rows."""
    rows_measured: list[int] = []

    def measure(codes: Any, shared: Any, *, seed: int) -> Measured:
        rows_measured.append(len(codes.mean))
        return Measured({"steep": 1 - min(1.0, float(codes.mean[:, 0].mean()) ** 4)})

    monkeypatch.setitem(METRICS, "steep", Metric("steep", "?", "nobody (2026)", {"steep": Meaning("?")}, measure, {}))
    rng = np.random.default_rng(5)
    codes = {name: rng.normal(size=(400, 1)) for name in ("first", "second")}
    factors = np.arange(400)[:, None] % 4
    (narrow,) = sober.compare(codes, factors, metrics="steep", halves=200).differences
    assert set(rows_measured) == {400, 200, 100}
    rows_measured.clear()
    monkeypatch.setattr(comparison, "NEAR", 0.0)
    (wide,) = sober.compare(codes, factors, metrics="steep", halves=200).differences
    assert set(rows_measured) == {400, 200}
    assert narrow.value == wide.value
    assert narrow.high - narrow.low == pytest.approx(0.4 * (wide.high - wide.low), rel=0.5)


def test_quarters_keep_groups_whole_and_small_ones_are_not_measured() -> None:
    groups = np.arange(300) // 10
    first, second = comparison._halved(as_codes(PLAIN, FACTORS, groups=groups), np.arange(100), [0])
    assert not set(groups[first]) & set(groups[second])
    assert sorted([*first, *second]) == list(range(100))
    few = {"a": PLAIN[:20], "b": AGAIN[:20]}
    assert sober.compare(few, FACTORS[:20], metrics="modularity", halves=4).differences


def test_an_odd_number_of_halves_is_rounded_up_to_pairs() -> None:
    assert sober.compare({"plain": PLAIN, "mixed": MIXED}, FACTORS, metrics="mig", halves=5).halves == 6


def test_a_score_of_its_own_draws_varies_as_much_as_its_interval_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Halves of a pair are independent, so the variance is right also where it does not come from a mean over rows."""
    meaning = {"luck": Meaning("luck", -np.inf, np.inf)}

    def measure(codes: Any, shared: Any, *, seed: int) -> Measured:
        rows = len(codes.mean)  # a score whose variance is 4 / rows, all of it from its own draws
        return Measured({"luck": float(np.random.default_rng([seed, rows, int(codes.unit)]).normal(0, 2 / rows**0.5))})

    monkeypatch.setitem(METRICS, "luck", Metric("luck", "?", "nobody (2026)", meaning, measure, {}))
    codes = {"first": RNG.normal(size=(400, 1)), "second": RNG.normal(size=(400, 1))}
    found = sober.compare(codes, np.arange(400)[:, None] % 4, metrics="luck", halves=600)
    assert found.errors["first"]["luck"] == pytest.approx(2 / 20, rel=0.12)


def test_halves_of_many_rows_are_of_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "ROWS", 100)
    halves = [half for pair in _pairs(as_codes(PLAIN, FACTORS), 30, seed=0) for half in pair]
    assert all(len(half) == 50 for half in halves)
    assert len(set(np.concatenate(halves))) == 100


@pytest.mark.parametrize(
    ("settings", "rows", "factor"),
    [
        ({"samples": 10_000}, 2_000, 1 / 2),  # it sees all rows: twice as many as in a half
        ({}, 2_000, 1 / 2),
        ({"train": 600, "test": 400}, 2_000, 1.0),  # 1,000 of 2,000 rows, and all 1,000 of a half
        ({"train": 600, "test": 400}, 1_600, 0.8),
        ({"samples": 1_000}, 10_000, 1.0),
        ({"samples": ROWS}, 10 * ROWS, 1 / 2),
        ({}, 10 * ROWS, 1 / 20),  # halves are of a sample, and the metric sees all rows
    ],
)
def test_what_a_metric_draws_itself_widens_the_interval(settings: dict[str, Any], rows: int, factor: float) -> None:
    assert _variance_ratio(settings, rows) == pytest.approx(factor)


def test_rows_of_a_group_count_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten copies of each row know no more than one: the interval must not shrink."""
    metric = dataclasses.replace(METRICS["modularity"], takes=METRICS["modularity"].takes | {"groups"})
    monkeypatch.setitem(METRICS, "modularity", metric)
    codes = {"plain": np.repeat(PLAIN[:60], 10, axis=0), "mixed": np.repeat(MIXED[:60], 10, axis=0)}
    factors, groups = np.repeat(FACTORS[:60], 10, axis=0), np.repeat(np.arange(60), 10)
    naive, grouped = (
        sober.compare(codes, factors, metrics="modularity", groups=given).differences[0] for given in (None, groups)
    )
    assert naive.value == grouped.value
    assert grouped.high - grouped.low > 2 * (naive.high - naive.low)
    assert sober.compare(codes, factors, metrics="modularity", groups=groups, halves=2).groups == 60


def test_where_nothing_can_be_measured_the_reason_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METRICS, "mig", dataclasses.replace(METRICS["mig"], takes=frozenset()))
    with pytest.raises(RequestError, match=r"no score can be compared: mig .*weights"):
        sober.compare({"a": PLAIN, "b": MIXED}, FACTORS, metrics="mig", weights=np.arange(1, 301))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_is_between_nothing_and_bonferroni(p: list[float]) -> None:
    adjusted = holm(p)
    for raw, found in zip(p, adjusted, strict=True):
        assert raw <= found <= min(1.0, raw * len(p)) + 1e-12
    order = np.argsort(p, kind="stable")
    assert (np.diff(np.array(adjusted)[order]) >= 0).all()


def test_holm_by_hand() -> None:
    assert holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])


def test_log_variances_codes_and_frames() -> None:
    codes = {"a": as_codes(PLAIN, FACTORS), "b": as_codes(MIXED, FACTORS, logvar=MIXED)}
    found = sober.compare(codes, metrics="gaussian_total_correlation", halves=3)
    twin = "gaussian_total_correlation_sampled"
    assert twin in found.scores["b"]
    assert twin not in found.scores["a"]
    assert [each.score for each in found.differences] == ["gaussian_total_correlation"]
    assert found.table()[twin].to_list() == [None, found.scores["b"][twin]]
    arrays = sober.compare(
        {"a": PLAIN, "b": MIXED}, FACTORS, logvar={"b": MIXED}, metrics="gaussian_total_correlation", halves=3
    )
    assert arrays.differences == found.differences


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: sober.compare({"a": PLAIN}, FACTORS), "nothing to compare in 1 set of codes"),
        (lambda: sober.compare({"a": PLAIN, "b": PLAIN[:200]}, FACTORS), "'b': codes has 200 rows and factors 300"),
        (
            lambda: sober.compare({"a": as_codes(PLAIN, FACTORS), "b": as_codes(PLAIN, FACTORS[::-1])}),
            "'b' has other factors than 'a'",
        ),
        (
            lambda: sober.compare({"a": as_codes(PLAIN, FACTORS), "b": as_codes(PLAIN, FACTORS, names="xyz")}),
            "'b' has other factors than 'a'",
        ),
        (
            lambda: sober.compare({"a": as_codes(PLAIN, FACTORS), "b": as_codes(PLAIN[:9], FACTORS[:9])}),
            "'b' has 9 rows with labels and 'a' 300",
        ),
        (lambda: sober.compare({"a": PLAIN, "b": MIXED}, FACTORS, logvar={"c": PLAIN}), "logvar names c"),
        (lambda: sober.compare({"a": PLAIN, "b": MIXED}, FACTORS, halves=1), "halves must be a whole number from 2"),
        (lambda: sober.compare({"a": PLAIN, "b": MIXED}, FACTORS, level=95), "between 0 and 1"),
        (lambda: sober.compare({"a": PLAIN[:7], "b": MIXED[:7]}, FACTORS[:7]), "7 rows cannot be halved"),
        (
            lambda: sober.compare({"a": PLAIN, "b": MIXED}, FACTORS, groups=np.arange(300) % 5),
            "5 groups cannot be halved",
        ),
        (lambda: sober.compare({"a": PLAIN, "b": MIXED}, FACTORS, metrics="unheard_of"), "unheard_of"),
        (lambda: sober.compare({1: PLAIN, "1": MIXED}, FACTORS), "same name"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_one_line(call: Callable[[], Comparison], says: str) -> None:
    with pytest.raises(RequestError, match=says) as error:
        call()
    assert "\n" not in str(error.value)


# The command line.


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name, codes in (("layer1", PLAIN), ("layer2", MIXED)):
        np.savez(tmp_path / f"{name}.npz", codes=codes, factors=FACTORS, names=["a", "b", "c"])
    np.savez(tmp_path / "turned.npz", codes=PLAIN, factors=FACTORS[::-1], names=["a", "b", "c"])
    np.savez(tmp_path / "nameless.npz", codes=PLAIN, factors=FACTORS)
    return tmp_path


def test_several_files_are_compared(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = files / "layer1.npz", files / "layer2.npz"
    assert command("score", *paths, "--metrics", "mig,sap", "--halves", 5, "--out", files / "compare.html") == 0
    text = capsys.readouterr().out
    assert re.search(r"mig +0\.\d+ ± 0\.\d+ +0\.\d+ ± ", text)
    assert re.search(r"mig +layer2 less layer1 +-0\.\d+ +-0\.\d+ to -0\.\d+ +layer1\n", text)
    assert "6 halves of the 300 rows" in text
    assert "layer1 against layer2" in (files / "compare.html").read_text(encoding="utf-8")
    assert command("score", *paths, "--metrics", "mig", "--halves", 5, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["scores"]["layer1"] == sober.score(PLAIN, FACTORS, metrics="mig")
    assert said["differences"][0]["first"] == "layer1"
    assert said["halves"] == 6, "three pairs"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["layer1.npz", "turned.npz"], "turned.npz has other factors than"),
        (["layer1.npz", "nameless.npz"], "nameless.npz has other names than"),
        (["layer1.npz", "layer1.npz"], "named twice"),
        (["layer1.npz", "."], "is a folder"),
        (["layer1.npz", "layer2.npz", "--chance", "3"], "--chance is for one file"),
        (["layer1.npz", "layer2.npz", "--repeats", "3"], "--repeats is for one file"),
        (["layer1.npz", "--out", "x.html"], "--out is for several files"),
    ],
)
def test_files_that_cannot_be_compared_are_refused(
    files: Path, arguments: list[str], says: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    assert command("score", *arguments) == 2
    assert says in " ".join(capsys.readouterr().err.split())


def test_files_of_one_name_are_told_apart_by_their_folders() -> None:
    from sober.cli.compare import names_of  # noqa: PLC0415

    paths = [Path("a/codes.npz"), Path("b/codes.npz"), Path("b/other.npz")]
    assert list(names_of(paths).values()) == ["a/codes.npz", "b/codes.npz", "other"]


# The page.


def test_the_page_says_what_was_found_and_all_text_of_users_is_text() -> None:
    found = sober.compare({HOSTILE: PLAIN, "mixed": MIXED}, FACTORS, metrics=QUICK, halves=4)
    text = comparison_page(found)
    scripts = [each for tag, each in Elements(text).texts if tag == "script"]
    assert not any("alert" in each for each in scripts)
    assert HOSTILE.split()[0] not in text
    assert text.count("<script") == 2, "its data and its own script"
    assert "http://" not in text.replace("http://www.w3.org", "")
    assert "unsafe-eval" not in text
    for name in ("findings", "scores", "drawn", "differences", "how", "measured"):
        assert f'id="{name}"' in text
    assert text.count("<circle") == len([each for each in found.measured if each in ("mig", "sap")])


def test_sentences_say_who_is_better_or_that_nobody_is(found: Comparison) -> None:
    first, second, third = findings(found)
    assert first.startswith("plain and mixed differ beyond chance in ")
    assert "plain is better in" in first
    assert second == "No score tells plain and again apart: each of 4 differences may be chance."
    assert third.startswith("mixed and again differ")


def test_arrays_are_compared_where_jax_is_not_installed(start: Callable) -> None:
    code = """
import sys
sys.modules["jax"] = None
import numpy as np, sober
factors = np.random.default_rng(0).integers(0, 4, (100, 2))
found = sober.compare({"a": factors, "b": factors + 1}, factors, metrics="mig", halves=2, out=sys.argv[1] + "/c.html")
print(len(found.differences))
"""
    import tempfile  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        process = start(code, folder)
        assert process.communicate(timeout=120)[0] == "1\n"
        assert process.returncode == 0


def test_the_page_opens_in_a_browser(chromium, tmp_path: Path) -> None:  # noqa: F811
    path = tmp_path / "compare.html"
    sober.compare({HOSTILE: PLAIN, "mixed": MIXED}, FACTORS, metrics=QUICK, halves=4, out=path)
    with opened(chromium, path) as page:
        assert page.locator("svg circle").count() == 2
        head = page.locator("#scores th button").nth(1)
        head.click()
        assert page.locator("#scores th").nth(1).get_attribute("aria-sort") in ("ascending", "descending")
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
