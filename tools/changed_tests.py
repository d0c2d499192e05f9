"""Prints the test files to run after a change: changed tests, tests of the changed modules, tests that import them.

python tools/changed_tests.py [BASE]

A change is the difference from the commit BASE. Without BASE it is everything that is not committed yet, or, if all is
committed, the last commit.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = ("tests/test_docs.py",)  # what to run when only words changed
ALWAYS = ("tests/test_imports.py", "tests/test_words.py", "tests/test_types.py")


def changed_paths(base: str | None) -> list[str]:
    """Paths, relative to the repository, that differ from a commit."""
    if base is None:
        base = "HEAD" if _git("status", "--porcelain") else "HEAD~1"
    return sorted({*_git("diff", "--name-only", base), *_git("ls-files", "--others", "--exclude-standard")})


def tests_of(paths: Iterable[str]) -> list[str]:
    """The test files of changed paths, without repetition; those nearest to the change come first."""
    changed = set(paths)
    modules = {module_of(path) for path in changed if path.startswith("src/sober/") and path.endswith(".py")}
    helpers = {Path(path).stem for path in changed if path.startswith("tests/")}
    pages = PAGES if any(path.startswith("docs/") or path.endswith(".md") for path in changed) else ()
    tests = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").glob("test_*.py"))
    named = [test for test in tests if any(Path(test).stem == f"test_{_last_name(module)}" for module in modules)]
    importing = [test for test in tests if imported_by(ROOT / test) & (modules | helpers)]
    edited = [test for test in tests if test in changed]
    return list(dict.fromkeys([*edited, *ALWAYS, *pages, *named, *importing]))


def module_of(path: str) -> str:
    """`src/sober/metrics/mig.py` is `sober.metrics.mig`; a package is called after its folder."""
    return ".".join(Path(path).with_suffix("").parts[1:]).removesuffix(".__init__")


def imported_by(test: Path) -> set[str]:
    """Names of all modules that a file imports; `from a import b` may mean the module `a.b`."""
    return set(_imports(ast.parse(test.read_text(encoding="utf-8"))))


def _imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _last_name(module: str) -> str:
    return module.rpartition(".")[2]


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if line]


if __name__ == "__main__":
    print("\n".join(tests_of(changed_paths(sys.argv[1] if len(sys.argv) > 1 else None))))
