"""What a stranger meets on the site: one first picture, one page of questions, and code that can be read on a phone."""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sober
from conftest import ROOT
from scripts import load_script
from sober import cli
from sober.cli import app, main
from sober.cli.console import bar
from sober.errors import RequestError
from sober.training.progress import TrainingProgress
from test_explorer import chromium  # noqa: F401

DOCS = ROOT / "docs"
QUESTIONS = (
    *("My codes and labels", "My pictures", "My trained models", "The same model, trained several times"),
    *("Somebody's claim", "A new method"),
)
WIDTHS = (390, 1300)


def first_picture(page: Path) -> str:
    (name, *_) = re.findall(r"!\[[^]]+\]\(([^)]+)\)", page.read_text(encoding="utf-8"))
    return str((page.parent / name).resolve())


def test_the_site_and_the_readme_begin_with_the_same_picture() -> None:
    assert first_picture(DOCS / "index.md") == first_picture(ROOT / "README.md")


def sections(page: Path) -> dict[str, str]:
    """The text below each heading of the second level."""
    _, *parts = re.split(r"^## (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_question_has_one_command_what_comes_out_and_where_to_read_on(question: str) -> None:
    text = sections(DOCS / "questions.md")[question]
    (block,) = re.findall(r"```\n(.*?)```", text, flags=re.DOTALL)
    (command,) = block.splitlines()
    app.parse_args(shlex.split(command)[1:], exit_on_error=False, print_error=False)
    assert "You get" in text
    _, links = text.split("Read on:")
    assert re.search(r"\]\(\S+\.md", links)
    assert len(text.split()) < 130, "short"


def test_the_page_of_questions_is_linked_from_the_first_pages_and_near_the_top_of_the_menu() -> None:
    assert "(docs/questions.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert "(questions.md)" in (DOCS / "index.md").read_text(encoding="utf-8")
    assert list(load_script(DOCS / "hooks.py").navigation()[1].values()) == ["questions.md"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if importlib.util.find_spec("mkdocs") is None:
        pytest.skip("mkdocs is not installed: make docs installs it")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return folder


def tabs(browser: Any, address: str) -> Iterator[Any]:
    for width in WIDTHS:
        for scheme in ("light", "dark"):
            context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme, offline=True)
            tab = context.new_page()
            tab.goto(address)
            yield tab
            context.close()


def test_no_page_is_wider_than_the_window(chromium: Any, site: Path) -> None:  # noqa: F811
    for name in ("index", "questions", "first_ten_minutes", "cli", "metrics/properties"):
        for tab in tabs(chromium, (site / f"{name}.html").as_uri()):
            assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), name


def test_code_that_is_wider_than_a_phone_scrolls_and_shows_that_it_does(chromium: Any, site: Path) -> None:  # noqa: F811
    hidden = "[...document.querySelectorAll('pre > code')].filter((code) => code.scrollWidth > code.clientWidth)"
    widths = []
    for tab in tabs(chromium, (site / "first_ten_minutes.html").as_uri()):
        widths.append(tab.evaluate(f"{hidden}.length"))
        shadows = tab.evaluate(
            f"{hidden}.map((code) => getComputedStyle(code).backgroundImage.split('gradient').length - 1)"
        )
        assert set(shadows) <= {4}, "a cover and a shadow at either edge"
        assert tab.evaluate(f"{hidden}.every((code) => getComputedStyle(code).overflowX === 'auto')")
    assert max(widths) > 0, "the page has code that is wider than a phone"


TEN_MINUTES = load_script(DOCS / "make_first_ten_minutes.py")


def printed() -> dict[str, str]:
    """What each marked command of the first ten minutes printed, as the page says."""
    page = TEN_MINUTES.PAGE.read_text(encoding="utf-8")
    return {mark["command"]: mark["printed"] for mark in TEN_MINUTES.MARKED.finditer(page)}


def test_what_the_first_ten_minutes_print_belongs_to_commands_that_exist() -> None:
    steps = TEN_MINUTES.commands(TEN_MINUTES.PAGE.read_text(encoding="utf-8"))
    for command in steps:
        app.parse_args(shlex.split(command)[1:], exit_on_error=False, print_error=False)
    assert [command for command in steps if command in printed()] == list(printed()), "the reader types them, in order"
    assert len(printed()) >= 3
    for text in printed().values():
        lines = text.splitlines()
        assert len(lines) > 3
        assert max(map(len, lines)) <= TEN_MINUTES.COLUMNS


def test_the_first_ten_minutes_end_with_a_verdict_in_the_words_of_today_and_say_what_may_differ() -> None:
    verdict = printed()["sober select runs/blocks"].rstrip().split("\n\n")[-1]
    assert verdict.startswith(("Undecided:", "Use this one", "Not trained far enough"))
    assert "What may differ on your machine" in sections(TEN_MINUTES.PAGE)


def test_a_command_of_the_page_is_run_at_eighty_columns_without_its_bar(tmp_path: Path) -> None:
    text = TEN_MINUTES.run("sober train blocks --seeds 1 --steps 3 --latents 2 --out runs/few", tmp_path)
    assert "━" not in text
    assert "1 model" in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        (["fit"], "sober fit needs PICTURES (see sober fit --help)"),
        (["train", "blocks"], "sober train needs --out (see sober train --help)"),
        (["merge", "--out"], "sober merge needs a value for --out (see sober merge --help)"),
        (["study", "run"], "sober study run needs STUDY (see sober study run --help)"),
    ],
)
def test_a_command_without_what_it_needs_says_what_that_is(
    typed: list[str], answer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(typed)
    assert end.value.code == 2
    assert answer in " ".join(capsys.readouterr().err.split())


def test_results_that_come_with_sober_are_described_by_their_name(capsys: pytest.CaptureFixture[str]) -> None:
    app(["results", "rooms_on_a_cpu"], result_action="return_none")
    printed = " ".join(capsys.readouterr().out.split())
    assert "Three β-TCVAEs on rooms" in printed
    assert "sober report rooms_on_a_cpu" in printed


def test_a_ranking_of_many_settings_shows_the_first_ones(capsys: pytest.CaptureFixture[str]) -> None:
    app(["select", "sober_look_dsprites_100k", "--top", "3"], result_action="return_none")
    printed = capsys.readouterr().out
    assert "settings: medians over seeds, the first 3 of 36" in printed
    assert len([line for line in printed.split("settings:")[1].split("\n\n")[0].splitlines() if line]) == 2 + 3


@pytest.mark.parametrize(
    ("array", "answer"),
    [
        (np.full((20, 8, 8), np.nan), "missing or infinite"),
        (np.arange(17.0).repeat(64).reshape(17, 8, 8), "as in pictures / 16"),
    ],
)
def test_an_array_that_holds_no_pictures_is_refused_with_a_way_out(array: np.ndarray, answer: str) -> None:
    with pytest.raises(RequestError, match=answer):
        sober.fit(array)


def test_a_merge_that_is_refused_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="no folder or archive"):
        sober.merge([tmp_path / "nothing"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_ranking_begins_with_its_table_whose_rows_are_lines_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    app(["select", "sober_look_dsprites_100k", "--top", "5"], result_action="return_none")
    title, *lines = capsys.readouterr().out.splitlines()
    assert title == "models: the first 5 of 174", "no empty line comes before it"
    start = next(number for number, text in enumerate(lines) if text.startswith("#"))
    assert [text.split()[0] for text in lines[start + 1 : start + 6]] == ["1", "2", "3", "4", "5"]


def test_a_bar_that_shows_nothing_leaves_no_empty_line(capsys: pytest.CaptureFixture[str]) -> None:
    with bar():
        pass
    with bar() as watcher:
        watcher.stage("encoding", 1, 3)
        watcher.stage("writing the report", 0, 1)
    assert capsys.readouterr().out == ""
    with bar() as watcher:
        watcher.progress(TrainingProgress(6, 6, 100.0, 0.0, 2, 2, 3, 1, 1, 0.5))
    printed = capsys.readouterr().out
    assert "3 models" in printed
    assert "left" not in printed, "training has ended"


@pytest.mark.parametrize("path", sorted(Path(cli.__file__).parent.glob("*.py")), ids=lambda path: path.stem)
def test_every_example_of_a_command_has_a_line_of_its_own(path: Path) -> None:
    assert "` · `sober" not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        (["fit", "photos", "--minutes", "abc"], "--minutes needs a number, not 'abc'"),
        (["fit", "photos", "--seeds", "many"], "--seeds needs a whole number, not 'many'"),
        (["explore", "no such file"], "there is no file or folder no such file"),
        (["score", "full"], "full holds no results: name a folder that train, fit, tune or study made"),
        (["fit", "codes.csv"], "if it holds codes, sober score codes.csv measures them"),
        (
            ["score", "codes.csv", "--metrics", "mig"],
            "pass them as the second argument, in a shell as --factors FILE",
        ),
    ],
)
def test_a_wrong_request_is_answered_with_what_to_do(
    typed: list[str], answer: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "picture.png").touch()
    np.savetxt("codes.csv", np.random.default_rng(0).normal(size=(50, 2)), delimiter=",", header="a,b", comments="")
    with pytest.raises(SystemExit) as end:
        main(typed)
    assert end.value.code == 2
    assert answer in " ".join(capsys.readouterr().err.split())


def test_the_columns_of_a_printed_table_are_explained_and_its_caption_begins_a_sentence(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    arguments = ["tables", "rooms_on_a_cpu", "--names", "leaderboard", "--resamples", "20", "--out", str(tmp_path)]
    app(arguments, result_action="return_none")
    printed = " ".join(capsys.readouterr().out.split())
    assert "low: where the 95% interval of value begins" in printed
    assert "As in Locatello et al. 2020, Figures 5 to 7. 3 runs, none diverged." in printed
