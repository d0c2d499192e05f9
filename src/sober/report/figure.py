"""A figure of a report: how to read it, and the rows of its panels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sober.report.charts import Chart, Row

Key = tuple[str, ...]


class Figure(NamedTuple):
    """A figure: how to read it, what it was made of, and for each choice of `by` the rows of a panel."""

    name: str
    title: str
    says: str
    caption: str
    chart: Chart
    by: Key
    panels: Mapping[Key, list[Row]]

    @property
    def choices(self) -> list[list[str]]:
        """What there is to choose from, for each of `by`."""
        return [list(dict.fromkeys(values)) for values in zip(*self.panels, strict=True)]

    @property
    def columns(self) -> int:
        """How many columns of numbers its widest panel has; 0 where it has none."""
        return max(len({row["column"] for row in rows if "column" in row}) for rows in self.panels.values())

    def letters(self, field: str) -> int:
        """How many letters the longest name in a field of its rows has; 0 where it has none."""
        return max((len(str(row[field])) for rows in self.panels.values() for row in rows if field in row), default=0)
