"""`sober merge`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from sober.cli.console import console, line
from sober.cli.options import Out
from sober.errors import counted, shell_command


def merge(
    sources: Annotated[list[Path], Parameter(name="SOURCES", help="Folders of results, or archives of them.")],
    /,
    *,
    out: Out,
) -> None:
    """Bring results from several machines together in one folder.

    Every run comes once, and every number that two sources have must be the same in both. Run it again with more
    sources, or after a stop: it goes on.

    For example:

    - `sober merge gpu/archives --out all`
    - `sober merge monday tuesday --out week`
    """
    from sober.requests.merge import merge as merge_results

    results = merge_results(sources, out)
    models = counted(len(results.finished), "model")
    console.print(line(f"{results.summary()}: {models} in ", (out, "bold")))
    console.print(f"next: {shell_command('sober', 'report', out)}", style="dim", soft_wrap=True)
