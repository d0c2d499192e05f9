"""`sober tables`, which is `sober study tables`, too."""

from __future__ import annotations

from pathlib import Path

from sober.cli.console import console
from sober.cli.options import Folder
from sober.cli.printed import frame_table
from sober.errors import counted
from sober.results.formats import write
from sober.workflows.opened import open_results


def tables(folder: Folder, /, *, names: str | None = None, out: Path | None = None, resamples: int = 500) -> None:
    """Print the papers' tables that a folder's results allow, and write them as parquet, Markdown and LaTeX.

    Examples: `sober tables runs/sober_look` · `sober study tables runs/demo --names leaderboard,transfer`

    Parameters
    ----------
    names
        Which tables, separated by commas; all that can be made by default.
    out
        Folder for the files; DIR/tables by default.
    resamples
        Of the bootstrap intervals.
    """
    made, lacking = open_results(folder).tables(names.split(",") if names else None, resamples=resamples)
    for table in made:
        write(table, out or folder / "tables")
        console.print(frame_table(table.frame, table.table.title), f"[dim]{table.caption}[/]\n")
    for name, why in lacking.items():
        console.print(f"[dim]{name}: {why}[/]")
    if made:
        console.print(f"wrote {counted(len(made), 'table')} to [bold]{out or folder / 'tables'}[/]")
