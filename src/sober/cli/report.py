"""`sober report`."""

from __future__ import annotations

from pathlib import Path

from sober.cli.console import bar, console
from sober.cli.options import Folder
from sober.workflows.opened import open_results


def report(folder: Folder, /, *, out: Path | None = None, figures: Path | None = None) -> None:
    """Write what a folder of results has to say: one HTML file that opens anywhere, without a network.

    Examples: `sober report runs/demo` · `sober report runs/demo --out demo.html --figures figures/`

    Parameters
    ----------
    out
        Where to write it; DIR/report.html by default, and here where the folder is only read.
    figures
        A folder for the figures as PDF and SVG.
    """
    results = open_results(folder)
    with bar() as watcher:
        path = results.report(out, figures, watcher)
    console.print(f"wrote [bold]{path}[/]", soft_wrap=True)
