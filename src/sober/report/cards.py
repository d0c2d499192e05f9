"""The cards of a report: what is shown of each chosen model, made of the files that `showcase` kept.

The style sheet does what moves in them.
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
from sober.metrics.aggregate import merges
from sober.metrics.registry import METRICS
from sober.report.explorer import HtmlPart
from sober.report.frame import file
from sober.report.showcase import SPAN, STEPS, Pictures, load_showcase, shown_path

# Of a card. Pictures come as they are where there is room; else in fewer colours, and at last smaller.
BYTES = 400_000
QUALITIES = ((64, 0), (64, 128), (64, 32), (64, 16), (32, 16))  # longest side, and colours (0: all)

# Drawings, in pixels of a small screen.
CELL, NAME, HEAD, MARGIN = 26, 104, 20, 22
CURVE, LEAF = 72, 20  # heights: of a curve, and of a factor in a dendrogram
BASE = CURVE + 12  # where the dendrogram begins
PLOT = (96, 60)
MIXED = 2  # sheets that pictures of mixed codes stand on
LETTERS = 15  # of a factor's name; all of it is in the tooltip
NUMBERED = 16  # latents up to which a cell has room for its number

Matrix = Float[np.ndarray, "D K"]


def showcase_part(
    folder: Path,
    runs: Sequence[str],
    scores: Mapping[str, str] | None = None,
    settings: Mapping[str, str] | None = None,
) -> HtmlPart:
    """A card for each run, by identity, from what its folder has in shown/; `scores` adds a line to some.

    `settings` says some of their settings in other words, such as without those that all of them share.

    Its colours are those of the page (`--paper`, `--ink`, … of the explorer's style sheet).
    """
    if not runs:
        raise RequestError("no model to show: give at least one")
    cards = []
    for run in runs:
        arrays, about = _shown(folder, run)
        about["setting"] = (settings or {}).get(run, about["setting"])
        cards.append(_card(arrays, about, (scores or {}).get(run, "")))
    css = file("showcase.css")
    return HtmlPart(css, f'<div class="showcase">{"".join(cards)}</div>', js="", data="null")


def _shown(folder: Path, run: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    path = shown_path(folder, run)
    arrays, about = load_showcase(path)
    if about["run"] != run:
        raise RequestError(f"{path} shows run {about['run']}, not the one of its name: move it elsewhere")
    return arrays, about


def _card(arrays: Mapping[str, np.ndarray], about: Mapping[str, Any], scores: str) -> str:
    height, width = arrays["pictures"].shape[1:3]
    drawings = _drawings(arrays, about)
    pairs = np.stack([arrays["pictures"], arrays["reconstructions"]], axis=1)  # (12, 2, H, W, C)
    mixed = np.array_split(arrays["mixed"], MIXED) if "mixed" in arrays else []  # earlier versions kept none
    sheets = addresses([*pairs, *mixed, *arrays["traversals"]], max(BYTES - len(drawings), BYTES // 4))
    in_pairs, others = sheets[: len(pairs)], sheets[len(pairs) :]
    title, identity = f"{about['setting']}, seed {about['seed']}", escape(about["run"])
    return "\n".join(
        [
            f'<article class="shown" aria-labelledby="shown-{identity}" style="--aspect: {width / height:.4g}">',
            f'<h3 id="shown-{identity}">{escape(title)}</h3>',
            f'<p class="shown-note">{escape(about["world"])} · run {identity}</p>',
            f"<p>{escape(scores)}</p>" if scores else "",
            "<h4>Pictures, and beside each its reconstruction</h4>",
            f'<div class="shown-pictures">{_pairs(in_pairs)}</div>',
            _mixed(others[: len(mixed)]),
            "<h4>What each latent does</h4>",
            _strips(others[len(mixed) :], arrays["kl"]),
            f"{drawings}</article>",
        ]
    )


def _drawings(arrays: Mapping[str, np.ndarray], about: Mapping[str, Any]) -> str:
    """What latents have to do with factors, where there are any."""
    factors, carries = about["factors"], arrays["kl"] >= INFORMATIVE
    out = ""
    if factors:
        names = [factor["name"] for factor in factors]
        out += f"<h4>Which factors it has to do with</h4>{_relations(arrays, names, carries, about['run'])}"
    if factors and carries.any():
        out += f"<h4>How latents respond to each factor</h4>{_response_plots(arrays, factors, carries)}"
    return out


def _pairs(sheets: Sequence[str]) -> str:
    described = "picture {} and its reconstruction"
    return "".join(f'<span><img src="{sheet}" alt="{described.format(i)}"></span>' for i, sheet in enumerate(sheets, 1))


def _mixed(sheets: Sequence[str]) -> str:
    """Pictures of codes that no picture has; nothing where none were kept."""
    if not sheets:
        return ""
    note = (
        "Each latent is drawn by itself, from the range that it has. Where latents can be mixed freely, these look "
        "like pictures of the world, which is what PIPE measures."
    )
    described = "pictures of mixed codes, part {}"
    images = "".join(
        f'<span><img src="{sheet}" alt="{described.format(i)}"></span>' for i, sheet in enumerate(sheets, 1)
    )
    return (
        f'<h4>Pictures of freely mixed codes</h4><p class="shown-note">{note}</p>'
        f'<div class="shown-mixed">{images}</div>'
    )


def _strips(sheets: Sequence[str], kl: Float[np.ndarray, " D"]) -> str:
    """A strip for each latent, the most informative first, and below a fold those that carry nothing."""
    used: list[str] = []
    unused: list[str] = []
    for d in np.argsort(-kl, kind="stable").tolist():
        (used if kl[d] >= INFORMATIVE else unused).append(_strip(sheets[d], d, kl[d]))
    note = (
        f"All latents stay at the code of one picture, and one runs from −{SPAN:g} to {SPAN:g}. Beside its number is "
        "what it carries: its KL from the prior, in nats. Point at a row, or reach it with Tab, and it moves."
    )
    out = f'<p class="shown-note">{note}</p><div class="shown-strips">{"".join(used)}</div>'
    if unused:
        verb = "carries" if len(unused) == 1 else "carry"
        said = f"{counted(len(unused), 'latent')} {verb} nothing (below {INFORMATIVE} nats)"
        out += f"<details><summary>{said}</summary>"
        out += f'<div class="shown-strips shown-unused">{"".join(unused)}</div></details>'
    return out


def _strip(sheet: str, latent: int, kl: float) -> str:
    return (
        f'<div class="shown-strip" tabindex="0" role="img" style="--strip: url({sheet})" '
        f'aria-label="latent {latent}, {kl:.2f} nats: {STEPS} pictures from -{SPAN:g} to {SPAN:g}">'
        f'<span class="shown-moving"></span><span class="shown-label">latent {latent} <small>{kl:.2f}</small></span>'
        '<span class="shown-steps"></span></div>'
    )


def _relations(
    arrays: Mapping[str, np.ndarray], names: Sequence[str], carries: Bool[np.ndarray, " D"], run: str
) -> str:
    """The matrices as heat maps or Hinton diagrams, each above its curve of groups and its dendrogram."""
    choices = "".join(
        f'<label><input type="radio" name="shown-{escape(run)}" value="{value}"{checked}> {text}</label>'
        for value, text, checked in (("heat", "heat map", " checked"), ("hinton", "Hinton diagram", ""))
    )
    figures = "".join(
        f"<figure><figcaption>{said}</figcaption>"
        f"{_matrix(said, arrays[f'{name}.matrix'], names, carries)}"
        f"{_groups(arrays, name, names)}</figure>"
        for name, said in _drawn(arrays).items()
    )
    note = (
        "Below each matrix, edges between factors and latents are deleted up to a threshold: how many independent "
        "groups are left (line), how many factors still have a latent (dashes), and where factors merge into one group."
    )
    return (
        f'<div class="shown-choice" role="radiogroup" aria-label="Matrices as">{choices}</div>'
        f'<div class="shown-matrices">{figures}</div><p class="shown-note">{note}</p>'
    )


def _drawn(arrays: Mapping[str, np.ndarray]) -> dict[str, str]:
    """The matrices that were kept, and what each holds: in the order of the registry."""
    return {name: metric.matrix for name, metric in METRICS.items() if f"{name}.matrix" in arrays}


def _response_plots(
    arrays: Mapping[str, np.ndarray], factors: Sequence[Mapping[str, Any]], carries: Bool[np.ndarray, " D"]
) -> str:
    """A row for each factor, with a small plot for each latent that carries something."""
    latents = np.flatnonzero(carries)
    responses = [arrays[f"response.{k}"][:, :, latents] for k in range(len(factors))]
    reach = max(SPAN, *(float(np.abs(each).max()) for each in responses))
    known_of = arrays[f"{next(iter(_drawn(arrays)))}.matrix"][latents].T  # (K, d): how much each latent knows
    rows = []
    for factor, response, known in zip(factors, responses, known_of, strict=True):
        plots = "".join(
            _plot(response[:, :, i], reach, f"latent {d}", factor, most=known[i] > 0 and i == np.argmax(known))
            for i, d in enumerate(latents)
        )
        rows.append(f'<h5>{_values(factor)}</h5><div class="shown-plots">{plots}</div>')
    note = (
        f"Mean of a latent, and the band from its 10% to its 90% quantile, by the value of a factor; every plot spans "
        f"−{reach:.2g} to {reach:.2g}. A heavy line in colour: the latent that knows most of that factor."
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


def _matrix(said: str, matrix: Matrix, names: Sequence[str], carries: Bool[np.ndarray, " D"]) -> str:
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
    label = f"{said}, factors by latents; largest: {names[factor]} and latent {latent}, {matrix.max():.2f}"
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
    """Steps: what holds at a threshold holds from the one before it; beyond the last there is nothing."""
    first, *rest = (f"{CURVE - (CURVE - 10) * share:.1f}" for share in [*shares, 0.0])
    return f"M{MARGIN} {first}" + "".join(f"H{axis(t)}V{y}" for t, y in zip(thresholds, rest, strict=True))


def _dendrogram(axis: _Axis, matrix: Matrix, names: Sequence[str]) -> str:
    """Factors as lines that end where they lose their last latent, joined where they merge."""
    order, tree = _tree(matrix)
    places = {k: BASE + LEAF * (i + 0.5) for i, k in enumerate(order)}
    node = {k: (float(matrix[:, k].max()), y) for k, y in places.items()}  # where its branch begins
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
    """Factors in an order in which no branches cross, and how groups of them merge, the highest threshold first."""
    group = {k: [k] for k in range(matrix.shape[1])}
    tree = []
    for level, a, b in merges(matrix):
        tree.append((level, group[a], group[b]))
        together = group[a] + group[b]
        group |= dict.fromkeys(together, together)
    return list(dict.fromkeys(k for together in group.values() for k in together)), tree


def _plot(response: Float[np.ndarray, "3 V"], reach: float, said: str, factor: Mapping[str, Any], *, most: bool) -> str:
    """A latent's response to one factor. A cyclic factor comes round to its first value again."""
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
    caption = f'<text x="{width / 2:g}" y="{height + 13}">{said}</text>'
    label = f"{said} by {factor['name']}: mean from {response[0].min():.2g} to {response[0].max():.2g}"
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
    """A number for a small cell: `.42`, `1.3`; nothing for what rounds to 0."""
    return "" if value < 0.005 else f"{value:.2f}".removeprefix("0") if value < 10 else f"{value:.0f}"


def addresses(sheets: Sequence[Pictures], room: int) -> list[str]:
    """Each sheet, pictures side by side, as the address of an image that holds it: the best for which there is room."""
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
    for at, image in enumerate(images):
        sheet.paste(image, (width * at, 0))
    if colours:
        sheet = sheet.quantize(colours, dither=Image.Dither.NONE)
    with io.BytesIO() as file:
        sheet.save(file, "PNG", optimize=True)
        return file.getvalue()
