"""The latent explorer shows in a browser what the model decodes, to anyone, and takes names for what they are: text."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from sober.errors import RequestError
from sober.evaluation import explorer_entries
from sober.evaluation.explorer_entries import Start, explorer_entry
from sober.interop.graph import Graph, decoder_graph, encoder_graph
from sober.models.model import Model, latent_kl
from sober.nets import NETS
from sober.report import explorer
from sober.report.explorer import HtmlFragment, explorer_fragment, page
from sober.requests.explore import explore
from sober.worlds import world
from test_interop import model_of

SCRIPT = Path(explorer.__file__).with_name("explorer.js")
HOSTILE = "</script><script>alert('1')</script>\"'&amp;<!-- " + "very " * 60 + "long 形と位置 العرض"
KL = np.array([0.5, 0.001, 2.0, 0.0])  # latents 2 and 0 carry something, 1 and 3 nothing


# The net, in node

NODE = """
const { net, unpack } = require(process.argv[1]);
const { graph, weights, inputs } = JSON.parse(require("fs").readFileSync(0));
const compute = net(graph, unpack(weights));
const plain = (outputs) => Object.fromEntries(Object.entries(outputs).map(([name, x]) => [name, Array.from(x)]));
console.log(JSON.stringify(inputs.map((input) => plain(compute(input)))));
"""


def in_node(graph: Graph, inputs: np.ndarray) -> dict[str, np.ndarray]:
    """What the script computes of each input, by output: (N, numbers)."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    given = {"graph": graph.plain(), "weights": explorer_entries._packed(graph.arrays), "inputs": inputs.tolist()}
    done = subprocess.run(
        [node, "-e", NODE, SCRIPT], input=json.dumps(given), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def close(model: Model, codes: np.ndarray) -> None:
    expected = model.decode(codes)
    pictures = in_node(decoder_graph(model), codes)["pictures"]
    h, w, c = model.image_shape
    np.testing.assert_allclose(pictures.reshape(-1, c, h, w).transpose(0, 2, 3, 1), expected, atol=1e-3, rtol=0)
    assert np.ptp(expected) > 0.1  # else there was little to compare


def some_codes(model: Model, count: int = 3) -> np.ndarray:
    return 2 * np.random.default_rng(1).normal(size=(count, model.run.latents)).astype(np.float32)


@pytest.mark.parametrize("nets", NETS)
def test_the_script_decodes_as_the_model_does(nets: str) -> None:
    largest = nets == "resnet"
    model = model_of("vae", nets, (64, 64, 3) if largest else None, 10 if largest else 3)
    close(model, some_codes(model, 1 if largest else 3))


def test_the_promise_holds_where_pictures_are_nearly_black_and_white() -> None:
    model = model_of("vae", "conv", (64, 64, 3), 10)
    steep = jax.tree.map(lambda leaf: 2 * leaf, model.autoencoder)
    assert np.mean(np.abs(dataclasses.replace(model, autoencoder=steep).decode(some_codes(model)) - 0.5) > 0.49) > 0.5
    close(dataclasses.replace(model, autoencoder=steep), some_codes(model))


def test_the_script_knows_layer_norm() -> None:
    model = model_of("info_gan", "conv")  # in whose encoder it is
    pictures = np.random.default_rng(1).random((2, *model.image_shape), np.float32)
    given = pictures.transpose(0, 3, 1, 2).reshape(2, -1)
    np.testing.assert_allclose(in_node(encoder_graph(model), given)["mean"], model.encode(pictures)[0], atol=1e-3)


# The file


def part_of(models: list[Model], titles: list[str], name: str = "picture") -> HtmlFragment:
    entries = []
    for model, title in zip(models, titles, strict=True):
        codes, _ = model.encode(pictures_for(model))
        starts = [Start(name, *pair) for pair in zip(codes, pictures_for(model), strict=True)]
        entries.append(explorer_entry(model, starts, KL, title))
    return explorer_fragment(entries)


def pictures_for(model: Model) -> np.ndarray:
    return np.random.default_rng(2).integers(0, 256, (3, *model.image_shape), np.uint8)


def small_model(seed: int = 0) -> Model:
    model = model_of("vae", "small", (16, 24, 3), 4)
    return dataclasses.replace(model, run=dataclasses.replace(model.run, seed=seed))


class Elements(HTMLParser):
    """The texts of a page, by element."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.texts: list[tuple[str, str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.texts.append((tag, ""))

    def handle_endtag(self, tag: str) -> None:
        self.texts.append(("", ""))

    def handle_data(self, data: str) -> None:
        if self.texts:
            tag, before = self.texts[-1]
            self.texts[-1] = tag, before + data

    def of(self, tag: str) -> list[str]:
        return [text for other, text in self.texts if other == tag]


def test_no_title_or_name_becomes_part_of_the_page() -> None:
    text = page(HOSTILE, part_of([small_model()], [HOSTILE], HOSTILE))
    found = Elements(text)
    data, script = found.of("script")
    assert script == SCRIPT.read_text()
    (entry,) = json.loads(data)
    assert entry["title"] == HOSTILE
    assert {start["name"] for start in entry["starts"]} == {HOSTILE}
    assert found.of("title") == [HOSTILE]
    assert found.of("h1") == [HOSTILE]


def test_nothing_of_ours_can_end_its_own_element() -> None:
    assert "</" not in SCRIPT.read_text()
    assert "</" not in SCRIPT.with_suffix(".css").read_text()


def test_a_model_of_the_study_takes_less_than_two_megabytes(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (20, 64, 64, 3), np.uint8)
    path = explore(model_of("vae", "conv", (64, 64, 3), 10), images, tmp_path / "new" / "explorer.html")
    assert path.stat().st_size < 2e6


def test_a_world_gives_pictures_to_start_from_and_what_latents_carry(tmp_path: Path) -> None:
    model, blocks = model_of("vae", "small", (16, 16, 1), 4), world("blocks")
    data, _ = Elements(explore(model, blocks, tmp_path / "explorer.html", seed=3).read_text()).of("script")
    (entry,) = json.loads(data)
    images = blocks.sample(3, explorer_entries.SAMPLE).images
    np.testing.assert_allclose(
        [s["code"] for s in entry["starts"]], model.encode(images[: explorer_entries.STARTS])[0], rtol=1e-5
    )
    np.testing.assert_allclose(entry["kl"], latent_kl(*model.encode(images)), rtol=1e-5)


def test_pictures_with_one_channel_may_come_without_it(tmp_path: Path) -> None:
    model, images = model_of("vae", "small", (16, 16, 1), 4), world("blocks").sample(0, 5).images
    with_channel = explore(model, images, tmp_path / "with.html").read_text()
    assert explore(model, images[..., 0], tmp_path / "without.html").read_text() == with_channel


def test_wrong_requests_say_what_to_do(tmp_path: Path) -> None:
    model = small_model()
    with pytest.raises(RequestError, match="give at least one"):
        explorer_fragment([])
    with pytest.raises(RequestError, match="give at least one"):
        explore(model, pictures_for(model)[:0], tmp_path / "explorer.html")
    with pytest.raises(RequestError, match="pictures must be"):
        explore(model, np.zeros((2, 5, 5, 3), np.uint8), tmp_path / "explorer.html")
    (tmp_path / "file").touch()
    with pytest.raises(RequestError, match="choose another path"):
        explore(model, pictures_for(model), tmp_path / "file" / "explorer.html")
    broken = jax.tree.map(lambda leaf: np.full_like(leaf, np.nan), model.autoencoder)
    with pytest.raises(RequestError, match="not finite"):
        explorer_entry(dataclasses.replace(model, autoencoder=broken), [], KL, "it")


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2 defines it."""
    parts = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("name", ["ink", "faded", "accent"])
def test_text_stands_out_from_paper_and_cards(scheme: int, name: str) -> None:
    css = SCRIPT.with_suffix(".css").read_text()
    colours = {key: re.findall(rf"--{key}: (#\w{{6}});", css)[scheme] for key in (name, "paper", "card")}
    for behind in ("paper", "card"):
        low, high = sorted([luminance(colours[name]), luminance(colours[behind])])
        assert (high + 0.05) / (low + 0.05) >= 4.5


# The page, in Chromium


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("Chromium is not installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models, the second with a hostile title."""
    text = page(HOSTILE, part_of([small_model(0), small_model(1)], ["first", HOSTILE], HOSTILE))
    return explorer.write(tmp_path_factory.mktemp("explorer") / "explorer.html", text)


@contextlib.contextmanager
def opened(browser: Any, file: Path, width: int = 1280, **settings: Any) -> Iterator[Any]:
    """The file in a new profile without a network; it must ask for nothing else and complain of nothing."""
    context = browser.new_context(viewport={"width": width, "height": 800}, offline=True, **settings)
    tab = context.new_page()
    complaints: list[str] = []
    tab.on("console", lambda message: complaints.append(message.text))
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on("dialog", lambda dialog: complaints.append(dialog.message))
    tab.on("request", lambda request: request.url.startswith(("file:", "data:")) or complaints.append(request.url))
    tab.goto(file.as_uri())
    yield tab
    context.close()
    assert complaints == []


def canvas(tab: Any) -> np.ndarray:
    """The picture's pixels, once what was asked for is drawn."""
    shown = tab.evaluate("""() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => {
        const shown = document.querySelector("canvas");
        const copy = new OffscreenCanvas(shown.width, shown.height).getContext("2d");
        copy.drawImage(shown, 0, 0);
        const { data } = copy.getImageData(0, 0, shown.width, shown.height);
        done([shown.height, shown.width, Array.from(data)]);
    })))""")
    return np.array(shown[2]).reshape(shown[0], shown[1], 4)[..., :3]


def decoded(code: np.ndarray) -> np.ndarray:
    return 255 * small_model().decode(np.atleast_2d(code))[0]


def code_of(start: int) -> np.ndarray:
    return small_model().encode(pictures_for(small_model()))[0][start]


def test_the_page_starts_with_the_picture_that_the_first_code_decodes_to(chromium: Any, file: Path) -> None:
    with opened(chromium, file) as tab:
        np.testing.assert_allclose(canvas(tab), decoded(code_of(0)), atol=0.76)  # half a step of a byte, and 1e-3


def test_any_embedded_picture_can_be_started_from_and_returned_to(chromium: Any, file: Path) -> None:
    with opened(chromium, file) as tab:
        tab.locator(".explorer-start").nth(2).click()
        np.testing.assert_allclose(canvas(tab), decoded(code_of(2)), atol=0.76)
        tab.get_by_role("slider", name="latent 2").fill("1.5")
        moved = np.array([*code_of(2)[:2], 1.5, code_of(2)[3]])
        np.testing.assert_allclose(canvas(tab), decoded(moved), atol=0.76)
        assert np.abs(decoded(moved) - decoded(code_of(2))).max() > 10
        tab.get_by_role("button", name="Reset").click()
        np.testing.assert_allclose(canvas(tab), decoded(code_of(2)), atol=0.76)
        tab.get_by_role("button", name="all latents at 0").click()
        np.testing.assert_allclose(canvas(tab), decoded(np.zeros(4)), atol=0.76)


def test_everything_is_reached_by_tab_has_a_name_and_arrows_move_sliders(chromium: Any, file: Path) -> None:
    with opened(chromium, file) as tab:
        tab.get_by_role("button", name="all latents at 0").click()
        for fold in tab.locator("summary").all():
            fold.click()
        tab.evaluate("document.activeElement.blur()")
        reached = []
        for _ in range(40):
            tab.keyboard.press("Tab")
            reached.append(
                tab.evaluate("[...document.querySelectorAll('.explorer *')].indexOf(document.activeElement)")
            )
        controls = "document.querySelectorAll('.explorer :is(button, input, select, textarea, summary)').length"
        assert len(set(reached) - {-1}) == tab.evaluate(controls)
        named = tab.locator(".explorer").aria_snapshot()
        assert not re.search(r"- (button|slider|textbox|combobox|img)( \[.*\])?:?$", named, re.MULTILINE), named
        tab.get_by_role("slider", name="latent 2").focus()
        tab.keyboard.press("ArrowRight")
        tab.keyboard.press("ArrowRight")
        np.testing.assert_allclose(canvas(tab), decoded(np.array([0, 0, 0.1, 0])), atol=0.76)


def test_informative_latents_come_first_and_the_others_below_a_fold(chromium: Any, file: Path) -> None:
    with opened(chromium, file) as tab:
        shown = [slider.get_attribute("aria-label") for slider in tab.get_by_role("slider").all()]
        assert shown == ["latent 2", "latent 0"]
        tab.get_by_text("2 latents carry little").click()
        assert [slider.get_attribute("aria-label") for slider in tab.get_by_role("slider").all()][2:] == [
            "latent 1",
            "latent 3",
        ]


def test_names_are_text_and_are_still_there_after_a_reload_and_for_this_model_alone(chromium: Any, file: Path) -> None:
    with opened(chromium, file) as tab:
        tab.get_by_label("Name of latent 0").fill(HOSTILE)
        tab.wait_for_timeout(500)  # the browser writes what a page keeps in its own time
        tab.reload()
        assert tab.get_by_label("Name of latent 0").input_value() == HOSTILE
        assert (
            tab.locator(".explorer-controls .explorer-slider").nth(1).get_attribute("aria-label")
            == f"latent 0: {HOSTILE}"
        )
        assert json.loads(tab.get_by_label("Names as JSON").input_value()) == {"0": HOSTILE}
        tab.get_by_label("Model").select_option(index=1)
        assert tab.get_by_label("Name of latent 0").input_value() == ""
        assert tab.locator("option").nth(1).text_content() == HOSTILE
        assert tab.locator("script").count() == 2
        assert tab.locator(".explorer-start img").first.get_attribute("alt") == HOSTILE


def test_a_latent_without_a_name_shows_the_factors_that_it_tells_of(chromium: Any, tmp_path: Path) -> None:
    model = small_model()
    starts = [Start("picture", np.zeros(4), pictures_for(model)[0])]
    part = explorer_fragment([explorer_entry(model, starts, KL, "it", [HOSTILE, "", "size + shape", ""])])
    path = tmp_path / "told.html"
    path.write_text(page("it", part), encoding="utf-8")
    with opened(chromium, path) as tab:
        said = [tab.get_by_label(f"Name of latent {k}").get_attribute("placeholder") for k in range(4)]
        assert said == [HOSTILE, "what does it do?", "size + shape", "what does it do?"]
        assert tab.get_by_label("Sweep latent 2: size + shape").count() == 1
        tab.get_by_label("Name of latent 2").fill("mine")
        assert tab.get_by_label("Sweep latent 2: mine").count() == 1
        labels = tab.locator(".explorer-latent").first.inner_text()
        assert "latent 2" in labels
        assert f"carries {KL[2]:.2f} nats" in labels
        assert all(end in labels for end in ("\u22123", "+3"))


def test_names_can_be_given_as_json_and_anything_else_is_refused(chromium: Any, file: Path) -> None:
    with opened(chromium, file) as tab:
        tab.get_by_text("Names as JSON").click()
        for wrong in ("[]", "null", '{"9": "x"}', '{"0": 1}', '{"__proto__": "x"}', "{", '"x"'):
            tab.get_by_label("Names as JSON").fill(wrong)
            tab.get_by_role("button", name="Use these names").click()
            assert "must be a JSON object" in tab.get_by_role("status").text_content()
        tab.get_by_label("Names as JSON").fill('{"2": "<b>size</b>"}')
        tab.get_by_role("button", name="Use these names").click()
        assert tab.get_by_role("slider", name="<b>size</b>").count() == 1
        assert tab.get_by_label("Name of latent 2").input_value() == "<b>size</b>"


def test_a_sweep_moves_one_latent_until_it_is_stopped(chromium: Any, file: Path) -> None:
    with opened(chromium, file, reduced_motion="no-preference") as tab:
        sweep = tab.get_by_role("button", name="Sweep latent 2")
        before = canvas(tab)
        sweep.click()
        tab.wait_for_function("start => Math.abs(document.querySelector('.explorer-slider').value - start) > 0.2",
                              arg=float(code_of(0)[2]))  # fmt: skip
        assert sweep.get_attribute("aria-pressed") == "true"
        sweep.click()
        assert sweep.get_attribute("aria-pressed") == "false"
        after = canvas(tab)
        assert (after != before).any()
        assert (canvas(tab) == after).all()
        others = tab.locator(".explorer-slider").evaluate_all("all => all.slice(1).map((each) => Number(each.value))")
        np.testing.assert_allclose(others, code_of(0)[[0, 1, 3]], atol=0.026)  # half a step of a slider


def test_those_who_want_no_motion_get_one_stop_at_a_time(chromium: Any, file: Path) -> None:
    with opened(chromium, file, reduced_motion="reduce") as tab:
        tab.get_by_role("button", name="all latents at 0").click()
        stops = []
        for _ in range(4):
            tab.get_by_role("button", name="Sweep latent 2").click()
            stops.append(tab.get_by_role("slider", name="latent 2").input_value())
        assert stops == ["1", "2", "-2", "-1"]


@pytest.mark.parametrize("width", [360, 800, 3840])
def test_nothing_is_wider_than_the_window(chromium: Any, file: Path, width: int) -> None:
    with opened(chromium, file, width) as tab:
        tab.get_by_label("Model").select_option(index=1)
        tab.get_by_label("Name of latent 2").fill(HOSTILE)
        for fold in tab.locator("summary").all():
            fold.click()
        widest = "Math.max(...[...document.querySelectorAll('body *')].map((e) => e.getBoundingClientRect().right))"
        assert tab.evaluate(widest) <= width
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        assert tab.locator("canvas").bounding_box()["width"] >= 200


def test_light_and_dark_follow_the_system(chromium: Any, file: Path) -> None:
    seen = []
    for scheme in ("light", "dark"):
        with opened(chromium, file, color_scheme=scheme) as tab:
            seen.append(tab.evaluate("[getComputedStyle(document.documentElement).backgroundColor, "
                                     "getComputedStyle(document.querySelector('.explorer-value')).color]"))  # fmt: skip
    assert seen == [["rgb(251, 251, 250)", "rgb(28, 29, 32)"], ["rgb(22, 23, 26)", "rgb(236, 236, 238)"]]


def test_the_original_of_a_start_is_beside_what_is_decoded(chromium: Any, tmp_path: Path) -> None:
    model = small_model()
    codes, _ = model.encode(pictures_for(model))
    starts = [
        Start(f"picture {i}", code, image)
        for i, (code, image) in enumerate(zip(codes, pictures_for(model), strict=True))
    ]
    path = tmp_path / "originals.html"
    path.write_text(page("it", explorer_fragment([explorer_entry(model, starts, KL, "it", first=1)])), encoding="utf-8")
    with opened(chromium, path) as tab:
        sources = [image.get_attribute("src") for image in tab.locator(".explorer-start img").all()]
        original = tab.get_by_alt_text("Original of the start")
        assert original.get_attribute("src") == sources[1], "the page opens with the start that it is told"
        np.testing.assert_allclose(canvas(tab), decoded(code_of(1)), atol=0.76)
        tab.locator(".explorer-start").nth(2).click()
        assert original.get_attribute("src") == sources[2]
        tab.get_by_role("button", name="all latents at 0").click()
        assert tab.get_by_text("no original").count() == 1


def test_words_are_not_cut_off_on_a_phone(chromium: Any, tmp_path: Path) -> None:
    model = small_model()
    names = ["changes colour in the lower half", "", "moves right, gets larger", ""]
    path = tmp_path / "phone.html"
    entry = explorer_entry(model, [Start("picture", np.zeros(4), pictures_for(model)[0])], np.ones(4), "it", names)
    path.write_text(page("it", explorer_fragment([entry])), encoding="utf-8")
    with opened(chromium, path, 390, has_touch=True) as tab:
        room = tab.locator(".explorer-name").evaluate_all("all => all.map((field) => field.clientWidth)")
        assert min(room) > 250
        height = tab.locator(".explorer-slider").first.bounding_box()["height"]
        assert height >= 28, "a finger can hold it"
