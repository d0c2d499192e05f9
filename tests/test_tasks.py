"""How tasks are performed, whatever they are: by the one evaluation, into the one table, and on arrays."""

from __future__ import annotations

import collections
import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import sober
from families import BLOCKS, small_runs
from sober.contracts import Cost
from sober.errors import NotMeasuredError, RequestError, UnknownError
from sober.evaluation.engine import Evaluation
from sober.metrics import METRICS, Meaning, Measured
from sober.models.encode import encode_pictures
from sober.requests.results import Results
from sober.requests.train import train
from sober.results.score_files import load_parts
from sober.tasks import TASKS, Subjects, Task, find_task
from sober.types import NamedSettings
from test_cli import run as command


@pytest.mark.parametrize("preset", [3, None, np.zeros(2), {}])
def test_a_preset_that_is_no_name_is_refused(preset: Any) -> None:
    with pytest.raises(RequestError, match="preset must be a name, such as 'study'"):
        sober.task("readout", np.zeros((60, 1)), np.arange(60)[:, None] % 3, preset=preset)


@pytest.mark.parametrize("rows", [1, 39])
def test_a_readout_from_too_few_rows_is_refused(rows: int) -> None:
    with pytest.raises(RequestError, match="readout: rows must be a whole number from 40 on"):
        sober.task("readout", np.zeros((60, 1)), np.arange(60)[:, None] % 3, rows=rows)


def test_a_readout_takes_numbers_of_any_size() -> None:
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(200, 2))
    codes = factors + 0.1 * rng.normal(size=(200, 2))
    scores = sober.task("readout", codes, factors, kinds="continuous")
    for scale in (1e45, 1e-45, 1e200):
        with np.errstate(all="raise", under="ignore"):
            scaled = sober.task("readout", codes * scale, factors * scale, kinds="continuous")
        assert scaled["readout_linear"] == pytest.approx(scores["readout_linear"], abs=1e-3)
        assert scaled["readout_nonlinear"] == pytest.approx(scores["readout_nonlinear"], abs=1e-3)


class Calls:
    """A task of our own, and whom it was performed with."""

    def __init__(self) -> None:
        self.runs: list[tuple[str, ...]] = []
        self.fails: str = ""  # on this run

    def perform(self, subjects: Subjects, *, seed: int, progress: Any, shared: Any, power: float) -> list[Measured]:
        self.runs.append(tuple(run.identity for run in subjects.runs))
        if self.fails and self.fails in self.runs[-1]:
            raise ArithmeticError("cannot lift this one")
        progress(1, 2)
        return [
            Measured(
                {"lifting": float(np.mean(np.abs(codes.mean) ** power)), "lifting_seed": float(seed)},
                ("few_rows",),
                {"weight_per_factor": np.arange(len(codes.about))},
                {"lifting": 0.5},
            )
            for codes in subjects.codes
        ]


@pytest.fixture
def calls() -> Iterator[Calls]:
    found = Calls()
    TASKS["lifting"] = Task(
        "lifting",
        "how heavy are codes?",
        "Crane (2026) Heavy Codes",
        {"lifting": Meaning("mean power", high=np.inf), "lifting_seed": Meaning("the seed", better="neither")},
        found.perform,
        {"power": 1.0},
        presets={"paper": {"power": 2.0}},
        together=2,
        cost=lambda settings, models: Cost(seconds=models),
    )
    yield found
    del TASKS["lifting"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return train(small_runs(sweep={"beta": [1.0, 4.0]}), BLOCKS, tmp_path_factory.mktemp("tasks") / "family")


@pytest.fixture
def family(trained: Results, tmp_path: Path) -> Results:
    """The same models in a folder of their own."""
    folder = tmp_path / "family"
    (folder / "models").mkdir(parents=True)
    for path in (trained.folder / "models").glob("*"):
        (folder / "models" / path.name).hardlink_to(path)
    (folder / "request.json").write_bytes((trained.folder / "request.json").read_bytes())
    return sober.open(folder)


def test_rows_of_a_task_stand_in_the_table_beside_the_others(family: Results, calls: Calls) -> None:
    rows = family.score(["mig"], tasks=["lifting"])
    assert collections.Counter(rows["metric"]) == {"mig": 4, "lifting": 4, "lifting_seed": 4}
    about = rows.filter(metric="lifting")
    assert set(about["kind"]) == {"task"}
    assert set(about["settings"]) == {'{"power": 1.0}'}
    assert set(about["pictures"]) == {4096}
    assert about["flags"].to_list() == [["few_rows"]] * 4
    assert (about["high"] - about["low"]).to_list() == pytest.approx([2 * 1.96 * 0.5] * 4)
    for run in family.finished:
        row = about.filter(run=run.identity).row(0, named=True)
        assert row["value"] == pytest.approx(np.mean(np.abs(family.codes(run).mean)), rel=1e-6)
    kept = {kept.metric: kept.parts for kept in load_parts(family.folder, family.finished[0].identity)}
    assert kept["lifting"]["weight_per_factor"].tolist() == [0, 1, 2, 3]
    assert "mig" in kept


def test_what_is_in_the_table_is_not_done_again_and_other_settings_are(family: Results, calls: Calls) -> None:
    first = family.score((), tasks="lifting")
    assert [len(runs) for runs in calls.runs] == [2, 2], "as many at once as the task takes"
    assert set(first["metric"]) == {"lifting", "lifting_seed"}, "no metric was asked for"
    again = family.score((), tasks="lifting")
    assert len(calls.runs) == 2
    assert again.equals(first)
    family.score((), tasks={"lifting": {"power": 3.0}})
    family.score((), tasks="lifting", preset="paper")
    family.score((), tasks="lifting", seed=1, pictures=100)
    assert len(calls.runs) == 8
    table = family.table().filter(metric="lifting")
    assert sorted(table["settings"].unique()) == ['{"power": 1.0}', '{"power": 2.0}', '{"power": 3.0}']
    assert sorted(table["pictures"].unique()) == [100, 4096]


def test_a_model_whose_codes_are_no_numbers_gets_a_row_that_says_so(
    family: Results, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sober.evaluation import task_step  # noqa: PLC0415

    broken = family.finished[1]

    def spoilt(*arguments: Any, **settings: Any) -> Iterator[Any]:
        for run, codes in encode(*arguments, **settings):
            bad = dataclasses.replace(codes, mean=np.full_like(codes.mean, np.nan), flags=("diverged",))
            yield run, bad if run == broken else codes

    encode = task_step.encode
    monkeypatch.setattr(task_step, "encode", spoilt)
    family.score((), tasks="lifting")
    rows = family.table().filter(run=broken.identity, metric="lifting")
    assert rows["value"].to_list() == [None]
    assert rows["flags"].to_list() == [["diverged", "not_finite"]]
    assert broken.identity not in [identity for runs in calls.runs for identity in runs]
    assert len(family.table().filter(metric="lifting")) == 4


def test_a_metric_that_cannot_be_computed_gets_a_row_that_says_so_and_is_not_tried_again(
    family: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def refuse(codes: Any, shared: Any, *, seed: int, **settings: Any) -> Measured:
        tried.append(seed)
        raise NotMeasuredError("its rows are too few")

    monkeypatch.setitem(METRICS, "mig", dataclasses.replace(METRICS["mig"], measure=refuse))
    rows = family.score(["mig", "sap"])
    assert rows.filter(metric="mig")["value"].to_list() == [None] * 4
    assert rows.filter(metric="mig")["flags"].to_list() == [["not_measured"]] * 4
    assert rows.filter(metric="sap")["value"].is_finite().all()
    family.score(["mig", "sap"])
    assert len(tried) == 4
    assert not family.numbers().run_column("diverged").any()


def test_in_a_study_a_model_that_fails_takes_no_other_with_it(family: Results, calls: Calls) -> None:
    calls.fails = family.finished[0].identity
    measure = dataclasses.replace(family.request.measure, metrics=(), tasks=(NamedSettings("lifting"),))
    Evaluation(family, measure, trains=False, strict=False).all()
    rows = family.table().filter(metric="lifting")
    assert set(rows["run"]) == {run.identity for run in family.finished[1:]}
    failures = Evaluation(family, measure).context.failures.all()
    assert any("cannot lift this one" in failure.error for failure in failures)
    with pytest.raises(ArithmeticError, match="cannot lift"):
        family.score((), tasks="lifting")


def test_a_task_that_cannot_be_asked_of_a_world_is_refused_and_in_a_study_left_out(
    family: Results, calls: Calls
) -> None:
    TASKS["lifting"] = dataclasses.replace(
        TASKS["lifting"], refuses=lambda settings, world: f"{world.name} has nothing to lift: take another world"
    )
    with pytest.raises(RequestError, match="lifting: blocks has nothing to lift"):
        family.score((), tasks="lifting")
    measure = dataclasses.replace(family.request.measure, metrics=(), tasks=(NamedSettings("lifting"),))
    Evaluation(family, measure, trains=False, strict=False).all()
    assert calls.runs == []


def test_the_request_of_a_folder_remembers_its_tasks_and_older_ones_have_none(family: Results, calls: Calls) -> None:
    measure = dataclasses.replace(family.request.measure, tasks=NamedSettings.parse_all({"lifting": {"power": 2.0}}))
    assert type(measure).of(json.loads(json.dumps(measure.plain()))) == measure
    assert "tasks" not in family.request.measure.plain(), "folders without tasks stay as they were"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"flying": {}}, "unknown task 'flying': did you mean 'lifting'"),
        ({"lifting": {"height": 3.0}}, "lifting has no setting 'height'"),
        ({"lifting": {"power": "much"}}, "power must be a number"),
    ],
)
def test_a_wrong_request_is_refused_before_anything_is_encoded(
    family: Results, calls: Calls, asked: dict[str, Any], message: str
) -> None:
    with pytest.raises(RequestError, match=message):
        family.score((), tasks=asked)
    assert not (family.folder / "codes").exists()


def test_arrays_are_enough_where_a_task_needs_no_models(calls: Calls) -> None:
    codes, factors = np.array([[1.0], [-3.0]]), np.array([[0], [1]])
    scores = sober.task("lifting", codes, factors, power=2.0, seed=5)
    assert dict(scores) == {"lifting": 5.0, "lifting_seed": 5.0}
    assert scores.errors == {"lifting": 0.5}
    assert scores.settings == {"lifting": {"power": 2.0}}
    assert scores.flags["lifting"] == ("few_rows",)
    assert sober.task("lifting", codes, factors, preset="paper")["lifting"] == 5.0
    TASKS["lifting"] = dataclasses.replace(TASKS["lifting"], needs="models")
    with pytest.raises(RequestError, match="needs models"):
        sober.task("lifting", codes, factors)


def test_a_task_that_predicts_factors_wants_some_that_vary(calls: Calls) -> None:
    with pytest.raises(RequestError, match="pass factors"):
        sober.task("lifting", np.eye(3), np.zeros((3, 1), int))
    with pytest.raises(RequestError, match="pass factors"):
        sober.task("lifting", np.eye(3))
    scores = sober.task("lifting", np.eye(3), np.array([[0, 0], [0, 1], [0, 1]]))
    assert scores.flags["lifting"] == ("constant_factor", "few_rows")
    assert scores.factors == ("factor_1",)


def test_rows_with_holes_are_left_out_and_that_is_said(calls: Calls) -> None:
    codes, factors = np.array([[1.0], [-3.0], [2.0]]), np.array([[0, 1], [1, np.nan], [2, 2]])
    scores = sober.task("lifting", codes, factors)
    assert scores["lifting"] == 1.5
    assert "missing_labels" in scores.flags["lifting"]
    with pytest.raises(RequestError, match="no row has a value for every factor"):
        sober.task("lifting", codes, np.array([[0, np.nan], [np.nan, 1], [1, np.nan]]))


def test_a_number_that_is_not_finite_or_a_flag_that_nobody_explains_is_a_fault(calls: Calls) -> None:
    codes, factors = np.eye(3), np.arange(3)[:, None]
    for outcome, error in (
        (Measured({"lifting": np.inf}), ArithmeticError),
        (Measured({"lifting": 1.0}, ("heavy",)), KeyError),
        (Measured({"weight": 1.0}), KeyError),
    ):
        TASKS["lifting"] = dataclasses.replace(
            TASKS["lifting"], perform=lambda subjects, answer=outcome, **settings: [answer]
        )
        with pytest.raises(error):
            sober.task("lifting", codes, factors)


def test_the_command_line_performs_tasks_with_a_folder_and_with_arrays(
    family: Results, calls: Calls, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "codes.npz", codes=np.array([[1.0], [-3.0]]), factors=np.array([[0], [1]]))
    assert command("score", tmp_path / "codes.npz", "--tasks", "lifting", "--set", "power=2", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"lifting": 5.0, "lifting_seed": 0.0}
    assert command("score", tmp_path / "codes.npz", "--tasks", "lifting", "--metrics", "mig") == 0
    shown = capsys.readouterr().out
    assert "lifting" in shown
    assert "mig" in shown
    assert command("score", family.folder, "--tasks", "lifting", "--pictures", 50, "--json") == 0
    plain = json.loads(capsys.readouterr().out)
    assert {*plain} == {run.identity for run in family.finished}
    assert all({*scores} == {"lifting", "lifting_seed"} for scores in plain.values())
    assert command("score", family.folder, "--set", "power=2") == 2
    assert "name tasks with --tasks" in capsys.readouterr().err
    assert command("score", family.folder, "--tasks", "lifting", "--set", "height=2") == 2
    assert "no setting 'height'" in capsys.readouterr().err


def test_other_pictures_are_encoded_as_the_folder_encodes_its_own(family: Results) -> None:
    index = np.array([5, 4000, 77])
    models = [family.model(run) for run in family.finished]
    for run, codes in zip(family.finished, encode_pictures(BLOCKS, models, index), strict=True):
        whole = family.codes(run)
        np.testing.assert_allclose(codes.mean, whole.mean[index], rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(codes.factors, whole.factors[index])
    with pytest.raises(RequestError, match="pictures of"):
        encode_pictures(sober.world("dsprites"), models, index)


def test_subjects_can_be_fewer(calls: Calls, family: Results) -> None:
    runs, codes = zip(*family.encode(pictures=20), strict=True)
    subjects = Subjects(codes, runs, BLOCKS, None, family.model)
    assert subjects.only([2, 0]).runs == (runs[2], runs[0])
    assert subjects.only([1]).codes[0] is codes[1]
    assert [model.run for model in subjects.only([3]).models] == [runs[3]]
    with pytest.raises(UnknownError, match="unknown task 'flying'"):
        find_task("flying")


def test_rows_of_tasks_are_no_metrics_in_tables(family: Results, calls: Calls) -> None:
    family.score(["mig"], tasks="lifting")
    runs = family.numbers()
    assert runs.tasks() == ["lifting", "lifting_seed"]
    assert runs.metrics() == ["mig"]
    assert not set(runs.criteria()) & {"lifting", "lifting_seed"}
    board = {made.table.name: made.frame for made in family.tables(resamples=20)[0]}["leaderboard"]
    assert len(board.filter(pl.col("metric") == "lifting")) == 2
