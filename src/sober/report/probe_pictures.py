"""The pictures of a probe's page: nearest pictures, pictures along factors, confused classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

import numpy as np
from jaxtyping import Float, Int, UInt8

from sober.probing.layer import Layer
from sober.probing.shown_layers import best_layer, shown_layers
from sober.report.model_cards import addresses
from sober.report.probe_heat import Cell, cell_html
from sober.report.probe_words import layer_name, scaled, two
from sober.types import Factor

Images = Mapping[int, UInt8[np.ndarray, "H W C"]]
Sheet = UInt8[np.ndarray, "n H W C"]

BYTES = 300_000  # the pictures of a layer should not be larger
CLASSES = 12  # a factor with more classes shows its worst confusions as sentences
WORST = 6
LEAST = 0.05  # a smaller share is not shown as a confusion
SMOOTH = 32  # pixels: smaller pictures keep their hard edges


def pictures_html(layers: Sequence[Layer], images: Images) -> str:
    """For each layer that is shown, its pictures and confusions; a reader chooses a layer. Empty if there are none."""
    panels = [(layer, html) for layer in shown_layers(layers) if (html := _of_layer(layer, images))]
    if not panels:
        return ""
    several = len({layer.encoder for layer, _ in panels}) > 1
    names = [_title(layer, layers, several) for layer, _ in panels]
    options = "".join(f'<option value="{place}">{escape(name)}</option>' for place, name in enumerate(names))
    choice = (
        f'<label>Pictures of <select data-choice="layer" autocomplete="off">{options}</select></label>'
        if len(panels) > 1
        else f'<span class="chosen">Pictures of <b>{escape(names[0])}</b></span>'
    )
    drawn = "".join(
        f'<div class="panel shown-pictures"{" hidden" if place else ""}>{html}</div>'
        for place, (_, html) in enumerate(panels)
    )
    return f'<div class="panels"><p class="tools">{choice}</p>{drawn}</div>'


def _title(layer: Layer, layers: Sequence[Layer], several: bool) -> str:
    encoder_layers = [other for other in layers if other.encoder == layer.encoder]
    best, last = layer is best_layer(encoder_layers), layer is encoder_layers[-1]
    kind = "" if len(encoder_layers) == 1 else " (best and last)" if best and last else " (best)" if best else " (last)"
    return f"{layer.encoder}, {layer_name(layer)}{kind}" if several else f"{layer_name(layer)}{kind}"


def _of_layer(layer: Layer, images: Images) -> str:
    confusions = "".join(_confusion(factor, shares) for factor, shares in layer.confusions() if factor.size > 1)
    sides = {"side": f"{_along(layer, images)}{confusions}", "near": _neighbours(layer, images)}
    return "".join(f'<div class="{name}">{side}</div>' for name, side in sides.items() if side)


def _along(layer: Layer, images: Images) -> str:
    """A row for each factor: pictures from what the readout takes for the lowest value to the highest."""
    sheets = [(factor, _sheet(places, images)) for factor, places in zip(layer.about, layer.along, strict=True)]
    rows = [(factor, sheet) for factor, sheet in sheets if len(sheet)]
    if not rows:
        return ""
    sources = addresses([sheet for _, sheet in rows], BYTES // 2)
    widest = max(len(sheet) for _, sheet in rows)
    lines = []
    for (factor, sheet), source in zip(rows, sources, strict=True):
        number = layer.number(factor.name, "linear readout")
        share = two(scaled(layer, number).value) if number is not None else ""
        order = {"categorical": "one of each class", "cyclic": "around the circle"}.get(factor.kind, "from low to high")
        label = f"{factor.name}: {len(sheet)} pictures, {order}"
        lines.append(
            f"<li><span>{escape(factor.name)} <b>{share}</b><small>{order}</small></span>"
            f"{_strip(source, sheet, label, widest)}</li>"
        )
    read = (
        "Test pictures in the order of the linear readout of a factor. Does this factor change along the row, and "
        "nothing else in step with it? The number says how well the readout tells it."
    )
    return _figure("What a factor’s direction does", read, f'<ul class="strips">{"".join(lines)}</ul>')


def _neighbours(layer: Layer, images: Images) -> str:
    """A row for each query: the picture, and those whose features are nearest to its own."""
    sheets = [sheet for sheet in (_sheet(places, images) for places in layer.nearest) if len(sheet) > 1]
    if not sheets:
        return ""
    sources = addresses([pictures for sheet in sheets for pictures in (sheet[:1], sheet[1:])], BYTES // 2)
    widest = max(len(sheet) for sheet in sheets) - 1
    lines = [
        f"<li>{_strip(sources[2 * row], sheet[:1], 'a picture', 1)}"
        f"{_strip(sources[2 * row + 1], sheet[1:], f'the {len(sheet) - 1} pictures nearest to it', widest)}</li>"
        for row, sheet in enumerate(sheets)
    ]
    read = (
        "A random picture, and right of it the pictures whose features are nearest to its own. The layer counts most "
        "what they share."
    )
    style = f' style="--of: {widest}"'
    return _figure("Nearest pictures", read, f'<ul class="neighbours"{style}>{"".join(lines)}</ul>')


def _sheet(places: Int[np.ndarray, " n"], images: Images) -> Sheet:
    """The pictures that are there, grey or coloured."""
    pictures = np.array([images[place] for place in places.tolist() if place in images])
    return pictures if not len(pictures) or pictures.shape[3] in (1, 3) else pictures[..., :1]


def _strip(source: str, sheet: Sheet, label: str, most: int) -> str:
    """Pictures side by side, with gaps between them; as wide as their share of `most` pictures."""
    height, width = sheet[0].shape[:2]
    kind = "strip" if min(height, width) > SMOOTH else "strip hard"
    look = f"--across: {len(sheet)}; --of: {most}; --aspect: {len(sheet) * width / height:.4g}"
    return f'<span class="{kind}" style="{look}"><img src="{source}" alt="{escape(label)}"></span>'


# Confusions.


def _confusion(factor: Factor, shares: Float[np.ndarray, "C C"]) -> str:
    names = [str(value) for value in factor.values] or [str(c) for c in range(factor.size)]
    title = f"What is taken for what: {factor.name}"
    if factor.size > CLASSES:
        spoken = names if factor.values else [f"{factor.name} {name}" for name in names]
        sentences = "".join(f"<li>{escape(sentence)}</li>" for sentence in _worst(spoken, shares))
        read = f"The {WORST} largest confusions of {factor.size:,} classes, by the linear readout."
        return _figure(title, read, f"<ul>{sentences}</ul>") if sentences else ""
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    rows = []
    for true, row in zip(names, shares, strict=True):
        cells = [_share(true, guess, float(share)) for guess, share in zip(names, row, strict=True)]
        rows.append(f'<tr><th scope="row">{escape(true)}</th>{"".join(map(cell_html, cells))}</tr>')
    table = (
        f'<table class="heat confusion" style="--columns: {factor.size}"><thead><tr><td class="names"></td>{heads}'
        f"</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    )
    read = "Rows are true classes, columns what the linear readout takes them for, in percent of the row."
    return _figure(
        title, read, f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(title)}">{table}</div>'
    )


def _share(true: str, guess: str, share: float) -> Cell:
    words = f"{share:.0%} of {true} are taken for {guess}" if guess != true else f"{share:.0%} of {true} are told"
    return Cell(f"{100 * share:.0f}" if share >= 0.005 else "", round(share, 3), words)


def _worst(names: Sequence[str], shares: Float[np.ndarray, "C C"]) -> Iterator[str]:
    wrong = shares - np.diag(np.diag(shares))
    for place in np.argsort(-wrong, axis=None, kind="stable")[:WORST]:
        true, guess = divmod(int(place), len(names))
        if wrong[true, guess] >= LEAST:
            yield f"{wrong[true, guess]:.0%} of {names[true]} are taken for {names[guess]}"


def _figure(title: str, how_to_read: str, drawing: str) -> str:
    return f'<figure><h3>{escape(title)}</h3><p class="how-to-read">{escape(how_to_read)}</p>{drawing}</figure>'
