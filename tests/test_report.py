"""The report says what is planted in a store, draws it in a browser, and takes names for what they are: text."""

from __future__ import annotations

import functools
import html as entities
import itertools
import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from rows import complete, score
from sober.errors import RequestError
from sober.methods.settings import setting
from sober.report import figures
from sober.report import report as module
from sober.report.charts import HUES
from sober.report.explorer import HtmlFragment
from sober.report.findings import findings
from sober.report.report import report
from sober.results import Folder, Request, as_runs, make_tables
from sober.results.request import Cohort
from sober.results.store import Store
from sober.settings_text import parse_settings, value_of
from sober.types import Adam, Run
from test_explorer import Elements, chromium, luminance, opened  # noqa: F401 (chromium is a fixture)

STRENGTHS = {"beta_vae": "beta", "factor_vae": "gamma", "dip_vae_ii": "lambda_od"}
METRICS = ("mig", "dci_disentanglement", "sap", "modularity", "mi/mig", "gbt/mig", "active_latents")
TWINS = ("gaussian_total_correlation", "gaussian_total_correlation_sampled")
EVERY = (*METRICS, *TWINS, "udr", "elbo")
HOSTILE = "</script><script>alert('1')</script>\"'&amp;<!-- " + "very " * 40 + "long 形と位置 العرض"

Value = Callable[[Run, str], float | None]


@pytest.fixture(scope="module", autouse=True)
def _few_resamples() -> Iterator[None]:
    """Intervals are those of tables, which have tests of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "make_tables", functools.partial(make_tables, resamples=60))
        yield


def grid(worlds: tuple[str, ...] = ("blocks", "dsprites"), seeds: int = 3, **common: Any) -> list[Run]:
    """Three methods at three strengths."""
    every = itertools.product(worlds, STRENGTHS, (1.0, 4.0, 16.0), range(seeds))
    return [Run(world, method, {STRENGTHS[method]: value}, seed=seed, **common) for world, method, value, seed in every]


def planted(run: Run, name: str) -> float:
    """A quality that the method settles, up to little noise; all numbers tell it, elbo with its sign turned."""
    rng = np.random.default_rng([*map(ord, run.identity + name)])
    quality = 0.2 * list(STRENGTHS).index(run.method) + 0.01 * next(iter(run.hyper.values())) + 0.01 * rng.normal()
    return -quality if name == "elbo" else quality


def noise(run: Run, name: str) -> float:
    return float(np.random.default_rng([*map(ord, run.identity + name)]).random())


def begun(folder: Path, runs: list[Run], **asked: str) -> Folder:
    """A folder in which a study of these runs was asked for."""
    worlds = dict.fromkeys(run.world for run in runs)
    cohorts = tuple(Cohort.of([run for run in runs if run.world == world]) for world in worlds)
    return Folder.begin(folder, Request("study", {}, {world: world for world in worlds}, cohorts, **asked))


def stored(
    folder: Path,
    runs: list[Run],
    value: Value = planted,
    names: tuple[str, ...] = EVERY,
    *,
    asked: Mapping[str, str] = {},
    numbers: Mapping[str, Mapping[str, Any]] = {},
    **about: Any,
) -> Folder:
    """A folder with these numbers of these runs; numbers that are None are flagged as diverged.

    `asked` is said of the study, `numbers` of those that no registry knows, and `about` of all scores.
    """
    scores = []
    for run, name in itertools.product(runs, names):
        found = value(run, name)
        flags = ("diverged",) if found is None else ()
        others = {"flags": flags, **numbers.get(name, {})}
        scores.append(score(run, name, np.nan if found is None else found, **others))
    opened = begun(folder, runs, **asked)
    opened.store.write(scores, opened.request.runs, in_words=setting, **about)
    return opened


def texts(html: str) -> str:
    """What a reader sees of a page, without styles and scripts."""
    body = re.sub(r"<(style|script)\b.*?</\1>", "", html, flags=re.DOTALL)
    return re.sub(r"<[^>]+>", " ", body)


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of two worlds, three methods, three strengths and three seeds."""
    folder = tmp_path_factory.mktemp("full") / "study"
    asked = {
        "name": "look",
        "title": "A look, again",
        "command": "sober study run look --out x",
        "scale": "few <seeds>",
    }
    about = {"scale": "seeds 50 -> 3", "device": "H200", "versions": {"jax": "0.10.1"}}
    stored(folder, grid(steps=20_000), asked=asked, **about)
    return report(folder)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a study in which everything has a hostile name."""
    runs = [
        Run(world, f"{HOSTILE}{method}", {"x": value}, seed=seed)
        for world, method, value, seed in itertools.product((HOSTILE, "blocks"), "ab", (1.0, 2.0), range(3))
    ]
    folder = tmp_path_factory.mktemp("hostile") / "study"
    names = ("mig", HOSTILE, "gaussian_total_correlation", f"{HOSTILE}_sampled", "udr")
    numbers = {HOSTILE: {"supervised": True}, f"{HOSTILE}_sampled": {"samples_of": HOSTILE}}
    asked = {"name": HOSTILE, "command": HOSTILE}
    stored(folder, runs, noise, names, asked=asked, numbers=numbers, scale=HOSTILE, device=HOSTILE)
    return report(folder)


# Findings


def said(runs: list[Run], value: Value, tmp_path: Path, names: tuple[str, ...] = EVERY) -> list[str]:
    return findings(stored(tmp_path / "study", runs, value, names).store.table())


def test_findings_are_what_was_planted(tmp_path: Path) -> None:
    lead, variance, criteria, transfer, agreement, lost = said(grid(), planted, tmp_path)
    assert "DIP-VAE-II, λ = 16 has the highest median MIG: 0.5" in lead
    assert "The next of 9 settings, DIP-VAE-II, λ = 4, has 0.4" in lead
    assert "the intervals do not overlap, but with fewer than 6 runs they are too narrow. It leads" in lead
    assert lead.endswith(" It leads in 2 of 2 worlds.")
    share = int(re.search(r"the method explains (\d+)%", variance).group(1))  # type: ignore[union-attr]
    assert share > 80
    assert "no effect" not in variance
    assert re.search(
        r"(UDR|negative ELBO \(lower is better\)), the closest of 2 criteria, ranks .*: rank correlation −?0.9",
        criteria,
    )
    assert re.search(r"with probability (9\d|100)% .*chance is 56%\.$", transfer)
    assert re.search(
        r"of MIG, DCI disentanglement, modularity and SAP, .* agree least: .* and even these agree\.$", agreement
    )
    assert lost == "None of 54 runs diverged (95% interval of the share 0% to 7%)."


def test_where_there_is_nothing_no_sentence_claims_something(tmp_path: Path) -> None:
    found = said(grid(), noise, tmp_path, ("mig", "sap", "udr"))
    assert len(found) == 6
    for sentence in found[:5]:
        assert "was found" in sentence
    assert "so no difference was found" in found[0]
    assert "no effect of the method was found" in found[1]
    assert "Nothing was found that ranks the runs on blocks as MIG does without labels" in found[2]


@pytest.mark.parametrize("planted_at", ["low", "high"])
def test_numbers_where_lower_is_better_are_led_by_the_lowest(tmp_path: Path, planted_at: str) -> None:
    name = "mutual_information" if planted_at == "low" else "mig"
    first = said(grid(("blocks",), seeds=6), planted, tmp_path, (name,))[0]
    assert first.endswith(": the intervals do not overlap.")
    assert ("β-VAE, β = 1 has the lowest" if planted_at == "low" else "DIP-VAE-II, λ = 16 has the highest") in first


def test_many_lost_runs_are_told_early(tmp_path: Path) -> None:
    found = said(grid(("blocks",)), lambda run, name: None if run.seed == 2 else planted(run, name), tmp_path)
    assert found[1] == "9 of 27 runs diverged and are left out (95% interval of the share 19% to 52%)."


def test_a_single_setting_has_a_best_run_and_a_single_run_no_interval(tmp_path: Path) -> None:
    three = [Run("blocks", "dava", {}, seed=seed) for seed in range(3)]
    found = said(three, lambda run, name: run.seed / 10, tmp_path, ("udr",))
    assert found[0] == (
        "On blocks, DAVA has a median UDR of 0.10 (95% interval 0.00 to 0.20, 3 runs); "
        "the best run, with seed 2, has 0.20."
    )
    assert found[2] == "These results come from 3 runs: 1 world, 1 method, 1 setting, 3 seeds."
    alone = said(grid(seeds=1), planted, tmp_path / "alone")
    assert "(a single run, so no interval)" in alone[0]
    assert "no difference was found, as another seed may undo" in alone[0]


# The file


def test_every_section_is_there_and_says_where_its_numbers_come_from(full: Path) -> None:
    html = full.read_text()
    assert full.name == "report.html"
    sections = re.findall(r'<section id="(\w+)"', html)
    assert sections == [
        *("findings", "leaderboard", "scores", "agreement", "points", "variance", "transfer", "samples"),
        *("measured", "cite", "reproduce"),
    ]
    drawn = re.findall(r'data-figure="(\w+)"', html)
    assert len(drawn) == len(set(drawn)) == 21
    text = texts(html)
    for wanted in (
        *("A look, again", "few &lt;seeds&gt;", "sober study run look --out x", "All settings have steps = 20,000."),
        *(
            "Kim &amp; Mnih (2018) Disentangling by Factorising",
            "criterion UDR",
            "world dsprites",
            "jax 0.10.1",
            "H200",
        ),
        *("It cannot see whether what they agree on is right", "Scale: seeds 50 -&gt; 3."),
        "sober train blocks --method beta_vae --set beta=4 --nets conv --steps 20000 --latents 10 --batch 64 "
        "--learning-rate 0.0001 --precision float32 --seeds 3 --out FOLDER",
    ):
        assert wanted in text, wanted


def test_the_file_asks_nothing_of_a_network(full: Path, hostile: Path) -> None:
    for path in (full, hostile):
        html = path.read_text()
        outside = re.sub(r"<script\b.*?</script>", "", html, flags=re.DOTALL)
        assert "://" not in outside
        assert "default-src 'none'" in html
        assert not re.search(r"<[^>]*\b(src|href)=\"(?!data:|#)", outside)


def test_three_runs_without_labels_make_a_report(tmp_path: Path) -> None:
    runs = [Run("photos", "dava", {}, seed=seed) for seed in range(3)]
    stored(tmp_path / "fit", runs, lambda run, name: run.seed / 10, ("udr", "elbo"))
    path = report(tmp_path / "fit", tmp_path / "elsewhere" / "page.html")
    assert path == tmp_path / "elsewhere" / "page.html"
    assert not (tmp_path / "fit" / "report.html").exists()
    html = path.read_text()
    assert re.findall(r'data-figure="(\w+)"', html) == ["distributions", "settings", "criteria_agreement"]
    assert "needs a supervised metric" in texts(html)
    assert "3 single runs" in texts(html)


@pytest.mark.parametrize("lost", ["all but one", "one world"])
def test_runs_that_diverged_keep_no_report_from_being_made(tmp_path: Path, lost: str) -> None:
    runs = grid(seeds=2)
    sound = runs[:1] if lost == "all but one" else [run for run in runs if run.world == "blocks"]
    stored(tmp_path / "lost", runs, lambda run, name: planted(run, name) if run in sound else None, ("mig", "udr"))
    text = texts(report(tmp_path / "lost").read_text())
    assert f"{len(runs) - len(sound)} of 36 runs diverged and are left out" in text
    assert "the model&#x27;s training had stopped" in text


def test_names_are_text_wherever_they_stand(hostile: Path) -> None:
    found = Elements(hostile.read_text())
    assert found.of("title") == [HOSTILE]
    assert found.of("h1") == [HOSTILE]
    assert len(found.of("script")) == 3
    data = json.loads(found.of("script")[0])
    for figure in data["figures"].values():
        assert "very" not in json.dumps(figure["spec"])  # what users named is data
    assert any(HOSTILE in json.dumps(panel, ensure_ascii=False).replace('\\"', '"')
               for panel in data["figures"]["distributions"]["panels"].values())  # fmt: skip


def test_flags_are_explained_and_counted(tmp_path: Path) -> None:
    runs = grid(("blocks",), seeds=2)
    folder = begun(tmp_path / "flags", runs)
    scores = [
        score(run, "mig", 0.5 + 0.01 * i, flags=("collapsed", "odd") if i < 3 else ()) for i, run in enumerate(runs)
    ]
    folder.store.write(scores, folder.request.runs, in_words=setting)
    html = report(folder.path).read_text()
    assert "no latent carries anything: all are constant" in html
    assert "3 scores of 3 runs" in html
    assert "not a flag of Sober’s own" in html
    assert 'title="collapsed odd"' in html


def test_flags_of_a_score_that_another_of_more_pictures_replaces_mark_nothing(tmp_path: Path) -> None:
    runs = grid(("blocks",), seeds=2)
    folder = begun(tmp_path / "flags", runs)
    few = [score(run, "mig", 0.9, pictures=100, flags=("few_rows",)) for run in runs]
    folder.store.write(
        [*few, *(score(run, "mig", 0.1, pictures=1000) for run in runs)], folder.request.runs, in_words=setting
    )
    html = report(folder.path).read_text()
    assert 'title="few_rows"' not in html
    assert "18 scores of 18 runs" in html  # which are explained all the same


def test_models_that_can_be_shown_are_shown_the_best_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = grid(("blocks",), seeds=1)
    path = stored(tmp_path / "study", runs, planted, ("mig",)).path
    (path / "shown").mkdir()
    shown = [runs[0], runs[8], runs[4]]
    for run in shown:
        (path / "shown" / f"{run.identity}.safetensors").touch()
    asked: list[Any] = []

    def part(folder: Path, runs: list[str], scores: Any, settings: Any, **others: Any) -> HtmlFragment:
        assert folder == path
        asked.extend((run, scores[run], settings[run]) for run in runs)
        return HtmlFragment("", "<p>the models</p>", "", "null")

    monkeypatch.setattr(module, "showcase_fragment", part)
    monkeypatch.setattr(module, "pair_html", lambda folder, runs: "<p>two of them</p>")
    html = report(path).read_text()
    assert "<p>two of them</p></div>" in html
    assert [run for run, _, _ in asked] == [run.identity for run in (runs[8], runs[4], runs[0])]
    assert asked[0][1].startswith("MIG 0.5")
    assert asked[0][2] == "DIP-VAE-II, λ = 16"
    assert "<div><p>the models</p></div></details></section>" in html


def test_a_criterion_with_two_settings_is_two_numbers_of_the_report(tmp_path: Path) -> None:
    runs = grid(("blocks",), seeds=2)
    folder = stored(tmp_path / "study", runs, planted, ("mig",))
    for similarity in ("lasso", "spearman"):
        settings = {"similarity": similarity, "partners": 50.0}
        scores = [score(run, "udr", planted(run, similarity), settings=settings, models=len(runs)) for run in runs]
        folder.store.write(scores, folder.request.runs, in_words=setting)
    html = report(folder.path).read_text()
    for similarity in ("lasso", "spearman"):
        words = f"UDR (similarity = {similarity}) <code>udr [similarity={similarity}]</code>"
        assert f"<dt>{words}</dt>" in html
    assert "the closest of 2 criteria" in texts(html)


def test_commands_train_the_very_runs_that_were_measured(tmp_path: Path) -> None:
    hyper = {"gamma": 1 / 3, "second_batch": True, "variant": "a b"}
    stored(tmp_path / "study", [Run("blocks", "mine", hyper, optimiser=Adam(1 / 7))], lambda *_: 0.5, ("mig",))
    page = entities.unescape(texts(report(tmp_path / "study").read_text()))
    command = re.search(r"sober train blocks .*?--out FOLDER", page)
    assert command is not None
    words = shlex.split(command.group())
    typed = [words[at + 1] for at, word in enumerate(words) if word == "--set"]
    assert parse_settings(typed) == hyper
    assert value_of(words[words.index("--learning-rate") + 1]) == 1 / 7


def test_words_that_all_settings_share_are_said_once(tmp_path: Path) -> None:
    runs = grid(("blocks",), seeds=2, latents=6, optimiser=Adam(learning_rate=1e-3))
    stored(tmp_path / "shared", runs, planted, ("mig",))
    text = texts(report(tmp_path / "shared").read_text())
    assert "All settings have learning rate = 0.001, latents = 6." in text
    assert text.count("latents = 6") == 1


def test_fifteen_thousand_runs_take_less_than_fifteen_megabytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, numbers = np.random.default_rng(0), 12
    every = itertools.product([f"world{i}" for i in range(7)], [f"method{i}" for i in range(6)], range(6), range(60))
    runs = pl.DataFrame(list(every), schema=["world", "method", "beta", "seed"], orient="row")
    runs = runs.with_row_index("run").with_columns(
        pl.col("run").cast(pl.String).str.zfill(16),
        setting=pl.format("{} beta={}", "method", "beta"),
        hyper_beta=pl.col("beta").cast(float),
    )
    frame = pl.concat(
        [runs.with_columns(metric=pl.lit(f"number{k}"), value=pl.Series(rng.random(len(runs)))) for k in range(numbers)]
    )
    frame = complete(frame.with_columns(supervised=pl.lit(True)))
    assert len(runs) > 15_000
    begun(tmp_path / "study", grid())
    monkeypatch.setattr(Store, "table", lambda self: frame)
    monkeypatch.setattr(module, "make_tables", functools.partial(make_tables, resamples=5))
    path = report(tmp_path / "study")
    assert path.stat().st_size < 15e6
    text = texts(path.read_text())
    assert "Single runs are left out, as there are 15,120" in text
    assert "252 settings" in text


def test_wrong_requests_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="holds no results: make some"):
        report(tmp_path)
    begun(tmp_path / "empty", grid(("blocks",), seeds=1))
    with pytest.raises(RequestError, match="has no scores yet: run the command that made it"):
        report(tmp_path / "empty")
    request = stored(tmp_path / "some", grid(("blocks",), seeds=1), planted, ("mig",)).path / "request.json"
    whole = request.read_text()
    request.write_text("[]")
    with pytest.raises(RequestError, match="is not a request of Sober's"):
        report(tmp_path / "some")
    (tmp_path / "file").touch()
    request.write_text(whole)
    with pytest.raises(RequestError, match="choose another path"):
        report(tmp_path / "some", tmp_path / "file" / "report.html")
    with pytest.raises(RequestError, match="choose another folder"):
        figures.save([], tmp_path / "file")


# Figures for papers


def test_figures_are_written_as_svg_and_pdf(tmp_path: Path) -> None:
    runs = [run for run in grid(("blocks", "a/b", "a b"), seeds=2) if run.method != "factor_vae"]
    stored(tmp_path / "store", runs, planted, ("mig", "sap"))
    report(tmp_path / "store", tmp_path / "report.html", tmp_path / "figures")
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert {"settings_blocks_3.svg", "settings_a_b_1.pdf", "settings_a_b_2.pdf", "worlds_agreement.svg"} <= names
    assert {name.removesuffix(".svg") for name in names if name.endswith("svg")} == {
        name.removesuffix(".pdf") for name in names if name.endswith("pdf")
    }
    svg = (tmp_path / "figures" / "settings_blocks_3.svg").read_text()
    assert "DIP-VAE-II, λ = 16" in svg
    assert "var(--" not in svg
    assert (tmp_path / "figures" / "worlds_agreement.pdf").read_bytes().startswith(b"%PDF")


def test_hues_stand_out_from_paper_in_the_light_and_in_the_dark() -> None:
    for hue, behind in itertools.product(HUES, ("#fbfbfa", "#16171a")):
        low, high = sorted([luminance(hue), luminance(behind)])
        assert (high + 0.05) / (low + 0.05) >= 3, (hue, behind)


def test_brackets_mark_correlations_that_may_be_none(tmp_path: Path) -> None:
    runs = as_runs(stored(tmp_path / "store", grid(("blocks",)), noise, ("mig", "sap", "irs")).store.table())
    made, _ = make_tables(runs, resamples=100)
    (heat,) = [each for each in figures.drawable(runs, made) if each.name == "metric_agreement"]
    for row in heat.panels["blocks",]:
        assert row["text"].startswith("(") == (row["low"] <= 0 <= row["high"])
    assert len(heat.panels["blocks",]) == 6


# In Chromium


def drawn(tab: Any) -> Any:
    """The page with all sections unfolded and all charts drawn."""
    tab.evaluate("document.querySelectorAll('.fold > details').forEach((fold) => { fold.open = true; })")
    tab.wait_for_function("[...document.querySelectorAll('.chart')].every((chart) => chart.querySelector('svg'))")
    tab.wait_for_selector("body[data-drawn]")
    return tab


def column(tab: Any, name: str) -> list[str]:
    """The cells that a reader sees of a column of the leaderboard."""
    return tab.evaluate(
        """(name) => { const table = document.querySelector("#leaderboard table");
        const at = [...table.tHead.rows[0].cells].findIndex((cell) => cell.textContent.startsWith(name));
        const shown = [...table.tBodies[0].rows].filter((row) => !row.hidden);
        return shown.map((row) => row.cells[at].firstChild.data); }""",
        name,
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_chart_is_drawn_in_the_colours_of_the_page(chromium: Any, full: Path, scheme: str) -> None:  # noqa: F811
    with opened(chromium, full, color_scheme=scheme) as tab:
        drawn(tab)
        assert tab.locator("figure").count() == tab.locator("figure .chart svg").count() == 21
        marks = tab.locator("figure .chart svg").evaluate_all(
            "all => all.map((svg) => svg.querySelectorAll('path').length)"
        )
        assert min(marks) > 5
        name = tab.locator("svg text").filter(has_text="β-VAE").first
        assert (
            name.evaluate("text => getComputedStyle(text).fill")
            == {"light": "rgb(98, 101, 109)", "dark": "rgb(160, 163, 171)"}[scheme]
        )


def test_a_choice_draws_another_panel_and_lists_its_numbers(chromium: Any, full: Path) -> None:  # noqa: F811
    with opened(chromium, full) as tab:
        figure = drawn(tab).locator("figure[data-figure=means_against_samples]")
        figure.get_by_text("The numbers of this panel").click()
        before = figure.locator("tbody, table").first.text_content()
        figure.get_by_label("world").select_option("dsprites")
        tab.wait_for_function(
            "(before) => document.querySelector('[data-figure=means_against_samples] table').textContent !== before",
            arg=before,
        )
        assert figure.locator("td").filter(has_text="β-VAE, β = 16").count() == 1
        assert figure.locator("svg").count() == 1


def test_the_leaderboard_is_sorted_by_mouse_and_by_keyboard(chromium: Any, full: Path) -> None:  # noqa: F811
    with opened(chromium, full) as tab:
        drawn(tab)
        head = tab.locator("#leaderboard th", has=tab.get_by_role("button", name=re.compile("^MIG"))).first
        head.get_by_role("button").click()
        values = [float(value) for value in column(tab, "MIG")]
        assert values == sorted(values, reverse=True)
        assert head.get_attribute("aria-sort") == "descending"
        tab.keyboard.press("Enter")
        assert [float(value) for value in column(tab, "MIG")] == sorted(values)
        assert head.get_attribute("aria-sort") == "ascending"
        tab.get_by_role("button", name="setting").first.focus()
        tab.keyboard.press("Space")
        settings = column(tab, "setting")
        assert settings == sorted(
            settings, key=lambda text: (text[0] == "β", text.split("=")[0], float(text.split("=")[1]))
        )
        assert head.get_attribute("aria-sort") == "none"


def test_what_is_missing_comes_last_whichever_way_a_table_is_sorted(chromium: Any, tmp_path: Path) -> None:  # noqa: F811
    def value(run: Run, name: str) -> float | None:
        return None if run.method == "beta_vae" and name == "sap" else planted(run, name)

    stored(tmp_path / "store", grid(("blocks",), seeds=2), value, ("mig", "sap"))
    with opened(chromium, report(tmp_path / "store")) as tab:
        for _ in range(2):
            drawn(tab).get_by_role("button", name="SAP").first.click()
            assert column(tab, "SAP")[-3:] == ["–"] * 3
            assert "–" not in column(tab, "SAP")[:-3]


def test_the_leaderboard_is_filtered_by_words(chromium: Any, full: Path) -> None:  # noqa: F811
    with opened(chromium, full) as tab:
        words = drawn(tab).get_by_label("Only settings with the words")
        words.press_sequentially("DSPRITES β")
        assert set(column(tab, "world")) == {"dsprites"}
        assert len(column(tab, "setting")) == 3
        assert tab.locator("#leaderboard output").first.text_content() == "3 of 18 settings"
        words.fill("")
        assert len(column(tab, "setting")) == 18


@pytest.mark.parametrize(("which", "width"), [("full", 360), ("hostile", 360), ("hostile", 3840)])
def test_nothing_is_wider_than_the_window(chromium: Any, request: Any, which: str, width: int) -> None:  # noqa: F811
    with opened(chromium, request.getfixturevalue(which), width) as tab:
        drawn(tab).evaluate("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        assert tab.locator("figure .chart svg").count() == tab.locator("figure").count() > 5


def test_everything_that_can_be_pressed_has_a_name(chromium: Any, full: Path) -> None:  # noqa: F811
    with opened(chromium, full) as tab:
        named = drawn(tab).locator("body").aria_snapshot()
        assert not re.search(r"- (button|combobox|searchbox|region|link)( \[.*\])?:?$", named, re.MULTILINE)


def test_nothing_of_ours_can_end_its_own_element() -> None:
    folder = Path(module.__file__).parent
    assert "</" not in (folder / "report.js").read_text()
    assert "</" not in (folder / "report.css").read_text()
