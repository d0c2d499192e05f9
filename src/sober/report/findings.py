"""What a study found, in sentences: numbers with their 95% intervals, and what these do not allow to say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy

from sober.errors import counted
from sober.methods import METHODS
from sober.results import Made, Runs, as_runs, make
from sober.results.request import LOOK

if TYPE_CHECKING:
    import polars as pl

FEW = 6  # runs below which a rank correlation says nothing, and even their range may miss the median
MANY_LOST = 0.1  # a share of diverged runs that a reader must know of early

Row = Mapping[str, Any]


class Results(NamedTuple):
    """What sentences are made of: runs, their tables by name, and the number and the world that speak for the rest."""

    runs: Runs
    tables: Mapping[str, pl.DataFrame]
    number: str
    world: str

    def rows(self, table: str, **where: str) -> list[Row]:
        """Rows of a table that have an estimate; none where the table could not be made."""
        if table not in self.tables:
            return []
        return list(self.tables[table].filter(**where).drop_nulls(["value", "low"]).iter_rows(named=True))

    def sign(self, name: str) -> int:
        """1 where higher is better, -1 where lower is, 0 where neither."""
        return self.runs.numbers[name].sign


def findings(data: pl.DataFrame | Runs, made: Sequence[Made] | None = None) -> list[str]:
    """Up to seven sentences on results, the most important first; from tables already made, or made here."""
    runs = as_runs(data)
    if only_a_look(runs):
        most = int(max(runs.labels("steps")))
        return [f"Models were trained for {counted(most, 'step')}: that shows that it runs, and nothing about models."]
    made = make(runs)[0] if made is None else made
    results = Results(runs, {each.table.name: each.frame for each in made}, runs.leading(), _main_world(runs))
    early = [_lost] if np.mean(runs.labels("diverged")) > MANY_LOST else []
    late = [] if early else [_lost]
    sentences: list[Callable[[Results], str | None]] = [
        *(_leads, *early, _variance, _criteria, _tasks, _transfer, _agreement, *late)
    ]
    said = [sentence for each in sentences if (sentence := each(results))]
    return said if len(said) > 2 else [*said, _held(runs)]


def only_a_look(runs: Runs) -> bool:
    """Whether models that learn step by step took so few that their numbers are no results."""
    pairs = zip(runs.labels("method"), runs.labels("steps"), strict=True)
    steps = [count for name, count in pairs if name not in METHODS or METHODS[name].losses > 0]
    return bool(steps) and max(steps) < LOOK


def _main_world(runs: Runs) -> str:
    """The one with the most runs that did not diverge."""
    labels = list(runs.sound().labels("world"))
    return max(runs.different("world"), key=labels.count)


def _leads(results: Results) -> str | None:
    number, world = results.number, results.world
    rows = results.rows("leaderboard", metric=number, world=world)
    sign = results.sign(number)
    if not rows or not sign:
        return None
    first, *others = rows
    if not others:
        return _only(results, first, sign)
    end, following = "highest" if sign > 0 else "lowest", others[0]
    lead = f"On {world}, {first['setting']} has the {end} median {number}: {_estimate(first, runs=True)}"
    next_one = (
        f"The next of {counted(len(rows), 'setting')}, {following['setting']}, has {_estimate(following, brief=True)}"
    )
    return f"{lead}. {next_one}: {_compared(first, following, sign)}.{_elsewhere(results, first['setting'])}"


def _only(results: Results, row: Row, sign: int) -> str:
    runs = results.runs.sound()
    runs = runs.where(runs.labels("world") == results.world)
    column = sign * runs.columns([results.number])[:, 0]
    best = int(np.ma.argmax(column))
    return (
        f"On {results.world}, {row['setting']} has a median {results.number} of {_estimate(row, runs=True)}; "
        f"the best run, that of seed {runs.labels('seed')[best]}, has {_number(sign * column[best])}."
    )


def _compared(first: Row, following: Row, sign: int) -> str:
    if min(first["n"], following["n"]) < 2:
        return "with a single run of a setting, no difference was found that another seed might not undo"
    apart = first["low"] > following["high"] if sign > 0 else first["high"] < following["low"]
    if not apart:
        return "the intervals overlap, so no difference was found"
    few = min(first["n"], following["n"]) < FEW
    return f"the intervals do not overlap{', but those of so few runs are too narrow' if few else ''}"


def _elsewhere(results: Results, setting: str) -> str:
    worlds = results.runs.different("world")
    if len(worlds) < 2:
        return ""
    leaders = [results.rows("leaderboard", metric=results.number, world=world)[:1] for world in worlds]
    count = sum(bool(rows) and rows[0]["setting"] == setting for rows in leaders)
    return f" It leads in {count} of {len(worlds)} worlds."


def _variance(results: Results) -> str | None:
    found = results.rows("objective_variance", metric=results.number, world=results.world)
    rows = {row["by"]: row for row in found if row["adjusted"] is not None}
    if set(rows) != {"method", "setting"}:
        return None
    method, setting = rows["method"], rows["setting"]
    chance = (method["groups"] - 1) / (method["n"] - 1)
    text = (
        f"On {results.world}, the method explains {_share(method)} of the variance of {results.number}, "
        f"and the setting, the method with its hyperparameters, {_share(setting, brief=True)}; "
        f"the remaining {1 - setting['value']:.0%} is the seed."
    )
    if method["low"] > chance:
        return text
    by_chance = f"Chance alone gives {counted(method['groups'], 'method')} {chance:.0%}"
    return f"{text} {by_chance}: no effect of the method was found."


def _criteria(results: Results) -> str | None:
    number, world = results.number, results.world
    rows = [
        (results.sign(row["criterion"]) * results.sign(number), row)
        for row in results.rows("criteria_against_metrics", metric=number, world=world)
        if row["n"] >= FEW and results.sign(row["criterion"])
    ]
    if not rows:
        return None
    sign, row = max(rows, key=lambda pair: pair[0] * pair[1]["value"])
    lower = " (lower is better)" if results.sign(row["criterion"]) < 0 else ""
    count = counted(len(rows), "such number")
    if _oriented(row, sign)[1] > 0:
        return (
            f"Without labels, {row['criterion']}{lower} ranks the runs on {world} as {number} does, the closest of "
            f"{count}: rank correlation {_estimate(row)}."
        )
    return (
        f"Nothing was found that ranks the runs on {world} as {number} does without labels: the closest of {count}, "
        f"{row['criterion']}{lower}, has a rank correlation of {_estimate(row)}."
    )


def _tasks(results: Results) -> str | None:
    """Whether the number that speaks for the others says what codes are good for."""
    number, world, leading = results.number, results.world, results.runs.leading_tasks()
    rows = [
        (results.sign(row["task"]) * results.sign(number), row)
        for row in results.rows("scores_against_tasks", score=number, world=world)
        if row["n"] >= FEW and row["task"] in leading and results.sign(row["task"])
    ]
    rows = [(sign, row) for sign, row in rows if sign]
    if not rows:
        return None
    helps = sum(_oriented(row, sign)[1] > 0 for sign, row in rows)
    row = max(rows, key=lambda pair: pair[0] * pair[1]["value"])[1]
    closest = f"{row['task']}, with a rank correlation of {_estimate(row)}"
    if not helps:
        return f"On {world}, no link was found between {number} and what codes are good for; closest is {closest}."
    return (
        f"On {world}, runs with a better {number} do better in {helps} of {counted(len(rows), 'number')} of tasks, "
        f"most in {closest}."
    )


def _transfer(results: Results) -> str | None:
    rows = {(row["metric"], row["world"]): row for row in results.rows("transfer")}
    row = rows.get(("different", "different"))
    if row is None:
        return None
    text = (
        "A setting chosen by one metric in one world does as well as a random one, by another metric in another world, "
        f"with probability {_share(row)}; chance is {row['chance']:.0%}"
    )
    if not row["low"] <= row["chance"] <= row["high"]:
        return f"{text}."
    same = rows.get(("same", "same"))
    kept = f" With the same metric and world it is {_share(same, brief=True)}." if same else ""
    return f"{text}: no transfer was found.{kept}"


def _agreement(results: Results) -> str | None:
    found = results.rows("metric_agreement", world=results.world)
    rows = [(results.sign(row["metric"]) * results.sign(row["other"]), row) for row in found if row["n"] >= FEW]
    rows = [(sign, row) for sign, row in rows if sign]
    if not rows:
        return None
    agree = sum(_oriented(row, sign)[1] > 0 for sign, row in rows)
    sign, least = min(rows, key=lambda pair: pair[0] * pair[1]["value"])
    low, high = _oriented(least, sign)[1:]
    verdict = "even these agree" if low > 0 else "these contradict each other" if high < 0 else "no agreement was found"
    return (
        f"On {results.world}, metrics agree in {agree:,} of {counted(len(rows), 'pair')}, least {least['metric']} with "
        f"{least['other']}: rank correlation {_estimate(least)}, {verdict}."
    )


def _lost(results: Results) -> str:
    runs = results.runs
    diverged = runs.labels("diverged")
    lost, total = int(diverged.sum()), len(diverged)
    low, high = scipy.stats.binomtest(lost, total).proportion_ci(method="wilson")
    flagged = int((runs.flagged.any(axis=1) & ~diverged).sum())
    others = (
        f"{counted(flagged, 'other run' if lost else 'run')} {'has' if flagged == 1 else 'have'} flags, which are kept"
    )
    between = f"95% interval of the share {_percent(low)} to {_percent(high)}"
    if not lost:
        return f"None of {counted(total, 'run')} diverged ({between}){'; ' + others if flagged else ''}."
    left_out = f"{lost:,} of {counted(total, 'run')} diverged and {'is' if lost == 1 else 'are'} left out"
    return f"{left_out} ({between}){'; ' + others if flagged else ''}."


def _held(runs: Runs) -> str:
    counts = [counted(len(runs.different(name)), name) for name in ("world", "method", "setting", "seed")]
    return f"All of this rests on {counted(len(runs.about), 'run')}: {', '.join(counts)}."


# Numbers in words.


def _oriented(row: Row, sign: int) -> tuple[float, float, float]:
    """Value, low and high of a correlation, turned so that agreement is positive."""
    low, high = sorted((sign * row["low"], sign * row["high"]))
    return sign * row["value"], low, high


def _estimate(row: Row, *, brief: bool = False, runs: bool = False) -> str:
    """`0.61 (95% interval 0.55 to 0.66, 6 runs)`; a single run has no interval, and says so."""
    if runs and row["n"] < 2:
        return f"{_number(row['value'])} (a single run, so no interval)"
    between = f"{'' if brief else '95% interval '}{_number(row['low'])} to {_number(row['high'])}"
    return f"{_number(row['value'])} ({between}{', ' + counted(row['n'], 'run') if runs else ''})"


def _share(row: Row, *, brief: bool = False) -> str:
    return f"{row['value']:.0%} ({'' if brief else '95% interval '}{row['low']:.0%} to {row['high']:.0%})"


def _percent(share: float) -> str:
    return f"{share:.2%}" if 0 < share < 0.01 else f"{share:.0%}"


def _number(value: float) -> str:
    """Two digits after the point, three for small numbers, none for large ones."""
    size = abs(value)
    text = f"{value:,.0f}" if size >= 1000 else f"{value:.3f}" if 0 < size < 0.095 else f"{value:.2f}"
    return text.replace("-", "−")
