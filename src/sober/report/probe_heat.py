"""The heat map of a probe's page: layers in rows, factors in columns, and a choice of what is shown.

The first panel is HTML. The others are data, which probe.js puts into the same table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any, NamedTuple

from sober.probing.knowledge import Number
from sober.probing.layer import Layer
from sober.probing.shown_layers import best_layer, by_encoder
from sober.report.probe_words import NUMBERS, details, labels_of, layer_name, scaled, two

FEW = 4  # a line to beat with more layers shows its best and its last
BREAKS = re.compile(r"(?<=[_./ ])")  # where a name may go on in the next line
NOT_DRAWN = ("seen",)  # numbers that stand only in the table of all numbers


class Panel(NamedTuple):
    """What a heat map shows: a number, and from how many labels if there are several."""

    name: str
    labels: int | None = None

    @property
    def title(self) -> str:
        return NUMBERS[self.name].title


class Cell(NamedTuple):
    """A cell: its text, its shade from 0 to 1, its tooltip, and whether it is the best of its encoder."""

    text: str
    shade: float | None = None
    note: str = ""
    best: bool = False

    def data(self) -> list[Any]:
        return [self.text, None if self.shade is None else round(self.shade, 3), self.note, self.best]


NOTHING = Cell("–")


class Heat:
    """A heat map of one world: layers of encoders first, from first to last, then lines to beat."""

    def __init__(self, layers: Sequence[Layer]) -> None:
        self.factors = list(dict.fromkeys(factor.name for layer in layers for factor in layer.about))
        self.groups = list(_groups(layers))
        self.layers = [layer for group in self.groups for layer in group.layers]
        self.has_more = len(self.layers) < len(layers)
        self.panels = list(_panels(self.layers))

    def data(self) -> dict[str, Any]:
        """All panels: how to read each, and its cells row by row."""
        panels = [
            {
                "number": panel.title,
                "labels": None if panel.labels is None else f"{panel.labels:,}",
                "read": NUMBERS[panel.name].meaning,
                "cells": [cell.data() for row in self.cells(panel) for cell in row],
            }
            for panel in self.panels
        ]
        return {"panels": panels}

    def cells(self, panel: Panel) -> list[list[Cell]]:
        """The cells of a panel by layer and factor, and at the end of each row their mean."""
        rows = []
        for group in self.groups:
            cells = [[_cell(layer, layer.number(factor, *panel)) for factor in self.factors] for layer in group.layers]
            marked = cells if group.reference or len(cells) == 1 else _with_best(cells)
            rows += [[*row, _mean(layer, row)] for layer, row in zip(group.layers, marked, strict=True)]
        return rows

    def html(self) -> str:
        """The table with its first panel."""
        rows = iter(self.cells(self.panels[0]))
        heads = "".join(f'<th scope="col">{breakable(factor)}</th>' for factor in self.factors)
        bodies = "".join(group.html([next(rows) for _ in group.layers]) for group in self.groups)
        longest = max(len(word) for factor in self.factors for word in BREAKS.split(factor))
        size = f"--columns: {len(self.factors) + 1}; --letters: {longest}"
        return (
            f'<table class="heat" style="{size}"><thead><tr><td class="names"></td>{heads}'
            f'<th scope="col" class="mean">mean</th></tr></thead>{bodies}</table>'
        )

    def caption(self) -> str:
        several = any(len(group.layers) > 1 for group in self.groups if not group.reference)
        sentences = (
            "Bold: the best layer of its encoder." if several else "",
            "In brackets: may be chance.",
            "Lines to beat: their best layer and their last." if self.has_more else "",
            "Point at a cell for its interval and chance, which “All numbers” has as well.",
        )
        return " ".join(filter(None, sentences))

    def tools(self) -> str:
        """The choice of a number and of labels."""
        titles = list(dict.fromkeys(panel.title for panel in self.panels))
        labels = list(dict.fromkeys(f"{panel.labels:,}" for panel in self.panels if panel.labels is not None))
        choices = [_choice("Show", "number", titles, titles[0])] if len(titles) > 1 else []
        choices += [_choice("learned from", "labels", labels, labels[0], " labels")] if len(labels) > 1 else []
        return f'<p class="tools">{"".join(choices)}</p>' if choices else ""


class Group(NamedTuple):
    """Rows of one encoder, or all lines to beat."""

    title: str
    layers: list[Layer]
    names: list[str]
    reference: bool = False

    def html(self, rows: Sequence[Sequence[Cell]]) -> str:
        widths = {layer.width for layer in self.layers}
        one = len(widths) == 1 and self.title and not self.reference
        common = f"<small>{widths.pop():,} units</small>" if one else ""
        head = f'<th scope="rowgroup" colspan="{len(rows[0]) + 1}"><span>{escape(self.title)} {common}</span></th>'
        body = "".join(
            f'<tr><th scope="row"><span>{breakable(name)}'
            f"{'' if common else f'<small>{layer.width:,} units</small>'}</span></th>"
            f"{''.join(map(cell_html, row))}</tr>"
            for name, layer, row in zip(self.names, self.layers, rows, strict=True)
        )
        first = f'<tr class="kind">{head}</tr>' if self.title else ""
        return f'<tbody class="{"beat" if self.reference else "own"}">{first}{body}</tbody>'


def cell_html(cell: Cell) -> str:
    kind = ' class="best"' if cell.best else ""
    shade = "" if cell.shade is None else f' style="--share: {cell.shade:.3f}"'
    note = f' title="{escape(cell.note)}"' if cell.note else ""
    return f"<td{kind}{shade}{note}>{escape(cell.text)}</td>"


def breakable(name: str) -> str:
    """A name as HTML, which may go on in the next line after an underscore, a point or a slash."""
    return "<wbr>".join(map(escape, BREAKS.split(name)))


def _groups(layers: Sequence[Layer]) -> Iterator[Group]:
    grouped = by_encoder(layers)
    encoders = {name: rows for (_, name), rows in grouped.items() if not rows[0].reference}
    beside = {name: rows for (_, name), rows in grouped.items() if rows[0].reference}
    for name, rows in encoders.items():
        yield Group(name if len(encoders) + len(beside) > 1 else "", rows, [layer_name(layer) for layer in rows])
    pairs = [(name, layer, len(rows) > 1) for name, rows in beside.items() for layer in _few(rows)]
    if pairs:
        names = [f"{name}, {layer_name(layer)}" if several else name for name, layer, several in pairs]
        yield Group("Lines to beat", [layer for _, layer, _ in pairs], names, reference=True)


def _few(layers: list[Layer]) -> list[Layer]:
    few = layers if len(layers) <= FEW else [best_layer(layers), layers[-1]]
    return list({id(layer): layer for layer in few}.values())


def _panels(layers: Sequence[Layer]) -> Iterator[Panel]:
    for name in NUMBERS:
        labels = labels_of(layers, name)
        if labels and name not in NOT_DRAWN:
            if len(labels) == 1:
                yield Panel(name)
            else:
                yield from (Panel(name, size) for size in reversed(labels))


def _with_best(rows: Sequence[Sequence[Cell]]) -> list[list[Cell]]:
    """Marks the best cells of each column, by what is written in them."""
    most = [max(cell.shade or 0.0 for cell in column) for column in zip(*rows, strict=True)]
    return [
        [cell._replace(best=bool(cell.shade) and cell.text == two(best)) for cell, best in zip(row, most, strict=True)]
        for row in rows
    ]


def _cell(layer: Layer, number: Number | None) -> Cell:
    if number is None:
        return NOTHING
    on_scale = scaled(layer, number)
    words = f"({two(on_scale.value)})" if on_scale.may_be_chance else two(on_scale.value)
    return Cell(words, min(1.0, on_scale.value), details(layer, number))


def _mean(layer: Layer, row: Sequence[Cell]) -> Cell:
    """The mean over factors; none if a factor has no number."""
    shades = [cell.shade for cell in row if cell.shade is not None]
    if len(shades) < len(row):
        return NOTHING
    mean = sum(shades) / len(shades)
    return Cell(two(mean), mean, f"mean over factors, {layer_name(layer)}")


def _choice(words: str, name: str, values: Sequence[str], chosen: str, unit: str = "") -> str:
    options = "".join(
        f'<option value="{escape(value)}"{" selected" if value == chosen else ""}>{escape(value)}</option>'
        for value in values
    )
    select = f'<select data-choice="{name}" autocomplete="off">{options}</select>'
    return f"<label>{escape(words)} {select}{escape(unit)}</label>"
