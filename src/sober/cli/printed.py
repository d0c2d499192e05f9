"""Tables that several commands print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Group
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from polars import DataFrame

    from sober.results.runs import Runs

TITLED: dict[str, Any] = {"title_justify": "left", "title_style": "bold", "box": None, "header_style": "dim"}


def frame_table(frame: DataFrame, title: str, most: int = 40) -> Table:
    """A table of results, its first rows."""
    table = Table(title=title, **TITLED)
    for name, kind in frame.schema.items():
        table.add_column(name, justify="right" if kind.is_numeric() else "left", overflow="fold")
    for row in frame.head(most).iter_rows():
        table.add_row(
            *("" if cell is None else f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in row)
        )
    if len(frame) > most:
        table.caption = f"and {len(frame) - most:,} more rows"
    return table


def rows_table(rows: Sequence[Mapping[str, str]]) -> Table:
    """Rows that are already text, each key a column."""
    table = Table(box=None, header_style="dim")
    for name in rows[0] if rows else ():
        table.add_column(name, justify="right", overflow="fold")
    for row in rows:
        table.add_row(*row.values())
    return table


def board_table(runs: Runs, most: int = 12) -> Group:
    """Settings in rows, the median of each main score over seeds in columns; those first that no label chose."""
    shown = runs.headlines()
    sound = runs.sound()
    rows = []
    for world, setting in dict.fromkeys(zip(sound.about["world"], sound.about["setting"], strict=True)):
        at = ((sound.about["world"] == world) & (sound.about["setting"] == setting)).to_numpy()
        rows.append((world, setting, int(at.sum()), np.ma.median(sound.columns(shown)[at], axis=0)))
    if shown:
        sign = runs.numbers[shown[0]].sign or 1
        rows.sort(key=lambda row: float(np.ma.filled(-sign * row[3][:1], np.inf)[0]))
    table = Table(box=None, header_style="dim")
    table.add_column("world", style="dim")
    table.add_column("setting", style="cyan", no_wrap=True)
    for name in ("seeds", *shown):
        table.add_column(name.replace("_", " "), justify="right")
    for world, setting, seeds, medians in rows[:most]:
        cells = ("-" if value is np.ma.masked else f"{value:.2f}" for value in medians)
        table.add_row(world, setting, str(seeds), *cells)
    more = [Text(f"and {len(rows) - most} more settings, in the report", style="dim")] if len(rows) > most else []
    return Group(Text("medians over seeds", style="bold"), table, *more)
