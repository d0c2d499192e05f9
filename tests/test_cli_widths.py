"""What every command prints fits the terminal: no line too long, no word broken, nothing left out in silence."""

from __future__ import annotations

import re

import numpy as np
import pytest

from conftest import set_columns
from sober.cli import app, main

FEW = ["--pictures", "300"]
TRAIN = ["train", "blocks", "--set", "beta=1,4", "--seeds", "2", "--steps", "20", "--latents", "3", "--batch", "16"]
NAMES = [name for name in app if not name.startswith("-")]
STUDY_NAMES = [name for name in app["study"] if not name.startswith("-")]
HELP = [["--help"], *([name, "--help"] for name in NAMES), *(["study", name, "--help"] for name in STUDY_NAMES)]
COMMANDS = [
    *HELP,
    *([name] for name in ("metrics", "methods", "criteria", "tasks", "worlds", "results")),
    ["metrics", "dci", "wasserstein_correlation"],
    ["methods", "dava", "info_gan"],
    ["criteria", "pipe_rec"],
    ["tasks", "downstream"],
    ["worlds", "celeba", "pictures"],
    ["study", "list"],
    ["study", "plan", "sober_look"],
    ["study", "plan", "dava", "--scale", "small"],
    [*TRAIN, "--out", "family"],
    ["encode", "family", *FEW],
    ["score", "family", *FEW, "--metrics", "mig,sap,irs,modularity,dci"],
    ["score", "first.npz"],
    ["score", "first.npz", "--repeats", "2", "--chance", "3", "--metrics", "mig,mcc,gaussian_total_correlation"],
    ["score", "first.npz", "second.npz", "--metrics", "mig,mcc", "--halves", "10"],
    ["select", "family", "--criterion", "udr,elbo,kl,reconstruction"],
    ["study", "status", "family"],
    ["tables", "family", "--resamples", "10"],
    [
        "tables",
        "dsprites_small_nets",
        "--names",
        "means_by_setting,leaderboard",
        "--resamples",
        "10",
        "--out",
        "tables",
    ],
    ["tables", "dsprites_small_nets", "--paper", "sober_look", "--anyway", "--only", "Table 5a", "--resamples", "10"],
    ["report", "family"],
    ["traverse", "family"],
    ["explore", "family"],
]
SAID = {"every", "row:", "more", "column", "columns", "and", "·", "a", "wider", "terminal", "shows", "them"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a family and two files of codes."""
    path = tmp_path_factory.mktemp("widths")
    factors = np.stack(np.unravel_index(np.arange(60), (3, 4, 5)), axis=1)
    noise = np.random.default_rng(0).normal(size=factors.shape)
    np.savez(path / "first.npz", codes=factors + 0.1 * noise, factors=factors, names=["colour", "shape", "size"])
    np.savez(path / "second.npz", codes=factors + noise, factors=factors, names=["colour", "shape", "size"])
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        main([*TRAIN, "--out", "family"])
        main(["score", "family", *FEW, "--metrics", "mig,sap,irs,modularity,dci"])
        main(["select", "family", "--criterion", "udr,elbo,kl,reconstruction"])
    return path


@pytest.fixture
def lines_at(folder, capsys, monkeypatch):
    """Runs a command in a terminal of some width, and gives the lines that it prints. Bars are not lines."""
    monkeypatch.chdir(folder)

    def run(command, width):
        set_columns(monkeypatch, width)
        capsys.readouterr()
        main(command)
        return [line for line in capsys.readouterr().out.splitlines() if "━" not in line]

    return run


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_what_a_command_prints_fits_the_terminal(command, lines_at):
    words = set(" ".join(lines_at(command, 300)).split())
    for width in (140, 80, 60):
        lines = lines_at(command, width)
        assert [line for line in lines if len(line) > width and not to_be_copied(line)] == []
        new = set(" ".join(lines).split()) - words - SAID
        assert [word for word in new if not said_by_a_note(word) and not found_in(word, words)] == [], "broken words"


def to_be_copied(line):
    """Whether a line holds a path or an address, which a terminal breaks itself so that it can be copied whole."""
    return re.search(r"\S/\S", line)


def said_by_a_note(word):
    """Whether a word is of the note that says which columns are left out, or a number of them."""
    return word.startswith("(") or word.endswith((",", "):", "…")) or word.isdigit()


def found_in(word, words):
    """Whether a wide terminal has the word, too. A narrow one may shorten numbers, and flags to a letter."""
    word, others = word.strip("(),;:"), {other.strip("(),;:") for other in words}
    shorter = re.fullmatch(r"[-+]?\d+\.\d{3,}|[a-z]", word)
    return shorter or word.strip("│╭╰─╮╯ ") == "" or word in others
