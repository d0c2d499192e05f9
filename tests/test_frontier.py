"""The picture of a choice: every model as a dot by agreement and reconstruction, the chosen one in a ring."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sober.criteria.verdict import Verdict
from sober.report.frontier import _undominated, frontier_html
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
    assert html.count('class="among"') == verdict.models / 2
    assert "hollow dots are the others" in html
    assert verdict.gives_up[:20] in html


def test_with_the_wish_few_all_models_count(runs: Runs, verdict: Verdict) -> None:
    html = frontier_html(runs, "dsprites", dataclasses.replace(verdict, prefer="few"))
    assert "hollow" not in html
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
