"""The page of `sober agree`: what recurs among models, and what chance would give. A report has it as a section."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

import numpy as np

from sober.agreement.analysis import Analysis
from sober.agreement.consensus import Consensus, consensus
from sober.agreement.sizes import largest_that_pays, sizes
from sober.agreement.subspaces import blocks
from sober.agreement.subspaces import table as subspace_table
from sober.agreement.summary import component_table, findings
from sober.agreement.traps import FLAGS
from sober.errors import counted
from sober.report.drawings import figure, svg, text
from sober.report.page import Section, figure_data, page, style
from sober.report.page_files import file, write
from sober.report.sortable_tables import Cell, Column, short, table

LISTED = 300  # rows of a table, at most
DRAWN = 40  # models in the matrix, at most
BINS = 40  # bars of a histogram
WORDS = {  # what is compared, in words
    "pearson": "correlation of codes",
    "spearman": "correlation of ranks",
    "lasso": "weight in a lasso",
    "cosine": "cosine of directions",
    "both": "the weaker of correlation of codes and cosine of directions",
}

KINDS = {  # of chance
    "shuffled": "rows in another order",
    "rotated": "random mixtures of a model’s own latents",
    "untrained": "latents of models that were never trained",
}


def write_agreement(analysis: Analysis, path: Path, picture_shape: Sequence[int] | None = None) -> Path:
    """Writes one HTML file that opens without a network. Directions of a `picture_shape` are drawn."""
    return write(path, agreement_page(analysis, picture_shape))


def agreement_page(analysis: Analysis, picture_shape: Sequence[int] | None = None) -> str:
    """The page as HTML."""
    title = f"What recurs among {len(analysis.models)} models"
    rows = "" if analysis.rows is None else f"{analysis.rows:,} rows, the same for all models; "
    words = (
        f"{rows}matched {analysis.matching.replace('-', ' ')}. A latent recurs in another model where its best "
        f"partner is at least {analysis.least:.2f} alike, by {WORDS[analysis.measure]}."
    )
    return page(
        title,
        f'<h1>{escape(title)}</h1><p class="about">{escape(words)}</p>',
        sections(analysis, picture_shape),
        css=style("explorer.css", "report.css"),
        data={"report-data": figure_data([])},
        scripts=[file("report.js")],
        charts=False,
    )


def sections(analysis: Analysis, picture_shape: Sequence[int] | None = None) -> list[Section]:
    """What a page shows: findings, drawings and tables first, the method below."""
    sentences = "".join(f"<li>{escape(sentence)}</li>" for sentence in findings(analysis))
    frame = sizes(analysis)
    return [
        Section("findings", "What was found", f'<ol class="findings">{sentences}</ol>'),
        Section("chance", "", _against_chance(analysis)),
        Section("components", "Components", _components(analysis, picture_shape)),
        Section("models", "Models", _matrix(analysis) + _ranking(analysis)),
        Section("sizes", "How many latents?", _sizes(frame) if frame.height > 1 else ""),
        _fold("together", "What recurs only together", "splits, merges, subspaces", _subspaces(analysis)),
        _fold("flags", "Flags", "latents to look at with care", _flags(analysis)),
        _fold("how", "How it was found", "the method, in words", _how(analysis)),
    ]


def section_html(analysis: Analysis, pictures: str = "") -> str:
    """The same as a part of another page, with pictures of components."""
    sentences = "".join(f"<li>{escape(sentence)}</li>" for sentence in findings(analysis))
    tables = [_components(analysis, None), _matrix(analysis), _ranking(analysis)]
    drawn = [_against_chance(analysis), pictures, *tables]
    listed = f'<ol class="findings" style="margin-bottom: 2rem">{sentences}</ol>'
    return f"{listed}{''.join(drawn)}<h3>How it was found</h3>{_how(analysis)}"


def _fold(name: str, title: str, note: str, html: str) -> Section:
    return Section(name, title, html, note, folded=True)


# Drawings.


def _against_chance(analysis: Analysis) -> str:
    """Histograms, one below the other: how alike the best partners of latents and of chance features are."""
    other_models = len(analysis.models) - 1
    similarity = analysis.recurrence.similarity[analysis.alive]
    rows = [("latents", similarity, "var(--accent)")]
    for chance in analysis.chances:
        others = other_models + (chance.kind == "untrained")
        rows.append((chance.kind, chance.best.sum(axis=1) / others, "var(--faded)"))
    width, name, height, gap = 640, 90, 54, 16
    scale = (width - name - 20) / BINS
    marks = []
    for row, (label, values, fill) in enumerate(rows):
        counts, _ = np.histogram(np.clip(values, 0, 1), BINS, (0, 1))
        bottom = (row + 1) * (height + gap)
        marks.append(text(name - 12, bottom - 4, label, "end", "var(--ink)"))
        for place, count in enumerate(counts.tolist()):
            if count:
                size = max(1.5, height * count / counts.max())
                title = f"{label}, {place / BINS:.3f} to {(place + 1) / BINS:.3f}: {count:,}"
                marks.append(
                    f'<rect x="{name + place * scale:.1f}" y="{bottom - size:.1f}" width="{scale - 1:.1f}" '
                    f'height="{size:.1f}" fill="{fill}"><title>{escape(title)}</title></rect>'
                )
        marks.append(f'<line x1="{name}" x2="{width - 20}" y1="{bottom}" y2="{bottom}" stroke="var(--line)"/>')
    bottom = len(rows) * (height + gap)
    x = name + analysis.least * (width - name - 20)
    marks.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{bottom}" stroke="var(--ink)" stroke-dasharray="3 4"/>')
    for value in (0, 0.25, 0.5, 0.75, 1):
        marks.append(text(name + value * (width - name - 20), bottom + 18, f"{value:g}"))
    title = "How alike are partners, and what does chance give?"
    drawing = svg(width, bottom + 26, title, marks)
    read = (
        "Each bar counts features by the mean similarity of their best partners in the other models. A latent recurs "
        "in a model if its partner there is right of the dashed line."
    )
    kinds = " ".join(f"{chance.kind}: {KINDS[chance.kind]}." for chance in analysis.chances)
    caption = f"{kinds} Latents that are not further right than these recur by chance."
    return figure(title, read, drawing, caption)


def _matrix(analysis: Analysis) -> str:
    """Which models share most: a cell for each pair."""
    order = [analysis.names.index(name) for name in analysis.ranking()["model"].to_list()[:DRAWN]]
    if len(order) < 3:
        return ""
    shares = analysis.shares_recurring()
    cell = 34 if len(order) <= 14 else 16
    names = [analysis.names[model] for model in order]
    left = min(220, 16 + 7.8 * max(map(len, names)))
    top = 18 + min(160, 6.2 * max(map(len, names)))
    marks = []
    for row, model in enumerate(order):
        y = top + cell * row
        marks.append(text(left - 8, y + cell / 2 + 4, _cut(names[row]), "end", "var(--ink)"))
        x = left + cell * (row + 0.5)
        marks.append(
            f'<text transform="translate({x:.1f} {top - 6:.1f}) rotate(-50)" fill="var(--ink)">'
            f"{escape(_cut(names[row]))}</text>"
        )
        for column, other in enumerate(order):
            if model == other:
                continue
            share = shares[model, other]
            title = f"{share:.0%} of the latents of {names[row]} recur in {names[column]}"
            x = left + cell * column
            marks.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{cell - 2}" height="{cell - 2}" fill="var(--accent)" '
                f'fill-opacity="{0.04 + 0.96 * share:.2f}"><title>{escape(title)}</title></rect>'
            )
            if cell > 20:
                ink = "var(--paper)" if share > 0.55 else "var(--ink)"
                marks.append(text(x + cell / 2 - 1, y + cell / 2 + 3, f"{share:.0%}".rstrip("%"), "middle", ink))
    width, height = left + cell * len(order) + 110, top + cell * len(order) + 6
    title = "Which models share their latents?"
    hidden = len(analysis.names) - len(order)
    caption = f"The first {len(order)} models of the ranking; {hidden:,} are not drawn." if hidden else ""
    read = "The share of the live latents of a row's model that recur in a column's model, in percent."
    return figure(title, read, svg(width, height, title, marks), caption)


def _cut(name: str) -> str:
    return name if len(name) <= 26 else f"{name[:12]}…{name[-12:]}"


def _sizes(frame) -> str:  # type: ignore[no-untyped-def]
    """The number of latents that recur against the number of latents."""
    rows = frame.to_dicts()
    width, height, left, bottom = 640, 260, 60, 220
    largest = max(row["latents"] for row in rows)
    most = max(1.0, *(row["recurring"] for row in rows))
    points = [
        (left + (width - left - 30) * row["latents"] / largest, bottom - (bottom - 24) * row["recurring"] / most, row)
        for row in rows
    ]
    marks = [f'<line x1="{left}" x2="{width - 20}" y1="{bottom}" y2="{bottom}" stroke="var(--line)"/>']
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in points)
    marks.append(f'<polyline points="{line}" fill="none" stroke="var(--accent)" stroke-width="2"/>')
    for x, y, row in points:
        fill = "var(--accent)" if row["pays"] else "var(--paper)"
        title = f"{row['latents']:,} latents: {row['recurring']:.1f} recur, {row['gain']:.2f} for each that was added"
        marks.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" fill="{fill}" stroke="var(--accent)" stroke-width="2">'
            f"<title>{escape(title)}</title></circle>"
        )
        marks += [text(x, bottom + 18, f"{row['latents']:,}"), text(x, y - 12, f"{row['recurring']:.1f}")]
    size = largest_that_pays(frame)
    verdict = "No size pays." if size is None else f"Up to {size:,} latents, more of the added ones recur than not."
    title = "Latents that recur, against latents"
    read = "Recurring latents of a model among models of its size, corrected for chance. Filled points pay."
    return figure(title, read, svg(width, height, title, marks), verdict)


# Tables.


def _components(analysis: Analysis, picture_shape: Sequence[int] | None) -> str:
    frame = component_table(analysis)
    if not frame.height:
        return "<p>No latents of two models are each other's best partners and alike enough.</p>"
    total = len(analysis.models)
    by_latent = analysis.table()
    facts = {
        (row["model"], row["latent"]): row
        for row in by_latent.select("model", "latent", "variance_share", "firing_rate", "flags").iter_rows(named=True)
    }
    fires = analysis.rows is not None and all(model.facts.one_sided for model in analysis.models)
    columns = [
        Column("component", number=False),
        Column("models", "how many models have it", "higher"),
        Column("alike", "mean similarity with the best partners in the other models", "higher"),
        Column("recurrence", "the share of the other models in which its latents recur", "higher"),
        Column("chance", "the same for features that cannot recur", "lower"),
        Column("q", "probability against chance, adjusted for the number of latents", "lower"),
        Column("variance", "its share of a model's variance, in the median model"),
        *([Column("fires", "the share of rows in which it is not 0, in the median model")] if fires else []),
        Column("latents", "its latent in each model", number=False),
    ]
    rows = []
    for row in frame.head(LISTED).iter_rows(named=True):
        members = [facts[member["model"], member["latent"]] for member in row["members"]]
        firing = [member["firing_rate"] for member in members if member["firing_rate"] is not None]
        names = sorted({FLAGS[name] for member in members for name in member["flags"]})
        latents = [f"{member['model']}: {member['latent']}" for member in row["members"]]
        variance, rate = float(np.median([member["variance_share"] for member in members])), _median(firing)
        rows.append(
            [
                Cell(f"{row['group']:,}", value=row["group"], remark="; ".join(names)),
                Cell(f"{row['models']} of {total}", value=row["models"]),
                Cell(short(row["similarity"]), value=row["similarity"]),
                Cell(f"{row['recurrence']:.2f}", f"{row['low']:.2f} to {row['high']:.2f}", row["recurrence"]),
                Cell(f"{row['chance']:.2f}", value=row["chance"]),
                Cell("< 0.001" if row["q"] < 1e-3 else f"{row['q']:.3f}", value=row["q"]),
                Cell(f"{variance:.2%}", value=variance),
                *([Cell("" if rate is None else f"{rate:.2%}", value=rate)] if fires else []),
                Cell(", ".join(latents[:2]) + (" …" if len(latents) > 2 else ""), note=", ".join(latents)),
            ]
        )
    hidden = f" The first {LISTED} of {frame.height:,}." if frame.height > LISTED else ""
    caption = (
        "A component is one latent in each of several models. Numbers are medians over its latents; below the "
        f"recurrence stands its {1 - analysis.level:.0%} interval. † marks flags.{hidden}"
    )
    pictures = "" if picture_shape is None else _pictures(consensus(analysis), picture_shape)
    return pictures + table(caption, columns, rows, "component")


def _median(values: Sequence[float]) -> float | None:
    return float(np.median(values)) if values else None


def _pictures(average: Consensus, shape: Sequence[int]) -> str:
    """The directions of the consensus as pictures, grey in the middle where they are 0."""
    if average.dictionary is None or average.dictionary.directions.shape[1] != np.prod(shape):
        return ""
    drawn = []
    for number, direction in enumerate(average.dictionary.directions[:64]):
        share = average.recurrence[number]
        label = f"direction of a component that is in {share:.0%} of the models"
        source = _png(direction.reshape(shape))
        drawn.append(
            f'<img src="{source}" alt="{label}" title="{label}" width="72" height="72" '
            'style="image-rendering: pixelated">'
        )
    read = "Directions of the components that recur, averaged over models, the most frequent first."
    look = "display: flex; flex-wrap: wrap; gap: 6px"
    return figure("What the components look like", read, f'<div style="{look}">{"".join(drawn)}</div>')


def _png(values: np.ndarray) -> str:
    """A grey or coloured picture (H, W) or (H, W, 3) as the address of an image."""
    largest = max(float(np.abs(values).max()), 1e-12)
    pixels = np.clip(127.5 + 127.5 * values / largest, 0, 255).astype(np.uint8)
    colours = pixels.ndim == 3 and pixels.shape[2] == 3
    pixels = pixels if colours else pixels.reshape(pixels.shape[0], -1)
    lines = b"".join(b"\0" + line.tobytes() for line in pixels)
    head = struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], 8, 2 if colours else 0, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(lines)), (b"IEND", b""))
    body = b"".join(
        struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
        for name, content in parts
    )
    return f"data:image/png;base64,{base64.b64encode(bytes([137]) + b'PNG' + bytes([13, 10, 26, 10]) + body).decode()}"


def _ranking(analysis: Analysis) -> str:
    frame = analysis.ranking()
    columns = [
        Column("model", number=False),
        Column("recurrence", "mean over its live latents", "higher"),
        Column("chance", "the same for features that cannot recur", "lower"),
        Column("alike", "mean similarity of its latents with their best partners", "higher"),
        Column("recurring", "latents that recur beyond chance", "higher"),
        Column("live", "latents that vary"),
        Column("latents"),
        Column("udr", "unsupervised disentanglement ranking, with this similarity, among all models", "higher"),
    ]
    fires = frame["active_per_row"].is_not_null().any()
    columns += [Column("active per row", "latents that fire in a row, on average")] if fires else []
    columns += [Column("explained", "share of the inputs' variance", "higher")] if "explained" in frame.columns else []
    rows = []
    for row in frame.head(LISTED).iter_rows(named=True):
        numbers = [Cell(short(row[name]), value=row[name]) for name in ("recurrence", "chance", "similarity")]
        counts = [Cell(f"{row[name]:,}", value=row[name]) for name in ("recurring", "live", "latents")]
        rows.append([Cell(row["model"]), *numbers, *counts, Cell(short(row["udr"]), value=row["udr"])])
        if fires:
            active = row["active_per_row"]
            rows[-1].append(Cell("" if active is None else f"{active:,.1f}", value=active))
        if "explained" in frame.columns:
            rows[-1].append(Cell(short(row["explained"]), value=row["explained"]))
    return table("The model whose latents recur most stands first.", columns, rows, "model")


def _subspaces(analysis: Analysis) -> str:
    frame = subspace_table(analysis, blocks(analysis))
    if not frame.height:
        return "<p>No latents recur only together.</p>"
    columns = [
        *(Column(name, number=False) for name in ("kind", "model", "latents", "other model", "latents there")),
        Column("together", "mean squared canonical correlation of both spans", "higher"),
        Column("alone", "the same for single latents"),
        Column("p", "the share of random subspaces that are as alike", "lower"),
    ]
    rows = [
        [
            Cell(row["kind"]),
            Cell(row["model"]),
            Cell(", ".join(map(str, row["latents"]))),
            Cell(row["other"]),
            Cell(", ".join(map(str, row["other_latents"]))),
            Cell(short(row["together"]), value=row["together"]),
            Cell(short(row["alone"]), value=row["alone"]),
            Cell("–" if row["p"] is None else f"{row['p']:.3f}", value=row["p"]),
        ]
        for row in frame.head(LISTED).iter_rows(named=True)
    ]
    hidden = f" The first {LISTED} of {frame.height:,}." if frame.height > LISTED else ""
    caption = f"A split is one latent that several of the other model make up, a merge the opposite.{hidden}"
    return table(caption, columns, rows, "block")


def _flags(analysis: Analysis) -> str:
    rows = [
        [Cell(name), Cell(f"{int(flagged.sum()):,}", value=int(flagged.sum())), Cell(FLAGS[name])]
        for name, flagged in analysis.flags.items()
        if flagged.any()
    ]
    columns = [Column("flag", number=False), Column("latents"), Column("meaning", number=False)]
    return table("What to know before you trust a latent.", columns, rows, "flag") if rows else ""


def _how(analysis: Analysis) -> str:
    return "".join(f"<p>{escape(paragraph)}</p>" for paragraph in _paragraphs(analysis))


def _paragraphs(analysis: Analysis) -> Iterator[str]:
    sign = "A negative similarity is no match." if analysis.signed else "Signs do not matter."
    yield (
        f"Each latent looks for its best partner in every other model, by {WORDS[analysis.measure]}. {sign} It recurs "
        f"in a model if its partner there is at least {analysis.least:.4g} alike. Recurrence is the share of the other "
        "models in which it recurs, with the exact interval of Clopper and Pearson."
    )
    kinds = ", ".join(f"{len(chance.model):,} {chance.kind}" for chance in analysis.chances)
    yield (
        f"Features that cannot recur went through the same search: {kinds}. p is the share of them whose partners are "
        "as alike on average, in standard deviations of the features that fire about as often. The kind of chance that "
        "is hardest to beat counts. Benjamini and Hochberg's method adjusts p for "
        f"{counted(int(analysis.alive.sum()), 'live latent')}."
    )
    yield (
        "Two latents are linked if each is the other's best partner and both are alike enough. A component is a set of "
        "linked latents, at most one of each model."
    )
    if analysis.matching == "one-to-one":
        yield (
            "Latents are matched one to one. The mean similarity of matched pairs is below the best possible one by at "
            f"most {analysis.matches.most_lost:.4f}. Every latent has a match, so look at how alike it is."
        )
