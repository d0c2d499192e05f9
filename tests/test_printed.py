"""Tables in a terminal: no line is wider than it, no word is broken, and what is left out is said."""

from __future__ import annotations

import pytest
from rich.console import Console

from sober.cli.printed import MOST, Column, FittedTable, more_rows

SCORES = ("mig", "dci disentanglement", "dci completeness", "sap", "factor vae", "modularity", "irs", "explicitness")
FLAGS = "collapsed moved_by_sampling constant_factor"
MODELS = FittedTable(
    [
        Column("setting", style="cyan", wraps=True),
        Column("run"),
        Column("world"),
        *(Column(score, "right", optional=True) for score in SCORES),
        Column("kl", "right", optional=True),
        Column("flags", wraps=True),
    ],
    [
        [
            f"beta_tcvae beta={beta} seed={seed}",
            f"{beta}f966c8b",
            "dsprites",
            *(f"0.{place + seed}50" for place in range(9)),
            FLAGS,
        ]
        for beta in (1, 4)
        for seed in (0, 1)
    ],
    title="4 models",
    rest="--json prints them",
)
WIDTHS = (40, 60, 80, 100, 140, 200)


def printed(table, width):
    console = Console(width=width, highlight=False, color_system=None)
    with console.capture() as captured:
        console.print(table)
    return captured.get()


@pytest.mark.parametrize("width", WIDTHS)
def test_no_line_is_too_wide_no_word_is_broken_and_nothing_is_left_out_in_silence(width):
    text = printed(MODELS, width)
    assert max(map(len, text.splitlines())) <= width
    words = set(text.split())
    for row in MODELS.rows:
        assert {row[0].split()[1], row[1], *FLAGS.split()} <= words
    shown = [score for score in (*SCORES, "kl") if score.split()[-1] in words and f"({score}" not in text]
    hidden = len(SCORES) + 1 - len(shown)
    assert not hidden or "--json prints them" in " ".join(text.split())


def test_a_wide_terminal_shows_every_column_and_a_narrow_one_fewer():
    assert "more column" not in printed(MODELS, 300)
    assert "world" in printed(MODELS, 300)
    at_140, at_100 = printed(MODELS, 140), printed(MODELS, 100)
    assert at_140.count("0.") > at_100.count("0.")
    assert "mig, dci" not in at_140


def test_a_column_of_one_cell_is_said_once_where_it_is_narrow():
    text = printed(MODELS, 100)
    assert text.count("dsprites") == 1
    assert "every row: world dsprites" in text


def test_a_very_narrow_terminal_gives_each_row_its_own_lines():
    lines = printed(MODELS, 50).splitlines()
    assert lines.count("beta_tcvae beta=1 seed=0 · 1f966c8b") == 1, "the columns of text name the row"
    assert any(line.startswith("  mig 0.050 · dci disentanglement 0.150") for line in lines)
    assert sum(score in "".join(lines) for score in SCORES) == MOST


def test_cells_are_plain_text():
    table = FittedTable([Column("path"), Column("models", "right")], [["runs/[bold]x[/]", "3"]])
    for width in (10, 80):
        assert "runs/[bold]x[/]" in printed(table, width).replace("\n", "")


def test_a_table_without_rows_shows_its_headings():
    assert printed(FittedTable([Column("name"), Column("models")], []), 80).split() == ["name", "models"]


def test_a_note_counts_the_rows_that_are_not_shown():
    assert printed(more_rows(1, "--json"), 80).strip() == "and 1 more row: --json"
