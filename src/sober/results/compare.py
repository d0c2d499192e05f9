"""Our results beside the papers' numbers, cell by cell.

numbers.json holds the numbers that the papers print and our tables have a cell for. By paper and item: `where` it
stands, the `table` and `column` of ours that it belongs beside, the `unit` that turns its numbers into ours, the last
digit that is `printed_to`, and `cells`, each of which is

    [the row of our table, the number, its ± or null, {"note": ..., "printed_to": ...}]

where the last two may be missing. A row is named by columns and their values. A world is named without options and
views. A number of ours is named by its metric or criterion, or by {"is": that, and settings that it must have}.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sober.errors import RequestError, listed
from sober.results.checklist import find_paper
from sober.results.papers import RESAMPLES, Made, make
from sober.results.runs import Runs
from sober.results.stats import Interval, mean_interval

if TYPE_CHECKING:
    import polars as pl

FILE = Path(__file__).with_name("numbers.json")
NUMBERS = ("metric", "criterion", "other")  # columns that hold names of numbers
SHARE = 0.01  # of a study's steps: models that were trained for less show that it runs, and nothing else

Match = Mapping[str, Any]


class Printed(NamedTuple):
    """A number that a paper prints, in our units."""

    match: Match
    value: float
    spread: float | None
    printed_to: float  # the last digit
    note: str


@dataclasses.dataclass(frozen=True)
class Numbers:
    """The numbers of one table or figure of a paper."""

    paper: str
    item: str
    where: str
    table: str
    column: str
    cells: tuple[Printed, ...]


class Beside(NamedTuple):
    """A printed number and ours. `within` is None where ours is not there, and then `note` says why."""

    item: str
    what: str
    ours: float | None
    low: float | None
    high: float | None
    paper: float
    spread: float | None
    difference: float | None
    within: bool | None
    note: str


def compare(
    runs: Runs, paper: str, only: Sequence[str] = (), *, resamples: int = RESAMPLES
) -> tuple[list[Beside], list[Made], dict[str, str]]:
    """Every number of a paper, or of some of its items, beside ours; the tables of ours; and what those lack.

    Ours is within where its interval and the paper's meet. The paper's reaches as far as its ±, and half of its last
    digit.
    """
    asked = [find_paper(paper).item(name).name for name in only]
    wanted = [numbers for numbers in numbers_of(paper) if not asked or numbers.item in asked]
    made, lacking = make(runs, list(dict.fromkeys(numbers.table for numbers in wanted)), resamples=resamples)
    frames = {each.table.name: each.frame for each in made}
    beside = []
    for numbers in wanted:
        for cell in numbers.cells:
            if numbers.table in lacking:
                beside.append(_absent(numbers, cell, f"{numbers.table} {lacking[numbers.table]}"))
            else:
                beside.append(_beside(runs, frames[numbers.table], numbers, cell))
    return beside, made, lacking


def _beside(runs: Runs, frame: pl.DataFrame, numbers: Numbers, cell: Printed) -> Beside:
    rows, told_apart = _rows(runs, frame, cell.match)
    if not rows:
        return _absent(numbers, cell, "no such row")
    if told_apart:
        return _absent(numbers, cell, f"several rows, which differ in {listed(told_apart)}")
    ours = _estimate(rows, numbers.column)
    if ours.value is None:
        return _absent(numbers, cell, "not defined")
    reach = (cell.spread or 0.0) + cell.printed_to / 2
    low, high = (ours.value if end is None else end for end in ours[1:])
    meet = low <= cell.value + reach + 1e-12 and high >= cell.value - reach - 1e-12
    difference = ours.value - cell.value
    return Beside(numbers.item, words(cell.match), *ours, cell.value, cell.spread, difference, meet, cell.note)


def _absent(numbers: Numbers, cell: Printed, why: str) -> Beside:
    what = words(cell.match)
    return Beside(numbers.item, what, None, None, None, cell.value, cell.spread, None, None, why)


def _rows(runs: Runs, frame: pl.DataFrame, match: Match) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows of a table that a cell is about, and what tells them apart, beside seeds: nothing, where all is well."""
    rows = [row for row in frame.iter_rows(named=True) if all(_same(runs, row, *pair) for pair in match.items())]
    names = [name for name, kind in frame.schema.items() if not kind.is_float() and name not in ("seed", "run", "n")]
    return rows, [name for name in names if len({str(row[name]) for row in rows}) > 1]


def _same(runs: Runs, row: Mapping[str, Any], column: str, wanted: Any) -> bool:
    there = row[column]
    if column == "world":
        return base_name(there) == wanted
    if column == "settings":
        return _has(json.loads(there), wanted)
    if column not in NUMBERS or there == wanted:
        return bool(there == wanted)
    number = runs.numbers.get(there)
    if number is None:
        return False
    named = wanted if isinstance(wanted, Mapping) else {"is": wanted}
    settings = {name: value for name, value in named.items() if name != "is"}
    return number.metric == named["is"] and _has(json.loads(number.settings), settings)


def _has(settings: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(settings.get(name) == value for name, value in wanted.items())


def base_name(world: str) -> str:
    """A world's name without its options and views."""
    return world.split(" | ", maxsplit=1)[0].partition(":")[0].strip()


def _estimate(rows: Sequence[Mapping[str, Any]], column: str) -> Interval:
    """The one row's estimate; where rows differ in seeds, their mean."""
    values = [row[column] for row in rows if row[column] is not None]
    if len(rows) == 1 and column == "value":
        return Interval(rows[0]["value"], rows[0].get("low"), rows[0].get("high"))
    return mean_interval(values) if values else Interval(None, None, None)


def words(match: Match) -> str:
    """A row in words: `shapes3d, dava, only, mig`."""
    return ", ".join(_said(value) for value in match.values())


def _said(value: Any) -> str:
    if not isinstance(value, Mapping):
        return str(value)
    settings = ", ".join(str(each) for name, each in value.items() if name != "is")
    return f"{value['is']} ({settings})" if "is" in value else settings


def numbers_of(paper: str) -> tuple[Numbers, ...]:
    """The numbers of a paper that ours can be put beside."""
    find_paper(paper)
    return tuple(_numbers(paper, item, entry) for item, entry in _file().get(paper, {}).items())


def _numbers(paper: str, item: str, entry: Mapping[str, Any]) -> Numbers:
    unit, digit = entry.get("unit", 1), entry["printed_to"]
    cells = tuple(_printed(cell, unit, digit) for cell in entry["cells"])
    return Numbers(paper, item, entry["where"], entry["table"], entry.get("column", "value"), cells)


def _printed(cell: Sequence[Any], unit: float, digit: float) -> Printed:
    match, value, *others = cell
    spread = others[0] if others else None
    about = others[1] if len(others) > 1 else {}
    in_units = None if spread is None else spread * unit
    return Printed(match, value * unit, in_units, about.get("printed_to", digit) * unit, about.get("note", ""))


@functools.cache
def _file() -> dict[str, Any]:
    numbers: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return numbers


def refuse_a_look(steps: Iterable[int], of_study: int, paper: str) -> None:
    """Refuses models that were hardly trained: they show that a study runs, and are no results to compare."""
    longest = max(steps, default=0)
    if longest < SHARE * of_study:
        raise RequestError(
            f"these models were trained for {longest:,} steps of the {of_study:,} of {paper}: that shows that it runs, "
            "and is no result to put beside the paper's; --anyway prints it all the same"
        )
