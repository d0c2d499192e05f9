"""The page about intervals and p-values shows the numbers that its simulations gave."""

from __future__ import annotations

import pytest

from conftest import ROOT
from scripts import load_script

MADE = load_script(ROOT / "docs" / "make_how_sure.py")


def test_every_simulation_has_numbers() -> None:
    made = MADE.read()
    assert list(made) == list(MADE.SIMULATIONS), "run python docs/make_how_sure.py"
    for findings in made.values():
        assert findings
        for finding in findings:
            assert 0 <= finding.times <= finding.draws
            assert finding.draws >= 40
            assert 0 < finding.promised < 1
            assert finding.error < 0.16


def test_the_page_shows_the_numbers() -> None:
    assert MADE.PAGE.read_text(encoding="utf-8") == MADE.page(), "run python docs/make_how_sure.py --page"


@pytest.mark.parametrize("name", ["means", "medians"])
def test_a_simulation_gives_the_numbers_again(name: str) -> None:
    assert list(MADE.SIMULATIONS[name]()) == MADE.read()[name]


@pytest.mark.parametrize(
    ("kind", "promised", "times", "draws", "verdict"),
    [
        ("interval", 0.95, 190, 200, "as promised"),
        ("interval", 0.95, 160, 200, "**too narrow**"),
        ("interval", 0.95, 2000, 2000, "too wide"),
        ("interval", 0.95, 1870, 2000, "as promised"),  # 93.5%: lower than 95%, by too little to matter
        ("p", 0.05, 30, 200, "**too often**"),
        ("p", 0.05, 0, 200, "more seldom"),
        ("certainty", 0.9, 20, 40, "**too sure**"),
    ],
)
def test_a_verdict_needs_enough_draws_and_a_difference_of_note(
    kind: str, promised: float, times: int, draws: int, verdict: str
) -> None:
    assert MADE.Finding(kind, "here", "now", promised, times, draws).verdict == verdict
