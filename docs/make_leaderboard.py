"""Writes docs/leaderboard.md and docs/leaderboard/: methods by world, and for each number the models behind it.

    python docs/make_leaderboard.py

It reads results/. A test compares the pages with what this would write.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import polars as pl

import sober
from sober.errors import counted, listed
from sober.report.people_words import PeopleWords
from sober.results.method_board import Comparison, boards, comparisons, in_words
from sober.results.runs import as_runs, score_words
from sober.results.shipped import Note, shipped

DOCS = Path(__file__).parent
PAGE = DOCS / "leaderboard.md"
FOLDER = DOCS / "leaderboard"
SCORES = ("mig", "dci_disentanglement", "factor_vae", "explicitness", "udr")
HEAD = """# Leaderboard

Methods by world, from the [results that come with Sober](results.md). Each entry is the mean over all models of a
method, with a 95% interval that draws its settings and their seeds again: it says what other strengths would give.
*Best setting* has the best mean of MIG over its seeds; MIG chose it, which flatters it a little.
Click a number to see the models behind it. Compare methods within a table: other folders have other steps and nets.

`sober leaderboard` prints the same for your own folders, and `sober leaderboard --score NAME` for any score. You can
[add your results](add_results.md). `python docs/make_leaderboard.py` makes this page.
"""


def pages() -> dict[Path, str]:
    """The text of every page, by its path."""
    tables = {name: sober.results(name).table() for name in shipped()}
    model_pages = {FOLDER / f"{name}.md": "\n".join(_models(name, table)) + "\n" for name, table in tables.items()}
    return {PAGE: "\n".join(_front(tables)) + "\n", **model_pages}


def _front(tables: Mapping[str, pl.DataFrame]) -> Iterator[str]:
    yield HEAD
    for comparison in comparisons(boards(tables, SCORES)):
        steps = listed({f"{count:,}" for count in comparison.steps})
        yield f"## {comparison.world}: {comparison.source}"
        yield ""
        yield f"{Note.read(shipped()[comparison.source]).what}. {steps} steps."
        yield ""
        table = tables[comparison.source]
        yield from _table(comparison, PeopleWords.of(as_runs(table), table))
        yield ""


def _table(comparison: Comparison, words: PeopleWords) -> Iterator[str]:
    heads = [score_words(score) for score in comparison.standings]
    yield f"| method | models | {' | '.join(heads)} | best setting | its {heads[0]} |"
    yield "|---|---:|" + "---:|" * len(heads) + "---|---:|"
    for method, standing in comparison.first.items():
        link = f"leaderboard/{comparison.source}.md#{_anchor(comparison.world, words.methods[method])}"
        numbers = [
            f"[{in_words(standings[method].mean)}]({link})" if method in standings else "–"
            for standings in comparison.standings.values()
        ]
        setting = words.settings[standing.best_setting].removeprefix(f"{words.methods[method]}, ")
        yield (
            f"| {words.methods[method]} | {standing.models} | {' | '.join(numbers)} | {setting} | "
            f"[{in_words(standing.best)}]({link}) |"
        )


def _anchor(world: str, method: str) -> str:
    """The anchor that the site and GitHub give to the heading of a method in a world."""
    return f"{world} {method}".lower().replace(":", "").replace(" ", "-")


def _models(name: str, table: pl.DataFrame) -> Iterator[str]:
    """Every model of a folder, a table for each world and method."""
    runs = as_runs(table)
    words = PeopleWords.of(runs, table)
    numbers = runs.numbers_of(SCORES)
    yield f"# {name}"
    yield ""
    yield (
        f"{counted(len(runs.run_frame), 'model')}, a row for each. `sober report {name}` shows every number "
        f"about them. "
        "Back to the [leaderboard](../leaderboard.md)."
    )
    for (world, method), group in runs.grouped_by("world", "method"):
        heads = [score_words(runs.numbers[number].metric) for number in numbers]
        yield ""
        yield f"## {world} {words.methods[method]}"
        yield ""
        yield f"| setting | seed | run | {' | '.join(heads)} |"
        yield "|---|---:|---|" + "---:|" * len(heads)
        labels = group.run_frame.select("setting", "seed", "run").iter_rows()
        for (setting, seed, run), values in zip(labels, group.number_columns(numbers).tolist(), strict=True):
            cells = ["–" if value is None or not np.isfinite(value) else f"{value:.3f}" for value in values]
            setting_words = words.settings[setting].removeprefix(f"{words.methods[method]}, ")
            yield f"| {setting_words} | {seed} | `{run[:8]}` | {' | '.join(cells)} |"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path}")
