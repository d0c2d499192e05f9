"""The distribution is `sober-learn`. Its base scores, compares and opens results; everything else names its extra."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

import sober
from sober import installation
from sober.cli import main
from sober.installation import EXTRA_OF, ExtraError, needing_extra, needs_extra

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]

# Packages that are imported under another name than their distribution has.
IMPORTED_AS = {"pillow": "PIL", "vl-convert-python": "vl_convert", "scikit-learn": "sklearn"}
COMES_WITH = {"jaxlib": "jax", "requests": "pooch"}


def packages(requirements: list[str]) -> set[str]:
    """What these requirements bring, under the names that Python imports; without extras of our own."""
    names = {re.match(r"[\w.-]+", line)[0] for line in requirements} - {PROJECT["name"]}
    return {IMPORTED_AS.get(name, name) for name in names}


# The name.


def test_the_distribution_is_not_somebody_elses() -> None:
    assert PROJECT["name"] == installation.DISTRIBUTION == "sober-learn"
    own = [line for lines in EXTRAS.values() for line in lines if line.startswith("sober")]
    assert own
    assert all(line.startswith("sober-learn[") for line in own)


def test_nobody_is_told_to_install_somebody_elses_package() -> None:
    old = re.compile(r"pip install [^`\n]*\bsober\b(?!-learn)(?=[\s'\"`\[]|$)|['\"]sober\[", re.MULTILINE)
    assert old.search("pip install sober")
    assert old.search("pip install 'sober[torch]'")
    assert not old.search("pip install -e '.[torch]' in a checkout of Sober")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    texts = [ROOT / name for name in listed.split("\n") if name.endswith((".md", ".py", ".pyi", ".toml", ".yml"))]
    assert len(texts) > 300
    mine = Path(__file__).resolve()
    told = [path for path in texts if path.exists() and path.resolve() != mine and old.search(path.read_text("utf-8"))]
    assert told == []


def test_the_version_is_that_of_the_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", {"sober-learn": "7.8", "sober": "1.2"}.__getitem__)
    assert sober.__version__ == "7.8"


def test_a_checkout_that_is_not_installed_has_the_version_it_declares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", absent)
    assert sober.__version__ == PROJECT["version"]


def test_without_either_the_version_is_unknown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.metadata, "version", absent)
    monkeypatch.setattr(installation, "CHECKOUT", tmp_path / "pyproject.toml")
    assert sober.__version__ == "0+unknown"
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "another"\nversion = "3"\n')
    assert sober.__version__ == "0+unknown"


def absent(name: str) -> str:
    raise importlib.metadata.PackageNotFoundError(name)


def test_a_second_distribution_under_our_name_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.metadata, "version", {"sober-learn": "7.8", "sober": "1.2"}.__getitem__)
    main(["--version"])
    printed = capsys.readouterr()
    assert printed.out == "7.8\n"
    assert printed.err.count("\n") == 1
    assert "the distribution sober 1.2 is installed too" in printed.err


def test_nothing_is_told_without_one(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "7.8" if name == "sober-learn" else absent(name))
    main(["--version"])
    assert capsys.readouterr() == ("7.8\n", "")


@pytest.mark.parametrize("files", [["__init__.py"], ["__init__.py", "cli.py"]])
def test_the_command_tells_what_shadows_the_package(start: Callable, tmp_path: Path, files: list[str]) -> None:
    (tmp_path / "sober").mkdir()
    for name in files:
        (tmp_path / "sober" / name).write_text("")
    code = "import sys; sys.path.insert(0, sys.argv.pop()); import sober_command; sober_command.main()"
    process = start(code, tmp_path)
    said = process.communicate(timeout=60)[0]
    assert said.count("\n") == 1
    assert f"`import sober` finds {tmp_path / 'sober' / '__init__.py'}, not sober-learn" in said
    assert process.returncode == 1


def test_the_command_starts_where_nothing_shadows_it(start: Callable) -> None:
    process = start("import sys, sober_command; sys.argv[1:] = ['--version']; sober_command.main()")
    assert process.communicate(timeout=60)[0].splitlines()[-1] == sober.__version__
    assert PROJECT["scripts"] == {"sober": "sober_command:main"}


# The extras.


@pytest.mark.parametrize("package", EXTRA_OF)
def test_the_extra_that_is_named_brings_the_package(package: str) -> None:
    assert COMES_WITH.get(package, package) in packages(EXTRAS[EXTRA_OF[package]])


def test_every_optional_package_has_an_extra_to_name() -> None:
    optional = set().union(*(packages(EXTRAS[name]) for name in set(EXTRAS) - {"dev", "docs", "cuda", "all"}))
    assert optional <= set(EXTRA_OF)
    assert not optional & packages(PROJECT["dependencies"])


def test_all_extras_but_one_are_in_all() -> None:
    (line,) = EXTRAS["all"]
    asked = set(re.fullmatch(r"sober-learn\[(.+)\]", line)[1].split(","))
    assert asked | {"train", "cuda", "docs", "dev", "all"} == set(EXTRAS)


def test_a_package_that_is_missing_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with (
        pytest.raises(ExtraError, match="a file needs the extra") as error,
        needing_extra("a file"),
    ):
        import onnx  # noqa: F401, PLC0415
    assert str(error.value) == needs_extra("a file", "onnx")
    assert isinstance(error.value, sober.RequestError)


BASE = """
import sys
from sober.installation import EXTRA_OF

class Without:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in EXTRA_OF:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Without())
"""
OPENED = """
import sober
results = sober.open("rooms_on_a_cpu")
made, lacking = results.tables(["leaderboard"], resamples=5)
print(results.table().height > 100, len(made), "3 runs of beta_tcvae" in repr(results), results.words(results.runs[0]))
encoded = [lambda: results.codes(results.runs[0]), results.select, results.report, lambda: results.score(["mig"])]
for function in [*encoded, lambda: results.world, lambda: results.model(results.runs[0]), lambda: sober.fit]:
    try:
        function()
    except sober.RequestError as error:
        print(error)
"""


def test_the_base_opens_results_and_names_the_extra_for_everything_else(start: Callable) -> None:
    lines = start(BASE + OPENED).communicate(timeout=100)[0].splitlines()
    assert lines[0] == "True 1 True beta_tcvae"
    assert len(lines) == 1 + 7
    assert all(re.fullmatch(r"[\w. ]+ needs the extra 'train': pip install .*", line) for line in lines[1:]), lines


@pytest.mark.parametrize(
    "command", ["results", "leaderboard --score mig", "tables rooms_on_a_cpu --names leaderboard --out {}", "--help"]
)
def test_a_command_that_reads_needs_the_base_alone(start: Callable, tmp_path: Path, command: str) -> None:
    code = BASE + "from sober.cli import main\nmain(sys.argv[1:])"
    process = start(code, *command.format(tmp_path / "tables").split())
    printed = process.communicate(timeout=100)[0]
    assert process.returncode == 0, printed
    assert "needs the extra" not in printed
    assert {"results": "rooms_on_a_cpu", "leaderboard": "beta_tcvae", "tables": "beta_tcvae", "--help": "score"}[
        command.split(maxsplit=1)[0]
    ] in printed


def test_another_missing_module_is_no_extra() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_module"), needing_extra("a file"):
        import no_such_module  # noqa: F401, PLC0415
