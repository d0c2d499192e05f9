"""The folded part of a probe's page: labels needed, differences of encoders, numbers about layers, all numbers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from html import escape

from sober.metrics.registry import METRICS, home_of
from sober.probing.differences import Difference, differences
from sober.probing.layer import Layer
from sober.probing.shown_layers import best_layer, by_encoder
from sober.report.charts import HUES
from sober.report.drawings import Interval, cut, intervals, svg, text
from sober.report.probe_words import LABEL_FREE, NUMBERS, labels_of, layer_name, scaled, two
from sober.report.sortable_tables import Cell, Column, short, table

DASHES = ("", "7 3", "2 3", "9 3 2 3")
LISTED = 3_000  # rows of a table, at most
DRAWN = 24  # pairs of encoders, at most

# Curves of labels: the size of a drawing, its margins, and the height of a line of text.
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM, LINE = 430, 250, 40, 120, 10, 40, 15
LETTERS = 16  # of a factor's name beside its curve


# Labels needed.


def label_curves(layers: Sequence[Layer]) -> str:
    """How well the linear readout of each encoder's best layer tells each factor, against the number of labels."""
    several = len({layer.world for layer in layers}) > 1
    drawn = []
    for (world, encoder), encoder_layers in by_encoder(layer for layer in layers if not layer.reference).items():
        layer = best_layer(encoder_layers)
        if len(labels_of([layer])) < 2:
            continue
        where = f"{encoder} on {world}" if several else encoder
        drawn.append(
            f"<figure><h3>{escape(where)}</h3>"
            f'<p class="how-to-read">{escape(layer_name(layer))}, its best layer</p>{_curves(layer)}</figure>'
        )
    if not drawn:
        return ""
    read = (
        "How well a linear readout tells each factor, against the number of labelled pictures that it learned from. "
        "0 is chance, 1 is perfect."
    )
    return f'<p class="how-to-read">{escape(read)}</p><div class="curves">{"".join(drawn)}</div>'


def _curves(layer: Layer) -> str:
    sizes = labels_of([layer])
    ends = math.log10(sizes[0]), math.log10(sizes[-1])
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x(size: int) -> float:
        return LEFT + wide * (math.log10(size) - ends[0]) / (ends[1] - ends[0])

    def y(value: float) -> float:
        return TOP + high * (1 - min(1.0, max(0.0, value)))

    marks = []
    for value in (0, 0.25, 0.5, 0.75, 1):
        marks.append(
            f'<line x1="{LEFT}" x2="{LEFT + wide}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="var(--line)"/>'
        )
        marks.append(text(LEFT - 7, y(value) + 4, f"{value:g}", "end"))
    marks += [text(x(size), HEIGHT - 20, f"{size:,}") for size in _named_sizes(sizes, x)]
    marks.append(text(LEFT + wide / 2, HEIGHT - 3, "labelled pictures"))
    ended = []
    for place, factor in enumerate(layer.about):
        numbers = [number for size in sizes if (number := layer.number(factor.name, "linear readout", size))]
        points = [(x(number.labels), y(scaled(layer, number).value), number) for number in numbers]
        hue, dash = HUES[place % len(HUES)], DASHES[place // len(HUES) % len(DASHES)]
        marks.append(
            f'<polyline points="{" ".join(f"{across:.1f},{height:.1f}" for across, height, _ in points)}" fill="none" '
            f'stroke="{hue}" stroke-width="2" stroke-dasharray="{dash}"/>'
        )
        for across, height, number in points:
            title = f"{factor.name}, {number.labels:,} labels: {two(scaled(layer, number).value)}"
            marks.append(
                f'<circle cx="{across:.1f}" cy="{height:.1f}" r="3.5" fill="{hue}">'
                f"<title>{escape(title)}</title></circle>"
            )
        ended.append((points[-1][1], factor.name, hue))
    for height, (end, name, hue) in _spread(ended):
        across = LEFT + wide
        marks.append(f'<path d="M{across + 5} {end:.1f}L{across + 16} {height:.1f}" stroke="{hue}" fill="none"/>')
        marks.append(text(across + 20, height + 4, cut(name, LETTERS), "start", "var(--ink)"))
    label = f"Linear readouts of {layer_name(layer)} against labels: {', '.join(factor.name for factor in layer.about)}"
    return svg(WIDTH, HEIGHT, label, marks)


def _named_sizes(sizes: Sequence[int], x: Callable[[int], float]) -> list[int]:
    """The sizes whose names have room on the axis; the largest has it first."""
    apart: list[int] = []
    for size in reversed(sizes):
        if not apart or x(apart[-1]) - x(size) > 36:
            apart.append(size)
    return apart


def _spread(ended: list[tuple[float, str, str]]) -> list[tuple[float, tuple[float, str, str]]]:
    """Heights for names, a line apart and as near to the ends of their curves as the drawing lets them."""
    ordered = sorted(ended)
    heights: list[float] = []
    for end, _, _ in ordered:
        heights.append(max(end, heights[-1] + LINE) if heights else end)
    lowest = float(HEIGHT - BOTTOM + LINE)
    for place in reversed(range(len(heights))):
        heights[place] = min(heights[place], lowest)
        lowest = heights[place] - LINE
    return list(zip(heights, ordered, strict=True))


# Differences between encoders.


def difference_section(layers: Sequence[Layer]) -> str:
    """Drawings and a table of the paired differences between every two encoders at their best layers."""
    gaps = [row for row in differences(layers) if math.isfinite(row.low + row.high)]
    if not gaps:
        return ""
    pairs: dict[tuple[str, str, str], list[Difference]] = {}
    for row in gaps:
        pairs.setdefault((row.world, row.encoder, row.other), []).append(row)
    several = len({world for world, _, _ in pairs}) > 1
    reach = max(0.1, *(max(abs(row.low), abs(row.high)) for row in gaps))
    drawn = []
    for (world, encoder, other), rows in itertools.islice(pairs.items(), DRAWN):
        title = f"{encoder} less {other}" + (f", {world}" if several else "")
        ordered = sorted(rows, key=lambda row: bool(row.factor))
        bars = [Interval(row.factor or "mean", row.difference, row.low, row.high, row.sure) for row in ordered]
        drawing = intervals(bars, f"{title}: also in the table below", width=WIDTH, names=RIGHT, reach=reach)
        drawn.append(f"<figure><h3>{escape(title)}</h3>{drawing}</figure>")
    read = (
        "Right of 0, the first encoder tells a factor better than the second. Filled points have intervals of 95% that "
        "leave out 0."
    )
    return f'<p class="how-to-read">{read}</p><div class="curves">{"".join(drawn)}</div>{_difference_table(gaps)}'


def _difference_table(gaps: Sequence[Difference]) -> str:
    several = len({row.world for row in gaps}) > 1
    columns = [
        *(Column(name, number=False) for name in ("factor", "encoder", "against")),
        Column("value", "R², or accuracy for categories"),
        Column("of the other", "the same"),
        Column("difference", "positive: the encoder is better"),
        Column("sure", number=False),
    ]
    rows = [
        [
            Cell(row.factor or "mean over factors", row.world if several else ""),
            Cell(row.encoder, row.layer),
            Cell(row.other, row.other_layer),
            Cell(short(row.value), value=row.value),
            Cell(short(row.other_value), value=row.other_value),
            Cell(short(row.difference), f"{short(row.low)} to {short(row.high)}", row.difference),
            Cell("yes" if row.sure else "no"),
        ]
        for row in gaps[:LISTED]
    ]
    caption = (
        "R² of linear readouts, accuracy for categories, on the second half of the test pictures. Below a difference "
        "stands its 95% interval over the same pictures; it is sure if that leaves out 0."
    )
    return table(caption, columns, rows, "difference")


# Numbers about layers.


def layer_table(layers: Sequence[Layer]) -> str:
    """Numbers about whole layers beside what can be read from them."""
    names = list(dict.fromkeys(number.name for layer in layers for number in layer.numbers if not number.factor))
    names.sort(key=lambda name: list(LABEL_FREE).index(name) if name in LABEL_FREE else len(LABEL_FREE))
    if not names:
        return ""
    several = len({layer.world for layer in layers}) > 1
    columns = [
        *(Column(name, number=False) for name in ("layer", "encoder")),
        Column("units"),
        Column("can be read", "mean over factors of the linear readout; 0 is chance, 1 is perfect"),
        *(Column(*_layer_number(name)) for name in names),
    ]
    rows = []
    for layer in layers[:LISTED]:
        numbers = {number.name: number.value for number in layer.numbers if not number.factor}
        readable = layer.readable()
        rows.append(
            [
                Cell(layer_name(layer), layer.world if several else ""),
                Cell(layer.encoder, "line to beat" if layer.reference else ""),
                Cell(f"{layer.width:,}", value=layer.width),
                Cell(two(readable), value=readable),
                *(Cell(short(numbers[name]), value=numbers[name]) if name in numbers else Cell("–") for name in names),
            ]
        )
    scores = [_layer_number(name)[0] for name in names if name not in LABEL_FREE]
    of_units = f" {' and '.join(scores)} are about single units, in layers with few of them." if scores else ""
    free = ", ".join(_layer_number(name)[0] for name in names if name in LABEL_FREE)
    caption = (f"Without labels: {free}." if free else "") + of_units
    return table(caption, columns, rows, "layer")


def _layer_number(name: str) -> tuple[str, str]:
    """The title and meaning of a number about a layer: a label-free one, or a score."""
    if words := LABEL_FREE.get(name):
        return words.title, words.meaning
    is_score = any(name in metric.scores for metric in METRICS.values())
    meaning = home_of(name).scores[name] if is_score else None
    return (meaning.title or name, meaning.summary) if meaning is not None else (name, "")


# All numbers.


def all_numbers(layers: Sequence[Layer], in_folder: bool) -> str:
    """A row for each layer and factor, a column for each number."""
    measured = [
        (name, size)
        for name in NUMBERS
        for size in sorted({number.labels for layer in layers for number in layer.numbers if number.name == name})
    ]
    more_labels = {name: sum(other == name for other, _ in measured) > 1 for name, _ in measured}
    columns = [
        *(Column(name, number=False) for name in ("factor", "layer")),
        *(
            Column(f"{NUMBERS[name].title}, {size:,} labels" if more_labels[name] else NUMBERS[name].title, _note(name))
            for name, size in measured
        ),
    ]
    rows = list(_rows(layers, measured))
    hidden = f" The first {LISTED:,} of {len(rows):,} rows." if len(rows) > LISTED else ""
    where = " The file probe.parquet beside this page has all numbers." if in_folder else ""
    caption = (
        "R², accuracy for categories (in percent), and numbers about moves. Below a readout stands its 95% interval; "
        f"below unseen and seen combinations, the range over pairs with other factors.{hidden}{where}"
    )
    return table(caption, columns, rows[:LISTED], "row")


def _note(name: str) -> str:
    return NUMBERS[name].meaning


def _rows(layers: Sequence[Layer], measured: Sequence[tuple[str, int]]) -> Iterator[list[Cell]]:
    several = len({layer.world for layer in layers}) > 1
    for layer in layers:
        numbers = {(number.factor, number.name, number.labels): number for number in layer.numbers}
        for factor in layer.about:
            cells = [Cell(factor.name, layer.world if several else ""), Cell(layer_name(layer), layer.encoder)]
            for name, size in measured:
                number = numbers.get((factor.name, name, size))
                if number is None:
                    cells.append(Cell("–"))
                    continue
                is_share = number.unit == "accuracy"
                value, low, high = ((f"{bound:.0%}" if is_share else two(bound)) for bound in number[2:5])
                bounds = f"{low} to {high}" if math.isfinite(number.low) else ""
                chance = f"by chance {number.chance:.2f}" if math.isfinite(number.chance) else ""
                cells.append(Cell(value, bounds, number.value, note=chance))
            yield cells
