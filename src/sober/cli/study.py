"""`sober study`: list, plan, run and status."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.console import Group
from rich.table import Table
from rich.text import Text

from sober.cli.console import bar, console, indented
from sober.cli.main import command_line
from sober.cli.options import Folder, Out
from sober.cli.printed import board_table
from sober.errors import RequestError, counted, listed
from sober.report.findings import findings, only_a_look
from sober.results.checklist import Item, Verdict
from sober.results.runs import as_runs
from sober.workflows.makeable import makeable
from sober.workflows.plan import TOGETHER, Plan, hours, plan
from sober.workflows.run import Engine, run
from sober.workflows.status import Status, status
from sober.workflows.study import find_study, shipped

StudyName = Annotated[str, Parameter(name="STUDY", help="A study that comes with Sober, or a Python file with one.")]


def list_() -> None:
    """List the studies that come with Sober.

    Example: `sober study list`
    """
    for name in shipped():
        study, _ = find_study(name)
        runs = len(plan(study).runs)
        console.print(f"[bold]{name}[/]  {study.title} [dim]({counted(runs, 'run')})[/]")
        indented(f"[dim]{study.paper}; scales: {listed(study.scales) or 'none'}[/]")


def plan_(study: StudyName, /, *, scale: str | None = None, together: int = TOGETHER) -> None:
    """Print what a study will do, and what that costs; run nothing.

    Examples: `sober study plan sober_look` · `sober study plan sober_look --scale small` · `sober study plan mine.py`

    Parameters
    ----------
    scale
        One of the study's scales: fewer seeds or steps.
    together
        How many models train at once, at most.
    """
    found, _ = find_study(study)
    planned = plan(found.scaled(scale), together)
    console.print(plan_table(planned))
    estimate = planned.estimate()
    where = "two CPU cores" if estimate.device == "cpu" else "one H200"
    size = f"{estimate.bytes / 2**30:.1f} GiB" if estimate.bytes > 2**30 else f"{estimate.bytes / 2**20:.0f} MiB"
    console.print(f"\nabout [bold]{hours(estimate.seconds)}[/] on {where} and [bold]{size}[/] of disk")
    if planned.study.scale:
        console.print(f"[yellow]scale: {planned.study.scale}[/]")
    for label, why in planned.missing.items():
        console.print(f"[yellow]{label} is not here: {why}[/]", soft_wrap=True)
    if verdicts := makeable(planned):
        console.print("", makeable_table(verdicts))


def makeable_table(verdicts: list[tuple[Item, Verdict]]) -> Group:
    """Which of the paper's tables and figures can be made; those that cannot, or only in part, by the reason."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for item, verdict in verdicts:
        kind: str = "nothing to run" if item.state == "nothing" else verdict.can
        reasons.setdefault((kind, "" if item.state == "nothing" else verdict.why), []).append(item.name)
    order = ("wholly", "in part", "not", "nothing to run")
    table = Table(box=None, show_header=False)
    for style in ("cyan", "", "dim"):
        table.add_column(style=style, overflow="fold")
    for (kind, why), names in sorted(reasons.items(), key=lambda entry: order.index(entry[0][0])):
        table.add_row(kind, ", ".join(names), why)
    title = f"of the paper's {len(verdicts)} tables, figures and algorithms this makes"
    return Group(Text(title, style="bold"), table)


def run_(
    study: StudyName,
    /,
    *,
    out: Out,
    scale: str | None = None,
    engine: Engine = "local",
    workers: int = 1,
    together: int = TOGETHER,
    address: str | None = None,
) -> None:
    """Run a study: train, score, judge without labels, and write the report. The same command goes on after a stop.

    Several processes, on one machine or on many that share the folder, may run the same command at once.

    Examples:

    `sober study run demo --out runs/demo`

    `sober study run sober_look --scale small --out runs/sober_look`

    `sober study run mine.py --out runs/mine --engine ray --address auto`

    Parameters
    ----------
    scale
        One of the study's scales: fewer seeds or steps.
    engine
        local: this machine; ray: a Ray cluster whose machines share the folder.
    workers
        How many processes on this machine.
    together
        How many models train at once, at most.
    address
        Of the Ray cluster, as `ray status` knows it; a new one on this machine without it.
    """
    run_and_say(study, out, scale=scale, engine=engine, workers=workers, together=together, address=address)


def run_and_say(name: str, out: Path, **settings: Any) -> None:
    """Runs a study and says what was found: a table, three sentences, and where the report is."""
    with bar() as watcher:
        results, failed = run(name, out, command=command_line(), watcher=watcher, **settings)
    table = results.table()
    if table.is_empty():
        raise RequestError(f"{out}: nothing could be trained: see 'sober study status {out}'")
    runs = as_runs(table)
    if not only_a_look(runs):
        console.print("", board_table(runs), "")
    for number, sentence in enumerate(findings(runs)[:3], start=1):
        console.print(f"[bold cyan]{number}[/]  {sentence}")
    for failure in failed:
        console.print(f"[red]{failure.task} failed twice: {failure.error}[/]", soft_wrap=True)
    console.print(f"\nthe report, to open in a browser: [bold]{results.report()}[/]", soft_wrap=True)


def status_(folder: Folder, /) -> None:
    """Show what of a study, or of any folder of results, is done, running and failed, and how long the rest may take.

    Example: `sober study status runs/sober_look`
    """
    console.print(status_table(status(folder)))


def plan_table(planned: Plan) -> Group:
    """Runs of each method on each world."""
    methods = list(dict.fromkeys(cohort.runs[0].method for cohort in planned.cohorts))
    runs, cohorts = counted(len(planned.runs), "run"), counted(len(planned.cohorts), "cohort")
    title = Text(f"{planned.study.name}: {runs} in {cohorts}", style="bold")  # a table's own is cut to its width
    table = Table(box=None, header_style="dim")
    table.add_column("world", style="cyan", no_wrap=True)
    for name in (*methods, "all"):
        table.add_column(name, justify="right")
    for spec, of in planned.counts().items():
        table.add_row(spec, *(str(of.get(method, "")) for method in methods), f"{sum(of.values()):,}")
    return Group(title, table)


def status_table(now: Status) -> Group:
    """What is done, running and failed."""
    title = Text(f"{now.name}: {now.trained:,} of {counted(now.runs, 'run')} trained", style="bold")
    table = Table(box=None, header_style="dim")
    table.add_column("world", style="cyan", no_wrap=True)
    table.add_column("trained", justify="right")
    table.add_column("of", justify="right")
    for spec, (trained, total) in now.by_world.items():
        table.add_row(spec, f"{trained:,}", f"{total:,}")
    below: list[Table | Text] = [Text(f"{now.rows:,} scores in the table")]
    if now.scale:
        below.append(Text(f"scale: {now.scale}", style="yellow"))
    notes = {note["task"]: note for note in now.running}
    for holder in now.claimed:
        note = notes.get(holder.name)
        what = f"{note['what']} {note['done'] / max(note['total'], 1):.0%}" if note else "at work"
        below.append(Text(f"{holder.name}: {what}, by process {holder.pid} on {holder.host}", style="cyan"))
    if (left := now.seconds_left) is not None:
        below.append(Text(f"about {datetime.timedelta(seconds=round(left))} of training left at this pace"))
    below += [Text(f"{spec} is not here: {why}", style="yellow") for spec, why in now.missing.items()]
    for failure in now.failed:
        of = counted(len(failure.runs), "run")
        below.append(Text(f"{failure.task} ({of}) failed {failure.tries} times: {failure.error}", style="red"))
    return Group(title, table, Text(""), *below)
