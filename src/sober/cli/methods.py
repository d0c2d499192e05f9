"""`sober methods`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.console import Group
from rich.text import Text

from sober.cli.console import console
from sober.cli.name_lists import Entry, Facts, NameList, card
from sober.errors import unknown
from sober.settings_text import text_of

if TYPE_CHECKING:
    from sober.methods import Method
    from sober.nets import Nets

END = """sober methods NAME: its hyperparameters, the values that studies gave them, and its paper.
sober train blocks --method beta_tcvae --set beta=2,4 --seeds 3 --out runs/mine trains six models."""


def methods(names: Annotated[list[str] | None, Parameter(name="NAME")] = None, /) -> None:
    """List the training methods and the nets on one screen, or say all about the ones that you name.

    For example:

    - `sober methods`
    - `sober methods beta_tcvae dava`

    Parameters
    ----------
    names
        Methods or nets: print their hyperparameters, the values that studies gave them, and their papers.
    """
    from sober.methods import METHODS
    from sober.nets import NETS

    if not names:
        console.print(method_list())
    for name in names or ():
        if name not in METHODS and name not in NETS:
            raise unknown("method", [*METHODS, *NETS], name, "`sober methods` lists all methods")
        if name in METHODS:
            console.print(method_card(METHODS[name]))
        if name in NETS:
            console.print(nets_card(NETS[name]))


def method_list() -> NameList:
    """Every method and every net in a line."""
    from sober.methods import METHODS
    from sober.nets import NETS

    groups = {
        "Methods, for --method": [Entry(name, "", method.summary) for name, method in METHODS.items()],
        "Nets, for --nets": [Entry(name, "", nets.summary.partition(";")[0]) for name, nets in NETS.items()],
    }
    return NameList(groups, END)


def method_card(method: Method) -> Group:
    """One training method: what it does, its hyperparameters, the values that studies gave them, and its reference."""
    sweeps = [
        f"{study}: " + ", ".join(f"{name}={','.join(map(text_of, values))}" for name, values in sweep.items())
        for study, sweep in method.sweeps.items()
    ]
    times = "about as" if method.cost == 1 else f"about {method.cost:g} times as"
    facts: Facts = {
        "settings": [
            Text.assemble(
                (hyper.name, "cyan"), f"={text_of(hyper.default)}  {hyper.help}", (f" ({hyper.range})", "dim")
            )
            for hyper in method.hyper
        ],
        "sweeps": sweeps,
        "nets": f"{method.nets} alone" if method.nets else "",
        "cost": f"a step takes {times} long as a step of a β-VAE",
        "paper": method.reference,
        "page": f"docs/methods/{method.name}.md",
    }
    return card(method.name, method.summary, facts)


def nets_card(nets: Nets) -> Group:
    """One pair of nets: what they are and where they come from."""
    return card(nets.name, nets.summary, {"nets": "for --nets", "from": nets.reference, "page": "docs/nets.md"})
