"""`sober methods`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter
from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sober.cli.console import console
from sober.methods import METHODS, Method, find_method
from sober.nets import NETS
from sober.words import text_of


def methods(names: Annotated[list[str] | None, Parameter(name="NAME")] = None, /) -> None:
    """List the training methods with their hyperparameters and published sweeps, and the nets.

    Examples: `sober methods` · `sober methods beta_tcvae dava`

    Parameters
    ----------
    names
        Only these methods.
    """
    for method in map(find_method, names or METHODS):
        console.print(method_card(method), "")
    if names:
        return
    table = Table(box=None, header_style="dim")
    for column in ("nets", "what they are", "reference"):
        table.add_column(column, overflow="fold")
    for name, nets in NETS.items():
        table.add_row(f"[bold]{name}[/]", nets.summary, nets.reference)
    console.print(table)


def method_card(method: Method) -> Group:
    """One training method: what it does, its hyperparameters, the values studies gave them, where it comes from."""
    knobs = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for style in ("cyan", "", "dim", ""):
        knobs.add_column(style=style)
    for each in method.hyper:
        knobs.add_row(each.name, text_of(each.default), each.range, each.help)
    sweeps = [
        Text(f"{study}: " + ", ".join(f"{name}={','.join(map(text_of, values))}" for name, values in sweep.items()))
        for study, sweep in method.sweeps.items()
    ]
    below: list[Table | Text] = [*([knobs] if method.hyper else []), *sweeps, Text(method.reference, style="dim")]
    return Group(Text.assemble((method.name, "bold"), "  ", method.summary), Padding(Group(*below), (0, 0, 0, 4)))
