"""What `sober metrics` and its like print: the list of names on one screen, or all about the names that are given."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sober.errors import counted
from sober.settings_text import assignments

if TYPE_CHECKING:
    from sober.metrics import Meaning

STYLES = ("cyan", "dim", "", "dim")  # of the columns of a list, by the place of an entry's field
LINE, MORE = 2, 3  # the places of the fields `line` and `more`
ARROWS = {"higher": "↑", "lower": "↓", "neither": ""}
WIDE = 130  # columns of a terminal in which a list has room for more about each name


Facts = Mapping[str, str | Sequence[str | Text]]  # what is said about a name, by label


class Entry(NamedTuple):
    """A line of a list: a name, a fact in a few characters, what it is, and what a wide terminal shows beside that."""

    name: str
    fact: str
    line: str
    more: str = ""


class NameList:
    """Names in groups, with one line for each name."""

    def __init__(self, groups: Mapping[str, Sequence[Entry]], end: str) -> None:
        self.groups = {title: entries for title, entries in groups.items() if entries}
        self.end = end  # how to see all about a name

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        entries = [entry for group in self.groups.values() for entry in group]
        widths = [max(map(cell_len, column)) for column in zip(*entries, strict=True)]
        columns = [place for place, width in enumerate(widths) if width and (place < MORE or options.max_width >= WIDE)]
        for place, (title, group) in enumerate(self.groups.items()):
            table = Table.grid(padding=(0, 2, 0, 0))
            for column in columns:
                kept_whole = column < LINE or (column == LINE and MORE in columns)
                table.add_column(style=STYLES[column], width=widths[column] if kept_whole else None)
            for entry in group:
                table.add_row(*(Text(entry[column]) for column in columns))
            yield Text(f"{chr(10) if place else ''}{title}", style="bold")
            yield table
        yield Text(f"\n{self.end}", style="dim")

    def __repr__(self) -> str:
        return f"NameList({counted(sum(map(len, self.groups.values())), 'name')})"


def card(name: str, summary: str, facts: Facts) -> Group:
    """All about one name. A fact without text is left out; a fact of several lines has its name beside the first."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for label, fact in facts.items():
        lines = [fact] if isinstance(fact, str) else fact
        for place, line in enumerate(line for line in lines if line):
            table.add_row("" if place else label, Text(line) if isinstance(line, str) else line)
    return Group(Text.assemble((name, "bold cyan"), "  ", summary), Padding(table, (0, 0, 1, 2), expand=False))


def scores_fact(scores: Mapping[str, Meaning]) -> list[Text]:
    """Each score: what it says, its range, and which end is better."""
    return [
        Text.assemble((name, "cyan"), "  ", meaning.summary, (f" ({meaning})", "dim"))
        for name, meaning in scores.items()
    ]


def presets_fact(presets: Mapping[str, Mapping[str, Any]]) -> list[str]:
    return [f"{name}: {assignments(changes)}" for name, changes in presets.items()]


def ends(meaning: Meaning) -> str:
    """The range and direction of a score in a few characters: `0–1 ↑`."""
    high, low = f"{meaning.high:g}", f"{meaning.low:g}"
    limits = (
        f"≤{high}" if meaning.low == float("-inf") else f"≥{low}" if meaning.high == float("inf") else f"{low}–{high}"
    )
    return f"{limits} {ARROWS[meaning.better]}".strip()


def page_of(folder: str, function: Callable[..., Any]) -> str:
    """The page of the documentation about a function. It has the name of the function's file."""
    while isinstance(function, functools.partial):
        function = function.func
    return f"docs/{folder}/{function.__module__.rpartition('.')[2]}.md"
