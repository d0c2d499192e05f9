"""`sober report`."""

from __future__ import annotations

from pathlib import Path

from sober.cli.console import bar, console, line
from sober.cli.options import Folder


def report(folder: Folder, /, *, out: Path | None = None, figures: Path | None = None) -> None:
    """Write the report of a folder's results: one HTML file that opens anywhere, without a network.

    For example:

    - `sober report runs/demo`
    - `sober report runs/demo --out demo.html --figures figures/`

    Parameters
    ----------
    out
        Where to write the file; DIR/report.html by default, or the current folder if DIR is read-only.
    figures
        Folder in which to write the figures as PDF and SVG, too.
    """
    from sober.requests.results import open_results

    results = open_results(folder)
    with bar() as watcher:
        path = results.report(out, figures, watcher)
    console.print(line("wrote ", (path, "bold")), soft_wrap=True)
