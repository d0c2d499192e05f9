"""The leaderboard of a report: settings with the medians of all numbers, single runs where they are few, and flags."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from sober.criteria.criterion import UNFIT
from sober.criteria.registry import CRITERIA
from sober.errors import counted
from sober.metrics.metric import FLAGS
from sober.report.sortable import Cell, Column, short, table
from sober.results import Made, Runs
from sober.results.runs import VARIANT, meanings, preferred

if TYPE_CHECKING:
    import polars as pl

SETTINGS = 400  # that the table has room for
RUNS = 300


def leaderboard(runs: Runs, board: Made) -> str:
    """Each setting in each world, the best by the leading number first, in turn from every world."""
    import polars as pl  # noqa: PLC0415

    names, lead = runs.ordered(runs.whole()), runs.leading()
    rows = board.frame.partition_by("world", "setting", as_dict=True)
    found = {key: {row["metric"]: row for row in part.iter_rows(named=True)} for key, part in rows.items()}
    placed = board.frame.filter(metric=lead).with_columns(place=pl.int_range(pl.len()).over("world"))
    shown = list(placed.sort("place", maintain_order=True).select("world", "setting").head(SETTINGS).iter_rows())
    cut = f" The {SETTINGS} best by {lead} of {len(found):,} are shown." if len(found) > SETTINGS else ""
    caption = (
        "Medians over seeds, and below each its 95% interval. The best of each world stand first. “Best” is the "
        f"probability that a run of the setting has the best {lead} when one run of each is drawn. † marks flags.{cut} "
        + board.caption
    )
    columns = [
        *(Column(name, number=False) for name in ("setting", "world")),
        Column("runs", "runs that did not diverge"),
        Column("diverged", "runs that diverged, which are left out", "lower"),
        Column("best", f"probability to have the best {lead}", "higher"),
        *(_column(name, runs) for name in names),
    ]
    return table(caption, columns, [_setting(key, found[key], names, lead) for key in shown], "setting")


def _setting(key: tuple[str, str], found: dict[str, dict[str, Any]], names: Sequence[str], lead: str) -> list[Cell]:
    world, setting = key
    first = next(iter(found.values()))
    runs = max(row["n"] for row in found.values())
    best = found[lead]["best"] if lead in found else None
    cells = [Cell(setting), Cell(world), _count(runs), _count(first["diverged"])]
    cells.append(Cell("–") if best is None else Cell(f"{best:.0%}", value=best))
    return cells + [_median(found.get(name)) for name in names]


def _median(row: dict[str, Any] | None) -> Cell:
    if row is None or row["value"] is None:
        return Cell("–")
    between = "" if row["low"] is None or row["n"] < 2 else f"{short(row['low'])} to {short(row['high'])}"
    remark = f"{counted(row['flagged'], 'run')} flagged" if row["flagged"] else ""
    return Cell(short(row["value"]), between, row["value"], remark)


def _count(number: int) -> Cell:
    return Cell(f"{number:,}", value=number)


def _column(name: str, runs: Runs) -> Column:
    return Column(name, meaning(runs.numbers[name].metric), runs.numbers[name].better)


def meaning(known: str) -> str:
    """What a metric, task or criterion says, from its registry; nothing for those of others."""
    if (about := meanings().get(known)) is not None:
        return f"{about.summary} ({about})"
    return f"{CRITERIA[known].summary}" if known in CRITERIA else ""


def every_run(runs: Runs, frame: pl.DataFrame) -> str:
    """All runs with all numbers, below a fold; nothing but a sentence where they are too many."""
    if len(runs.about) > RUNS:
        return (
            f"<p>Single runs are left out, as there are {len(runs.about):,}: they are all in the store, in "
            "<code>scores.parquet</code>.</p>"
        )
    names = runs.ordered(runs.whole())
    flags = _flags_of_runs(frame, runs)
    about = runs.about.select("run", "world", "setting", "seed").iter_rows()
    columns = [
        *(Column(name, number=False) for name in ("setting", "world")),
        Column("seed"),
        Column("run", "identity of the run, as in the store", number=False),
        *(_column(name, runs) for name in names),
    ]
    rows = []
    for (run, world, setting, seed), values in zip(about, runs.columns(names).tolist(), strict=True):
        cells = [_value(value, flags.get((run, name), "")) for name, value in zip(names, values, strict=True)]
        rows.append([Cell(setting), Cell(world), Cell(str(seed), value=seed), Cell(run), *cells])
    inner = table("Every run. † marks flags, which are explained below.", columns, rows, "run")
    return f"<details><summary>{counted(len(rows), 'single run')}</summary>{inner}</details>"


def _value(value: float | None, flags: str) -> Cell:
    return Cell("–", remark=flags) if value is None else Cell(short(value), "", value, flags)


def _flags_of_runs(frame: pl.DataFrame, runs: Runs) -> dict[tuple[str, str], str]:
    """Flags by run and number, of the scores that are shown."""
    names = {(number.metric, number.preset, number.settings): name for name, number in runs.numbers.items()}
    shown = preferred(frame)
    flagged = shown.filter(shown["flags"].list.len() > 0).select("run", *VARIANT, "flags")
    return {
        (run, names[metric, preset, settings]): " ".join(flags)
        for run, metric, preset, settings, flags in flagged.iter_rows()
    }


def flags(frame: pl.DataFrame) -> str:
    """Flags that occur, with what they say and how often they do."""
    import polars as pl  # noqa: PLC0415

    words = frame.select("run", "flags").explode("flags").drop_nulls("flags")
    if words.is_empty():
        return "<p>No score has a flag.</p>"
    counts = words.group_by("flags").agg(pl.len(), pl.col("run").n_unique()).sort("flags").iter_rows()
    items = [
        f"<dt><code>{escape(flag)}</code></dt><dd>{escape({**UNFIT, **FLAGS}.get(flag, 'not a flag of Sober’s own'))} "
        f"<small>{counted(scores, 'score')} of {counted(of_runs, 'run')}</small></dd>"
        for flag, scores, of_runs in counts
    ]
    return f"<dl>{''.join(items)}</dl>"
