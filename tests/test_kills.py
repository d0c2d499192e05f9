"""Whatever is killed, at whatever moment, the same command ends with the table that nobody would have disturbed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from conftest import ROOT
from sober.results.store import Store

TIMES = ["seconds", "versions"]  # of a score, which no two runs share
KILLS = 6

# Each process is forked before anything is computed, and ended by the system once it has worked for a random time: that
# is the same moment of the work, however busy the machine is. (What JAX has begun does not survive a fork.)
KILLED = """
import os, random, shutil, signal, sys, warnings
warnings.filterwarnings("ignore", message="os.fork")
sys.path.insert(0, sys.argv[1])
import importlib, numba, optuna, polars, scipy.sparse.csgraph, scipy.stats
import sober.evaluation.showcase_choice, sober.requests.fit.fit, sober.requests.results
import sober.requests.study.study_engines, sober.requests.train
from families import BLOCKS, small_runs
from sober import Adam, Training
from sober.requests.tune.search_space import Range
from sober.requests.tune.tune import tune

name, folder, longest = sys.argv[2], sys.argv[3], float(sys.argv[4])
QUICK = {"latents": 3, "batch": 16, "optimiser": Adam(1e-3)}
SPACE = {"beta": Range(0.01, 1.0, log=True)}
STUDY = '''
from sober import Adam, Product, Study, Training
training = Training(steps=200, latents=3, batch=16, optimiser=Adam(1e-3))
products = [Product(["blocks"], {"beta_vae": {"beta": [1.0, 4.0]}}, seeds=2, training=training)]
asked = {"metrics": ["mig", "active_latents"], "criteria": {"udr": {}, "elbo": {}}, "pictures": 600}
study = Study("s", "s", "s", products, **asked)
'''

def train(out):
    runs = small_runs(sweep={"beta": [1.0, 4.0]}, steps=400)
    return sober.requests.train.train(runs, BLOCKS, out, checkpoint_seconds=0.0)

def score(out):
    train(out).score(["mig", "sap", "modularity"])

def select(out):
    train(out).select(["udr", "elbo"])

def fit(out):
    sober.requests.fit.fit.fit(BLOCKS, out=out, method="beta_vae", steps=200, seeds=2, criteria=["elbo"], **QUICK)

def search(out):
    tune(BLOCKS, "beta_vae", SPACE, out=out, trials=4, together=2, seeds=2, steps=200, **QUICK)

def study(out):
    with open(folder + "/study.py", "w") as file:
        file.write(STUDY)
    sober.requests.study.study_engines.run_study(folder + "/study.py", out)

def work(out, seconds=0.0):
    child = os.fork()
    if not child:
        signal.setitimer(signal.ITIMER_PROF, seconds)
        {"train": train, "score": score, "select": select, "fit": fit, "tune": search, "study": study}[name](out)
        os._exit(0)
    return os.waitpid(child, 0)[1]

rng, killed = random.Random(0), 0
assert work(folder + "/whole") == 0
while killed < int(sys.argv[5]):
    ended = work(folder + "/killed", rng.uniform(0, longest))
    assert ended in (0, signal.SIGPROF), ended
    killed += ended != 0
    if not ended:  # before its time had come: begin again from nothing
        shutil.rmtree(folder + "/killed")
assert work(folder + "/killed") == 0
"""


@pytest.mark.kill
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow) for name in ("train", "score", "select", "fit", "tune")] + ["study"],
)
def test_killed_at_random_moments_it_ends_with_the_same_table(
    name: str, tmp_path: Path, start: Callable[..., Any]
) -> None:
    process = start(KILLED, ROOT / "tests", name, tmp_path, 2.0, KILLS)
    said, _ = process.communicate(timeout=300)
    assert process.returncode == 0, said
    whole, killed = (table(tmp_path / folder) for folder in ("whole", "killed"))
    assert whole.height > 0
    assert_frame_equal(killed, whole, check_exact=True)
    for folder in ("failures", "claims", "checkpoints"):
        assert not [path for path in (tmp_path / "killed").glob(f"{folder}/*") if path.is_file()], folder
    models = [sorted(path.name for path in (tmp_path / each / "models").iterdir()) for each in ("whole", "killed")]
    assert models[0] == models[1]


def table(folder: Path) -> pl.DataFrame:
    return Store.open(folder).table().drop(TIMES)
