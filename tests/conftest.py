"""What tests share: the shared test data, a cache of rendered worlds, and fresh processes to kill."""

from __future__ import annotations

import contextlib
import gc
import importlib.metadata
import os
import shutil
import subprocess
import sys
import time
import unittest.mock
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import compiled_programs

ROOT = Path(__file__).parent.parent
PAINTING = ROOT.parent / "shared" / "data" / "the_scream.jpg"  # what scream_dsprites shows, of the shared test data

# Compiling takes two fifths of the time of these tests. A program that one test, worker or process compiled serves all
# others, also those of the next run and of other checkouts. The environment is set before JAX is imported, and so that
# processes which tests start have it too.
COMPILED = compiled_programs.folder()
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(COMPILED))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
# And what runs for a moment is not made fast first, which triples the time it takes to compile. What Sober compiles to
# run for longer names its own options, and is the program that people run.
QUICK = "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1"
if importlib.metadata.version("jaxlib").startswith("0.10."):  # its successors stop at a flag that they no longer know
    QUICK += " --xla_cpu_use_fusion_emitters=false"
os.environ.setdefault("XLA_FLAGS", QUICK)

import jax  # noqa: E402

from sober.criteria.registry import CRITERIA  # noqa: E402 -- JAX reads what is set above when it is imported
from sober.methods import METHODS  # noqa: E402
from sober.metrics.registry import METRICS  # noqa: E402
from sober.nets import NETS  # noqa: E402
from sober.tasks.features import FEATURES  # noqa: E402
from sober.tasks.registry import TASKS  # noqa: E402
from sober.worlds import WORLDS  # noqa: E402

BEGAN = time.monotonic()
LARGE = 2 * 2**30  # bytes


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of the shared test data, which lies beside the repository."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip(f"the shared test data is not at {folder}")
    return folder


# Loops stay compiled from session to session; numba reads the variable when it is imported.
os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "loops"))


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache of rendered worlds for this session, never the user's own."""
    base = tmp_path_factory.getbasetemp()
    # Workers of xdist each have a folder of their own inside the session's: one cache serves them all.
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "cache"
    if PAINTING.exists():  # else its tests are skipped
        folder.mkdir(exist_ok=True)
        shutil.copyfile(PAINTING, folder / "the_scream.jpg")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOBER_CACHE", str(folder))
        yield folder


@pytest.fixture(autouse=True)
def killed_processes_keep_their_programs_apart(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process killed while it stores a compiled program leaves half of it, which no later run may find."""
    if request.node.get_closest_marker("kill"):
        monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(request.getfixturevalue("tmp_path") / "compiled"))


@pytest.fixture(autouse=True)
def registries() -> Iterator[None]:
    """What a test adds to a registry, or a page or study file that it runs, is gone when the test ends."""
    with contextlib.ExitStack() as stack:
        for registry in (CRITERIA, METHODS, METRICS, NETS, FEATURES, TASKS, WORLDS):
            stack.enter_context(unittest.mock.patch.dict(registry))
        yield


@pytest.fixture(scope="module", autouse=True)
def memory() -> Iterator[None]:
    """Programs that JAX compiled for the tests of a file are forgotten once a worker has grown large.

    Kept to the end, they took a worker to 8 GB. What is freed is used again for the next file's.
    """
    yield
    if _resident() > LARGE:
        jax.clear_caches()
        gc.collect()


def _resident() -> int:
    """Bytes of memory that this process has."""
    pages = Path("/proc/self/statm")
    return int(pages.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if pages.exists() else 0


# Files that take long come first, and stay there by `--no-loadscope-reorder` in pyproject.toml: what is begun last
# should not keep the others waiting.
LONG = [
    "every_method",
    "kills",
    "newer_metrics",
    "studies_run",
    "study",
    "demo",
    "golden",
    "train",
    "fit",
    "cli",
    "devices",
    "every_criterion",
    "site",
]


PARTED = ("test_every_method.py", "test_golden.py", "test_kills.py", "test_studies_run.py")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--minutes", type=float, help="skip every test that could not begin within this many minutes")


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.args == config.getini("testpaths"):  # else the order of the files that were asked for stays
        place = {f"test_{name}.py": position for position, name in enumerate(LONG)}
        items.sort(key=lambda item: place.get(item.path.name, len(LONG)))
    for item in items:
        if "chromium" in getattr(item, "fixturenames", ()):
            item.add_marker("browser")


def pytest_runtest_setup(item: pytest.Item) -> None:
    minutes = item.config.getoption("minutes")
    if minutes is not None and time.monotonic() - BEGAN > 60 * minutes:
        pytest.skip(f"could not begin within {minutes:g} minutes")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Tests of a file go to one worker, which then trains and compiles what they share once.

    But those of all methods, of all representations with independent numbers, of all that is killed and of all studies
    would keep it busy for too long: they go by method, by representation, by command and by study.
    """
    from xdist.scheduler import LoadScopeScheduling  # noqa: PLC0415

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file, _, test = nodeid.partition("::")
            parted = file.endswith(PARTED)
            return f"{file}[{test.partition('[')[2]}" if parted else file

    return ByFile(config, log)


def pytest_collection_finish() -> None:
    """What is there now stays: looking for garbage in it again and again would take one second in forty."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Removes the cache of worlds, some 400 MB, and the oldest compiled programs, once no worker needs them."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    factory = getattr(session.config, "_tmp_path_factory", None)
    if factory is not None:
        shutil.rmtree(factory.getbasetemp() / "cache", ignore_errors=True)
    compiled_programs.remove_oldest(COMPILED)


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts Python on a piece of code in a new process, with pipes to talk to it."""
    started: list[subprocess.Popen[str]] = []

    def python(code: str, *arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", code, *map(str, arguments)]
        pipe = subprocess.PIPE
        # Errors come with the output, so that a failing assertion shows them.
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True)
        started.append(process)
        return process

    yield python
    for process in started:
        process.kill()
        process.communicate()


def set_columns(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """Makes the terminal this wide. Consoles that were made while COLUMNS was set keep the width of that moment."""
    from sober.cli.console import console, errors  # noqa: PLC0415

    monkeypatch.setenv("COLUMNS", str(columns))
    for terminal in (console, errors):
        monkeypatch.setattr(terminal, "_width", columns)
