"""The page of `sober probe`: its numbers, pictures and sections from hand-made layers, and what a browser shows."""

from __future__ import annotations

import base64
import dataclasses
import html
import io
import json
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sober.estimators.predictors import points
from sober.probing.differences import differences
from sober.probing.knowledge import Number
from sober.probing.layer import Layer
from sober.probing.layer_files import save_pictures
from sober.probing.shown_layers import shown_layers
from sober.probing.summary import findings
from sober.report.page_files import file
from sober.report.probe_heat import Heat
from sober.report.probe_page import probe_page, write_probe
from sober.results.training_state_files import world_digest
from sober.types import Factor
from test_explorer import chromium, luminance, opened  # noqa: F401

HOSTILE = "</script><b>"
TAG = '"><img src=x onerror=alert(1)>'
HUE = Factor("floor_hue", 8, "cyclic")
SIZE = Factor("size", 6)
SHAPE = Factor("shape", 3, "categorical", ("cube", "ball", HOSTILE))
ABOUT = (HUE, SIZE, SHAPE)
ROWS = 120


def number(factor: Factor, name: str, value: float, labels: int = 90, chance: float = 0.0, high: float = 0.1) -> Number:
    unit = "accuracy" if factor.kind == "categorical" else "R²"
    return Number(factor.name, name, value, value - 0.05, min(1.0, value + 0.05), chance, high, labels, unit)


def numbers(values: Sequence[float], about: Sequence[Factor] = ABOUT) -> tuple[Number, ...]:
    """Readouts from 10 and from 90 labels, a move, and a number without labels."""
    chance = {"categorical": 0.25}
    readouts = [
        number(factor, name, value * share, labels, chance.get(factor.kind, 0.0), chance.get(factor.kind, 0.0) + 0.1)
        for name, share in (("linear readout", 1.0), ("nonlinear readout", 0.9))
        for labels, share in ((10, 0.5 * share), (90, share))
        for factor, value in zip(about, values, strict=True)
    ]
    moves = [Number(factor.name, "own direction", 0.25 + 0.1 * k) for k, factor in enumerate(about)]
    few = [Number(factor.name, "best unit", 0.5, unit=readouts[k].unit, labels=90) for k, factor in enumerate(about)]
    return (*readouts, *moves, *few, Number("", "effective rank", 12.5))


def layer(
    name: str = "mid",
    values: Sequence[float] = (0.9, 0.8, 0.7),
    *,
    encoder: str = "mine",
    world: str = "rooms",
    place: int = 0,
    reference: bool = False,
    about: tuple[Factor, ...] = ABOUT,
    noise: float = 0.3,
) -> Layer:
    truth = np.random.default_rng(0).integers(0, [factor.size for factor in about], (ROWS, len(about)))
    exact = np.concatenate([points(factor, column) for factor, column in zip(about, truth.T, strict=True)], axis=1)
    guesses = exact + noise * np.random.default_rng(place + 1).standard_normal(exact.shape)
    return Layer(
        world=world,
        encoder=encoder,
        name=name,
        pooling="mean",
        place=place,
        width=32,
        rows=4 * ROWS,
        reference=reference,
        about=about,
        numbers=numbers(values, about),
        guesses=guesses.astype(np.float32),
        truth=truth,
        nearest=np.arange(12).reshape(2, 6),
        along=np.where(np.arange(7) < 5, np.arange(12, 19), -1) * np.ones((len(about), 1), np.int64),
        run=f"{encoder} {name} {world}",
    )


LAYERS = [
    layer("first", (0.4, 0.95, 0.5)),
    layer("second", (0.9, 0.8, 0.7), place=1),
    layer("third", (0.9, 0.3, 0.6), place=2),
    layer("pixels", (0.2, 0.1, 0.3), encoder="pixels", reference=True, noise=1.0),
]
IMAGES = {
    place: np.random.default_rng(place).integers(0, 256, (16, 12, 3)).astype(np.uint8) for place in (*range(17), 99)
}


def page_of(layers: Sequence[Layer] = LAYERS, notes: Sequence[str] = (), **settings: object) -> str:
    return probe_page(layers, notes, {"rooms": IMAGES}, **settings)  # type: ignore[arg-type]


def titles(page: str) -> list[str]:
    return [html.unescape(title) for title in re.findall(r"<h2>(.*?)</h2>", page)]


def rows_of(page: str) -> dict[str, list[str]]:
    """The cells of the first heat map by the text before them."""
    [table] = re.findall(r'<table class="heat" .*?</table>', page, re.DOTALL)[:1]
    rows = re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', table, re.DOTALL)
    return {
        html.unescape(re.sub("<small>.*?</small>|<.*?>", "", name)): re.findall(r"<td.*?>(.*?)</td>", cells, re.DOTALL)
        for name, cells in rows
    }


def test_the_page_has_every_section_and_the_findings_first() -> None:
    page = page_of(notes=["pictures are resized"])
    assert titles(page) == [
        "rooms", "Labels needed", "Differences between encoders", "Numbers about layers", "All numbers",
        "How it was measured", "Whom to cite",
    ]  # fmt: skip
    sentences = [html.escape(sentence) for sentence in findings(LAYERS)]
    places = [page.index(sentence) for sentence in [*sentences, "pictures are resized", "Which layer knows"]]
    assert len(sentences) > 1
    assert places == sorted(places)
    assert "What mine knows" in page
    assert "RankMe" in page
    assert "LiDAR" not in page  # nobody measured it
    assert "Eastwood" not in page
    assert "http" not in page.split("<body")[1]


def test_findings_of_several_encoders_stand_under_what_each_knows() -> None:
    other = [layer(encoder="other", noise=0.5), layer(encoder="other", world="blocks", noise=0.5)]
    page = page_of([*LAYERS, *other])
    items = re.findall(r"<li>([^<]* knows [^<]*)<", page)
    assert [html.unescape(item).split(":")[0] for item in items] == [
        "mine on rooms", "other on rooms", "other on blocks"
    ]  # fmt: skip
    assert titles(page)[:2] == ["rooms", "blocks"]
    assert "What 2 encoders know" in page


def test_cells_say_how_far_a_number_is_from_chance() -> None:
    rows = rows_of(page_of())
    assert rows["second"] == ["0.90", "0.80", "0.60", "0.77"]  # (0.7 - 0.25) / 0.75, and the mean
    assert rows["pixels"] == ["0.20", "(0.10)", "(0.07)", "0.12"]  # in brackets: chance may give as much
    assert list(rows) == ["first", "second", "third", "pixels"]


def test_tooltips_have_the_interval_and_chance() -> None:
    notes = [html.unescape(note) for note in re.findall(r'title="(shape, second.*?)"', page_of(), re.DOTALL)]
    assert notes[0].splitlines() == [
        "shape, second: 0.60", "0.53 to 0.67 (95% interval)", "accuracy 70%, by chance 25%"
    ]  # fmt: skip


def test_the_best_layers_of_an_encoder_are_bold_and_lines_to_beat_never_are() -> None:
    heat = Heat(LAYERS)
    [readout, *_] = heat.panels
    bold = [[cell.text for cell in row if cell.best] for row in heat.cells(readout)]
    assert bold == [["0.95"], ["0.90", "0.60"], ["0.90"], []]


def test_every_number_has_a_panel_and_the_most_labels_come_first() -> None:
    panels = json.loads(re.findall(r'<script type="application/json" id="probe-data">(.*?)</script>', page_of())[0])[0]
    shown = [(panel["number"], panel["labels"]) for panel in panels["panels"]]
    assert shown == [
        ("linear readout", "90"), ("linear readout", "10"), ("nonlinear readout", "90"), ("nonlinear readout", "10"),
        ("best unit", None), ("own direction", None),
    ]  # fmt: skip
    texts = [[cell[0] for cell in panel["cells"][4:8]] for panel in panels["panels"]]  # of the second layer
    assert texts[1] == ["0.45", "0.40", "(0.13)", "0.33"]
    assert texts[4] == ["0.50", "0.50", "0.33", "0.44"]  # an accuracy without a chance of its own has the readout's
    assert texts[5] == ["0.25", "0.35", "0.45", "0.35"]


def test_a_line_to_beat_with_many_layers_shows_its_best_and_its_last() -> None:
    beside = [layer(f"b{k}", (0.1 + 0.1 * (k == 2),) * 3, encoder="random", place=k, reference=True) for k in range(6)]
    page = page_of([*LAYERS, *beside])
    assert [name for name in rows_of(page) if "random" in name] == ["random, b2", "random, b5"]
    assert "Lines to beat: their best layer and their last." in page


def test_pictures_are_the_ones_that_the_layer_names() -> None:
    drawn = [
        np.asarray(Image.open(io.BytesIO(base64.b64decode(source))))
        for source in re.findall(r'src="data:image/png;base64,(.*?)"', page_of())
    ]
    panels = len(list(shown_layers(LAYERS)))
    assert len(drawn) == panels * (len(ABOUT) + 2 * 2)  # a row for each factor, and two queries with their neighbours
    side_by_side = [np.concatenate([IMAGES[place] for place in places], axis=1) for places in (range(12, 17), [0])]
    np.testing.assert_array_equal(drawn[0], side_by_side[0])
    np.testing.assert_array_equal(drawn[len(ABOUT)], side_by_side[1])


def test_pictures_come_from_the_folder(tmp_path: Path) -> None:
    save_pictures(
        tmp_path, world_digest("rooms"), np.array(sorted(IMAGES)), np.stack([*map(IMAGES.get, sorted(IMAGES))])
    )
    inside = write_probe(LAYERS, (), tmp_path, tmp_path / "probe.html").read_text()
    elsewhere = write_probe(LAYERS, (), tmp_path, tmp_path / "other" / "probe.html").read_text()
    assert inside.count("data:image/png") == elsewhere.count("data:image/png") == page_of().count("data:image/png") > 0
    assert "probe.parquet" in inside
    assert "probe.parquet" not in elsewhere


def test_confusions_have_the_names_of_classes() -> None:
    page = page_of()
    shares = {factor.name: shares for factor, shares in LAYERS[1].confusions()}["shape"]
    [table] = re.findall(r'<table class="heat confusion".*?</table>', page, re.DOTALL)[:1]
    cells = re.findall(r"<td.*?>(\d*)</td>", table.split("<tbody>")[1])
    assert [int(cell or 0) for cell in cells] == [round(100 * share) for share in shares.flat]
    assert re.findall(r'<th scope="row">(.*?)</th>', table) == ["cube", "ball", html.escape(HOSTILE)]


def test_a_factor_with_many_classes_has_sentences_in_place_of_a_matrix() -> None:
    about = (Factor("glyph", 26, "categorical"), SIZE)
    page = page_of([layer(values=(0.5, 0.5), about=about, noise=0.8)])
    assert "heat confusion" not in page
    assert re.search(r"<li>\d+% of glyph \d+ are taken for glyph \d+</li>", page)


def test_a_section_without_content_is_left_out() -> None:
    few = tuple(n for n in numbers((0.9, 0.8, 0.7)) if n.factor and n.labels in (0, 90))
    alone = dataclasses.replace(layer(), numbers=few)
    page = probe_page([alone], (), {})
    assert titles(page) == ["rooms", "All numbers", "How it was measured", "Whom to cite"]
    assert "<img" not in page
    assert "Decided for you" not in page
    assert "learned from <select" not in page


def test_all_numbers_are_in_the_table() -> None:
    table = page_of().split('id="numbers"')[1].split("</table>")[0]
    assert len(re.findall("<tr><td", table)) == len(LAYERS) * len(ABOUT)
    assert "linear readout, 10 labels" in table
    row = table.split("<tr>")[2 + len(ABOUT)]  # the first factor of the second layer
    assert re.findall(r"<td[^>]*>([^<]+)", row)[:4] == ["floor_hue", "second", "0.45", "0.90"]


def test_differences_are_of_r2_among_the_pictures_that_are_compared() -> None:
    exact, noisy = layer("exact", noise=0.0), layer("noisy", encoder="other", noise=0.5)
    found = {row.factor: row for row in differences([exact, noisy])}
    for row in found.values():
        assert row.value == pytest.approx(1, abs=1e-9)  # also where the second half varies more than the first
    assert all(row.low < row.difference == pytest.approx(1 - row.other_value) for row in found.values())


def test_names_are_text(tmp_path: Path) -> None:
    about = (dataclasses.replace(HUE, name=TAG), SIZE, dataclasses.replace(SHAPE, values=(TAG, HOSTILE, "ball")))
    hostile = [layer(TAG, encoder=HOSTILE, world=HOSTILE, about=about, place=k, noise=0.9) for k in range(2)]
    beside = layer(TAG, encoder=TAG, world=HOSTILE, about=about, reference=True)
    page = write_probe([*hostile, beside], [HOSTILE], None, tmp_path / "page.html").read_text()
    assert "<b>" not in page.replace("<b></b>", "").split("<main")[1].replace(f"<b>{html.escape(TAG)}", "")
    assert "<img src=x" not in page
    assert page.count("</script>") == 4  # two of data, two of code


def test_text_stands_out_from_every_shade() -> None:
    """As WCAG 2 asks: on a light page text is black up to the share that the style sheet names, and white beyond."""
    css = file("probe.css") + file("explorer.css")
    heats, cards, [_, ink] = (re.findall(rf"--{name}: (#\w{{6}});", css) for name in ("heat", "card", "ink"))
    switch = float(re.findall(r"--share, 0\) - ([\d.]+)\) \* 1000000%", css)[0])
    for share in np.linspace(0, 1, 101):
        for heat, card, text in zip(heats, cards, ("#ffffff" if share > switch else "#000000", ink), strict=False):
            ends = [np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) for colour in (card, heat)]
            mixed = np.rint((1 - share) * ends[0] + share * ends[1]).astype(int)
            low, high = sorted([luminance(text), luminance("#" + "".join(f"{part:02x}" for part in mixed))])
            assert (high + 0.05) / (low + 0.05) >= 4.5


@pytest.mark.parametrize("width", [1300, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_reader_chooses_numbers_and_layers(chromium, tmp_path: Path, width: int, scheme: str) -> None:  # noqa: F811
    layers = [*LAYERS, layer("x" * 60, encoder=HOSTILE, place=1)]
    path = tmp_path / "probe.html"
    path.write_text(page_of(layers, [HOSTILE]), encoding="utf-8")
    with opened(chromium, path, width=width, color_scheme=scheme) as tab:
        cell = tab.locator(".heat-map tbody td").nth(5)  # of the second layer, its second factor
        assert cell.inner_text() == "0.80"
        tab.locator("[data-choice=labels]").select_option("10")
        assert cell.inner_text() == "0.40"
        shade = float(cell.evaluate("(cell) => cell.style.getPropertyValue('--share')"))
        assert shade == pytest.approx(0.4)
        assert "size, second: 0.40" in cell.get_attribute("title")
        tab.locator("[data-choice=number]").select_option("own direction")
        assert cell.inner_text() == "0.35"
        assert not tab.locator("[data-choice=labels]").is_visible()
        assert "right angles" in tab.locator(".heat-map .how-to-read").inner_text()
        tab.locator("[data-choice=number]").select_option("linear readout")
        assert cell.inner_text() == "0.40"  # the labels are still those that were chosen
        shown = tab.locator(".panel:visible img").first.get_attribute("src")
        tab.locator("[data-choice=layer]").select_option(index=1)
        assert tab.locator(".panel:visible").count() == 1
        assert tab.locator(".panel:visible img").count() == len(ABOUT) + 4
        assert shown is not None
        assert tab.locator("h2", has_text="Whom to cite").count() == 1
        tab.evaluate("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
        assert tab.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
