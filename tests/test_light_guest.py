"""A light guest: importing Sober changes nothing outside it, scoring arrays needs no JAX, and no system call is missed
where there is none.
"""

from __future__ import annotations

import json
import os
import pkgutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import sober
from conftest import ROOT
from test_three_files import write

Start = Callable[..., "subprocess.Popen[str]"]


def output(process: subprocess.Popen[str], timeout: float = 120) -> str:
    """What a process printed; it must end well."""
    text = process.communicate(timeout=timeout)[0]
    assert process.returncode == 0, text
    return text


def modules(*parts: str) -> list[str]:
    """Every module of Sober, or of some of its parts."""
    every = [module.name for module in pkgutil.walk_packages(sober.__path__, "sober.") if "__main__" not in module.name]
    return [name for name in every if not parts or name.split(".")[1] in parts]


# What an import brings along.

IMPORTED = """
import importlib, sys
before = set(sys.modules)
for name in sys.argv[1:]:
    importlib.import_module(name)
print(*sorted(set(sys.modules) - before))
"""


def imported(start: Start, *names: str) -> set[str]:
    """Modules that are there once these are imported, in a fresh process, and were not before."""
    return set(output(start(IMPORTED, *names)).split())


def test_importing_sober_imports_nothing_but_sober_and_what_python_has(start: Start) -> None:
    found = imported(start, "sober")
    assert "sober" in found
    assert {name.split(".")[0] for name in found} <= {"sober", *sys.stdlib_module_names}
    assert {name for name in found if name.startswith("sober")} == {"sober"}


# Above metrics and estimators in the flow, or beside them: they are about models, these are about arrays.
ABOUT_MODELS = {
    "device",
    "worlds",
    "nets",
    "methods",
    "models",
    "training",
    "results",
    "evaluation",
    "report",
    "requests",
    "cli",
}
HEAVY = {"jax", "jaxlib", "equinox", "optax", "polars", "matplotlib", "altair", "rich", "cyclopts"}


def test_metrics_and_estimators_know_nothing_of_models(start: Start) -> None:
    names = modules("metrics", "estimators")
    assert {"sober.metrics.mig", "sober.metrics.unified", "sober.estimators.trees"} <= set(names)
    found = imported(start, *names)
    assert set(names) <= found
    assert not {name for name in found if name.startswith("sober.") and name.split(".")[1] in ABOUT_MODELS}
    assert not HEAVY & {name.split(".")[0] for name in found}


def test_choosing_by_arrays_knows_nothing_of_models(start: Start) -> None:
    found = imported(start, "sober.criteria")
    assert {"sober.criteria.pipe", "sober.criteria.elbo"} <= found
    assert not {name for name in found if name.startswith("sober.") and name.split(".")[1] in ABOUT_MODELS}
    assert not HEAVY & {name.split(".")[0] for name in found}


# Without JAX.

WITHOUT_JAX = """
import sys
BLOCKED = {"jax", "jaxlib", "equinox", "optax"}

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in BLOCKED:
            raise ImportError(f"{name} is not to be imported here")

sys.meta_path.insert(0, Blocked())
assert not BLOCKED & sys.modules.keys()
"""


@pytest.fixture
def arrays(tmp_path: Path) -> Path:
    """The whole grid of three factors, told by three latents and a dead one."""
    factors = np.stack(np.unravel_index(np.arange(60), (3, 4, 5)), axis=1)
    codes = np.concatenate([factors + 0.5, np.zeros((60, 1))], axis=1)
    np.savez(tmp_path / "codes.npz", codes=codes, factors=factors, logvar=np.tile([-4.0, -4, -4, 0], (60, 1)))
    return tmp_path / "codes.npz"


def test_the_block_blocks(start: Start) -> None:
    process = start(WITHOUT_JAX + "import sober\nsober.world('blocks')\n")
    text = process.communicate(timeout=120)[0]
    assert process.returncode != 0
    assert "jax is not to be imported here" in text


def test_arrays_are_scored_without_jax(start: Start, arrays: Path) -> None:
    code = """
import json, numpy, sober
arrays = numpy.load(sys.argv[1])
scores = sober.score(arrays["codes"], arrays["factors"], logvar=arrays["logvar"])
print(json.dumps([dict(scores), list(sober.metrics.score_many([sober.metrics.as_codes(arrays["codes"])]))]))
"""
    scores, (unlabelled,) = json.loads(output(start(WITHOUT_JAX + code, arrays)))
    assert scores["mig"] == pytest.approx(1)
    assert scores["active_latents"] == 3
    assert {name for metric in sober.metrics.METRICS.values() if metric.default for name in metric.scores} == set(
        scores
    )
    assert set(unlabelled) < set(scores)


def test_models_are_chosen_by_their_arrays_without_jax(start: Start) -> None:
    code = """
import numpy as np, sober
rng = np.random.default_rng(0)
truth = rng.normal(size=(500, 3))
codes = [truth[:, [2, 0, 1]], -truth, truth @ np.linalg.qr(rng.normal(size=(3, 3)))[0]]
for similarity in ("lasso", "spearman"):
    print(*sober.udr(np.stack(codes), similarity=similarity))
"""
    for line in output(start(WITHOUT_JAX + code)).splitlines():
        aligned, flipped, turned = map(float, line.split())
        assert min(aligned, flipped) > turned


def test_the_command_scores_a_file_without_jax(start: Start, arrays: Path) -> None:
    code = """
import runpy
sys.argv = ["sober", "score", sys.argv[1], "--json"]
runpy.run_module("sober.cli", run_name="__main__")
"""
    said = output(start(WITHOUT_JAX + code, arrays))
    scores = json.loads(said[said.index("{\n") :])
    assert scores["mig"] == pytest.approx(1)
    assert {"dci_disentanglement", "sap", "irs", "factor_vae"} <= set(scores)


# What an import leaves as it was. JAX's settings and lowerings are looked at in test_device.py.

OTHERS = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
print(*(name for name in sys.modules if name.split(".")[0] not in ("sober", "__main__", "__mp_main__")))
"""
STATE = """
import atexit, gc, importlib, inspect, locale, logging, multiprocessing, os, random, signal, sys, threading, warnings

def loggers():
    every = {"": logging.root, **logging.root.manager.loggerDict}
    return {
        name: (each.level, each.disabled, each.propagate, list(each.handlers), list(each.filters))
        for name, each in every.items() if isinstance(each, logging.Logger) and not name.startswith("sober")
    }

def functions(module):
    "Functions and classes that a module has, and those of its classes."
    for name, value in list(vars(module).items()):
        if callable(value):
            yield name, id(value)
        if inspect.isclass(value) and value.__module__ == module.__name__:
            yield from ((f"{name}.{each}", id(inner)) for each, inner in vars(value).items() if callable(inner))

def state(libraries):
    import numpy
    return {
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "path": list(sys.path),
        "finders": list(map(id, sys.meta_path)),
        "warnings": (list(warnings.filters), warnings.showwarning, warnings.formatwarning),
        "loggers": loggers(),
        "signals": {each: signal.getsignal(each) for each in signal.valid_signals()},
        "hooks": (sys.excepthook, threading.excepthook, sys.displayhook, sys.unraisablehook, sys.getrecursionlimit()),
        "threads": threading.active_count(),
        "processes": (multiprocessing.get_start_method(allow_none=True), multiprocessing.active_children()),
        "cores": os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None,
        "garbage": (gc.get_threshold(), gc.isenabled()),
        "locale": locale.setlocale(locale.LC_ALL),
        "at exit": atexit._ncallbacks(),
        "numpy": (numpy.geterr(), numpy.geterrcall(), repr(sorted(numpy.get_printoptions().items()))),
        "random numbers": (random.getstate(), repr(numpy.random.get_state())),
        **{f"library {module.__name__}": dict(functions(module)) for module in libraries},
    }

def changes(before, after):
    for name in before:
        if before[name] != after[name]:
            if name.startswith("library "):  # what a library defines when it is first asked for is no change
                replaced = [each for each in before[name] if before[name][each] != after[name].get(each)]
                if replaced:
                    yield f"{name}: {replaced}"
            else:
                yield f"{name}: {before[name]} became {after[name]}"
"""
UNCHANGED = """
names, others = (argument.split() for argument in sys.argv[1:3])
for name in others:
    try:
        importlib.import_module(name)
    except ImportError:
        pass  # it can only be imported by another
libraries = [sys.modules[name] for name in others if name in sys.modules]
for each in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM):
    signal.signal(each, signal.SIG_DFL)  # whatever was ignored by the process that started this one
before = state(libraries)
for name in names:
    importlib.import_module(name)
print(len(libraries), "libraries")
for change in changes(before, state(libraries)):
    print(change)
"""


KEPT = {"PATH", "HOME", "PYTHONPATH", "TMPDIR", "LANG"}


def test_importing_all_of_sober_changes_nothing_outside_it(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Libraries that Sober imports do change things; so they are there first."""
    for name in os.environ.keys() - KEPT:  # what Sober sets in this process should not be there already in the next
        monkeypatch.delenv(name)
    names = modules()
    others = output(start(OTHERS, *names))
    assert {"jax", "numpy", "equinox", "optax", "rich", "json"} <= set(others.split())
    count, *changed = output(start(STATE + UNCHANGED, " ".join(names), others)).splitlines()
    assert int(count.split()[0]) > 500
    assert changed == []


GUILTY = {
    "environment": "os.environ['XLA_FLAGS'] = '--one_more'",
    "warnings": "warnings.filterwarnings('ignore', 'whatever')",
    "loggers": "logging.getLogger('json').setLevel(logging.DEBUG)",
    "signals": "signal.signal(signal.SIGUSR1, lambda *_: None)",
    "numpy": "import numpy; numpy.seterr(all='ignore')",
    "random numbers": "import numpy; numpy.random.seed(3)",
    "library json": "import json; json.dumps = print",
    "library json.decoder": "import json; json.JSONDecoder.decode = print",
    "threads": "threading.Thread(target=__import__('time').sleep, args=(1,), daemon=True).start()",
}


def test_a_guest_that_changes_something_is_found(start: Start) -> None:
    code = (
        "import json, json.decoder\nlogging.getLogger('json')\n"
        "for line in sys.argv[1:]:\n    before = state([json, json.decoder])\n    exec(line)\n"
        "    print([each.split(':')[0] for each in changes(before, state([json, json.decoder]))])"
    )
    lines = output(start(STATE + code, *GUILTY.values())).splitlines()
    assert lines == [str([name]) for name in GUILTY]


# Where a process cannot be bound to cores, as on macOS.

# Every process of this session finds it so, also those that Sober starts: Python imports this file by itself.
UNBOUND = """
import os
for name in ("sched_getaffinity", "sched_setaffinity"):
    if hasattr(os, name):
        delattr(os, name)
"""


@pytest.fixture
def _unbound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(UNBOUND)
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(folder), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    )
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")


SCORED_AND_TRAINED = """
import os, sys
assert not hasattr(os, "sched_getaffinity") and not hasattr(os, "sched_setaffinity")
import numpy as np, sober
from sober.parallel import cores
assert cores() == os.cpu_count()
rng = np.random.default_rng(0)
codes = [sober.metrics.as_codes(rng.normal(size=(60, 3)), np.arange(60)[:, None] % 4) for _ in range(3)]
print([len(scores) for scores in sober.metrics.score_many(codes, metrics=["mig", "modularity"])])
blocks = sober.world("blocks")
runs = sober.grid(blocks, "beta_vae", {}, seeds=2, steps=20, latents=3, batch=16, learning_rate=1e-3)
results = sober.train(runs, blocks, sys.argv[1])
print(len(results.finished), len(results.score(["mig"], pictures=200)))
"""


@pytest.mark.usefixtures("_unbound")
def test_scoring_and_training_work_where_processes_are_not_bound_to_cores(start: Start, tmp_path: Path) -> None:
    assert output(start(SCORED_AND_TRAINED, tmp_path / "out")).splitlines() == ["[2, 2, 2]", "2 2"]


STUDIED = """
import os, sys
assert not hasattr(os, "sched_setaffinity")
from sober.requests.study.study_engines import run_study
results, failed = run_study(sys.argv[1], sys.argv[2], workers=2, together=2)
print(len(results.finished), sorted(set(results.table()["metric"]) & {"lopsided", "restless"}), failed)
"""


@pytest.mark.usefixtures("_unbound")
def test_workers_share_a_study_where_processes_are_not_bound_to_cores(start: Start, tmp_path: Path) -> None:
    """Of things that a study's file brings along, which every process runs for itself."""
    process = start(STUDIED, write(tmp_path / "mine.py"), tmp_path / "out")
    assert output(process).splitlines() == ["6 ['lopsided', 'restless'] []"]


STORES = """
import numpy as np, sober
from numba.core import config
rng = np.random.default_rng(0)
factors = rng.integers(0, 3, (120, 2))
print(sober.score(factors + 0.1 * rng.normal(size=factors.shape), factors, metrics="dci")["dci_disentanglement"])
assert config.CACHE_DIR == "", config.CACHE_DIR
"""


def test_compiled_loops_are_in_the_cache_folder_only(tmp_path: Path) -> None:
    """Neither beside the source nor in numba's own folder, which other libraries use."""
    beside = set((Path(sober.__file__).parent).rglob("*.nb[ci]"))
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    environment |= {"SOBER_CACHE": str(tmp_path / "cache"), "HOME": str(tmp_path / "home")}
    environment.pop("XDG_CACHE_HOME", None)
    subprocess.run([sys.executable, "-c", STORES], env=environment, check=True, capture_output=True, timeout=300)
    assert list((tmp_path / "cache" / "loops").rglob("*.nbc"))
    assert set((Path(sober.__file__).parent).rglob("*.nb[ci]")) == beside
    assert not (tmp_path / "home").exists()
    environment["SOBER_CACHE"] = os.devnull + "/cache"  # cannot be made: loops are compiled, and not stored
    subprocess.run([sys.executable, "-c", STORES], env=environment, check=True, capture_output=True, timeout=300)


def test_the_readme_says_what_decides_where_files_are_written() -> None:
    """Variables for Sober's own folders, and for that of weights that encoders need."""
    section = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Where files go")[2].partition("\n## ")[0]
    names = ("SOBER_CACHE", "XDG_CACHE_HOME", "SOBER_DATA", "NUMBA_CACHE_DIR", "HF_HOME")
    assert [name for name in names if name not in section] == []
