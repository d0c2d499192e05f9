"""The page of a comparison: what differs between codes of the same rows, in sentences, a drawing and tables."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from sober.errors import counted
from sober.metrics.comparison import ROWS, Comparison, Difference
from sober.metrics.metric import FLAGS
from sober.metrics.registry import home_of
from sober.report.frame import file, write
from sober.report.page import Section, figure_data, page, style
from sober.report.sortable import Cell, Column, short, table

WIDTH, NAMES, STEP, TOP = 760, 300, 22, 26  # of a drawing in its own units: width, that of names, rows, the axis
WIDEST = 2.0  # range of a score that shares an axis with others


def write_comparison(found: Comparison, path: Path) -> Path:
    """Writes one HTML file that opens without a network."""
    return write(path, comparison_page(found))


def comparison_page(found: Comparison) -> str:
    """The whole page."""
    title = " against ".join(found.names) if len(found.names) == 2 else f"{len(found.names)} representations compared"
    of = f"{counted(found.groups, 'group')} of " if found.groups else ""
    head = f'<h1>{escape(title)}</h1><p class="about">{escape(of)}{found.rows:,} rows, the same for all</p>'
    sentences = "".join(f"<li>{escape(sentence)}</li>" for sentence in findings(found))
    sections = [
        Section("findings", "What was found", f'<ol class="findings">{sentences}</ol>'),
        Section("scores", "Scores", _scores(found)),
        Section("drawn", "Differences", "".join(_drawings(found))),
        Section("differences", "Every difference", _differences(found)),
        Section("how", "How it was found", _how(found)),
        Section("measured", "What was measured", _measured(found)),
        Section("flags", "Flags", _flags(found)),
    ]
    return page(
        title,
        head,
        sections,
        css=style("explorer.css", "report.css"),
        data={"report-data": figure_data([])},
        scripts=[file("report.js")],
        charts=False,
    )


def findings(found: Comparison) -> Iterator[str]:
    """What a person would say of it, pair by pair."""
    for first, second in itertools.combinations(found.names, 2):
        pair = [each for each in found.differences if (each.first, each.second) == (first, second)]
        real = [each for each in pair if each.real]
        if not real:
            yield f"No score tells {first} and {second} apart: each of {len(pair)} differences may be chance."
            continue
        wins = {name: [each for each in real if each.better == name] for name in (first, second)}
        said = [f"{name} is better in {len(some)} ({_some(some)})" for name, some in wins.items() if some]
        neither = [each for each in real if not each.better]
        said += [f"{len(neither)} of which no end is better ({_some(neither)})"] if neither else []
        yield f"{first} and {second} differ beyond chance in {len(real)} of {len(pair)} scores: {'; '.join(said)}."


def _some(differences: Sequence[Difference]) -> str:
    """The clearest of some differences, by what their scores are called."""
    clearest = sorted(differences, key=lambda each: (each.p, -abs(each.value)))
    names = [each.score for each in clearest[:3]]
    return ", ".join([*names, *(["…"] if len(differences) > 3 else [])])


def _scores(found: Comparison) -> str:
    columns = [Column("score", number=False), *(Column(name) for name in found.names)]
    rows = [[Cell(_marked(score)), *(_value(found, name, score) for name in found.names)] for score in found.measured]
    caption = "Scores of all rows, and below each its standard error. ↑ higher is better, ↓ lower. † marks flags."
    return table(caption, columns, rows, "score")


def _value(found: Comparison, name: str, score: str) -> Cell:
    scores = found.scores[name]
    if score not in scores:
        return Cell("–")
    error = found.errors[name].get(score)
    small = "" if error is None else f"± {short(error)}"
    return Cell(short(scores[score]), small, scores[score], ", ".join(scores.flags[score]))


def _marked(score: str) -> str:
    return score + {"higher": " ↑", "lower": " ↓", "neither": ""}[home_of(score).scores[score].better]


def _drawings(found: Comparison) -> Iterator[str]:
    """For each pair the differences of scores that share a scale, with their intervals."""
    for first, second in itertools.combinations(found.names, 2):
        shown = [
            each for each in found.differences if (each.first, each.second) == (first, second) and _bounded(each.score)
        ]
        if shown:
            title = f"{second} less {first}"
            yield (
                f'<figure><h3>{escape(title)}</h3><p class="says">To the right of 0 {escape(second)} has the higher '
                f"score. Filled points are real differences; lines are intervals of {found.level:.0%}.</p>"
                f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(title)}">{_drawing(shown)}</div>'
                "<figcaption>Scores without bounds are in the table below.</figcaption></figure>"
            )


def _bounded(score: str) -> bool:
    meaning = home_of(score).scores[score]
    return math.isfinite(meaning.high - meaning.low) and meaning.high - meaning.low <= WIDEST


def _drawing(shown: Sequence[Difference]) -> str:
    reach = max(0.1, *(max(abs(each.low), abs(each.high)) for each in shown))
    step = next(each for each in (0.05, 0.1, 0.2, 0.25, 0.5, 1.0, 2.0, math.inf) if reach / each <= 4)
    middle, scale = (NAMES + WIDTH) / 2, (WIDTH - NAMES - 40) / 2 / reach
    height = TOP + STEP * len(shown) + 6
    count = int(reach / step + 1e-9) if math.isfinite(step) else 0
    ticks = [(middle + scale * step * at, step * at) for at in range(-count, count + 1)] if count else [(middle, 0.0)]
    parts = []
    for x, value in ticks:
        colour = "var(--line)" if value else "var(--ink)"
        parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 6}" y2="{height}" stroke="{colour}"/>'
            f'<text x="{x:.1f}" y="{TOP - 12}" text-anchor="middle" fill="var(--faded)">{short_tick(value)}</text>'
        )
    for at, each in enumerate(shown):
        y = TOP + STEP * (at + 0.5)
        low, dot, high = (middle + scale * value for value in (each.low, each.value, each.high))
        fill = "var(--accent)" if each.real else "var(--paper)"
        name = escape(_marked(each.score))
        parts.append(
            f"<g><title>{name}: {short(each.value)}, {short(each.low)} to {short(each.high)}</title>"
            f'<text x="{NAMES - 12}" y="{y + 4:.1f}" text-anchor="end" fill="var(--ink)">{name}</text>'
            f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y}" y2="{y}" stroke="var(--accent)" stroke-width="2"/>'
            f'<circle cx="{dot:.1f}" cy="{y}" r="4.5" fill="{fill}" stroke="var(--accent)" stroke-width="2"/></g>'
        )
    look = "width: 100%; min-width: 34rem; max-width: 60rem; font: 13px system-ui, sans-serif"
    label = "Differences and intervals, also in the table below"
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}" style="{look}">{"".join(parts)}</svg>'


def short_tick(value: float) -> str:
    """A number on an axis: with its sign, and as many digits as it needs."""
    return f"{value:+g}".replace("-", "−") if value else "0"


def _differences(found: Comparison) -> str:
    columns = [
        *(Column(name, number=False) for name in ("score", "codes", "against")),
        Column("difference", "of the first's score from the second's"),
        Column("p", "how often chance alone makes it as large", "lower"),
        Column("adjusted", "the same among so many comparisons", "lower"),
        Column("real", number=False),
        Column("better", number=False),
    ]
    rows = [
        [
            Cell(each.score),
            Cell(each.second),
            Cell(each.first),
            Cell(short(each.value), f"{short(each.low)} to {short(each.high)}", each.value),
            Cell(_share(each.p), value=each.p),
            Cell(_share(each.adjusted), value=each.adjusted),
            Cell("real" if each.real else "may be chance"),
            Cell(each.better or "–"),
        ]
        for each in found.differences
    ]
    caption = (
        f"Each score less that of the codes it stands against, and below it the interval of {found.level:.0%}. "
        f"Real is what is left after adjusting for all {len(found.differences)} comparisons."
    )
    return table(caption, columns, rows, "difference")


def _share(p: float) -> str:
    return "< 0.0001" if p < 1e-4 else f"{p:.4f}"


def _how(found: Comparison) -> str:
    drawn = "groups of rows" if found.groups else "rows"
    sample = f" Halves are of a sample of {ROWS:,} rows, so intervals are rather too wide." if found.rows > ROWS else ""
    sentences = (
        f"All codes were scored on {found.halves} random halves of the same {drawn}, each half with the same draws for "
        f"all.{sample} How much a difference varies over halves is how much it would vary over as many other {drawn}: "
        "for a mean, the variance over halves drawn without replacement is that over new samples of the whole size.",
        f"Intervals are by Student's t with {found.halves - 1} degrees of freedom. Probabilities are adjusted for the "
        "number of comparisons by Holm's method; a difference is called real where that leaves less than "
        f"{1 - found.level:.2g}.",
        "This is the chance of the rows and of the metrics' own draws. It says nothing of models trained again with "
        "other seeds, which often differ more.",
    )
    return "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)


def _measured(found: Comparison) -> str:
    terms = []
    for score in found.measured:
        metric = home_of(score)
        meaning = metric.scores[score]
        terms.append(
            f"<dt><code>{escape(score)}</code></dt><dd>{escape(f'{meaning.summary} ({meaning})')} "
            f"<small>{escape(metric.reference)}</small></dd>"
        )
    return f"<dl>{''.join(terms)}</dl>"


def _flags(found: Comparison) -> str:
    """What was not as a metric has in mind, by codes, and what was left out."""
    rows = []
    for name, scores in found.scores.items():
        for flag in sorted({flag for flags in scores.flags.values() for flag in flags}):
            flagged = [score for score, flags in scores.flags.items() if flag in flags]
            rows.append([Cell(name), Cell(flag), Cell(FLAGS[flag]), Cell(", ".join(flagged))])
        rows += [[Cell(name), Cell("left out"), Cell(reason), Cell(what)] for what, reason in scores.left_out.items()]
    columns = [Column(name, number=False) for name in ("codes", "flag", "what it says", "scores")]
    return table("What to know before trusting a number.", columns, rows, "flag") if rows else ""
