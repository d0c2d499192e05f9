"""Writes docs/metrics/properties.md: what every score makes of codes whose faults are known.

    python docs/make_properties.py

A test compares the page with what this would write, and each number with what the score's `Traits` promise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from sober.metrics import METRICS, Scores, Traits, score
from sober.metrics.metric import Alteration, Change, Metric

PAGE = Path(__file__).parent / "metrics" / "properties.md"
SIZES = (3, 4, 5)  # values of the three factors
ROWS, REPEATS = 2_400, 3
KNOWN: tuple[Change | Alteration, ...] = (
    *("permuted latents", "flipped signs", "rescaled latents"),
    *("duplicated latents", "noise latents", "merged factors", "split factors"),
)
HEADS = (
    *("score", "best", "perfect", "noise", "permuted", "signs"),
    *("rescaled", "duplicated", "+ noise", "merged", "split"),
)
HEAD = """# Properties

What each score makes of codes whose faults are known. Three factors with 3, 4 and 5 values, every combination equally
often, and *perfect* codes: one latent for each factor and nothing else. Then something is done to them.

| column | codes |
|---|---|
| best | the good end of the score's range |
| perfect | the three factors, standardised |
| noise | three latents that know nothing |
| permuted, signs, rescaled | the perfect latents in another order; two of them negated; times 8, 1 and ¼ |
| duplicated | each latent twice |
| + noise | three latents of noise beside the perfect ones |
| merged | two factors in one latent, which holds both without loss; the third in another |
| split | the two bits of the factor with four values in two latents; the others as before |

The first two are values. The others are changes from *perfect*: **=** is less than 0.005. What a score promises is
tested: a change in **bold** to go that way, a plain one to be small (0.05, or 5% of the value). A change with a ~ is
neither: the score may notice, and its `Traits` in the code say why. Order, sign and scale are also tested on codes that
are far from perfect.

{rows:,} rows, means over {repeats} seeds, log-variances of -4, and the settings that a metric calls `quick` where it
has some. The numbers were made by `python docs/make_properties.py`; a test makes them again.

Read a row before you trust a score. `mig` falls to 0 where each latent is given twice, `dci_disentanglement` does not
notice, and both are right about what they ask. `modularity` and `irs` fall when latents of noise are added, although
the three good ones are still there; `beta_vae` sees no fault in any of these codes.
"""


class Row(NamedTuple):
    """A score: its value of perfect codes and of noise, and what each change of perfect codes does to it."""

    name: str
    best: float | None  # the good end of its range, if one is
    perfect: float
    noise: float
    changes: Mapping[Change | Alteration, float]
    errors: Mapping[Change | Alteration, float]  # standard errors of these
    traits: Traits


def rows() -> dict[str, list[Row]]:
    """Every score, by where it is found: in the default battery, when asked for, or among the unified ones."""
    factors = np.resize(np.stack(np.unravel_index(np.arange(math.prod(SIZES)), SIZES), axis=1), (ROWS, len(SIZES)))
    rng = np.random.default_rng(0)
    perfect, noise = _measured(_standardised(factors), factors), _measured(rng.normal(size=factors.shape), factors)
    changed = {how: _measured(altered(how, factors, rng), factors) for how in KNOWN}
    found: dict[str, list[Row]] = {}
    for metric in METRICS.values():
        for name, meaning in metric.scores.items():
            changes = {how: after[name] - perfect[name] for how, after in changed.items()}
            errors = {how: math.hypot(perfect.errors[name], after.errors[name]) for how, after in changed.items()}
            best = None if meaning.better == "neither" else meaning.best
            row = Row(name, best, perfect[name], noise[name], changes, errors, meaning.traits)
            found.setdefault(_place(metric), []).append(row)
    return found


def altered(
    how: Change | Alteration, factors: Int[np.ndarray, "N K"], rng: np.random.Generator
) -> Float[np.ndarray, "N D"]:
    """Perfect codes of three factors, with something done to them."""
    codes = _standardised(factors)
    first, second, third = factors.T
    return {
        "permuted latents": codes[:, [2, 0, 1]],
        "flipped signs": codes * [-1, 1, -1],
        "rescaled latents": codes * [8, 1, 0.25],
        "duplicated latents": np.repeat(codes, 2, axis=1),
        "noise latents": np.concatenate([codes, rng.normal(size=codes.shape)], axis=1),
        "merged factors": _standardised(np.stack([first + SIZES[0] * second, third], axis=1)),
        "split factors": _standardised(np.stack([first, second // 2, second % 2, third], axis=1)),
    }[how]


def _standardised(columns: Int[np.ndarray, "N D"]) -> Float[np.ndarray, "N D"]:
    return (columns - columns.mean(axis=0)) / columns.std(axis=0)


def _measured(codes: Float[np.ndarray, "N D"], factors: Int[np.ndarray, "N K"]) -> Scores:
    quick = {name: metric.quick for name, metric in METRICS.items()}
    return score(codes, factors, logvar=np.full(codes.shape, -4.0), metrics=quick, repeats=REPEATS)


def _place(metric: Metric) -> str:
    if any(meaning.matrix for meaning in metric.scores.values()):
        return "Unified scores"
    return "The default battery" if metric.default else "When asked for"


def page() -> str:
    """The whole page."""
    return HEAD.format(rows=ROWS, repeats=REPEATS) + "\n" + "\n".join(_tables(rows()))


def _tables(found: Mapping[str, Sequence[Row]]) -> Iterator[str]:
    for title, some in found.items():
        yield from (f"## {title}", "", f"| {' | '.join(HEADS)} |", "|---|" + "---:|" * (len(HEADS) - 1))
        for row in some:
            best = "–" if row.best is None else f"{row.best:g}".replace("inf", "∞")
            cells = [f"`{row.name}`", best, f"{row.perfect:.2f}", f"{row.noise:.2f}".replace("-0.00", "0.00")]
            yield f"| {' | '.join([*cells, *(_cell(row, how) for how in KNOWN)])} |"
        yield ""


def _cell(row: Row, how: Change | Alteration) -> str:
    change = row.changes[how]
    shown = "=" if abs(change) < 0.005 else f"{change:+.2f}".replace("-", "−")
    if how in row.traits.lowered_by or how in row.traits.raised_by:
        return f"**{shown}**"
    return f"{shown} ~" if how in row.traits.changed_by else shown


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")
