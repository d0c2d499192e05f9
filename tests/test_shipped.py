"""Results that come with Sober: folders that are only read, opened by name, small, and part of the package."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from conftest import ROOT
from sober.errors import RequestError
from sober.evaluation.context import versions
from sober.requests.results import open_results
from sober.requests.study.study_engines import run_study
from sober.results.folder import Folder
from sober.results.seed_pair import seed_pair
from sober.results.shipped import Note, home, shipped

TIMES = ("seconds", "device", "versions")
STUDY = """
from sober import Adam, Product, Study, Training

STRENGTHS = {"beta": [1.0, 2.0]}
TRAINING = Training(steps=60, batch=16, latents=3, optimiser=Adam(1e-3))
study = Study(
    name="small",
    title="Two methods on blocks",
    paper="nobody's",
    products=[Product(["blocks"], {"beta_vae": STRENGTHS, "beta_tcvae": STRENGTHS}, 2, TRAINING)],
    metrics=["mig", "sap", "modularity", "active_latents"],
    criteria={"udr": {}, "elbo": {}},
    pictures=300,
)
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of results as they come with Sober: a table and judgements, and two models of eight."""
    work = tmp_path_factory.mktemp("work")
    (work / "small.py").write_text(STUDY)
    trained, _ = run_study(work / "small.py", work / "small_blocks")
    trained.show()
    pair = seed_pair(trained.numbers())
    assert len(pair) == 2
    folder = tmp_path_factory.mktemp("results") / "small_blocks"
    for name in ("request.json", "columns.json", "scores.parquet"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(trained.path / name, folder / name)
    for name in ("judged", "matrices"):
        shutil.copytree(trained.path / name, folder / name)
    for name in ("models", "shown"):
        (folder / name).mkdir()
        for run in pair:
            shutil.copy(trained.path / name / f"{run}.safetensors", folder / name)
    Note("Two methods on blocks", "hardly trained", "2026-05-01", "a CPU", "sober study run", versions()).write(folder)
    return folder.parent


def table(results: Path) -> pl.DataFrame:
    return open_results(results / "small_blocks").table().drop(TIMES)


def digest(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*"))
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "" for path in files}


def test_reading_writes_nothing_into_it(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from sober.cli import main  # noqa: PLC0415

    monkeypatch.chdir(tmp_path)
    folder, before = results / "small_blocks", digest(results)
    for name in ("report", "tables", "select", "traverse"):
        main([name, str(folder)])
    main(["study", "status", str(folder)])
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("small_blocks-report.html", "small_blocks-tables", "small_blocks-traversals.png")
    ]
    page = (tmp_path / "small_blocks-report.html").read_text(encoding="utf-8")
    assert page.count('class="pair"') == 1
    assert page.count('<figure style="--aspect') == 2
    assert "models: the first 8 of 8" in capsys.readouterr().out
    assert digest(results) == before


@pytest.mark.parametrize("command", [["score"], ["encode"], ["select", "--criterion", "model_centrality"]])
def test_what_needs_models_or_changes_it_is_refused_in_a_line(
    command: list[str], results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from sober.cli import main  # noqa: PLC0415

    before = digest(results)
    with pytest.raises(SystemExit) as ended:
        main([command[0], str(results / "small_blocks"), *command[1:]])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "is only read" in said or "keeps no models" in said
    assert digest(results) == before


def test_a_folder_that_cannot_be_written_to_is_opened(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As root every folder can be: so what the system says is replaced, and the note taken away."""
    folder = shutil.copytree(results / "small_blocks", tmp_path / "copy")
    (folder / "note.json").unlink()
    shutil.rmtree(folder / "models")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "access", lambda path, mode: not Path(path).is_relative_to(folder))
    before = digest(folder)
    opened = open_results(folder)
    assert_frame_equal(opened.table().drop(TIMES), table(results))
    assert opened.report() == Path("copy-report.html")
    assert opened.select("udr").best.run in opened.runs
    with pytest.raises(RequestError, match="keeps no models, which this needs"):
        opened.score(["mig"])
    assert digest(folder) == before


def test_a_damaged_table_that_is_only_read_is_named_and_left(results: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(results / "small_blocks", tmp_path / "copy")
    (folder / "scores.parquet").write_bytes((folder / "scores.parquet").read_bytes()[:-9])
    before = digest(folder)
    with pytest.raises(RequestError, match=r"scores.parquet .*: restore it"):
        open_results(folder).table()
    assert digest(folder) == before


def test_results_that_come_with_sober_are_opened_by_name(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sober  # noqa: PLC0415
    import sober.results.store  # noqa: PLC0415 -- a module of the room, which can still be imported
    from sober.cli import main  # noqa: PLC0415

    monkeypatch.setattr("sober.results.shipped.home", lambda: results)
    assert_frame_equal(sober.results("small_blocks").table().drop(TIMES), table(results))  # type: ignore[operator]
    assert len(sober.open("small_blocks").runs) == 8
    assert sober.results.store.Store is not None
    with pytest.raises(RequestError, match="no results named 'mine' come with Sober: choose one of small_blocks"):
        sober.results("mine")  # type: ignore[operator]
    main(["results"])


def test_the_command_lists_them(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from sober.cli import main  # noqa: PLC0415

    main(["results"])
    monkeypatch.setattr("sober.results.shipped.shipped", lambda: shipped(results))
    main(["results"])
    said = " ".join(capsys.readouterr().out.split())
    assert "small_blocks 8 blocks" in said
    assert Note.read(results / "small_blocks").when in said


INSTALLED = """
import sys
from pathlib import Path
import sober
from sober.results.shipped import home, shipped
assert Path(sober.__file__).is_relative_to(sys.argv[1]), sober.__file__
assert home().is_relative_to(sys.argv[1])
print(*shipped(), len(sober.results("small_blocks").runs))
"""


def test_an_installed_package_has_them_too(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: Callable[..., subprocess.Popen[str]]
) -> None:
    """The package as a wheel lays it out, which pyproject.toml says, far from any checkout."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = settings["tool"]["hatch"]["build"]["targets"]["wheel"]
    package, command = wheel["packages"]
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / package, tmp_path / "site" / Path(package).name, ignore=ignored)
    shutil.copy(ROOT / command, tmp_path / "site")
    for source, target in wheel["force-include"].items():
        shutil.copytree(ROOT / source, tmp_path / "site" / target, ignore=ignored)
    for name, path in shipped(results).items():
        shutil.copytree(path, tmp_path / "site" / wheel["force-include"]["results"] / name)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    monkeypatch.chdir(tmp_path)
    said = start(INSTALLED, tmp_path / "site").communicate(timeout=120)[0].split()
    assert said[-1] == "8", said
    assert "small_blocks" in said


def test_results_are_small_and_every_one_of_them_opens() -> None:
    from sober.results.shipped import LARGEST  # noqa: PLC0415

    files = [path for path in home().rglob("*") if path.is_file()]
    assert home() / "wanted.toml" in files
    assert sum(path.stat().st_size for path in files) < LARGEST
    for path in shipped().values():
        assert len(open_results(path).table())
        assert set(Folder.open(path).request.runs) == set(open_results(path).table()["run"])
