"""`sober results`."""

from __future__ import annotations

from rich.table import Table

from sober.cli.console import console
from sober.errors import counted
from sober.results.folder import Folder
from sober.results.shipped import Note, home, shipped


def results() -> None:
    """List the results that come with Sober: tables of trained models that can be looked at without training one.

    Each is opened by its name, as in `sober report NAME`, `sober tables NAME` or, in Python, `sober.results("NAME")`.

    Example: `sober results`
    """
    found = shipped()
    if not found:
        console.print(f"no results are in {home()} yet: docs/results.md says how they get there", soft_wrap=True)
        return
    table = Table(box=None, header_style="dim", pad_edge=False)
    table.add_column("name", style="cyan", no_wrap=True)
    for name in ("models", "worlds", "methods", "steps", "when", "device"):
        table.add_column(name, justify="right" if name == "models" else "left", overflow="fold")
    for name, path in found.items():
        runs, note = Folder.open(path).runs.values(), Note.read(path)
        worlds, methods = (sorted({getattr(run, each) for run in runs}) for each in ("world", "method"))
        steps = sorted({run.steps for run in runs})
        said = ("\n".join(worlds), "\n".join(methods), "\n".join(f"{count:,}" for count in steps))
        table.add_row(name, f"{len(runs):,}", *said, note.when, note.device)
    console.print(table, f"\n[dim]{counted(len(found), 'folder')} in {home()}; sober report NAME opens one[/]")
