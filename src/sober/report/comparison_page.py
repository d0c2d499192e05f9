"""The page of a comparison: sentences, drawings and tables say how codes of the same rows differ."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from sober.errors import counted
from sober.metrics.common.flags import FLAGS
from sober.metrics.registry import home_of
from sober.metrics.scoring.comparison import ROWS, Comparison, Difference
from sober.report.drawings import Interval, intervals
from sober.report.page import Section, figure_data, page, style
from sober.report.page_files import file, write
from sober.report.sortable_tables import Cell, Column, short, table

NAMED = 3  # scores that a sentence names, at most
WIDEST = 2.0  # a score with a wider range than this shares no axis with others


def write_comparison(comparison: Comparison, path: Path) -> Path:
    """Writes one HTML file that opens without a network."""
    return write(path, comparison_page(comparison))


def comparison_page(comparison: Comparison) -> str:
    """The page as HTML."""
    names = comparison.names
    title = " against ".join(names) if len(names) == 2 else f"{len(names)} representations compared"
    groups = f" in {counted(comparison.groups, 'group')}" if comparison.groups else ""
    head = f'<h1>{escape(title)}</h1><p class="about">{comparison.rows:,} rows{groups}, the same for all codes</p>'
    sentences = "".join(f"<li>{escape(sentence)}</li>" for sentence in findings(comparison))
    sections = [
        Section("findings", "What was found", f'<ol class="findings">{sentences}</ol>'),
        Section("scores", "Scores", _scores(comparison)),
        _fold("drawn", "Differences, drawn", "with their intervals", "".join(_drawings(comparison))),
        _fold("differences", "Every difference", "intervals and probabilities", _differences(comparison)),
        _fold("how", "How differences were found", "the method, in words", _how(comparison)),
        _fold("measured", "What was measured", "the meaning of each score", _measured(comparison)),
        _fold("flags", "Flags", "numbers to read with care", _flags(comparison)),
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


def _fold(name: str, title: str, note: str, html: str) -> Section:
    return Section(name, title, html, note, folded=True)


def findings(comparison: Comparison) -> Iterator[str]:
    """A sentence for each pair of codes: in which scores they differ, and which codes are better."""
    for first, second in itertools.combinations(comparison.names, 2):
        differences = _between(comparison, first, second)
        real = [difference for difference in differences if difference.real]
        if not real:
            yield f"No score tells {first} and {second} apart: each of {len(differences)} differences may be chance."
            continue
        wins = {name: [difference for difference in real if difference.better == name] for name in (first, second)}
        clauses = [f"{name} is better in {len(won)} ({_leading(won)})" for name, won in wins.items() if won]
        neither = [difference for difference in real if not difference.better]
        clauses += [f"in {len(neither)} neither higher nor lower is better ({_leading(neither)})"] if neither else []
        count = f"{len(real)} of {len(differences)} scores"
        yield f"{first} and {second} differ beyond chance in {count}: {'; '.join(clauses)}."


def _between(comparison: Comparison, first: str, second: str) -> list[Difference]:
    """The differences of two codes, one for each score."""
    pair = (first, second)
    return [difference for difference in comparison.differences if (difference.first, difference.second) == pair]


def _leading(differences: Sequence[Difference]) -> str:
    """The first three scores with these differences in the order of tables: the best known scores come first."""
    scores = [_title(difference.score) for difference in differences[:NAMED]]
    return ", ".join([*scores, *(["…"] if len(differences) > NAMED else [])])


def _scores(comparison: Comparison) -> str:
    names = comparison.names
    columns = [Column("score", number=False), *(Column(name) for name in names)]
    rows = [
        [Cell(_with_arrow(score), note=score), *(_value(comparison, name, score) for name in names)]
        for score in comparison.measured
    ]
    caption = "Scores of all rows, and below each its standard error. ↑ higher is better, ↓ lower. † marks flags."
    return table(caption, columns, rows, "score")


def _value(comparison: Comparison, name: str, score: str) -> Cell:
    scores = comparison.scores[name]
    if score not in scores:
        return Cell("–")
    error = comparison.errors[name].get(score)
    error_text = "" if error is None else f"± {short(error)}"
    return Cell(short(scores[score]), error_text, scores[score], ", ".join(scores.flags[score]))


def _with_arrow(score: str) -> str:
    """A score's name for people, with an arrow in the better direction."""
    return _title(score) + {"higher": " ↑", "lower": " ↓", "neither": ""}[home_of(score).scores[score].better]


def _title(score: str) -> str:
    """A score's name for people."""
    return home_of(score).scores[score].title or score


def _drawings(comparison: Comparison) -> Iterator[str]:
    """For each pair of codes, a drawing of the differences that fit one axis, with their intervals."""
    for first, second in itertools.combinations(comparison.names, 2):
        narrow = [
            difference for difference in _between(comparison, first, second) if _has_narrow_range(difference.score)
        ]
        if narrow:
            title = f"{second} less {first}"
            yield (
                f'<figure><h3>{escape(title)}</h3><p class="how-to-read">Right of 0, {escape(second)} has the higher '
                f"score. Filled points are real differences; lines are {comparison.level:.0%} intervals.</p>"
                f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(title)}">{_drawing(narrow)}</div>'
                "<figcaption>Scores with a wide or unbounded range are only in the table below.</figcaption></figure>"
            )


def _has_narrow_range(score: str) -> bool:
    """Whether a score's range is narrow enough for an axis that scores share."""
    meaning = home_of(score).scores[score]
    return math.isfinite(meaning.high - meaning.low) and meaning.high - meaning.low <= WIDEST


def _drawing(differences: Sequence[Difference]) -> str:
    """A row for each difference: its score, a point, and a line for its interval."""
    rows = [
        Interval(_with_arrow(difference.score), difference.value, difference.low, difference.high, difference.real)
        for difference in differences
    ]
    return intervals(rows, "Differences and intervals, also in the table below")


def _differences(comparison: Comparison) -> str:
    columns = [
        *(Column(name, number=False) for name in ("score", "codes", "against")),
        Column("difference", "the score of the codes less the score of the codes they are compared against"),
        Column("p", "the probability that chance alone makes the difference as large", "lower"),
        Column("adjusted", "p adjusted for the number of comparisons", "lower"),
        Column("real", number=False),
        Column("better", number=False),
    ]
    rows = [
        [
            Cell(_title(difference.score), note=difference.score),
            Cell(difference.second),
            Cell(difference.first),
            Cell(short(difference.value), f"{short(difference.low)} to {short(difference.high)}", difference.value),
            Cell(_probability(difference.p), value=difference.p),
            Cell(_probability(difference.adjusted), value=difference.adjusted),
            Cell("real" if difference.real else "may be chance"),
            Cell(difference.better or "–"),
        ]
        for difference in comparison.differences
    ]
    caption = (
        "A difference is the score of the codes less the score of the codes they are compared against; below it stands "
        f"its {comparison.level:.0%} interval. It is real if its p, adjusted for all "
        f"{counted(len(comparison.differences), 'comparison')}, is less than {1 - comparison.level:.2g}."
    )
    return table(caption, columns, rows, "difference")


def _probability(p: float) -> str:
    return "< 0.0001" if p < 1e-4 else f"{p:.4f}"


def _how(comparison: Comparison) -> str:
    units = "groups of rows" if comparison.groups else "rows"
    sampled = comparison.rows > ROWS
    sample = f" Halves come from a sample of {ROWS:,} rows." if sampled else ""
    paragraphs = (
        f"Sober split the {units} into random halves {comparison.halves // 2} times, and scored all codes on both. In "
        f"each half, metrics made the same random draws for all codes.{sample} The two halves of a split share none of "
        f"the {units}, so a difference varies between them as between two new samples of half as many {units}. With "
        f"all {units} the variance is half of that.",
        f"Intervals use Student's t with {comparison.halves // 2} degrees of freedom. Holm's method adjusts "
        "probabilities for the number of comparisons. A difference is called real if its adjusted probability is less "
        f"than {1 - comparison.level:.2g}.",
        "Intervals cover the chance in the choice of rows and in the metrics' own draws. They do not cover training "
        "with other seeds, which often changes scores more.",
    )
    return "".join(f"<p>{escape(paragraph)}</p>" for paragraph in paragraphs)


def _measured(comparison: Comparison) -> str:
    definitions = []
    for score in comparison.measured:
        metric = home_of(score)
        meaning = metric.scores[score]
        definitions.append(
            f"<dt>{escape(_title(score))} <code>{escape(score)}</code></dt>"
            f"<dd>{escape(f'{meaning.summary} ({meaning})')} <small>{escape(metric.reference)}</small></dd>"
        )
    return f"<dl>{''.join(definitions)}</dl>"


def _flags(comparison: Comparison) -> str:
    """The flags of scores, and the metrics that were left out, by codes."""
    rows = []
    for name, scores in comparison.scores.items():
        for flag in sorted({flag for flags in scores.flags.values() for flag in flags}):
            flagged = [
                score
                for score, copies in comparison.copies.items()
                if any(flag in scores.flags.get(name, ()) for name in (score, *copies))
            ]
            rows.append([Cell(name), Cell(flag), Cell(FLAGS[flag]), Cell(", ".join(map(_title, flagged)))])
        rows += [
            [Cell(name), Cell("left out"), Cell(reason), Cell(metric)] for metric, reason in scores.left_out.items()
        ]
    columns = [Column(name, number=False) for name in ("codes", "flag", "meaning", "scores")]
    return table("What to know before you trust a number.", columns, rows, "flag") if rows else ""
