"""Writes docs/studies/papers.md from the checklist of the papers' tables and figures.

    python docs/make_papers.py

A test compares the page with what this would write.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from sober.results.checklist import Item, Paper, papers
from sober.results.compare import numbers_of
from sober.worlds import world

DRAWN = "drawn"
PAGE = Path(__file__).parent / "studies" / "papers.md"
STATES = {
    "made": "made",
    "nothing": "nothing to run",
    "waits": "waiting",
    "refused": "not made",
}
HEAD = """# The papers' tables and figures

Every table, figure and algorithm of the five papers, and numbers that they print in the text: what makes it here, what
that needs, and where it differs. This page is made of `src/sober/results/checklist.toml` by `python
docs/make_papers.py`.

```
sober study plan sober_look --scale small           # which of them this scale makes, and why not the others
sober study run sober_look --out runs/sober_look
sober study tables runs/sober_look --paper sober_look                      # all printed numbers beside ours
sober study tables runs/sober_look --paper sober_look --only "Table 5a"    # some of them
sober tables runs/sober_look --names metric_agreement
sober report runs/sober_look --figures figures
```

`DIR` is the folder of the paper's study. A *table* is one of [`sober tables`](../statistics.md#the-tables), a *figure*
one of the [report](../report.md#figures), a *section* a part of it. **=** marks what can be put beside the paper's
printed numbers, cell by cell, with `sober study tables DIR --paper NAME --only ITEM`: the difference, and whether our
interval and the paper's meet. The paper's reaches as far as its ±, where it has one, and half of its last digit. Models
that were trained for less than a hundredth of the study's steps, as those of every scale `tiny`, are refused there:
they show that a study runs, and are no results.

*Files* says which data files have to be [there](../worlds/published.md); other worlds are drawn by Sober. Where some
are missing, an item is made of the others.
"""


def page() -> str:
    """The whole page."""
    parts = [HEAD, "\n".join(_summary()), *("\n".join(_section(paper)) for paper in papers().values())]
    return "\n".join(parts) + "\n"


def _summary() -> Iterator[str]:
    yield f"| paper | items | {' | '.join(STATES.values())} |"
    yield "|---|---:|" + "---:|" * len(STATES)
    for paper in papers().values():
        count = Counter(item.state for item in paper.items)
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
    return "; ".join(filter(None, (item.waits, item.refused, item.differs)))


def _files(item: Item) -> list[str]:
    """Worlds that need files from elsewhere."""
    return [f"`{name}`" for name in item.needs.worlds if _from_files(name)]


def _from_files(name: str) -> bool:
    """Whether a world is read from files of others; one of those that are drawn needs a picture all the same."""
    return world(name).origin != DRAWN or name == "scream_dsprites"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")
