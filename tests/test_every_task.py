"""What holds for every task, over the registry."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from families import BLOCKS, small_runs
from sober.errors import RequestError
from sober.metrics import Measured
from sober.metrics.common.flags import FLAGS
from sober.requests.results import Results
from sober.requests.train import train
from sober.tasks import TASKS, Subjects, task_of
from sober.types import Setting

EVERY_TASK = sorted(TASKS)


class Tried(NamedTuple):
    """A task performed with three models of its own kind, and with what."""

    subjects: Subjects
    settings: dict[str, Setting]
    outcomes: list[Measured]


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Results:
    runs = small_runs("beta_vae", {"beta": [1.0]}, seeds=3, steps=200, latents=6, batch=64)
    return train(runs, BLOCKS, tmp_path_factory.mktemp("every_task") / "family")


@pytest.fixture(scope="module")
def subjects(family: Results) -> Subjects:
    runs, codes = zip(*family.encode(), strict=True)
    return Subjects(codes, runs, BLOCKS, None, family.model)


@pytest.fixture(scope="module")
def tried(subjects: Subjects) -> dict[str, Tried]:
    """Each task once, whoever asks first."""

    class Once(dict):
        def __missing__(self, name: str) -> Tried:
            settings = TASKS[name].configured(changes=TASKS[name].quick, world=BLOCKS)
            self[name] = Tried(subjects, settings, TASKS[name](subjects, settings))
            return self[name]

    return Once()


def assert_same(one: Measured, other: Measured) -> None:
    assert one.values.keys() == other.values.keys()
    for name, value in one.values.items():
        assert value == pytest.approx(other.values[name], rel=1e-3, abs=0.02), name
    assert one.flags == other.flags


@pytest.mark.parametrize("name", EVERY_TASK)
def test_every_number_is_finite_within_its_range_and_explained(name: str, tried: dict[str, Tried]) -> None:
    task, outcomes = TASKS[name], tried[name].outcomes
    assert len(outcomes) == 3
    for outcome in outcomes:
        assert outcome.values
        assert set(outcome.values) <= set(task.scores)
        assert set(outcome.flags) <= set(FLAGS)
        for score, value in outcome.values.items():
            assert np.isfinite(value)
            assert task.scores[score].low <= value <= task.scores[score].high, score
        assert all(error >= 0 and np.isfinite(error) for error in outcome.errors.values())
        assert all(np.isfinite(part).all() for part in outcome.parts.values())


@pytest.mark.parametrize("name", EVERY_TASK)
def test_the_same_seed_gives_the_same_numbers(name: str, tried: dict[str, Tried]) -> None:
    subjects, settings, outcomes = tried[name]
    for one, other in zip(outcomes, TASKS[name](subjects, settings), strict=True):
        assert one.values == pytest.approx(other.values, rel=1e-6)


@pytest.mark.parametrize("name", EVERY_TASK)
def test_company_does_not_matter(name: str, tried: dict[str, Tried]) -> None:
    subjects, settings, outcomes = tried[name]
    alone = TASKS[name](subjects.only([1]), settings)[0]
    assert_same(alone, outcomes[1])
    turned = TASKS[name](subjects.only([2, 0]), settings)
    assert_same(turned[0], outcomes[2])
    assert_same(turned[1], outcomes[0])


@pytest.mark.parametrize("name", EVERY_TASK)
def test_what_it_declares_is_so(name: str) -> None:
    task = TASKS[name]
    assert task.name == name
    assert task.summary
    assert task.reference
    assert any(meaning.headline for meaning in task.scores.values()), "some number speaks for the others"
    assert all(score.startswith(name) and task_of(score) is task for score in task.scores)
    assert set(task.quick) <= set(task.settings)
    assert task.steps in {"", *task.settings}
    settings = task.configured(world=BLOCKS)
    assert set(settings) == set(task.settings) - task.later, "settings added later are left out at their defaults"
    assert task.configured(changes=settings, world=BLOCKS) == settings, "settings in full stay as they are"
    few, many = (task.cost(settings, models) for models in (10, 100))
    assert few.seconds + few.steps > 0
    assert few.seconds <= many.seconds
    assert few.steps == many.steps
    if task.steps:
        longer = {**settings, task.steps: 2 * int(settings[task.steps])}
        assert sum(task.cost(longer, 10)) > sum(few)


@pytest.mark.parametrize("name", EVERY_TASK)
def test_settings_that_there_are_not_are_refused(name: str) -> None:
    with pytest.raises(RequestError, match=f"{name} has no setting 'colour'"):
        TASKS[name].configured(changes={"colour": 1.0})


@pytest.mark.parametrize("name", EVERY_TASK)
def test_its_rows_come_into_the_table_of_a_folder(name: str, family: Results) -> None:
    rows = family.score((), tasks={name: TASKS[name].quick}, pictures=2_000)
    assert set(rows["kind"]) == {"task"}
    assert set(rows["run"]) == {run.identity for run in family.finished}
    assert set(rows["metric"]) <= set(TASKS[name].scores)
    assert rows["value"].is_finite().all()
    again = family.score((), tasks={name: TASKS[name].quick}, pictures=2_000)
    assert again.equals(rows)


@pytest.mark.parametrize("name", EVERY_TASK)
def test_it_has_a_page(name: str) -> None:
    pages = Path(__file__).parents[1] / "docs" / "tasks"
    assert (pages / f"{name}.md").exists()
    assert f"[{name}]({name}.md)" in (pages / "index.md").read_text(encoding="utf-8")
