"""Whatever arrays and arguments come in: out come finite numbers, flags, or one line that says what is wrong.

Each property is tested twice: with a few inputs in every run, and with thousands in the slow tests.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers

import sober
from odd import (
    KINDS,
    ODD_KINDS,
    ODD_NAMES,
    ODD_NUMBERS,
    SEEDS,
    check_frame,
    check_scores,
    numbers_in,
    outcome,
    scratch,
    tables,
)
from sober.metrics import METRICS
from sober.tasks import TASKS

ROWS = st.sampled_from([1, 2, 3, 9, 12, 17, 40, 60])
PRESETS = sorted({preset for metric in METRICS.values() for preset in metric.presets} | {"study"})


def inputs(few: int, many: int) -> Any:
    """Runs a test on few inputs every time, and on many among the slow tests."""
    return pytest.mark.parametrize("count", [few, pytest.param(many, marks=pytest.mark.slow)])


def on_inputs(count: int, holds: Callable[[st.DataObject], None]) -> None:
    """Tries a property on that many inputs: the same each time, or others if SOBER_TEST_SEED is a whole number."""
    chosen = os.environ.get("SOBER_TEST_SEED")
    options = settings(
        max_examples=count,
        deadline=None,
        derandomize=not chosen,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    tried = options(given(st.data())(holds))
    with pytest.MonkeyPatch.context() as patch:
        # Hypothesis draws constants of the modules that are loaded, and so other inputs after other tests.
        patch.setattr(providers, "_get_local_constants", providers.Constants)
        providers.CONSTANTS_CACHE.cache.clear()
        (hypothesis.seed(int(chosen))(tried) if chosen else tried)()
        providers.CONSTANTS_CACHE.cache.clear()


def test_another_seed_tries_other_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []
    for seed in ("", "", "1", "1", "2"):
        monkeypatch.setenv("SOBER_TEST_SEED", seed)
        numbers: list[int] = []
        on_inputs(8, lambda data: numbers.append(data.draw(st.integers(0, 10**9))))  # noqa: B023 -- called at once
        tried.append(tuple(numbers))
    assert tried[0] == tried[1]
    assert tried[2] == tried[3]
    assert len(set(tried)) == 3


def width(table: Any) -> int:
    """The number of columns; 2 of what is no table."""
    shape = getattr(table, "shape", ())
    return shape[1] if len(shape) == 2 and shape[1] else 2


def first_column(table: Any) -> Any:
    """The first column of an array, or what is no array."""
    is_table = isinstance(table, np.ndarray) and table.ndim == 2 and table.shape[1]
    return np.asarray(table)[:, 0] if is_table else table


def arguments(
    data: st.DataObject, odd: str, metric_settings: dict[str, Any], rows_among: st.SearchStrategy[int] = ROWS
) -> dict[str, Any]:
    """Arguments of `score`. At most one of them is odd, or else what is refused first would hide the rest."""
    draw, rows = data.draw, data.draw(rows_among, "rows")
    given_arguments: dict[str, Any] = {
        "codes": draw(tables(rows, odd == "codes"), "codes"),
        "seed": draw(ODD_NUMBERS if odd == "seed" else SEEDS, "seed"),
    }
    with_labels = draw(st.sampled_from([True, True, True, True, False]), "with labels") or odd == "factors"
    if with_labels:
        kind = draw(ODD_KINDS if odd == "kinds" else KINDS, "kinds")
        given_arguments["factors"] = draw(tables(rows, odd == "factors", classes=kind != "continuous"), "factors")
        if odd == "kinds" or kind == "continuous" or draw(st.booleans(), "with kinds"):
            given_arguments["kinds"] = kind
        if odd == "names":
            given_arguments["names"] = draw(ODD_NAMES, "names")
    for name in ("logvar", "weights", "groups"):
        if odd == name:
            given_arguments[name] = draw(tables(rows, True) | tables(rows, True, 1).map(first_column), name)
        elif draw(st.sampled_from([False, False, False, True]), f"with {name}"):
            table = draw(tables(rows, False, width(given_arguments["codes"]), classes=name == "groups"), name)
            column = table if name == "logvar" else first_column(table)
            is_float = isinstance(column, np.ndarray) and column.dtype.kind == "f"
            given_arguments[name] = np.abs(column) if name == "weights" and is_float else column
    for name, plain_numbers in (("repeats", [1, 1, 2]), ("chance", [0, 0, 0, 2])):
        given_arguments[name] = draw(ODD_NUMBERS if odd == name else st.sampled_from(plain_numbers), name)
    if odd == "preset" or draw(st.booleans(), "with preset"):
        given_arguments["preset"] = draw(ODD_NUMBERS if odd == "preset" else st.sampled_from(PRESETS), "preset")
    if odd == "settings" and metric_settings:
        name = draw(st.sampled_from(sorted(metric_settings)), "setting")
        metric_settings[name] = draw(ODD_NUMBERS, "value")
    return given_arguments


ODD = st.sampled_from(
    ["nothing"] * 9 + ["codes", "factors", "settings"] * 3
    + ["seed", "kinds", "names", "logvar", "weights", "groups", "repeats", "chance", "preset"]
)  # fmt: skip


@inputs(4, 300)
@pytest.mark.parametrize("name", METRICS)
def test_a_metric_of_any_input(name: str, count: int) -> None:
    metric = METRICS[name]

    def holds(data: st.DataObject) -> None:
        changes = {**metric.settings, **metric.quick}
        plain_changes = dict(changes)
        call = arguments(data, data.draw(ODD, "odd"), changes)
        changed = {key: value for key, value in changes.items() if value is not plain_changes[key]}
        scores = outcome(lambda: sober.score(**call, metrics={name: {**metric.quick, **changed}}))
        if scores is not None:
            check_scores(scores)
            for score, value in scores.items():
                meaning = metric.scores[score]
                assert meaning.low - 1e-9 <= value <= meaning.high + 1e-9, score

    on_inputs(count, holds)


@inputs(20, 1500)
def test_udr_of_any_input(count: int) -> None:
    def holds(data: st.DataObject) -> None:
        draw, rows = data.draw, data.draw(st.sampled_from([1, 9, 10, 17, 60]), "rows")
        odd = draw(st.sampled_from(["nothing"] * 4 + ["codes"] * 3 + ["seed", "partners", "kl", "settings"]), "odd")
        codes = [draw(tables(rows, False), "codes") for _ in range(draw(st.integers(2, 4), "models"))]
        if odd == "codes":
            codes[draw(st.integers(0, 1), "which")] = draw(tables(rows, True), "odd codes")
        call: dict[str, Any] = {"codes": codes, "seed": draw(ODD_NUMBERS if odd == "seed" else SEEDS, "seed")}
        call["similarity"] = draw(st.sampled_from(["lasso", "spearman"]), "similarity")
        if odd == "partners" or draw(st.booleans(), "with partners"):
            call["partners"] = draw(ODD_NUMBERS if odd == "partners" else st.integers(1, 3), "partners")
        if odd == "kl":
            call["kl"] = draw(tables(len(codes), True) | ODD_NUMBERS, "kl")
        elif draw(st.booleans(), "with kl"):
            call["kl"] = [np.arange(width(model)) / 50 for model in codes]
        if odd == "settings":
            call["settings"] = draw(tables(len(codes), True) | ODD_NUMBERS, "settings")
        scores = outcome(lambda: sober.udr(**call))
        if scores is not None:
            assert scores.shape == (len(codes),)
            assert np.isfinite(scores).all()
            assert ((scores >= 0) & (scores <= 1 + 1e-9)).all()

    on_inputs(count, holds)


@inputs(3, 300)
def test_a_comparison_of_any_input(count: int) -> None:
    names = [name for name, metric in METRICS.items() if metric.seconds < 1]

    def holds(data: st.DataObject) -> None:
        draw, odd = data.draw, data.draw(ODD | st.sampled_from(["halves", "level", "map", "out"]), "odd")
        name = draw(st.sampled_from(names), "metric")
        call = arguments(data, odd, {}, st.sampled_from([7, 9, 17, 40, 60]))
        rows = (*np.shape(call["codes"]), 9)[0]
        codes: Any = {"a": call.pop("codes"), "b": draw(tables(rows, False), "other codes")}
        call["codes"] = (
            draw(st.sampled_from([list(codes.values()), None, {}, "ab", {1: 2}]), "map") if odd == "map" else codes
        )
        if "logvar" in call and odd != "logvar":
            call["logvar"] = {"a": call["logvar"]}
        for option in ("repeats", "chance"):
            call.pop(option)
        call["halves"] = draw(ODD_NUMBERS, "halves") if odd == "halves" else 3
        if odd in ("level", "out"):
            call[odd] = draw(ODD_NUMBERS.filter(lambda value: not isinstance(value, str)), odd)
        comparison = outcome(lambda: sober.compare(**call, metrics={name: METRICS[name].quick}))
        if comparison is not None:
            for scores in comparison.scores.values():
                check_scores(scores)
            assert all(math.isfinite(number) for number in numbers_in(list(comparison.errors.values())))
            for difference in comparison.differences:
                assert all(math.isfinite(number) for number in numbers_in(list(difference)))
            assert repr(comparison)
            assert comparison.table().height == 2

    on_inputs(count, holds)


OF_ARRAYS = [name for name, task in TASKS.items() if task.needs == "codes"]


@inputs(3, 300)
@pytest.mark.parametrize("name", OF_ARRAYS)
def test_a_task_of_any_input(name: str, count: int) -> None:
    task = TASKS[name]

    def holds(data: st.DataObject) -> None:
        changes = {**task.settings, **task.quick}
        if "region" in changes:
            changes["region"] = "factor_0 > 0"
        usual = dict(changes)
        odd = data.draw(ODD, "odd")
        call = arguments(data, odd, changes, st.sampled_from([12, 20, 60, 90]))
        for option in ("repeats", "chance", "logvar", "weights", "groups"):
            call.pop(option, None)
        scores = outcome(lambda: sober.task(name, **call, **(changes if odd == "settings" else usual)))
        if scores is not None:
            check_scores(scores)

    on_inputs(count, holds)


@inputs(2, 100)
def test_the_default_battery_of_any_input(count: int) -> None:
    def holds(data: st.DataObject) -> None:
        call = arguments(data, data.draw(ODD, "odd"), {})
        scores = outcome(lambda: sober.score(**call))
        if scores is not None:
            check_scores(scores)

    on_inputs(count, holds)


AGREE_OPTIONS = {
    "similarity": st.sampled_from([None, "pearson", "spearman", "lasso", "cosine", "both"]),
    "matching": st.sampled_from(["one-to-many", "one-to-one"]),
    "least": st.sampled_from([0.7071, 0.2, 1.0]),
    "level": st.sampled_from([0.05, 0.5]),
    "signed": st.sampled_from([None, True, False]),
    "rows": st.sampled_from([None, 10, 30]),
    "draws": st.sampled_from([2, 20]),
    "seed": SEEDS,
}


def check_agreement(agreement: sober.Agreement) -> None:
    """All numbers of an agreement are finite, also those of its consensus, which can be written."""
    frames = (
        agreement.table(), agreement.components, agreement.ranking, agreement.subspaces, agreement.sizes,
    )  # fmt: skip
    for frame in frames:
        check_frame(frame)
    consensus = agreement.consensus
    for array in (*consensus.linear_map(), consensus.recurrence, consensus.similarity):
        assert np.isfinite(array).all()
    if consensus.dictionary is not None:
        assert np.isfinite(consensus.dictionary.directions).all()
    outcome(lambda: consensus.save(scratch()))


@inputs(12, 1500)
def test_an_agreement_of_any_input(count: int) -> None:
    tables_odd = ["codes", "dictionaries", "untrained", "inputs"]

    def holds(data: st.DataObject) -> None:
        draw, rows = data.draw, data.draw(st.sampled_from([1, 9, 10, 17, 40, 60]), "rows")
        odd = draw(st.sampled_from(["nothing"] * 6 + tables_odd * 2 + [*AGREE_OPTIONS, "map"]), "odd")
        models = [f"seed {n}" for n in range(draw(st.integers(2, 4), "models"))]
        call: dict[str, Any] = {"codes": {name: draw(tables(rows, False), "codes") for name in models}}
        if odd == "codes":
            call["codes"][models[-1]] = draw(tables(rows, True), "odd codes")
        if odd == "dictionaries" or draw(st.sampled_from([False, False, True]), "with dictionaries"):
            widths = [width(codes) for codes in call["codes"].values()]
            call["dictionaries"] = {
                name: draw(tables(latents, False, 6), "dictionary")
                for name, latents in zip(models, widths, strict=True)
            }
            if odd == "dictionaries":
                call["dictionaries"][models[0]] = draw(tables(widths[0], True, 6), "odd dictionary")
            elif draw(st.booleans(), "dictionaries alone"):
                del call["codes"]
        if odd == "map":
            call["codes"] = draw(ODD_NUMBERS | st.sampled_from(["ab", {}, {1: 2}, [[1], [2]]]), "map")
        if odd in ("untrained", "inputs"):
            table = draw(tables(rows, draw(st.booleans(), "odd table"), 6), odd)
            call[odd] = {"first": table} if odd == "untrained" else table
        for option, values in AGREE_OPTIONS.items():
            if odd == option:
                call[option] = draw(ODD_NUMBERS, option)
            elif option == "draws" or draw(st.sampled_from([False, True]), f"with {option}"):
                call[option] = draw(values, option)
        agreement = outcome(lambda: sober.agree(**call))
        if agreement is not None:
            check_agreement(agreement)
            assert all(sentence.isprintable() for sentence in agreement.findings)
            assert repr(agreement)

    on_inputs(count, holds)


@inputs(8, 1000)
def test_a_probe_of_any_input(count: int) -> None:
    odd_things = ["features", "factors"] * 3 + ["names", "kinds", "labels", "seed", "pictures", "pooling", "layers"]

    def holds(data: st.DataObject) -> None:
        draw, rows = data.draw, data.draw(st.sampled_from([9, 40, 60, 90]), "rows")
        odd = draw(st.sampled_from(["nothing"] * 6 + odd_things), "odd")
        kind = draw(ODD_KINDS if odd == "kinds" else KINDS, "kinds")
        call: dict[str, Any] = {
            "encoder": draw(tables(rows, odd == "features"), "features"),
            "factors": draw(tables(rows, odd == "factors", classes=kind != "continuous"), "factors"),
            "seed": draw(ODD_NUMBERS if odd == "seed" else SEEDS, "seed"),
            "labels": draw(ODD_NUMBERS | ODD_NUMBERS.map(lambda value: [10, value]), "labels")
            if odd == "labels"
            else draw(st.sampled_from([(10,), [10, 30], (2, 10_000)]), "labels"),
        }
        assume(call["factors"] is not None)  # or else an encoder would see a world
        if odd == "kinds" or kind == "continuous" or draw(st.booleans(), "with kinds"):
            call["kinds"] = kind
        if odd == "names":
            call["names"] = draw(ODD_NAMES, "names")
        for option in ("pictures", "pooling"):
            if odd == option:
                call[option] = draw(ODD_NUMBERS, option)
        if odd == "layers":
            call["layers"] = {"first": call["encoder"], "second": draw(tables(rows, True), "second layer")}
        probed = outcome(lambda: sober.probe(**call))
        if probed is not None:
            check_frame(probed.table())
            check_frame(probed.differences)
            low, high = probed.table()["low"].fill_null(0.0), probed.table()["high"].fill_null(0.0)
            assert (low <= high).all()
            for layer in probed.layers:
                assert np.isfinite(layer.guesses).all()
            assert all(sentence.isprintable() for sentence in probed.findings)
            assert repr(probed)

    on_inputs(count, holds)
