"""`sober demo`."""

from __future__ import annotations

from pathlib import Path

from sober.cli.console import console
from sober.cli.study import run_and_say
from sober.cli.traverse import traverse

SCALE = "quick"


def demo(*, out: Path = Path("demo")) -> None:
    """See all of it work: train, score, choose without labels, draw, and write the report. Half a minute on a CPU.

    It is a small part of the study `demo`: `sober study run demo --out runs/demo` runs the whole study in two minutes.

    Example: `sober demo --out demo`

    Parameters
    ----------
    out
        Folder for the models, the scores, the picture and the report.
    """
    from sober.requests.select import verdicts
    from sober.results.folder import Folder

    run_and_say("demo", out, scale=SCALE)
    traverse(out)
    for verdict in verdicts(Folder.open(out)).values():
        console.print(f"\n{verdict.sentence()}", style="bold")
