"""Documentation: what each page must show, and no link that leads nowhere; that it runs is in test_site.py."""

from __future__ import annotations

import re

import pytest

from conftest import ROOT
from sober.criteria import CRITERIA
from sober.methods import METHODS
from sober.nets import NETS
from sober.worlds import WORLDS
from sober.worlds.stored_world import StoredWorld

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_a_page_with_a_picture_and_its_paper(name: str) -> None:
    page = (ROOT / "docs" / "methods" / f"{name}.md").read_text()
    assert "../pictures/" in page
    assert "```bibtex" in page
    assert f"({name}.md)" in (ROOT / "docs" / "methods" / "index.md").read_text()


@pytest.mark.parametrize("name", WORLDS)
def test_every_world_has_a_page_and_those_that_are_drawn_a_contact_sheet(name: str) -> None:
    page = (ROOT / "docs" / "worlds" / f"{name}.md").read_text()
    if not issubclass(WORLDS[name], StoredWorld):
        assert "../pictures/" in page
    factors = getattr(WORLDS[name], "factors", ())
    if isinstance(factors, tuple) and len(factors) < 10:  # else they depend on the files, or are too many to name
        for factor in factors:
            assert f"`{factor.name}`" in page or f"| {factor.name} " in page, factor.name
    assert f"({name}.md)" in (ROOT / "docs" / "worlds" / "index.md").read_text()


@pytest.mark.parametrize("name", CRITERIA)
def test_every_criterion_has_a_page_with_what_it_cannot_see(name: str) -> None:
    index = (ROOT / "docs" / "criteria" / "index.md").read_text()
    (page,) = re.findall(rf"^\| \[{name}\]\((\w+\.md)\)", index, flags=re.MULTILINE)
    text = (ROOT / "docs" / "criteria" / page).read_text()
    assert "What it can and cannot see" in text or "What they can and cannot see" in text
    assert "```bibtex" in text


def test_all_nets_are_described() -> None:
    page = (ROOT / "docs" / "nets.md").read_text()
    assert all(f"## {name}\n" in page for name in NETS.keys() - {"linear"})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target or target.startswith("mailto:"):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), target
        if anchor and linked.suffix == ".md":
            titles = re.findall(r"^#+ (.+)$", linked.read_text(), flags=re.MULTILINE)
            anchors = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
            assert anchor in anchors, target
