"""The properties of every score are as it promises, and as the page says."""

from __future__ import annotations

import re
from typing import Any, get_args

import pytest

from conftest import ROOT
from scripts import load_script
from sober.metrics import METRICS
from sober.metrics.metric import Alteration

SMALL, NOTICED = 0.05, 0.01  # the most that counts as no change, and the least that is one


MADE = load_script(ROOT / "docs" / "make_properties.py")


@pytest.fixture(scope="module")
def rows() -> dict[str, Any]:
    return {row.name: row for some in MADE.rows().values() for row in some}


def test_every_alteration_is_tried() -> None:
    assert set(get_args(Alteration)) <= set(MADE.KNOWN)


@pytest.mark.parametrize("name", [name for metric in METRICS.values() for name in metric.scores])
def test_it_does_what_it_promises(name: str, rows: dict[str, Any]) -> None:
    row = rows[name]
    for how, change in row.changes.items():
        if how in row.traits.lowered_by:
            assert change < -NOTICED, how
        elif how in row.traits.raised_by:
            assert change > NOTICED, how
        elif how not in row.traits.changed_by:
            assert abs(change) <= SMALL * max(1.0, abs(row.perfect)) + 5 * row.errors[how], how


def test_nothing_is_promised_twice() -> None:
    for metric in METRICS.values():
        for name, meaning in metric.scores.items():
            traits = meaning.traits
            promised = [*traits.changed_by, *traits.lowered_by, *traits.raised_by]
            assert len(promised) == len(set(promised)), name


def number(cell: str) -> float:
    text = re.sub(r"[*~ ]", "", cell).replace("−", "-")
    return 0.0 if text == "=" else float(text)


def test_the_page_is_current(rows: dict[str, Any]) -> None:
    lines = re.findall(r"^\| `(\S+)` \| (.+) \|$", MADE.PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert [name for name, _ in lines] == list(rows), "run python docs/make_properties.py"
    for name, text in lines:
        row, cells = rows[name], text.split(" | ")[1:]
        measured = [row.perfect, row.noise, *row.changes.values()]
        size = max(map(abs, measured))
        assert list(map(number, cells)) == pytest.approx(measured, abs=0.03 * max(1.0, size)), name
        assert ["**" in cell for cell in cells[2:]] == [
            how in (*row.traits.lowered_by, *row.traits.raised_by) for how in row.changes
        ], name


def test_a_page_that_is_not_current_is_found(rows: dict[str, Any]) -> None:
    assert number("**−0.33**") == pytest.approx(-0.33)
    assert number("= ~") == 0
    assert rows["mig"].changes["duplicated latents"] < -0.5
