"""The frontier of a choice: every model as a dot, by agreement and reconstruction, and the chosen one marked."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np
from jaxtyping import Bool, Float

from sober.criteria.choice_rule import AGREEMENT, LOSS, RULES
from sober.criteria.verdict import Verdict
from sober.report.sortable_tables import short
from sober.results import Runs

WIDTH, HEIGHT = 560, 300
LEFT, RIGHT, TOP, BOTTOM = 46, 14, 14, 40  # room around the dots for numbers and words
FEWEST = 3  # models: a picture of two says nothing that the table does not


def frontier_html(runs: Runs, world: str, verdict: Verdict) -> str:
    """The picture; empty if no rule chose, or if a model's agreement or reconstruction is not known."""
    of_world = runs.not_diverged()
    of_world = of_world.where(of_world.run_column("world") == world)
    agreement, reconstruction, loss = (_numbers(of_world, names) for names in NUMBERS)
    if not verdict.prefer or agreement is None or reconstruction is None or loss is None:
        return ""
    chosen = np.flatnonzero(of_world.run_column("run") == verdict.run)
    if len(agreement) < FEWEST or not len(chosen):
        return ""
    rule = next(rule for rule in RULES.values() if rule.prefer == verdict.prefer)
    counting = loss <= np.sort(loss)[int(np.ceil(rule.share * len(loss))) - 1]
    labels = [f"{setting}, seed {seed}" for setting, seed in of_world.run_frame.select("setting", "seed").iter_rows()]
    drawing = _drawing(reconstruction, agreement, counting, int(chosen[0]), labels)
    hollow = "" if counting.all() else f" The choice is among {rule.among}; hollow dots are the others."
    gives_up = escape(verdict.gives_up)
    return (
        f'<figure class="frontier"><h3>What the choice weighs</h3>{drawing}<figcaption>Each dot is a model. Higher '
        "dots agree more with the other models; dots to the left reconstruct the pictures better. No model is "
        f"better in both than those on the line. The ring marks the chosen one.{hollow} {gives_up}</figcaption>"
        "</figure>"
    )


# Groups of numbers that tell agreement, reconstruction and loss. The first group that all models have is used.
NUMBERS = (
    ((AGREEMENT,),),
    (("reconstruction",), ("train_reconstruction",)),
    ((LOSS,), ("train_reconstruction", "train_kl")),
)


def _numbers(runs: Runs, choices: Sequence[tuple[str, ...]]) -> Float[np.ndarray, " M"] | None:
    """The sum of the first of these groups of numbers that every run has; None if there is none."""
    for metrics in choices:
        names = runs.numbers_of(metrics)
        if len(names) == len(metrics):
            values = runs.number_columns(names)
            if not np.ma.getmaskarray(values).any() and np.isfinite(values.data).all():
                return np.asarray(values.data, float).sum(axis=1)
    return None


def _drawing(
    x: Float[np.ndarray, " M"],
    y: Float[np.ndarray, " M"],
    counting: Bool[np.ndarray, " M"],
    chosen: int,
    labels: Sequence[str],
) -> str:
    """The picture as SVG."""
    across = LEFT + (x - x.min()) / max(np.ptp(x), 1e-12) * (WIDTH - LEFT - RIGHT)
    up = HEIGHT - BOTTOM - (y - y.min()) / max(np.ptp(y), 1e-12) * (HEIGHT - TOP - BOTTOM)
    best = _undominated(x, y)
    line = " ".join(f"{across[m]:.1f},{up[m]:.1f}" for m in best)
    dots = "".join(
        f'<circle class="{"among" if counting[m] else "other"}" cx="{across[m]:.1f}" cy="{up[m]:.1f}" r="4"><title>'
        f"{escape(labels[m])}: UDR {short(y[m])}, reconstruction {short(x[m])} nats</title></circle>"
        for m in range(len(x))
    )
    ring = f'<circle class="ring" cx="{across[chosen]:.1f}" cy="{up[chosen]:.1f}" r="9"/>'
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    words = [
        (LEFT, bottom + 16, "start", short(x.min())),
        (right, bottom + 16, "end", short(x.max())),
        ((LEFT + right) / 2, bottom + 32, "middle", "reconstruction loss, in nats"),
        (LEFT - 6, bottom, "end", short(y.min())),
        (LEFT - 6, TOP + 10, "end", short(y.max())),
    ]
    texts = "".join(
        f'<text x="{a:.0f}" y="{b:.0f}" text-anchor="{anchor}">{escape(text)}</text>' for a, b, anchor, text in words
    )
    middle = (TOP + bottom) / 2
    axis = (
        f'<text transform="translate({LEFT - 30} {middle:.0f}) rotate(-90)" text-anchor="middle">agreement (UDR)</text>'
    )
    described = f"{len(x)} models by reconstruction loss and agreement; the chosen one is {labels[chosen]}"
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(described)}">'
        f'<path class="axes" d="M{LEFT - 2} {TOP}V{bottom + 2}H{right}"/>'
        f'<polyline class="best" points="{line}"/>{dots}{ring}{texts}{axis}</svg>'
    )


def _undominated(x: Float[np.ndarray, " M"], y: Float[np.ndarray, " M"]) -> list[int]:
    """The models that no other beats in both numbers, from the lowest `x`; lower `x` and higher `y` are better."""
    best: list[int] = []
    for m in np.lexsort((-y, x)).tolist():
        if not best or y[m] > y[best[-1]]:
            best.append(m)
    return best
