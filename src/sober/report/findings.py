"""What was found, in sentences: the verdict on models, then numbers with 95% intervals and what these leave open.

Sentences speak of a few chosen numbers, under their names for people.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy

from sober.criteria.verdict import Verdict
from sober.errors import counted
from sober.methods import METHODS
from sober.report.chosen_numbers import distinct_numbers
from sober.report.people_words import PeopleWords
from sober.report.sortable_tables import short
from sober.results import ResultTable, Runs, as_runs, make_tables
from sober.results.request import FEWEST_STEPS

if TYPE_CHECKING:
    import polars as pl

CHOSEN = 4  # metrics that sentences compare, at most
LABELLED = 2  # metrics in the sentence about a model that was chosen without labels
FEW = 6  # with fewer runs, a rank correlation says nothing, and the interval of a median is too narrow
MANY_DIVERGED = 0.1  # if a larger share of runs diverged, the second sentence says so

Row = Mapping[str, Any]


class Evidence(NamedTuple):
    """What sentences rest on: runs, their tables by name, and the number and the world that sentences are about."""

    runs: Runs
    tables: Mapping[str, pl.DataFrame]
    number: str
    world: str

    def rows(self, table: str, **where: str) -> list[Row]:
        """Rows of a table that have an estimate; none if there is no such table."""
        if table not in self.tables:
            return []
        return list(self.tables[table].filter(**where).drop_nulls(["value", "low"]).iter_rows(named=True))

    def sign(self, name: str) -> int:
        """1 if a higher number is better, -1 if a lower one is, 0 if neither is."""
        return self.runs.numbers[name].sign


def findings(table: pl.DataFrame) -> list[str]:
    """Up to seven sentences on the results in a table, the most important first."""
    runs = as_runs(table)
    if hardly_trained(runs):
        return findings_if_hardly_trained(runs)
    words = PeopleWords.of(runs, table)
    return findings_of(words.in_runs(runs), [words.in_table(result) for result in make_tables(runs)[0]])


def findings_of(
    runs: Runs, result_tables: Sequence[ResultTable], verdicts: Mapping[str, Verdict] | None = None
) -> list[str]:
    """The sentences on runs and their tables, both under names for people, and on verdicts by world.

    Nothing else ranks models without labels: the verdicts do.
    """
    verdicts = verdicts or {}
    frames = {result.table.name: result.frame for result in result_tables}
    evidence = Evidence(runs, frames, runs.headline(), _main_world(runs))
    first = verdict_sentences(verdicts, runs)
    if any(verdict.kind == "not trained far enough" for verdict in verdicts.values()):
        return [*first, *([_diverged(evidence)] if runs.run_column("diverged").any() else [])]
    labelled = evidence.number == runs.headline_metric()
    early = [_diverged] if np.mean(runs.run_column("diverged")) > MANY_DIVERGED else []
    late = [] if early or (verdicts and not runs.run_column("diverged").any()) else [_diverged]
    leads = [_leads] if labelled or not verdicts else []
    writers: list[Callable[[Evidence], str | None]] = [
        *(*leads, *early, _variance, _criteria, _tasks, _transfer, _agreement, *late)
    ]
    sentences = [sentence for writer in writers if (sentence := writer(evidence))]
    sentences = [*sentences[: len(leads)], *first, *sentences[len(leads) :]] if labelled else [*first, *sentences]
    return sentences if len(sentences) > 2 or verdicts else [*sentences, _counts(runs)]


def verdict_sentences(verdicts: Mapping[str, Verdict], runs: Runs) -> list[str]:
    """The sentences of each verdict, with its world if there are several. If there are labels, they end it."""
    sentences = {}
    for world, verdict in verdicts.items():
        by_labels = labels_sentence(runs, world, verdict)
        sentences[world] = f"{verdict.statement()} {by_labels}" if by_labels else verdict.sentence()
    if len(sentences) == 1:
        return list(sentences.values())
    return [f"{world}, without labels: {sentence}" for world, sentence in sentences.items()]


def labels_sentence(runs: Runs, world: str, verdict: Verdict) -> str:
    """The place, by labels, of the model that was placed first without them; empty if there are no labels."""
    of_world = runs.not_diverged()
    of_world = of_world.where(of_world.run_column("world") == world)
    placed = of_world.run_column("run") == verdict.run
    if verdict.certainty is None or not placed.any():
        return ""
    parts: list[str] = []
    for name in [name for name in distinct_numbers(runs, runs.metrics()) if runs.numbers[name].sign][:LABELLED]:
        values = of_world.oriented(name)
        value = values[placed][0]
        if value is not np.ma.masked:
            place = 1 + int((values > value).sum())
            among = "" if parts else f" of {values.count():,}"
            parts.append(f"{place}{among} by {name} ({short(runs.numbers[name].sign * value)})")
    return f"Labels, which the choice did not see, put it in place {' and '.join(parts)}." if parts else ""


def findings_if_hardly_trained(runs: Runs) -> list[str]:
    """The only sentence on models that took too few steps."""
    most = int(max(runs.run_column("steps")))
    return [f"Models were trained for {counted(most, 'step')}: that tests the code, but says nothing about models."]


def hardly_trained(runs: Runs) -> bool:
    """Whether the models that learn step by step took too few steps for their numbers to be results."""
    pairs = zip(runs.run_column("method"), runs.run_column("steps"), strict=True)
    steps = [count for name, count in pairs if name not in METHODS or METHODS[name].losses > 0]
    return bool(steps) and max(steps) < FEWEST_STEPS


def _main_world(runs: Runs) -> str:
    """The world with the most runs that did not diverge."""
    labels = list(runs.not_diverged().run_column("world"))
    return max(runs.unique("world"), key=labels.count)


def _leads(evidence: Evidence) -> str | None:
    number, world = evidence.number, evidence.world
    rows = evidence.rows("leaderboard", metric=number, world=world)
    sign = evidence.sign(number)
    if not rows or not sign:
        return None
    first, *others = rows
    if not others:
        return _only(evidence, first, sign)
    end, following = "highest" if sign > 0 else "lowest", others[0]
    lead = f"On {world}, {first['setting']} has the {end} median {number}: {_estimate(first, runs=True)}"
    next_one = (
        f"The next of {counted(len(rows), 'setting')}, {following['setting']}, has {_estimate(following, brief=True)}"
    )
    return f"{lead}. {next_one}: {_compared(first, following, sign)}.{_elsewhere(evidence, first['setting'])}"


def _only(evidence: Evidence, row: Row, sign: int) -> str:
    runs = evidence.runs.not_diverged()
    runs = runs.where(runs.run_column("world") == evidence.world)
    column = sign * runs.number_columns([evidence.number])[:, 0]
    best = int(np.ma.argmax(column))
    return (
        f"On {evidence.world}, {row['setting']} has a median {evidence.number} of {_estimate(row, runs=True)}; "
        f"the best run, with seed {runs.run_column('seed')[best]}, has {_number(sign * column[best])}."
    )


def _compared(first: Row, following: Row, sign: int) -> str:
    if min(first["n"], following["n"]) < 2:
        return "no difference was found, as another seed may undo what a single run of a setting shows"
    apart = first["low"] > following["high"] if sign > 0 else first["high"] < following["low"]
    if not apart:
        return "the intervals overlap, so no difference was found"
    if min(first["n"], following["n"]) < FEW:
        return f"the intervals do not overlap, but with fewer than {FEW} runs they are too narrow"
    return "the intervals do not overlap"


def _elsewhere(evidence: Evidence, setting: str) -> str:
    worlds = evidence.runs.unique("world")
    if len(worlds) < 2:
        return ""
    leaders = [evidence.rows("leaderboard", metric=evidence.number, world=world)[:1] for world in worlds]
    count = sum(bool(rows) and rows[0]["setting"] == setting for rows in leaders)
    return f" It leads in {count} of {len(worlds)} worlds."


def _variance(evidence: Evidence) -> str | None:
    shares = evidence.rows("objective_variance", metric=evidence.number, world=evidence.world)
    rows = {row["by"]: row for row in shares if row["adjusted"] is not None}
    if set(rows) != {"method", "setting"}:
        return None
    method, setting = rows["method"], rows["setting"]
    chance = (method["groups"] - 1) / (method["n"] - 1)
    text = (
        f"On {evidence.world}, the method explains {_share(method)} of the variance of {evidence.number}, "
        f"and the setting, a method with its hyperparameters, {_share(setting, brief=True)}; "
        f"the remaining {1 - setting['value']:.0%} is due to the seed."
    )
    if method["low"] > chance:
        return text
    by_chance = f"With {counted(method['groups'], 'method')}, chance alone explains {chance:.0%}"
    return f"{text} {by_chance}: no effect of the method was found."


def _criteria(evidence: Evidence) -> str | None:
    number, world = evidence.number, evidence.world
    rows = [
        (evidence.sign(row["criterion"]) * evidence.sign(number), row)
        for row in evidence.rows("criteria_against_metrics", metric=number, world=world)
        if row["n"] >= FEW and evidence.runs.numbers[row["criterion"]].kind == "criterion"
    ]
    rows = [(sign, row) for sign, row in rows if sign]
    if not rows:
        return None
    sign, row = max(rows, key=lambda pair: pair[0] * pair[1]["value"])
    lower = " (lower is better)" if evidence.sign(row["criterion"]) < 0 else ""
    closest = f", the closest of {len(rows)} criteria," if len(rows) > 1 else ""
    if _oriented(row, sign)[1] > 0:
        return (
            f"Without labels, {row['criterion']}{lower}{closest} ranks the runs on {world} as {number} does: rank "
            f"correlation {_estimate(row)}."
        )
    return (
        f"Nothing was found that ranks the runs on {world} as {number} does without labels: "
        f"{row['criterion']}{lower}{closest} has a rank correlation of {_estimate(row)}."
    )


def _tasks(evidence: Evidence) -> str | None:
    """Whether runs with a better number also do better in tasks."""
    number, world, leading = evidence.number, evidence.world, evidence.runs.headline_tasks()
    rows = [
        (evidence.sign(row["task"]) * evidence.sign(number), row)
        for row in evidence.rows("scores_against_tasks", score=number, world=world)
        if row["n"] >= FEW and row["task"] in leading and evidence.sign(row["task"])
    ]
    rows = [(sign, row) for sign, row in rows if sign]
    if not rows:
        return None
    helps = sum(_oriented(row, sign)[1] > 0 for sign, row in rows)
    row = max(rows, key=lambda pair: pair[0] * pair[1]["value"])[1]
    closest = f"{row['task']}, with a rank correlation of {_estimate(row)}"
    if not helps:
        return f"On {world}, no link was found between {number} and how well codes do in tasks; closest is {closest}."
    return (
        f"On {world}, runs with a better {number} do better in {helps} of {counted(len(rows), 'number')} from tasks, "
        f"most clearly in {closest}."
    )


def _transfer(evidence: Evidence) -> str | None:
    rows = {(row["metric"], row["world"]): row for row in evidence.rows("transfer")}
    row = rows.get(("different", "different"))
    if row is None:
        return None
    text = (
        "A setting chosen by one metric in one world does at least as well as a random setting, by another metric in "
        f"another world, with probability {_share(row)}; chance is {row['chance']:.0%}"
    )
    if not row["low"] <= row["chance"] <= row["high"]:
        return f"{text}."
    same = rows.get(("same", "same"))
    without_transfer = f" With the same metric and world it is {_share(same, brief=True)}." if same else ""
    return f"{text}: no transfer was found.{without_transfer}"


def _agreement(evidence: Evidence) -> str | None:
    """Whether the chosen metrics rank runs alike."""
    runs = evidence.runs
    chosen = [name for name in distinct_numbers(runs, runs.metrics()) if runs.numbers[name].sign][:CHOSEN]
    rows = [
        (evidence.sign(row["metric"]) * evidence.sign(row["other"]), row)
        for row in evidence.rows("metric_agreement", world=evidence.world)
        if row["n"] >= FEW and row["metric"] in chosen and row["other"] in chosen
    ]
    if not rows:
        return None
    sign, least = min(rows, key=lambda pair: pair[0] * pair[1]["value"])
    low, high = _oriented(least, sign)[1:]
    pair = f"{least['metric']} and {least['other']}"
    verdict = "they agree" if low > 0 else "they contradict each other" if high < 0 else "no agreement was found"
    if len(rows) == 1:
        return f"On {evidence.world}, {pair} have a rank correlation of {_estimate(least)}: {verdict}."
    among = f"{', '.join(chosen[:-1])} and {chosen[-1]}"
    return (
        f"On {evidence.world}, of {among}, {pair} agree least: rank correlation {_estimate(least)}, "
        f"{verdict.replace('they agree', 'and even these agree')}."
    )


def _diverged(evidence: Evidence) -> str:
    runs = evidence.runs
    diverged = runs.run_column("diverged")
    count, total = int(diverged.sum()), len(diverged)
    low, high = scipy.stats.binomtest(count, total).proportion_ci(method="wilson")
    flagged = int((runs.flagged.any(axis=1) & ~diverged).sum())
    noun, verbs = "other run" if count else "run", "has flags and is" if flagged == 1 else "have flags and are"
    others = f"; {counted(flagged, noun)} {verbs} kept" if flagged else ""
    between = f"95% interval of the share {_percent(low)} to {_percent(high)}"
    if not count:
        return f"None of {counted(total, 'run')} diverged ({between}){others}."
    left_out = f"{count:,} of {counted(total, 'run')} diverged and {'is' if count == 1 else 'are'} left out"
    return f"{left_out} ({between}){others}."


def _counts(runs: Runs) -> str:
    counts = [counted(len(runs.unique(name)), name) for name in ("world", "method", "setting", "seed")]
    return f"These results come from {counted(len(runs.run_frame), 'run')}: {', '.join(counts)}."


# Numbers in words.


def _oriented(row: Row, sign: int) -> tuple[float, float, float]:
    """Value, low and high of a correlation, with its sign turned if agreement would be negative."""
    low, high = sorted((sign * row["low"], sign * row["high"]))
    return sign * row["value"], low, high


def _estimate(row: Row, *, brief: bool = False, runs: bool = False) -> str:
    """`0.61 (95% interval 0.55 to 0.66, 6 runs)`; for a single run it says that there is no interval."""
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
