"""The tables that `sober score` prints: the scores of one representation, or a few scores of each model of a folder."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

from sober.cli.printed import GAP, Column, FittedTable
from sober.errors import counted

if TYPE_CHECKING:
    import polars as pl

    from sober.metrics import Meaning, Scores
    from sober.metrics.scoring.score import ScoreRow
    from sober.requests.results import Results
    from sober.types import Run

FEW = 6  # scores of a folder's models that are all shown; of more, only the headline scores
MORE_SCORES = "--json prints them, --metrics NAME,NAME chooses a few"
LETTERS = "abcdefghijklmnopqrstuvwxyz"  # stand for flags where the terminal is too narrow for their names
ARROWS = {"higher": " ↑", "lower": " ↓", "neither": ""}


def meanings() -> dict[str, Meaning]:
    """Every score of a metric or a task with its meaning, in the order of tables."""
    from sober.metrics.registry import score_order
    from sober.tasks import TASKS

    return score_order() | {name: score for task in TASKS.values() for name, score in task.scores.items()}


class Layout(NamedTuple):
    """How much a table of scores says about each score. A narrower terminal gets a later layout of `LAYOUTS`."""

    names_flags: bool = True  # by their names; otherwise by letters, which are explained below the table
    digits: int = 4
    has_range: bool = True  # in a column; otherwise only an arrow beside the name


LAYOUTS = (Layout(), Layout(False), Layout(False, 3), Layout(False, 3, False))


def score_lines(scores: Scores, title: str, width: int) -> Iterator[FittedTable | Text]:
    """The scores of one representation as a table, and below it what its signs and flags mean."""
    from sober.metrics import FLAGS

    rows = scores.rows()
    flags = sorted({flag for row in rows for flag in row.flags})
    letters = dict(zip(flags, itertools.cycle(LETTERS)))
    for layout in LAYOUTS:
        names = {flag: flag if layout.names_flags else letters[flag] for flag in flags}
        table = _score_table(rows, names, layout, title)
        if _width(table) <= width:
            break
    yield table
    yield Text("↑ higher is better, ↓ lower", style="dim")
    for flag in flags:
        letter = "" if layout.names_flags else f"{names[flag]}  "
        yield Text.assemble((f"{letter}{flag}", "yellow"), f"  {FLAGS[flag]}")
    yield from remarks(scores)


def _score_table(rows: Sequence[ScoreRow], names: Mapping[str, str], layout: Layout, title: str) -> FittedTable:
    """A table of scores in one layout; `names` says how it writes each flag."""

    def number(value: float | None) -> str:
        return "" if value is None else f"{value:.{layout.digits}f}"

    def value_of(row: ScoreRow) -> str:
        is_count = meaning_of[row.name].better == "neither" and float(row.value).is_integer()
        return f"{row.value:.0f}" if is_count else number(row.value)

    meaning_of = meanings()
    columns = [Column("score", style="bold")]
    columns += [Column(heading, "right") for heading in ("value", "corrected", "±", "chance", "p", "range")]
    columns += [Column("flags", style="yellow", wraps=layout.names_flags)]
    cells = [
        [
            row.name + ("" if layout.has_range else ARROWS[meaning_of[row.name].better]),
            value_of(row),
            *map(number, (row.corrected, row.error, row.chance.mean if row.chance else None)),
            row.chance.p_text if row.chance else "",
            _range(meaning_of[row.name]) if layout.has_range else "",
            " ".join(names[flag] for flag in row.flags),
        ]
        for row in rows
    ]
    return FittedTable(columns, cells, title=title)


def _range(meaning: Meaning) -> str:
    low, high = (f"{end:g}" if math.isfinite(end) else "∞" if end > 0 else "-∞" for end in (meaning.low, meaning.high))
    return f"{low} to {high}{ARROWS[meaning.better]}"


def _width(table: FittedTable) -> int:
    """How wide a table is if no text is broken, without the columns in which every cell is empty."""
    columns = zip(table.columns, zip(*table.rows, strict=True), strict=True)
    widths = [max(len(column.heading), *map(len, cells)) + GAP for column, cells in columns if any(cells)]
    return sum(widths) - GAP


def remarks(scores: Scores) -> Iterator[Text]:
    """Remarks beside flags: factors that depend on each other, copies of scores, and metrics that were left out."""
    from sober.metrics.registry import distinct_scores

    if scores.dependence and scores.dependence.real:
        first, second = scores.dependence.pair
        share = f" depend: they share {scores.dependence.largest:.2f}"
        yield Text.assemble((first, "bold"), " and ", (second, "bold"), share)
    if equal := [f"{copy} = {name}" for name, copies in distinct_scores(scores).items() for copy in copies]:
        yield Text(f"not listed again, because equal by definition: {', '.join(equal)}", style="dim")
    if any(chance.is_least for chance in scores.chance.values()):
        shuffles = max(chance.shuffles for chance in scores.chance.values())
        yield Text(f"p ≤ 1/{1 + shuffles} is the smallest that {counted(shuffles, 'shuffle')} can give", style="dim")
    for name, reason in scores.left_out.items():
        yield Text.assemble((name, "bold"), f" was left out: {reason}")


def model_lines(results: Results, rows: pl.DataFrame) -> Iterator[FittedTable | Text]:
    """A row for each model and a column for each score; if there are many scores, only for the headline scores."""
    from sober.metrics import FLAGS
    from sober.metrics.registry import distinct_scores

    values: dict[str, dict[str, float]] = {}
    for run, name, value in rows.select("run", "metric", "value").iter_rows():
        values.setdefault(run, {})[name] = value
    names, meaning_of = list(distinct_scores(*values.values())), meanings()
    few = names if len(names) <= FEW else [name for name in names if name in meaning_of and meaning_of[name].headline]
    few = few or names[:FEW]
    flags: dict[str, set[str]] = {}
    for run, name, score_flags in rows.select("run", "metric", "flags").iter_rows():
        if name in few:
            flags.setdefault(run, set()).update(score_flags)
    columns = [Column("model", style="cyan", wraps=True), Column("seed", "right"), Column("run")]
    columns += [Column(_title(name, meaning_of), "right", optional=True) for name in few]
    columns += [Column("flags", style="yellow", wraps=True)]
    cells = [
        [
            results.words(run),
            str(run.seed),
            run.identity[:8],
            *(_cell(values.get(run.identity, {}).get(name)) for name in few),
            " ".join(sorted(flags.get(run.identity, ()))),
        ]
        for run in _by_setting(results)
    ]
    yield FittedTable(columns, cells, title=results.summary(), rest=MORE_SCORES)
    if hidden := len(names) - len(few):
        yield Text(f"{counted(hidden, 'more score')} of each model: {MORE_SCORES}", style="dim")
    for flag in sorted(set().union(*flags.values())):
        yield Text.assemble((flag, "yellow"), f"  {FLAGS[flag]}")


def _by_setting(results: Results) -> list[Run]:
    """The finished runs, those of one setting together."""
    settings = list(dict.fromkeys(map(results.words, results.finished)))
    return sorted(results.finished, key=lambda run: settings.index(results.words(run)))


def _title(name: str, meaning_of: Mapping[str, Meaning]) -> str:
    return meaning_of[name].title if name in meaning_of and meaning_of[name].title else name.replace("_", " ")


def _cell(number: float | None) -> str:
    return "-" if number is None else f"{number:.3f}"
