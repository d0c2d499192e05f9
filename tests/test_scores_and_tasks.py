"""The page that holds scores against tasks is made of the results that come with Sober."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import polars as pl
import pytest

from scripts import load_script

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def made() -> ModuleType:
    return load_script(ROOT / "docs" / "make_scores_and_tasks.py")


def test_the_page_is_made_of_the_results(made: ModuleType) -> None:
    written = (ROOT / "docs" / "tasks" / "do_scores_tell.md").read_text(encoding="utf-8")
    assert written == made.page(), "run python docs/make_scores_and_tasks.py"
    assert written.count("| dci_disentanglement |") >= 4


def test_bold_is_what_an_interval_without_zero_is(made: ModuleType) -> None:
    rows = [("mig", "a", 0.5, 0.1, 0.9), ("mig", "b", -0.004, -0.3, 0.2), ("mig", "c", None, None, None)]
    correlations = pl.DataFrame(rows, schema=["score", "task", "value", "low", "high"], orient="row")
    *_, line = made._table(correlations, ["a", "b", "c"])
    assert line == "| mig | **0.50 (0.10 to 0.90)** | 0.00 (−0.30 to 0.20) | none |"
