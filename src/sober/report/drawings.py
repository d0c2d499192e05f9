"""Drawings that pages share, as SVG with the colours of the page, light or dark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from sober.report.sortable_tables import short

# Sizes in a drawing of intervals, in its own units: its width, the width of names, the height of a row, of the axis.
WIDTH, NAMES, STEP, TOP = 760, 300, 22, 26
LETTER = 7.2  # the width of a letter
TICKS = 4 / 760  # on one side of 0, for each unit of width


def figure(title: str, how_to_read: str, drawing: str, caption: str = "") -> str:
    """A drawing in a frame that scrolls, under its title and how to read it."""
    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return (
        f'<figure><h3>{escape(title)}</h3><p class="how-to-read">{escape(how_to_read)}</p>'
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(title)}">{drawing}</div>{below}</figure>'
    )


def svg(width: float, height: float, label: str, marks: Sequence[str]) -> str:
    look = f"width: 100%; min-width: {min(width, 340) / 16:.1f}rem; max-width: {width / 16:.1f}rem"
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(label)}" '
        f'style="{look}; font: 13px system-ui, sans-serif">{"".join(marks)}</svg>'
    )


def text(x: float, y: float, words: str, anchor: str = "middle", fill: str = "var(--faded)") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}">{escape(words)}</text>'


class Interval(NamedTuple):
    """A row of a drawing of intervals; a filled point says that the interval leaves out 0."""

    name: str
    value: float
    low: float
    high: float
    filled: bool


def intervals(
    rows: Sequence[Interval], label: str, *, width: float = WIDTH, names: float = NAMES, reach: float | None = None
) -> str:
    """A row for each difference: its name, a point, and a line for its interval, on an axis around 0.

    `names` is the width that names have. `reach` is the end of the axis, by default as far as intervals go.
    """
    reach = reach or max(0.1, *(max(abs(row.low), abs(row.high)) for row in rows))
    step = next(step for step in (0.05, 0.1, 0.2, 0.25, 0.5, 1.0, 2.0, math.inf) if reach / step <= TICKS * width)
    middle, scale = (names + width) / 2, (width - names - 40) / 2 / reach
    height = TOP + STEP * len(rows) + 6
    count = int(reach / step + 1e-9) if math.isfinite(step) else 0
    ticks = [step * k for k in range(-count, count + 1)] if count else [0.0]
    marks = []
    for value in ticks:
        x = middle + scale * value
        colour = "var(--line)" if value else "var(--ink)"
        marks.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 6}" y2="{height}" stroke="{colour}"/>'
            f'<text x="{x:.1f}" y="{TOP - 12}" text-anchor="middle" fill="var(--faded)">{_tick_text(value)}</text>'
        )
    for place, row in enumerate(rows):
        y = TOP + STEP * (place + 0.5)
        low, dot, high = (middle + scale * value for value in (row.low, row.value, row.high))
        fill = "var(--accent)" if row.filled else "var(--paper)"
        title, name = escape(row.name), escape(cut(row.name, int(names / LETTER)))
        marks.append(
            f"<g><title>{title}: {short(row.value)}, {short(row.low)} to {short(row.high)}</title>"
            f'<text x="{names - 12}" y="{y + 4:.1f}" text-anchor="end" fill="var(--ink)">{name}</text>'
            f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y}" y2="{y}" stroke="var(--accent)" stroke-width="2"/>'
            f'<circle cx="{dot:.1f}" cy="{y}" r="4.5" fill="{fill}" stroke="var(--accent)" stroke-width="2"/></g>'
        )
    look = f"width: 100%; min-width: {min(34, width / 20):g}rem; max-width: {width / 12.6:.4g}rem"
    return (
        f'<svg viewBox="0 0 {width:g} {height}" role="img" aria-label="{escape(label)}" '
        f'style="{look}; font: 13px system-ui, sans-serif">{"".join(marks)}</svg>'
    )


def cut(name: str, letters: int) -> str:
    """A name without its end if it has more letters."""
    return name if len(name) <= letters else f"{name[: letters - 1]}…"


def _tick_text(value: float) -> str:
    """A number on an axis, with its sign and as many digits as it needs."""
    return f"{value:+g}".replace("-", "−") if value else "0"
