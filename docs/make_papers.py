"""Writes docs/studies/papers.md from the checklist of the papers' tables and figures.

    python docs/make_papers.py

A test compares the page with what this would write.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from sober.results.paper_check.checklist import Item, Paper, papers
from sober.results.paper_check.paper_numbers import numbers_of
from sober.worlds import world

DRAWN = "drawn"
PAGE = Path(__file__).parent / "studies" / "papers.md"
STATES = {
    "made": "made",
    "in part": "in part",
    "nothing": "nothing to run",
    "waits": "waiting",
    "refused": "not made",
}
HEAD = """# The papers' tables and figures

This page lists every table, figure and algorithm of the five papers, and the numbers that they print in the text. It
says what makes each of them here, which files that needs, and where it differs. `python docs/make_papers.py` writes the
page from `src/sober/results/paper_check/checklist.toml`.

```
sober study plan sober_look --scale small           # which of them this scale makes, and why not the others
sober study run sober_look --out runs/sober_look
sober study tables runs/sober_look --paper sober_look                      # all printed numbers beside ours
sober study tables runs/sober_look --paper sober_look --only "Table 5a"    # some of them
sober tables runs/sober_look --names metric_agreement
sober report runs/sober_look --figures figures
```

Below, `DIR` is the folder of the paper's study. A *table* is one of [`sober tables`](../statistics.md#the-tables), a
*figure* and a *section* are parts of the [report](../report.md#figures). **=** marks items with printed numbers:
`sober study tables DIR --paper NAME --only ITEM` prints ours beside them, cell by cell, with the difference, and says
whether they agree. They disagree if our interval and the paper's do not overlap; the paper's is its ±, if it prints
one, and half of its last digit. They agree if the intervals overlap and ours reaches at most 0.1 from our number (half
of the paper's number, if that is less). With a wider interval, or with none, nobody can tell.

Models that were trained for less than a hundredth of the study's steps, as at every scale `tiny`, are refused there:
they show only that a study runs.

*Files* names the worlds whose [data files](../worlds/published.md) you need; Sober draws all other worlds. If some
files are missing, an item is made from the other worlds.
"""


def page() -> str:
    """The whole page."""
    parts = [HEAD, "\n".join(_summary()), *("\n".join(_section(paper)) for paper in papers().values())]
    return "\n".join(parts) + "\n"


def _summary() -> Iterator[str]:
    yield f"| paper | items | {' | '.join(STATES.values())} |"
    yield "|---|---:|" + "---:|" * len(STATES)
    for paper in papers().values():
        count = Counter("in part" if item.missing else item.state for item in paper.items)
        numbers = " | ".join(str(count[state]) for state in STATES)
        yield f"| [{paper.name}](#{paper.name}): {paper.cite} | {len(paper.items)} | {numbers} |"
    yield ""


def _section(paper: Paper) -> Iterator[str]:
    yield f"## {paper.name}"
    yield ""
    yield f"{paper.cite}. The study: [{paper.name}]({paper.name}.md)."
    yield ""
    yield "| item | what it shows | what makes it | files | where it differs, or why not |"
    yield "|---|---|---|---|---|"
    printed = {numbers.item for numbers in numbers_of(paper.name)}
    for item in paper.items:
        name = f"{item.name} **=**" if item.name in printed else item.name
        cells = (name, item.shows, _made_by(item), ", ".join(_files(item)), _why(item))
        yield f"| {' | '.join(cells)} |"
    yield ""


def _made_by(item: Item) -> str:
    if item.state == "refused":
        return "not made"
    parts = [f"study `{item.study}`"] if item.study else []
    parts += [f"first `{item.before}`"] if item.before else []
    parts += [f"table `{item.table}`"] if item.table else []
    parts += [f"figure `{item.figure}`"] if item.figure else []
    parts += [f"section *{item.section}* of the report"] if item.section else []
    parts += [f"`{_cell(item.command)}`"] if item.command else []
    parts += [f"nothing to run: {item.nothing}"] if item.nothing else []
    return "; ".join(parts)


def _why(item: Item) -> str:
    missing = f"missing: {item.missing}" if item.missing else ""
    return "; ".join(filter(None, (item.waits, item.refused, missing, item.differs)))


def _files(item: Item) -> list[str]:
    """Worlds that need files from elsewhere."""
    return [f"`{name}`" for name in item.needs.worlds if _from_files(name)]


def _from_files(name: str) -> bool:
    """Whether a world needs files from elsewhere; scream_dsprites is drawn but needs a picture."""
    return world(name).origin != DRAWN or name == "scream_dsprites"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")
