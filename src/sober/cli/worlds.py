"""`sober worlds`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rich.table import Table

from sober.cli.console import console
from sober.report.pictures import contact_sheet
from sober.worlds import WORLDS, World, world

FACTORS_SHOWN = 8  # of a world in the list


def worlds(*, show: str | None = None, out: Path | None = None) -> None:
    """List the worlds, or draw one: random pictures, and a row per factor with only that factor changing.

    Examples: `sober worlds` · `sober worlds --show rooms` · `sober worlds --show "dsprites | keep x y shape=heart"`

    Parameters
    ----------
    show
        The world to draw.
    out
        Where to write the picture; NAME.png in this folder by default.
    """
    if show is not None:
        chosen = world(show)
        path = out or Path(f"{chosen.name}.png")
        contact_sheet(chosen, path)
        console.print(f"wrote [bold]{path}[/]")
        return
    console.print(worlds_table({name: world(name) for name in sorted(WORLDS)}))


def worlds_table(worlds: Mapping[str, World]) -> Table:
    """Every world: how many pictures of which shape, its factors with their sizes, where the pictures come from."""
    table = Table(box=None, header_style="dim")
    table.add_column("world", style="bold", no_wrap=True)
    table.add_column("pictures", justify="right", no_wrap=True)
    table.add_column("image", no_wrap=True)
    table.add_column("factors", overflow="fold")
    table.add_column("from", no_wrap=True)
    for name, each in worlds.items():
        factors = [f"{factor.name} {factor.size or ''}".strip() for factor in each.factors]
        if len(factors) > FACTORS_SHOWN:
            factors = [*factors[: FACTORS_SHOWN - 1], f"and {len(factors) - FACTORS_SHOWN + 1} more"]
        size = "×".join(map(str, each.image_shape))
        known = (f"{each.size:,}", size, ", ".join(factors)) if each.size else ("yours", "any", "")
        table.add_row(name, *known, each.origin)
    return table
