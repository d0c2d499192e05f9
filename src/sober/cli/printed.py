"""Tables that several commands print. Each fits the terminal: `FittedTable` chooses a layout by its width."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sober.errors import counted

if TYPE_CHECKING:
    from polars import DataFrame

    from sober.results.runs import Runs

GAP = 2  # spaces between two columns
WRAPPED = 16  # the narrowest column of text that is broken into lines, if none of its words is longer
FEWEST = 3  # the fewest optional columns that a table is worth; with fewer, each row gets lines of its own
MOST = 8  # the most optional columns that a row on lines of its own shows
NAMES = 3  # the most columns of text at the beginning of a row that name it
NAMED = 6  # the most names of left out columns that a note gives
WIDER = "a wider terminal shows them"


class Column(NamedTuple):
    """A column of a printed table, and what may happen to it in a narrow terminal."""

    heading: str
    justify: Literal["left", "right"] = "left"
    style: str = ""
    wraps: bool = False  # its text may be broken into lines, between words
    optional: bool = False  # may be left out; a note then says which columns are missing


@dataclasses.dataclass(frozen=True)
class FittedTable:
    """A table that fits the terminal.

    It uses the first layout that is narrow enough: all columns; without the columns whose cells are all the same, which
    a line above the table then states; with text broken into lines; without the last optional columns; at last, each
    row on lines of its own, below its name. Cells are plain text, without markup. The columns of text before the first
    column of numbers name a row.
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]
    title: str = ""
    rest: str = WIDER  # where a person reads the columns that do not fit

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.title:
            yield Text(self.title, style="bold")
        yield from self._layout(options.max_width)

    def __repr__(self) -> str:
        return f"FittedTable({counted(len(self.columns), 'column')}, {counted(len(self.rows), 'row')})"

    def _layout(self, room: int) -> Iterator[Table | Text | Padding]:
        places = [place for place, _ in enumerate(self.columns) if self._says_anything(place)]
        if sum(map(self._widest, places)) + GAP * (len(places) - 1) <= room:
            yield self._table(places, room)
            return
        places, repeated = self._without_repetition(places)
        if repeated:
            pairs = [(self.columns[place].heading, _in_a_line(self.rows[0][place])) for place in repeated]
            yield _packed([(f"every row: {pairs[0][0]}", pairs[0][1]), *pairs[1:]], room)
        table_places = self._that_fit(places, room)
        left_out = [place for place in places if place not in table_places]
        if table_places:
            yield self._table(table_places, room)
        else:
            left_out = self._optional(places)[MOST:]
            yield from self._lines([place for place in places if place not in left_out], room)
        if left_out:
            yield Text(self._note([self.columns[place].heading for place in left_out]), style="dim")

    def _says_anything(self, place: int) -> bool:
        return not self.rows or any(row[place] for row in self.rows)

    def _without_repetition(self, places: Sequence[int]) -> tuple[list[int], list[int]]:
        """Columns with different cells, and columns in which all rows have one cell."""
        repeated = [place for place in places if len(self.rows) > 1 and len({row[place] for row in self.rows}) == 1]
        different = [place for place in places if place not in repeated]
        return (different, repeated) if different else (list(places), [])

    def _optional(self, places: Sequence[int]) -> list[int]:
        return [place for place in places if self.columns[place].optional]

    def _that_fit(self, places: Sequence[int], room: int) -> list[int]:
        """The columns of a table that is narrow enough. None if too few optional columns would be left."""
        fitting = list(places)
        fewest = max(0, min(FEWEST, len(self._optional(places)) - 1))
        while self._width(fitting) > room:
            optional = self._optional(fitting)
            if len(optional) <= fewest:
                return []
            fitting.remove(optional[-1])
        return fitting

    def _widest(self, place: int) -> int:
        """The width of a column in which nothing is broken but the heading, between words."""
        cells = [line for row in self.rows for line in row[place].splitlines()]
        return max(map(cell_len, [*cells, *self.columns[place].heading.split()]), default=0)

    def _narrowest(self, place: int) -> int:
        widest = self._widest(place)
        if not self.columns[place].wraps:
            return widest
        words = [word for row in self.rows for word in row[place].split()]
        return min(widest, max(map(cell_len, [*words, *self.columns[place].heading.split(), " " * WRAPPED])))

    def _width(self, places: Sequence[int]) -> int:
        return sum(map(self._narrowest, places)) + GAP * (len(places) - 1)

    def _table(self, places: Sequence[int], room: int) -> Table:
        """The table of some columns. Columns of text share the room that the others leave."""
        widths = {place: self._narrowest(place) for place in places}
        free = room - self._width(places)
        while free and (narrow := [place for place in places if widths[place] < self._widest(place)]):
            most_broken = max(narrow, key=lambda place: self._widest(place) / widths[place])
            widths[most_broken], free = widths[most_broken] + 1, free - 1
        table = Table(box=None, header_style="dim", pad_edge=False, padding=(0, GAP, 0, 0), show_edge=False)
        for place in places:
            column = self.columns[place]
            heading = max(cell_len(column.heading), widths[place])
            widths[place], free = min(heading, widths[place] + free), free - min(heading - widths[place], free)
            table.add_column(
                Text(column.heading), justify=column.justify, style=column.style, width=widths[place], overflow="fold"
            )
        for row in self.rows:
            table.add_row(*(Text(row[place]) for place in places))
        return table

    def _lines(self, places: Sequence[int], room: int) -> Iterator[Text | Padding]:
        """Each row on lines of its own: its name, and below it the heading and the cell of every other column."""
        name_places = list(itertools.takewhile(lambda place: self.columns[place].justify == "left", places))[:NAMES]
        name_places = name_places or list(places[:1])
        for row in self.rows:
            names = [_in_a_line(row[place]) for place in name_places]
            yield Text(" · ".join(filter(None, names)), style=self.columns[name_places[0]].style or "bold")
            pairs = [(self.columns[place].heading, _in_a_line(row[place])) for place in places[len(name_places) :]]
            yield Padding(_packed([pair for pair in pairs if pair[1]], room - 2), (0, 0, 0, 2), expand=False)

    def _note(self, headings: Sequence[str]) -> str:
        names = ", ".join(headings[:NAMED]) + (", …" if len(headings) > NAMED else "")
        return f"{counted(len(headings), 'more column')} ({names}): {self.rest}"


def _in_a_line(cell: str) -> str:
    return ", ".join(cell.splitlines())


def _packed(pairs: Sequence[tuple[str, str]], room: int) -> Text:
    """Headings and cells in as few lines as they need. A line is never broken inside a pair that fits a line."""
    packed, used = Text(), 0
    for heading, cell in pairs:
        pair = Text.assemble((heading, "dim"), " " if heading else "", cell)
        if used and used + 3 + pair.cell_len > room:
            packed.append("\n")
            used = 0
        elif used:
            packed.append(" · ", style="dim")
            used += 3
        packed.append_text(pair)
        used += pair.cell_len
    return packed


def more_rows(hidden: int, where: str) -> Text:
    """A note below a table that does not show all of its rows."""
    return Text(f"and {counted(hidden, 'more row')}: {where}", style="dim")


def listed_items(names: Sequence[str]) -> str:
    """Names of tables and figures, with their kind once: `Figure 1, 2, 3, Table 5a`."""
    kinds = itertools.groupby(names, key=lambda name: name.rpartition(" ")[0])
    return "; ".join(f"{kind} {', '.join(name.rpartition(' ')[2] for name in alike)}".strip() for kind, alike in kinds)


def frame_table(frame: DataFrame, title: str, where: str, most: int = 20) -> Group:
    """The first rows of a data frame. `where` says where the others are."""
    columns = [
        Column(name.replace("_", " "), "right" if kind.is_numeric() else "left", wraps=not kind.is_numeric())
        for name, kind in frame.schema.items()
    ]
    rows = [[_cell(value) for value in row] for row in frame.head(most).iter_rows()]
    more = [more_rows(len(frame) - most, where)] if len(frame) > most else []
    return Group(FittedTable(columns, rows, title), *more)


def _cell(value: object) -> str:
    return "" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)


def rows_table(rows: Sequence[Mapping[str, str]]) -> FittedTable:
    """A table of rows that are already text. The keys of a row are its columns."""
    return FittedTable([Column(name, "right") for name in (rows[0] if rows else ())], [[*row.values()] for row in rows])


def board_table(runs: Runs, most: int = 12) -> Group:
    """Settings in rows, the median of each main score over seeds in columns. The first score sorts the rows."""
    import numpy as np

    scores = runs.summary_numbers()
    sound = runs.not_diverged()
    rows = []
    for world, setting in dict.fromkeys(zip(sound.run_frame["world"], sound.run_frame["setting"], strict=True)):
        in_setting = ((sound.run_frame["world"] == world) & (sound.run_frame["setting"] == setting)).to_numpy()
        medians = np.ma.median(sound.number_columns(scores)[in_setting], axis=0)
        rows.append((world, setting, int(in_setting.sum()), medians))
    if scores:
        sign = runs.numbers[scores[0]].sign or 1
        rows.sort(key=lambda row: float(np.ma.filled(-sign * row[3][:1], np.inf)[0]))
    columns = [Column("setting", style="cyan", wraps=True), Column("world"), Column("seeds", "right")]
    columns += [Column(name.replace("_", " "), "right", optional=True) for name in scores]
    cells = [
        [setting, world, str(seeds), *("-" if value is np.ma.masked else f"{value:.2f}" for value in medians)]
        for world, setting, seeds, medians in rows[:most]
    ]
    more = [more_rows(len(rows) - most, "the report has all of them")] if len(rows) > most else []
    table = FittedTable(columns, cells, "medians over seeds", rest="the report has all of them")
    return Group(table, *more)
