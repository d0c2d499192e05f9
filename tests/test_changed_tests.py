"""The tests to run after a change: all that can notice it, the nearest first."""

from __future__ import annotations

import pytest

from conftest import ROOT
from scripts import load_script

changed_tests = load_script(ROOT / "tools" / "changed_tests.py")
ALWAYS = list(changed_tests.ALWAYS)


def test_an_edited_test_comes_first_then_those_named_after_a_module_then_those_that_import_it() -> None:
    tests = changed_tests.tests_of(["src/sober/metrics/dci.py", "tests/test_pca.py", "tests/removed.py"])
    assert tests[: 1 + len(ALWAYS)] == ["tests/test_pca.py", *ALWAYS]
    assert "tests/test_golden.py" in tests  # imports sober.metrics.dci
    assert len(tests) == len(set(tests))
    tests = changed_tests.tests_of(["src/sober/estimators/lasso.py"])
    assert tests[len(ALWAYS)] == "tests/test_lasso.py"


def test_a_changed_helper_runs_the_tests_that_import_it_and_a_page_runs_those_of_pages() -> None:
    assert "tests/test_golden.py" in changed_tests.tests_of(["tests/golden.py"])
    assert "tests/test_demo.py" in changed_tests.tests_of(["tests/test_explorer.py"])  # its browser
    assert "tests/test_docs.py" in changed_tests.tests_of(["docs/design.md"])
    assert changed_tests.tests_of(["LICENSE"]) == ALWAYS


@pytest.mark.parametrize(
    ("path", "module"),
    [("src/sober/metrics/mig.py", "sober.metrics.mig"), ("src/sober/metrics/__init__.py", "sober.metrics")],
)
def test_a_package_is_called_after_its_folder(path: str, module: str) -> None:
    assert changed_tests.module_of(path) == module


def test_the_files_that_always_run_exist() -> None:
    assert all((ROOT / test).exists() for test in [*ALWAYS, *changed_tests.PAGES])
