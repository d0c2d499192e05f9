"""The showcase keeps what a model does, and shows it: pictures, matrices, trees and responses, and names as text."""

from __future__ import annotations

import base64
import dataclasses
import functools
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import load_file

from sober.errors import RequestError
from sober.evaluation.picture_sheets import ModelPictures, sheet
from sober.evaluation.showcase import about_shown, keep_showcase, showcase
from sober.evaluation.traversal_start import start_of
from sober.files import save_arrays
from sober.metrics.common.aggregation import merges
from sober.metrics.registry import METRICS
from sober.metrics.scoring.score import score
from sober.models.model import Model, latent_kl
from sober.report import model_cards
from sober.report.explorer import page, write
from sober.report.model_cards import showcase_fragment
from sober.results.score_files import save_parts
from sober.results.showcase_files import load_showcase, save_showcase, showcase_path
from sober.types import Codes, Factor
from sober.worlds import from_array, world
from test_explorer import HOSTILE, Elements, chromium, luminance, opened  # noqa: F401 (fixtures, and what they need)
from test_interop import model_of

BLOCKS = world("blocks")
SHAPE = BLOCKS.image_shape
LATENT_OF = [2, 0, 4, 1]  # of each factor in `perfect`; latent 3 is noise
STYLE = Path(model_cards.__file__).with_name("showcase.css")


def model(seed: int = 0) -> Model:
    made = model_of("vae", "small", SHAPE, 5)
    return dataclasses.replace(made, run=dataclasses.replace(made.run, seed=seed))


@functools.cache
def perfect() -> Codes:
    """Every factor of blocks in a latent of its own, from -1 to 1."""
    factors = BLOCKS.labels(BLOCKS.everything())
    mean = np.random.default_rng(0).normal(size=(len(factors), 5)).astype(np.float32)
    mean[:, LATENT_OF] = factors / 3.5 - 1
    return Codes(mean, np.full_like(mean, -3.0), factors, BLOCKS.factors)


@functools.cache
def arrays() -> dict[str, np.ndarray]:
    """What is shown of `model()`, as if its codes were perfect and latent 3 carried nothing."""
    return showcase(model(), perfect(), BLOCKS) | {"kl": np.array([1.0, 2.0, 0.5, 0.002, 3.0])}


def stored(folder: Path, *changes: dict[str, Any]) -> tuple[Path, list[str]]:
    """A folder that shows a model for each of `changes` to the arrays (by name) and to what is said of them."""
    runs = []
    for seed, change in enumerate(changes):
        about = about_shown(model(seed).run, perfect())
        for key in about.keys() & change.keys():
            about[key] = change[key]
        kept = arrays() | {key: value for key, value in change.items() if key not in about}
        save_showcase(showcase_path(folder, about["run"]), kept, about)
        runs.append(about["run"])
    return folder, runs


def html_of(folder: Path, **change: Any) -> str:
    return showcase_fragment(*stored(folder, change)).html


# What is kept


def shown_rows(kept: dict[str, np.ndarray], codes: Codes) -> list[int]:
    """Which of the codes are shown: no two are the same."""
    return [int(np.flatnonzero((codes.mean == code).all(axis=1)).item()) for code in kept["codes"]]


def test_pictures_come_with_their_codes_and_reconstructions() -> None:
    kept = arrays()
    rows = shown_rows(kept, perfect())
    assert len(set(rows)) == 12
    np.testing.assert_array_equal(kept["pictures"], BLOCKS.render(BLOCKS.everything()[rows]))
    np.testing.assert_allclose(kept["reconstructions"], 255 * model().decode(kept["codes"]), atol=0.51)
    carried = showcase(model(), unlabelled(), BLOCKS)["kl"]
    np.testing.assert_array_equal(carried, latent_kl(perfect().mean, np.full_like(perfect().mean, -3.0)))


def test_codes_are_those_of_the_pictures_in_an_index_and_are_not_computed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    index = np.random.default_rng(4).permutation(BLOCKS.size)[:40]
    mean = perfect().mean[:40]
    codes = Codes(mean, np.zeros_like(mean), np.zeros((40, 0), np.int64), ())
    monkeypatch.setattr(Model, "encode", lambda *_: pytest.fail("encoded again"))
    kept = showcase(model(), codes, BLOCKS, index)
    np.testing.assert_array_equal(kept["pictures"], BLOCKS.render(index[shown_rows(kept, codes)]))
    others = showcase(model(), codes, BLOCKS, index, seed=1)
    assert shown_rows(others, codes) != shown_rows(kept, codes)
    with pytest.raises(RequestError, match=f"40 pictures, but {BLOCKS.size:,} are given"):
        showcase(model(), codes, BLOCKS)


def unlabelled() -> Codes:
    return dataclasses.replace(perfect(), factors=np.zeros((len(perfect().mean), 0), np.int64), about=())


def test_a_traversal_moves_one_latent_of_the_code_where_it_starts() -> None:
    code = start_of(model().decode, perfect().mean)
    assert arrays()["traversals"].shape == (5, 11, *SHAPE)
    for latent, step, value in ((3, 0, -2.0), (1, 5, 0.0), (4, 8, 1.2)):
        moved = np.where(np.arange(5) == latent, value, code)[None]
        np.testing.assert_allclose(arrays()["traversals"][latent, step], 255 * model().decode(moved)[0], atol=0.51)


def test_a_traversal_reaches_as_far_as_it_is_asked() -> None:
    """Figure 6 of Eastwood & Williams (2018): from -3 to 3, and all of InfoGAN's codes."""
    wide = showcase(model(), perfect(), BLOCKS, matrices=[], span=3.0)["traversals"]
    usual = arrays()["traversals"]
    middle = usual.shape[1] // 2
    np.testing.assert_array_equal(wide[:, middle], usual[:, middle])
    assert (wide[:, 0] != usual[:, 0]).any()
    panels = [ModelPictures("", "", {**arrays(), "traversals": wide}, [""] * 5, span=3.0)]
    texts = {text.get_text() for text in sheet(panels).axes[0].texts}
    assert {"\u22123", "+3"} <= texts
    assert any("from \u22123 to 3" in text for text in texts)


def test_codes_that_permute_the_factors_give_permutation_matrices() -> None:
    expected = np.zeros((5, 4))
    expected[LATENT_OF, range(4)] = 1
    others = [0, 1, 2, 4]  # all but the noise
    np.testing.assert_allclose(arrays()["mi.matrix"][others], np.log(8) * expected[others], atol=1e-9)
    np.testing.assert_allclose(arrays()["gbt.matrix"], expected, atol=0.02)
    np.testing.assert_array_equal(np.argmax(arrays()["svm.matrix"], axis=0), LATENT_OF)
    for name in ("mi", "gbt", "svm"):
        assert arrays()[f"{name}.independent_groups"].max() == 4
        assert arrays()[f"{name}.merge_thresholds"].shape == (4, 4)


def test_the_response_of_a_perfect_latent_is_monotone_and_others_do_not_respond() -> None:
    for factor, latent in enumerate(LATENT_OF):
        response = arrays()[f"response.{factor}"]
        assert response.shape == (3, 8, 5)
        for line in response[:, :, latent]:  # with nothing else in it the quantiles are the mean
            np.testing.assert_allclose(line, np.arange(8) / 3.5 - 1, atol=1e-6)
        mean, low, high = response[:, :, LATENT_OF[factor - 1]]
        np.testing.assert_allclose(mean, 0, atol=1e-6)
        np.testing.assert_allclose([low, high], np.outer([-1, 1], np.full(8, 1.0)), atol=0.3)


def odd_codes() -> Codes:
    """A factor that never varies, a continuous one, one of which a value is missing, and one with named values."""
    rng = np.random.default_rng(1)
    factors = np.stack([np.zeros(300), rng.random(300), rng.integers(0, 2, 300), rng.choice([0, 2], 300)], axis=1)
    factors[7, 2] = np.nan
    mean = rng.normal(size=(300, 5)).astype(np.float32)
    mean[:, 1] = factors[:, 1]
    names = ("red", "green", "blue")
    about = (Factor("same", 3), Factor("depth", 0, "continuous"), Factor("on", 2), Factor("hue", 3, "cyclic", names))
    return Codes(mean, np.zeros_like(mean), factors, about)


SOME = BLOCKS.everything()[:300]  # the pictures of odd codes


def test_what_is_said_of_factors_is_in_step_with_the_arrays() -> None:
    kept, about = showcase(model(), odd_codes(), BLOCKS, SOME), about_shown(model().run, odd_codes())
    assert [factor["name"] for factor in about["factors"]] == ["depth", "on", "hue"]
    assert [factor["values"] for factor in about["factors"][1:]] == [["0", "1"], ["red", "blue"]]
    assert kept["mi.matrix"].shape == (5, 3)
    for k, factor in enumerate(about["factors"]):
        assert kept[f"response.{k}"].shape == (3, len(factor["values"]), 5)
    bins = np.array(about["factors"][0]["values"], float)  # the mean of the depths in each
    np.testing.assert_allclose(bins, kept["response.0"][0, :, 1], rtol=0.006)
    assert len(bins) == 20


def test_codes_in_which_no_factor_varies_are_shown_like_those_without_factors(tmp_path: Path) -> None:
    same = dataclasses.replace(odd_codes(), factors=np.zeros((300, 4)))
    kept, about = showcase(model(), same, BLOCKS, SOME), about_shown(model().run, same)
    assert about["factors"] == []
    assert kept.keys() == showcase(model(), unlabelled(), BLOCKS).keys()
    save_showcase(showcase_path(tmp_path, about["run"]), kept, about)
    html = showcase_fragment(tmp_path, [about["run"]]).html
    assert "shown-strip" in html
    assert "shown-matrices" not in html


def test_collapsed_codes_have_a_card_too(tmp_path: Path) -> None:
    dead = dataclasses.replace(perfect(), mean=np.zeros_like(perfect().mean))
    kept = showcase(model(), dead, BLOCKS) | {"kl": np.zeros(5)}
    assert not kept["mi.thresholds"].size
    html = html_of(tmp_path, **kept)
    assert "5 latents carry nothing" in html
    assert "How latents respond" not in html


def test_pictures_of_ones_own_need_no_factors(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (20, *SHAPE), np.uint8)
    own = from_array(images)
    mean, logvar = model().encode(images)
    codes = Codes(mean, logvar, own.labels(own.everything()), own.factors)
    kept, about = showcase(model(), codes, own), about_shown(model().run, codes)
    save_showcase(showcase_path(tmp_path, about["run"]), kept, about)
    html = showcase_fragment(tmp_path, [about["run"]]).html
    assert html.count("<img") == 14  # twelve of pictures and reconstructions, two of mixed codes
    assert html.count('class="shown-strip"') == 5
    assert "<svg" not in html


# The file


def test_a_saved_file_is_read_back_as_it_was(tmp_path: Path) -> None:
    about = about_shown(model().run, perfect())
    save_showcase(tmp_path / "new" / "one.safetensors", arrays(), about)
    kept, said = load_showcase(tmp_path / "new" / "one.safetensors")
    assert said == about
    assert said["factors"][0]["values"][0] == "0"
    assert said["setting"].startswith("vae")
    plain = load_file(tmp_path / "new" / "one.safetensors")
    assert kept.keys() == arrays().keys() == plain.keys()
    for name, array in arrays().items():
        np.testing.assert_array_equal(kept[name], array, strict=True)
        if array.ndim > 3 and array.dtype == np.uint8:
            assert plain[name][:4].tobytes() == b"\x89PNG"
        else:
            np.testing.assert_array_equal(plain[name], array, strict=True)


def test_what_is_kept_of_a_model_lies_where_the_page_looks_for_it(tmp_path: Path) -> None:
    keep_showcase(tmp_path, model(), perfect(), BLOCKS)
    kept, said = load_showcase(showcase_path(tmp_path, model().run.identity))
    assert said == about_shown(model().run, perfect())
    np.testing.assert_array_equal(kept["pictures"], arrays()["pictures"])
    assert model().run.identity in showcase_fragment(tmp_path, [model().run.identity]).html


READER = """
import os, sys
os.environ["JAX_PLATFORMS"] = "none_at_all"
from pathlib import Path
from sober.report.model_cards import showcase_fragment
sys.stdout.write(showcase_fragment(Path(sys.argv[1]), sys.argv[2:]).html)
import jax
try:
    jax.numpy.zeros(1) + 1
except RuntimeError:
    sys.stdout.write("END")
"""


def test_the_page_is_made_where_jax_has_no_device(tmp_path: Path, start: Callable) -> None:
    folder, runs = stored(tmp_path, {})
    output = start(READER, tmp_path, *runs).communicate(timeout=60)[0]
    assert output == showcase_fragment(folder, runs).html + "END"


def test_wrong_requests_and_damaged_files_say_what_to_do(tmp_path: Path) -> None:
    folder, (run,) = stored(tmp_path, {})
    path = showcase_path(tmp_path, run)
    with pytest.raises(RequestError, match="give at least one"):
        showcase_fragment(folder, [])
    with pytest.raises(RequestError, match="missing, damaged or not a file of Sober's"):
        showcase_fragment(folder, ["0" * 16])
    showcase_path(tmp_path, "0" * 16).write_bytes(path.read_bytes())
    with pytest.raises(RequestError, match=f"shows run {run}, but its name says"):
        showcase_fragment(folder, ["0" * 16])
    whole = path.read_bytes()
    path.write_bytes(whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:])
    with pytest.raises(RequestError, match=f"{run}.safetensors is damaged"):
        showcase_fragment(folder, [run])
    path.write_bytes(whole[:100])
    with pytest.raises(RequestError, match=f"{run}.safetensors is missing, damaged"):
        showcase_fragment(folder, [run])
    save_arrays(path, {}, {"kind": "sober.codes"})
    with pytest.raises(RequestError, match="not a showcase"):
        showcase_fragment(folder, [run])
    with pytest.raises(RequestError, match="choose another folder"):
        save_showcase(path / "below" / "file", {}, {})
    with pytest.raises(RequestError, match="the model 5: pass its own"):
        showcase(model(), dataclasses.replace(unlabelled(), mean=perfect().mean[:, :4], logvar=None), BLOCKS)
    with pytest.raises(RequestError, match="without log-variances"):
        showcase(model(), dataclasses.replace(perfect(), logvar=None), BLOCKS)
    for field in ("mean", "logvar"):
        broken = getattr(perfect(), field).copy()
        broken[7, 2] = np.nan
        with pytest.raises(RequestError, match="did not diverge"):
            showcase(model(), dataclasses.replace(perfect(), **{field: broken}), BLOCKS)


# The drawings


def drawings(html: str, kind: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(svg) for svg in re.findall(rf'<svg class="{kind}.*?</svg>', html)]


def numbers(path: str) -> list[float]:
    return [float(number) for number in re.findall(r"[\d.]+", path)]


def test_a_permutation_is_seen_in_heat_maps_and_hinton_diagrams(tmp_path: Path) -> None:
    information, _, importance, _, _, _ = drawings(html_of(tmp_path), "shown-drawing")
    for svg in (information, importance):
        heat = [float(cell.attrib["style"].split()[1]) for cell in svg.iter("rect") if cell.get("class") == "cell"]
        side = [float(cell.attrib["width"]) for cell in svg.iter("rect") if cell.get("class") == "hinton"]
        shares = np.reshape(heat, (4, 5))
        np.testing.assert_array_equal(np.argmax(shares, axis=1), LATENT_OF)
        np.testing.assert_allclose(shares.max(axis=1), 1, atol=0.02)
        np.testing.assert_allclose((np.reshape(side, (4, 5)) / side[LATENT_OF[0]]) ** 2, shares, atol=0.02)
    said = [text.text for text in information.iter("text") if text.get("class") == "heat"]
    assert said.count("2.08") == 4  # log 8


def test_importances_of_lassos_and_forests_that_the_folder_saved_are_drawn_first(tmp_path: Path) -> None:
    """Figure 3 of Eastwood & Williams (2018)."""
    folder, (run,) = stored(tmp_path, {})
    codes = perfect()
    quick = {"train": 400, "validation": 100, "test": 100}
    chosen = score(codes, metrics={"dci_lasso": quick, "dci_forest": {**quick, "trees": 2}})
    save_parts(folder, run, chosen)
    save_parts(folder, run, score(codes, metrics={"dci_lasso": {**quick, "strength": 0.02}}))
    html = showcase_fragment(folder, [run]).html
    titles = re.findall("<figcaption>(.*?)</figcaption>", html)
    assert titles == [
        "importance in lassos",
        "importance in lassos, strength=0.02",
        "importance in random forests",
        "share of splits in random forests",
        *(METRICS[name].matrix for name in ("mi", "gbt", "svm")),
    ]
    matrices = [svg for svg in drawings(html, "shown-drawing") if "largest" in svg.attrib["aria-label"]]
    forest = chosen.parts["dci_forest"]["importance"]
    side = [float(cell.attrib["width"]) for cell in matrices[2].iter("rect") if cell.get("class") == "hinton"]
    np.testing.assert_allclose(np.reshape(side, (4, 5)) ** 2 / max(side) ** 2, forest.T / forest.max(), atol=0.02)


def test_the_curve_of_groups_ends_where_the_last_factor_loses_its_latent(tmp_path: Path) -> None:
    kept = {"mi.matrix": np.array([[4.0, 1.0], [0.0, 2.0]])}
    kept |= {"mi.thresholds": np.array([1.0, 2.0, 4.0])}
    kept |= {"mi.connected_factors": np.array([2, 2, 1]), "mi.independent_groups": np.array([1, 2, 1])}
    about = {"factors": about_shown(model().run, perfect())["factors"][:2]}
    few = {f"{name}.matrix": np.ones((2, 2)) for name in ("gbt", "svm")}
    traversals = {"traversals": arrays()["traversals"][:2], "kl": np.array([1.0, 1.0])}
    kept |= {f"response.{k}": arrays()[f"response.{k}"][:, :, :2] for k in range(2)}
    groups = drawings(html_of(tmp_path, **kept, **few, **about, **traversals), "shown-drawing")[1]
    paths = {path.get("class"): path.attrib["d"] for path in groups.iter("path")}
    left, first, a, second, b, third, c, end = numbers(paths["shown-line"])
    np.testing.assert_allclose(np.diff([left, a, b, c]) / (c - left), [0.25, 0.25, 0.5], atol=0.01)
    assert first == third
    assert second < first < end  # upwards is towards 0
    x, _, joint, _, other = numbers(paths["shown-branch"].split("M")[1])  # the merge at 1, of factors that end at 4, 2
    assert sorted([x, other]) == [b, c]
    assert joint == a


@pytest.mark.parametrize("seed", range(5))
def test_no_branches_of_a_tree_cross(seed: int) -> None:
    matrix = np.random.default_rng(seed).random((4, 9))
    order, tree = model_cards._tree(matrix)
    assert sorted(order) == list(range(9))
    assert [level for level, _, _ in tree] == [level for level, _, _ in merges(matrix)]
    for _, above, below in tree:
        rows = sorted(order.index(k) for k in [*above, *below])
        assert rows == list(range(rows[0], rows[0] + len(above) + len(below)))


def test_a_response_is_drawn_for_each_factor_and_informative_latent(tmp_path: Path) -> None:
    html = html_of(tmp_path)
    plots = drawings(html, "shown-plot")
    assert len(plots) == 4 * 4
    most = drawings(html, "shown-plot shown-most")
    assert [plot.attrib["aria-label"] for plot in most] == [
        f"latent {latent} by block_{k}: mean from -1 to 1" for k, latent in enumerate(LATENT_OF, 1)
    ]
    for plot in most:
        line = next(path for path in plot.iter("path") if path.get("class") == "shown-line")
        x, y = np.reshape(numbers(line.attrib["d"]), (-1, 2)).T
        assert len(x) == 8
        assert (np.diff(x) > 0).all()
        assert (np.diff(y) < 0).all()


def test_cyclic_factors_come_round_and_categories_are_not_joined(tmp_path: Path) -> None:
    factors = about_shown(model().run, perfect())["factors"]
    factors[0]["kind"], factors[1]["kind"] = "cyclic", "categorical"
    plots = drawings(html_of(tmp_path, factors=factors), "shown-plot")
    round_again = next(path for path in plots[0].iter("path") if path.get("class") == "shown-line").attrib["d"]
    points = np.reshape(numbers(round_again), (-1, 2))
    assert len(points) == 9
    assert points[0, 1] == points[-1, 1]
    dots = next(path for path in plots[4].iter("path") if path.get("class") == "shown-dots")
    assert dots.attrib["d"].count("M") == 8
    assert not [path for path in plots[4].iter("path") if path.get("class") == "shown-line"]


def test_images_hold_the_pictures(tmp_path: Path) -> None:
    html = html_of(tmp_path)
    first = re.findall(r'<img src="data:image/png;base64,([^"]+)"', html)[0]
    both = np.concatenate([arrays()["pictures"][0], arrays()["reconstructions"][0]], axis=1)[..., 0]
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(base64.b64decode(first)))), both)
    strip = re.findall(r"url\(data:image/png;base64,([^)]+)\)", html)[0]  # of latent 4, which carries most
    row = np.concatenate(arrays()["traversals"][4], axis=1)[..., 0]
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(base64.b64decode(strip)))), row)


def test_even_with_noise_in_colour_a_card_takes_less_than_400_kilobytes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    noise: dict[str, Any] = {"traversals": rng.integers(0, 256, (10, 11, 96, 64, 3), np.uint8), "kl": np.ones(10)}
    noise |= {name: rng.integers(0, 256, (12, 96, 64, 3), np.uint8) for name in ("pictures", "reconstructions")}
    noise |= {f"{name}.matrix": rng.random((10, 4)) for name in ("mi", "gbt", "svm")}
    noise |= {f"response.{k}": rng.normal(size=(3, 100, 10)) for k in range(4)}
    assert len(html_of(tmp_path, **noise)) < 400_000


def test_no_name_becomes_part_of_the_page(tmp_path: Path) -> None:
    factors = [
        {**factor, "name": HOSTILE, "values": [HOSTILE] * 8}
        for factor in about_shown(model().run, perfect())["factors"]
    ]
    folder, runs = stored(tmp_path, {"factors": factors, "setting": HOSTILE, "world": HOSTILE})
    part = showcase_fragment(folder, runs, {runs[0]: HOSTILE})
    found = Elements(part.html)
    assert found.of("script") == []
    assert found.of("h3") == [f"{HOSTILE}, seed 0"]
    assert HOSTILE in found.of("p")
    assert found.of("title").count(HOSTILE) == 2 * 4 * 3  # beside each matrix, and beside each dendrogram
    assert "</" not in STYLE.read_text()


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_numbers_stand_out_from_the_hottest_cell(scheme: int) -> None:
    colours = re.findall(r"--(ink|paper|accent): #(\w{6});", STYLE.with_name("explorer.css").read_text())
    ink, paper, accent = (
        np.array([int([c for n, c in colours if n == name][scheme][i : i + 2], 16) for i in (0, 2, 4)])
        for name in ("ink", "paper", "accent")
    )
    most = int(re.findall(r"--share\) \* (\d+)%", STYLE.read_text())[0]) / 100
    hottest = np.round(most * accent + (1 - most) * paper).astype(int)
    low, high = sorted(luminance("#" + "".join(f"{part:02x}" for part in colour)) for colour in (ink, hottest))
    assert (high + 0.05) / (low + 0.05) >= 4.5


# The page, in Chromium


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models, the second with hostile names."""
    folder = tmp_path_factory.mktemp("showcase")
    factors = [{**factor, "name": HOSTILE} for factor in about_shown(model().run, perfect())["factors"]]
    part = showcase_fragment(*stored(folder / "store", {}, {"factors": factors, "setting": HOSTILE}))
    css = STYLE.with_name("explorer.css").read_text() + part.css
    return write(folder / "page.html", page("shown", part._replace(css=css)))


def frames(tab: Any) -> list[str]:
    """Where the first strip's moving picture stands, at the times of its animation."""
    return tab.evaluate("""() => {
        const moving = document.querySelector(".shown-moving");
        const [animation] = moving.getAnimations();
        if (!animation) return [getComputedStyle(moving).backgroundPositionX];
        animation.pause();
        const { duration } = animation.effect.getComputedTiming();
        return [...Array(11).keys()].map((step) => {
            animation.currentTime = duration * (step + 0.5) / 11;
            return getComputedStyle(moving).backgroundPositionX;
        });
    }""")


STEPS = [f"{10 * step}%" for step in range(11)]  # which shows each picture of a strip of eleven, one after another


def test_a_latent_moves_while_it_is_pointed_at(chromium: Any, file: Path) -> None:  # noqa: F811
    with opened(chromium, file, reduced_motion="no-preference") as tab:
        assert frames(tab) == ["50%"]
        tab.locator(".shown-strip").first.hover()
        assert frames(tab) == STEPS
        tab.locator("h3").first.hover()
        assert frames(tab) == ["50%"]


def test_tab_reaches_each_latent_and_moves_it(chromium: Any, file: Path) -> None:  # noqa: F811
    with opened(chromium, file, reduced_motion="no-preference") as tab:
        tab.keyboard.press("Tab")  # the first model's fold
        tab.keyboard.press("Tab")
        assert frames(tab) == STEPS
        said = []
        for _ in range(6):
            said.append(tab.evaluate("document.activeElement.getAttribute('aria-label')?.slice(0, 8)"))
            tab.keyboard.press("Tab")
        assert said == ["latent 4", "latent 1", "latent 0", "latent 2", None, None]  # then the fold and the choice


def test_those_who_want_no_motion_see_none(chromium: Any, file: Path) -> None:  # noqa: F811
    with opened(chromium, file, reduced_motion="reduce") as tab:
        tab.locator(".shown-strip").first.hover()
        assert frames(tab) == ["50%"]


def test_latents_that_carry_nothing_are_grey_and_below_a_fold(chromium: Any, file: Path) -> None:  # noqa: F811
    with opened(chromium, file) as tab:
        unused = tab.locator(".shown").first.locator(".shown-unused .shown-strip")
        assert unused.get_attribute("aria-label").startswith("latent 3, 0.00 nats")
        assert not unused.is_visible()
        tab.get_by_text("1 latent carries nothing").first.click()
        assert unused.is_visible()
        assert "grayscale" in unused.locator(".shown-steps").evaluate("each => getComputedStyle(each).filter")


def test_keys_turn_heat_maps_of_one_model_into_hinton_diagrams(chromium: Any, file: Path) -> None:  # noqa: F811
    with opened(chromium, file) as tab:
        first, second = tab.locator(".shown").all()
        assert not second.locator("h4").first.is_visible()  # only the first model is unfolded
        second.locator("summary").first.click()
        square, number = first.locator("rect.hinton").nth(LATENT_OF[0]), first.locator("text.heat").nth(LATENT_OF[0])
        assert number.is_visible()
        assert not square.is_visible()
        first.get_by_role("radio", name="heat map").focus()
        tab.keyboard.press("ArrowRight")
        assert square.is_visible()
        assert not number.is_visible()
        assert second.locator("text.heat").nth(LATENT_OF[0]).is_visible()


@pytest.mark.parametrize("width", [360, 800, 3840])
def test_nothing_is_wider_than_the_window(chromium: Any, file: Path, width: int) -> None:  # noqa: F811
    with opened(chromium, file, width) as tab:
        tab.evaluate("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
        widest = "Math.max(...[...document.querySelectorAll('body *')].map((e) => e.getBoundingClientRect().right))"
        assert tab.evaluate(widest) <= width
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        assert tab.locator(".shown-drawing").first.bounding_box()["width"] >= 200
        assert tab.locator("img").first.bounding_box()["width"] >= 100
