"""tools/ship_results.py: which files of a folder of results come with Sober, and that the check accepts them."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import ModuleType

import pytest

from conftest import ROOT
from scripts import load_script
from sober.errors import RequestError

SOURCE = ROOT / "results" / "rooms_on_a_cpu"


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The tool, which writes into another folder results/."""
    load_script(ROOT / "tools" / "check_results.py")
    tool = load_script(ROOT / "tools" / "ship_results.py")
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    (tmp_path / "results").mkdir()
    return tool


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder as commands leave it, with files that do not come with Sober."""
    folder = tmp_path / "made"
    shutil.copytree(SOURCE, folder, ignore=shutil.ignore_patterns("note.json"))
    for place in ("codes/a.safetensors", "models/a.safetensors", "shown/choice.json", "progress/a.json", "report.html"):
        (folder / place).parent.mkdir(exist_ok=True)
        (folder / place).write_text("{}")
    return folder


def test_what_is_shipped_passes_the_check(tool: ModuleType, folder: Path) -> None:
    facts = {"when": "2026-11-20", "device": "a CPU", "command": "sober train rooms", "without": []}
    target = tool.ship(folder, "mine", "Three models", **facts)
    check = load_script(ROOT / "tools" / "check_results.py")
    assert list(check.faults(target, {})) == []
    names = {path.relative_to(target) for path in target.rglob("*") if path.is_file()}
    assert names == {path.relative_to(SOURCE) for path in SOURCE.rglob("*") if path.is_file()}
    tool.ship(folder, "mine", "Three models", **{**facts, "without": ["matrices"]})
    assert not (target / "matrices").exists()


def test_a_folder_that_is_not_there_is_one_line(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [str(tmp_path / "nothing"), "mine", "--what", "models", "--when", "2026-11-20", "--device", "a CPU"]
    monkeypatch.setattr(tool.sys, "argv", ["ship_results.py", *words])
    with pytest.raises(SystemExit, match=r"^[^\n]*nothing holds no results[^\n]*$"):
        tool.main()


def test_results_do_not_take_their_own_place(tool: ModuleType, folder: Path) -> None:
    facts = {"when": "2026-11-20", "device": "a CPU", "command": "", "without": []}
    target = tool.ship(folder, "mine", "Three models", **facts)
    with pytest.raises(RequestError, match="give the folder that they come from"):
        tool.ship(target, "mine", "Three models", **facts)
    assert (target / "scores.parquet").exists()
