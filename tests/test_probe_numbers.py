"""The page on probing has the numbers of docs/probe.json."""

from __future__ import annotations

from conftest import ROOT
from scripts import load_script


def test_the_page_is_current() -> None:
    make_probe = load_script(ROOT / "docs" / "make_probe.py")
    assert make_probe.PAGE.read_text(encoding="utf-8") == make_probe.page(), "run python docs/make_probe.py"
