"""`sober tables`. `sober study tables` is the same command."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.console import Group
from rich.text import Text

from sober.cli.console import console, line
from sober.cli.options import Folder
from sober.cli.printed import Column, FittedTable, frame_table, listed_items
from sober.errors import RequestError, counted, shell_command
from sober.files import replacing

if TYPE_CHECKING:
    from sober.requests.results import Results
    from sober.results.paper_check.checklist import Item, Paper
    from sober.results.paper_check.paper_numbers import ComparedNumber

# What columns of estimates mean.
COLUMNS = {
    "n": "how many models",
    "low": "where the 95% interval of value begins",
    "high": "where it ends",
    "lower": "the first quartile of the models",
    "upper": "the third",
    "best": "the probability that a model of this setting is the best if one of each is drawn",
}
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
    """Print the papers' tables that a folder's results are enough for, and write them as parquet, Markdown and LaTeX.

    With --paper, print a paper's numbers beside ours, with their difference, and whether their intervals overlap.

    For example:

    - `sober tables runs/sober_look`
    - `sober study tables runs/demo --names leaderboard,transfer`
    - `sober study tables runs/sober_look --paper sober_look --only "Table 5a"`

    Parameters
    ----------
    names
        Which tables, separated by commas; by default every table that can be made.
    paper
        A study that comes with Sober: print the numbers of its paper beside ours.
    only
        With --paper: only this table or figure, as docs/studies/papers.md names it; may be given several times.
    anyway
        With --paper: compare also if models were trained for less than a hundredth of the study's steps.
    out
        Folder for the files; DIR/tables by default, or a folder in the current one if DIR is read-only.
    resamples
        How many resamples the bootstrap intervals are made of.
    """
    from sober.requests.results import open_results
    from sober.results.paper_check.checklist import find_paper

    results = open_results(folder)
    out = out or results.beside("tables")
    if paper is not None:
        if names is not None:
            raise RequestError("--paper and --names cannot be given together: --only names tables of a paper")
        paper_numbers(results, find_paper(paper), only or [], anyway, out, resamples)
        return
    if only or anyway:
        raise RequestError("--only and --anyway go with --paper: name a paper, or use --names")
    print_tables(results, names.split(",") if names else None, out, resamples)


def print_tables(results: Results, names: list[str] | None, out: Path, resamples: int) -> None:
    """Prints and writes tables, and prints why the other tables cannot be made."""
    from sober.report.people_words import PeopleWords
    from sober.results.formats import write_table

    tables, lacking = results.tables(names, resamples=resamples)
    words = PeopleWords.of(results.numbers(), results.table())
    for table in tables:
        write_table(table, out)
        title = table.table.title
        console.print(frame_table(words.in_table(table).frame, title, f"{out} has all of them"))
        paper = table.table.paper
        caption = table.caption.removeprefix(title).strip().replace(f"({paper})", f"As in {paper}", 1)
        console.print(caption, style="dim")
        meanings = [f"{name}: {COLUMNS[name]}" for name in table.frame.columns if name in COLUMNS]
        console.print(f"{'; '.join(meanings)}\n" if meanings else "", style="dim")
    for name, why in lacking.items():
        console.print(f"{name}: {why}", style="dim")
    if tables:
        console.print(line(f"wrote {counted(len(tables), 'table')} to ", (out, "bold")))


def paper_numbers(results: Results, paper: Paper, only: list[str], anyway: bool, out: Path, resamples: int) -> None:
    """Prints a paper's numbers beside ours, and names the items for which the paper prints no numbers."""
    from sober.requests.study.study import find_study
    from sober.results.paper_check.paper_numbers import compare, numbers_of, refuse_short_training

    items = [paper.item(name) for name in only] or paper.items
    study, _ = find_study(paper.name)
    if not anyway:
        steps = (run.steps for run in (results.runs if results.fixed else results.finished))
        refuse_short_training(steps, max(product.training.steps for product in study.products), paper.name)
    compared, _, _ = compare(results.numbers(), paper.name, [item.name for item in items], resamples=resamples)
    sources = {numbers.item: numbers.where for numbers in numbers_of(paper.name)}
    for item in items:
        numbers_of_item = [number for number in compared if number.item == item.name]
        if numbers_of_item:
            title = f"{paper.cite}, {item.name} ({sources[item.name]}): {item.shows}"
            console.print(Group(*beside_table(title, numbers_of_item), ""))
        elif only:
            _print_without_numbers(results, paper, item, out, resamples)
    if compared:
        _write(compared, paper, results.request.scale, out)
        _sum_up(compared, results.request.scale)
    if results.request.name != paper.name:
        name = results.request.name or results.summary()
        differs = "where no world is named, worlds differ, too"
        if _reads(name, paper):
            differs = f"{paper.name} in another reading, on the same worlds"
        console.print(f"these are results of {name}: {differs}", style="yellow")
    if not only and (others := [item.name for item in items if item.name not in sources and item.state == "made"]):
        sentence = f"without printed numbers: {listed_items(others)}; --only prints what makes each"
        console.print(sentence, style="dim")


def _reads(name: str, paper: Paper) -> bool:
    """Whether a study that comes with Sober is another reading of a paper's study."""
    from sober.requests.study.study import find_study, shipped

    return name in shipped() and find_study(name)[0].items_of == paper.name


def _print_without_numbers(results: Results, paper: Paper, item: Item, out: Path, resamples: int) -> None:
    """Prints our version of an item for which the paper prints no numbers, or why Sober does not make the item."""
    console.print(line((f"{paper.cite}, {item.name}", "bold"), f": {item.shows}"))
    for remark in (f"missing: {item.missing}" if item.missing else "", item.differs, item.why_not):
        if remark:
            console.print(remark, style="dim")
    if item.figure or item.section:
        kind = "figure" if item.figure else "section"
        command = f" of the report: {shell_command('sober', 'report', results.folder)}"
        console.print(line(f"{kind} ", (item.figure or item.section, "bold"), command), soft_wrap=True)
    if item.command:
        console.print(item.command, soft_wrap=True)
    if item.table and item.state == "made":
        print_tables(results, [item.table], out, resamples)


def beside_table(title: str, numbers: list[ComparedNumber]) -> list[FittedTable | Text]:
    """A table of our numbers and a paper's. Below it, each reason why some of our numbers are missing."""
    columns = [
        Column("row", wraps=True),
        *(Column(name, "right") for name in ("ours", "interval", "paper", "±", "difference")),
        Column("verdict", wraps=True),
    ]
    rows = []
    for number in numbers:
        if number.ours is not None:
            interval = "" if number.low is None else f"{short(number.low)} to {short(number.high)}"
            verdict = f"{number.verdict}{f', {number.note}' if number.note else ''}"
            paper_cells = (short(number.paper), short(number.spread))
            rows.append([number.what, short(number.ours), interval, *paper_cells, f"{number.difference:+.3g}", verdict])
    missing_by_reason = Counter(number.note for number in numbers if number.ours is None)
    below = [
        Text(f"{counted(count, 'cell')} without a number of ours: {reason}", style="dim")
        for reason, count in missing_by_reason.items()
    ]
    return [FittedTable(columns, rows, title) if rows else Text(title, style="bold"), *below]


def short(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}" if 0 < abs(value) < 0.01 else f"{value:.3f}"


def _sum_up(numbers: list[ComparedNumber], scale: str) -> None:
    count = Counter(number.verdict for number in numbers if number.verdict is not None)
    console.print(
        line(
            (f"of {counted(count.total(), 'number')}, {count['agrees']} agree", "bold"),
            f" with the paper's, {count['disagrees']} disagree, and {count['cannot tell']} cannot tell, because our "
            f"interval is too wide or missing; the paper prints {len(numbers)}",
        )
    )
    if scale:
        console.print(f"scale: {scale}", style="yellow")


def _write(numbers: list[ComparedNumber], paper: Paper, scale: str, out: Path) -> None:
    from sober.results.formats import markdown
    from sober.results.tables.estimates import frame

    text_columns = dict.fromkeys(("item", "what"), str)
    number_columns = dict.fromkeys(("ours", "low", "high", "paper", "spread", "difference"), float)
    table = frame({**text_columns, **number_columns, "verdict": str, "note": str}, list(numbers))
    caption = f"Ours beside the numbers that {paper.cite} print. Scale: {scale or 'full study'}."
    out.mkdir(parents=True, exist_ok=True)
    with replacing(out / f"paper_{paper.name}.md") as temporary:
        temporary.write_text(markdown(table, caption), encoding="utf-8")
    table.write_parquet(out / f"paper_{paper.name}.parquet", metadata={"caption": caption})
    console.print(line("wrote ", (out / f"paper_{paper.name}.md", "bold"), " and .parquet"), soft_wrap=True)
