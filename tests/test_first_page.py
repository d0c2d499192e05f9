"""The first page of a report answers; everything else is folded below it, and says what is inside."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rows import score
from sober.criteria.verdict import TrainingState, Verdict
from sober.files import write_json
from sober.methods.settings import setting
from sober.report import report as module
from sober.report.report import own_caption, report
from sober.results import Folder, Request
from sober.results.request import Cohort
from sober.results.showcase_files import save_showcase, showcase_path
from sober.results.tables.registry import TABLES
from sober.results.training_state_files import save_training_states
from sober.results.verdict_files import save_verdict
from sober.types import Run
from test_explorer import chromium, opened  # noqa: F401 (chromium is a fixture)
from test_report import begun, grid, planted, stored, texts

HASH = "pictures:5861583eb29ad057"
RUNS = [Run(HASH, "beta_vae", {"beta": beta}, seed=seed) for beta in (1.0, 4.0) for seed in range(3)]
CRITERIA = ("udr", "pipe")


@pytest.fixture(scope="module", autouse=True)
def _few_resamples() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        make_tables = module.make_tables
        patch.setattr(module, "make_tables", lambda runs: make_tables(runs, resamples=60))
        yield


def verdict(kind: Any, *, minutes: float | None = None) -> Verdict:
    """A verdict that names the last of RUNS."""
    certainty = None if kind == "not trained far enough" else 0.87 if kind == "this one" else 0.37
    reasons = () if kind == "this one" else ("here stands the reason",)
    best = RUNS[-1]
    return Verdict(
        kind, len(RUNS), best.identity, "in old words", best.seed, certainty, 200, CRITERIA, reasons, minutes=minutes
    )


def fitted(folder: Path, found: Verdict | None, *, shown: bool = True, maker: Any = "fit", **asked: Any) -> Folder:
    """A folder of a fit of pictures, with scores, a verdict and pictures of the last model."""
    worlds = {HASH: "pictures:folder=/home/me/holiday photos"}
    result = Folder.begin(folder, Request(maker, {}, worlds, (Cohort.of(RUNS),), **asked))
    scores = [score(run, name, planted(run, name)) for run in RUNS for name in (*CRITERIA, "elbo")]
    result.store.write(scores, result.request.runs, in_words=setting)
    if found is not None:
        save_verdict(folder, HASH, found)
    if shown:
        rng = np.random.default_rng(0)
        arrays = {
            **{name: rng.integers(0, 256, (12, 8, 6, 1), np.uint8) for name in ("pictures", "reconstructions")},
            "traversals": rng.integers(0, 256, (3, 11, 8, 6, 1), np.uint8),
            "kl": np.array([0.5, 2.0, 0.0]),
        }
        described = {"run": RUNS[-1].identity, "setting": "x", "world": HASH, "seed": RUNS[-1].seed, "factors": []}
        save_showcase(showcase_path(folder, RUNS[-1].identity), arrays, described)
    return result


def first(html: str) -> str:
    """The HTML of the first page."""
    return html[html.index('<section id="findings"') : html.index('<section id="leaderboard"')]


def element(html: str, name: str) -> str:
    """The text of the first such element of the first page."""
    (inner, *_) = re.findall(rf"<{name} class[^>]*>(.*?)</{name}>", first(html))
    return unescape(re.sub(r"<[^>]+>", "", inner))


def rest(html: str, section: str) -> str:
    """The text of a folded section."""
    start = html.index(f'<section id="{section}"')
    return unescape(texts(html[start : html.index("</section>", start)]))


@pytest.mark.parametrize(
    ("kind", "heading"),
    [
        ("this one", "Use β-VAE, β = 4, seed 2"),
        ("undecided", "No model stands out"),
        ("not trained far enough", "No model to use yet"),
    ],
)
def test_the_verdict_is_the_first_finding_and_stands_on_the_card_and_the_leaderboard(
    tmp_path: Path, kind: str, heading: str
) -> None:
    found = verdict(kind, minutes=28.0 if kind == "not trained far enough" else None)
    html = report(fitted(tmp_path / "fit", found).path).read_text()
    page = unescape(texts(first(html)))
    sentence, why = (said.replace("in old words", "β-VAE, β = 4") for said in (found.sentence(), found.why()))
    assert element(html, "h2") == heading
    assert element(html, "p") == why
    assert sentence in rest(html, "models")
    board = rest(html, "leaderboard")
    if found.certainty is None:
        assert "About 28 minutes would do." in page
        assert "%" not in page
        assert "not trained far enough" in board
    else:
        assert f"first in {found.certainty:.0%} of 200 draws" in page
        assert f"seed 2: first in {found.certainty:.0%} of 200 draws" in board
    assert "best UDR" not in board  # without labels, nothing but the verdict says how sure a choice is
    assert ("sober.load" in page) == (kind == "this one")


def test_the_first_page_says_each_thing_once(tmp_path: Path) -> None:
    found = dataclasses.replace(verdict("this one"), prefer="balanced", checked=False)
    page = unescape(texts(first(report(fitted(tmp_path / "fit", found).path).read_text())))
    assert page.count("its latents agree most with those of the other models") == 1
    assert page.count("of 200 draws of pictures and partners") == 1
    assert page.count(found.how_often_right()) == 1
    assert page.count("How far the models are trained could not be checked") == 1
    assert "came first" not in page


def test_labels_say_how_good_a_choice_without_them_is_and_do_not_come_before_it(tmp_path: Path) -> None:
    runs = grid(("blocks",))
    folder = stored(tmp_path / "train", runs, names=("mig", "dci_disentanglement", "udr"))
    folder = Folder(folder.path, dataclasses.replace(folder.request, maker="train"))
    write_json(folder.path / "request.json", folder.request.plain())
    worst, best = (choose(runs, key=lambda run: planted(run, "mig")) for choose in (min, max))
    for chosen, place in ((best, 1), (worst, len(runs))):
        found = Verdict("this one", len(runs), chosen.identity, "", chosen.seed, 0.9, 200, ("udr",), ())
        html = first(report(folder.path, verdicts={"blocks": found}).read_text())
        page = unescape(texts(html))
        by_labels = f"Labels, which the choice did not see, put it in place {place} of {len(runs)} by MIG"
        assert by_labels in page
        assert page.index("By UDR it is the best placed of") < page.index(by_labels) < page.index("has the highest")
        assert "Use this one" not in page, "the heading says it"


def test_a_choice_without_labels_is_said_nothing_of_by_labels(tmp_path: Path) -> None:
    assert "Labels" not in first(report(fitted(tmp_path / "fit", verdict("this one")).path).read_text())


def test_the_first_page_shows_originals_reconstructions_and_what_latents_do(tmp_path: Path) -> None:
    html = first(report(fitted(tmp_path / "fit", verdict("this one")).path).read_text())
    words = re.findall(r'<span class="words"[^>]*>(.*?)</span>', html)
    assert words[:2] == ["original", "reconstruction"]
    assert len(words) == html.count("<img") == 4  # the third latent carries nothing
    assert "What it does: β-VAE, β = 4, seed 2" in html
    without = first(report(fitted(tmp_path / "none", verdict("this one"), shown=False).path).read_text())
    assert "<img" not in without
    assert "What it does" not in without


def test_latents_of_a_model_that_draws_no_better_than_the_mean_picture_are_left_out(tmp_path: Path) -> None:
    folder = fitted(tmp_path / "fit", verdict("not trained far enough"))
    for explained, pictures in ((0.5, 4), (0.0, 2)):
        states = {RUNS[-1].identity: TrainingState(100, explained, 0.5, 2)}
        save_training_states(folder.path, HASH, states)
        html = first(report(folder.path).read_text())
        assert html.count("<img") == pictures
        assert ("so what each latent does is left out" in html) == (pictures == 2)


def test_a_small_table_says_how_the_model_compares(tmp_path: Path) -> None:
    html = first(report(fitted(tmp_path / "fit", verdict("this one")).path).read_text())
    rows = [unescape(texts(row)).split() for row in re.findall(r"<tr.*?</tr>", html)]
    assert rows[0] == ["UDR", "↑", "PIPE", "↑"]
    assert " ".join(rows[1]).startswith("β-VAE, β = 4, seed 2 the best placed model")
    assert [" ".join(row[:4]) for row in rows[2:]] == ["β-VAE, β = 4", "β-VAE, β = 1"]
    found = dataclasses.replace(verdict("undecided"), best_setting="β-VAE, β = 1")
    html = first(report(fitted(tmp_path / "other", found).path).read_text())
    rows = [unescape(texts(row)).split() for row in re.findall(r"<tr.*?</tr>", html)]
    assert [" ".join(row[:4]) for row in rows[2:]] == ["β-VAE, β = 1", "β-VAE, β = 4"], "as the verdict says"


def test_decisions_made_for_a_person_stand_on_the_first_page_once(tmp_path: Path) -> None:
    notes = ("Smaller nets are used.", "Small pictures are scaled <up>.")
    html = first(report(fitted(tmp_path / "fit", verdict("this one"), notes=notes).path).read_text())
    assert "Small pictures are scaled &lt;up&gt;." in html
    assert html.count("Smaller nets are used.") == 1


def test_everything_else_is_folded_and_says_what_is_inside(tmp_path: Path) -> None:
    html = report(fitted(tmp_path / "fit", verdict("this one")).path).read_text()
    sections = re.findall(r'<section id="(\w+)"( class="fold")?>', html)
    assert sections[0] == ("findings", "")
    assert all(folded for _, folded in sections[1:])
    assert len(sections) > 5
    summaries = re.findall(r'class="fold"><details><summary><h2>(.+?)</h2><span>(.+?)</span></summary>', html)
    assert len(summaries) == len(sections) - 1
    assert 'class="fold"><details open' not in html


def test_a_world_of_pictures_is_called_by_its_folder(tmp_path: Path) -> None:
    html = report(fitted(tmp_path / "fit", verdict("this one")).path).read_text()
    assert "<h1>6 models of holiday photos</h1>" in html
    assert HASH not in html
    assert "sober train 'pictures:folder=/home/me/holiday photos'" in unescape(html)


def test_people_read_names_and_identifiers_stay_in_tooltips_and_meanings(tmp_path: Path) -> None:
    folder = stored(
        tmp_path / "study", grid(("blocks",)), names=("mig", "dci_disentanglement", "downstream_boosted_100")
    )
    html = report(folder.path).read_text()
    page = unescape(texts(first(html)))
    for name in ("MIG", "DCI disentanglement", "DIP-VAE-II, λ = 16"):
        assert name in page
    assert not re.search(r"\b[a-z]+_[a-z_]+\b", page)
    assert 'title="mig: gap between' in first(html)
    assert "<dt>accuracy from 100 labels <code>downstream_boosted_100</code></dt>" in html


def test_a_caption_names_a_paper_only_in_a_study_of_it() -> None:
    (board,) = (table for table in TABLES.values() if table.name == "leaderboard")
    caption = f"{board.title} ({board.paper}). 6 runs, none diverged. Scale: full study. Intervals: 95%."
    assert own_caption(caption, "") == f"{board.title}. 6 runs, none diverged. Intervals: 95%."
    assert (
        own_caption(caption, "Duan et al. (2020)")
        == f"{board.title}. 6 runs, none diverged. Scale: full study. Intervals: 95%."
    )
    assert own_caption(caption, "Locatello et al. (2020)") == caption


def test_a_report_of_own_models_names_no_paper_under_its_pictures(tmp_path: Path) -> None:
    html = report(fitted(tmp_path / "fit", verdict("undecided")).path).read_text()
    captions = re.findall(r"<(?:figcaption|caption)>(.*?)</(?:figcaption|caption)>", html)
    assert captions
    assert not [caption for caption in captions if "et al." in caption or "full study" in caption]


def test_the_first_page_of_a_study_has_its_findings_and_then_the_verdict(tmp_path: Path) -> None:
    folder = stored(tmp_path / "study", grid(("blocks",)))
    runs = list(folder.request.runs.values())
    best = Verdict("this one", 27, runs[0].identity, "", 0, 0.9, 200, ("udr",), ())
    html = first(report(folder.path, verdicts={"blocks": best}).read_text())
    sentences = [unescape(item) for item in re.findall(r"<li>(.*?)</li>", html)]
    assert sentences[0].startswith("On blocks, DIP-VAE-II, λ = 16 has the highest median MIG")
    assert sentences[1].startswith("Use this one, of 27 models: β-VAE, β = 1, seed 0")
    assert "more finding" in html
    assert html.index("How it compares") > html.index("</ol>")


def test_several_worlds_have_a_verdict_each(tmp_path: Path) -> None:
    runs = grid(("blocks", "dsprites"))
    folder = stored(tmp_path / "train", runs, names=("udr",))
    firsts = {world: next(run.identity for run in runs if run.world == world) for world in ("blocks", "dsprites")}
    found = {world: Verdict("this one", 27, run, "", 0, 0.9, 200, ("udr",), ()) for world, run in firsts.items()}
    page = unescape(texts(first(report(folder.path, verdicts=found).read_text())))
    for world in found:
        assert f"{world}, without labels: Use this one, of 27 models: β-VAE, β = 1, seed 0" in page


def test_models_trained_for_a_few_steps_have_no_other_finding(tmp_path: Path) -> None:
    folder = begun(tmp_path / "study", runs := grid(("blocks",), steps=3))
    scores = [score(run, name, planted(run, name)) for run in runs for name in ("mig", "udr")]
    folder.store.write(scores, folder.request.runs, in_words=setting)
    page = first(report(folder.path).read_text())
    assert re.findall(r"<li>(.*?)</li>", page) == [
        "Models were trained for 3 steps: that tests the code, but says nothing about models."
    ]


# In Chromium


def test_a_link_opens_its_section_and_a_chart_is_drawn_when_it_can_be_seen(chromium: Any, tmp_path: Path) -> None:  # noqa: F811
    with opened(chromium, report(stored(tmp_path / "study", grid(("blocks",))).path)) as tab:
        tab.wait_for_selector("body[data-drawn]")
        assert tab.locator("figure .chart svg").count() == 0
        tab.evaluate("location.hash = '#scores'")
        tab.wait_for_selector("#scores .chart svg")
        assert tab.locator("#agreement .chart svg").count() == 0


@pytest.mark.parametrize("width", [390, 1300])
def test_a_table_says_at_which_edges_it_goes_on_and_keeps_its_first_column(
    chromium: Any,  # noqa: F811
    tmp_path: Path,
    width: int,
) -> None:
    names = ("mig", "dci_disentanglement", "sap", "modularity", "factor_vae", "beta_vae", "irs", "dci_completeness",
             "explicitness", "dci_informativeness", "active_latents", "udr", "elbo")  # fmt: skip
    with opened(chromium, report(stored(tmp_path / "study", grid(), names=names).path), width) as tab:
        tab.evaluate("location.hash = '#leaderboard'")
        frame = tab.locator("#leaderboard .scroll").first
        tab.wait_for_function("document.querySelector('#leaderboard .scroll').dataset.more?.includes('right')")
        assert "left" not in frame.get_attribute("data-more")
        cell = frame.locator("tbody td").first
        place = cell.bounding_box()["x"]
        frame.evaluate("frame => { frame.scrollLeft = frame.scrollWidth; }")
        tab.wait_for_function("document.querySelector('#leaderboard .scroll').dataset.more.includes('left')")
        assert "right" not in frame.get_attribute("data-more")
        assert cell.bounding_box()["x"] == pytest.approx(place, abs=1)
