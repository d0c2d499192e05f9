"""The page of `sober probe`: what encoders know and mix up, heat maps of layers and factors, and pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from sober.errors import counted
from sober.probing.layer import Layer
from sober.probing.layer_files import load_pictures
from sober.probing.summary import findings_by_encoder
from sober.report.page import Section, figure_data, page, style
from sober.report.page_files import embedded, file, write
from sober.report.probe_heat import Heat
from sober.report.probe_pictures import Images, pictures_html
from sober.report.probe_tables import all_numbers, difference_section, label_curves, layer_table
from sober.report.probe_words import NUMBERS, how_measured, labels_of, works
from sober.results.training_state_files import world_digest

NARROW = 9  # a heat map with more factors takes the whole width; pictures stand below it


def write_probe(layers: Sequence[Layer], notes: Sequence[str], folder: Path | None, path: Path) -> Path:
    """Writes one HTML file that opens without a network. `folder` keeps the pictures."""
    worlds = dict.fromkeys(layer.world for layer in layers)
    images = {world: {} if folder is None else load_pictures(folder, world_digest(world)) for world in worlds}
    in_folder = folder is not None and path.resolve().parent == folder.resolve()
    return write(path, probe_page(layers, notes, images, in_folder=in_folder))


def probe_page(
    layers: Sequence[Layer], notes: Sequence[str], images: Mapping[str, Images], *, in_folder: bool = False
) -> str:
    """The page as HTML. `images` are small pictures by world and index."""
    worlds = list(dict.fromkeys(layer.world for layer in layers))
    encoders = list(dict.fromkeys(layer.encoder for layer in layers if not layer.reference))
    title = f"What {encoders[0]} knows" if len(encoders) == 1 else f"What {len(encoders)} encoders know"
    by_world = [[layer for layer in layers if layer.world == world] for world in worlds]
    heats = [Heat(of_world) for of_world in by_world]
    sections = [
        Section("found", "", _found(layers, notes)),
        *(
            Section(f"world-{place}", world, _world(heat, of_world, place, images.get(world, {})))
            for place, (world, heat, of_world) in enumerate(zip(worlds, heats, by_world, strict=True))
        ),
        _fold("labels", "Labels needed", "readouts against labelled pictures", label_curves(layers)),
        _fold("differences", "Differences between encoders", "with paired intervals", difference_section(layers)),
        _fold(
            "layers", "Numbers about layers", "most need no labels: do they tell which to take?", layer_table(layers)
        ),
        _fold("numbers", "All numbers", "every layer and factor", all_numbers(layers, in_folder)),
        _fold("how", "How it was measured", "readouts, chance, intervals, moves", how_measured(layers)),
        _fold("works", "Whom to cite", "", works(layers)),
    ]
    return page(
        title,
        f'<h1>{escape(title)}</h1><p class="about">{escape(_about(layers))}</p>',
        sections,
        css=style("explorer.css", "report.css", "probe.css"),
        data={"report-data": figure_data([]), "probe-data": embedded([heat.data() for heat in heats])},
        scripts=[file("report.js"), file("probe.js")],
        charts=False,
    )


def _fold(name: str, title: str, note: str, html: str) -> Section:
    return Section(name, title, html, note, folded=True)


def _about(layers: Sequence[Layer]) -> str:
    """What was measured: worlds and pictures, layers, and how many pictures readouts learned from."""
    probed = [layer for layer in layers if not layer.reference] or list(layers)
    worlds = dict.fromkeys(layer.world for layer in probed)
    pictures = sorted({layer.rows for layer in probed})
    learned, tested = labels_of(probed)[-1:], sorted({len(layer.truth) for layer in probed})
    parts = [
        f"{pictures[0]:,} pictures of {', '.join(worlds)}"
        if len(pictures) == 1
        else f"pictures of {', '.join(worlds)}",
        counted(len({(layer.encoder, layer.name, layer.pooling) for layer in probed}), "layer"),
        f"readouts learned from {learned[0]:,} pictures and were tested on {tested[-1]:,} others" if learned else "",
        "0 is chance, 1 is perfect",
    ]
    return "; ".join(filter(None, parts))


def _found(layers: Sequence[Layer], notes: Sequence[str]) -> str:
    """The findings: for one encoder and world in a row, else under the first sentence of each pair of these."""
    by_encoder = findings_by_encoder(layers)
    if len(by_encoder) == 1:
        [sentences] = by_encoder.values()
        items = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
    else:
        items = "".join(f"<li>{escape(first)}{_more(others)}</li>" for first, *others in by_encoder.values())
    decided = "".join(f"<li>{escape(note)}</li>" for note in notes)
    notes_html = f'<div class="notes"><h3>Decided for you</h3><ul>{decided}</ul></div>' if decided else ""
    return f'<div class="answer"><ol class="findings">{items}</ol>{notes_html}</div>'


def _more(sentences: Sequence[str]) -> str:
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
    summary = counted(len(sentences), "more finding")
    return f"<details><summary>{summary}</summary><ul>{items}</ul></details>" if items else ""


def _world(heat: Heat, layers: Sequence[Layer], place: int, images: Images) -> str:
    """The heat map of a world, and the pictures of its layers."""
    beside = len(heat.factors) <= NARROW and images
    return (
        f'<div class="{"world beside" if beside else "world"}">'
        f'<figure class="heat-map" data-heat="{place}"><h3>Which layer knows which factor</h3>'
        f'<p class="how-to-read">{escape(NUMBERS[heat.panels[0].name].meaning)}</p>{heat.tools()}'
        f'<div class="scroll" tabindex="0" role="region" aria-label="Layers and factors">{heat.html()}</div>'
        f"<figcaption>{escape(heat.caption())}</figcaption></figure>{pictures_html(layers, images)}</div>"
    )
