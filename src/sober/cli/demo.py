"""`sober demo`."""

from __future__ import annotations

from pathlib import Path

from sober.cli.study import run_and_say
from sober.cli.traverse import traverse


def demo(*, out: Path = Path("demo")) -> None:
    """Run a small study end to end: train, score, choose without labels, draw, and write the report. Minutes on a CPU.

    Example: `sober demo --out demo`

    Parameters
    ----------
    out
        Folder for the models, the scores, the picture and the report.
    """
    run_and_say("demo", out)
    traverse(out)
