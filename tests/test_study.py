"""Studies: planned without running, run, stopped, killed, resumed, extended; what fails is listed and stops nothing."""

from __future__ import annotations

import functools
import importlib
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from families import StopAt
from sober.cli.console import bar
from sober.errors import FullDiskError, RequestError
from sober.evaluation import judge_step, score_step, train_step
from sober.methods import METHODS
from sober.models import encode as encoding
from sober.models.family import Family
from sober.models.model import Model
from sober.requests.status import status
from sober.requests.study.plan import Plan, plan, time_in_words
from sober.requests.study.study import Product, Scale, Study, find_study, shipped
from sober.requests.study.study_engines import run_study
from sober.results.store import Store
from sober.training.progress import Stopped
from sober.types import Training
from test_cli import run as command

SMALL = """
from sober import Adam, Product, Scale, Study, Training

study = Study(
    name="small",
    title="A small study",
    paper="none",
    products=[
        Product(
            worlds=["blocks"],
            methods={"beta_vae": {"beta": [1.0, 4.0]}, "vae": {}},
            seeds=SEEDS,
            training=Training(steps=40, latents=3, batch=16, optimiser=Adam(1e-3)),
        )
    ],
    metrics=["mig", "active_latents"],
    criteria={"udr": {}, "elbo": {}},
    pictures=600,
    scales={"tiny": Scale(steps=4)},
)
"""
TIMES = ["seconds", "versions"]  # of a score, which no two runs share


@pytest.fixture
def small(tmp_path: Path) -> Callable[..., Path]:
    """Writes the small study's file, with changes."""

    def write(seeds: int = 2, **changes: str) -> Path:
        text = SMALL.replace("SEEDS", str(seeds))
        for before, after in changes.items():
            text = text.replace(before, after)
        path = tmp_path / "small.py"
        path.write_text(text)
        return path

    return write


@pytest.fixture(scope="module")
def in_one_go(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the small study, run in one go."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "small.py").write_text(SMALL.replace("SEEDS", "2"))
    _, failed = run_study(folder / "small.py", folder / "out")
    assert not failed
    return folder / "out"


@pytest.fixture(scope="module")
def undisturbed(in_one_go: Path) -> pl.DataFrame:
    """The table of the small study, run in one go."""
    return table(in_one_go)


@pytest.fixture
def done(in_one_go: Path, tmp_path: Path) -> Path:
    """A copy of the small study's folder, to go on with."""
    return shutil.copytree(in_one_go, tmp_path / "out")


@pytest.fixture
def _quick_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that a test starts find even the smallest programs compiled, once one of them has been there."""
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")


def table(folder: Path) -> pl.DataFrame:
    return Store.open(folder).table().drop(TIMES)


# Plans.


@functools.cache
def planned(name: str) -> Plan:
    return plan(find_study(name)[0])


def test_the_studies_of_the_papers_have_as_many_runs_as_the_papers_say() -> None:
    counts = {name: len(planned(name).runs) for name in shipped()}
    assert counts["sober_look"] == 14_400
    assert counts["udr"] == 5_400
    assert counts["dava"] == 10 * 125  # Table 7: 25 settings, five seeds
    assert counts["pipe"] == 3 * 60
    assert counts["dava_as_published"] == counts["dava"]
    assert set(counts) == {"demo", "sober_look", "udr", "dava", "dava_as_published", "pipe", "dci", "beta_tcvae"}


@pytest.mark.parametrize("name", sorted(shipped()))
def test_a_study_is_a_short_file_with_a_scale_for_every_machine(name: str) -> None:
    study, source = find_study(name)
    assert len(source.splitlines()) <= 60
    assert "tiny" in study.scales
    shrunk = plan(study.scaled("tiny"))
    assert shrunk.study.scale
    assert 0 < len(shrunk.runs) < len(planned(name).runs) or name == "demo"
    assert shrunk.estimate().seconds < planned(name).estimate().seconds


def test_planning_neither_needs_nor_fetches_files(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a download")

    monkeypatch.setattr("pooch.retrieve", refuse)
    missing = plan(find_study("dava")[0]).missing
    assert "needs 3dshapes.h5" in missing["shapes3d"]


@pytest.mark.parametrize(
    ("days", "words"),
    [
        (5422.7, "15 years"), (600, "1.6 years"), (327.8, "11 months"), (106, "3.5 months"), (20, "20 days"),
        (2, "2 days"), (1.2, "29 hours"), (0.225, "5.4 hours"), (0.05, "72 minutes"), (0.0005, "43 seconds"),
        (0, "0 seconds"), (float("inf"), "an unknown time"),
    ],
)  # fmt: skip
def test_a_plan_says_how_long_it_takes_as_a_person_would(days: float, words: str) -> None:
    assert time_in_words(days * 86_400) == words


def test_more_seeds_leave_earlier_cohorts_as_they_are() -> None:
    product = Product(["blocks"], {"beta_vae": {"beta": [1.0, 2.0]}}, seeds=4, training=Training(steps=10))
    few, many = (
        plan(Study("s", "s", "s", [Product(**{**vars(product), "seeds": seeds})]), together=4) for seeds in (4, 7)
    )
    assert set(few.cohorts) <= set(many.cohorts)
    assert len(many.runs) == 14


def test_products_that_overlap_count_a_run_once() -> None:
    product = Product(["blocks"], {"beta_vae": {"beta": [1.0, 2.0]}}, seeds=2, training=Training(steps=10))
    assert len(plan(Study("s", "s", "s", [product, product])).runs) == 4


def test_a_scale_says_what_it_shrinks_and_keeps_schedules_in_proportion() -> None:
    study = Study(
        "s",
        "s",
        "s",
        [Product(["blocks"], {"annealed_vae": "sober_look", "dava": {}}, seeds=50)],
        criteria={"udr": {}, "pipe": {"rate": 1e-3}, "pipe_rec": {"steps": 2_000}},
        scales={"small": Scale(seeds=2, steps=3_000, strengths=3)},
    )
    small = study.scaled("small")
    said = small.scale
    assert "seeds 50 → 2" in said
    assert "steps 300,000 → 3,000" in said
    assert "strengths 6 → 3" in said
    assert "pipe steps 10,000 → 3,000" in said
    assert small.asked == (
        ("udr", {}),
        ("pipe", {"rate": 1e-3, "steps": 3_000}),
        ("pipe_rec", {"steps": 2_000}),
    )
    runs = plan(small).runs.values()
    assert {r.hyper["iteration_threshold"] for r in runs if r.method == "annealed_vae"} == {1_000.0}
    assert {r.hyper["c_max"] for r in runs if r.method == "annealed_vae"} == {5.0, 25.0, 100.0}
    assert {r.hyper["delta_c"] for r in runs if r.method == "dava"} == {0.004}
    with pytest.raises(RequestError, match="has no scale 'large': choose one of small"):
        study.scaled("large")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("study = 3", "defines no study"),
        ("import nowhere", "fails: ModuleNotFoundError: No module named 'nowhere'"),
        ("from sober import Study\nstudy = Study('a', 'a', 'a', [], criteria={'udr': {'x': 1}})", "no setting 'x'"),
    ],
)
def test_a_file_that_is_no_study_is_refused(source: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(source)
    with pytest.raises(RequestError, match=message):
        find_study(tmp_path / "mine.py")


def test_unknown_studies_are_refused() -> None:
    with pytest.raises(RequestError, match="unknown study 'sobre_look': did you mean 'sober_look'"):
        find_study("sobre_look")


# Runs.


def test_a_study_leaves_a_table_with_metrics_criteria_and_training(undisturbed: pl.DataFrame) -> None:
    assert undisturbed["run"].n_unique() == 6
    kinds = dict(undisturbed.group_by("kind").agg(pl.col("metric").unique().sort()).iter_rows())
    assert kinds["metric"] == ["active_latents", "mig"]
    assert kinds["criterion"] == ["elbo", "udr"]
    assert "train_loss" in kinds["training"]
    assert undisturbed.filter(kind="criterion")["low"].null_count() == 0
    assert undisturbed.group_by("run", "metric", "preset").len()["len"].max() == 1


def test_what_is_done_is_not_done_again(
    small: Callable[..., Path], tmp_path: Path, undisturbed: pl.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_study(small(), tmp_path / "out")
    assert_frame_equal(table(tmp_path / "out"), undisturbed)

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("work that was done before")

    for module, function in ((train_step, "train"), (score_step, "encode"), (judge_step, "_judge")):
        monkeypatch.setattr(module, function, refuse)
    _, failed = run_study(small(), tmp_path / "out")
    assert not failed
    assert not status(tmp_path / "out").failed


def test_each_model_is_encoded_once_for_metrics_criteria_and_what_the_report_shows(
    small: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: list[str] = []
    compute = encoding.encode_and_store

    def counting(family: Any, runs: Any, *rest: Any) -> None:
        encoded.extend(each.identity for each in runs)
        compute(family, runs, *rest)

    def refuse(*_: Any) -> None:
        raise AssertionError("a model that is asked for codes again")

    monkeypatch.setattr(encoding, "encode_and_store", counting)
    monkeypatch.setattr(Model, "encode", refuse)
    results, failed = run_study(small(), tmp_path / "out")
    results.report()
    assert not failed
    assert sorted(encoded) == sorted(each.identity for each in results.runs)
    assert list((tmp_path / "out" / "shown").glob("*.safetensors"))
    assert not list((tmp_path / "out" / "codes").iterdir()), "what is no longer needed is not kept"


def test_stopped_and_run_again_it_ends_with_the_same_table(
    small: Callable[..., Path], tmp_path: Path, undisturbed: pl.DataFrame
) -> None:
    for step in (10, 30):
        with pytest.raises(Stopped):
            run_study(small(), tmp_path / "out", watcher=StopAt(step))
    run_study(small(), tmp_path / "out")
    assert_frame_equal(table(tmp_path / "out"), undisturbed)


def test_more_seeds_train_only_what_is_new_and_judge_all_together(
    small: Callable[..., Path], done: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[str] = []
    train = train_step.train

    def noting(family: Family, *rest: Any, **options: Any) -> None:
        trained.extend(run.identity for run in family.runs)
        train(family, *rest, **options)

    monkeypatch.setattr(train_step, "train", noting)
    run_study(small(seeds=4), done)  # of which two are there
    assert len(trained) == len(set(trained)) == 6
    judged = table(done).filter(metric="udr")
    assert judged.height == 12
    assert set(judged["models"]) == {12}


def test_more_metrics_score_models_that_are_there(small: Callable[..., Path], done: Path) -> None:
    before = table(done).filter(metric="mig")
    run_study(small(**{'"active_latents"]': '"active_latents", "sap"]'}), done)
    after = table(done)
    assert after.filter(metric="sap").height == 6
    assert_frame_equal(after.filter(metric="mig"), before)


# Works on a study when it is told to.
SHARING = """
import sys
import sober.requests.study.study_engines
print("ready", flush=True)
sys.stdin.readline()
sober.requests.study.study_engines.run_study(sys.argv[1], sys.argv[2], together=2)
"""


@pytest.mark.usefixtures("_quick_start")
def test_two_processes_share_the_work(
    small: Callable[..., Path], tmp_path: Path, undisturbed: pl.DataFrame, start: Callable[..., Any]
) -> None:
    file = small()
    process = start(SHARING, file, tmp_path / "out")
    assert process.stdout.readline() == "ready\n"
    process.stdin.write("\n")
    process.stdin.flush()
    run_study(file, tmp_path / "out", together=2)
    said, _ = process.communicate(timeout=300)
    assert process.returncode == 0, said
    ours = table(tmp_path / "out")
    assert ours.height == undisturbed.height
    keys = ["run", "metric", "preset"]
    assert_frame_equal(ours.select(keys), undisturbed.select(keys))
    both = ours.join(undisturbed, on=keys, suffix="_alone")
    assert (both["value"] - both["value_alone"]).abs().max() < 1e-2  # cohorts of two, not of four: another rounding


@pytest.mark.usefixtures("_quick_start")
def test_workers_on_one_machine_and_the_bar_that_follows_their_work(
    small: Callable[..., Path], tmp_path: Path, undisturbed: pl.DataFrame
) -> None:
    assert command("study", "run", small(), "--out", tmp_path / "out", "--workers", 2) == 0
    assert not status(tmp_path / "out").failed
    assert table(tmp_path / "out").height == undisturbed.height
    with bar() as watcher:
        watcher.looked(tmp_path / "out")
        watcher.looked(tmp_path / "out")  # too soon to look again
        assert [task.description for task in watcher.bar.tasks] == ["6 of 6 runs trained · 0 workers busy"]


BROKEN = """
from sober.methods import METHODS, Method
from sober.methods.method import Hyper
import dataclasses

def init(setup, key, hyper):
    if hyper["how"] == "badly":
        raise ArithmeticError("this never works")
    return METHODS["vae"].init(setup, key, {})

METHODS["mine"] = dataclasses.replace(
    METHODS["vae"], name="mine", init=init, hyper=(Hyper("how", "well", "how it goes", choices=("well", "badly")),)
)
"""


def test_a_method_of_ones_own_needs_no_change_and_its_failure_stops_nothing(
    small: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(METHODS, "mine", METHODS["vae"])  # so that what the file puts there is gone afterwards
    path = small(**{'"vae": {}': '"mine": {"how": ["well", "badly"]}'})
    path.write_text(BROKEN + path.read_text())
    results, failed = run_study(path, tmp_path / "out")
    done = results.table().filter(metric="mig").group_by("method").len()
    assert dict(done.iter_rows()) == {"beta_vae": 4, "mine": 2}
    assert results.table().filter(metric="udr").height == 6  # what could be trained is judged
    assert failed
    assert all("ArithmeticError: this never works" in failure.error for failure in failed)
    assert {identity for failure in failed for identity in failure.runs} == {
        r.identity for r in plan(find_study(path)[0]).runs.values() if r.hyper.get("how") == "badly"
    }
    now = status(tmp_path / "out")
    assert (now.trained, now.runs, len(now.failed)) == (6, 8, len(failed))


def test_a_damaged_model_is_set_aside_and_trained_again(
    small: Callable[..., Path], done: Path, undisturbed: pl.DataFrame
) -> None:
    (model, *_) = sorted((done / "models").iterdir())
    model.write_bytes(model.read_bytes()[:-100])
    shutil.rmtree(done / "parts", ignore_errors=True)
    (done / "scores.parquet").unlink()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        run_study(small(), done)
    assert any("set aside" in str(each.message) and model.name in str(each.message) for each in said)
    assert_frame_equal(table(done), undisturbed)


def test_a_full_disk_stops_the_study_and_the_same_command_goes_on(
    small: Callable[..., Path], tmp_path: Path, undisturbed: pl.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, calls = Store.write, []

    def full(self: Store, *arguments: Any, **named: Any) -> None:
        calls.append(1)
        if len(calls) > 3:
            raise FullDiskError("10 bytes needed, 0 free")
        write(self, *arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "write", full)
        with pytest.raises(RequestError, match=r"the disk is full .*the same command goes on"):
            run_study(small(), tmp_path / "out")
    run_study(small(), tmp_path / "out")
    assert_frame_equal(table(tmp_path / "out"), undisturbed)


def test_a_study_of_worlds_that_are_not_here_says_which(small: Callable[..., Path], tmp_path: Path) -> None:
    path = small(**{'worlds=["blocks"]': 'worlds=["faces3d"]'})
    with pytest.raises(RequestError, match="none of the study's worlds can be opened: faces3d needs"):
        run_study(path, tmp_path / "out")


def test_status_before_and_after(small: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="holds no results: make some with"):
        status(tmp_path)
    with pytest.raises(Stopped):
        run_study(small(), tmp_path / "out", watcher=StopAt(10))
    half = status(tmp_path / "out")
    assert half.trained < half.runs == 6
    run_study(small(), tmp_path / "out")
    now = status(tmp_path / "out")
    assert (now.trained, now.failed, now.claimed, now.seconds_left) == (6, (), (), None)
    assert now.rows == table(tmp_path / "out").height


# A cluster.


@pytest.mark.filterwarnings("ignore:os.fork")  # which is how Ray starts its processes
@pytest.mark.kill
@pytest.mark.usefixtures("_quick_start")
def test_on_a_ray_cluster_that_loses_a_node_the_table_is_the_same(
    small: Callable[..., Path], tmp_path: Path, undisturbed: pl.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = pytest.importorskip("ray", reason="Ray is not installed")
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    cluster_utils = importlib.import_module("ray.cluster_utils")
    settings = {"num_cpus": 1, "object_store_memory": 80_000_000, "include_dashboard": False}
    # Ray asks every three seconds whether a node is there, and believes its fifth silence: a quarter of a minute.
    often = {"_system_config": {"health_check_initial_delay_ms": 0, "health_check_period_ms": 300}}
    cluster = cluster_utils.Cluster(initialize_head=True, head_node_args={**settings, **often, "num_cpus": 0})
    doomed = cluster.add_node(**{k: v for k, v in settings.items() if k != "include_dashboard"})
    killed: list[Path] = []

    class Killer:
        """Kills a node as soon as a cohort has been trained, and adds another."""

        def note(self, text: str) -> None: ...

        def progress(self, progress: Any) -> None: ...

        def looked(self, out: Path) -> None:
            if not killed and any((out / "models").glob("*")):
                killed.append(out)
                cluster.remove_node(doomed, allow_graceful=False)
                cluster.add_node(**{k: v for k, v in settings.items() if k != "include_dashboard"})

    try:
        ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
        _, failed = run_study(small(), tmp_path / "out", engine="ray", watcher=Killer())
    finally:
        ray.shutdown()
        cluster.shutdown()
    assert killed
    assert not failed
    assert_frame_equal(table(tmp_path / "out"), undisturbed)


def test_a_plan_counts_fits_that_two_metrics_share_once() -> None:
    def seconds(*metrics: str) -> float:
        product = Product(["blocks"], {"vae": {}}, seeds=1, training=Training(steps=1))
        return plan(Study("s", "s", "s", [product], metrics=metrics)).estimate().seconds

    assert seconds("dci", "gbt") == seconds("dci")
    assert seconds("gbt", "mig") > seconds("gbt") > seconds("mig")
