"""The picture of a choice: every model as a dot by agreement and reconstruction, the chosen one in a ring."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sober.criteria.verdict import Verdict
from sober.report.frontier import LEFT, LETTER, TOP, WIDTH, _name, _ticks, _undominated, frontier_html
from sober.requests.results import open_results
from sober.results.runs import Runs, as_runs

NAME = "dsprites_small_nets"


@pytest.fixture(scope="module")
def runs() -> Runs:
    return as_runs(open_results(NAME).table())


@pytest.fixture(scope="module")
def verdict() -> Verdict:
    return open_results(NAME).select().verdict


def test_every_model_is_a_dot_and_one_is_marked(runs: Runs, verdict: Verdict) -> None:
    html = frontier_html(runs, "dsprites", verdict)
    assert len(re.findall(r"<title>", html)) == verdict.models
    assert html.count('class="ring"') == 1
    assert verdict.most_loss is not None
    losses = runs.number_columns(runs.numbers_of(["train_reconstruction"])).data[:, 0]
    assert 0 < html.count('class="among"') == (losses <= verdict.most_loss).sum() < verdict.models
    assert "hollow dots, right of the mark, are the others" in html
    assert html.count('class="limit"') == 1
    assert verdict.gives_up[:20] in html


def test_with_the_wish_few_all_models_count(runs: Runs, verdict: Verdict) -> None:
    html = frontier_html(runs, "dsprites", dataclasses.replace(verdict, prefer="few", most_loss=None))
    assert "hollow" not in html
    assert "limit" not in html
    assert 'class="other"' not in html


def test_without_a_rule_or_without_numbers_there_is_no_picture(runs: Runs, verdict: Verdict) -> None:
    assert frontier_html(runs, "dsprites", dataclasses.replace(verdict, prefer="")) == ""
    assert frontier_html(runs, "dsprites", dataclasses.replace(verdict, run="nobody")) == ""
    without = [name for name in runs.names if runs.numbers[name].metric != "udr"]
    fewer = dataclasses.replace(
        runs,
        numbers={name: runs.numbers[name] for name in without},
        values=runs.number_columns(without),
        flagged=runs.flagged[:, [runs.names.index(name) for name in without]],
    )
    assert frontier_html(fewer, "dsprites", verdict) == ""


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=12))
def test_no_model_is_better_in_both_than_one_on_the_line(points: list[tuple[int, int]]) -> None:
    x, y = np.array(points, float).T
    line = _undominated(x, y)
    for m in line:
        assert not ((x <= x[m]) & (y >= y[m]) & ((x < x[m]) | (y > y[m]))).any()
    for m in set(range(len(points))) - set(line):
        assert ((x <= x[m]) & (y >= y[m])).sum() > 1


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=9), st.sampled_from([1e-3, 1.0, 1e3]))
def test_numbers_on_an_axis_are_round_and_within_it(values: list[float], unit: float) -> None:
    array = unit * np.array(values)
    ticks = _ticks(array)
    assert 1 <= len(ticks) <= 7
    assert len({text for _, text in ticks}) == len(ticks)
    if np.ptp(array) > 1e-6 * max(abs(array)):
        steps = np.diff([value for value, _ in ticks])
        assert np.allclose(steps, steps[:1])
        slack = 1e-6 * np.ptp(array)
        assert all(array.min() - slack <= value <= array.max() + slack for value, _ in ticks)


def test_the_ends_of_an_axis_are_not_written() -> None:
    assert [text for _, text in _ticks(np.array([1.516, 11.268]))] == ["2", "4", "6", "8", "10"]
    assert [text for _, text in _ticks(np.array([0.295, 0.702]))] == ["0.3", "0.4", "0.5", "0.6", "0.7"]
    assert [text for _, text in _ticks(np.array([3.0, 3.0]))] == ["3.000"]


@pytest.mark.parametrize("y", [TOP + 12.0, 100.0])
@pytest.mark.parametrize("x", [LEFT, WIDTH / 2, WIDTH - 8])
def test_the_name_of_the_chosen_model_stays_in_the_picture(x: float, y: float) -> None:
    words = "DIP-VAE-II, λ = 50, seed 0"
    html = _name(words, np.array([x, x + 30.0]), np.array([y, y + 12.0]), 0)
    (place,) = map(float, re.findall(r' x="(.*?)"', html))
    (height,) = map(float, re.findall(r' y="(.*?)"', html))
    assert height > TOP, "below the name of the axis"
    left = place if 'anchor="start"' in html else place - LETTER * len(words)
    assert LEFT <= left <= WIDTH - LETTER * len(words)
