"""The cards of a report: pictures, traversals and drawings of each chosen model, from its file in `shown/`.

`sober.evaluation.showcase` writes these files. The style sheet animates the traversals.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from sober.criteria.udr import INFORMATIVE
from sober.errors import RequestError, counted
from sober.metrics.common.aggregation import merges
from sober.metrics.registry import METRICS
from sober.report.explorer import HtmlFragment
from sober.report.page_files import file
from sober.results.latent_names import latent_words
from sober.results.score_files import load_parts
from sober.results.showcase_files import SPAN, STEPS, Pictures, load_showcase, showcase_path
from sober.results.tables.estimates import settings_that_differ

BYTES = 400_000  # a card's pictures and drawings should not be larger
# Longest side, and number of colours (0: all). A card uses the first quality whose pictures fit.
QUALITIES = ((64, 0), (64, 128), (64, 32), (64, 16), (32, 16))

# Drawings, in pixels of a small screen.
CELL, NAME, HEAD, MARGIN = 26, 104, 20, 22
CURVE, LEAF = 72, 20  # the height of a curve, and of a factor in a dendrogram
BASE = CURVE + 12  # the top of the dendrogram
PLOT = (96, 60)  # the width and height of a response plot
MIXED = 2  # pictures of mixed codes are divided among as many sheets
LETTERS = 15  # longer names of factors are cut; the tooltip has the full name
NUMBERED = 16  # with more latents than this, a cell has no room for its number

Matrix = Float[np.ndarray, "D K"]


def showcase_fragment(
    folder: Path,
    runs: Sequence[str],
    scores: Mapping[str, str] | None = None,
    settings: Mapping[str, str] | None = None,
    *,
    worlds: Mapping[str, str] | None = None,
    remarks: Mapping[str, str] | None = None,
) -> HtmlFragment:
    """A card for each run, by identity, from the files in the folder's `shown/`.

    `scores` adds a line of text to the cards of some runs, and `remarks` a sentence before it. `settings` and `worlds`
    replace the names of some runs' settings and of worlds, for example by names for people.

    Cards take their colours (`--paper`, `--ink`, …) from the explorer's style sheet.
    """
    if not runs:
        raise RequestError("no model to show: give at least one")
    cards = []
    for place, run in enumerate(runs):
        arrays, description = _showcase(folder, run)
        importances = _importances(folder, run)
        description["setting"] = (settings or {}).get(run, description["setting"])
        description["world"] = (worlds or {}).get(description["world"], description["world"])
        lines = [line for texts in (remarks, scores) if (line := (texts or {}).get(run, ""))]
        cards.append(_card(arrays, description, lines, importances, unfolded=place == 0))
    css = file("showcase.css")
    return HtmlFragment(css, f'<div class="showcase">{"".join(cards)}</div>', js="", data="null")


def _showcase(folder: Path, run: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    path = showcase_path(folder, run)
    arrays, description = load_showcase(path)
    if description["run"] != run:
        raise RequestError(f"{path} shows run {description['run']}, but its name says {run}: move it elsewhere")
    return arrays, description


class _Importances(NamedTuple):
    """How important each latent is to predictions of each factor, by one metric."""

    title: str
    matrix: Matrix
    factors: tuple[str, ...]


def _importances(folder: Path, run: str) -> list[_Importances]:
    """The matrices that metrics of the folder saved about a run, and that are drawn, in the order of the registry."""
    parts_of_run = list(load_parts(folder, run))
    saved = {name: [parts for parts in parts_of_run if parts.metric == name] for name in METRICS}
    settings = settings_that_differ((name, parts.settings) for name in saved for parts in saved[name])
    importances = []
    for name, metric in METRICS.items():
        for key, title in metric.drawn.items():
            for parts in saved[name]:
                if key in parts.parts:
                    full_title = ", ".join(filter(None, (title, settings[name, parts.settings])))
                    importances.append(_Importances(full_title, np.maximum(parts.parts[key], 0.0), parts.factors))
    return importances


def _card(
    arrays: Mapping[str, np.ndarray],
    description: Mapping[str, Any],
    lines: Sequence[str],
    importances: Sequence[_Importances],
    *,
    unfolded: bool,
) -> str:
    height, width = arrays["pictures"].shape[1:3]
    drawings = _drawings(arrays, description, importances)
    pairs = np.stack([arrays["pictures"], arrays["reconstructions"]], axis=1)  # (12, 2, H, W, C)
    mixed = np.array_split(arrays["mixed"], MIXED) if "mixed" in arrays else []  # files of earlier versions have none
    sheets = addresses([*pairs, *mixed, *arrays["traversals"]], max(BYTES - len(drawings), BYTES // 4))
    in_pairs, others = sheets[: len(pairs)], sheets[len(pairs) :]
    title, identity = f"{description['setting']}, seed {description['seed']}", escape(description["run"])
    return "\n".join(
        [
            f'<article class="shown" aria-labelledby="shown-{identity}" style="--aspect: {width / height:.4g}">',
            f'<details{" open" if unfolded else ""}><summary><h3 id="shown-{identity}">{escape(title)}</h3>'
            f'<span class="shown-note">{escape(description["world"])} · run {identity}</span></summary>',
            *(f"<p>{escape(line)}</p>" for line in lines),
            "<h4>Pictures, and beside each its reconstruction</h4>",
            f'<div class="shown-pictures">{_pairs(in_pairs)}</div>',
            _mixed(others[: len(mixed)]),
            "<h4>What each latent does</h4>",
            _strips(others[len(mixed) :], arrays["kl"], latent_words(arrays, description)),
            f"{drawings}</details></article>",
        ]
    )


def _drawings(
    arrays: Mapping[str, np.ndarray], description: Mapping[str, Any], importances: Sequence[_Importances]
) -> str:
    """Drawings of how latents depend on factors; empty if the world has no factors."""
    factors, carries = description["factors"], arrays["kl"] >= INFORMATIVE
    out = ""
    if factors:
        names = [factor["name"] for factor in factors]
        matrices = _relations(arrays, names, carries, description["run"], importances)
        out += f"<h4>Which factors each latent represents</h4>{matrices}"
    if factors and carries.any():
        out += f"<h4>How latents respond to each factor</h4>{_response_plots(arrays, factors, carries)}"
    return out


def _pairs(sheets: Sequence[str]) -> str:
    described = "picture {} and its reconstruction"
    return "".join(f'<span><img src="{sheet}" alt="{described.format(i)}"></span>' for i, sheet in enumerate(sheets, 1))


def _mixed(sheets: Sequence[str]) -> str:
    """Pictures that the model decodes from mixed codes; empty if the file has none."""
    if not sheets:
        return ""
    note = (
        "The model decodes these pictures from codes that mix latents at random. Each latent is drawn from its own "
        "range, whatever the others are. If latents can be mixed freely, these look like pictures of the world. The "
        "criterion PIPE measures how much they do."
    )
    described = "pictures of mixed codes, part {}"
    images = "".join(
        f'<span><img src="{sheet}" alt="{described.format(i)}"></span>' for i, sheet in enumerate(sheets, 1)
    )
    return (
        f'<h4>Pictures of freely mixed codes</h4><p class="shown-note">{note}</p>'
        f'<div class="shown-mixed">{images}</div>'
    )


def _strips(sheets: Sequence[str], kl: Float[np.ndarray, " D"], words: Sequence[str]) -> str:
    """A strip for each latent, the most informative first. Latents that carry nothing are folded away below."""
    used: list[str] = []
    unused: list[str] = []
    for d in np.argsort(-kl, kind="stable").tolist():
        (used if kl[d] >= INFORMATIVE else unused).append(_strip(sheets[d], d, kl[d], words[d]))
    note = (
        f"In each row one latent runs from −{SPAN:g} to {SPAN:g}; the others stay at the code of one picture. The nats "
        "are the latent's KL from the prior. Point at a row, or reach it with Tab, and it moves."
    )
    out = f'<p class="shown-note">{note}</p><div class="shown-strips">{"".join(used)}</div>'
    if unused:
        verb = "carries" if len(unused) == 1 else "carry"
        summary = f"{counted(len(unused), 'latent')} {verb} nothing (below {INFORMATIVE} nats)"
        out += f"<details><summary>{summary}</summary>"
        out += f'<div class="shown-strips shown-unused">{"".join(unused)}</div></details>'
    return out


def _strip(sheet: str, latent: int, kl: float, words: str) -> str:
    named = f"{escape(words)} " if words else ""
    return (
        f'<div class="shown-strip" tabindex="0" role="img" style="--strip: url({sheet})" '
        f'aria-label="latent {latent}, {kl:.2f} nats: {STEPS} pictures from -{SPAN:g} to {SPAN:g}">'
        '<span class="shown-moving"></span>'
        f'<span class="shown-label">{named}<small>latent {latent}, {kl:.2f} nats</small></span>'
        '<span class="shown-steps"></span></div>'
    )


def _relations(
    arrays: Mapping[str, np.ndarray],
    names: Sequence[str],
    carries: Bool[np.ndarray, " D"],
    run: str,
    importances: Sequence[_Importances],
) -> str:
    """The matrices as heat maps or Hinton diagrams: importances that the folder saved, and then the unified scores'.

    Each of the latter is above its curve of groups and its dendrogram.
    """
    choices = "".join(
        f'<label><input type="radio" name="shown-{escape(run)}" value="{value}"{checked}> {text}</label>'
        for value, text, checked in (("heat", "heat map", " checked"), ("hinton", "Hinton diagram", ""))
    )
    figures = "".join(
        f"<figure><figcaption>{title}</figcaption>"
        f"{_matrix(title, arrays[f'{name}.matrix'], names, carries)}"
        f"{_groups(arrays, name, names)}</figure>"
        for name, title in _matrix_titles(arrays).items()
    )
    note = (
        "The drawings below a matrix delete edges between factors and latents up to a threshold. The line shows how "
        "many independent groups are left, the dashes how many factors still have a latent, and the tree at which "
        "threshold factors merge into one group."
    )
    saved_figures = "".join(
        f"<figure><figcaption>{escape(title)}</figcaption>{_matrix(title, matrix, factors, carries)}</figure>"
        for title, matrix, factors in importances
        if len(matrix) == len(carries)
    )
    saved = f'<div class="shown-matrices">{saved_figures}</div>' if saved_figures else ""
    return (
        f'<div class="shown-choice" role="radiogroup" aria-label="Matrices as">{choices}</div>'
        f'{saved}<div class="shown-matrices">{figures}</div><p class="shown-note">{note}</p>'
    )


def _matrix_titles(arrays: Mapping[str, np.ndarray]) -> dict[str, str]:
    """The title of each matrix in the file, by its metric's name, in the order of the registry."""
    return {name: metric.matrix for name, metric in METRICS.items() if f"{name}.matrix" in arrays}


def _response_plots(
    arrays: Mapping[str, np.ndarray], factors: Sequence[Mapping[str, Any]], carries: Bool[np.ndarray, " D"]
) -> str:
    """A row for each factor, with a small plot for each latent that carries something."""
    latents = np.flatnonzero(carries)
    responses = [arrays[f"response.{k}"][:, :, latents] for k in range(len(factors))]
    reach = max(SPAN, *(float(np.abs(response).max()) for response in responses))
    matrix = arrays[f"{next(iter(_matrix_titles(arrays)))}.matrix"][latents].T  # (K, d): how much latents represent
    rows = []
    for factor, response, weights in zip(factors, responses, matrix, strict=True):
        plots = "".join(
            _plot(response[:, :, i], reach, f"latent {d}", factor, most=weights[i] > 0 and i == np.argmax(weights))
            for i, d in enumerate(latents)
        )
        rows.append(f'<h5>{_values(factor)}</h5><div class="shown-plots">{plots}</div>')
    note = (
        f"Mean of a latent, and the band from its 10% to its 90% quantile, by the value of a factor; every plot spans "
        f"−{reach:.2g} to {reach:.2g}. A heavy line in colour marks the latent that represents most of that factor."
    )
    return f'<p class="shown-note">{note}</p><div class="shown-responses">{"".join(rows)}</div>'


def _values(factor: Mapping[str, Any]) -> str:
    values, kind = factor["values"], factor["kind"]
    between = " to ".join([_short(values[0]), _short(values[-1])])
    return (
        f'<span title="{escape(factor["name"])}">{escape(_short(factor["name"], 2 * LETTERS))}</span> '
        f"<small>{escape(kind)}, {escape(between)}</small>"
    )


# Drawings


def _matrix(title: str, matrix: Matrix, names: Sequence[str], carries: Bool[np.ndarray, " D"]) -> str:
    """A row for each factor and a column for each latent; the style sheet shows the heat map or the Hinton diagram."""
    largest = matrix.max(initial=0.0) or 1.0
    heads = [
        f'<text class="{"" if used else "shown-faint"}" x="{NAME + CELL * (d + 0.5):g}" y="{HEAD - 7}">{d}</text>'
        for d, used in enumerate(carries)
    ]
    rows = []
    for k, name in enumerate(names):
        cells = "".join(_cell(d, value, value / largest, len(matrix)) for d, value in enumerate(matrix[:, k]))
        rows.append(f'<g transform="translate(0 {HEAD + CELL * k})">{_name(name, NAME - 8, "end", 17)}{cells}</g>')
    latent, factor = divmod(int(np.argmax(matrix)), len(names))
    label = f"{title}, factors by latents; largest: {names[factor]} and latent {latent}, {matrix.max():.2f}"
    return _svg(label, NAME + CELL * len(matrix), HEAD + CELL * len(names), "".join([*heads, *rows]))


def _cell(latent: int, value: float, share: float, latents: int) -> str:
    x, side = NAME + CELL * latent, (CELL - 2) * np.sqrt(share)
    middle = x + CELL / 2
    number = f'<text class="heat" x="{middle:g}" y="17">{_number(value)}</text>' if latents <= NUMBERED else ""
    corner = f'x="{middle - side / 2:.1f}" y="{(CELL - side) / 2:.1f}"'
    return (
        f"<g><title>latent {latent}: {value:.3g}</title>"
        f'<rect class="cell" x="{x}" style="--share: {share:.2f}"/>'
        f'{number}<rect class="hinton" {corner} width="{side:.1f}" height="{side:.1f}"/></g>'
    )


class _Axis(NamedTuple):
    """Thresholds from 0 to `top`, from the margin to `right`."""

    top: float
    right: float

    def __call__(self, threshold: float) -> str:
        return f"{MARGIN + (self.right - MARGIN) * threshold / self.top:.1f}"


def _groups(arrays: Mapping[str, np.ndarray], name: str, names: Sequence[str]) -> str:
    """The curve of independent groups above the dendrogram of factors, over one axis of thresholds."""
    matrix, thresholds = arrays[f"{name}.matrix"], arrays[f"{name}.thresholds"]
    factors, groups = arrays[f"{name}.connected_factors"], arrays[f"{name}.independent_groups"]
    width = max(NAME + CELL * len(matrix), 3 * NAME)
    axis = _Axis(float(matrix.max(initial=0.0)) or 1.0, width - NAME - 8)
    foot = BASE + LEAF * len(names)
    merged = counted(len(merges(matrix)), "merge")
    return _svg(
        f"independent groups by threshold, at most {groups.max(initial=0)}, and {merged} of factors",
        width,
        foot + 34,
        f'<path class="shown-axis" d="M{MARGIN} 8V{CURVE}H{axis.right}M{MARGIN} {foot + 4}H{axis.right}"/>'
        f'<text x="{MARGIN - 10}" y="14">{len(names)}</text><text x="{MARGIN - 10}" y="{CURVE}">0</text>'
        f'<path class="shown-dashes" d="{_curve(axis, thresholds, factors / len(names))}"/>'
        f'<path class="shown-line" d="{_curve(axis, thresholds, groups / len(names))}"/>'
        f"{_dendrogram(axis, matrix, names)}"
        f'<text x="{MARGIN}" y="{foot + 18}">0</text><text x="{axis.right}" y="{foot + 18}">{_number(axis.top)}</text>'
        f'<text class="shown-faint" x="{(MARGIN + axis.right) / 2:g}" y="{foot + 18}">threshold</text>',
    )


def _curve(axis: _Axis, thresholds: Float[np.ndarray, " T"], shares: Float[np.ndarray, " T"]) -> str:
    """A line in steps: the share at a threshold holds from the threshold before; beyond the last it is 0."""
    first, *others = (f"{CURVE - (CURVE - 10) * share:.1f}" for share in [*shares, 0.0])
    return f"M{MARGIN} {first}" + "".join(f"H{axis(t)}V{y}" for t, y in zip(thresholds, others, strict=True))


def _dendrogram(axis: _Axis, matrix: Matrix, names: Sequence[str]) -> str:
    """A tree: a factor's line ends at the threshold of its last edge, and lines join where factors merge."""
    order, tree = _tree(matrix)
    places = {k: BASE + LEAF * (i + 0.5) for i, k in enumerate(order)}
    node = {
        k: (float(matrix[:, k].max()), y) for k, y in places.items()
    }  # the threshold and height at which its branch begins
    tips = "".join(f'<circle cx="{axis(tip)}" cy="{y:g}" r="3"/>' for tip, y in node.values() if tip)
    branches = ""
    for level, left, right in tree:
        (a, above), (b, below) = node[left[0]], node[right[0]]
        branches += f"M{axis(a)} {above:g}H{axis(level)}V{below:g}H{axis(b)}"
        node |= dict.fromkeys([*left, *right], (level, (above + below) / 2))
    stems = "".join(f"M{axis(level)} {y:g}H{axis(0)}" for level, y in sorted(set(node.values())))
    leaves = "".join(_name(names[k], axis.right + 10, "start", y + 4) for k, y in places.items())
    return f'<path class="shown-branch" d="{branches}{stems}"/>{tips}{leaves}'


def _tree(matrix: Matrix) -> tuple[list[int], list[tuple[float, list[int], list[int]]]]:
    """Factors in an order in which no branches cross, and the merges of groups, the highest threshold first."""
    group = {k: [k] for k in range(matrix.shape[1])}
    tree = []
    for level, a, b in merges(matrix):
        tree.append((level, group[a], group[b]))
        together = group[a] + group[b]
        group |= dict.fromkeys(together, together)
    return list(dict.fromkeys(k for together in group.values() for k in together)), tree


def _plot(
    response: Float[np.ndarray, "3 V"], reach: float, latent: str, factor: Mapping[str, Any], *, most: bool
) -> str:
    """A latent's response to one factor. The plot of a cyclic factor ends with its first value again."""
    width, height = PLOT
    if factor["kind"] == "cyclic":
        response = np.hstack([response, response[:, :1]])
    x = np.linspace(6, width - 6, response.shape[1])
    mean, low, high = height / 2 - (height / 2 - 3) * response / reach
    if factor["kind"] == "categorical":  # nothing lies between two values
        dots = "".join(f"M{a:.0f} {b:.1f}h0" for a, b in zip(x, mean, strict=True))
        bars = "".join(f"M{a:.0f} {b:.1f}V{c:.1f}" for a, b, c in zip(x, low, high, strict=True))
        drawn = f'<path class="shown-bars" d="{bars}"/><path class="shown-dots" d="{dots}"/>'
    else:
        band = f"M{_path(x, low)}L{_path(x[::-1], high[::-1])}Z"
        drawn = f'<path class="shown-band" d="{band}"/><path class="shown-line" d="M{_path(x, mean)}"/>'
    frame = f'<rect width="{width}" height="{height}"/><path class="shown-axis" d="M0 {height / 2:g}H{width}"/>'
    caption = f'<text x="{width / 2:g}" y="{height + 13}">{latent}</text>'
    label = f"{latent} by {factor['name']}: mean from {response[0].min():.2g} to {response[0].max():.2g}"
    return _svg(label, width, height + 18, frame + drawn + caption, "shown-plot shown-most" if most else "shown-plot")


def _path(x: Float[np.ndarray, " V"], y: Float[np.ndarray, " V"]) -> str:
    return "L".join(f"{a:.0f} {b:.1f}" for a, b in zip(x, y, strict=True))


def _svg(label: str, width: float, height: float, drawn: str, kind: str = "shown-drawing") -> str:
    return (
        f'<svg class="{kind}" role="img" aria-label="{escape(label)}" viewBox="0 0 {width:g} {height:g}" '
        f'style="--width: {width / 13:.4g}rem">{drawn}</svg>'
    )


def _name(name: str, x: float, anchor: str, y: float) -> str:
    text = escape(_short(name))
    return f'<text x="{x:g}" y="{y:g}" style="text-anchor: {anchor}"><title>{escape(name)}</title>{text}</text>'


def _short(text: str, letters: int = LETTERS) -> str:
    return text if len(text) <= letters else f"{text[: letters - 1]}…"


def _number(value: float) -> str:
    """A number for a small cell: `.42`, `1.30`, `12`; empty if it rounds to 0."""
    return "" if value < 0.005 else f"{value:.2f}".removeprefix("0") if value < 10 else f"{value:.0f}"


def addresses(sheets: Sequence[Pictures], room: int) -> list[str]:
    """Each sheet as a data URL of one image with its pictures side by side, in the best quality that fits the room."""
    addresses: list[str] = []
    for side, colours in QUALITIES:
        files = [_png(sheet, side, colours) for sheet in sheets]
        addresses = [f"data:image/png;base64,{base64.b64encode(file).decode()}" for file in files]
        if sum(map(len, addresses)) <= room:
            break
    return addresses


def _png(pictures: Pictures, side: int, colours: int) -> bytes:
    from PIL import Image  # noqa: PLC0415

    images = [Image.fromarray(picture if picture.shape[2] == 3 else picture[..., 0]) for picture in pictures]
    for image in images:
        image.thumbnail((side, side))
    width, height = images[0].size
    sheet = Image.new(images[0].mode, (width * len(images), height))
    for column, image in enumerate(images):
        sheet.paste(image, (width * column, 0))
    if colours:
        sheet = sheet.quantize(colours, dither=Image.Dither.NONE)
    with io.BytesIO() as file:
        sheet.save(file, "PNG", optimize=True)
        return file.getvalue()
