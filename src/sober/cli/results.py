"""`sober results`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from sober.cli.console import console, line
from sober.cli.printed import Column, FittedTable
from sober.errors import counted


def results(name: Annotated[str | None, Parameter(name="NAME", help="One of them: what it holds.")] = None, /) -> None:
    """List the results that come with Sober: scores of models that were already trained.

    Open results by their name, as in `sober report NAME`, `sober tables NAME` or, in Python, `sober.results("NAME")`.

    For example:

    - `sober results`
    - `sober results rooms_on_a_cpu`
    """
    if name is None:
        _list()
    else:
        _describe(name)


def _describe(name: str) -> None:
    """What one folder of results holds, how it was made, and what to do with it."""
    from sober.results.folder import Folder
    from sober.results.shipped import Note, find_shipped

    path = find_shipped(name)
    note = Note.read(path)
    console.print(line((name, "bold cyan"), f"  {note.what}."))
    console.print(f"{counted(len(Folder.open(path).runs), 'model')}, made {note.when} on {note.device}\n")
    for words in (["report", name], ["tables", name], ["select", name], ["leaderboard", name]):
        console.print(f"sober {' '.join(words)}", style="cyan", soft_wrap=True)
    console.print(f"the folder: {path}", style="dim", soft_wrap=True)


def _list() -> None:
    from sober.results.folder import Folder
    from sober.results.shipped import Note, home, shipped
    from sober.setting_words import method_title

    paths = shipped()
    if not paths:
        console.print(f"no results are in {home()} yet: docs/results.md says how they get there", soft_wrap=True)
        return
    columns = [
        Column("name", style="cyan"),
        Column("models", "right"),
        *(Column(name, wraps=True) for name in ("worlds", "methods", "steps", "made")),
    ]
    rows = []
    for name, path in paths.items():
        runs, note = Folder.open(path).runs, Note.read(path)
        worlds = ", ".join(sorted({run.world for run in runs}))
        methods = ", ".join(sorted({method_title(run.method) for run in runs}))
        steps = ", ".join(f"{count:,}" for count in sorted({run.steps for run in runs}))
        rows.append([name, f"{len(runs):,}", worlds, methods, steps, f"{note.when} on {note.device}"])
    console.print(FittedTable(columns, rows))
    where = f"\n{counted(len(paths), 'folder')} in {home()}; sober results NAME says more about one"
    console.print(where, style="dim", soft_wrap=True)
