"""The demonstration, as a person meets it: what the terminal says, and the report in a browser."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from sober.cli import app
from sober.errors import RequestError
from sober.models.model import load
from test_explorer import canvas, chromium, opened  # noqa: F401 (chromium is a fixture)

WIDTHS = [360, 1440, 3840]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo at its smallest scale."""
    folder = tmp_path_factory.mktemp("demo") / "out"
    app(["study", "run", "demo", "--scale", "tiny", "--out", str(folder)], result_action="return_none")
    return folder


def test_running_it_again_says_what_was_found_and_where_the_report_is(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    app(["study", "run", "demo", "--scale", "tiny", "--out", str(out)], result_action="return_none")
    said = " ".join(capsys.readouterr().out.split())
    assert "medians over seeds" in said
    assert all(f" {number} " in said for number in (1, 2, 3))
    assert said.replace(" ", "").endswith("report.html")


def test_the_command_ends_with_the_verdict(
    out: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sober.cli.demo.SCALE", "tiny")
    app(["demo", "--out", str(out)], result_action="return_none")
    said = " ".join(capsys.readouterr().out.split())
    assert "wrote " in said
    assert "Not trained far enough to choose from: " in said.split("wrote ")[-1]


def test_the_report_opens_without_a_complaint_at_every_width_in_light_and_dark(out: Path, chromium: Any) -> None:  # noqa: F811
    for width in WIDTHS:
        for scheme in ("light", "dark"):
            with opened(chromium, out / "report.html", width, color_scheme=scheme) as tab:
                assert tab.evaluate("document.documentElement.scrollWidth") <= width
                unfold(tab)
                tab.wait_for_selector("svg.marks")
                assert "seeds 3 → 2" in tab.inner_text("header")


def unfold(tab: Any) -> None:
    """Opens all parts of the report: charts are drawn once they are seen."""
    tab.evaluate("for (const fold of document.querySelectorAll('details')) fold.open = true")


def test_every_chart_is_drawn(out: Path, chromium: Any) -> None:  # noqa: F811
    with opened(chromium, out / "report.html") as tab:
        unfold(tab)
        drawn = "document.querySelectorAll('.vega-embed svg.marks').length"
        tab.wait_for_function(f"{drawn} >= 5")  # they are drawn one after the other
        charts = tab.locator(".vega-embed")
        for at in range(charts.count()):
            charts.nth(at).scroll_into_view_if_needed()
            charts.nth(at).locator("svg.marks").wait_for()


def test_the_leaderboard_sorts_and_filters(out: Path, chromium: Any) -> None:  # noqa: F811
    with opened(chromium, out / "report.html") as tab:
        unfold(tab)
        board = tab.locator("#leaderboard table").first
        names = board.locator("tbody tr:visible td:first-child, tbody tr:visible th:first-child")
        before = names.all_inner_texts()
        header = board.locator("thead th button").first
        header.focus()
        tab.keyboard.press("Enter")
        once = names.all_inner_texts()
        tab.keyboard.press("Enter")
        assert sorted(once) == sorted(before)
        assert names.all_inner_texts() == once[::-1]
        tab.locator("#leaderboard input").first.fill("DIP-VAE-II")
        left = names.all_inner_texts()
        assert 0 < len(left) < len(before)
        assert all("DIP-VAE-II" in name for name in left)


def test_a_slider_moves_the_picture_of_the_models_own_decoder(out: Path, chromium: Any) -> None:  # noqa: F811
    with opened(chromium, out / "report.html") as tab:
        unfold(tab)
        tab.locator("#explorer").scroll_into_view_if_needed()
        before = canvas(tab)
        slider = tab.locator("#explorer input[type=range]:visible").first
        slider.focus()
        for _ in range(15):
            tab.keyboard.press("ArrowRight")
        assert np.abs(canvas(tab).astype(int) - before).max() > 0
        assert (
            tab.locator("#explorer input[type=range]").first.get_attribute("aria-label")
            or tab.locator("#explorer label").count()
        )


def test_the_models_that_are_shown_can_be_loaded(out: Path) -> None:
    shown = sorted((out / "shown").glob("*.safetensors"))
    assert shown
    for path in shown:
        assert load(out / "models" / path.name).run.identity == path.stem


def test_traversals_of_a_study_are_those_of_the_models_its_report_shows(out: Path, tmp_path: Path) -> None:
    shown = {path.stem for path in (out / "shown").glob("*.safetensors")}
    app(["traverse", str(out)], result_action="return_none")
    first = Image.open(out / "traversals.png")
    app(["traverse", str(out), "--runs", min(shown), "--out", str(tmp_path / "one.png")], result_action="return_none")
    assert Image.open(tmp_path / "one.png").width < first.width
    [other, *_] = {path.stem for path in (out / "models").iterdir()} - shown
    app(["traverse", str(out), "--runs", other, "--out", str(tmp_path / "other.png")], result_action="return_none")
    with pytest.raises(RequestError, match="choose one of"):
        app(["traverse", str(out), "--runs", "nobody"], result_action="return_none")


def test_a_study_that_has_not_come_far_has_no_traversals(out: Path, tmp_path: Path) -> None:
    for name in ("request.json", "columns.json", "scores.parquet"):
        shutil.copyfile(out / name, tmp_path / name)
        if name == "request.json":
            with pytest.raises(RequestError, match="has no finished model: run the command that made it again"):
                app(["traverse", str(tmp_path)], result_action="return_none")
    with pytest.raises(RequestError, match="has no finished model"):
        app(["traverse", str(tmp_path)], result_action="return_none")
