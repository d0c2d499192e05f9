"""What must hold for every metric. A score that is missing from one of the lists below fails the first test."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sober.errors import RequestError
from sober.metrics import FLAGS, METRICS, Scores, as_codes, score, score_many

SIZES = (3, 4, 5)
GRID = np.stack(np.unravel_index(np.arange(3 * math.prod(SIZES)), (3, *SIZES)), axis=1)[:, 1:]  # each cell three times
ALL = [name for metric in METRICS.values() for name in metric.scores]
# Few points and rows, so that a whole battery takes a fraction of a second.
FEW: dict[str, dict[str, Any]] = {
    name: {"train": 200, "test": 100, "batch": 16} if name in ("beta_vae", "factor_vae") else {} for name in METRICS
}

# Perfect codes reach the stated best ...
BEST = {
    **dict.fromkeys(ALL, 1e-6),
    **dict.fromkeys(("dci_disentanglement", "dci_completeness", "dci_informativeness", "dci_nrmse"), 0.02),
    **dict.fromkeys(("gbt/dci_disentanglement", "gbt/dci_completeness", "gbt/modularity", "gbt/sap"), 0.02),
    "beta_vae": 0.02,
    "explicitness": 1e-6,
}
# ... except where no code of these factors can, for the reason given.
NO_BEST = {
    "sap": "even a latent that says nothing is right as often as the commonest class",
    **dict.fromkeys(("svm/mig", "svm/sap", "svm/modularity"), "likewise"),
    **dict.fromkeys(("svm/dci_disentanglement", "svm/dci_completeness"), "likewise"),
    "mi/sap": "the gap of an entropy has no bound",
    "gbt/mig": "a share over an entropy: the best depends on the number of classes",
    "active_latents": "neither more nor fewer is better",
    **{name: "needs noise in the codes, which lowers it too" for name in ALL if name.endswith("_sampled")},
}
# Independent noise stays near the stated floor, in 2,000 rows ...
FLOOR = {
    **dict.fromkeys(("mig", "sap", "mi/mig", "mi/sap", "gbt/mig", "gbt/sap", "svm/mig", "svm/sap"), (0.0, 0.06)),
    **dict.fromkeys(("dci_disentanglement", "dci_completeness"), (0.0, 0.1)),
    **dict.fromkeys(("gbt/dci_disentanglement", "gbt/dci_completeness"), (0.0, 0.1)),
    **dict.fromkeys(("svm/dci_disentanglement", "svm/dci_completeness"), (0.0, 0.1)),
    "beta_vae": (1 / 3, 0.15),
    "factor_vae": (1 / 3, 0.15),
    "explicitness": (0.5, 0.06),
    "dci_informativeness": (np.mean([1 / size for size in SIZES]), 0.06),
    "dci_nrmse": (math.sqrt(2), 0.2),  # a guess as spread as the truth is off by the root of two
    "irs": (0.4, 0.2),  # the 0.99 quantile of a Gaussian is well short of its maximum
}
NO_FLOOR = {
    **dict.fromkeys(
        ("modularity", "mi/modularity", "gbt/modularity", "svm/modularity"), "noise has a largest entry too"
    ),
    **dict.fromkeys(("mi/dci_disentanglement", "mi/dci_completeness"), "shares of what chance left have any shape"),
    **{
        name: "does not look at factors"
        for metric in METRICS.values()
        if not metric.supervised
        for name in metric.scores
    },
}
# Positive rescaling of single latents changes nothing beyond the sampling interval, except where scale is part of it.
SEES_SCALE = {
    "beta_vae": "a penalised classifier",
    "factor_vae": "latents of small variance do not take part",
    "irs": "latents are weighted by how far they go",
    "active_latents": "a threshold on the variance",
    **{name: "in the latents' own units" for name in ALL if name.startswith("wasserstein")},
    **{name: "a penalised classifier" for name in ALL if name == "sap" or name.startswith("svm/")},
    "gaussian_total_correlation_sampled": "the noise of samples has a scale of its own",
}
# A dead latent beside the others changes only what it should.
SEES_DEAD = {
    **{name: "a mean over all latents" for name in ALL if name.endswith("modularity") or name == "mutual_information"},
    **{name: "in units of the logarithm of D" for name in ALL if name.endswith("completeness")},
    **{
        name: "even a dead latent is right as often as a class"
        for name in ALL
        if name == "sap" or name.startswith("svm/")
    },
    "beta_vae": "one more feature of a penalised classifier",
}
CHANGES: dict[str, dict[str, str]] = {
    "permuted latents": {},
    "flipped signs": {},
    "permuted rows": {},
    "relabelled factors": {},
    "rescaled latents": SEES_SCALE,
    "dead latent": SEES_DEAD,
}


def test_no_score_is_missing_from_the_lists() -> None:
    assert set(BEST) | set(NO_BEST) == set(ALL)
    assert set(FLOOR) | set(NO_FLOOR) == set(ALL)
    for exceptions in CHANGES.values():
        assert set(exceptions) <= set(ALL)


def test_every_metric_says_how_to_read_it() -> None:
    for name, metric in METRICS.items():
        assert metric.name == name
        assert metric.summary
        assert any(character.isdigit() for character in metric.reference)  # a year
        for meaning in metric.scores.values():
            assert meaning.summary
            assert meaning.low < meaning.high
            assert str(meaning)
        for changes in metric.presets.values():
            assert set(changes) <= set(metric.settings)


def standardised(factors: np.ndarray) -> np.ndarray:
    return (factors - factors.mean(axis=0)) / factors.std(axis=0)


def one_hot(factors: np.ndarray) -> np.ndarray:
    return np.concatenate([np.eye(column.max() + 1)[column] for column in factors.T], axis=1)


def measured(codes: np.ndarray, factors: np.ndarray, repeats: int = 1, **about: Any) -> Scores:
    return score(codes, factors, metrics=FEW, repeats=repeats, **about)


def test_perfect_codes_reach_the_stated_best() -> None:
    factors = np.tile(GRID, (4, 1))
    found = measured(standardised(factors)[:, [2, 0, 1]] * [1, -2, 3], factors)
    found["explicitness"] = score(one_hot(factors), factors, metrics="explicitness")["explicitness"]
    for metric in METRICS.values():
        for name, meaning in metric.scores.items():
            if name not in NO_BEST:
                assert found[name] == pytest.approx(meaning.best, abs=BEST[name]), name
                assert not found.flags[name], name


def test_continuous_sap_and_sampled_scores_have_a_best_too() -> None:
    factors = np.tile(GRID, (4, 1))
    codes = standardised(factors)
    assert score(codes, factors, metrics="sap", kinds="continuous")["sap"] == pytest.approx(1.0, abs=0.01)
    sampled = score(codes, factors, logvar=np.zeros_like(codes))
    assert sampled["gaussian_total_correlation_sampled"] == pytest.approx(0.0, abs=1e-9)
    assert sampled["wasserstein_correlation_norm_sampled"] == pytest.approx(0.0, abs=1e-9)


def test_noise_stays_near_the_stated_floor() -> None:
    factors = np.resize(GRID, (2_000, 3))
    found = measured(np.random.default_rng(0).normal(size=(2_000, 4)), factors)
    for name, (floor, tolerance) in FLOOR.items():
        assert found[name] == pytest.approx(floor, abs=tolerance), name


def changed(
    how: str, codes: np.ndarray, factors: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    if how == "permuted latents":
        return codes[:, rng.permutation(codes.shape[1])], factors
    if how == "flipped signs":
        return codes * rng.choice([-1.0, 1.0], codes.shape[1]), factors
    if how == "permuted rows":
        order = rng.permutation(len(codes))
        return codes[order], factors[order]
    if how == "relabelled factors":
        return codes, np.stack([rng.permutation(column.max() + 1)[column] for column in factors.T], axis=1)
    if how == "rescaled latents":
        return codes * 2.0 ** rng.integers(-3, 4, codes.shape[1]), factors
    return np.concatenate([codes, np.full((len(codes), 1), 0.5)], axis=1), factors


@settings(max_examples=6, deadline=None, derandomize=True)
@given(seed=st.integers(0, 1000), latents=st.integers(2, 5), noise=st.sampled_from([0.0, 0.3, 1.0]))
def test_what_changes_nothing(seed: int, latents: int, noise: float) -> None:
    rng = np.random.default_rng(seed)
    factors = GRID.copy()
    mixing = rng.normal(size=(3, latents))
    codes = standardised(factors) @ mixing + noise * rng.normal(size=(len(factors), latents))
    before = measured(codes, factors, repeats=5, kinds="categorical")
    for how, exceptions in CHANGES.items():
        after = measured(*changed(how, codes, factors, rng), repeats=5, kinds="categorical")
        for name in set(before) - set(exceptions):
            interval = 5 * math.hypot(before.errors[name], after.errors[name]) + 0.03 * max(1.0, abs(before[name]))
            assert after[name] == pytest.approx(before[name], abs=interval), (name, how)


def codes_of(kind: str, rng: np.random.Generator, rows: int, latents: int) -> np.ndarray:
    normal = rng.normal(size=(rows, latents))
    return {
        "zero": np.zeros((rows, latents)),
        "constant": np.full((rows, latents), 3.7),
        "partly dead": normal * (np.arange(latents) % 2),
        "duplicated": np.repeat(normal[:, :1], latents, axis=1),
        "huge": normal * 1e200,
        "tiny": normal * 1e-200,
        "denormal": normal * 1e-310,
        "offset": normal * 1e-3 + 1e6,
        "whole numbers": rng.integers(-3, 4, (rows, latents)),
        "float16": normal.astype(np.float16),
        "float32": normal.astype(np.float32),
        "booleans": normal > 0,
        "normal": normal,
    }[kind]


KINDS = ["zero", "constant", "partly dead", "duplicated", "huge", "tiny", "denormal", "offset", "whole numbers"]
KINDS += ["float16", "float32", "booleans", "normal"]


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    kind=st.sampled_from(KINDS),
    rows=st.sampled_from([2, 3, 17, 60]),  # another shape compiles other programs
    latents=st.sampled_from([1, 2, 6]),
    sizes=st.lists(st.integers(1, 8), min_size=1, max_size=4),
    seed=st.integers(0, 1000),
    kinds=st.sampled_from(["ordinal", "cyclic", "categorical", "continuous"]),
    preset=st.sampled_from(["study", "paper"]),
)
def test_any_codes_give_numbers_within_the_stated_range(
    kind: str, rows: int, latents: int, sizes: list[int], seed: int, kinds: str, preset: str
) -> None:
    """Codes of every awkward kind, few rows, one latent, rare classes, constant factors, K > D and D > K."""
    rng = np.random.default_rng(seed)
    codes = codes_of(kind, rng, rows, latents)
    factors = np.stack([rng.integers(0, size, rows) for size in sizes], axis=1)
    logvar = rng.normal(size=codes.shape)
    found = score(codes, factors, logvar=logvar, metrics=FEW, preset=preset, kinds=kinds)
    assert set(found) == set(ALL)
    for metric in METRICS.values():
        for name, meaning in metric.scores.items():
            assert meaning.low - 1e-9 <= found[name] <= meaning.high + 1e-9, name
            assert set(found.flags[name]) <= set(FLAGS)
    if not any(len(np.unique(column)) > 1 for column in factors.T):
        assert "no_factor" in found.flags["mig"]
    elif kind in ("zero", "constant"):
        for name in ("beta_vae", "modularity", "explicitness", "dci_disentanglement", "sap", "irs", "svm/sap"):
            assert "collapsed" in found.flags[name], name


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_codes_that_are_not_finite_are_refused_by_column(bad: float) -> None:
    codes = np.zeros((10, 4))
    codes[7, 2] = bad
    with pytest.raises(RequestError, match=r"codes has 1 value .* column 2, the first in row 7"):
        score(codes, np.zeros((10, 1), int))
    with pytest.raises(RequestError, match=r"logvar has 1 value .* column 2"):
        score(np.zeros((10, 4)), np.zeros((10, 1), int), logvar=codes)
    with pytest.raises(RequestError, match=r"factors has 1 value .* 'factor_2', the first in row 7"):
        score(np.zeros((10, 4)), codes)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"codes": np.zeros((5, 2)), "factors": np.zeros((4, 1))}, "codes has 5 rows and factors 4"),
        ({"codes": np.zeros(5), "factors": np.zeros((5, 1))}, r"codes\[:, None\]"),
        ({"codes": np.zeros((5, 2)), "factors": np.zeros(5)}, r"factors\[:, None\]"),
        ({"codes": np.zeros((0, 2)), "factors": np.zeros((0, 1))}, "with rows and columns"),
        ({"codes": np.full((5, 2), "a"), "factors": np.zeros((5, 1))}, "real numbers"),
        ({"codes": np.zeros((5, 2)), "factors": np.zeros((5, 1)), "logvar": np.zeros((5, 3))}, "logvar has shape"),
        ({"codes": np.zeros((5, 2)), "factors": np.zeros((5, 2)), "names": ["a"]}, "names must name"),
        ({"codes": np.zeros((5, 2)), "factors": np.zeros((5, 2)), "kinds": ["ordinal"]}, "kinds has 1"),
        ({"codes": np.zeros((5, 2)), "factors": np.zeros((5, 1)), "kinds": "fuzzy"}, "'fuzzy'"),
        ({"codes": np.zeros((5, 2)), "factors": np.zeros((5, 1)), "kinds": {"b": "ordinal"}}, "not a factor"),
        ({"codes": np.zeros((5, 2)), "factors": np.zeros((5, 1)), "preset": "pape"}, "no preset 'pape'"),
        ({"codes": np.zeros((5, 2)), "factors": np.zeros((5, 1)), "metrics": ["mug"]}, "no metric or score 'mug'"),
        ({"codes": np.zeros((5, 2)), "factors": np.zeros((5, 1)), "metrics": {"mig": {"bin": 3}}}, "no setting 'bin'"),
        ({"codes": np.zeros((5, 2)), "factors": np.zeros((5, 1)), "repeats": 0}, "repeats"),
        ({"codes": np.zeros((50, 2)), "factors": np.linspace(0, 1, 50)[:, None]}, "continuous"),
        ({"codes": np.zeros((5, 2)), "metrics": ["mig"]}, "mig needs factors"),
    ],
)
def test_a_wrong_request_is_named(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(RequestError, match=says):
        score(**arguments)


def test_text_and_data_frames_are_factors_too() -> None:
    words = np.array([["red", "small"], ["blue", "large"], ["red", "large"], ["blue", "small"]] * 10, dtype=object)
    codes = as_codes(np.random.default_rng(0).normal(size=(40, 2)), words)
    assert [factor.kind for factor in codes.about] == ["categorical", "categorical"]
    assert codes.factors.max(axis=0).tolist() == [1, 1]


def test_many_latents() -> None:
    rng = np.random.default_rng(0)
    factors = GRID[:120]
    codes = np.concatenate([standardised(factors), 0.1 * rng.normal(size=(120, 197))], axis=1)  # more than rows
    found = measured(codes.astype(np.float32), factors)
    assert set(found) == {name for name in ALL if not name.endswith("_sampled")}
    assert found["dci_disentanglement"] > 0.8


def test_fewer_rows_than_a_metric_draws_are_used_once_each() -> None:
    codes = standardised(GRID)
    exact = [score(codes, GRID, metrics=["mig", "modularity", "irs", "mutual_information"], seed=s) for s in (0, 1)]
    assert exact[0] == exact[1]


def test_a_seed_repeats_and_a_second_one_does_not() -> None:
    rng = np.random.default_rng(0)
    codes, factors = rng.normal(size=(400, 3)), rng.integers(0, 3, (400, 2))
    first, again, other = (measured(codes, factors, repeats=1) for _ in range(3))
    assert first == again == other
    assert score(codes, factors, metrics=FEW, seed=1)["dci_nrmse"] != first["dci_nrmse"]


def test_standard_errors_cover_what_another_seed_gives() -> None:
    rng = np.random.default_rng(0)
    factors = np.resize(GRID, (3_000, 3))
    codes = standardised(factors) + rng.normal(size=factors.shape)
    few = {"mig": {"samples": 500}, "sap": {"train": 400, "test": 200}, "factor_vae": FEW["factor_vae"]}
    found = score(codes, factors, metrics=few, repeats=10)
    for seed in range(10, 14):
        other = score(codes, factors, metrics=few, seed=seed)
        for name in few:
            assert found.errors[name] > 0
            assert abs(other[name] - found[name]) < 5 * found.errors[name] * math.sqrt(10), name


def test_without_factors_what_needs_none_is_measured() -> None:
    found = score(np.random.default_rng(0).normal(size=(100, 3)))
    assert set(found) >= {"gaussian_total_correlation", "mutual_information", "active_latents"}
    assert "mig" not in found


def test_a_constant_factor_is_left_out_and_flagged() -> None:
    factors = np.concatenate([GRID, np.full((len(GRID), 1), 4)], axis=1)
    with_it = score(standardised(GRID), factors, metrics=["mig", "dci"])
    without = score(standardised(GRID), GRID, metrics=["mig", "dci"])
    assert dict(with_it) == dict(without)
    assert with_it.flags["mig"] == ("constant_factor",)
    assert with_it.factors == ("factor_0", "factor_1", "factor_2")


def test_single_scores_may_be_asked_for() -> None:
    found = score(standardised(GRID), GRID, metrics=["dci_completeness", "mi/mig"])
    assert set(found) == {"dci_completeness", "mi/mig"}
    assert set(score(standardised(GRID), GRID, metrics="unified")) == {name for name in ALL if "/" in name}


def test_many_models_come_back_in_order_and_as_if_alone() -> None:
    rng = np.random.default_rng(0)
    models = [as_codes(standardised(GRID) + scale * rng.normal(size=GRID.shape), GRID) for scale in (0, 1, 2, 0.5, 3)]
    together = list(score_many(iter(models), metrics=["mig", "sap", "explicitness"], workers=2))
    assert together == [score(model, metrics=["mig", "sap", "explicitness"]) for model in models]
