"""`sober tables`, which is `sober study tables`, too."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.table import Table

from sober.cli.console import console
from sober.cli.options import Folder
from sober.cli.printed import TITLED, frame_table
from sober.errors import RequestError, counted
from sober.files import replacing
from sober.results.checklist import Item, Paper, find_paper
from sober.results.compare import Beside, compare, numbers_of, refuse_a_look
from sober.results.estimates import frame
from sober.results.formats import markdown, write
from sober.workflows.opened import Results, open_results
from sober.workflows.study import find_study

Only = Annotated[list[str] | None, Parameter(negative=())]


def tables(
    folder: Folder,
    /,
    *,
    names: str | None = None,
    paper: str | None = None,
    only: Only = None,
    anyway: Annotated[bool, Parameter(negative=())] = False,
    out: Path | None = None,
    resamples: int = 500,
) -> None:
    """Print the papers' tables that a folder's results allow, and write them as parquet, Markdown and LaTeX.

    With --paper, print a paper's numbers beside ours, cell by cell: the difference, and whether the intervals meet.

    Examples: `sober tables runs/sober_look` · `sober study tables runs/demo --names leaderboard,transfer` ·
    `sober study tables runs/sober_look --paper sober_look --only "Table 5a"`

    Parameters
    ----------
    names
        Which tables, separated by commas; all that can be made by default.
    paper
        A study that comes with Sober, whose paper's numbers are put beside ours.
    only
        With --paper: a table or figure of it, as docs/studies/papers.md names it; may be given several times.
    anyway
        With --paper: also where models were trained for less than a hundredth of the study's steps.
    out
        Folder for the files; DIR/tables by default, and here where the folder is only read.
    resamples
        Of the bootstrap intervals.
    """
    results = open_results(folder)
    beside = results.opened.beside("tables")
    if paper is not None:
        if names is not None:
            raise RequestError("--paper and --names cannot be given together: --only names tables of a paper")
        beside_the_paper(results, find_paper(paper), only or [], anyway, out or beside, resamples)
        return
    if only or anyway:
        raise RequestError("--only and --anyway go with --paper: name a paper, or use --names")
    print_tables(results, names.split(",") if names else None, out or beside, resamples)


def print_tables(results: Results, names: list[str] | None, out: Path, resamples: int) -> None:
    """Prints and writes tables, and says why others cannot be made."""
    made, lacking = results.tables(names, resamples=resamples)
    for table in made:
        write(table, out)
        console.print(frame_table(table.frame, table.table.title), f"[dim]{table.caption}[/]\n")
    for name, why in lacking.items():
        console.print(f"[dim]{name}: {why}[/]")
    if made:
        console.print(f"wrote {counted(len(made), 'table')} to [bold]{out}[/]")


def beside_the_paper(results: Results, paper: Paper, only: list[str], anyway: bool, out: Path, resamples: int) -> None:
    """Prints a paper's numbers beside ours, and says where to find the items of which it prints none."""
    wanted = [paper.item(name) for name in only] or paper.items
    study, _ = find_study(paper.name)
    if not anyway:
        steps = (run.steps for run in (results.runs if results.opened.fixed else results.finished))
        refuse_a_look(steps, max(product.training.steps for product in study.products), paper.name)
    beside, _, _ = compare(results.numbers(), paper.name, [item.name for item in wanted], resamples=resamples)
    where = {numbers.item: numbers.where for numbers in numbers_of(paper.name)}
    for item in wanted:
        rows = [row for row in beside if row.item == item.name]
        if rows:
            console.print(*beside_table(f"{paper.cite}, {item.name} ({where[item.name]}): {item.shows}", rows), "")
        elif only:
            _without_numbers(results, paper, item, out, resamples)
    if beside:
        _write(beside, paper, results.request.scale, out)
        _sum_up(beside, results.request.scale)
    if results.request.name != paper.name:
        held = results.request.name or results.summary()
        console.print(f"[yellow]these are results of {held}: where no world is named, worlds differ, too[/]")
    if not only and (others := [item.name for item in wanted if item.name not in where and item.state == "made"]):
        console.print(f"[dim]without printed numbers: {', '.join(others)}; --only prints what makes each[/]")


def _without_numbers(results: Results, paper: Paper, item: Item, out: Path, resamples: int) -> None:
    """What there is to say of an item of which the paper prints no numbers: its table, or what makes it, or why not."""
    console.print(f"[bold]{paper.cite}, {item.name}[/]: {item.shows}")
    for said in (item.differs, item.why_not):
        if said:
            console.print(f"[dim]{said}[/]")
    if item.figure or item.section:
        part = f"figure [bold]{item.figure}[/]" if item.figure else f"section [bold]{item.section}[/]"
        console.print(f"{part} of the report: sober report {results.folder}", soft_wrap=True)
    if item.command:
        console.print(item.command, markup=False, soft_wrap=True)
    if item.table and item.state == "made":
        print_tables(results, [item.table], out, resamples)


def beside_table(title: str, rows: list[Beside]) -> list[Table | str]:
    """Our numbers and a paper's; below, why some are not there, once for each reason."""
    table = Table(title=title, **TITLED)
    for name in ("row", "ours", "interval", "paper", "±", "difference", "meets"):
        table.add_column(name, justify="left" if name in ("row", "meets") else "right", overflow="fold")
    for row in rows:
        if row.ours is not None:
            between = "" if row.low is None else f"{short(row.low)} to {short(row.high)}"
            said = f"{'yes' if row.within else 'no'}{f', {row.note}' if row.note else ''}"
            numbers = (short(row.ours), between, short(row.paper), short(row.spread), f"{row.difference:+.3g}")
            table.add_row(row.what, *numbers, said)
    why: dict[str, int] = {}
    for row in rows:
        if row.ours is None:
            why[row.note] = why.get(row.note, 0) + 1
    below = [f"[dim]{counted(count, 'cell')} without a number of ours: {note}[/]" for note, count in why.items()]
    return [table if table.row_count else f"[bold]{title}[/]", *below]


def short(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}" if 0 < abs(value) < 0.01 else f"{value:.3f}"


def _sum_up(beside: list[Beside], scale: str) -> None:
    there = [row for row in beside if row.within is not None]
    meet = sum(bool(row.within) for row in there)
    console.print(
        f"[bold]{meet} of {counted(len(there), 'number')}[/] meet the paper's; {len(beside)} are printed there"
    )
    if scale:
        console.print(f"[yellow]scale: {scale}[/]", soft_wrap=True)


def _write(beside: list[Beside], paper: Paper, scale: str, out: Path) -> None:
    text = dict.fromkeys(("item", "what"), str)
    numbers = dict.fromkeys(("ours", "low", "high", "paper", "spread", "difference"), float)
    table = frame({**text, **numbers, "within": bool, "note": str}, list(beside))
    caption = f"Ours beside the numbers that {paper.cite} print. Scale: {scale or 'full study'}."
    out.mkdir(parents=True, exist_ok=True)
    with replacing(out / f"paper_{paper.name}.md") as temporary:
        temporary.write_text(markdown(table, caption), encoding="utf-8")
    table.write_parquet(out / f"paper_{paper.name}.parquet", metadata={"caption": caption})
    console.print(f"wrote [bold]{out / f'paper_{paper.name}.md'}[/] and .parquet", soft_wrap=True)
