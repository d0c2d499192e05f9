"""tools/train_wanted.py: which cohorts fit the time, what goes on from a checkpoint, and archives in pieces."""

from __future__ import annotations

import dataclasses
import time
import zipfile
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from conftest import ROOT
from scripts import load_script
from sober.files import save_arrays
from sober.results.folder import Folder
from sober.results.request import Cohort
from sober.training.progress import TrainingProgress


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    load_script(ROOT / "tools" / "wanted.py")
    return load_script(ROOT / "tools" / "train_wanted.py")


@pytest.fixture
def cohort(tool: ModuleType, monkeypatch: pytest.MonkeyPatch) -> object:
    """30 β-VAEs: five seeds of six strengths, which nobody judges."""
    monkeypatch.setattr(tool, "judging_seconds", lambda _: 0.0)
    return next(cohort for cohort in tool.wanted_cohorts(None, ["udr_20k"], set())).with_seeds(5)


def rates_where(tool: ModuleType, cohort: object, seconds: float) -> object:
    """Rates by which a cohort trains this long, and takes nothing beside."""
    rates = tool.Rates()
    rates.around = 0.0
    rates.saw(cohort, seconds / tool.MARGIN)
    return rates


@pytest.mark.parametrize(("seconds_left", "seeds"), [(101.0, 5), (81.0, 4), (50.0, 2), (19.0, None)])
def test_a_cohort_is_as_large_as_fits_the_time(
    tool: ModuleType, cohort: object, tmp_path: Path, seconds_left: float, seeds: int | None
) -> None:
    rates = rates_where(tool, cohort, 100.0)
    rates_per_model = tool.planned_seconds(cohort.with_seeds(1)) / tool.planned_seconds(cohort)
    assert rates_per_model < 1
    smaller = tool.fitting(cohort, rates, seconds_left, tmp_path)
    assert smaller is None or rates.seconds(smaller) <= seconds_left
    larger = (
        None
        if smaller is not None and smaller.seeds == cohort.seeds
        else cohort.with_seeds(1 if smaller is None else smaller.seeds + 1)
    )
    assert larger is None or rates.seconds(larger) > seconds_left
    assert (smaller is None) == (rates.seconds(cohort.with_seeds(1)) > seconds_left)
    assert seeds != 5 or smaller.seeds == 5


def test_a_begun_cohort_goes_on_with_its_seeds_if_it_can_end(tool: ModuleType, cohort: object, tmp_path: Path) -> None:
    begun, rates = cohort.with_seeds(2), rates_where(tool, cohort, 100.0)
    assert tool.share_left(begun, tmp_path) is None
    folder = tool.begin(begun, tmp_path)
    assert tool.share_left(begun, tmp_path) == 1
    steps = begun.runs[0].steps
    checkpoint = folder.checkpoints(Cohort.of(begun.runs)) / "run-2.safetensors"
    checkpoint.parent.mkdir(parents=True)
    save_arrays(checkpoint, {"log.step": np.array([100, int(0.9 * steps)], np.int32)}, {})
    assert tool.share_left(begun, tmp_path) == pytest.approx(0.1)
    tenth = 0.1 * rates.seconds(begun)
    assert tool.fitting(cohort, rates, 1000.0, tmp_path) == begun  # other seeds could not go on
    assert tool.fitting(cohort, rates, 1.01 * tenth, tmp_path) == begun
    assert tool.fitting(cohort, rates, 0.99 * tenth, tmp_path) is None  # it cannot end
    for run in begun.runs:
        folder.model_path(run).parent.mkdir(exist_ok=True)
        folder.model_path(run).write_bytes(b"a model")
    assert tool.fitting(cohort, rates, 0.0, tmp_path) == begun  # only encoding is left


@pytest.mark.parametrize(
    ("entry", "tasks"),
    [
        ("udr_20k", []),
        ("sober_look_colour_30k", []),  # its codes are enough for downstream
        ("dci_teapots_conv", ["zero_shot"]),  # predicts pictures that its world leaves out
        ("pipe_60k", ["abstract_reasoning", "abstract_reasoning"]),
    ],
)
def test_tasks_that_encode_more_pictures_are_performed_where_the_models_are(
    tool: ModuleType, tmp_path: Path, entry: str, tasks: list[str]
) -> None:
    first = next(tool.wanted_cohorts(None, [entry], set())).with_seeds(1)
    assert [task.name for task in tool.begin(first, tmp_path).request.measure.tasks] == tasks


def test_the_time_that_models_are_needed_after_training_counts(tool: ModuleType, tmp_path: Path) -> None:
    cohort = next(tool.wanted_cohorts(None, ["pipe_60k"], set()))
    rates = rates_where(tool, cohort, 100.0)
    judging = tool.judging_seconds(cohort)
    assert judging > tool.judging_seconds(cohort.with_seeds(1)) > 0
    assert rates.seconds(cohort) == pytest.approx(100.0 + judging)
    assert tool.fitting(cohort, rates, 99.0 + judging, tmp_path) != cohort


def test_what_was_seen_of_one_method_corrects_the_plan(tool: ModuleType, cohort: object) -> None:
    rates = tool.Rates()
    before = rates.seconds(cohort) - rates.around
    rates.saw(cohort, 3 * tool.planned_seconds(cohort))
    assert rates.seconds(cohort) - rates.around == pytest.approx(3 * before)
    assert rates.seconds(cohort, 0.5) - rates.around == pytest.approx(1.5 * before)


@pytest.mark.parametrize(("seconds_left", "is_too_slow"), [(10.0, False), (1000.0, True)])
def test_the_rate_of_the_first_seconds_stops_what_cannot_end(
    tool: ModuleType, monkeypatch: pytest.MonkeyPatch, seconds_left: float, is_too_slow: bool
) -> None:
    watch = tool.TrainingWatch(tool.Log(), deadline=time.monotonic() + 100)
    progress = TrainingProgress(10, 1000, 5.0, seconds_left, 1, 100, 10, 1, 1, 0.0)
    watch.progress(progress)  # too early to judge
    now = time.monotonic()
    monkeypatch.setattr(tool.time, "monotonic", lambda: now + tool.FIRST_SECONDS + 1)
    watch.progress(progress._replace(rate=0.0))  # no rate is known yet
    if is_too_slow:
        with pytest.raises(tool.TooSlowError, match="5 model-steps/s"):
            watch.progress(progress)
    else:
        watch.progress(progress)
        watch.progress(progress._replace(seconds_left=1000.0))  # judged once


def test_an_archive_comes_in_pieces_that_are_folders_of_results(
    tool: ModuleType, cohort: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool, "PIECE_BYTES", 100_000)
    folder = tool.begin(dataclasses.replace(cohort, runs=cohort.runs[:2]), tmp_path)
    content = np.random.default_rng(0).bytes(40_000)
    for number in range(5):
        (folder.path / f"codes-{number}").write_bytes(content)
    pieces = tool.zipped(folder.path, tmp_path / "archives", "small")
    assert [path.name for path in pieces] == ["small.zip", "small.1.zip", "small.2.zip"]
    for number, path in enumerate(pieces):
        assert path.stat().st_size < 110_000
        with zipfile.ZipFile(path) as archive:
            archive.extractall(tmp_path / str(number))
        assert Folder.open(tmp_path / str(number)).request == folder.request
    held = {path.name for number in range(3) for path in (tmp_path / str(number)).glob("codes-*")}
    assert held == {f"codes-{number}" for number in range(5)}
    assert tool.archived_runs(tmp_path) == {run.identity for run in folder.request.runs.values()}
