"""The frontier of a choice: every model as a dot, by agreement and reconstruction, and the chosen one marked."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

import numpy as np
from jaxtyping import Float

from sober.criteria.choice_rule import AGREEMENT, LOSS, find_rule
from sober.criteria.verdict import Verdict
from sober.report.sortable_tables import short
from sober.results import Runs

WIDTH, HEIGHT = 460, 260
LEFT, RIGHT, TOP, BOTTOM = 40, 8, 28, 42  # room around the axes for numbers and words
INSET = 12  # between the axes and the outermost dots
TICKS = 5  # numbers on an axis, about
LETTER = 6.6  # the width of a letter
FEWEST = 3  # models: a picture of two says nothing that the table does not


def frontier_html(runs: Runs, world: str, verdict: Verdict) -> str:
    """The picture; empty if no rule chose, or if a model's agreement or reconstruction is not known."""
    of_world = runs.not_diverged()
    of_world = of_world.where(of_world.run_column("world") == world)
    agreement, reconstruction = (_numbers(of_world, names) for names in NUMBERS)
    if not verdict.prefer or agreement is None or reconstruction is None:
        return ""
    chosen = np.flatnonzero(of_world.run_column("run") == verdict.run)
    if len(agreement) < FEWEST or not len(chosen):
        return ""
    rule = find_rule(verdict.prefer)
    most_loss = math.inf if verdict.most_loss is None else verdict.most_loss
    labels = [f"{setting}, seed {seed}" for setting, seed in of_world.run_frame.select("setting", "seed").iter_rows()]
    drawing = _drawing(reconstruction, agreement, most_loss, int(chosen[0]), labels)
    role = "the model to use" if verdict.kind == "this one" else "the best placed model"
    are_all = (reconstruction <= most_loss).all()
    hollow = "" if are_all else f" The choice is among {rule.among}; hollow dots, right of the mark, are the others."
    gives_up = escape(verdict.gives_up)
    return (
        f'<figure class="frontier"><h3>What the choice weighs</h3>{drawing}<figcaption><p>Each dot is a model; the '
        f"ring marks {role}. No model is better in both numbers than those on the line.{hollow}</p>"
        f"<p>{gives_up}</p></figcaption></figure>"
    )


# Metrics that tell agreement and reconstruction. The first that all models have is used.
NUMBERS = ((AGREEMENT,), (LOSS, "train_reconstruction"))


def _numbers(runs: Runs, metrics: Sequence[str]) -> Float[np.ndarray, " M"] | None:
    """The first of these metrics that every run has; None if there is none."""
    for metric in metrics:
        names = runs.numbers_of([metric])
        if len(names) == 1:
            values = runs.number_columns(names)
            if not np.ma.getmaskarray(values).any() and np.isfinite(values.data).all():
                return np.asarray(values.data, float)[:, 0]
    return None


def _drawing(
    x: Float[np.ndarray, " M"],
    y: Float[np.ndarray, " M"],
    most: float,
    chosen: int,
    labels: Sequence[str],
) -> str:
    """The picture as SVG. Models with at most `most` in `x` count."""
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    place_x, place_y = _scale(x, LEFT + INSET, right - INSET), _scale(y, bottom - INSET, TOP + INSET)
    across, up = place_x(x), place_y(y)
    best = _undominated(x, y)
    line = " ".join(f"{across[m]:.1f},{up[m]:.1f}" for m in best)
    dots = "".join(
        f'<circle class="{"among" if x[m] <= most else "other"}" cx="{across[m]:.1f}" cy="{up[m]:.1f}" r="4"><title>'
        f"{escape(labels[m])}: UDR {short(y[m])}, reconstruction {short(x[m])} nats</title></circle>"
        for m in range(len(x))
    )
    ring = f'<circle class="ring" cx="{across[chosen]:.1f}" cy="{up[chosen]:.1f}" r="9"/>'
    ticks_x = [(float(place_x(value)), text) for value, text in _ticks(x)]
    ticks_y = [(float(place_y(value)), text) for value, text in _ticks(y)]
    lines = "".join(
        [
            *(f'<path class="axes" d="M{place:.1f} {TOP}V{bottom}"/>' for place, _ in ticks_x),
            *(f'<path class="axes" d="M{LEFT} {place:.1f}H{right}"/>' for place, _ in ticks_y),
        ]
    )
    if x.min() < most < x.max():
        lines += f'<path class="limit" d="M{float(place_x(most)):.1f} {TOP}V{bottom}"/>'
    words = [
        *((place, bottom + 17, "middle", text) for place, text in ticks_x),
        *((LEFT - 7, place + 4, "end", text) for place, text in ticks_y),
        (right, bottom + 36, "end", "reconstruction loss in nats; lower is better"),
        (0, TOP - 14, "start", "agreement with the other models (UDR); higher is better"),
    ]
    texts = "".join(
        f'<text x="{a:.0f}" y="{b:.0f}" text-anchor="{anchor}">{escape(text)}</text>' for a, b, anchor, text in words
    )
    described = f"{len(x)} models by reconstruction loss and agreement; the ring marks {labels[chosen]}"
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(described)}">{lines}'
        f'<polyline class="best" points="{line}"/>{dots}{ring}{texts}'
        f"{_name(labels[chosen], across, up, chosen)}</svg>"
    )


def _name(words: str, across: Float[np.ndarray, " M"], up: Float[np.ndarray, " M"], chosen: int) -> str:
    """The name of the chosen model at the corner of its ring where it hides the fewest dots and stays in the frame."""
    x, y, width = across[chosen], up[chosen], LETTER * len(words)

    def hidden(side: int, below: int) -> tuple[bool, int]:
        left = x + 11 if side > 0 else x - 11 - width
        dots = (across > left - 5) & (across < left + width + 5) & (abs(up - (y + 16 * below - 4)) < 11)
        is_inside = LEFT <= left <= WIDTH - width and y + 16 * below > TOP
        return not is_inside, int(dots.sum())

    side, below = min(((side, below) for below in (1, -1, 0) for side in (1, -1)), key=lambda corner: hidden(*corner))
    anchor = "start" if side > 0 else "end"
    place = f'x="{x + 11 * side:.0f}" y="{y + 16 * below + (0 if below else 4):.0f}"'
    return f'<text class="chosen" {place} text-anchor="{anchor}">{escape(words)}</text>'


def _scale(values: Float[np.ndarray, " M"], first: float, last: float) -> Callable[..., np.ndarray]:
    """Where values stand on an axis whose lowest value is at `first` and whose highest is at `last`."""
    low, width = values.min(), max(np.ptp(values), 1e-12)
    return lambda value: first + (value - low) / width * (last - first)


def _ticks(values: Float[np.ndarray, " M"]) -> list[tuple[float, str]]:
    """Round numbers between the lowest and the highest value, with their texts; the value itself if all are equal."""
    low, width = float(values.min()), float(np.ptp(values))
    if width <= 1e-9 * max(abs(low), 1e-9):
        return [(low, short(low))]
    unit = 10.0 ** math.floor(math.log10(width / TICKS))
    step = next(step for step in (unit, 2 * unit, 5 * unit, 10 * unit) if width / step <= TICKS)
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    multiples = range(math.ceil(low / step - 1e-9), math.floor((low + width) / step + 1e-9) + 1)
    return [(step * k, f"{step * k:,.{digits}f}".replace("-", "−")) for k in multiples]


def _undominated(x: Float[np.ndarray, " M"], y: Float[np.ndarray, " M"]) -> list[int]:
    """The models that no other beats in both numbers, from the lowest `x`; lower `x` and higher `y` are better."""
    best: list[int] = []
    for m in np.lexsort((-y, x)).tolist():
        if not best or y[m] > y[best[-1]]:
            best.append(m)
    return best
