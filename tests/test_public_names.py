"""The public names: one list, which the program and type checkers read, and which the API page documents."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import sober
from families import small_runs
from sober.errors import RequestError
from sober.models.encode import PictureSample
from sober.renamed import renamed
from sober.requests.results import Results
from sober.requests.train import train

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "sober"
EXPECTED = {
    *("score", "scorer", "Scores", "Collector", "compare", "Comparison", "udr", "task"),
    *("agree", "Agreement", "probe", "Probe"),
    *("world", "World", "grid", "train", "open", "results", "encode", "Results", "load", "merge", "Model"),
    *("fit", "Fit", "tune", "Range", "parse_space", "Study", "Product", "Scale", "explore", "RequestError"),
    *("Run", "Training", "Adam", "Codes", "Factor", "Score"),
    *("methods", "metrics", "criteria", "tasks", "nets", "worlds"),
}


def functions_and_methods() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every public function, and every public method of every public class of Sober."""
    for name in sober.__all__:
        value = getattr(sober, name)
        if inspect.isfunction(value):
            yield name, value
        elif inspect.isclass(value):
            for method_name, method in inspect.getmembers(value, inspect.isfunction):
                if not method_name.startswith("_") and method.__module__.startswith("sober"):
                    yield f"{name}.{method_name}", method


def test_the_list_of_public_names() -> None:
    assert set(sober.__all__) == EXPECTED
    assert set(dir(sober)) == {*EXPECTED, "__version__"}


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_public_name_is_what_the_stub_says(name: str) -> None:
    """Each name of the stub is imported there from a module, and is that module's object in the program."""
    stub = ast.parse((PACKAGE / "__init__.pyi").read_text(encoding="utf-8"))
    imported: dict[str, tuple[str, str]] = {}
    renamed_in_stub: dict[str, str] = {}
    for node in stub.body:
        if isinstance(node, ast.ImportFrom):
            imported |= {alias.asname or alias.name: (str(node.module), alias.name) for alias in node.names}
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and isinstance(node.targets[0], ast.Name):
            renamed_in_stub[node.targets[0].id] = node.value.id
    module_name, home_name = imported[renamed_in_stub.get(name, name)]
    value = getattr(sober, name)
    if name == "results":  # the package, which can be called
        assert inspect.ismodule(value)
        assert callable(value)
    elif inspect.ismodule(value):
        assert value is importlib.import_module(f"{module_name}.{home_name}")
    else:
        assert value is getattr(importlib.import_module(module_name), home_name)
    assert name in vars(sober) or inspect.ismodule(value), "a name that was used is an attribute like any other"


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_public_name_is_on_the_api_page(name: str) -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    value = getattr(sober, name)
    assert value.__doc__, f"{name} has no docstring"
    if inspect.ismodule(value) and name != "results":
        assert f"`sober.{name}." in page
    else:
        assert re.search(rf"^(::: sober\.([\w.]+\.)?|### ){name}$", page, flags=re.MULTILINE)


def test_every_public_function_is_typed_and_documented() -> None:
    seen = 0
    for name, function in functions_and_methods():
        parameters = [each for each in inspect.signature(function).parameters.values() if each.name != "self"]
        untyped = [each.name for each in parameters if each.annotation is inspect.Parameter.empty]
        assert not untyped, f"{name} has no types for {untyped}"
        assert "return" in function.__annotations__, f"{name} does not say what it returns"
        assert inspect.getdoc(function), f"{name} has no docstring"
        seen += 1
    assert seen > 60


def test_a_type_checker_sees_every_public_name(tmp_path: Path) -> None:
    """mypy reads the stub: a name that it lacks, or that has no type, is an error."""
    pytest.importorskip("mypy")
    names = sorted(EXPECTED - {"results"})
    program = tmp_path / "program.py"
    program.write_text(
        "import sober\n" + "".join(f"reveal_type(sober.{name})\n" for name in names) + "sober.no_such_name\n"
    )
    command = [sys.executable, "-m", "mypy", "--no-incremental", "--follow-imports=silent", str(program)]
    checked = subprocess.run(command, cwd=ROOT / "src", capture_output=True, text=True, check=False)
    revealed = re.findall(r'Revealed type is "(.+)"', checked.stdout)
    assert len(revealed) == len(names), checked.stdout[-2000:]
    assert "Any" not in revealed
    errors = [line for line in checked.stdout.splitlines() if ": error:" in line]
    assert len(errors) == 1, errors
    assert 'has no attribute "no_such_name"' in errors[0]


def test_families_are_no_public_facade() -> None:
    with pytest.raises(AttributeError):
        sober.Family  # noqa: B018
    assert "Family" not in sober.__all__


# Old names of arguments.


def test_an_old_name_of_an_argument_works_and_warns() -> None:
    @renamed(old="new")
    def double(*, new: int) -> int:
        return 2 * new

    assert typing.get_type_hints(double) == {"new": int, "return": int}
    assert double(new=3) == 6
    with pytest.warns(DeprecationWarning, match="old is now called new") as caught:
        assert double(old=3) == 6  # type: ignore[call-arg]
    assert caught[0].filename == __file__
    with pytest.raises(RequestError, match="old is the old name of new: give new alone"):
        double(old=3, new=3)  # type: ignore[call-arg]


def test_sample_is_the_old_name_of_pictures(tmp_path: Path) -> None:
    runs = small_runs()
    results = train(runs, sober.world("blocks"), tmp_path / "family")
    calls: list[Callable[..., Any]] = [
        lambda **options: results.codes(runs[0], **options).mean,
        lambda **options: [codes.mean for _, codes in results.encode(**options)],
        lambda **options: [codes.mean for _, codes in sober.encode(results, **options)],
        lambda **options: results.score(["mig"], **options)["value"].to_list(),
    ]
    for call in calls:
        with pytest.warns(DeprecationWarning, match="sample is now called pictures"):
            old = call(sample=50)
        assert repr(old) == repr(call(pictures=50))
    assert isinstance(results, Results)
    assert len(PictureSample(50).index(results.world)) == len(results.codes(runs[0], pictures=50).mean)
