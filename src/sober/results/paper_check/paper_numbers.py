"""Our results beside the papers' numbers, cell by cell.

numbers.json holds the numbers that the papers print and for which our tables have a cell. Each item of each paper has:

    where        the page or section of the paper
    table        the name of our table, and `column` its column
    unit         the factor that turns the paper's numbers into ours
    printed_to   the last digit of the paper's numbers
    cells        [the row of our table, the number, its ± or null, {"note": ..., "printed_to": ...}]

The last two members of a cell may be missing. A row is given by columns and their values. A world is named without
options and views. A number of ours is named by its metric or criterion, or by {"is": METRIC, SETTING: VALUE, ...}.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from sober.errors import RequestError, listed
from sober.results.paper_check.checklist import find_paper
from sober.results.runs import USUAL_PRESET, Runs
from sober.results.stats import Interval
from sober.results.tables.estimates import RESAMPLES, mean_within
from sober.results.tables.registry import make_tables
from sober.results.tables.table import ResultTable
from sober.types import WorldSpec

if TYPE_CHECKING:
    import polars as pl

FILE = Path(__file__).with_name("numbers.json")
NUMBERS = ("metric", "criterion", "other")  # columns that hold names of numbers
LEAST_STEPS = 0.01  # as a share of a study's steps: models trained for fewer show only that the study runs
# A criterion of ours that is stricter than the paper's, and the criterion with the authors' own discriminator.
AS_IN_AUTHORS_CODE = {"pipe": "pipe_reference"}
GAP = 0.1  # of scores and correlations: a smaller difference from a paper does not matter

Match = Mapping[str, Any]
Verdict = Literal["agrees", "disagrees", "cannot tell"]


class PrintedNumber(NamedTuple):
    """A number that a paper prints, in our units."""

    match: Match
    value: float
    spread: float | None
    printed_to: float  # the last digit
    note: str


@dataclasses.dataclass(frozen=True)
class PaperNumbers:
    """The numbers of one table or figure of a paper."""

    paper: str
    item: str
    where: str
    table: str
    column: str
    cells: tuple[PrintedNumber, ...]


class ComparedNumber(NamedTuple):
    """A number that the paper prints, and ours. If ours is missing, `verdict` is None and `note` says why."""

    item: str
    what: str
    ours: float | None
    low: float | None
    high: float | None
    paper: float
    spread: float | None
    difference: float | None
    verdict: Verdict | None
    note: str


def compare(
    runs: Runs, paper: str, only: Sequence[str] = (), *, resamples: int = RESAMPLES
) -> tuple[list[ComparedNumber], list[ResultTable], dict[str, str]]:
    """Puts every number of a paper, or of the items in `only`, beside ours.

    Returns the compared numbers, our tables, and by name why other tables could not be made. `judged` says how the
    verdicts are reached.
    """
    names = [find_paper(paper).item(name).name for name in only]
    wanted = [numbers for numbers in numbers_of(paper) if not names or numbers.item in names]
    tables, lacking = make_tables(runs, list(dict.fromkeys(numbers.table for numbers in wanted)), resamples=resamples)
    frames = {table.table.name: table.frame for table in tables}
    beside = []
    for numbers in wanted:
        for cell in numbers.cells:
            if numbers.table in lacking:
                beside.append(_absent(numbers, cell, f"{numbers.table} {lacking[numbers.table]}"))
            else:
                beside.append(_beside(runs, frames[numbers.table], numbers, cell))
    return beside, tables, lacking


def _beside(runs: Runs, frame: pl.DataFrame, numbers: PaperNumbers, cell: PrintedNumber) -> ComparedNumber:
    match, note = _as_in_authors_code(runs, cell)
    rows, told_apart = _rows(runs, frame, match)
    if not rows:
        return _absent(numbers, cell, "no such row")
    if told_apart:
        return _absent(numbers, cell, f"several rows, which differ in {listed(told_apart)}")
    ours = _estimate(runs, rows, numbers.column)
    if ours.value is None:
        return _absent(numbers, cell, "not defined")
    difference = ours.value - cell.value
    row = row_in_words(cell.match)
    return ComparedNumber(numbers.item, row, *ours, cell.value, cell.spread, difference, judged(ours, cell), note)


def _as_in_authors_code(runs: Runs, cell: PrintedNumber) -> tuple[Match, str]:
    """The row whose level stands beside a cell, and the note: a criterion as in the authors' code, if it was computed.

    Without it Sober's own criterion is compared, and the note says that its levels differ.
    """
    name = cell.match.get("metric", "")
    reference = AS_IN_AUTHORS_CODE.get(name) if isinstance(name, str) else None
    if reference is None:
        return cell.match, cell.note
    if any(number.metric == reference for number in runs.numbers.values()):
        return {**cell.match, "metric": reference}, "; ".join(filter(None, (cell.note, f"ours is {reference}")))
    return cell.match, "; ".join(filter(None, (cell.note, f"ours is stricter: {reference} has the paper's levels")))


def judged(ours: Interval, paper: PrintedNumber) -> Verdict:
    """Whether our number agrees with the paper's.

    They disagree if our interval and the paper's do not overlap. The paper's interval is its ± and half of its last
    digit. They agree if the intervals overlap, and ours reaches no further from our number than the gap that matters.
    A wider interval overlaps with nearly everything, and without an interval nothing is known: these cannot tell.

    The gap that matters is 0.1, or half of the paper's number if that is less, or a tenth of it if that is more; but
    never less than the paper's last digit.
    """
    if ours.low is None or ours.high is None:
        return "cannot tell"
    half_width = (paper.spread or 0.0) + paper.printed_to / 2 + 1e-12
    if ours.low > paper.value + half_width or ours.high < paper.value - half_width:
        return "disagrees"
    size = abs(paper.value)
    gap = max(min(GAP, size / 2), GAP * size if size > 1 else 0.0, paper.printed_to)
    reach = max(ours.high - ours.value, ours.value - ours.low)
    return "agrees" if reach <= gap + 1e-12 else "cannot tell"


def _absent(numbers: PaperNumbers, cell: PrintedNumber, why: str) -> ComparedNumber:
    row = row_in_words(cell.match)
    return ComparedNumber(numbers.item, row, None, None, None, cell.value, cell.spread, None, None, why)


def _rows(runs: Runs, frame: pl.DataFrame, match: Match) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows of a table that match a cell, and the columns in which they differ: none, unless the cell is vague.

    Rows of different seeds do not count as different: their mean is compared. If a number was also
    measured with another preset, or with a setting that was added later, its plain version is compared.
    """
    rows = [row for row in frame.iter_rows(named=True) if all(_same(runs, row, *pair) for pair in match.items())]
    rows = _plainest(runs, rows)
    names = [name for name, kind in frame.schema.items() if not kind.is_float() and name not in ("seed", "run", "n")]
    return rows, [name for name in names if len({str(row[name]) for row in rows}) > 1]


def _plainest(runs: Runs, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of the usual preset, and of those the rows with the fewest settings; all rows if metrics differ."""
    numbers = [[runs.numbers[row[name]] for name in NUMBERS if row.get(name) in runs.numbers] for row in rows]
    if len({tuple(number.metric for number in numbers_of_row) for numbers_of_row in numbers}) != 1:
        return rows
    keys = [
        (
            [number.preset != USUAL_PRESET for number in numbers_of_row],
            [len(json.loads(number.settings)) for number in numbers_of_row],
            bool(row.get("settings")),
        )
        for row, numbers_of_row in zip(rows, numbers, strict=True)
    ]
    return [row for row, key in zip(rows, keys, strict=True) if key == min(keys)]


def _same(runs: Runs, row: Mapping[str, Any], column: str, wanted: Any) -> bool:
    """Whether a row's value in a column is the wanted one. A number of ours is compared by its metric and settings."""
    value = row[column]
    if column == "world":
        return WorldSpec.parse(value).name == wanted
    if column not in NUMBERS or value == wanted:
        return bool(value == wanted)
    number = runs.numbers.get(value)
    if number is None:
        return False
    named = wanted if isinstance(wanted, Mapping) else {"is": wanted}
    settings = {name: value for name, value in named.items() if name != "is"}
    return number.metric == named["is"] and _has(json.loads(number.settings), settings)


def _has(settings: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(settings.get(name) == value for name, value in wanted.items())


def _estimate(runs: Runs, rows: Sequence[Mapping[str, Any]], column: str) -> Interval:
    """The estimate in the only row; with a row for each seed, the mean over seeds."""
    values = [row[column] for row in rows if row[column] is not None]
    if len(rows) == 1 and column == "value":
        return Interval(rows[0]["value"], rows[0].get("low"), rows[0].get("high"))
    if not values:
        return Interval(None, None, None)
    score = "_".join(str(rows[0][name]) for name in ("metric", "quantity") if name in rows[0])
    return mean_within(values, runs.bounds(score))


def row_in_words(match: Match) -> str:
    """A row in words: `shapes3d, dava, only, mig`."""
    return ", ".join(_value_in_words(value) for value in match.values())


def _value_in_words(value: Any) -> str:
    if not isinstance(value, Mapping):
        return str(value)
    settings = ", ".join(str(setting) for name, setting in value.items() if name != "is")
    return f"{value['is']} ({settings})" if "is" in value else settings


def numbers_of(paper: str) -> tuple[PaperNumbers, ...]:
    """The numbers of a paper that can be compared with ours, item by item."""
    find_paper(paper)
    return tuple(_numbers(paper, item, fields) for item, fields in _file().get(paper, {}).items())


def _numbers(paper: str, item: str, fields: Mapping[str, Any]) -> PaperNumbers:
    unit, digit = fields.get("unit", 1), fields["printed_to"]
    cells = tuple(_printed(cell, unit, digit) for cell in fields["cells"])
    return PaperNumbers(paper, item, fields["where"], fields["table"], fields.get("column", "value"), cells)


def _printed(cell: Sequence[Any], unit: float, digit: float) -> PrintedNumber:
    match, value, *others = cell
    spread = others[0] if others else None
    remarks = others[1] if len(others) > 1 else {}
    in_units = None if spread is None else spread * unit
    printed_to = remarks.get("printed_to", digit) * unit
    return PrintedNumber(match, value * unit, in_units, printed_to, remarks.get("note", ""))


@functools.cache
def _file() -> dict[str, Any]:
    numbers: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return numbers


def refuse_short_training(steps: Iterable[int], study_steps: int, paper: str) -> None:
    """Refuses models that were hardly trained: they show that a study runs, but are no results to compare."""
    longest = max(steps, default=0)
    if longest < LEAST_STEPS * study_steps:
        raise RequestError(
            f"these models were trained for {longest:,} steps of the {study_steps:,} of {paper}: they show that it "
            "runs, and are no results to put beside the paper's; --anyway prints them all the same"
        )
