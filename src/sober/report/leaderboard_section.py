"""The leaderboard of a report: the medians of all numbers for each setting, single runs if they are few, and flags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from sober.criteria.criterion import UNFIT
from sober.criteria.registry import CRITERIA
from sober.criteria.verdict import Verdict
from sober.errors import counted
from sober.metrics.common.flags import FLAGS
from sober.report.chosen_numbers import distinct_numbers
from sober.report.sortable_tables import Cell, Column, short, table
from sober.results import ResultTable, Runs
from sober.results.runs import VARIANT, preferred, score_meanings

if TYPE_CHECKING:
    import polars as pl

SETTINGS = 400  # the leaderboard shows no more settings than this
RUNS = 300  # with more runs than this, the report lists no single runs


def leaderboard(runs: Runs, board: ResultTable, verdicts: Mapping[str, Verdict] | None = None) -> str:
    """A row for each setting in each world: first the best setting of every world, then the second best, and so on.

    The setting of the model that a world's verdict names says how often that model came first. Without labels nothing
    else says how sure a choice is.
    """
    import polars as pl  # noqa: PLC0415

    verdicts = verdicts or {}
    names, lead = distinct_numbers(runs, runs.main_numbers()), runs.headline()
    chances = not verdicts or lead == runs.headline_metric()
    frames = board.frame.partition_by("world", "setting", as_dict=True)
    estimates = {key: {row["metric"]: row for row in frame.iter_rows(named=True)} for key, frame in frames.items()}
    placed = board.frame.filter(metric=lead).with_columns(place=pl.int_range(pl.len()).over("world"))
    keys = list(placed.sort("place", maintain_order=True).select("world", "setting").head(SETTINGS).iter_rows())
    cut = f" The table shows the {SETTINGS} best by {lead} of {len(estimates):,}." if len(estimates) > SETTINGS else ""
    explained = (
        f" “Best {lead}” is the probability that a run of the setting has the best {lead} if one run of each setting "
        "is drawn."
        if chances
        else ""
    )
    caption = (
        f"Medians over seeds, and below each its 95% interval. The best of each world stand first.{explained} † marks "
        f"flags.{cut} {board.caption}"
    )
    columns = [
        *_labels(runs),
        Column("runs", "runs that did not diverge"),
        Column("diverged", "runs that diverged, which are left out", "lower"),
        *([Column(f"best {lead}", f"probability to have the best {lead}", "higher")] if chances else []),
        *(_column(name, runs) for name in names),
    ]
    cells_of_rows = (
        _setting(key, estimates[key], names, lead if chances else "", _certainty(key, verdicts)) for key in keys
    )
    rows = [_without_world(cells, runs) for cells in cells_of_rows]
    return table(caption, columns, rows, "setting")


def _labels(runs: Runs) -> list[Column]:
    """The columns that say what a row is about. A single world needs no column."""
    names = ("setting", "world") if len(runs.unique("world")) > 1 else ("setting",)
    return [Column(name, number=False) for name in names]


def _without_world(cells: list[Cell], runs: Runs) -> list[Cell]:
    """A row without its second cell, the world, if all runs have the same world."""
    return cells if len(runs.unique("world")) > 1 else [cells[0], *cells[2:]]


def _certainty(key: tuple[str, str], verdicts: Mapping[str, Verdict]) -> str:
    """What the verdict says about a setting of a world; empty if it says nothing about it."""
    world, setting = key
    verdict = verdicts.get(world)
    if verdict is None or verdict.setting != setting:
        return ""
    if verdict.certainty is None:
        return "not trained far enough"
    placed = "use" if verdict.kind == "this one" else "undecided; best placed is"
    return f"{placed} seed {verdict.seed}: first in {verdict.certainty:.0%} of {verdict.draws} draws"


def _setting(
    key: tuple[str, str], estimates: dict[str, dict[str, Any]], names: Sequence[str], lead: str, certainty: str
) -> list[Cell]:
    """The cells of a setting's row; `estimates` are rows of the table by the name of the number.

    With a `lead`, one cell has the probability that the setting is the best by this number.
    """
    world, setting = key
    first = next(iter(estimates.values()))
    runs = max(row["n"] for row in estimates.values())
    cells = [Cell(setting, certainty), Cell(world), _count(runs), _count(first["diverged"])]
    if lead:
        best = estimates[lead]["best"] if lead in estimates else None
        cells.append(Cell("–") if best is None else Cell(f"{best:.0%}", value=best))
    return cells + [_median(estimates.get(name)) for name in names]


def _median(row: dict[str, Any] | None) -> Cell:
    if row is None or row["value"] is None:
        return Cell("–")
    between = "" if row["low"] is None or row["n"] < 2 else f"{short(row['low'])} to {short(row['high'])}"
    remark = f"{counted(row['flagged'], 'run')} flagged" if row["flagged"] else ""
    return Cell(short(row["value"]), between, row["value"], remark)


def _count(number: int) -> Cell:
    return Cell(f"{number:,}", value=number)


def _column(name: str, runs: Runs) -> Column:
    metric = runs.numbers[name].metric
    return Column(name, f"{metric}: {meaning(metric)}", runs.numbers[name].better)


def meaning(name: str) -> str:
    """The summary of a metric's score, a task's score or a criterion; empty if no registry has that name."""
    if (score_meaning := score_meanings().get(name)) is not None:
        return f"{score_meaning.summary} ({score_meaning})"
    return CRITERIA[name].summary if name in CRITERIA else ""


def every_run(runs: Runs, frame: pl.DataFrame) -> str:
    """A folded table of all runs with all numbers; if there are too many runs, a sentence instead."""
    if len(runs.run_frame) > RUNS:
        return (
            f"<p>Single runs are left out, as there are {len(runs.run_frame):,}. <code>scores.parquet</code> in the "
            "folder of results has all of them.</p>"
        )
    names = distinct_numbers(runs, runs.main_numbers())
    flags = _flags_of_runs(frame, runs)
    labels = runs.run_frame.select("run", "world", "setting", "seed").iter_rows()
    columns = [
        *_labels(runs),
        Column("seed"),
        Column("run", "identity of the run, as in scores.parquet", number=False),
        *(_column(name, runs) for name in names),
    ]
    rows = []
    for (run, world, setting, seed), values in zip(labels, runs.number_columns(names).tolist(), strict=True):
        cells = [_value(value, flags.get((run, name), "")) for name, value in zip(names, values, strict=True)]
        rows.append(_without_world([Cell(setting), Cell(world), Cell(str(seed), value=seed), Cell(run), *cells], runs))
    inner = table("Every run. † marks flags; the section Flags explains them.", columns, rows, "run")
    return f"<details><summary>{counted(len(rows), 'single run')}</summary>{inner}</details>"


def _value(value: float | None, flags: str) -> Cell:
    return Cell("–", remark=flags) if value is None else Cell(short(value), "", value, flags)


def _flags_of_runs(frame: pl.DataFrame, runs: Runs) -> dict[tuple[str, str], str]:
    """Flags by run and number, only for scores that the table shows."""
    names = {(number.metric, number.preset, number.settings): name for name, number in runs.numbers.items()}
    scores = preferred(frame)
    flagged = scores.filter(scores["flags"].list.len() > 0).select("run", *VARIANT, "flags")
    return {
        (run, names[metric, preset, settings]): " ".join(flags)
        for run, metric, preset, settings, flags in flagged.iter_rows()
    }


def flags(frame: pl.DataFrame) -> str:
    """The flags that scores have: what each means, and how many scores have it. Empty if no score has a flag."""
    import polars as pl  # noqa: PLC0415

    flagged = frame.select("run", "flags").explode("flags").drop_nulls("flags")
    if flagged.is_empty():
        return ""
    counts = flagged.group_by("flags").agg(pl.len(), pl.col("run").n_unique()).sort("flags").iter_rows()
    items = [
        f"<dt><code>{escape(flag)}</code></dt><dd>{escape({**UNFIT, **FLAGS}.get(flag, 'not a flag of Sober’s own'))} "
        f"<small>{counted(scores, 'score')} of {counted(flagged_runs, 'run')}</small></dd>"
        for flag, scores, flagged_runs in counts
    ]
    return f"<dl>{''.join(items)}</dl>"
