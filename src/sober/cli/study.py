"""`sober study`: list, plan, run and status."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from rich.console import Group
from rich.text import Text

from sober.cli.console import bar, console, indented, line
from sober.cli.main import command_line
from sober.cli.options import Folder, Out
from sober.cli.printed import Column, FittedTable, board_table, listed_items
from sober.defaults import STUDY_TOGETHER, Engine
from sober.errors import RequestError, counted, listed, shell_command

if TYPE_CHECKING:
    from sober.requests.status import Status
    from sober.requests.study.plan import Plan
    from sober.results.paper_check.checklist import Item, Verdict

StudyName = Annotated[str, Parameter(name="STUDY", help="A study that comes with Sober, or a Python file with one.")]


def list_() -> None:
    """List the studies that come with Sober.

    Example: `sober study list`
    """
    from sober.requests.study.plan import plan
    from sober.requests.study.study import find_study, shipped

    for name in shipped():
        study, _ = find_study(name)
        runs = len(plan(study).runs)
        scales = f"; scales: {listed(study.scales)}" if study.scales else ""
        console.print(line((name, "bold"), (f"  {counted(runs, 'run')}{scales}", "dim")))
        indented(study.title)
        indented(line((study.paper, "dim")))


def plan_(study: StudyName, /, *, scale: str | None = None, together: int = STUDY_TOGETHER) -> None:
    """Print the runs of a study, and how much time and disk they need. Nothing is run.

    For example:

    - `sober study plan sober_look`
    - `sober study plan sober_look --scale small`
    - `sober study plan mine.py`

    Parameters
    ----------
    scale
        A scale of the study, with fewer seeds or steps; `sober study list` names the scales.
    together
        How many models train at once, at most.
    """
    from sober.requests.study.makeable import makeable
    from sober.requests.study.plan import plan, time_in_words
    from sober.requests.study.study import find_study

    full_study, _ = find_study(study)
    planned = plan(full_study.scaled(scale), together)
    console.print(plan_table(planned))
    estimate = planned.estimate()
    where = "two CPU cores" if estimate.device == "cpu" else "one H200"
    size = f"{estimate.bytes / 2**30:.1f} GiB" if estimate.bytes > 2**30 else f"{estimate.bytes / 2**20:.0f} MiB"
    duration = time_in_words(estimate.seconds)
    console.print(line("\nabout ", (duration, "bold"), f" on {where} and ", (size, "bold"), " of disk"))
    if planned.study.scale:
        console.print(f"scale: {planned.study.scale}", style="yellow")
    if planned.missing:
        console.print(missing_worlds(planned.missing), style="yellow")
    if verdicts := makeable(planned):
        console.print("", makeable_table(verdicts))


def makeable_table(verdicts: list[tuple[Item, Verdict]]) -> FittedTable:
    """Which of the paper's tables and figures can be made, wholly, in part or not at all, and why."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for item, verdict in verdicts:
        kind: str = "nothing to run" if item.state == "nothing" else verdict.can
        reasons.setdefault((kind, "" if item.state == "nothing" else verdict.why), []).append(item.name)
    order = ("wholly", "in part", "not", "nothing to run")
    rows = [
        [kind, listed_items(names), why]
        for (kind, why), names in sorted(reasons.items(), key=lambda kind_and_names: order.index(kind_and_names[0][0]))
    ]
    title = f"what this plan makes of the paper's {len(verdicts)} tables, figures and algorithms"
    columns = [Column("made", style="cyan"), Column("items", wraps=True), Column("because", style="dim", wraps=True)]
    return FittedTable(columns, rows, title)


def run_(
    study: StudyName,
    /,
    *,
    out: Out,
    scale: str | None = None,
    engine: Engine = "local",
    workers: int = 1,
    together: int = STUDY_TOGETHER,
    address: str | None = None,
) -> None:
    """Run a study: train, score, judge without labels, and write the report. The same command goes on after a stop.

    Several processes, on one machine or on many that share the folder, may run the same command at once.

    For example:

    - `sober study run demo --out runs/demo`
    - `sober study run sober_look --scale small --out runs/sober_look`
    - `sober study run mine.py --out runs/mine --engine ray --address auto`

    Parameters
    ----------
    scale
        A scale of the study, with fewer seeds or steps; `sober study list` names the scales.
    engine
        local: this machine; ray: a Ray cluster whose machines share the folder.
    workers
        How many processes work on this machine.
    together
        How many models train at once, at most.
    address
        Address of the Ray cluster, or auto for a running cluster that Ray finds. By default, Ray starts a new cluster
        on this machine if it finds none.
    """
    run_and_say(study, out, scale=scale, engine=engine, workers=workers, together=together, address=address)


def run_and_say(name: str, out: Path, **settings: Any) -> None:
    """Runs a study and prints its results: a table, three findings, failures, and where the report is."""
    from sober.report.findings import findings, hardly_trained
    from sober.report.people_words import PeopleWords
    from sober.requests.study.study_engines import run_study
    from sober.results.runs import as_runs

    with bar() as watcher:
        results, failed = run_study(name, out, command=command_line(), watcher=watcher, **settings)
    table = results.table()
    if table.is_empty():
        raise RequestError(f"{out}: nothing could be trained: see {shell_command('sober', 'study', 'status', out)}")
    runs = as_runs(table)
    if not hardly_trained(runs):
        console.print("", board_table(PeopleWords.of(runs, table).in_runs(runs)), "")
    for number, sentence in enumerate(findings(table)[:3], start=1):
        console.print(line((number, "bold cyan"), f"  {sentence}"))
    for failure in failed:
        console.print(f"{failure.task} failed twice: {failure.error}", style="red", soft_wrap=True)
    console.print(line("\nthe report, to open in a browser: ", (results.report(), "bold")), soft_wrap=True)


def status_(folder: Folder, /) -> None:
    """Show what is done, running and failed in a folder of results, and how much longer training may take.

    Example: `sober study status runs/sober_look`
    """
    from sober.requests.status import status

    console.print(status_table(status(folder)))


def missing_worlds(missing: Iterable[str]) -> str:
    """Which worlds have files that are not on this machine."""
    return f"not here: {', '.join(missing)}; sober worlds NAME says what it needs and where to get that"


def plan_table(planned: Plan) -> FittedTable:
    """A table of how many runs each method has on each world."""
    from sober.setting_words import method_title

    methods = list(dict.fromkeys(cohort.runs[0].method for cohort in planned.cohorts))
    runs, cohorts = counted(len(planned.runs), "run"), counted(len(planned.cohorts), "cohort")
    columns = [
        Column("world", style="cyan"),
        Column("runs", "right"),
        *(Column(method_title(method), "right") for method in methods),
    ]
    rows = [
        [spec, f"{sum(runs_by_method.values()):,}", *(str(runs_by_method.get(method, "-")) for method in methods)]
        for spec, runs_by_method in planned.counts().items()
    ]
    return FittedTable(columns, rows, f"{planned.study.name}: {runs} in {cohorts}")


def status_table(progress: Status) -> Group:
    """A table of trained runs by world; below it, the work that is running, left and failed."""
    title = f"{progress.name}: {progress.trained:,} of {counted(progress.runs, 'run')} trained"
    columns = [Column("world", style="cyan"), Column("trained", "right"), Column("of", "right")]
    rows = [[spec, f"{trained:,}", f"{total:,}"] for spec, (trained, total) in progress.by_world.items()]
    below = [Text(f"{progress.rows:,} scores in the table")]
    if progress.scale:
        below.append(Text(f"scale: {progress.scale}", style="yellow"))
    notes = {note["task"]: note for note in progress.running}
    for holder in progress.claimed:
        note = notes.get(holder.name)
        stage = f"{note['what']} {note['done'] / max(note['total'], 1):.0%}" if note else "at work"
        below.append(Text(f"{holder.name}: {stage}, by process {holder.pid} on {holder.host}", style="cyan"))
    if (left := progress.seconds_left) is not None:
        below.append(Text(f"about {datetime.timedelta(seconds=round(left))} of training left at this pace"))
    below += [Text(missing_worlds(progress.missing), style="yellow")] if progress.missing else []
    for failure in progress.failed:
        runs = counted(len(failure.runs), "run")
        below.append(Text(f"{failure.task} ({runs}) failed {failure.tries} times: {failure.error}", style="red"))
    return Group(FittedTable(columns, rows, title), Text(""), *below)
