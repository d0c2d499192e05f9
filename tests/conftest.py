"""What tests share: the shared test data, a cache of rendered worlds, and fresh processes to kill."""

from __future__ import annotations

import contextlib
import gc
import importlib.metadata
import os
import shutil
import subprocess
import sys
import unittest.mock
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
PAINTING = ROOT.parent / "shared" / "data" / "the_scream.jpg"  # what scream_dsprites shows, of the shared test data

# Two fifths of the time of these tests go into compiling. What one test, worker or process has compiled serves the
# others; set before JAX is imported, and in the environment so that processes which tests start have it too.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(ROOT / ".pytest_cache" / "compiled"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
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

LARGE = 2 * 2**30  # bytes


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of the shared test data, which lies beside the repository."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip(f"the shared test data is not at {folder}")
    return folder


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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    place = {f"test_{name}.py": at for at, name in enumerate(LONG)}
    items.sort(key=lambda item: place.get(item.path.name, len(LONG)))


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
    """Removes the cache, some 400 MB, once no worker needs it."""
    factory = getattr(session.config, "_tmp_path_factory", None)
    if factory is not None and "PYTEST_XDIST_WORKER" not in os.environ:
        shutil.rmtree(factory.getbasetemp() / "cache", ignore_errors=True)


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
