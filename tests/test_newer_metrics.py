"""Metrics that came after the Sober Look study: known answers, and agreement with their authors' public code.

Where the public code is exact, so is the agreement (1e-9; 1e-6 where it computes in float32). The other tolerances
stand beside the reason for them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.feature_selection import mutual_info_classif
from sklearn.preprocessing import minmax_scale

from golden import Golden
from sober.errors import RequestError
from sober.estimators.capacity import curve_explicitness
from sober.estimators.neighbours import class_information, kth_distance, number_information, within
from sober.metrics import METRICS, Scores, as_codes, score
from sober.metrics.common.matching import best_match
from sober.metrics.common.metric_rows import halves
from sober.metrics.dci_es import DEPTHS, probes
from sober.metrics.omes import apart_in_one, draw_partners
from sober.metrics.r2 import factor_points, lines
from sober.types import Codes

EXACT = 1e-9
SIZES = (2, 4)
GRID = np.stack(np.unravel_index(np.arange(math.prod(SIZES)), SIZES), axis=1)
EVERY_WHOLE_SAMPLE = 10_000


@pytest.fixture(scope="module")
def golden(shared: Path) -> Golden:
    return Golden(shared)


def compared(
    golden: Golden, metric: str, tolerance: float, rows: int, ours: Callable[[Codes], float], key: Any = None
) -> int:
    """Our number against theirs for every representation; how many there were. Their NaN is a number of ours."""
    count = 0
    for grid, name, entry in golden.newer(metric):
        theirs = entry if key is None else entry[key]
        number = ours(golden.first(grid, name, rows))
        assert math.isfinite(number)
        if theirs != "nan":
            assert number == pytest.approx(theirs, abs=tolerance), (metric, grid, name)
            count += 1
    return count


# ---------------------------------------------------------------- information


def test_what_is_known_of_copies_and_of_nothing() -> None:
    """README of the shared test data, by hand: a complete grid of 2 and 4 values, 4 bins that keep them apart."""
    four = {name: {"bins": 4} for name in ("rmig", "mig_sup", "jemmig", "dcimig")}
    copies = score(GRID.astype(float), GRID, metrics=four)
    for name in ("rmig", "mig_sup", "jemmig", "dcimig"):
        assert copies[name] == pytest.approx(1.0, abs=EXACT), name
    assert copies["jemmig_ratio"] == pytest.approx(0.0, abs=EXACT)
    constant = score(np.full((8, 3), 0.5), GRID, metrics=four)
    assert constant["dcimig"] == 0
    assert constant["jemmig"] == pytest.approx(0.5833, abs=5e-5)  # as printed
    assert "collapsed" in constant.flags["jemmig"]
    twice = score(np.tile(GRID, (1, 2)).astype(float), GRID, metrics=four)
    assert twice["rmig"] == 0
    assert twice["dcimig"] == pytest.approx(1.0, abs=EXACT)
    expected = np.mean([1 - math.log(size) / (math.log(size) + math.log(4)) for size in SIZES])
    assert twice["jemmig"] == pytest.approx(expected, abs=EXACT)


def test_the_authors_report_the_ratio_alone() -> None:
    theirs = score(GRID.astype(float), GRID, metrics="jemmig", preset="authors")
    assert set(theirs) == {"jemmig_ratio"}


def test_whose_entropy_must_be_known() -> None:
    with pytest.raises(RequestError, match="over must be 'factor' or 'code'"):
        score(GRID.astype(float), GRID, metrics={"rmig": {"over": "both"}})


UBISOFT = [
    ("mig", "rmig"),
    ("mig_sup", "mig_sup"),
    ("jemmig", "jemmig"),
    ("dcimig", "dcimig"),
    ("modularity", "modularity"),
]


@pytest.mark.parametrize(("theirs", "name"), UBISOFT)
@pytest.mark.parametrize(("kind", "bins"), [("continuous", 10), ("discrete", 10), ("discrete", 20)])
def test_information_as_a_comparison_of_metrics_measures_it(
    golden: Golden, theirs: str, name: str, kind: str, bins: int
) -> None:
    """Carbonneau et al. scale to [0, 1] before they cut, which decides on which side of an edge a value falls."""

    def ours(codes: Codes) -> float:
        x = minmax_scale(codes.mean)
        if kind == "continuous":
            factors, kinds = minmax_scale(codes.factors.astype(float)), "continuous"
        else:
            factors, kinds = codes.factors, "ordinal"
        return score(x, factors, kinds=kinds, metrics={name: {"bins": bins}}, preset="ubisoft")[name]

    count = compared(golden, f"ubisoft.{theirs}.{kind}.bins{bins}", EXACT, EVERY_WHOLE_SAMPLE, ours)
    assert count == (26 if name in ("jemmig", "dcimig") else 20)  # the others are NaN for dead latents


@pytest.mark.parametrize("whole", ["sum", "max"])
def test_exclusivity(golden: Golden, whole: str) -> None:
    for part in ("disentanglement", "completeness", "informativeness"):

        def ours(codes: Codes, part: str = part) -> float:
            return score(codes.mean, codes.factors, kinds="continuous", metrics={"edi": {"whole": whole}})[
                f"edi_{part}"
            ]

        key = f"edi.dcii.bins30.{whole}"
        for grid, name, entry in golden.newer(key):
            assert ours(golden.first(grid, name, EVERY_WHOLE_SAMPLE)) == pytest.approx(entry["0"][part], abs=EXACT), (
                name
            )


def test_exclusivity_by_neighbours(golden: Golden) -> None:
    """Equal values are put in random order. Their own seeds differ by 0.01; a sum over latents by twice that."""
    for grid, name, entry in golden.newer("edi.dcii.ksg.sum"):
        if name not in ("perfect", "noisy", "rotation"):
            continue
        codes = golden.first(grid, name, 2_000)
        scores = score(codes.mean, codes.factors, kinds="continuous", metrics="edi", preset="ksg")
        for part, theirs in entry["0"].items():
            assert scores[f"edi_{part}"] == pytest.approx(theirs, abs=0.03), (grid, name, part)


def test_med(golden: Golden) -> None:
    count = 0
    for grid, name, entry in golden.newer("med.scores"):
        codes = golden.first(grid, name, EVERY_WHOLE_SAMPLE)
        for top in (1, 2, 3):
            scores = score(codes, metrics={"med": {"top": top}})
            pairs = [(f"med_{part}", entry[part]) for part in ("disentanglement", "completeness")]
            pairs += [(f"med_top_{part}", entry[f"top{top}"][part]) for part in ("disentanglement", "completeness")]
            for key, theirs in pairs:
                if theirs == "nan":
                    assert scores[key] == 0
                    assert "collapsed" in scores.flags[key]
                else:
                    assert scores[key] == pytest.approx(theirs, abs=EXACT), (grid, name, key)
                    count += 1
    assert count == 264


# ---------------------------------------------------------------- neighbours


def test_neighbours_are_those_of_a_search_of_all_pairs() -> None:
    x = np.sort(np.random.default_rng(0).normal(size=60))
    distance = np.abs(x[:, None] - x[None, :])
    for k in (1, 3, 10):
        np.testing.assert_array_equal(kth_distance(x, k), np.sort(distance, axis=1)[:, k])
    radius = np.random.default_rng(1).uniform(0, 1, 60)
    np.testing.assert_array_equal(within(x, radius), (distance <= radius[:, None]).sum(axis=1))


def test_information_by_neighbours_is_scikit_learns() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, (500, 2))
    y[0, 0] = 9  # a class of one row, which is left out
    x = y @ rng.normal(size=(2, 3)) + 0.5 * rng.normal(size=(500, 3))
    theirs = np.stack([mutual_info_classif(x, y[:, k], n_neighbors=10, random_state=0) for k in range(2)], axis=1)
    ours = class_information((x - x.mean(axis=0)) / x.std(axis=0), y, 10)
    np.testing.assert_allclose(ours, theirs, atol=1e-9)  # their jitter of 1e-10 changes no order here


def test_information_of_a_gaussian() -> None:
    """-½ log(1 - ρ²); an estimate from 4,000 rows has a standard error of about 0.02."""
    rng = np.random.default_rng(0)
    x, noise = rng.normal(size=(2, 4_000))
    assert number_information(x, 0.8 * x + 0.6 * noise, 3) == pytest.approx(-0.5 * math.log(1 - 0.64), abs=0.06)


UNTIED = ("perfect_noise", "noisy", "rotation", "noise")  # codes that are hardly ever equal


@pytest.mark.parametrize(("source", "preset"), [("tripod", "tripod"), ("latent_quantization", "lq")])
def test_infomec(golden: Golden, source: str, preset: str) -> None:
    """Ties break at random: where there are none but those of rows drawn twice, a rank or two may differ (1e-4); with
    copies of few values their own seeds differ by 0.01. Explicitness is the same optimiser's (1e-6).
    """
    for grid, name, entry in golden.newer(f"{source}.infomec.continuous"):
        if preset == "lq" and name not in ("sincos", "collapsed_tiny"):  # elsewhere the same latents are active
            continue
        scores = score(golden.first(grid, name, 2_000), metrics="infomec", preset=preset)
        for seed in entry:
            assert scores["infoe"] == pytest.approx(entry[seed]["infoe"], abs=1e-6), (grid, name)
            tolerance = 1e-4 if name in UNTIED else 0.02
            assert scores["infom"] == pytest.approx(entry[seed]["infom"], abs=tolerance), (grid, name)
            if name not in ("collapsed_tiny", "threshold_std"):  # where no active latent knows a factor: chance
                assert scores["infoc"] == pytest.approx(entry[seed]["infoc"], abs=tolerance), (grid, name)


@pytest.mark.parametrize(("source", "preset"), [("tripod", "tripod"), ("latent_quantization", "lq")])
def test_infomec_of_discrete_latents(golden: Golden, source: str, preset: str) -> None:
    for grid, name, entry in golden.newer(f"{source}.infomec.discrete"):
        if grid == "dsprites":  # a minute of logistic regressions
            continue
        codes = golden.first(grid, name, 2_000)
        scores = score(codes, metrics={"infomec": {"latents": "discrete"}}, preset=preset)
        for key in ("infom", "infoc", "infoe"):
            assert scores[key] == pytest.approx(entry["0"][key], abs=1e-6 if key == "infoe" else EXACT), (
                grid,
                name,
                key,
            )


def test_held_out_explicitness_of_noise_is_nothing() -> None:
    rng = np.random.default_rng(0)
    codes, factors = rng.normal(size=(400, 30)), rng.integers(0, 4, (400, 2))
    inside = score(codes, factors, metrics="infomec")["infoe"]
    outside = score(codes, factors, metrics="infomec", preset="held_out")["infoe"]
    assert inside > 0.05  # thirty weights for each class fit something
    assert outside == 0


# ---------------------------------------------------------------- correlation and variance explained


@pytest.mark.parametrize(("kind", "name"), [("pearson", "mcc"), ("spearman", "mcc_spearman")])
def test_mcc(golden: Golden, kind: str, name: str) -> None:
    def inside(codes: Codes) -> float:
        return score(codes, metrics="mcc", preset="paper")[name]

    def outside(codes: Codes) -> float:
        return score(codes, metrics={"mcc": {"held_out": "second"}})[name]

    # They raise for constant and dead latents, whose correlation we call 0.
    assert compared(golden, f"icebeem.mcc.{kind}", EXACT, EVERY_WHOLE_SAMPLE, inside) == 20
    assert compared(golden, f"icebeem.mcc_out_of_sample.{kind}", EXACT, EVERY_WHOLE_SAMPLE, outside) == 20


def test_a_latent_serves_one_factor_and_the_rest_go_without() -> None:
    assert best_match(np.array([[0.9, 0.8], [0.7, 0.1]])).tolist() == [1, 0]  # 1.5, where greedy has 1.0
    factors = np.random.default_rng(0).integers(0, 5, (500, 2))
    scores = score(factors[:, :1].astype(float), factors, metrics=["mcc", "r2"])
    assert scores["mcc"] == pytest.approx(0.5)
    assert scores["r2_permuted"] == pytest.approx(0.5)
    assert "few_latents" in scores.flags["mcc"]


def test_noise_latents_look_like_knowledge_in_sample_only() -> None:
    rng = np.random.default_rng(0)
    codes, factors = rng.normal(size=(200, 300)), rng.integers(0, 4, (200, 2))
    assert score(codes, factors, metrics="mcc", preset="paper")["mcc"] > 0.2
    assert score(codes, factors, metrics="mcc")["mcc"] < 0.15


def test_r2(golden: Golden) -> None:
    for held_out, metric in (("none", "cl_ica.linear.r2"), ("second", "cl_ica.linear.r2.split")):

        def ours(codes: Codes, held_out: str = held_out) -> float:
            return score(codes, metrics={"r2": {"held_out": held_out}})["r2"]

        assert compared(golden, metric, EXACT, EVERY_WHOLE_SAMPLE, ours) == 26


def test_permuted_r2_but_for_the_intercept(golden: Golden) -> None:
    """Theirs, of the order given, has no intercept: (x·y)² / (x·x y·y) where ours is the squared correlation."""
    for grid, name, entry in golden.newer("cl_ica.permutation.r2.naive.rescaled"):
        codes = golden.first(grid, name, 2_000)
        x = codes.mean[:, entry["columns"]]
        if entry["score"] == "nan" or not np.ptp(x, axis=0).all():
            continue
        given = as_codes(x, codes.factors)
        y, _ = factor_points(given, given)
        ours = np.diag(lines(x - x.mean(axis=0), y, x - x.mean(axis=0), y))
        turned = ours * x.var(axis=0) / np.mean(x**2, axis=0)
        assert turned.mean() == pytest.approx(entry["score"], abs=EXACT), (grid, name)


@pytest.mark.parametrize(("grid", "name"), [("dsprites", "sincos"), ("smallnorb", "zeros")])
def test_kernel_r2(golden: Golden, grid: str, name: str) -> None:
    codes = golden.first(grid, name, 2_000)
    theirs = golden.modern["results"][grid][name]["causalverse.block_r2.joint"]
    ours = score(codes, metrics={"r2": {"held_out": "second"}}, preset="kernel")
    assert ours["r2"] == pytest.approx(theirs, abs=EXACT)


def test_halves_that_follow_one_another_stay_apart() -> None:
    codes = as_codes(np.arange(10.0)[:, None], np.arange(10)[:, None] % 2)
    first, second = halves(codes, 100, "second", seed=0)
    assert first.mean[:, 0].tolist() == [0, 1, 2, 3, 4]
    assert second.mean[:, 0].tolist() == [5, 6, 7, 8, 9]
    with pytest.raises(RequestError, match="held_out must be 'drawn', 'second' or 'none'"):
        halves(codes, 100, "third", seed=0)


# ---------------------------------------------------------------- capacity


def test_explicitness_of_given_curves(golden: Golden) -> None:
    for curve in golden.modern["dci_es_curves"]:
        if "together" in curve:
            for name in ("short", "long"):
                found = curve_explicitness(curve[name]["capacity"], curve[name]["loss"], ends=(1, 8))
                assert found == pytest.approx(curve["explicitness"][name], abs=EXACT)
        else:
            found = curve_explicitness(curve["capacity"], curve["loss"], curve["baseline_loss"])
            assert found == pytest.approx(curve["explicitness"], abs=EXACT)


def test_explicitness_of_their_forests(golden: Golden) -> None:
    for grid, name, entry in golden.newer("dci_es.random_forest"):
        losses = 1 - np.array(entry["test_score"])
        found = [curve_explicitness(entry["capacity"], losses[:, k], base) for k, base in enumerate(entry["baseline"])]
        np.testing.assert_allclose(found, entry["explicitness_per_factor"], atol=EXACT, err_msg=f"{grid} {name}")
        assert np.mean(found) == pytest.approx(entry["explicitness"], abs=EXACT)


def test_our_forests_are_as_good_as_theirs(golden: Golden) -> None:
    """The rows come in another order, so the forests differ: a score on 1,000 test rows by 0.02, at worst by 0.05."""
    grid, name = "smallnorb", "noisy"
    theirs = golden.modern["results"][grid][name]["dci_es.random_forest"]
    assert theirs["capacity"] == list(DEPTHS)
    kinds = ["categorical", "ordinal", "ordinal", "categorical"]
    parts = [golden.first(grid, name, 2_000), golden.first(grid, name, 1_000, 3_000)]
    learn, check = (as_codes(part.mean, part.factors, kinds=kinds) for part in parts)
    scores = probes(learn, check, DEPTHS, 100, 1).scores
    np.testing.assert_allclose(scores, theirs["test_score"], atol=0.05)


def test_one_depth_makes_no_curve() -> None:
    with pytest.raises(RequestError, match="deepest must be at least 2"):
        score(GRID.astype(float), GRID, metrics={"dci_es": {"deepest": 1}})


# ---------------------------------------------------------------- pairs and votes


def test_z_max_variance(golden: Golden) -> None:
    """800 votes of accuracy a: a standard error of 0.02 once rescaled, of training and of test votes; 0.1 is 3.5 of the
    difference of two such scores. Below 0 theirs is, where ours is 0.
    """
    for bins in (3, 10):
        for grid, name, entry in golden.newer(f"ubisoft.z_max_var.continuous.bins{bins}"):
            codes = golden.first(grid, name, EVERY_WHOLE_SAMPLE)
            found = score(codes, metrics={"z_max_variance": {"factor_bins": bins}})["z_max_variance"]
            theirs = np.mean([max(0.0, value) for value in entry.values()])
            assert found == pytest.approx(theirs, abs=0.1), (grid, name, bins)


def subgrid(golden: Golden, grid: str, name: str) -> Codes:
    """The complete sub-grid that the shared test data's README names."""
    steps = {"dsprites": [1, 1, 1, 5, 8, 8], "smallnorb": [1, 10, 1, 2, 1]}[grid]
    rows = np.flatnonzero((golden.formulas.all_factors(grid) % np.array(steps) == 0).all(axis=1))
    return golden.codes(grid, name, rows)


@pytest.mark.parametrize(("pooling", "theirs"), [("max", "max"), ("mean", "avg")])
def test_omes(golden: Golden, pooling: str, theirs: str) -> None:
    """Pairs are random: their own three draws differ by up to 0.024, so the mean of ours is within 0.03 of theirs."""
    for grid, name, entry in golden.newer("omes.subgrid"):
        codes = subgrid(golden, grid, name)
        for alpha in (0.0, 0.5, 1.0):
            found = score(codes, metrics={"omes": {"alpha": alpha, "pooling": pooling}})
            draws = [entry["0"]["score"][theirs][str(alpha)]["mean"]]
            draws += [
                again[theirs][str(alpha)] for again in golden.modern["results"][grid][name]["omes.repeats"].values()
            ]
            assert found["omes"] == pytest.approx(np.mean(draws), abs=0.03), (grid, name, alpha)
        pairs = [len(draw_partners(group, 10**6, np.random.default_rng(0))[0]) for group in apart_in_one(codes)]
        assert pairs == [entry["0"]["pairs"][factor.name] for factor in codes.about]


def test_omes_of_exact_copies() -> None:
    """e = 1 - 1/(n - 1) on average, o = 1 - (1 - e)/K; of 5 draws of a complete grid within 0.02."""
    sizes = (5, 9)
    grid = np.stack(np.unravel_index(np.arange(45), sizes), axis=1)
    scores = score(np.tile(grid, (20, 1)).astype(float), np.tile(grid, (20, 1)), metrics={"omes": {"alpha": 1.0}})
    encoded = np.array([1 - 1 / (size - 1) for size in sizes])
    assert scores["omes"] == pytest.approx(np.mean(encoded * (1 - (1 - encoded) / 2)), abs=0.05)  # 45 and 180 pairs
    low, high = scores.parts["omes"]["interval"]
    assert low <= scores["omes"] <= high


def test_what_omes_cannot_say_is_flagged() -> None:
    two = score(np.tile(GRID, (9, 1)).astype(float), np.tile(GRID, (9, 1)), metrics="omes")
    assert "two_values" in two.flags["omes"]
    diagonal = np.arange(12)
    apart = score(np.stack([diagonal, diagonal], axis=1), np.stack([diagonal, diagonal], axis=1), metrics="omes")
    assert apart["omes"] == 0
    assert "no_pairs" in apart.flags["omes"]


# ---------------------------------------------------------------- attributes


def attributes_of(golden: Golden, grid: str, factors: np.ndarray, names: list[str]) -> np.ndarray:
    sizes = golden.formulas.latent_sizes(grid)
    high = [2 * factors[:, k] >= size for k, size in enumerate(sizes)]
    table = {f"high{k}": column for k, column in enumerate(high)} | {"high0&high1": high[0] & high[1]}
    table |= {f"f0=={value}": factors[:, 0] == value for value in range(sizes[0])}
    return np.stack([table[name] for name in names], axis=1).astype(int)


def test_tad(golden: Golden) -> None:
    """Theirs is float32."""
    for grid, name, entry in golden.newer("infodiffusion.tad"):
        codes = golden.first(grid, name, EVERY_WHOLE_SAMPLE)
        scores = score(codes.mean, attributes_of(golden, grid, codes.factors, entry["attributes"]), metrics="tad")
        assert scores["tad"] == pytest.approx(entry["tad"], abs=1e-6)
        assert scores["tad_captured"] == entry["captured"]
        np.testing.assert_allclose(scores.parts["tad"]["auroc"], entry["auroc"], atol=1e-6)


def test_tad_of_one_attribute() -> None:
    """AUROCs of 1 and 0.5: a gap of 0.5, one captured."""
    attribute = np.tile([0, 1], 50)[:, None]
    codes = np.stack([attribute[:, 0], np.repeat(np.arange(50), 2)], axis=1)
    scores = score(codes, attribute, metrics="tad")
    assert (scores["tad"], scores["tad_mean"], scores["tad_captured"]) == (0.5, 0.5, 1.0)


# ---------------------------------------------------------------- the battery


def test_all_has_every_metric_and_the_default_only_what_is_quick() -> None:
    quick: Scores = score(GRID.astype(float), metrics="all")
    assert set(quick) == {name for metric in METRICS.values() if not metric.supervised for name in metric.scores} - {
        name for metric in METRICS.values() for name, about in metric.scores.items() if about.samples_of
    }
    for name in ("infomec", "mcc", "r2", "dci_es", "omes"):
        assert not METRICS[name].default
