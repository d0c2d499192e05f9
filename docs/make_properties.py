"""Writes docs/metrics/properties.md: how every score reacts to codes with known faults.

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

This page shows how each score reacts to codes with known faults. There are three factors with 3, 4 and 5 values, and
every combination is equally frequent. *Perfect* codes have one latent for each factor and nothing else. Each column
shows what a change of these codes does to the scores.

| column | codes |
|---|---|
| best | the good end of the score's range |
| perfect | the three factors, standardised |
| noise | three latents of noise, without any information |
| permuted, signs, rescaled | the perfect latents in another order; with two of them negated; multiplied by 8, 1 and ¼ |
| duplicated | each latent twice |
| + noise | three latents of noise beside the perfect ones |
| merged | two factors in one latent, without loss; the third factor in another latent |
| split | the factor with four values as two bits in two latents; the other factors as before |

The columns *best*, *perfect* and *noise* show values. The other columns show changes from *perfect*; **=** means less
than 0.005. Tests check what each score promises: a change in **bold** must go in this direction, and a plain one must
be small (0.05, or 5% of the value). For a change with a ~ there is no promise: the score may change, and its `Traits`
in the code say why. Order, sign and scale are also tested on codes that are far from perfect.

{rows:,} rows, means over {repeats} seeds and log-variances of -4. Metrics with settings called `quick` use these.
`python docs/make_properties.py` measures the numbers; a test measures them again.

Read its row before you trust a score. If each latent is there twice, `mig` falls to 0 and `dci_disentanglement` does
not change; both answer their own question correctly. If latents of noise are added, `modularity` and `irs` fall,
although the three good latents are still there. `beta_vae` finds no fault in any of these codes.
"""


class Row(NamedTuple):
    """A score: its values for perfect codes and for noise, and how each change of perfect codes changes it."""

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
    changed = {alteration: _measured(altered(alteration, factors, rng), factors) for alteration in KNOWN}
    sections: dict[str, list[Row]] = {}
    for metric in METRICS.values():
        for name, meaning in metric.scores.items():
            changes = {alteration: after[name] - perfect[name] for alteration, after in changed.items()}
            errors = {
                alteration: math.hypot(perfect.errors[name], after.errors[name])
                for alteration, after in changed.items()
            }
            best = None if meaning.better == "neither" else meaning.best
            row = Row(name, best, perfect[name], noise[name], changes, errors, meaning.traits)
            sections.setdefault(_place(metric), []).append(row)
    return sections


def altered(
    alteration: Change | Alteration, factors: Int[np.ndarray, "N K"], rng: np.random.Generator
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
    }[alteration]


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


def _tables(sections: Mapping[str, Sequence[Row]]) -> Iterator[str]:
    for title, section_rows in sections.items():
        yield from (f"## {title}", "", f"| {' | '.join(HEADS)} |", "|---|" + "---:|" * (len(HEADS) - 1))
        for row in section_rows:
            best = "–" if row.best is None else f"{row.best:g}".replace("inf", "∞")
            cells = [f"`{row.name}`", best, f"{row.perfect:.2f}", f"{row.noise:.2f}".replace("-0.00", "0.00")]
            yield f"| {' | '.join([*cells, *(_cell(row, alteration) for alteration in KNOWN)])} |"
        yield ""


def _cell(row: Row, alteration: Change | Alteration) -> str:
    change = row.changes[alteration]
    text = "=" if abs(change) < 0.005 else f"{change:+.2f}".replace("-", "−")
    if alteration in row.traits.lowered_by or alteration in row.traits.raised_by:
        return f"**{text}**"
    return f"{text} ~" if alteration in row.traits.changed_by else text


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")
