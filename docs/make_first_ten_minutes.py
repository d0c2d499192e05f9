"""Runs the commands of docs/first_ten_minutes.md and writes what they print into the page, and their picture beside it.

    python docs/make_first_ten_minutes.py [FOLDER]

A block below the mark `<!-- printed by: COMMAND -->` gets what this command printed at 80 columns. Commands run in the
order of the page, in FOLDER or in a temporary folder. FOLDER may hold models that are already trained. It takes some
minutes.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PAGE = Path(__file__).parent / "first_ten_minutes.md"
PICTURE = Path(__file__).parent / "pictures" / "demo_traversals.png"
COLUMNS = 80
MARKED = re.compile(r"^<!-- printed by: (?P<command>.+?) -->\n```\n(?P<printed>.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BAR = "━"  # a line with it is a bar that shows progress


def commands(page: str) -> list[str]:
    """The commands that a reader of the page runs, in order."""
    unmarked = MARKED.sub("", page)
    lines = [line for language, block in BLOCK.findall(unmarked) if not language for line in block.splitlines()]
    return [line for line in lines if line.startswith("sober ")]


def run(command: str, folder: Path) -> str:
    """What a command prints."""
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "NO_COLOR": "1", "TERM": "dumb"}
    arguments = [sys.executable, "-m", "sober.cli", *shlex.split(command)[1:]]
    done = subprocess.run(arguments, cwd=folder, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    lines = [line.rstrip() for line in done.stdout.splitlines() if BAR not in line]
    return "\n".join(lines).strip("\n") + "\n"


def main(folder: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    printed = {}
    for command in commands(page):
        print(command)
        printed[command] = run(command, folder)
    written = MARKED.sub(lambda mark: f"<!-- printed by: {mark[1]} -->\n```\n{printed[mark[1]]}```", page)
    PAGE.write_text(written, encoding="utf-8")
    shutil.copyfile(folder / "runs" / "blocks" / "traversals.png", PICTURE)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
