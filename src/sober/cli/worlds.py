"""`sober worlds`."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.console import Group
from rich.text import Text

from sober.cli.console import console, line
from sober.cli.name_lists import Entry, Facts, NameList, card
from sober.errors import counted
from sober.types import Factor

if TYPE_CHECKING:
    from sober.worlds import World

VALUES_SHOWN = 12  # names of values of a factor in the card of a world, at most
FACTORS_SHOWN = 7  # names of factors in the list, at most
ORIGINS = {"drawn": "Drawn by Sober", "its files": "From published files", "you": "Yours"}
END = """sober worlds NAME: its factors with their values, and where its pictures come from.
sober worlds --show dsprites draws some of its pictures."""


def worlds(
    names: Annotated[list[str] | None, Parameter(name="NAME")] = None,
    /,
    *,
    show: str | None = None,
    out: Path | None = None,
) -> None:
    """List the worlds on one screen, say all about the worlds that you name, or draw a world.

    A drawing has random pictures, and for each factor a row in which only this factor changes.

    For example:

    - `sober worlds`
    - `sober worlds rooms`
    - `sober worlds --show rooms`
    - `sober worlds --show "dsprites | keep x y shape=heart"`

    Parameters
    ----------
    names
        Worlds: print their factors with their values, their options, and where their pictures come from.
    show
        The world to draw, instead of listing all.
    out
        Where to write the picture; NAME.png in this folder by default.
    """
    from sober.evaluation.picture_sheets import contact_sheet
    from sober.worlds import world

    if show is not None:
        chosen = world(show)
        path = out or Path(f"{chosen.name}.png")
        contact_sheet(chosen, path)
        console.print(line("wrote ", (path, "bold")))
    elif names:
        for opened in map(world, names):
            console.print(world_card(opened))
            if why := opened.absent():
                console.print(f"not here: {why}\n", soft_wrap=True)  # whole, to be copied
    else:
        console.print(world_list())


def world_list() -> NameList:
    """Every world in a line: how many pictures it has, their shape, and what they show."""
    from sober.worlds import WORLDS, world

    groups: dict[str, list[Entry]] = {ORIGINS[origin]: [] for origin in ORIGINS}
    for name in sorted(WORLDS):
        opened = world(name)
        factors = f", {counted(len(opened.factors), 'factor')}" if opened.factors else ""
        names = ", ".join(factor.name for factor in opened.factors[:FACTORS_SHOWN])
        more = f", and {len(opened.factors) - FACTORS_SHOWN} more" if len(opened.factors) > FACTORS_SHOWN else ""
        line = opened.summary.partition(":")[0] + factors
        groups[ORIGINS[opened.origin]].append(Entry(name, _pictures(opened), line, names + more))
    return NameList(groups, END)


def _pictures(opened: World) -> str:
    return f"{opened.size:,} of {'×'.join(map(str, opened.image_shape))}" if opened.size else "yours"


def world_card(opened: World) -> Group:
    """All about one world: its pictures, its factors with their values, its options, and its reference."""
    from sober.worlds import WORLDS

    options = inspect.signature(WORLDS[opened.name]).parameters
    facts: Facts = {
        "pictures": _pictures(opened),
        "from": ORIGINS[opened.origin],
        "factors": _factor_lines(opened.factors),
        "options": ", ".join(f"{opened.name}:{option}=…" for option in options),
        "paper": opened.reference,
        "page": f"docs/worlds/{opened.name}.md",
    }
    return card(opened.name, opened.summary, facts)


def _factor_lines(factors: Sequence[Factor]) -> list[Text]:
    """Each factor with its values. Neighbours with the same values share a line."""
    runs = itertools.groupby(factors, key=lambda factor: (factor.kind, _values(factor)))
    return [
        Text.assemble((", ".join(factor.name for factor in alike), "cyan"), f"  {kind}{values}")
        for (kind, values), alike in runs
    ]


def _values(factor: Factor) -> str:
    if not factor.size:
        return ""
    values = factor.values or ()
    if any(isinstance(value, str) for value in values):
        more = f", and {len(values) - VALUES_SHOWN} more" if len(values) > VALUES_SHOWN else ""
        return f", {counted(factor.size, 'value')}: {', '.join(map(str, values[:VALUES_SHOWN]))}{more}"
    limits = f" from {values[0]:.3g} to {values[-1]:.3g}" if values else ""
    return f", {counted(factor.size, 'value')}{limits}"
