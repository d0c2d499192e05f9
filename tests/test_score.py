"""`sober.score`: what it takes, what it refuses, and what its numbers come with."""

from __future__ import annotations

import dataclasses
import gc
import math
import os
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sober.errors import RequestError, UnknownError
from sober.metrics import FLAGS, METRICS, Meaning, Measured, Metric, as_codes, find_metric, home_of, score, score_many
from sober.metrics.common.metric_rows import split
from sober.metrics.dci import FactorModels
from sober.metrics.registry import distinct_scores
from sober.parallel import cores
from sober.shared import Shared
from sober.types import Codes

SIZES = (3, 4, 5)
GRID = np.stack(np.unravel_index(np.arange(3 * math.prod(SIZES)), (3, *SIZES)), axis=1)[:, 1:]  # each cell three times


def standardised(factors: np.ndarray) -> np.ndarray:
    return (factors - factors.mean(axis=0)) / factors.std(axis=0)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_codes_that_are_not_finite_are_refused_by_column(bad: float) -> None:
    codes = np.zeros((10, 4))
    codes[7, 2] = bad
    with pytest.raises(RequestError, match=r"codes has 1 value .* column 2, the first in row 7"):
        score(codes, np.zeros((10, 1), int))
    with pytest.raises(RequestError, match=r"logvar has 1 value .* column 2"):
        score(np.zeros((10, 4)), np.zeros((10, 1), int), logvar=codes)
    if np.isinf(bad):  # NaN is a label that is not known
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
        (
            {"codes": np.zeros((5, 2)), "factors": np.zeros((5, 1)), "preset": "pape"},
            "unknown preset 'pape'",
        ),
        (
            {"codes": np.zeros((5, 2)), "factors": np.zeros((5, 1)), "metrics": ["mug"]},
            "unknown metric or score 'mug'",
        ),
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
    found = score(codes.astype(np.float32), factors, metrics={name: metric.quick for name, metric in METRICS.items()})
    of_means = {name for metric in METRICS.values() for name, about in metric.scores.items() if not about.samples_of}
    assert set(found) == of_means
    assert found["dci_disentanglement"] > 0.8


def test_standard_errors_cover_what_another_seed_gives() -> None:
    rng = np.random.default_rng(0)
    factors = np.resize(GRID, (3_000, 3))
    codes = standardised(factors) + rng.normal(size=factors.shape)
    few = {"mig": {"samples": 500}, "sap": {"train": 400, "test": 200}, "factor_vae": METRICS["factor_vae"].quick}
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
    unified = {name for metric in METRICS.values() for name, about in metric.scores.items() if about.matrix}
    assert len(unified) > 10
    assert set(score(standardised(GRID), GRID, metrics="unified")) == unified


COPIES = {"mi/mig", "mi/modularity", "gbt/dci_disentanglement", "gbt/dci_completeness", "svm/sap"}


def test_a_score_that_repeats_another_one_is_printed_once_and_mig_and_dci_come_first() -> None:
    scores = score(standardised(GRID) + np.random.default_rng(0).normal(size=GRID.shape), GRID)
    names = [row.name for row in scores.rows()]
    assert names[:3] == ["mig", "dci_disentanglement", "dci_completeness"]
    assert set(scores) - set(names) == COPIES
    assert len(names) == len(set(names)) == len(scores) - 5
    lines = repr(scores).splitlines()
    assert lines[0] == f"{len(scores) - 5} scores"
    assert [line.split()[0] for line in lines[2:5]] == names[:3]
    assert [row.name for row in score(standardised(GRID), GRID, metrics="mi/mig").rows()] == ["mi/mig"]


def test_what_is_equal_by_chance_or_under_one_setting_only_keeps_its_row() -> None:
    copies = distinct_scores({"mig": 0.5, "mi/mig": 0.5, "rmig": 0.4, "sap": 0.5}, {"mig": 0.1, "rmig": 0.1})
    assert copies == {"mig": ("mi/mig",), "sap": (), "rmig": ()}
    assert distinct_scores({"rmig": 0.5, "mi/mig": 0.5}) == {"rmig": ("mi/mig",)}, "copies of a score that is not there"
    assert list(distinct_scores({"some_task": 1.0, "sap": 0.5, "mig": 0.5})) == ["mig", "sap", "some_task"]
    codes = standardised(GRID) + np.random.default_rng(0).normal(size=GRID.shape)
    scores = score(codes, GRID, metrics={"mig": {"bins": 5}, "mi": {}})
    assert {"mig", "mi/mig"} <= {row.name for row in scores.rows()}


def test_a_corrected_score_stands_in_its_own_column() -> None:
    rng = np.random.default_rng(0)
    codes = np.concatenate([standardised(GRID), rng.normal(size=(len(GRID), 40))], axis=1)
    scores = score(codes, GRID, metrics=["modularity", "mig", "mi/modularity"])
    head, *rows = [line.split() for line in repr(scores).splitlines()[1:]]
    assert head[:3] == ["score", "value", "corrected"]
    values = {row[0]: row[1:3] for row in rows}
    assert values["modularity"] == [f"{scores['modularity']:.3f}", f"{scores.corrected['modularity']:.3f}"]
    assert set(values) == {"modularity", "mig"}


def test_many_models_come_back_in_order_and_as_if_alone() -> None:
    rng = np.random.default_rng(0)
    models = [as_codes(standardised(GRID) + scale * rng.normal(size=GRID.shape), GRID) for scale in (0, 1, 2, 0.5, 3)]
    together = list(score_many(iter(models), metrics=["mig", "sap", "explicitness"], workers=2))
    assert together == [score(model, metrics=["mig", "sap", "explicitness"]) for model in models]


def test_one_row_gives_numbers_and_says_that_nothing_varies() -> None:
    found = score(np.ones((1, 3)), np.zeros((1, 2), int))
    assert all(math.isfinite(value) for value in found.values())
    assert found["dci_nrmse"] == 1  # that of predicting the mean, as there is nothing to tell
    assert found.flags["dci_nrmse"] == ("constant_factor", "no_factor")
    with pytest.raises(RequestError, match="codes has one row"):
        split(as_codes(np.ones((1, 3))), 10, 10, 0)


def test_cores_are_counted_where_the_system_cannot_bind_to_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS."""
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert cores() == os.cpu_count()
    models = [as_codes(standardised(GRID), GRID)] * 3
    assert [found["mig"] for found in score_many(models, metrics="mig")] == [score(models[0], metrics="mig")["mig"]] * 3


# ---------------------------------------------------------------- the registry


def counting() -> Metric:
    """A metric of a study file: how many rows there are."""

    def measure(codes: Codes, shared: Shared, *, seed: int) -> Measured:
        return Measured({"rows": float(len(codes.mean))})

    about = {"rows": Meaning("how many rows there are", 0, math.inf, "neither")}
    return Metric(
        "counting", "how many rows?", "an example (2026)", about, measure, {}, group="simple", supervised=False
    )


def test_a_metric_that_is_registered_is_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METRICS, "counting", counting())
    codes = np.zeros((7, 2))
    for asked in (None, "counting", "rows", "simple"):
        assert score(codes, metrics=asked)["rows"] == 7
    assert find_metric("counting") is home_of("rows") is METRICS["counting"]


def test_an_unknown_name_says_what_there_is() -> None:
    for ask in (find_metric, home_of, lambda name: score(np.zeros((5, 2)), metrics=name)):
        with pytest.raises(UnknownError, match=r"unknown (metric|score|metric or score) 'mug': did you mean 'mig'\?"):
            ask("mug")
        with pytest.raises(UnknownError, match=r" '0000': `sober metrics` lists all metrics$"):
            ask("0000")
    assert find_metric("dci") is home_of("dci_nrmse") is home_of("dci_completeness")
    with pytest.raises(UnknownError):
        home_of("dci")  # a metric, not a score


def test_a_metric_that_is_not_in_the_default_battery_has_to_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METRICS, "counting", dataclasses.replace(counting(), default=False))
    assert "rows" not in score(np.zeros((7, 2)))
    assert score(np.zeros((7, 2)), metrics="counting")["rows"] == 7


def test_every_flag_is_explained_on_the_page() -> None:
    page = (Path(__file__).parent.parent / "docs" / "metrics" / "index.md").read_text(encoding="utf-8")
    for flag, meaning in FLAGS.items():
        assert f"| `{flag}` | {meaning} |" in page


# ---------------------------------------------------------------- what metrics share


def test_what_several_metrics_need_is_computed_once_in_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    fitted: list[str] = []

    def importance(learn: Codes, check: Codes, trees: str, seed: int, screen: int) -> FactorModels:
        fitted.append(trees)
        return FactorModels(np.eye(3), np.ones(3), np.ones(3), rare=False)

    monkeypatch.setattr(sys.modules["sober.metrics.dci"], "importance", importance)
    codes = as_codes(standardised(GRID), GRID)
    before = dict(vars(codes))
    assert set(score(codes, metrics=["dci", "gbt"])) >= {"dci_nrmse", "gbt/mig"}
    assert fitted == ["boosted"]
    score(codes, metrics="dci")
    assert fitted == ["boosted", "boosted"]  # another call shares nothing with the first
    assert vars(codes) == before  # and nothing is left behind in the codes


def test_shared_results_are_known_by_what_was_asked_for() -> None:
    calls: list[tuple[Any, ...]] = []

    def add(a: int, b: int = 2, *, shared: Shared | None = None) -> int:
        calls.append((a, b))
        return a + b

    shared = Shared()
    assert [shared(add, 1), shared(add, 1, 2), shared(add, a=1, b=2), shared(add, 1, shared=shared)] == [3, 3, 3, 3]
    assert shared(add, 1, 3) == 4
    assert calls == [(1, 2), (1, 2), (1, 3)]  # to be given a `Shared`, or none, are two requests


def test_what_was_shared_goes_with_the_call() -> None:
    """Nothing refers to itself, so that the codes of a large model are let go at once."""
    shared, codes = Shared(), as_codes(standardised(GRID), GRID)
    shared(lambda codes, shared: codes, codes, shared)
    gone = weakref.ref(codes)
    gc.disable()
    try:
        del codes, shared
        assert gone() is None
    finally:
        gc.enable()


# ---------------------------------------------------------------- a light guest

WITHOUT_JAX = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("jax", "jaxlib", "equinox", "optax"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
"""


def test_arrays_are_scored_where_jax_is_not_installed(start: Callable) -> None:
    code = (
        WITHOUT_JAX
        + """
import numpy as np, sober
from sober.metrics import METRICS
rng = np.random.default_rng(0)
factors = rng.integers(0, 3, (300, 2))
codes = factors + rng.normal(size=(300, 2))
for preset in ("study", "paper"):
    found = sober.score(codes, factors, logvar=codes, preset=preset)
    assert set(found) == {name for metric in METRICS.values() if metric.default for name in metric.scores}
room = ("sober.models", "sober.training", "sober.methods", "sober.nets", "sober.worlds", "sober.device")
print([name for name in sys.modules if name.startswith(room)])
"""
    )
    process = start(code)
    assert process.communicate(timeout=120)[0] == "[]\n"
    assert process.returncode == 0


def test_importing_is_quick_and_light(start: Callable) -> None:
    """Seconds are of this process's own work: others may keep the machine busy."""
    code = """
import sys, time
import numpy
started = time.process_time()
import sober
print(time.process_time() - started < 0.3)
import sober.metrics
print([name for name in sys.argv[1:] if name in sys.modules])
"""
    heavy = ("jax", "numba", "sklearn", "scipy.stats", "scipy.sparse", "matplotlib", "polars", "sober.models")
    assert start(code, *heavy).communicate(timeout=60)[0] == "True\n[]\n"
