"""Tables of tasks with known answers: scores against uses, groups of runs, curves; and what a report says of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
import scipy

from sober.metrics.scoring.score import Scores
from sober.report.findings import findings
from sober.results import as_runs, make_tables
from sober.results.score_files import save_parts
from sober.results.tables.tasks import (
    scores_against_tasks,
    scores_against_tasks_within_methods,
    task_curves,
    tasks_by_group,
)
from test_tables import column, noise, results


def as_task(frame: pl.DataFrame, *names: str) -> pl.DataFrame:
    """Results in which some numbers are of tasks."""
    return frame.with_columns(kind=pl.when(pl.col("metric").is_in(names)).then(pl.lit("task")).otherwise("kind"))


def with_a_curve(values: list[float]) -> Scores:
    scores = Scores()
    scores.parts = {"sap": {"accuracy_curve": np.array([[10.0, 100.0], values])}}
    scores.settings, scores.factors = {"sap": {}}, ("x", "y")
    return scores


def test_each_score_meets_each_number_of_a_task_over_the_runs_of_a_world() -> None:
    frame = as_task(results(noise(), metrics=("mig", "udr", "sap", "modularity")), "sap", "modularity")
    made = scores_against_tasks(frame, resamples=50)
    assert len(made) == 2 * 2 * 2
    row = made.filter(world="blocks", score="udr", task="sap").row(0, named=True)
    expected = scipy.stats.spearmanr(column(frame, "udr"), column(frame, "sap")).statistic
    assert row["value"] == pytest.approx(expected)
    assert row["low"] < expected < row["high"]
    assert row["n"] == 36


def test_within_methods_only_the_runs_of_one_method_count() -> None:
    rng = np.random.default_rng(0)
    level = {"beta_vae": 0.0, "annealed_vae": 10.0}
    values = {}

    def value(world: str, method: str, strength: float, seed: int, metric: str) -> float:
        """Between methods both numbers rise together; within a method one falls where the other rises."""
        base = values.setdefault((world, method, strength, seed), rng.uniform())
        return level.get(method, 10.0) + (base if metric == "mig" else -base)

    frame = as_task(results(value), "sap")
    assert (scores_against_tasks(frame, resamples=10)["value"] > 0.3).all()
    within = scores_against_tasks_within_methods(frame, resamples=10)
    assert len(within) == 4
    assert within["value"].to_list() == pytest.approx([-1.0] * 4)


def test_groups_are_thirds_of_the_runs_by_a_metric_the_worst_first() -> None:
    rng = np.random.default_rng(1)
    known: dict[tuple, float] = {}

    def value(world: str, method: str, strength: float, seed: int, metric: str) -> float:
        base = known.setdefault((world, method, strength, seed), rng.uniform())
        return {"mig": base, "dci_nrmse": 1 - base, "sap": 10 * base}[metric]

    frame = as_task(results(value, metrics=("mig", "dci_nrmse", "sap")), "sap")
    made = tasks_by_group(frame)
    scores = np.sort(column(frame, "mig"))
    for metric in ("mig", "dci_nrmse"):  # of which the lower is the better
        rows = made.filter(world="blocks", metric=metric)
        assert rows["group"].to_list() == ["low", "middle", "high"]
        assert rows["n"].to_list() == [12, 12, 12]
        means = [10 * scores[start : start + 12].mean() for start in (0, 12, 24)]
        assert rows["value"].to_list() == pytest.approx(means)
    rows = made.filter(world="blocks", metric="mig")
    assert rows["from"].to_list() == pytest.approx(scores[[0, 12, 24]])
    assert rows["to"].to_list() == pytest.approx(scores[[11, 23, 35]])


def test_curves_are_means_over_the_runs_of_a_method(tmp_path: Path) -> None:
    frame = as_task(results(noise(), worlds=("blocks",)), "sap")
    for number, run in enumerate(frame["run"].unique().sort()):
        save_parts(tmp_path, run, with_a_curve([number / 100, 0.9]))
    runs = as_runs(frame, folder=tmp_path)
    made = task_curves(runs)
    assert set(made["curve"]) == {"accuracy"}
    first = made.filter(method=runs.unique("method")[0], place=10.0).row(0, named=True)
    numbers = [int(run, 16) / 100 for run in runs.grouped_by("method").__next__()[1].run_column("run")]
    assert first["value"] == pytest.approx(np.mean(numbers), abs=1e-6)
    assert first["n"] == 18
    assert made.filter(place=100.0)["value"].to_list() == pytest.approx([0.9, 0.9])
    names = {table.table.name for table in make_tables(runs, resamples=10)[0]}
    assert {"task_curves", "tasks_by_group", "scores_against_tasks"} <= names


def test_without_a_task_the_tables_say_what_they_need() -> None:
    made, lacking = make_tables(results(noise()), resamples=10)
    assert not {"task_curves", "scores_against_tasks"} & {table.table.name for table in made}
    assert "--tasks" in lacking["scores_against_tasks"]


def test_a_report_says_whether_the_leading_score_goes_with_use() -> None:
    rng = np.random.default_rng(2)
    known: dict[tuple, float] = {}

    def value(world: str, method: str, strength: float, seed: int, metric: str) -> float:
        base = known.setdefault((world, method, strength, seed), rng.uniform())
        return base if metric == "mig" else rng.uniform() if metric == "modularity" else -base

    frame = as_task(results(value, metrics=("mig", "dci_nrmse", "modularity")), "dci_nrmse", "modularity")
    sentences = [sentence for sentence in findings(frame) if "tasks" in sentence]
    assert len(sentences) == 1
    assert "better MIG do better in 1 of 2 numbers from tasks, most clearly in DCI prediction error" in sentences[0]
    nothing = as_task(results(noise(), metrics=("mig", "sap")), "sap")
    assert any("no link was found between MIG" in sentence for sentence in findings(nothing))
