"""A figure of a report: its title, how to read it, and the rows of its panels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sober.report.charts import Chart, Row

Key = tuple[str, ...]


class Figure(NamedTuple):
    """A figure: how to read it, a caption that says what it was made from, and the rows of each panel.

    A reader chooses a panel by the fields in `by`; keys of `panels` are their values.
    """

    name: str
    title: str
    how_to_read: str
    caption: str
    chart: Chart
    by: Key
    panels: Mapping[Key, list[Row]]

    @property
    def choices(self) -> list[list[str]]:
        """The values to choose from, for each field in `by`."""
        return [list(dict.fromkeys(values)) for values in zip(*self.panels, strict=True)]

    @property
    def columns(self) -> int:
        """The number of columns in the widest panel; 0 if panels have no columns."""
        return max(len({row["column"] for row in rows if "column" in row}) for rows in self.panels.values())

    def letters(self, field: str) -> int:
        """The number of letters in the longest name in a field of rows; 0 if no row has the field."""
        return max((len(str(row[field])) for rows in self.panels.values() for row in rows if field in row), default=0)
