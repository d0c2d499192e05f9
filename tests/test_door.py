"""Names from files and folders are printed as they are: they style nothing, command no terminal, and end no command."""

from __future__ import annotations

import errno
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sober.cli import main
from sober.cli.console import Terminal, bar, console, harmless, line
from sober.cli.printed import Column, FittedTable
from sober.errors import refused_by_the_system, shell_command

ROOT = Path(__file__).parents[1]
CLEARS = "\x1b[2J\x9b2J\x07\u202e"
HOSTILE = ("[/nope]", "[bold]x", f"a{CLEARS}b", ":skull:", "two words\\", "caf\udce9")
FOLDER = "o[/b] 'é\\"
FEW = ["--pictures", "300"]
PROBE = ["probe", "hostile_encoder:encode", "--world", "blocks", "--pictures", "100", "--labels", "20"]
TRAIN = ["train", "blocks", "--set", "beta=1,4", "--seeds", "2", "--steps", "20", "--latents", "3", "--batch", "16"]


@pytest.fixture(scope="module")
def hostile_folder(tmp_path_factory):
    """A folder with a family, codes, factors and a picture whose names all have brackets and control characters."""
    path = tmp_path_factory.mktemp("door")
    factors = np.stack(np.unravel_index(np.arange(60), (3, 4, 5)), axis=1)
    rng = np.random.default_rng(0)
    for name, names in (("[/nope].npz", HOSTILE[:3]), ("[bold]\x1b[2J.npz", HOSTILE[:3]), ("more.npz", HOSTILE[3:])):
        codes = factors + rng.normal(size=factors.shape)
        (path / name).parent.mkdir(exist_ok=True)
        np.savez(path / name, codes=codes, factors=factors, names=[harmed.replace("\udce9", "é") for harmed in names])
    (path / "caf\udce9.npz").write_bytes((path / "more.npz").read_bytes())
    (path / "[/nope]\x1b[2J.csv").write_text("[/a],[bold]b,\x1b[2Jc\n" + "\n".join("1,2,x\n2,3,y" for _ in range(20)))
    (path / "hostile_encoder.py").write_text(
        "def encode(pictures):\n"
        "    rows = pictures.reshape(len(pictures), -1)\n"
        f"    return {{name: rows[:, place::9] for place, name in enumerate({HOSTILE[:5]!r})}}\n"
    )
    for letter in "rpewcua":
        (path / f"{letter}[").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        assert status([*TRAIN, "--out", FOLDER]) == 0
    return path


COMMANDS = [
    [*TRAIN, "--out", FOLDER],
    ["encode", FOLDER, *FEW],
    ["score", FOLDER, *FEW, "--metrics", "mig,dci"],
    ["select", FOLDER, "--criterion", "elbo,kl"],
    ["tables", FOLDER, "--resamples", "10", "--out", "t[/b] x"],
    ["study", "status", FOLDER],
    ["merge", FOLDER, "--out", "m[/b]"],
    ["report", FOLDER, "--out", "r[/b].html"],
    ["traverse", FOLDER, "--out", "p[/b].png"],
    ["explore", FOLDER, "--out", "e[/b].html"],
    ["worlds", "--show", "blocks", "--out", "w[/b].png"],
    ["score", "[/nope].npz", "--chance", "2", "--metrics", "mig,dci"],
    ["score", "[bold]\x1b[2J.npz", "--metrics", "mig", "--json"],
    ["score", "more.npz", "--metrics", "mig"],
    ["score", "[/nope].npz", "[bold]\x1b[2J.npz", "--metrics", "mig", "--halves", "4", "--out", "c[/b].html"],
    ["score", "[/nope]\x1b[2J.csv", "--factors", "\x1b[2Jc", "--metrics", "mig"],
    ["score", "caf\udce9.npz", "--metrics", "mig"],
    ["score", "caf\udce9.npz", "--metrics", "mig", "--json"],
    ["score", "caf\udce9.npz", "more.npz", "--metrics", "mig", "--halves", "4", "--out", "u[/b].html"],
    ["select", FOLDER, "--criterion", "elbo", "--json"],
    ["leaderboard", FOLDER, "--score", "mig"],
    ["leaderboard", FOLDER, "--score", "mig", "--json"],
    ["agree", FOLDER, "--draws", "64"],
    ["agree", "[/nope].npz", "caf\udce9.npz", "more.npz", "--draws", "64", "--out", "a[/b]"],
    ["agree", "[/nope].npz", "[bold]\x1b[2J.npz", "caf\udce9.npz", "--draws", "64", "--json"],
    [*PROBE, "--beside", "none"],
    [*PROBE, "--beside", "none", "--json"],
    [*PROBE, "--beside", "pixels", "--out", "b[/b] x"],
    ["probe", "[/nope].npz"],
    ["probe", "[bold]\x1b[2J.npz", "--json"],
]


def status(command):
    """The exit status of a command."""
    try:
        main(command)
    except SystemExit as leaving:
        return leaving.code
    return 0


def shown(text):
    """What is printed, without styles; and a proof that nothing in it commands the terminal."""
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text)
    return text


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(map(ascii, command)))
def test_a_command_prints_hostile_names_as_they_are(command, hostile_folder, monkeypatch, capsys):
    monkeypatch.chdir(hostile_folder)
    assert status(command) == 0
    printed = capsys.readouterr()
    text = shown(printed.out) + shown(printed.err)
    for name in {"--out": [command[-1]]}.get(command[-2] if len(command) > 1 else "", []):
        assert name in text.replace("\n", "") or shlex.quote(name) in text.replace("\n", "")


EVERY = ["compare", "criteria", "encode", "explore", "fit", "methods", "metrics", "report", "score", "select", "tables"]
EVERY += ["tasks", "traverse", "train", "tune", "worlds", "merge", "probe", "nonsense"]
STUDY_COMMANDS = ["plan", "run", "status", "tables", "nonsense"]


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
@pytest.mark.parametrize("start", [[], *([each] for each in EVERY), *(["study", each] for each in STUDY_COMMANDS)])
def test_a_refusal_prints_hostile_names_as_they_are(start, name, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert status([*start, name]) == 2
    text = shown(capsys.readouterr().err)
    assert text.startswith("sober: ")
    assert text.count("\n") == 1


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_every_way_to_print_is_through_the_door(name, capsys):
    with bar() as watcher:
        watcher.note(name)
        watcher.stage(name, 1, 2)
    table = FittedTable([Column(name), Column("value", "right")], [[name, "1"], [name, "2"]], name)
    console.print(table, line("wrote ", (name, "bold")), name)
    text = shown(capsys.readouterr().out)
    assert text.count(harmless(name)) >= 5


def test_colours_and_bars_still_reach_a_terminal(capsys):
    terminal = Terminal(force_terminal=True, color_system="standard")
    terminal.print(line(("bold\x1b[2J", "bold")))
    assert capsys.readouterr().out == "\x1b[1mbold[2J\x1b[0m\n"


def test_text_without_commands_stays():
    for text in ("β-VAE · 3 × 4\n", "tabs\tand\nlines", "日本語 é 😀"):
        assert harmless(text) == text


def test_a_printed_command_can_be_copied():
    words = ["sober", "traverse", "my runs/[a]'b"]
    assert shlex.split(shell_command(*words)) == words


FAULTS = (errno.ENOSPC, errno.EACCES, errno.EIO, errno.EMFILE, errno.ENAMETOOLONG, errno.EFBIG)
WRITERS = [command for command in COMMANDS if "--json" not in command and command[0] not in ("study", "train")]


def one_line(text):
    """The only line of an error, which names what went wrong."""
    lines = [printed for printed in shown(text).splitlines() if "warning" not in printed]
    assert [printed for printed in lines if printed.startswith("sober: ")] == lines[-1:], text
    assert "Traceback" not in text
    return lines[-1]


@pytest.mark.parametrize("fault", FAULTS, ids=errno.errorcode.get)
@pytest.mark.parametrize("command", WRITERS, ids=lambda command: " ".join(map(ascii, command)))
def test_an_error_of_the_system_is_one_line(command, fault, hostile_folder, monkeypatch, capsys):
    """The first file that a command writes to its end cannot be kept."""
    monkeypatch.chdir(hostile_folder)
    failed = []

    def fail(*_):
        failed.append(fault)
        raise OSError(fault, os.strerror(fault), "/some/[file]")

    monkeypatch.setattr(os, "replace", fail)
    code = status(command)
    printed = capsys.readouterr().err
    assert (code != 0) or not failed
    if code:
        assert re.search(f"{os.strerror(fault)}|no room for", one_line(printed))


@pytest.mark.parametrize("name", ["x" * 300, "y/" * 3000, "\0", "a\0b"], ids=["long", "deep", "zero", "zero inside"])
@pytest.mark.parametrize("start", [[], *([each] for each in EVERY), *(["study", each] for each in STUDY_COMMANDS)])
def test_a_name_that_the_system_refuses_is_one_line(start, name, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert status([*start, name]) in {1, 2}
    one_line(capsys.readouterr().err)


@pytest.mark.parametrize("command", ["metrics", "worlds", "--help", "--version"])
def test_output_that_cannot_be_written_is_one_line(command):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "sober.cli", command], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1
    assert one_line(done.stderr) == "sober: No space left on device: make room, and run the same command again"


def test_a_message_names_the_file_and_what_to_do():
    error = OSError(errno.ENAMETOOLONG, "File name too long", "z" * 300)
    message = refused_by_the_system(error)
    assert message.endswith("File name too long: choose a shorter name")
    assert len(message) < 300
    assert refused_by_the_system(OSError("odd")) == "odd"


def test_no_command_has_a_way_of_its_own_to_the_terminal():
    """Commands print through `console` and `errors`. Only JSON, which escapes control characters, goes around them."""
    for path in (ROOT / "src" / "sober" / "cli").glob("*.py"):
        text = path.read_text(encoding="utf-8")
        own_text = path.name == "overview.py"  # the end of the help
        assert own_text or not re.search(r"\[/\]|from_markup|markup=True|sys\.std(out|err)\.write", text), path
        assert not re.search(r"(?<![.\w])print\((?!json_text\()", text), path
        assert path.name == "console.py" or not re.search(r"\bConsole\(", text), path
