"""`sober fit`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.console import Group
from rich.table import Table

from sober.cli.console import bar, console, line
from sober.cli.main import command_line
from sober.cli.options import Preference, Set, given, training_options
from sober.cli.select import ranking_table
from sober.defaults import FIT_METHODS, FIT_MINUTES
from sober.settings_text import parse_assignments

if TYPE_CHECKING:
    from sober.requests.fit.fit import Fit

TOP = 5  # models in the table

Options = training_options(None)


def fit(
    pictures: Annotated[str, Parameter(name="PICTURES", help="A folder or zip archive of pictures, or a world.")],
    /,
    *,
    out: Path | None = None,
    minutes: float = FIT_MINUTES,
    method: str = ",".join(FIT_METHODS),
    set_: Set = None,
    seeds: int | None = None,
    training: Annotated[Options, Parameter(name="*")] = Options(),  # noqa: B008 (frozen)
    prefer: Preference = None,
    criterion: str | None = None,
    seed: int = 0,
) -> None:
    """Pictures in, one encoder out: train a family within a time budget, choose without labels, export the best model.

    Ctrl-C stops at a checkpoint; the same command, with the same --out, goes on where it stopped. With --steps,
    --minutes is ignored.

    For example:

    - `sober fit photos/ --out fitted --minutes 30`
    - `sober fit blocks --out fitted --minutes 2`

    Parameters
    ----------
    out
        Folder for the results: a new folder, or the folder of a run to go on with. By default a new folder here, named
        by the date.
    minutes
        Time for everything. From it and the speed of this machine, Sober chooses the numbers of seeds and steps.
    method
        Training methods, separated by commas; `sober methods` lists them.
    set_
        Hyperparameters of the methods, with one or several values, as in beta=2,4; may be given more than once.
    seeds
        How many seeds for each setting; by default 3, or more if --minutes allow.
    criterion
        Instead of --prefer: criteria to choose by, separated by commas; `sober criteria` lists them.
    seed
        Seed of everything random after training.
    """
    from sober.requests.fit.fit import fit as fit_pictures

    with bar() as watcher:
        chosen = fit_pictures(
            pictures,
            out=out,
            method=method.split(","),
            minutes=minutes,
            seeds=seeds,
            prefer=prefer,
            criteria=criterion.split(",") if criterion else None,
            seed=seed,
            command=command_line(),
            watcher=watcher,
            **given(training),
            **parse_assignments(set_ or []),
        )
    say_fit(chosen)


def say_fit(chosen: Fit) -> None:
    """Prints the best models, where the results are, what was decided for the person, and at last the verdict."""
    verdict = chosen.verdict
    is_trained = verdict.kind != "not trained far enough"
    if is_trained:  # else the places of models mean nothing
        console.print("", ranking_table(chosen.results.words, chosen.ranking, TOP), "")
        for sentence in chosen.ranking.sentences()[1:]:
            console.print(sentence, style="dim")
    if chosen.notes:
        console.print(line(("\nDecided for you", "bold")), _bullets(chosen.notes))
    title = "The model" if is_trained else "The best placed model so far"
    console.print(line((f"\n{title}", "bold")), _files(chosen))
    console.print(f"\n{verdict.sentence()}", style="bold")


def _files(chosen: Fit) -> Table:
    """Where to look, and how to read the model."""
    folder = str(chosen.folder)
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("report", f"{folder}/report.html")
    table.add_row("latents", f"{folder}/traversals.png shows what each does")
    table.add_row("codes", f"{folder}/codes.parquet")
    table.add_row("Python", f"sober.load({folder!r}).encode(pictures)")
    return table


def _bullets(sentences: tuple[str, ...]) -> Group:
    """Sentences, each after a dot, with their lines indented."""
    table = Table.grid(padding=(0, 1))
    for sentence in sentences:
        table.add_row("·", sentence)
    return Group(table)
