"""What tests share: the shared test data, a cache of rendered worlds, and fresh processes to kill."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAINTING = ROOT.parent / "shared" / "data" / "the_scream.jpg"  # what scream_dsprites shows, of the shared test data

# Most of the time of these tests is the compiler's. What one test, worker or process has compiled serves the others;
# set before JAX is imported, and in the environment so that processes which tests start have it too.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(ROOT / ".pytest_cache" / "compiled"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")


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


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Removes the cache, some 400 MB, once no worker needs it."""
    factory = getattr(session.config, "_tmp_path_factory", None)
    if factory is not None and "PYTEST_XDIST_WORKER" not in os.environ:
        shutil.rmtree(factory.getbasetemp() / "cache", ignore_errors=True)


@pytest.fixture(scope="module")
def quick_compiler() -> Iterator[None]:
    """What `jit` of families.py does, for programs that a test does not compile itself."""
    import jax  # noqa: PLC0415

    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


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
