"""What `sober` and `sober --help` print: one line for each command, in groups, and what to do next."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

from cyclopts import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from cyclopts.help import HelpPanel
    from rich.console import Console, ConsoleOptions

COMMANDS = {
    "Start here": {
        "score": "measure how disentangled codes are, in a file or in a folder",
        "fit": "your pictures in, one model out: trains, chooses, exports, reports",
        "demo": "see all of it work, on drawn pictures, in minutes",
    },
    "Train, and choose without labels": {
        "train": "train a family: every value of the settings, with every seed",
        "tune": "search for the best settings of a method",
        "select": "rank the models of a folder: which to use, and how sure that is",
        "encode": "keep the codes of a folder's models",
        "merge": "bring results from several machines together in one folder",
    },
    "Models of any library": {
        "agree": "what recurs when you train again, against chance",
        "probe": "which factors of drawn pictures an image encoder knows",
    },
    "Look": {
        "report": "write everything about a folder as one HTML file",
        "explore": "write a page with a slider for each latent of a model",
        "traverse": "draw what each latent does, as one picture",
        "tables": "print the papers' tables for a folder's results",
    },
    "Published studies": {
        "study": "plan and run a study: list, plan, run, status, tables",
        "results": "list the results that come with Sober",
        "leaderboard": "compare methods in each world, from folders or from these results",
    },
    "What there is: each lists names, and explains the one you name": {
        "worlds": "the pictures to train on, drawn or published",
        "methods": "the ways to train, and the nets",
        "metrics": "the measures of disentanglement, with labels",
        "criteria": "the measures that need no labels, to choose models by",
        "tasks": "the uses of codes that can be measured",
    },
}
STUDY_COMMANDS = {
    "list": "list the studies that come with Sober",
    "plan": "print the runs of a study, its cost, and what it lacks here",
    "run": "run a study, or go on with it",
    "status": "show what is done, running and failed",
    "tables": "print the papers' tables; the same as sober tables",
}
NEXT = """[bold]What next[/]
  sober demo                      to see a report, without data of your own
  sober score codes.npz           if you have codes and factors
  sober fit photos/ --out fitted  if you have pictures
  sober COMMAND --help            the options of a command, with examples"""


@dataclasses.dataclass(frozen=True)
class OneLineEach:
    """Prints a group of commands, one line each. The lines are given, so that no command is imported to be listed."""

    lines: Mapping[str, str]
    first: bool = True  # the first group stands below a blank line already

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        if not panel.entries:
            return
        table = Table.grid(padding=(0, 2))
        widest = max(len(name) for entry in panel.entries for name in entry.names)
        table.add_column(width=max(8, widest), style="cyan", no_wrap=True)
        table.add_column()
        for entry in panel.entries:
            [name] = entry.names
            table.add_row(name, self.lines[name])
        console.print(Text(f"{'' if self.first else chr(10)}{panel.title}", style="bold"))
        console.print(Padding(table, (0, 0, 0, 2)))


def groups() -> dict[str, Group]:
    """The group of each command. Commands are in the order of `COMMANDS`."""
    of_command: dict[str, Group] = {}
    for place, (title, lines) in enumerate(COMMANDS.items()):
        group = Group(title, sort_key=place, help_formatter=OneLineEach(lines, first=place == 0))
        of_command |= dict.fromkeys(lines, group)
    return of_command
