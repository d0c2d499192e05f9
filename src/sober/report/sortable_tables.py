"""Tables of a page, which report.js sorts and filters. Names that users chose are escaped, so they stay text."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Literal, NamedTuple

from sober.errors import counted

FILTERED = 6  # a table with at least as many rows has a filter
MARKS = {"higher": "↑", "lower": "↓", "neither": ""}


class Column(NamedTuple):
    """The head of a column. The first press on it sorts the best rows to the top."""

    name: str
    note: str = ""
    better: Literal["higher", "lower", "neither"] = "neither"
    number: bool = True


class Cell(NamedTuple):
    """A cell: its text, a smaller text below, the value that sorts it, and the tooltips of a mark and of the cell."""

    text: str
    small: str = ""
    value: float | None = None
    remark: str = ""
    note: str = ""  # a tooltip of the whole cell


def table(caption: str, columns: Sequence[Column], rows: Sequence[Sequence[Cell]], noun: str = "row") -> str:
    """A table with its caption, in a frame that scrolls while the first column stays."""
    head = "".join(map(_head, columns))
    body = "\n".join(
        f"<tr>{''.join(_cell(cell, column) for cell, column in zip(row, columns, strict=True))}</tr>" for row in rows
    )
    tools = _filter(len(rows), noun) if len(rows) >= FILTERED else ""
    return (
        f'<div class="sortable">{tools}<div class="scroll" tabindex="0" role="region" aria-label="Table of {noun}s">'
        f"<table><caption><span>{escape(caption)}</span></caption><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>"
        "</div></div>"
    )


def short(value: float) -> str:
    """A number in a cell: three digits after the point, two from 10 on, one from 100 on, none from 1,000 on."""
    size = abs(value)
    digits = 0 if size >= 1000 else 1 if size >= 100 else 2 if size >= 10 else 3
    return f"{value:,.{digits}f}".replace("-", "−")


def _filter(rows: int, noun: str) -> str:
    return (
        f'<p class="tools"><label>Only {escape(noun)}s with the words '
        f'<input type="search" autocomplete="off" spellcheck="false"></label> '
        f'<output aria-live="polite" data-noun="{escape(noun)}">{counted(rows, noun)}</output></p>'
    )


def _head(column: Column) -> str:
    mark = MARKS[column.better]
    arrow = f'<span class="mark" aria-label="{column.better} is better">{mark}</span>' if mark else ""
    kind = "number" if column.number else "words"
    return (
        f'<th scope="col" class="{kind}" data-better="{column.better}" aria-sort="none">'
        f'<button type="button" title="{escape(column.note)}">{escape(column.name)}{arrow}</button></th>'
    )


def _cell(cell: Cell, column: Column) -> str:
    value = "" if cell.value is None else f' data-value="{cell.value:.6g}"'
    remark = f'<abbr title="{escape(cell.remark)}">†</abbr>' if cell.remark else ""
    small = f"<small>{escape(cell.small)}</small>" if cell.small else ""
    kind = "number" if column.number else "words"
    note = f' title="{escape(cell.note)}"' if cell.note else ""
    return f'<td class="{kind}"{value}{note}>{escape(cell.text)}{remark}{small}</td>'
